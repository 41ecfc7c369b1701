"""Bytes that a program's tensors take in the machine's memory."""

from __future__ import annotations

import math
import re
from typing import Any

from .. import _core
from ..base.errors import user_error
from ..machine.machine import Machine

__all__ = ["check_capacity", "footprint", "over_capacity"]


def _bits(dtype: str) -> int:
    """Of i32, bf16, f8e4m3fn, bool."""
    found = re.match(r"[a-z]+(\d+)", dtype)
    return int(found[1]) if found else 8


def _bytes(tensor: dict[str, Any]) -> int:
    """With the padding of its layout."""
    shape = [extent if isinstance(extent, int) else 0 for extent in tensor["shape"]]
    tile = tensor.get("tile")
    if tile and len(shape) >= 2:
        order = tensor.get("minor_to_major") or list(range(len(shape)))[::-1]
        for axis, granule in zip(order[:2], reversed(tile), strict=True):
            shape[axis] = -(-shape[axis] // granule) * granule
    return -(-math.prod(shape) * _bits(tensor["dtype"]) // 8)


def footprint(tensors: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Bytes and name of every tensor that has bytes of its own, largest first.

    Args:
        tensors: as in the JSON form of a program.

    Returns:
        The pairs; tensors whose extents are parameters count as nothing.
    """
    own = [(_bytes(tensor), str(tensor["name"])) for tensor in tensors if not tensor.get("alias_of")]
    return sorted(own, key=lambda pair: (-pair[0], pair[1]))


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count:,} bytes"


def over_capacity(tensors: list[tuple[int, str]], machine: Machine) -> tuple[str, str] | None:
    """What does not fit, in words, and what would; none where it fits or the machine does not say.

    Args:
        tensors: of `footprint`.
        machine: whose `memory.capacity` counts.

    Returns:
        The pair of texts.
    """
    capacity = int(_core.parse_bytes(str(machine.get("memory.capacity") or "0 B")))
    needed = sum(count for count, _ in tensors)
    if capacity == 0 or needed <= capacity:
        return None
    largest = ", ".join(f"{name} {_gibibytes(count)}" for count, name in tensors[:3])
    return f"{_gibibytes(needed)} of tensors (largest: {largest})", _gibibytes(capacity)


def check_capacity(tensors: list[tuple[int, str]], machine: Machine) -> None:
    """Refuses a program that does not fit.

    Args:
        tensors: of `footprint`.
        machine: whose `memory.capacity` counts.

    Raises:
        UserError: naming the bytes needed, the capacity and the largest tensors.
    """
    found = over_capacity(tensors, machine)
    if found:
        raise user_error(
            "the program's tensors exceed the machine's memory",
            place="memory.capacity",
            value=found[0],
            allowed="at most " + found[1],
            suggestion="fewer layers, a narrower dtype, or a machine with more memory",
        )
