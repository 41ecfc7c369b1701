"""Executes a program of several devices on real tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..base.arguments import as_array
from ..base.errors import nearest, user_error
from .spmd import Border, Spmd

__all__ = ["execute_together"]


def execute_together(spmd: Spmd, inputs: Any = None, *, seed: int = 0) -> dict[str, Any]:
    """Runs a program on all its devices with the reference kernels; returns outputs by name."""
    if len(spmd.graphs) > 1:
        raise _core.Unsupported(f"execution of {len(spmd.graphs)} different programs together")
    graph, devices = spmd.graph, spmd.devices
    if inputs is None:
        given = {row["name"]: _random(spmd, seed, column) for column, row in enumerate(spmd.inputs)} | graph.defaults
    else:
        given = _named(spmd, graph.defaults, inputs)
    given |= {row["name"]: graph.core.weight(row["weight"]) for row in spmd.inputs if "weight" in row}
    columns = [_parts(spmd, row, own, given[row["name"]]) for row, own in zip(spmd.inputs, graph.inputs, strict=True)]
    per_device = [[column[device] for column in columns] for device in range(devices)]
    found = _core.evaluate_devices(graph.core, per_device)
    outputs = {}
    for i, row in enumerate(spmd.outputs):
        outputs[row["name"]] = _joined(spmd, row, [np.asarray(own[i]) for own in found])
    return outputs


def _named(spmd: Spmd, state: Mapping[str, Any], inputs: Any) -> dict[str, Any]:
    names = [row["name"] for row in spmd.inputs if "weight" not in row]
    if isinstance(inputs, Mapping):
        for name in inputs:
            if name not in names:
                close = nearest(str(name), names)
                raise user_error("unknown input", value=f"'{name}'", allowed=", ".join(names), suggestion=close)
        if missing := [name for name in names if name not in inputs and name not in state]:
            raise user_error("missing inputs", value=", ".join(missing), allowed=", ".join(names))
        return {**state, **inputs}
    if not isinstance(inputs, Sequence) or isinstance(inputs, (str, bytes)) or len(inputs) != len(names):
        count = len(inputs) if isinstance(inputs, Sequence) else type(inputs).__name__
        raise user_error("wrong number of inputs", value=str(count), allowed=", ".join(names))
    return dict(zip(names, inputs, strict=True))


def _checked(array: NDArray[Any], shape: Sequence[int], name: str) -> NDArray[Any]:
    if list(array.shape) != list(shape):
        raise user_error(
            "an input has the wrong shape",
            place=f"input '{name}'",
            value=str(list(array.shape)),
            allowed=str(list(shape)),
        )
    return array


def _parts(spmd: Spmd, row: Border, own: dict[str, Any], value: Any) -> list[NDArray[Any]]:
    """Splits a tensor into the parts of all devices."""
    name, local = row["name"], list(own["shape"])
    if row["view"] == "own" and isinstance(value, (list, tuple)) and len(value) == spmd.devices:
        return [_checked(np.asarray(as_array(part, name)), local, name) for part in value]
    array = np.asarray(as_array(value, name))
    if row["view"] != "divided":
        return [_checked(array, local, name)] * spmd.devices
    _checked(array, row["shape"], name)
    _, indices = _core.sharding_division(row["sharding"], spmd.mesh)
    known: dict[tuple[int, ...], NDArray[Any]] = {}
    return [known.setdefault(tuple(index), _part(array, index, local)) for index in _indices(indices, spmd.devices)]


def _random(spmd: Spmd, seed: int, column: int) -> Any:
    """Returns a random input with the global shape, or with the local shape if the global one is unknown."""
    row, core = spmd.inputs[column], spmd.graph.core
    if "weight" in row:
        return None
    shape = spmd.graph.inputs[column]["shape"] if row["view"] == "own" else row["shape"]
    span = row.get("range") or _core.random_ranges(core)[column]
    return np.asarray(_core.random_input(row["dtype"], list(shape), column, tuple(span), seed))


def _indices(indices: list[list[int]], devices: int) -> list[list[int]]:
    """Extends indices to all devices; smaller meshes are replicated."""
    return [indices[device % len(indices)] for device in range(devices)]


def _part(array: NDArray[Any], index: Sequence[int], local: Sequence[int]) -> NDArray[Any]:
    """Cuts out one shard, padded with zeros at the end of the tensor."""
    part = array[tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, local, strict=True))]
    if list(part.shape) == list(local):
        return np.asarray(part, order="C")  # np.asarray keeps scalars, unlike ascontiguousarray
    full = np.zeros(local, array.dtype)
    full[tuple(slice(0, n) for n in part.shape)] = part
    return full


def _joined(spmd: Spmd, row: Border, parts: list[NDArray[Any]]) -> Any:
    if row["view"] == "whole":
        return parts[0]
    if row["view"] == "own":
        same = all(part.tobytes() == parts[0].tobytes() for part in parts[1:])
        return parts[0] if same else parts
    counts, indices = _core.sharding_division(row["sharding"], spmd.mesh)
    local = parts[0].shape
    full = np.zeros([n * count for n, count in zip(local, counts, strict=True)], parts[0].dtype)
    for index, part in zip(_indices(indices, spmd.devices), parts, strict=True):
        full[tuple(slice(i * n, (i + 1) * n) for i, n in zip(index, local, strict=True))] = part
    return np.asarray(full[tuple(slice(0, extent) for extent in row["shape"])], order="C")
