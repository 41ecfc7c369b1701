"""Writes traces for Perfetto as protobuf (encoded here, without a library) or JSON events."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import IO, Any

from ..base.errors import path_text, user_error
from ..base.files import writing

__all__ = ["check_ending", "write_trace"]

BINARY = (".pftrace", ".perfetto-trace", ".perfetto", ".trace", ".pb")
TEXT = ".json"


def _varint(value: int) -> bytes:
    """Encodes a 64-bit varint of protobuf; negative numbers are in two's complement."""
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
    stamp = b"" if nanoseconds is None else b"\x40" + _varint(nanoseconds)  # tag of field 8
    return _bytes(1, stamp + body + _SEQUENCE)


def check_ending(path: str | os.PathLike[str], events: bool = False) -> bool:
    """Whether a trace file's extension selects JSON; an unknown extension is an error. `events`: only JSON is known."""
    name = path_text(path)
    ending = os.path.splitext(name)[1].lower()
    if ending not in ((TEXT,) if events else ("", TEXT, *BINARY)):
        allowed = ("" if events else f"{', '.join(BINARY)} (Perfetto's protobuf), ") + f"{TEXT} (trace events)"
        raise user_error("unknown extension of a trace file", place=name, value=ending, allowed=allowed)
    return ending == TEXT


def write_trace(data: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes a result's intervals as a trace: a track per unit, a counter per memory channel."""
    events = check_ending(path)
    if not data["intervals"]:
        raise user_error("no timeline was recorded", suggestion="Simulate with timeline=True")
    if events:
        with writing(path) as text:
            json.dump({"displayTimeUnit": "ns", "traceEvents": list(_events(data))}, text)
        return
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
    """Writes MB/s of each memory channel as counter tracks."""
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


def _events(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields trace events (the JSON form that Perfetto and Chrome read); times are in microseconds."""
    scale = 1e6 / data["hertz"]
    for unit in sorted({interval[0] for interval in data["intervals"]}):
        called = {"name": data["units"][unit]["unit"]}
        yield {"ph": "M", "name": "thread_name", "pid": 1, "tid": unit + 1, "args": called}
    for unit, label, start, finish in data["intervals"]:
        named = {"ph": "X", "name": data["labels"][label], "pid": 1, "tid": unit + 1}
        yield {**named, "ts": start * scale, "dur": (finish - start) * scale}
    memory = data.get("memory")
    if not memory:
        return
    step = memory["step_cycles"] / memory["hertz"]
    for channel, row in enumerate(memory["channel_bytes"]):
        name = f"memory.channel{channel} MB/s"
        for i, moved in enumerate([*row, 0]):
            rate = {"MB/s": round(moved / step / 1e6)}
            yield {"ph": "C", "name": name, "pid": 1, "ts": i * step * 1e6, "args": rate}
