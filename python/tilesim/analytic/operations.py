"""Prices the operations of a graph in closed form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import _core
from ..base.errors import Unsupported
from ..graph import Graph
from ..machine.device import Device
from . import attention, conv, gemm, vector
from .profile import Profile
from .schemes import Scheme, scheme

__all__ = ["Cost", "Costs", "by_default", "flat_operations", "inlined", "narrower", "needed", "rows_of", "unfolded"]

SCHEME_OF_DTYPE = {"f64": "fp64", "f32": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8", "u8": "int8"}
SCHEME_OF_DTYPE |= {"f8e4m3fn": "fp8", "f8e5m2": "fp8_e5m2"}  # no cast is needed: the operands are already narrow
FLOATS = ("fp64", "fp32", "tf32", "fp16", "bf16")  # schemes that do not quantize


@dataclass
class Cost:
    """Seconds of one operation and of its terms, with the graph's bytes and FLOPs."""

    name: str
    kind: str
    seconds: float
    terms: dict[str, float]
    bytes: float
    flops: float
    scheme: str
    model: str
    hits: float | None  # share of bytes found in the shared cache level; None if not modelled
    occupancy: float | None  # share of the units that its tiles keep busy; None if not modelled

    @property
    def bound(self) -> str:
        """The longest term: compute, load, memory, launch, cast, split."""
        return max(self.terms, key=lambda key: self.terms[key]) if self.terms and self.seconds > 0 else "none"


class Costs:
    """The core's cost model for a device with a scheme, an engine and a profile."""

    def __init__(self, device: Device, scheme: str | None, engine: str, profile: Profile | None) -> None:
        """Stores the options; constants are looked up later, because they depend on a graph's dtypes."""
        self.device, self.scheme, self.engine, self.profile = device, scheme, engine, profile
        self._notes: dict[tuple[str, str], set[str]] = {}  # notes of the closed forms, by form and dtype
        self._model: _core.OperationModel | None = None

    @property
    def model(self) -> _core.OperationModel:
        """The core's cost model, created at first use."""
        if self._model is None:
            self._model = _core.OperationModel(
                units=float(self.device.units),
                memory_bytes_per_second=self.device.memory.bytes_per_second,
                convolves=self.device.kind == "gpu",
                lanes={name: self.device.vector_rate(name) for name in ("f16", "bf16", "f64", "f32")},
                copy=self._stream("copy"),
                softmax=self._stream("softmax"),
                norm=self._stream("ln"),
            )
        return self._model

    def complete(self, price: Callable[[_core.OperationModel], Any]) -> Any:
        """Calls `price` and adds the models that its result lacks, until none is missing; returns the result."""
        found = price(self.model)
        while found.missing:
            for form, dtype in found.missing:
                self._give(form, dtype)
            found = price(self.model)
        return found

    def price(self, graph: _core.Graph) -> tuple[_core.Costs, list[str]]:
        """Returns the costs of all operations of a graph, and the notes."""
        found = self.complete(lambda model: model.price(graph))
        return found, sorted({*found.notes, *(note for notes in self._notes.values() for note in notes)})

    def _stream(self, kind: str) -> dict[str, float]:
        return dict(vector.constants_of(self.device, kind, "fp32", profile=self.profile).constants)

    def _give(self, form: str, dtype: str) -> None:
        notes = self._notes.setdefault((form, dtype), set())
        try:
            if form == "attention":
                self._give_attention(dtype, self._unquantized(dtype, notes))
            elif form == "convolution":
                how = self._scheme_of(dtype, self.scheme, notes)
                found = conv.estimator_of(self.device, how.name, self.engine, profile=self.profile)
                self.model.give_convolution(dtype, conv.core_of(found), how.name)
            else:
                weights = form == "weights"
                how = self._scheme_of(dtype, self.scheme, notes) if weights else self._unquantized(dtype, notes)
                self._give_product(form, dtype, how)
        except Unsupported as error:
            self.model.give_lacking(form, dtype, f"{error}{self._remedy(dtype)}")

    def _remedy(self, dtype: str) -> str:
        """Returns a suggestion for products of an unsupported dtype; "" without one."""
        if not self.scheme and (found := narrower(self.device)):
            return f". {found}"
        rates = self.device.matrix.items()
        known = [name for name, rate in rates if rate.flops_per_second > 0 and name in SCHEME_OF_DTYPE]
        if not known:
            return ""
        wide = ", or scheme='int4_g128' (only weights) for a 16-bit graph" if dtype in ("i4", "u4") else ""
        return f". {self.device.name} multiplies {', '.join(known)}: convert the graph to one of them{wide}"

    def _give_product(self, form: str, dtype: str, how: Scheme) -> None:
        found = gemm.estimator(self.device, how, engine=self.engine, profile=self.profile)
        fitted = found.origin.startswith("profile")
        note = "" if fitted else f"products ({how.name}): constants of {found.origin}"
        rate = self.device.rate(how.arithmetic).flops_per_second
        self.model.give_product(form, dtype, found.core(), how.name, note, rate)

    def _give_attention(self, dtype: str, how: Scheme) -> None:
        phases = {
            phase: attention.core_of(
                self.device,
                how.name,
                how.name,
                attention.constants_of(self.device, phase, how.name, how.name, self.engine, self.profile).constants,
            )
            for phase in ("prefill", "decode")
        }
        self.model.give_attention(dtype, phases["prefill"], phases["decode"], how.name)

    def _scheme_of(self, dtype: str, wanted: str | None, notes: set[str]) -> Scheme:
        name = wanted or SCHEME_OF_DTYPE.get(dtype)
        if name is None:
            raise Unsupported(f"no scheme multiplies {dtype}; allowed: {', '.join(SCHEME_OF_DTYPE)}")
        how = scheme(name, self.device)
        if wanted is None and how.cast_bytes > 0:
            notes.add(f"products of {dtype}: the operands need no cast; results count 16 bits")
            return replace(how, cast_bytes=0.0)
        multiplied = by_default(how, self.device)
        if multiplied is not how:
            notes.add("f32 products round their operands to bf16, the default precision of this device")
        return multiplied

    def _unquantized(self, dtype: str, notes: set[str]) -> Scheme:
        """Returns the scheme of attention and of activation products, which weight quantization leaves in 16 bits."""
        if self.scheme is None:
            return self._scheme_of(dtype, None, notes)
        wanted = scheme(self.scheme, self.device)
        if wanted.name in FLOATS:
            return self._scheme_of(dtype, wanted.name, notes)
        halves = max(("bf16", "fp16"), key=lambda name: self.device.rate(name).flops_per_second)
        return self._scheme_of(dtype, halves if dtype in ("f32", "bf16") else None, notes)


def by_default(how: Scheme, device: Device) -> Scheme:
    """Returns the scheme with the device's default precision: on TPUs, f32 products run in bf16."""
    return replace(how, arithmetic="bf16") if device.kind == "tpu" and how.name == "fp32" else how


def inlined(graph: Graph) -> Any:
    """Returns a copy of the core's graph with inlined calls."""
    core = graph.core.copy()
    core.inline_calls()
    return core


def rows_of(found: _core.Costs) -> list[Cost]:
    """Converts the core's result to costs; raises `Unsupported` if the core rejected an operation."""
    if found.refused is not None:
        name, kind, why = found.refused
        error = Unsupported(f"operation {name} ({kind}): {why}")
        setattr(error, "operation", name)  # noqa: B010 - the class declares it
        raise error
    return [Cost(*row) for row in found.rows()]


def narrower(device: Device) -> str:
    """Returns the suggestion to quantize if a device multiplies i8 but no floats; else ""."""
    there = {name for name, one in device.matrix.items() if one.flops_per_second > 0}
    if "i8" not in there or there & {"f32", "f16", "bf16"}:
        return ""
    return "Quantize the workload: --quantize i8, ts.quantize(graph, 'i8'), ts.estimate(graph, device, scheme='w8a8')"


def flat_operations(graph: Graph) -> list[dict[str, Any]]:
    """Returns the operations of a graph with inlined calls."""
    return list(inlined(graph).operations())


def needed(graph: Graph) -> Graph:
    """Returns the graph without operations that no output needs."""
    smaller = graph.copy()
    return smaller if smaller.remove_dead_code() else graph


def unfolded(operations: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the operations that depend on inputs; compilers fold the others into constants."""
    fixed: set[str] = set()
    for op in operations:
        if all(x["name"] in fixed for x in op["operands"]) and not op["functions"] and op["kind"] != "input":
            fixed.update(x["name"] for x in op["results"] if x)
        else:
            yield op
