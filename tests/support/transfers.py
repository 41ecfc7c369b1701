"""Descriptors of DMA transfers as bytes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np


def descriptor(
    size: int, dims: list[tuple[int, int, int, int, int]], outside: int = 0, inside: int = 0, **more: int
) -> np.ndarray[Any, Any]:
    """As documented: outside, inside, element bytes, dims, fill, flags, row dim, rows, five numbers for each dim."""
    head = (outside, inside, size, more.get("count", len(dims)), more.get("fill", 0), more.get("flags", 0))
    raw = struct.pack("<qqIIQIIQ", *head, more.get("row_dim", 0), more.get("rows", 0))
    raw += b"".join(struct.pack("<5q", *dim) for dim in dims)
    return np.frombuffer(raw.ljust(288, b"\0"), np.uint8).copy()
