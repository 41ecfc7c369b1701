"""Builds regions with per-device tensors (shard_map); their boundaries become slices and all-gathers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ..._core import Unsupported
from ...graph.tensor import Tensor
from .bodies import producer
from .control import custom_call
from .scope import Scope, Value, handles, named
from .shardings import GSPMD, names_in, over
from .types import Shaped, text


def written(axes: Sequence[Sequence[str]]) -> str:
    """Writes a sharding as text."""
    return "[" + ", ".join("{" + ", ".join(axis) + "}" for axis in axes) + "]"


def shards_of_devices(mesh: str, axes: Sequence[Sequence[str]]) -> tuple[list[int], NDArray[np.int64]]:
    """Returns the number of shards of each axis, and the shard indices of each device [devices, axes]."""
    counts, indices = _core.sharding_division(written(axes), mesh)
    return list(counts), np.asarray(indices, np.int64).reshape(len(indices), len(counts))


def groups_along(mesh: str, axis: Sequence[str]) -> tuple[list[int], int]:
    """Returns the groups of devices that differ only in these mesh axes, flattened, and the group size."""
    sizes, order = _core.mesh_axes(mesh)
    shape = [size for _, size in sizes]
    places = np.stack(np.unravel_index(np.arange(int(np.prod(shape))), shape), axis=1)
    key = places.copy()
    index = np.zeros(len(places), np.int64)
    for part in axis:
        number = [name for name, _ in sizes].index(names_in(part)[0])
        found = re.search(r":\((\d+)\)(\d+)", part)
        before, size = (int(found[1]), int(found[2])) if found else (1, shape[number])
        after = shape[number] // (before * size)
        digit = places[:, number] // after % size
        index = index * size + digit
        key[:, number] -= digit * after
    ranks = np.lexsort((index, *key.T[::-1]))
    devices = np.asarray(order)[ranks] if order else ranks
    return [int(device) for device in devices], int(index.max()) + 1


def _crossed(
    scope: Scope, stem: str, x: Tensor, axes: Sequence[Sequence[str]], manual: Sequence[str], shape: Sequence[int],
    build: Any,
) -> Tensor:  # fmt: skip
    """Passes a tensor across a region's boundary by calling a function named after `stem`, one per signature.

    The function's full tensor is annotated as sharded over `axes` and replicated over the other manual axes.
    """
    used = {part for axis in axes for part in axis}
    rest = [part for part in (name if name[0] == '"' else f'"{name}"' for name in manual) if part not in used]
    sharding = written(axes) + (f", replicated={{{', '.join(rest)}}}" if rest else "")
    key = (stem, x.dtype, tuple(x.shape), tuple(shape), sharding)
    known: dict[tuple[Any, ...], str] = scope.module.borders
    if key not in known:
        known[key] = name = scope.module.fresh(stem)
        inner = Scope(scope.module, scope.module.root.function(name))
        given = inner.builder.input("x", list(x.shape), x.dtype)
        result = build(inner, given)
        full = given if stem == "full_to_shard" else result
        inner.builder.core.annotate(full.value, sharding)
        inner.builder.output(result, "y")
    return Tensor(scope.builder, scope.builder.core.op("call", [x.value], {"role": stem}, "", 0, [known[key]])[0])


def full_to_shard(scope: Scope, x: Tensor, sharding: str, manual: Sequence[str], shape: Sequence[int]) -> Tensor:
    """Cuts each device's shard out of a full tensor."""
    mesh = scope.module.devices.mesh
    axes = over(sharding, manual)
    counts, indices = shards_of_devices(mesh, axes)
    if [extent * count for extent, count in zip(shape, counts, strict=True)] != list(x.shape):
        raise Unsupported(f"shards of {list(shape)} of a tensor of {list(x.shape)} with {counts} shards per axis")

    def build(inner: Scope, given: Tensor) -> Tensor:
        if max(counts, default=1) == 1:
            return inner.op("copy", given)
        table = inner.constant((indices * np.asarray(shape)).astype(np.int32), "starts")
        device = inner.op("device_index", axis="partition")
        row = inner.op("dynamic_slice", table, device, inner.scalar(0, "u32"), sizes=[1, len(shape)])
        starts = [
            inner.op("reshape", inner.op("slice", row, start=[0, axis], limit=[1, axis + 1]), shape=[])
            for axis in range(len(shape))
        ]
        part: Tensor = inner.op("dynamic_slice", given, *starts, sizes=list(shape))
        return part

    return _crossed(scope, "full_to_shard", x, axes, manual, shape, build)


def shard_to_full(scope: Scope, x: Tensor, sharding: str, manual: Sequence[str], shape: Sequence[int]) -> Tensor:
    """Gathers shards to the full tensor on all devices; arguments as for `full_to_shard`."""
    mesh = scope.module.devices.mesh
    axes = over(sharding, manual)
    counts, _ = shards_of_devices(mesh, axes)
    if [extent * count for extent, count in zip(x.shape, counts, strict=True)] != list(shape):
        raise Unsupported(f"a tensor of {list(shape)} from shards of {list(x.shape)} with {counts} shards per axis")

    def build(inner: Scope, given: Tensor) -> Tensor:
        if max(counts, default=1) == 1:
            return inner.op("copy", given)
        for dim in reversed(range(len(axes))):
            if counts[dim] > 1:
                groups, size = groups_along(mesh, axes[dim])
                given = inner.op("all_gather", given, dim=dim, groups=groups, group_size=size, partitions=True)
        return given

    return _crossed(scope, "shard_to_full", x, axes, manual, shape, build)


def real_only(value: Value) -> Tensor:
    """Raises an error for complex values, tuples and tokens."""
    if not isinstance(value, Tensor):
        raise Unsupported("complex tensors, tuples or tokens in a region of per-device tensors")
    return value


@handles("sdy.manual_computation")
def manual_computation(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds the body of a shard_map on per-device shards."""
    devices = scope.module.devices
    manual = names_in(str(op.attributes["manual_axes"]))
    inside = devices.shardy(str(op.attributes["in_shardings"]))
    outside = devices.shardy(str(op.attributes["out_shardings"]))
    block = op.regions[0].blocks[0]
    scope.module.meets()
    values: list[Value] = []
    for operand, argument, sharding in zip(op.operands, block.arguments, inside, strict=True):
        shape = Shaped(argument.type, "an argument").shape
        values.append(full_to_shard(scope, real_only(scope.value(operand)), sharding, manual, shape))
    results = []
    for value, result, sharding in zip(scope.inline(block, values), op.results, outside, strict=True):
        shape = Shaped(result.type, "a result").shape
        full = shard_to_full(scope, real_only(value), sharding, manual, shape)
        results.append(scope.annotated(full, sharding))
    return results


@handles("sdy.sharding_constraint", "sdy.reshard")
def constraint(scope: Scope, op: Any) -> Sequence[Value]:
    """Annotates a value with a sharding."""
    value = scope.value(op.operands[0])
    found = scope.module.devices.shardy(str(op.attributes["sharding"]))
    return [scope.annotated(value, found[0] if found else "")]


@handles("sdy.propagation_barrier", "sdy.data_flow_edge", "sdy.constant_splat")
def propagation_hint(scope: Scope, op: Any) -> Sequence[Value]:
    """Returns the operand, because the operation only guides propagation."""
    return [scope.value(op.operands[0])]


@handles("sdy.named_computation")
def named_computation(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds the body of the operation in place."""
    return scope.inline(op.regions[0].blocks[0], [scope.value(operand) for operand in op.operands])


@handles("sdy.constant")
def constant(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds a constant like stablehlo.constant."""
    from .scope import HANDLERS

    return HANDLERS["stablehlo.constant"](scope, op)


@handles("sdy.sharding_group")
def sharding_group(scope: Scope, op: Any) -> Sequence[Value]:
    """Records the assumption that sharding groups are ignored."""
    scope.module.assume("sdy.sharding_group is ignored: its values may get different shardings")
    return []


def _manual_axes(scope: Scope, op: Any, rank: int) -> list[str]:
    """Returns the manual axes that an annotation names."""
    _, manual = scope.module.devices.gspmd(str(op.attributes[GSPMD].value), [rank])[0]
    return re.findall(r'"[^"]*"(?::\(\d+\)\d+)?', manual)


def marked(scope: Scope, mlir: Any, target: str) -> Any:
    """Returns the custom call `Sharding` that computes a boundary's operand; other operands are unsupported."""
    op = producer(mlir)
    if op is None or named(op) != "stablehlo.custom_call" or GSPMD not in op.operation.attributes:
        raise Unsupported(f"custom_call '{target}' whose operand is not a custom_call 'Sharding'")
    return op.operation


@handles("stablehlo.custom_call")
def call_by_name(scope: Scope, op: Any) -> Sequence[Value]:
    """Handles annotations and region boundaries of GSPMD; `custom_call` handles other targets."""
    target = text(op, "call_target_name")
    if target not in ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding"):
        return custom_call(scope, op)
    devices, rank = scope.module.devices, len(Shaped(op.results[0].type, target).shape)
    if target in ("Sharding", "xla.sdy.FuncResultSharding"):
        return [scope.annotated(scope.value(op.operands[0]), devices.shardings_of(op.attributes, [rank])[0])]
    if not devices.mesh:
        raise Unsupported(f"custom_call '{target}' in a module whose shardings name no devices")
    scope.module.meets()
    before = marked(scope, op.operands[0], target)
    full, own = (before, op) if target == "SPMDFullToShardShape" else (op, before)
    note = str(full.attributes["backend_config"]) if "backend_config" in full.attributes else ""
    sharding, _ = devices.gspmd(str(full.attributes[GSPMD].value), [rank], note)[0]
    manual = _manual_axes(scope, own, rank)
    shape = Shaped(op.results[0].type, target).shape
    x = real_only(scope.value(op.operands[0]))
    if target == "SPMDFullToShardShape":
        return [full_to_shard(scope, x, sharding, manual, shape)]
    return [scope.annotated(shard_to_full(scope, x, sharding, manual, shape), sharding)]


__all__ = ["full_to_shard", "shard_to_full"]
