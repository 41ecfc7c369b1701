"""Operations of several devices in StableHLO, kept as kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Unsupported
from .bodies import combiner_of
from .scope import Scope, Value, handles
from .types import flag, integer, integers


def groups_of(op: Any) -> dict[str, Any]:
    """Groups of devices and the channel."""
    found: dict[str, Any] = {}
    if "replica_groups" in op.attributes:
        attribute = op.attributes["replica_groups"]
        if type(attribute).__name__ != "DenseIntElementsAttr":
            raise Unsupported("groups given by the axes of a mesh: write them as a matrix of devices")
        matrix = np.array(attribute)
        if (matrix < 0).any():
            raise Unsupported("groups of devices of different sizes")
        found = {"groups": [int(device) for device in matrix.reshape(-1)], "group_size": int(max(1, matrix.shape[1]))}
    if "channel_handle" in op.attributes:
        from jaxlib.mlir.dialects import stablehlo

        found["channel"] = int(stablehlo.ChannelHandle(op.attributes["channel_handle"]).handle)
    found["partitions"] = flag(op, "use_global_device_ids") or found.get("channel", 0) > 0
    return found


def combiner(op: Any) -> str:
    """Of the body."""
    found = combiner_of(op.regions[0].blocks[0], 0, 1)
    if found is None:
        raise Unsupported("a reduction among devices whose body is no sum, product or extreme")
    return found


@handles("stablehlo.all_reduce")
def all_reduce(scope: Scope, op: Any) -> Sequence[Value]:
    """Each operand by itself."""
    return [scope.op("all_reduce", x, combiner=combiner(op), **groups_of(op)) for x in scope.operands(op)]


@handles("stablehlo.all_gather")
def all_gather(scope: Scope, op: Any) -> Sequence[Value]:
    """Each operand by itself."""
    dim = integer(op, "all_gather_dim")
    return [scope.op("all_gather", x, dim=dim, **groups_of(op)) for x in scope.operands(op)]


@handles("stablehlo.reduce_scatter")
def reduce_scatter(scope: Scope, op: Any) -> Sequence[Value]:
    """The combined tensor, divided along one axis."""
    dim = integer(op, "scatter_dimension")
    return [scope.op("reduce_scatter", x, dim=dim, combiner=combiner(op), **groups_of(op)) for x in scope.operands(op)]


@handles("stablehlo.all_to_all")
def all_to_all(scope: Scope, op: Any) -> Sequence[Value]:
    """Parts of one axis change places."""
    dims = {"split_dim": integer(op, "split_dimension"), "concat_dim": integer(op, "concat_dimension")}
    return [scope.op("all_to_all", x, **dims, **groups_of(op)) for x in scope.operands(op)]


@handles("stablehlo.collective_permute")
def collective_permute(scope: Scope, op: Any) -> Sequence[Value]:
    """Pairs of source and target."""
    pairs = integers(op, "source_target_pairs")
    return [scope.op("permute_devices", x, pairs=pairs, **groups_of(op)) for x in scope.operands(op)]


@handles("stablehlo.collective_broadcast")
def collective_broadcast(scope: Scope, op: Any) -> Sequence[Value]:
    """The first device of each group gives."""
    return [scope.op("broadcast_devices", x, **groups_of(op)) for x in scope.operands(op)]


@handles("stablehlo.partition_id", "stablehlo.replica_id")
def device_index(scope: Scope, op: Any) -> Sequence[Value]:
    """Which device runs this."""
    return [scope.op("device_index", axis="partition" if op.name.endswith("partition_id") else "replica")]
