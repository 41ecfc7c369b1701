"""Predicts the seconds of a segment on a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from ...analytic.estimate import device_of
from ...analytic.gemm import CONSTANTS, estimator
from ...analytic.gpu.compiled import DISPATCH, count, price_kernels
from ...analytic.gpu.kernels import ON_TPU, Kernel
from ...analytic.operations import Cost, Costs, rows_of
from ...analytic.schemes import Scheme
from ...analytic.vector import constants_of
from ...base.collecting import uncollected
from ...graph.graph import Graph
from ...machine.device import Device
from ...machine.machine import Machine
from ...results.checks import LINE
from .sending import Exchange, exchange_program

__all__ = ["ClosedForms", "Engine", "Predicted", "SegmentPredictor"]

STEADY = 64 << 20  # simulates at most twice these bytes per direction; the rest has the second half's rate


@dataclass(frozen=True)
class Predicted:
    """Seconds of a segment by term, their source, number of kernels, and moved bytes."""

    seconds: float
    terms: dict[str, float]
    provenance: str
    kernels: int = 0
    bytes: float = 0.0
    notes: tuple[str, ...] = field(default=())


class SegmentPredictor(Protocol):
    """Interface of predictors; `seconds` is called once for equal segments."""

    name: str

    def seconds(self, segment: Graph, device: Any) -> Predicted:
        """Predicts the time of a graph without communication."""
        ...


class ClosedForms:
    """Predicts by the closed forms of `ts.estimate`, on GPUs and TPUs with XLA's kernels.

    On a TPU, a kernel takes its memory time or its compute time, whichever is longer; products include the
    loops that XLA fuses with them.
    """

    name = "closed"

    @uncollected()
    def seconds(self, segment: Graph, device: Any) -> Predicted:
        """Predicts by closed forms, without the host's launches, which are counted separately."""
        target = device_of(device)
        if target.kind == "gpu":
            counted = count(segment, "xla")
            priced = price_kernels(counted, target)
            rows, notes = priced.costs, priced.notes
            moved = sum(kernel.bytes for kernel in priced.kernels)
            kernels = sum(kernel.launches for kernel in priced.kernels)
        elif target.kind == "tpu":
            rows, notes, made = _on_tpu(segment, target)
            moved = sum(kernel.bytes for kernel in made)
            kernels = sum(kernel.launches for kernel in made)
        else:
            found, notes = Costs(target, None, "", None).price(segment.core)
            rows = rows_of(found)
            moved = sum(row.bytes for row in rows if row.seconds > 0)
            kernels = sum(row.seconds > 0 for row in rows)
        terms: dict[str, float] = {}
        for row in rows:
            own = {name: value for name, value in row.terms.items() if name != "host"}
            longest = max(own, key=lambda name: own[name]) if own else ""
            took = row.seconds - row.terms.get("host", 0.0)
            if longest:
                terms[longest] = terms.get(longest, 0.0) + took
        total = sum(row.seconds - row.terms.get("host", 0.0) for row in rows)
        return Predicted(total, terms, f"closed forms of {target.name}", kernels, moved, tuple(notes))

    @staticmethod
    def host_seconds(kernels: int, device: Device) -> float:
        """Returns the seconds that the host needs to launch kernels."""
        return kernels * DISPATCH["xla"] if device.kind == "gpu" else 0.0


class _ArrayCosts(Costs):
    """Prices products at the arrays' peak rate; exposed loads are counted separately."""

    def _give_product(self, form: str, dtype: str, how: Scheme) -> None:
        found = estimator(self.device, how)
        rate = self.device.rate(how.arithmetic).flops_per_second
        self.model.give_product(form, dtype, found.core({"efficiency": 1.0}), how.name, "", rate)


def _on_tpu(segment: Graph, device: Device) -> tuple[list[Cost], list[str], list[Kernel]]:
    """Prices products together with their fused loops; array steps overlap the kernel's memory traffic."""
    counted = count(segment, "xla", tpu=True)
    found, notes = _ArrayCosts(device, None, "", None).price(counted.core)
    calls = rows_of(found)
    at = constants_of(device, "copy", "fp32").constants
    rate = device.memory.bytes_per_second * at["memory_share"]
    rows = []
    for kernel in counted.kernels:
        terms = {"memory": kernel.bytes / rate, "compute": kernel.flops / device.vector_rate("f32")}
        took = max(terms.values())
        if kernel.call >= 0:
            call = calls[kernel.call]
            if call.kind not in ("contract", "convolution"):
                rows.append(call)
                continue
            # the smaller operand is on the chip before a product starts (docs/explanation/compute_and_fusion.md)
            first, overlap = kernel.panel / rate, float(CONSTANTS["overlap"]["default"])
            beside = [terms["memory"] - first, terms["compute"], call.terms["compute"]]
            took = call.terms["launch"] + first + sum(term**overlap for term in beside) ** (1 / overlap)
            terms = {"memory": terms["memory"], "vector": terms["compute"], "compute": call.terms["compute"]}
        rows.append(Cost(kernel.name, "fused", took, terms, kernel.bytes, kernel.flops, "f32", kernel.kind, None, None))
    said = [note for note in notes if not note.startswith("elementwise operations behind")]
    share = f"a kernel's time is its bytes over {at['memory_share']:.2g} of the memory's rate, or its arithmetic"
    return rows, [*said, ON_TPU, share], counted.kernels


class Engine:
    """Predicts by compiling a segment for a Machine and simulating it."""

    name = "engine"

    def seconds(self, segment: Graph, device: Any) -> Predicted:
        """Compiles and simulates a segment."""
        from ...timing.simulate import compile, simulate

        machine = Machine.load(device)
        result = simulate(compile(segment, machine))
        operations = sum(1 for row in result.data["operations"] if row.get("cycles", 0))
        return Predicted(
            result.seconds, {str(result.bottleneck): result.seconds}, f"simulated on {machine.name}", operations,
            float(result.memory_bytes), tuple(result.data.get("approximations", ())),
        )  # fmt: skip

    @staticmethod
    def exchanged(exchange: Exchange, device: Any) -> Predicted:
        """Simulates one device in a communication: loads, sends, receives, adds and stores tiles."""
        machine, most = Machine.load(device), max(exchange.sent, exchange.received)
        if most <= 2 * STEADY:
            return _exchanged(exchange, machine)
        less, more = (_exchanged(exchange.part(times * STEADY), machine) for times in (1, 2))
        further = most / STEADY - 2

        def extended(one: float, two: float) -> float:
            return two + (two - one) * further

        terms = {name: extended(less.terms[name], value) for name, value in more.terms.items()}
        note = f"communication of more than {2 * STEADY >> 20} MiB each way: simulated so far, then linear"
        return Predicted(
            extended(less.seconds, more.seconds),
            terms,
            more.provenance,
            bytes=extended(less.bytes, more.bytes),
            notes=(*more.notes, note),
        )


def _exchanged(exchange: Exchange, machine: Machine) -> Predicted:
    from ...timing.simulate import simulate

    data = simulate(exchange_program(machine, exchange)).data
    busy = {"link": 0, "memory": 0, "compute": 0}
    for unit in data["units"]:
        name = {"other": "link", "vector": "compute", "load": "memory", "store": "memory",
                "channel": "memory"}.get(unit["kind"])  # fmt: skip
        if name:
            busy[name] = max(busy[name], unit["cycles"]["busy"])
    moved = float(data["memory_read_bytes"] + data["memory_written_bytes"])
    terms = {name: cycles / machine.hertz for name, cycles in busy.items()}
    notes = [one for one in data["approximations"] if not one.startswith(LINE)]  # closed forms have no link
    return Predicted(data["cycles"] / machine.hertz, terms, f"simulated on {machine.name}", bytes=moved,
                     notes=tuple(notes))  # fmt: skip
