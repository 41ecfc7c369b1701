"""Computes lower bounds of a graph's bytes and time on a machine or device, and its roofline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import _core
from .._core import parse_dtype
from ..base.arguments import as_array
from ..base.checked import checked, checked_class
from ..base.errors import nearest, unsupported, user_error
from ..base.figures import duration
from ..base.table import Tabled
from ..graph.graph import Graph
from ..loading import GraphLike, as_graph
from ..machine.device import Device
from ..machine.machine import Machine, MachineLike
from ..machine.target import load as load_target
from ..mapping.integer_products import with_integer_products
from ..mapping.sparse_products import with_sparse_products
from ..program.data_roles import attention_data
from ..results.bounds import Bound
from ..results.printed import printed_roofline
from ..results.result import Table
from .counted_once import products_per_second
from .estimate import DeviceLike, device_of
from .operations import flat_operations, narrower, needed, unfolded

__all__ = ["Roofline", "bound_knowing", "lower_bound", "roofline"]


@checked()
def lower_bound(graph: GraphLike, machine: MachineLike | Device, tensors: Mapping[str, Any] | None = None) -> Bound:
    """Computes a schedule-independent lower bound of bytes and seconds of a graph.

    If arrays multiply i8, products of dequantized operands count as integer products, as in `ts.compile`. If
    multipliers skip zeros, sparse weights count with their stored bytes, and zeros are not multiplied.

    Args:
        graph: the workload, as `ts.compile` takes it.
        machine: a machine, its name or file; or a device, its name or label. A device is described only by its rates,
            so its bound ignores tile sizes and the size of the on-chip memory.
        tensors: integer arrays by name: lengths and pages of attention caches, or values from which the graph
            computes them. Without them, the bound assumes empty caches.

    Returns:
        The bound.

    Raises:
        UserError: for an unknown machine or device; for unknown tensors, a wrong shape or dtype, lengths beyond a cache
            and pages outside the table.
    """
    found = as_graph(graph)
    return bound_knowing(found, machine, _checked(found, tensors) if tensors else {})


def bound_knowing(found: Graph, machine: MachineLike | Device, tensors: Mapping[str, Any] | None) -> Bound:
    """Computes `lower_bound` for checked tensors."""
    known = attention_data(found.core, tensors) if tensors else {}
    named = isinstance(machine, str) and machine not in Machine.names() and not os.path.isfile(machine)
    if not isinstance(machine, Device) and not named:
        loaded = Machine.load(machine)
        own = with_sparse_products(with_integer_products(found, loaded), loaded)
        return Bound(_core.lower_bound(own.core, loaded.core, known))
    device = device_of(machine)
    matrix = {dtype: rate.flops_per_second for dtype, rate in device.matrix.items()}
    narrow = [matrix.pop("tf32", 0.0)]  # products of f32 may round their operands to tf32
    if device.rate("f32").how == "emulated":  # and to bf16 if the matrix units have no wider dtype
        narrow.append(matrix.get("bf16", 0.0))
    matrix["f32"] = max(matrix.get("f32", 0.0), *narrow)
    vector = {dtype: device.vector_rate(dtype) for dtype in device.vector}
    return Bound(_core.lower_bound_of_rates(found.core, matrix, vector, device.memory.bytes_per_second, known))


def _checked(graph: Graph, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Checks names, shapes and dtypes of tensor values; returns arrays."""
    core = graph.core
    types = {row["name"]: row for op in core.operations("") for row in (*op["operands"], *op["results"]) if row}
    types |= {row["name"]: row for row in core.inputs}
    found = {}
    for name, value in tensors.items():
        place = f"tensors, {name}"
        if name not in types:
            raise user_error(
                "unknown tensor",
                place=place,
                value=f"'{name}'",
                allowed=", ".join(row["name"] for row in core.inputs),
                suggestion=nearest(name, list(types)),
            )
        if isinstance(value, str):
            raise user_error("a bound needs arrays, not distributions", place=place, value=f"'{value}'")
        array, row = as_array(value, place), types[name]
        if list(array.shape) != list(row["shape"]):
            allowed = f"{row['dtype']}{list(row['shape'])}"
            raise user_error("wrong shape of an array", place=place, value=str(list(array.shape)), allowed=allowed)
        if row["dtype"].startswith(("i", "u")) and array.dtype.kind not in "iu":
            raise user_error("not whole numbers", place=place, value=str(array.dtype), allowed=row["dtype"])
        found[name] = array
    _core.check_attention_data(core, found)
    return found


def _needs_arrays(op: Mapping[str, Any]) -> bool:
    """Whether only arrays can run an operation; vector units can run depthwise convolutions and loop bodies."""
    groups = int(op["attributes"].get("groups", 1))
    return bool(op["flops"]["matrix"] > 0 and not op["functions"] and op["kind"] != "scan" and groups == 1)


@checked_class()
class Roofline(Tabled):
    """A lower bound of the time, and the position of each operation below the roofline."""

    def __init__(self, graph: Graph, device: Device) -> None:
        """Computes FLOPs and bytes from the graph, and rates from the device."""
        self.device = device
        self.name = graph.core.name
        graph = needed(graph)
        flops = graph.core.flops()
        rate = products_per_second(device)
        self.compute_seconds = flops["matrix"] / rate if rate else 0.0
        self.memory_seconds = graph.core.compulsory_bytes() / device.memory.bytes_per_second
        self.operations = [op for op in unfolded(flat_operations(graph)) if sum(op["flops"].values()) * op["bytes"] > 0]
        for op in self.operations:
            if _needs_arrays(op) and not self._rate(_dtype(op), True) > 0:
                multiplied = [name for name, one in device.matrix.items() if one.flops_per_second > 0]
                raise unsupported(f"{device.name} does not multiply this type", place=f"operation {op['name']}",
                                  value=_dtype(op), allowed=", ".join(multiplied),
                                  suggestion=narrower(device))  # fmt: skip

    @property
    def seconds(self) -> float:
        """Lower bound in seconds: products at the highest rate of any dtype, or the compulsory bytes if longer."""
        return max(self.compute_seconds, self.memory_seconds)

    @property
    def bound(self) -> str:
        """The limiting resource: "compute" or "memory"."""
        return "compute" if self.compute_seconds >= self.memory_seconds else "memory"

    def ceilings(self) -> Table:
        """Tabulates ridge points by dtype and memory level: the intensity above which compute is the limit.

        Returns:
            Rows with dtype, how, TFLOP/s, level, GB/s and ridge in FLOPs per byte; unsupported dtypes have a reason
            instead of a ridge.
        """
        rows = []
        for dtype, rate in self.device.matrix.items():
            for level in self.device.levels:
                absent = rate.how == "absent"
                rows.append(
                    {
                        "dtype": dtype,
                        "how": rate.how,
                        "tflops": rate.flops_per_second / 1e12,
                        "level": level.name,
                        "gbytes_per_second": level.bytes_per_second / 1e9,
                        "ridge": None if absent else rate.flops_per_second / level.bytes_per_second,
                        "reason": rate.reason,
                    }
                )
        return Table(rows)

    def table(self) -> Table:
        """Tabulates the position of each operation below the roofline.

        Returns:
            Rows with operation, FLOPs, bytes, intensity in FLOPs per byte, ceiling at this intensity in TFLOP/s, least
            milliseconds and the bound.
        """
        rows = []
        for op in self.operations:
            flops, moved = sum(op["flops"].values()), float(op["bytes"])
            rate = self._rate(_dtype(op), op["flops"]["matrix"] > 0)
            memory = self.device.memory.bytes_per_second
            intensity = flops / moved
            seconds = max(flops / rate if rate else 0.0, moved / memory)
            rows.append(
                {
                    "operation": op["name"],
                    "flops": flops,
                    "bytes": moved,
                    "intensity": intensity,
                    "ceiling_tflops": min(rate, intensity * memory) / 1e12,
                    "least_ms": seconds * 1e3,
                    "bound": "compute" if rate and flops / rate >= moved / memory else "memory",
                }
            )
        return Table(sorted(rows, key=lambda row: -row["least_ms"]), printed_roofline)

    def _rate(self, dtype: str, matrix: bool) -> float:
        if not matrix:
            return self.device.vector_rate("f32")
        rate = self.device.rate(str(parse_dtype(dtype)))
        return rate.flops_per_second

    def plot(self, axes: Any = None) -> Any:
        """Plots the roofline on logarithmic axes: ceilings by dtype, a slope per memory level, operations as points.

        Args:
            axes: matplotlib axes; new ones by default.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib; names the package to install.
        """
        from .views import plot_roofline

        return plot_roofline(self, axes)

    def _repr_html_(self) -> str:
        from .views import roofline_picture

        return roofline_picture(self)

    def __repr__(self) -> str:
        """Name, device, seconds and limit of the bound."""
        return f"<Roofline {self.name} on {self.device.name}: at least {duration(self.seconds)}, {self.bound}>"


@checked()
def roofline(graph: GraphLike, device: DeviceLike) -> Roofline:
    """Computes the roofline of a graph on a device from FLOPs, compulsory bytes and peak rates.

    If a machine's arrays multiply i8, products of dequantized operands count as integer products, as in
    `ts.compile`.

    Args:
        graph: the workload, as `ts.compile` takes it.
        device: as for `estimate`.

    Returns:
        The roofline: `.seconds`, `.ceilings()`, `.table()`, `.plot()`.

    Raises:
        UserError: for an unknown device.
        Unsupported: for products of a dtype that the device does not multiply; names the operation.
    """
    target, found = load_target(device), as_graph(graph)
    if isinstance(target, Machine):
        found = with_integer_products(found, target)
    return Roofline(found, Device.load(target))


def _dtype(op: Mapping[str, Any]) -> str:
    """Returns the dtype of an operation's first operand."""
    return str(op["operands"][0]["dtype"]) if op["operands"] else "f32"
