"""Options of the commands about clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ...base.declared import Stage, option
from ...base.errors import user_error
from ..options import MACHINE, WORKLOAD

LAYERED = "gpt3-175b, llama-3-70b, ..., or a JSON file of ts.workloads.transformer_step(...).save"
WorkloadFile = Annotated[str, typer.Argument(help=f"{LAYERED}.")]
AnyWorkload = Annotated[
    str,
    typer.Argument(
        help=f"{LAYERED}; a StableHLO module for several devices (.mlir, .stablehlo), a file of ts.cluster.Spmd.save "
        "(.spmd.json), llama3-100m, resnet50, ..."
    ),
]


@dataclass(frozen=True)
class ClusterOption(Stage):
    """The cluster."""

    panel = MACHINE

    cluster: str = option("", "NAME, NAME:devices (dgx-a100:64), or a file.", "--cluster", required=True)


@dataclass(frozen=True)
class LayeredSizes(Stage):
    """Sizes of a layered workload; defaults are those of its published training."""

    panel = WORKLOAD

    phase: str | None = option(None, "train, prefill or decode; default train.")
    batch: int | None = option(
        None, "Sequences over all devices; default: as trained, 1 for prefill and decode.", least=1
    )
    context: int | None = option(
        None, "Tokens of a sequence (in the cache for decode); default: as trained, or 2048.", least=1
    )
    dtype: str | None = option(None, "Type of weights and activations: bf16, f16, ...; default: as trained.")

    def of(self, workload: str) -> Any:
        """Returns the workload with these sizes; sizes of a workload without layers are an error."""
        from ...models.layered_presets import layered, layered_names

        given = self.given()
        if given and workload not in layered_names() and not workload.endswith(".json"):
            what = "these options apply only to layered workloads"
            raise user_error(what, place=", ".join(f"--{name}" for name in given), value=f"'{workload}'",
                             allowed=", ".join(layered_names()), suggestion="Leave the option out")  # fmt: skip
        return layered(workload, **given) if given else workload


@dataclass(frozen=True)
class StepOptions(Stage):
    """Options of a step; see the arguments of `ts.cluster.step`."""

    panel = MACHINE

    plan: str | None = option(
        None, "tensor=8,pipeline=4,... or a JSON file; default: replicas. Not for modules.", panel=WORKLOAD
    )
    predictor: str = option(
        "closed", "Predictor of kernels: closed; for modules also table:FILE.csv, table:FILE.csv:interpolate, engine."
    )
    network_model: str = option(
        "closed",
        "Network model: closed or flows; for modules also chunks; collectives and traces take all.",
        "--network",
        "--model",
    )
    overlap: str = option("library", "Overlap of communication: none, ready or library.")
    library: str | None = option(None, "Costs of a collective library: nccl, xla-tpu, plain, or a file.")
    framework: str | None = option(
        None, "megatron, fsdp, xla, serving or unfitted; default: by plan and phase. Not for modules."
    )
    symmetry: bool = option(True, "Simulate one device per class of equal devices.")
