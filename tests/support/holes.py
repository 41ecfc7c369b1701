"""Matrices with tiles that are all zero."""

from __future__ import annotations

from typing import Any

import numpy as np

TILE = 128


def holed(rows: int, columns: int, density: float, seed: int = 1) -> Any:
    """Small whole numbers, in tiles that are all zero or have none."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 5, (rows, columns)) * rng.choice([-1, 1], (rows, columns))
    down, across = -(-rows // TILE), -(-columns // TILE)
    kept = np.zeros(down * across, bool)
    kept[rng.permutation(down * across)[: round(density * down * across)]] = True
    mask = np.kron(kept.reshape(down, across), np.ones((TILE, TILE), bool))[:rows, :columns]
    return np.where(mask, values, 0).astype(np.float32)
