"""Times one step of a program for several devices."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ... import _core
from ...analytic.estimate import device_of
from ...base.arguments import one_of
from ...base.collecting import uncollected
from ...base.errors import UserError, path_text, user_error
from ...base.table import Table
from ...graph.graph import Graph
from ...machine.device import Device
from ...models.llama_training import LLAMA3, llama3
from ...models.resnet_training import RESNETS, resnet_training_step
from ..chakra.matching import quotient
from ..chakra.replayed import Replay, length, union
from ..chakra.running import ordered, run
from ..chakra.sharing import Sharing
from ..cluster import Cluster
from ..frameworks import Framework
from ..hosts.faults import computing
from ..hosts.straggling import factors_of
from ..partition import partition
from ..pipelines.result import PICO
from ..result import too_large
from ..spmd import Spmd, needs_partitioning
from .decomposing import Ring
from .device_communication import DeviceCommunication
from .liveness import peak_bytes
from .measured import MeasuredTimes
from .predicting import ClosedForms, Engine, Predicted
from .predictors import check_machine, checked_prediction, predictor_of
from .result import ProgramResult
from .scheduling import Communication, order_of, trace_of
from .split_products import in_parts
from .splitting import ProgramPart, Split, graph_of, split
from .stored_predictions import StoredPredictions, opened

__all__ = ["OVERLAPS", "Options", "program_of", "step_program"]

TOGETHER = 64  # predictions per write to the store
OVERLAPS = ("none", "ready", "library")
_MATRIX = ("contract", "convolution", "attention", "ragged_contract")


@dataclass(frozen=True)
class Options:
    """Options of a step, from `ts.cluster.step`."""

    predictor: Any = "closed"
    network: str = "closed"
    overlap: str = "library"
    library: Any = None
    symmetry: bool = True
    slow: Mapping[int, float] | None = None
    store: Any = None
    check_memory: bool = True


def program_of(workload: Any, cluster: Any = None) -> Spmd | None:
    """Converts a workload to a program for several devices, or returns None."""
    if isinstance(workload, (str, os.PathLike)):
        path = path_text(workload, "workload")
        if path.endswith(".spmd.json"):
            return Spmd.load(path)
        if path in LLAMA3:
            return partition(llama3(path, Cluster.load(cluster).devices))
        if path in RESNETS:
            return partition(resnet_training_step(path, Cluster.load(cluster).devices))
        if not path.endswith((".mlir", ".stablehlo")):
            return None
        from ...loading import as_graph

        workload = as_graph(path)
    if isinstance(workload, Spmd):
        return workload
    if not isinstance(workload, Graph):
        return None
    if needs_partitioning(workload) or workload.devices > 1:
        return partition(workload)
    return Spmd([workload], 1)


def step_program(spmd: Spmd, cluster: Any, options: Options, known: dict[str, Predicted] | None = None) -> Any:
    """Computes time and memory of one step of a program."""
    one_of("unknown overlap", "overlap", options.overlap, *OVERLAPS)
    one_of("unknown network model", "network_model", options.network, "closed", "flows", "chunks")
    if options.library is not None and options.network != "closed":
        raise user_error("a library has its own network model", place="network_model", value=options.network,
                         allowed="network_model='closed', or remove library=")  # fmt: skip
    predictor = predictor_of(options.predictor)
    target = Cluster.load(cluster)
    if target.device is None:
        raise user_error("the cluster has no compute devices", place="cluster", value=target.name,
                         allowed="ts.Cluster(device=...), or a shipped cluster")  # fmt: skip
    if target.devices < spmd.devices:
        raise user_error(
            "the program needs more devices than the cluster has",
            place="cluster",
            value=f"{target.devices} of {target.name}",
            allowed=f"{spmd.devices} or more",
            suggestion=f"{target.name.partition(':')[0]}:{spmd.devices} if the cluster has this size",
        )
    if isinstance(predictor, Engine):
        check_machine(target)
    known = {} if known is None else known
    step = _ProgramStep(spmd, target, options, predictor, known, [graph.core for graph in spmd.graphs])
    result = step.result()
    if options.overlap == "library" and not isinstance(predictor, MeasuredTimes):  # a table has only unsplit products

        def again(core: _core.Graph) -> ProgramResult:
            return _ProgramStep(spmd, target, options, predictor, known, [core]).result()

        price, device = step.price(), step.device()

        def passes(ring: Ring) -> float:
            op = "all_gather" if ring.gathers else "reduce_scatter"
            return price(op, ring.bytes, ring.groups[0], 0, ring.name) / PICO

        result = in_parts(spmd, device is not None and device.kind == "gpu", result, again, passes)
    if options.check_memory and not result.fits:
        raise too_large(result, f"program {spmd.name}", "Shard it over more devices or over another axis")
    return result


@dataclass
class _ProgramStep:
    spmd: Spmd
    cluster: Cluster
    options: Options
    predictor: Any
    predictions: dict[str, Predicted]
    cores: list[_core.Graph]  # graphs of the program, with some products split
    splits: list[Split] = field(default_factory=list)

    def result(self) -> ProgramResult:
        options, spmd = self.options, self.spmd
        combine = options.overlap == "library"
        with uncollected():
            self.splits = [split(core, spmd.devices, combine) for core in self.cores]
        self.predict_all()
        with uncollected():
            return self.timed()

    def timed(self) -> ProgramResult:
        """Computes the result of the step from the predictions."""
        options, spmd = self.options, self.spmd
        price = self.price()
        trace = ordered(trace_of(spmd.name, self.splits, spmd.classes,
                                 lambda part, _: self.predictions[part.key].seconds, price,
                                 serial=options.overlap == "none", slow=self.slow()))  # fmt: skip
        trace.check()
        found = quotient(trace, price, options.symmetry, Sharing(self.cluster, trace, price))
        if isinstance(price, DeviceCommunication):
            price.note(found)
        ran = run(trace, found, self.slowing())
        return self.result_of(Replay.of(trace, found, ran, self.cluster.name, options.network), price)

    def price(self) -> Communication:
        options = self.options
        asked = (self.cluster, options.network, options.library, options.symmetry)
        return (
            DeviceCommunication(*asked, predicted=self.predictions)
            if isinstance(self.predictor, Engine)
            else Communication(*asked)
        )

    def slowing(self) -> float:
        """Returns the share of its rate that compute loses during communication in programs compiled by XLA."""
        return Framework.load("xla").constants["interference"]

    def slow(self) -> dict[int, float]:
        """Returns the slow-down factors of devices, from the call and from the cluster's faults."""
        found = factors_of(self.options.slow or {}, self.spmd.devices)
        for device, share in computing(self.cluster.faults, self.cluster.devices):
            if device < self.spmd.devices:
                found[device] = found.get(device, 1.0) / share
        return found

    def predict_all(self) -> None:
        """Predicts each distinct segment, or reads it from the store; new predictions go to the store."""
        wanted = {key: (each, part) for each in self.splits for key, part in each.distinct.items()}
        missing = [key for key in wanted if key not in self.predictions]
        if self.options.store is None:
            self.predictions.update((key, self.predict(*wanted[key])) for key in missing)
            return
        with opened(self.options.store) as store:
            kept = StoredPredictions(store, self.predictor, self.cluster.device)
            self.predictions.update(kept.get(missing))
            for at in range(0, len(missing), TOGETHER):  # a killed process loses at most this many predictions
                made = {
                    key: self.predict(*wanted[key])
                    for key in missing[at : at + TOGETHER]
                    if key not in self.predictions
                }
                self.predictions.update(made)
                kept.put(made)

    def predict(self, each: Split, part: ProgramPart) -> Predicted:
        if not part.operations:
            return Predicted(0.0, {}, "computed at its reader")
        return checked_prediction(self.predictor.seconds(graph_of(each, part), self.cluster.device), self.predictor)

    def result_of(self, replay: Replay, price: Communication) -> ProgramResult:
        device = self.device()
        last = max(range(len(replay.ran)), key=lambda number: replay.ran[number].end, default=0)
        parts = _parts(replay, last)
        number = next(i for i, devices in enumerate(self.spmd.classes)
                      if replay.found.units[last].devices[0] in devices)  # fmt: skip
        mine = self.splits[number]
        kernels = sum(self.predictions[part.key].kernels for part in mine.segments)
        seconds = replay.seconds
        if self.predictor.name == "closed" and device is not None:
            parts["host"] = max(0.0, ClosedForms.host_seconds(kernels, device) - seconds)
            seconds += parts["host"]
        options = self.options
        return ProgramResult(
            self.spmd, None, self.cluster.name, device.name if device else str(self.cluster.device), self.spmd.devices,
            "none", self.predictor.name, options.network, options.overlap, seconds, parts,
            _ideal(mine, device) / seconds if seconds and device else 0.0, self._memory(), replay.classes, {},
            {"compute": self._provenance(), "communication": self._library()},
            memory_bytes=float(device.memory.bytes) if device else 0.0, replayed=replay, segments=self._segments(),
            segments_distinct=len({key for each in self.splits for key in each.distinct}),
            segments_count=sum(len(each.segments) for each in self.splits), kernels=kernels,
            kernel_bytes=sum(self.predictions[part.key].bytes for part in mine.segments), notes=self._notes(),
            cluster_devices=self.cluster.devices, others=self.other_overlaps,
            exchanges=price.table() if isinstance(price, DeviceCommunication) else Table([]),
        )  # fmt: skip

    def device(self) -> Device | None:
        """Returns the cluster's device for closed forms, or None."""
        try:
            return device_of(self.cluster.device)
        except UserError:
            return None

    def _memory(self) -> dict[str, int]:
        each = [
            peak_bytes(one, order_of(one), list(core.aliases))
            for one, core in zip(self.splits, self.cores, strict=True)
        ]
        return max(each, key=lambda memory: sum(memory.values()))

    def _provenance(self) -> str:
        found = dict.fromkeys(one.provenance for one in self.predictions.values() if one.seconds)
        return "; ".join(list(found)[:4]) + (f"; {len(found) - 4} more" if len(found) > 4 else "")

    def _library(self) -> str:
        if self.options.library is None:
            return "the network without costs of a library"
        return f"library {getattr(self.options.library, 'name', self.options.library)}"

    def _segments(self) -> Table:
        rows = []
        for number, each in enumerate(self.splits):
            counts: dict[str, int] = {}
            for part in each.segments:
                counts[part.key] = counts.get(part.key, 0) + 1
            for key, part in each.distinct.items():
                found = self.predictions[key]
                rows.append({"segment": key, "first": part.name, "class": number, "count": counts[key],
                             "operations": len(part.operations), "kernels": found.kernels, "bytes": found.bytes,
                             "seconds": found.seconds, "terms": dict(found.terms)})  # fmt: skip
        return Table(sorted(rows, key=lambda row: -row["seconds"] * row["count"]))

    def _notes(self) -> list[str]:
        notes = [note for each in self.splits for note in each.flat.notes]
        if self.cluster.devices > self.spmd.devices:
            notes.append(f"{self.spmd.devices} of {self.cluster.devices} devices are used, the first ones")
        if self.options.overlap == "library":
            joined = sum(len(part.operations) - 1 for each in self.splits for part in each.parts if part.op)
            notes.append(f"library: {joined} small collectives combined up to 30 MiB, as in XLA")
        notes.append(
            f"during communication a device computes at {1 - self.slowing():.0%} of its rate, from framework xla "
            "(an assumption); concurrent transfers share a port"
        )
        notes.append("memory: in program order, without fragmentation and without memory inside kernels")
        predicted = {note for one in self.predictions.values() for note in one.notes}
        return list(dict.fromkeys([*notes, *sorted(predicted)]))

    def other_overlaps(self) -> dict[str, float]:
        """Returns the seconds of the step under each other value of `overlap`."""
        times = {}
        own = self.options
        for overlap in OVERLAPS:
            if overlap != own.overlap:
                changed = replace(own, overlap=overlap, check_memory=False)
                found = step_program(self.spmd, self.cluster, changed, self.predictions)
                times[overlap] = found.seconds
        return times


def _parts(replay: Replay, last: int) -> dict[str, float]:
    """Returns seconds of compute, of exposed communication by stream (without earlier streams), and of waiting."""
    if not replay.ran:
        return {"compute": 0.0, "interference": 0.0, "wait": 0.0}
    ran = replay.ran[last]
    streams: dict[str, list[tuple[int, int]]] = {}
    for stream, _, begin, end in ran.intervals:
        name = "compute" if stream == "compute" else stream[stream.find("network") :] if "network" in stream else ""
        if name:
            streams.setdefault(name, []).append((begin, end))
    covered = union(streams.pop("compute", []))
    nodes = replay.found.units[last].part.nodes
    slower = sum(more for place, more in ran.slowed.items() if nodes[place].kind == "compute") / PICO
    parts = {"compute": length(covered) / PICO - slower, "interference": slower}
    for name in sorted(streams):
        more = union([*covered, *streams[name]])
        parts[name] = (length(more) - length(covered)) / PICO
        covered = more
    parts["wait"] = (ran.end - length(covered)) / PICO
    return parts


def _ideal(split_: Split, device: Device | None) -> float:
    """Returns the seconds of all products at the device's peak rates."""
    if device is None:
        return 0.0
    total = 0.0
    own = {i for part in split_.segments for i in part.operations}
    for i in own:
        op = split_.flat.operations[i]
        if op.kind in _MATRIX and (flops := float(op.entry["flops"]["matrix"])):
            dtype = str(op.entry["operands"][0]["dtype"])
            for name in ("bf16",) if device.kind == "tpu" else (dtype, "bf16", "f16"):  # TPUs round f32 operands
                rate = device.rate(name).flops_per_second if name in device.matrix else 0.0
                if rate > 0:
                    total += flops / rate
                    break
    return total
