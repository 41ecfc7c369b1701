"""What passes between devices beside the passes of layers: from stage to stage, and at the end of a step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..columns import Columns
from ..exchange import Group, all_reduce, gather, group, permute
from ..fabric import Fabric
from .passes import Moved

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


def _replicas(c: Columns, fabric: Fabric) -> Group:
    """Devices that sum the same gradients; the two copies of dualpipe lie on different stages."""
    data = group(c, "data", fabric)
    return Group(data.size * c.copies, data.inner, data.beside, data.stride)


def gradients(c: Columns, fabric: Fabric, k: Mapping[str, float]) -> Moved:
    """Gradients that are summed once per step, after the last micro-batch.

    Args:
        c: workloads and plans.
        fabric: links.
        k: constants of the framework.

    Returns:
        The sum.
    """
    data, one = _replicas(c, fabric), np.ones(len(c))
    gradient = c.device_parameters * k["gradient_bytes"]
    whole = np.where(c.shard < 3, all_reduce(gradient, data, fabric, k), 0.0)
    if not fabric.slices:
        return Moved("data", "all_reduce", gradient, one, whole, data)
    # what slices divide is summed over slices, each device its part
    node = np.full(len(c), float(fabric.per_node))
    across = Group(data.size / data.inner, one, node, node)
    part, divided = gradient / data.inner, c.shard >= 3
    group_ = Group(
        *(
            np.where(divided, getattr(across, name), getattr(data, name))
            for name in ("size", "inner", "beside", "stride")
        )
    )
    seconds = np.where(divided, all_reduce(part, across, fabric, k), whole)
    return Moved("data", "all_reduce", np.where(divided, part, gradient), one, seconds, group_)
