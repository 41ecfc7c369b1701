"""Makes random sparse matrices for each sparse format."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import NUMPY
from ..base.errors import shown, user_error
from .graph import Graph
from .sparse import TILE, format_name

__all__ = ["has_zero_tiles", "operand", "pattern"]

READ = 1 << 28
"""Most bytes of weight files that are searched for zero tiles."""


def pattern(
    name: str, shape: tuple[int, int], density: float, format: str, along: int, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Draws the mask of an operand's nonzero elements."""
    most = 0.5 if format_name(format) == "2:4" else 1.0
    if not 0 <= density <= most:
        raise user_error(
            "a density is out of range" if most == 1 else "an operand in format 2:4 is at most half full",
            place=f"{name}_density",
            value=shown(density),
            allowed=f"0 to {most:g}",
        )
    if format == "2:4":
        rows, columns = shape if along == 1 else shape[::-1]
        groups = -(-columns // 4)
        keys = rng.random((rows, groups, 4)).argsort(axis=2).argsort(axis=2)
        kept = ((keys < 2) & (rng.random(keys.shape) < 2 * density)).reshape(rows, 4 * groups)[:, :columns]
        return kept if along == 1 else kept.T
    size = TILE if format == "zero_tiles" else int(format[6:]) if format.startswith("block:") else 1
    tiles = rng.random(tuple(-(-extent // size) for extent in shape)) < density
    return tiles.repeat(size, axis=0).repeat(size, axis=1)[: shape[0], : shape[1]]


def operand(
    name: str, shape: tuple[int, int], density: float, format: str, along: int, seed: int, dtype: str
) -> NDArray[Any]:
    """Draws a sparse matrix of integers up to 7, so that sums of 342,000 products are exact in f32."""
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    kept = pattern(name, shape, density, format, along, rng)
    values = rng.integers(1, 8, size=shape)
    if not dtype.startswith("u"):
        values = values * rng.choice([-1, 1], size=shape)
    return np.where(kept, values, 0).astype(NUMPY[dtype])


def has_zero_tiles(graph: Graph) -> bool:
    """Whether a weight that is a matrix has tiles of 128 by 128 that are all zero."""
    left = READ
    for name, row in graph.weights().items():
        if row["source"] == "random" or len(row["shape"]) != 2 or not all(row["shape"]):
            continue
        if row["source"] == "file":
            left -= math.prod(row["shape"]) * np.dtype(NUMPY[row["dtype"]]).itemsize
            if left < 0:
                continue
        matrix = np.asarray(graph.core.weight(name))
        corners = np.argwhere(matrix[::TILE, ::TILE] == 0) * TILE
        if any(not (matrix[r : r + TILE, c : c + TILE] != 0).any() for r, c in corners):
            return True
    return False
