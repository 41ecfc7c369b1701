"""What passes between devices beside the passes of layers: from stage to stage, and at the end of a step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..exchange import Group, all_reduce, gather, group, permute
from ..fabric import Fabric
from .passes import Moved
from .replicas import Replicated, replicated

__all__ = ["between", "gradients"]

Array = NDArray[np.float64]


def between(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> tuple[Moved, ...]:
    """What a stage sends in a pass of one chunk: each tensor rank its part to the next stage, which gathers it, unless
    the sequence is divided anyway.

    Args:
        c: workloads and plans.
        fabric: links.
        k: constants of the framework.

    Returns:
        Sends and gathers.
    """
    wide, one = c.tokens * c.hidden * c.element_bytes, np.ones(len(c))
    along, tensor = group(c, "pipeline", fabric), group(c, "tensor", fabric)
    several = c.pipeline > 1
    sends = np.where(several, permute(wide / c.tensor, along, fabric, k), 0.0)
    gathers = np.where(several, np.where(c.sequence_parallel, 0.0, gather(wide, tensor, fabric, k)), 0.0)
    return (
        Moved("pipeline", "permute", wide / c.tensor, one, sends, along),
        Moved("tensor", "all_gather", wide, one, gathers, tensor),
    )


def gradients(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> tuple[Moved, ...]:
    """Gradients that are summed once per step, after the last micro-batch; of experts over the devices that have them.

    Args:
        c: workloads and plans.
        fabric: links.
        k: constants of the framework.

    Returns:
        The sums, one per group of devices.
    """
    return tuple(_summed(c, part, fabric, k) for part in replicated(c, fabric))


def _summed(c: Columns, part: Replicated, fabric: Fabric, k: Mapping[str, float]) -> Moved:
    """The sum over devices that have the same; the two copies of dualpipe lie on different stages."""
    of, one = part.group, np.ones(len(c))
    data = Group(of.size * c.copies, of.inner, of.beside, of.stride)
    gradient = part.all * k["gradient_bytes"]
    whole = np.where((c.shard < 3) & (gradient > 0), all_reduce(gradient, data, fabric, k), 0.0)
    if not fabric.slices:
        return Moved("data", "all_reduce", gradient, one, whole, data)
    # what slices divide is summed over slices, each device its part
    node = np.full(len(c), float(fabric.per_node))
    across = Group(data.size / data.inner, one, node, np.maximum(node, data.stride))
    piece, divided = gradient / data.inner, c.shard >= 3
    group_ = Group(
        *(
            np.where(divided, getattr(across, name), getattr(data, name))
            for name in ("size", "inner", "beside", "stride")
        )
    )
    seconds = np.where(divided & (gradient > 0), all_reduce(piece, across, fabric, k), whole)
    return Moved("data", "all_reduce", np.where(divided, piece, gradient), one, seconds, group_)
