"""Collective operations of StableHLO."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._core import Unsupported
from ...base.errors import user_error
from .bodies import combiner_of, promoted
from .manual import groups_along
from .scope import Scope, Value, each, handles
from .types import flag, integer, integers

#: operations whose groups list partitions if they have a channel; other groups list replicas, or both
PARTITIONED = ("all_to_all", "collective_permute", "collective_broadcast")


def channel_of(op: Any) -> int:
    """Returns the channel number; 0 without a channel."""
    if "channel_handle" not in op.attributes:
        return 0
    from jaxlib.mlir.dialects import stablehlo

    return int(stablehlo.ChannelHandle(op.attributes["channel_handle"]).handle)


def mesh_rows(scope: Scope, attribute: str) -> list[list[int]]:
    """Groups along axes of a mesh: `#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [..]>`."""
    devices = scope.module.devices
    named = re.search(r'mesh = @"?([\w.$-]+)"?', attribute)
    own = devices.meshes.get(named[1], "") if named else inline_mesh(attribute)
    if not own:
        raise Unsupported(f"groups along axes of an unknown mesh: {attribute[:200]}")
    axes = []
    for name, sub in re.findall(r'axis_ref<name = "([^"]+)"(?:, sub_axis_info = ([^>]*>?\d*))?', attribute):
        numbers = re.findall(r"\d+", sub or "")
        axes.append(f'"{name}"' + (f":({numbers[0]}){numbers[1]}" if len(numbers) == 2 else ""))
    flat, size = groups_along(own, axes)
    return [flat[i : i + size] for i in range(0, len(flat), size)]


def inline_mesh(attribute: str) -> str:
    """Returns the mesh that the attribute defines inline, as text; "" without one."""
    axes = re.findall(r'mesh_axis<name = "([^"]+)", size = (\d+)>', attribute)
    ids = re.search(r"device_ids = dense<([^>]*)>", attribute)
    text = ", ".join(f"{name}={size}" for name, size in axes)
    if ids and axes:
        text += f", device_ids=[{', '.join(re.findall(r'[0-9]+', ids[1]))}]"
    return str(_core.mesh_text(text)) if axes else ""


def stated_rows(op: Any) -> list[list[int]]:
    """Returns the groups in the operation's attribute, without the -1 that pads shorter groups."""
    if "replica_groups" not in op.attributes:
        return []
    matrix = np.array(op.attributes["replica_groups"])
    if matrix.size == 0:
        return []
    return [[int(device) for device in row if device >= 0] for row in matrix.reshape(len(matrix), -1)]


def flattened(scope: Scope, op: Any, name: str, rows: list[list[int]]) -> list[list[int]]:
    """Converts groups of StableHLO's four modes to device numbers (replica * partitions + partition)."""
    found = scope.module.devices
    replicas, partitions = found.replicas, found.partitions
    channel = channel_of(op)
    if channel > 0 and flag(op, "use_global_device_ids"):
        return rows or [list(range(replicas * partitions))]
    if channel > 0 and name in PARTITIONED:
        rows = rows or [list(range(partitions))]
        return [[replica * partitions + p for p in row] for replica in range(replicas) for row in rows]
    rows = rows or [list(range(replicas))]
    if channel > 0:
        return [[replica * partitions + p for p in range(partitions) for replica in row] for row in rows]
    return [[replica * partitions + p for replica in row] for p in range(partitions) for row in rows]


def open_count(scope: Scope, op: Any, name: str, members: Sequence[int]) -> None:
    """Infers the number of devices from groups if the module does not state it."""
    found = scope.module.devices
    most = max(members, default=0) + 1
    channel = channel_of(op) > 0
    if not found.stated and most > found.devices:
        if channel and (name in PARTITIONED or flag(op, "use_global_device_ids")):
            found.partitions = most
        else:
            found.replicas = most
        found.devices = found.replicas * found.partitions
        return
    limit = (
        found.devices
        if channel and flag(op, "use_global_device_ids")
        else found.partitions
        if channel and name in PARTITIONED
        else found.replicas
    )
    if most > limit and found.stated:
        raise user_error(
            "groups name a device that the module does not have",
            place=f"{op.name}",
            value=str(most - 1),
            allowed=f"0 .. {limit - 1} ({found.replicas} replicas, {found.partitions} partitions)",
        )


def groups_of(scope: Scope, op: Any) -> dict[str, Any]:
    """Returns the graph attributes for device groups and channel."""
    name = op.name.split(".")[1]
    attribute = str(op.attributes["replica_groups"]) if "replica_groups" in op.attributes else ""
    scope.module.meets()
    if "mesh_axes" in attribute:
        groups = mesh_rows(scope, attribute)
        found = scope.module.devices
        if not found.stated and found.devices < sum(map(len, groups)):
            found.partitions = found.devices = sum(map(len, groups))
    else:
        rows = stated_rows(op)
        open_count(scope, op, name, [device for row in rows for device in row])
        groups = flattened(scope, op, name, rows)
    size = max((len(group) for group in groups), default=1)
    if size > 1 or len(groups) > 1 or attribute:
        flat = [device for group in groups for device in [*group, *[-1] * (size - len(group))]]
        made: dict[str, Any] = {"groups": flat, "group_size": max(1, size)}
    else:
        made = {}
    if channel := channel_of(op):
        made["channel"] = channel
    made["partitions"] = flag(op, "use_global_device_ids") or channel > 0
    return made


def combiner(op: Any) -> str:
    """Returns the combiner that the body computes; another body is unsupported."""
    found = combiner_of(op.regions[0].blocks[0], 0, 1)
    if found is None:
        raise Unsupported("an all-reduce with a body other than a sum, product, maximum or minimum")
    return found


def by_parts(scope: Scope, op: Any, kind: str, **attributes: Any) -> list[Value]:
    """Builds an operation of kind `kind` per operand; complex operands get two, for real and imaginary part."""
    values = [scope.value(operand) for operand in op.operands]
    if op.regions:
        values = promoted(scope, op.regions[0].blocks[0], values)
    return [each(lambda x: scope.op(kind, x, **attributes), value) for value in values]


@handles("stablehlo.all_reduce")
def all_reduce(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds one all-reduce per operand."""
    return by_parts(scope, op, "all_reduce", combiner=combiner(op), **groups_of(scope, op))


@handles("stablehlo.all_gather")
def all_gather(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds one all-gather per operand."""
    dim = integer(op, "all_gather_dim")
    return by_parts(scope, op, "all_gather", dim=dim, **groups_of(scope, op))


@handles("stablehlo.reduce_scatter")
def reduce_scatter(scope: Scope, op: Any) -> Sequence[Value]:
    """Combines tensors and shards the result along one axis."""
    dim, groups = integer(op, "scatter_dimension"), groups_of(scope, op)
    return by_parts(scope, op, "reduce_scatter", dim=dim, combiner=combiner(op), **groups)


@handles("stablehlo.all_to_all")
def all_to_all(scope: Scope, op: Any) -> Sequence[Value]:
    """Exchanges parts of one axis."""
    dims = {"split_dim": integer(op, "split_dimension"), "concat_dim": integer(op, "concat_dimension")}
    return by_parts(scope, op, "all_to_all", **dims, **groups_of(scope, op))


@handles("stablehlo.collective_permute")
def collective_permute(scope: Scope, op: Any) -> Sequence[Value]:
    """Sends between pairs of replicas in each partition or, with a channel, between partitions in each replica."""
    pairs = integers(op, "source_target_pairs")
    scope.module.meets()
    open_count(scope, op, "collective_permute", pairs)
    rows = [[source, target] for source, target in zip(pairs[::2], pairs[1::2], strict=True)]
    flat = [device for pair in flattened(scope, op, "collective_permute", rows) for device in pair] if rows else []
    made = {"channel": channel_of(op)} if channel_of(op) else {}
    return by_parts(scope, op, "permute_devices", pairs=flat, partitions=channel_of(op) > 0, **made)


@handles("stablehlo.collective_broadcast")
def collective_broadcast(scope: Scope, op: Any) -> Sequence[Value]:
    """Broadcasts from the first device of each group."""
    return by_parts(scope, op, "broadcast_devices", **groups_of(scope, op))


@handles("stablehlo.partition_id", "stablehlo.replica_id")
def device_index(scope: Scope, op: Any) -> Sequence[Value]:
    """Computes the partition or replica number from the device number, replica * partitions + partition."""
    axis = "partition" if op.name.endswith("partition_id") else "replica"
    scope.module.meets()
    found = scope.module.devices
    own, other = found.partitions, found.replicas
    if axis == "replica":
        own, other = other, own
    if own == 1 and (found.stated or other > 1):
        return [scope.scalar(0, "u32")]
    index = scope.op("device_index", axis=axis)
    if other == 1:
        return [index]
    return [scope.apply("remainder" if axis == "partition" else "divide", index, scope.scalar(found.partitions, "u32"))]


@handles("stablehlo.async_start", "mhlo.async_start")
def async_start(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds the started operation at once, because data dependences order a graph."""
    values = [scope.value(operand) for operand in op.operands]
    if op.regions and len(op.regions[0].blocks) > 0:
        return [scope.inline(op.regions[0].blocks[0], values)]
    return [scope.module.inlined(scope, str(op.attributes["called_computation"].value), values)]


@handles("mhlo.async_update")
def async_update(scope: Scope, op: Any) -> Sequence[Value]:
    """Returns the value of the matching async_start."""
    return [scope.value(op.operands[0])]


@handles("stablehlo.async_done", "mhlo.async_done")
def async_done(scope: Scope, op: Any) -> Sequence[Value]:
    """Returns the results of the matching async_start."""
    found: list[Value] = scope.value(op.operands[0])
    return found
