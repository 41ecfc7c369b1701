"""Writes Perfetto traces: a few protobuf messages, encoded here so that no package is needed."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["write_trace"]


def _varint(value: int) -> bytes:
    out = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        out.append(byte | (0x80 if value else 0))
        if not value:
            return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _packet(body: bytes, nanoseconds: int | None = None) -> bytes:
    stamp = b"" if nanoseconds is None else _number(8, nanoseconds)
    return _bytes(1, stamp + body + _number(10, 1))


def write_trace(data: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes the intervals of a result as a Perfetto trace, one track per unit.

    Args:
        data: JSON form of a result with intervals.
        path: file to write.

    Raises:
        ValueError: when no timeline was recorded.
    """
    if not data["intervals"]:
        raise ValueError("no timeline was recorded; simulate with timeline=True")
    used = sorted({interval[0] for interval in data["intervals"]})
    with open(path, "wb") as file:
        for unit in used:
            track = _number(1, unit + 1) + _bytes(2, data["units"][unit]["unit"].encode())
            file.write(_packet(_bytes(60, track)))
        scale = 1e9 / data["hertz"]
        for unit, label, start, finish in data["intervals"]:
            name = _bytes(23, data["labels"][label].encode())
            begin = _number(9, 1) + _number(11, unit + 1) + name
            end = _number(9, 2) + _number(11, unit + 1)
            file.write(_packet(_bytes(11, begin), round(start * scale)))
            file.write(_packet(_bytes(11, end), round(finish * scale)))
