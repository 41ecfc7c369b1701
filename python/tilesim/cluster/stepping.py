"""Times one step of a layered workload on many devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.arguments import one_of, unused
from ..base.checked import checked
from ..base.collecting import heard
from ..base.errors import shown, user_error
from ..base.store import Store
from ..graph.graph import Graph
from ..machine.device import Device
from ..models.layered import Layered
from ..models.layered_presets import layered, layered_names
from .closed import Ordered, StepTimes, times
from .cluster import Cluster
from .columns import Columns, columns
from .fabric import Fabric, as_run, fabric_of, sized_fabric, with_library, with_prices
from .frameworks import Framework
from .hosts.offload import check as check_host
from .hosts.straggling import slower
from .inference.closed import times as forward_times
from .inference.memory import memory as forward_memory
from .memory import Memory, memory
from .networks.flowing import flowing
from .pipelines.stages import through as carried
from .plan import Plan
from .result import StepResult, too_large
from .spmd import Spmd
from .terms import Pricer
from .training.replicas import placed

__all__ = ["framework_of", "priced", "step"]

Array = NDArray[np.float64]


def framework_of(device: Device, plan: Plan, phase: str = "train") -> str:
    """The default framework: serving for inference, xla on TPUs, fsdp if zero3 shards parameters, else megatron."""
    if phase != "train":
        return "serving"
    if device.kind == "tpu":
        return "xla"
    replicas = plan.data * plan.context * (2 if plan.schedule == "dualpipe" else 1)
    return "fsdp" if plan.shard == "zero3" and replicas > 1 else "megatron"  # a single replica shards nothing


_PRICERS: dict[tuple[str, str], Pricer] = {}


def pricer(device: Device, dtype: str) -> Pricer:
    """Returns the cached pricer of a device and a workload's dtype."""
    dtype = {"bf16-amp": "bf16"}.get(dtype, dtype)
    kept = _PRICERS.get((device.name, dtype))
    if kept is None or kept.device != device:  # another device has the same name
        kept = _PRICERS[device.name, dtype] = Pricer(device, dtype)
    return kept


def priced(
    steps: Sequence[tuple[Layered, Plan]], fabric: Fabric, framework: Framework, overlap: str = "library"
) -> tuple[Columns, StepTimes, Memory]:
    """Computes times and bytes of many steps of one dtype and phase."""
    table = placed(columns(steps), fabric)
    constants = dict(framework.constants)
    if overlap == "none":
        constants["interference"] = 1.0
    price = pricer(fabric.device, steps[0][0].dtype)
    phase = steps[0][0].phase
    return table, timed(phase, table, price, fabric, constants), memory_of_steps(phase, table, fabric, constants)


def timed(
    phase: str, table: Columns, price: Any, fabric: Fabric, constants: Mapping[str, float], ordered: Ordered = carried
) -> StepTimes:
    """Computes times of steps with the closed forms of their phase."""
    table = placed(table, fabric)
    if len(table):
        fabric = with_prices(fabric, constants, fabric.devices or int(table.devices[0]))
    if phase != "train":
        return forward_times(table, price, fabric, constants)
    return times(table, price, fabric, constants, ordered)


def memory_of_steps(phase: str, table: Columns, fabric: Fabric, constants: Mapping[str, float]) -> Memory:
    """Computes bytes of steps with the closed forms of their phase."""
    table = placed(table, fabric)
    return forward_memory(table) if phase != "train" else memory(table, constants)


def plan_for(workload: Layered, fabric: Fabric) -> Plan:
    """Returns the default plan: one replica per device."""
    return Plan(data=max(1, fabric.devices))


@checked()
@heard
def step(
    workload: Layered | Spmd | Graph | str | os.PathLike[str],
    cluster: Any,
    plan: Plan | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    predictor: Any = "closed",
    network_model: str = "closed",
    overlap: str = "library",
    library: Any = None,
    symmetry: bool = True,
    *,
    framework: str | None = None,
    check_memory: bool = True,
    slow: Mapping[int, float] | None = None,
    store: Store | str | os.PathLike[str] | None = None,
) -> StepResult:
    """Computes time and memory of one step of a layered workload, or of a program for several devices.

    Args:
        workload: a layered workload of `ts.workloads.transformer_step`, its name ("gpt3-175b") or file; or a
            `ts.cluster.Spmd`, a Graph (with shardings it is partitioned first), a StableHLO module, a saved Spmd, or a
            training graph's name ("llama3-100m" to "llama3-3b" under FSDP, "resnet18" to "resnet200" with a sharded
            batch).
        cluster: a `ts.Cluster`, or its name with a number of devices, such as "dgx-a100:64".
        plan: for a layered workload, a source for `Plan.load` ("tensor=8,pipeline=4"); default: replicas over all
            devices.
        predictor: of segments between communications: "closed", "table:FILE.csv", "table:FILE.csv:interpolate",
            "engine", or an object with `name` and `seconds(segment, device)`. Layered workloads: "closed".
        network_model: "closed", "flows", "chunks". Layered workloads: "closed", "flows" (concurrent calls of all groups
            that share links in a node, at the framework's shares of link rates).
        overlap: "none": communication is fully exposed. Layered: "ready", "library": parameters are prefetched, and
            gradients reduced in the background, at the framework's cost. Programs: "ready": operations start when
            operands and stream are available; "library" also combines small collectives, and runs products in parts
            concurrently with their gather or scatter if faster.
        library: a communication library or its name ("plain": bytes over rates); default: for inference the cluster's
            library, else the framework's shares of link rates, which were compared with measured steps; for
            programs only the network. The heading names the choice.
        symmetry: whether to simulate equal devices once (the same picoseconds); always true for closed forms.
        framework: "megatron", "fsdp", "xla", "serving", "unfitted"; default: by plan and phase. Not for programs.
        check_memory: whether a step that exceeds a device's memory raises an error; if False, see `fits`.
        slow: factors on compute times by device number ({3: 1.1} is a straggler), in addition to the cluster's faults.
        store: store of predicted segments, or its path; later steps with equal segments, device and predictor reuse it.
            Not for layered workloads.

    Returns:
        Time by part, and bytes per device class.

    Raises:
        Unsupported: for an operation that the predictor does not support; a data-dependent loop with communication.
        UserError: for an unknown name, a plan that does not fit workload, cluster or memory, an offload without a host
            link rate of the cluster.
    """
    if not isinstance(workload, Layered) and not (isinstance(workload, str) and workload in layered_names()):
        from .programs.calling import Options, program_of, step_program  # slow import that layered steps do not need

        program = program_of(workload, cluster)
    else:
        program = None
    if program is not None:
        unused("the option does not apply to a program of several devices", "none, or a layered workload",
 plan=(plan, None), framework=(framework, None))  # fmt: skip
        return step_program(program, cluster, Options(predictor, network_model, overlap, library, symmetry, slow, store,
                                                      check_memory))  # fmt: skip
    if not isinstance(workload, (Layered, str, os.PathLike)):
        raise user_error("not a workload of a cluster", place="workload", value=shown(workload),
                         allowed="a layered workload, a ts.cluster.Spmd, a Graph, a name or file")  # fmt: skip
    unused("the option does not apply to a layered workload", "no store, or a program",
           store=(store, None))  # fmt: skip
    one_of("unknown predictor of layered workloads", "predictor", predictor, "closed")
    one_of("unknown network of layered workloads", "network_model", network_model, "closed", "flows")
    one_of("unknown overlap", "overlap", overlap, "none", "ready", "library")
    workload = workload if isinstance(workload, Layered) else layered(workload)
    plan = None if plan is None else Plan.load(plan)
    named = isinstance(cluster, str) and cluster in Cluster.names()
    fabric = fabric_of(
        cluster, plan.devices if named and plan else None
    )  # a name without a number gets the plan's devices
    fabric = slower(with_library(fabric, library), slow)
    given = plan is not None
    plan = plan_for(workload, fabric) if plan is None else plan
    if not given and workload.global_batch % plan.data:
        raise user_error(
            "the default plan needs a batch that is divisible by the devices", place="plan",
            value=f"{workload.global_batch:,} sequences, {plan.data:,} devices", allowed=f"multiples of {plan.data:,}",
            suggestion="Give a plan such as tensor=8, or use tilesim cluster search (ts.cluster.search)",
        )  # fmt: skip
    plan.check(workload, fabric.devices or None)
    plan = plan.filled(workload)
    fabric = sized_fabric(fabric, plan.devices)
    check_host(plan, fabric)
    used = Framework.load(framework or framework_of(fabric.device, plan, workload.phase))
    fabric = as_run(fabric, used, network_model)
    if network_model == "flows":
        if library is not None:
            raise user_error("a library has its own cost model", place="network_model", value="flows",
                             allowed="closed, or no library")  # fmt: skip
        fabric = replace(with_prices(fabric, used.constants, plan.devices, "flows"), devices=plan.devices)
        if fabric.prices is None:
            fabric = replace(fabric, prices=flowing(fabric, used.constants))
    table, found, bytes_ = priced([(workload, plan)], fabric, used, overlap)
    result = StepResult.of(workload, plan, fabric, used, table, found, bytes_, overlap, network_model)

    def again(other: Plan, fabric: Fabric = fabric, overlap: str = overlap) -> StepResult:
        fabric = replace(fabric, prices=None)
        return step(workload, fabric, other, network_model=network_model, overlap=overlap, library=library,
                    framework=used.name, check_memory=False)  # fmt: skip

    result = replace(result, again=again)
    if check_memory and not result.fits:
        advice = "Increase tensor or pipeline, or use shard=zero1 to zero3, recompute=full, or a smaller micro_batch"
        if workload.phase != "train":
            advice = "Increase tensor, pipeline or context, or use a smaller batch or a shorter context"
        if not given:
            advice = "Find a plan that fits with tilesim cluster search (ts.cluster.search)"
        raise too_large(result, f"plan {result.plan.text()}", advice)
    return result
