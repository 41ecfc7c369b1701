"""The least bytes and seconds of a graph on a machine or device."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import _core
from ..base.arguments import as_array
from ..base.checked import checked
from ..base.errors import nearest, user_error
from ..graph.graph import Graph
from ..loading import GraphLike, as_graph
from ..machine.device import Device
from ..machine.machine import Machine, MachineLike
from ..mapping.integer_products import with_integer_products
from ..mapping.sparse_products import with_sparse_products
from ..program.data_roles import attention_data
from ..results.bounds import Bound
from .estimate import device_of

__all__ = ["bound_knowing", "lower_bound"]


@checked()
def lower_bound(graph: GraphLike, machine: MachineLike | Device, tensors: Mapping[str, Any] | None = None) -> Bound:
    """The least bytes and seconds of a graph, whatever its kernels, tiles and order.

    Where the arrays multiply i8, products of dequantized operands count as those of integers, as `ts.compile` has them;
    where multipliers skip zeros, weights with zeros count as they are stored, and zeros are not multiplied.

    Args:
        graph: the workload, as `ts.compile` takes it.
        machine: a machine, its name or file; or a device, its name or label: of those, rates alone are known, and the
            bound has neither whole tiles nor the size of the chip's memory.
        tensors: integers that say how long the caches of attentions are, and where their pages lie, or values from
            which the graph computes them, by name. Where they are not known, caches may be empty.

    Returns:
        The bound.

    Raises:
        UserError: for an unknown machine or device; for tensors that the graph lacks, of another shape or dtype than
            there, lengths beyond a cache and pages outside the table.
    """
    found = as_graph(graph)
    return bound_knowing(found, machine, _checked(found, tensors) if tensors else {})


def bound_knowing(found: Graph, machine: MachineLike | Device, tensors: Mapping[str, Any] | None) -> Bound:
    """As `lower_bound`, of tensors that were checked before.

    Args:
        found: the workload.
        machine: a machine or device, its name or file.
        tensors: by name, also of values of functions that the graph calls.

    Returns:
        The bound.
    """
    known = attention_data(found.core, tensors) if tensors else {}
    named = isinstance(machine, str) and machine not in Machine.names() and not os.path.isfile(machine)
    if not isinstance(machine, Device) and not named:
        loaded = Machine.load(machine)
        own = with_sparse_products(with_integer_products(found, loaded), loaded)
        return Bound(_core.lower_bound(own.core, loaded.core, known))
    device = device_of(machine)
    matrix = {dtype: rate.flops_per_second for dtype, rate in device.matrix.items()}
    if "tf32" in matrix:  # products of f32 may run so
        matrix["f32"] = max(matrix.get("f32", 0.0), matrix.pop("tf32"))
    vector = {dtype: device.vector_rate(dtype) for dtype in device.vector}
    return Bound(_core.lower_bound_of_rates(found.core, matrix, vector, device.memory.bytes_per_second, known))


def _checked(graph: Graph, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of values of the graph, as it has them."""
    core = graph.core
    types = {row["name"]: row for op in core.operations("") for row in (*op["operands"], *op["results"]) if row}
    types |= {row["name"]: row for row in core.inputs}
    found = {}
    for name, value in tensors.items():
        place = f"tensors, {name}"
        if name not in types:
            raise user_error(
                "no tensor of the graph has this name",
                place=place,
                value=f"'{name}'",
                allowed=", ".join(row["name"] for row in core.inputs),
                suggestion=nearest(name, list(types)),
            )
        if isinstance(value, str):
            raise user_error("a bound takes arrays, no distributions", place=place, value=f"'{value}'")
        array, row = as_array(value, place), types[name]
        if list(array.shape) != list(row["shape"]):
            allowed = f"{row['dtype']}{list(row['shape'])}"
            raise user_error("an array of another shape", place=place, value=str(list(array.shape)), allowed=allowed)
        if row["dtype"].startswith(("i", "u")) and array.dtype.kind not in "iu":
            raise user_error("no whole numbers", place=place, value=str(array.dtype), allowed=row["dtype"])
        found[name] = array
    _core.check_attention_data(core, found)
    return found
