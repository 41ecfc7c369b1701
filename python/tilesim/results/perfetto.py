"""Writes Perfetto traces: a few protobuf messages, encoded here so that no package is needed."""

from __future__ import annotations

import os
from typing import IO, Any

from ..base.errors import user_error
from ..base.files import writing

__all__ = ["write_trace"]


def _varint(value: int) -> bytes:
    """A number of 64 bits; a negative one in two's complement, as protobuf writes an int64."""
    if 0 <= value < 0x80:
        return value.to_bytes(1, "little")
    value &= 0xFFFF_FFFF_FFFF_FFFF
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


_SEQUENCE = _number(10, 1)


def _packet(body: bytes, nanoseconds: int | None = None) -> bytes:
    stamp = b"" if nanoseconds is None else b"\x40" + _varint(nanoseconds)  # field 8
    return _bytes(1, stamp + body + _SEQUENCE)


def write_trace(data: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes the intervals of a result as a Perfetto trace, one track per unit, a counter per memory channel.

    Args:
        data: JSON form of a result with intervals.
        path: file to write.

    Raises:
        UserError: when no timeline was recorded, or the file cannot be written.
    """
    if not data["intervals"]:
        raise user_error("no timeline was recorded", suggestion="Simulate with timeline=True")
    used = sorted({interval[0] for interval in data["intervals"]})
    with writing(path, "wb") as file:
        for unit in used:
            track = _number(1, unit + 1) + _bytes(2, data["units"][unit]["unit"].encode())
            file.write(_packet(_bytes(60, track)))
        scale = 1e9 / data["hertz"]
        begins: dict[tuple[int, int], bytes] = {}
        ends = {unit: _bytes(11, _number(9, 2) + _number(11, unit + 1)) for unit in used}
        for unit, label, start, finish in data["intervals"]:
            begin = begins.get((unit, label))
            if begin is None:
                name = _bytes(23, data["labels"][label].encode())
                begin = begins[unit, label] = _bytes(11, _number(9, 1) + _number(11, unit + 1) + name)
            file.write(_packet(begin, round(start * scale)) + _packet(ends[unit], round(finish * scale)))
        _write_counters(data, len(data["units"]) + 1, file)


def _write_counters(data: dict[str, Any], first: int, file: IO[bytes]) -> None:
    """MB/s of each memory channel, as counter tracks."""
    memory = data.get("memory")
    if not memory:
        return
    step = memory["step_cycles"] / memory["hertz"]
    for channel, row in enumerate(memory["channel_bytes"]):
        name = f"memory.channel{channel} MB/s".encode()
        file.write(_packet(_bytes(60, _number(1, first + channel) + _bytes(2, name) + _bytes(8, b""))))
        for i, moved in enumerate([*row, 0]):
            value = _number(9, 4) + _number(11, first + channel) + _number(30, round(moved / step / 1e6))
            file.write(_packet(_bytes(11, value), round(i * step * 1e9)))
