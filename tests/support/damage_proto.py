"""Damages protocol buffers, field by field; see `damage`."""

from __future__ import annotations

from support.damage_bytes import TEXTS, Choose, bytes_damaged


def proto_damaged(data: bytes, choose: Choose, depth: int = 0) -> bytes:
    """One field of a message, at any depth: another number or text, gone, twice, of another wire type."""
    fields = _fields(data)
    if not fields or choose.random() < 0.05:
        return bytes_damaged(data, choose) if data else b"\x00"
    at = choose.randrange(len(fields))
    begin, body, end, kind = fields[at]
    what = choose.random()
    if kind == 2 and depth < 12 and what < 0.75 and _fields(data[body:end]):
        inner = proto_damaged(data[body:end], choose, depth + 1)
        return data[:begin] + _key(data, begin) + _varint(len(inner)) + inner + data[end:]
    if what < 0.15:
        return data[:begin] + data[end:]
    if what < 0.3:
        return data[:end] + data[begin:end] * choose.choice([1, 2, 100]) + data[end:]
    if kind == 0:
        number = choose.choice(
            [0, 1, 2, 3, 7, 11, 16, 1 << 31, 1 << 40, 1 << 61, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
        )
        return data[:begin] + _key(data, begin) + _varint(number) + data[end:]
    if kind == 2:
        old = data[body:end]
        text = choose.choice([choose.choice(TEXTS).encode(), bytes_damaged(old, choose) if old else b"x", old[:-1]])
        return data[:begin] + _key(data, begin) + _varint(len(text)) + text + data[end:]
    return data[:body] + bytes(choose.randrange(256) for _ in range(end - body)) + data[end:]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 64:
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return number, at
    return -1, at


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def _key(data: bytes, begin: int) -> bytes:
    return data[begin : _read_varint(data, begin)[1]]


def _fields(data: bytes) -> list[tuple[int, int, int, int]]:
    """Start, start of its value, end and wire type of every field; empty where the bytes are no message."""
    found, at = [], 0
    while at < len(data):
        begin = at
        key, at = _read_varint(data, at)
        kind, body = key & 7, at
        if key <= 7:
            return []
        if kind == 0:
            number, at = _read_varint(data, at)
        elif kind == 2:
            number, body = _read_varint(data, at)
            at = body + number
        else:
            number, at = 0, at + {1: 8, 5: 4}.get(kind, 1 << 60)
        if number < 0 or at > len(data):
            return []
        found.append((begin, body, at, kind))
    return found
