"""Estimates a graph's time on a device in closed form."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import _core
from .._core import __version__ as version
from ..base.checked import checked, checked_class
from ..base.errors import listed
from ..base.figures import size
from ..graph import Graph, user_error
from ..graph.devices import device_notes
from ..loading import GraphLike, as_graph
from ..machine.device import Device
from ..machine.device_fields import MOST_RATE, MOST_UNITS
from ..machine.machine import Machine
from ..machine.target import load as load_target
from ..results.result import Advice, Result, Table
from .cache import pressure
from .counted_once import counted_once, products_per_second
from .gpu.compiled import count, price_kernels
from .gpu.kernels import Kernel
from .gpu.serving import FRAMEWORK, is_served
from .operations import Cost, Costs, needed, rows_of
from .profile import Profile, engine_named

__all__ = ["Estimate", "device_of", "estimate"]

DeviceLike = Device | Machine | str | os.PathLike[str] | Mapping[str, Any]


def device_of(source: DeviceLike, labels: bool = False) -> Device:
    """Loads a device from a name, file, dict, Device, Machine, or machine name."""
    return Device.load(load_target(source, labels))


@checked_class()
class Estimate(Result):
    """A closed-form result: the figures of a simulation, and the terms of each operation."""

    def __init__(
        self, data: dict[str, Any], costs: list[Cost], redo: Any = None, launched: Sequence[Kernel] = ()
    ) -> None:
        """Wraps the JSON form."""
        super().__init__(data)
        self.costs = costs
        self._redo = redo
        self._kernels = list(launched)

    def __getstate__(self) -> dict[str, Any]:
        """Pickles and copies the figures without the graph."""
        return {**super().__getstate__(), "_redo": None}

    def _more(self) -> dict[str, Any]:
        kept = ("name", "kind", "operations", "launches", "bytes")
        kernels = [{name: getattr(kernel, name) for name in kept} for kernel in self._kernels]
        return {"estimate": {"costs": [vars(cost) for cost in self.costs], "kernels": kernels}}

    def terms(self) -> Table:
        """Tabulates the time terms of each operation, longest operation first.

        Returns:
            Rows with operation, kind, scheme, model, milliseconds, bound, occupancy (share of units that the tiles
            keep busy; None if not modelled) and each term in milliseconds.
        """
        names = sorted({name for cost in self.costs for name in cost.terms})
        rows = [
            {
                "operation": cost.name,
                "kind": cost.kind,
                "scheme": cost.scheme,
                "model": cost.model,
                "ms": cost.seconds * 1e3,
                "bound": cost.bound,
                "occupancy": cost.occupancy,
                **{name: cost.terms.get(name, 0.0) * 1e3 for name in names},
            }
            for cost in self.costs
            if cost.seconds > 0
        ]
        return Table(sorted(rows, key=lambda row: -row["ms"]))

    def kernels(self) -> Table:
        """Tabulates the kernels that a compiler generates from the graph, in execution order.

        Returns:
            Rows with kernel, kind (library, pointwise, reduction), operations (number), fused (their names if there are
            several), launches, bytes, ms (including waits for the host) and bound. Empty without a compiler; the closed
            form prices single operations (see `terms`).
        """
        return Table(
            [
                {
                    "kernel": kernel.name,
                    "kind": kernel.kind,
                    "operations": len(kernel.operations),
                    "fused": ", ".join(kernel.operations) if len(kernel.operations) > 1 else "",
                    "launches": kernel.launches,
                    "bytes": kernel.bytes,
                    "ms": cost.seconds * 1e3,
                    "bound": cost.bound,
                }
                for kernel, cost in zip(self._kernels, self.costs, strict=False)
            ]
        )

    def caches(self) -> Table:
        """Tabulates the bytes of each operation and the memory levels that can hold them.

        Returns:
            Rows with operation, bytes, the nearest level that can hold these, the pressure on the shared level (low,
            medium, high) and the share of bytes that repeated calls find in it (None if not modelled).
        """
        device = Device.load(self.data["configuration"]["device"])
        return Table(
            [
                {
                    "operation": cost.name,
                    "bytes": cost.bytes,
                    "fits": next((level.name for level in device.levels if level.bytes >= cost.bytes), "nowhere"),
                    "pressure": pressure(device.shared.bytes, cost.bytes),
                    "hits": cost.hits,
                }
                for cost in self.costs
                if cost.bytes > 0
            ]
        )

    def shares(self) -> dict[str, float]:
        """Returns the share of the time that each term bounds.

        Returns:
            By term, the fraction (0 to 1) of the total time in operations that the term bounds.
        """
        total = sum(cost.seconds for cost in self.costs) or 1.0
        out: dict[str, float] = {}
        for cost in self.costs:
            if cost.seconds > 0:
                out[cost.bound] = out.get(cost.bound, 0.0) + cost.seconds / total
        return dict(sorted(out.items(), key=lambda item: -item[1]))

    def advice(self) -> Iterator[Advice]:
        """Yields the advice of `explain`.

        Yields:
            Each change with the gain of its estimate.

        Raises:
            UserError: for a result from a file or a pickle.
        """
        yield from self.explain()

    def explain(self) -> list[Advice]:
        """Estimates the graph on changed devices.

        Returns:
            The changes with their estimated gains, best first.

        Raises:
            UserError: for a result from a file or a pickle.
        """
        if self._redo is None:
            what = "a stored result has no graph to estimate again"
            raise user_error(what, suggestion="Estimate the graph first")
        device: Device = self._redo.device
        form = device.to_dict()
        levels = [dict(level) for level in form["levels"]]
        levels[-1]["bytes_per_second"] = min(levels[-1]["bytes_per_second"] * 2, MOST_RATE)
        faster = {
            key: {**rate, "flops_per_second": min(rate["flops_per_second"] * 2, MOST_RATE)}
            for key, rate in form["matrix"].items()
        }
        changes: dict[str, dict[str, Any]] = {
            "memory bandwidth x 2": {"levels": levels},
            "matrix rates x 2": {"matrix": faster},
            "units x 2, the rates with them": {"units": min(device.units * 2, MOST_UNITS), "matrix": faster},
        }
        advice = [
            Advice({"change": name}, self._redo(device.replace(**change)).cycles, self.cycles)
            for name, change in changes.items()
        ]
        return sorted(advice, key=lambda item: item.cycles)


def estimated(data: dict[str, Any], costs: list[dict[str, Any]], kernels: list[dict[str, Any]]) -> Estimate:
    """Restores a saved estimate."""
    return Estimate(data, [Cost(**cost) for cost in costs], None, [Kernel(**kernel) for kernel in kernels])


class _Redo:
    def __init__(self, graph: Graph, device: Device, options: dict[str, Any]) -> None:
        self.graph, self.device, self.options = graph, device, options

    def __call__(self, device: Device) -> Estimate:
        return estimate(self.graph, device, **self.options)


@checked()
def estimate(
    graph: GraphLike,
    device: DeviceLike | None = None,
    *,
    scheme: str | None = None,
    engine: str = "",
    profile: Profile | str | None = None,
    compiler: str | None = None,
) -> Estimate:
    """Estimates the time of a graph on a device in closed form, summed over operations or kernels.

    Args:
        graph: the workload, as `ts.compile` takes it.
        device: a device, its name or label, a file, a machine or the name of one.
        scheme: scheme of products with weights ("fp8", "int4_wo"); by default by the graph's dtypes.
        engine: serving engine whose kernels run ("vLLM", "TensorRT-LLM"); "" for kernels of a library.
        profile: constants fitted by `calibrate`; by default those of the device's family.
        compiler: compiler of kernels for a GPU: "eager" (torch, one by one), "torch" (torch.compile), "xla", or
            "serving" (a serving engine of language models, also on TPUs: captured graphs with fused kernels, as in
            `ts.cluster.step`); `.kernels()` lists the kernels. By default "serving" for a model that reads tokens and
            returns logits; else prices operations as kernel tables measure them, with elementwise operations fused
            into the preceding kernel.

    Returns:
        The result, of the same type as a simulation's, with the terms of each operation.

    Raises:
        UserError: for an unknown device, scheme, engine, profile or compiler, or a compiler for a device without one.
        Unsupported: for an operation or dtype that the device does not support; names the operation.
    """
    if device is None:
        raise user_error("missing device", place="device", allowed=listed([*Device.names(), "a machine"], 5),
                         suggestion='Try ts.estimate(graph, "h100"). All devices: tilesim device list')  # fmt: skip
    target = device_of(device)
    opened = Profile.open(profile)
    engine_named(engine, opened)
    graph = needed(as_graph(graph))
    if compiler is None and is_served(graph, target):
        compiler = FRAMEWORK
    launched: Sequence[Kernel] = ()
    if compiler is None:
        found, notes = Costs(target, scheme, engine, opened).price(graph.core)
        rows = rows_of(found)
        if scheme is None and (said := counted_once(graph, target, rows, products_per_second(target))):
            notes, found = [*notes, *said], _core.Costs([tuple(cost.__dict__.values()) for cost in rows])
    else:
        counted = count(graph, compiler)
        priced = price_kernels(counted, target, scheme=scheme, engine=engine, profile=opened)
        launched, rows, notes = priced.kernels, priced.costs, priced.notes
        found = _core.Costs([tuple(cost.__dict__.values()) for cost in rows])
    options = {"scheme": scheme, "engine": engine, "profile": opened, "compiler": compiler}
    redo = _Redo(graph, target, options)
    data = found.result(graph.core.name, target.name, round(target.clock_hz)).data()
    if scheme is not None:
        notes = [
            *notes,
            f"bytes count weights as stored in scheme {scheme}; activations and the bound count as in the graph",
        ]
    held, room = graph.core.compulsory_bytes(), target.memory.bytes
    if scheme is None and held > room > 0:
        what = f"inputs, weights and outputs take {size(held)}, the memory of {target.name} has {size(room)}"
        notes = [*notes, f"capacity is not enforced: {what}"]
    data["approximations"] = [data["approximations"][0], *notes, *device_notes(graph.core)]
    name = opened.name if opened else None
    if graph.setting:
        data["setting"] = graph.setting
    data["configuration"] = {"device": target.to_dict(), "profile": name, "tilesim": version}
    if scheme is None:
        data["configuration"] |= {"held_bytes": held, "memory_bytes": room}
    if compiler is not None:
        data["configuration"]["compiler"] = compiler
        timed = [kernel for kernel, cost in zip(launched, rows, strict=True) if cost.seconds > 0]
        for kernel, use in zip(timed, data["operations"], strict=True):
            use["operation"] = list(kernel.operations)
    return Estimate(data, rows, redo, launched)
