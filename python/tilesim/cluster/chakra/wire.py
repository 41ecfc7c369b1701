"""Encodes and decodes protobuf messages of Chakra's schema (field numbers: MLCommons chakra, et_def.proto)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

__all__ = ["ATTRIBUTES", "COLLECTIVES", "NODES", "MalformedMessage", "attribute", "bytes_field", "fields", "message",
           "number", "packed", "read_attribute", "repeated", "varint"]  # fmt: skip

#: NodeType by number
NODES = {1: "metadata", 2: "memory load", 3: "memory store", 4: "compute", 5: "send", 6: "recv", 7: "collective"}
#: CollectiveCommType by number
COLLECTIVES = {
    0: "all_reduce", 1: "reduce", 2: "all_gather", 3: "gather", 4: "scatter", 5: "broadcast_devices", 6: "all_to_all",
    7: "reduce_scatter", 8: "reduce_scatter", 9: "barrier",
}  # fmt: skip
#: kinds of an attribute's value from field 3 on; each is followed by the field of its list
ATTRIBUTES = (
    *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
    *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
)
_FIRST = 3
_FIXED = {"double": "<d", "float": "<f", "fixed32": "<I", "fixed64": "<Q", "sfixed32": "<i", "sfixed64": "<q"}
_MASK = (1 << 64) - 1


class MalformedMessage(ValueError):
    """Bytes that are not a message: truncated, or of another format."""


def varint(value: int) -> bytes:
    """Encodes a number of up to 64 bits; negative numbers are in two's complement."""
    value &= _MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encodes a field that holds a varint."""
    return varint(field << 3) + varint(value) if value else b""


def bytes_field(field: int, value: bytes | str) -> bytes:
    """Encodes a field that holds bytes, a string or a message."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def packed(field: int, values: Any) -> bytes:
    """Encodes a repeated field of varints."""
    data = b"".join(varint(value) for value in values)
    return bytes_field(field, data) if data else b""


def message(body: bytes) -> bytes:
    """Encodes a message with its length in front, as in files."""
    return varint(len(body)) + body


def attribute(name: str, value: Any, kind: str = "") -> bytes:
    """Encodes an AttributeProto."""
    if isinstance(value, tuple):
        kind, value = value
    many = isinstance(value, list)
    if not kind:
        one = value[0] if many and value else (0 if many else value)
        kinds = ((bool, "bool"), (int, "int64"), (float, "double"), (str, "string"), (bytes, "bytes"))
        kind = next(name for sort, name in kinds if isinstance(one, sort))
    field = _FIRST + 2 * ATTRIBUTES.index(kind)
    body = bytes_field(1, name)
    if not many:
        return body + _value(field, value, kind)
    return body + bytes_field(field + 1, b"".join(_value(1, one, kind) for one in value))


def _value(field: int, value: Any, kind: str) -> bytes:
    if kind in ("string", "bytes"):
        return bytes_field(field, value)
    if kind in _FIXED:
        data = struct.pack(_FIXED[kind], value)
        return varint(field << 3 | (1 if len(data) == 8 else 5)) + data
    coded = (value << 1) ^ (value >> 63) if kind.startswith("sint") else int(value)
    return varint(field << 3) + varint(coded)  # writes 0 too, because the field selects the kind


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Returns a decoded number and the index of the next byte; raises `MalformedMessage` for a truncated number."""
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK, at
        shift += 7
        if shift > 63:
            raise MalformedMessage("a number that does not end")
    raise MalformedMessage("the bytes end within a number")


def fields(data: bytes, at: int = 0, end: int | None = None) -> Iterator[tuple[int, Any]]:
    """Yields the fields of a message."""
    end = len(data) if end is None else end
    while at < end:
        key, at = read_varint(data, at, end)
        sort = key & 7
        if sort == 0:
            value, at = read_varint(data, at, end)
            yield key >> 3, value
            continue
        if sort == 2:
            size, at = read_varint(data, at, end)
        elif sort in (1, 5):
            size = 8 if sort == 1 else 4
        else:
            raise MalformedMessage(f"a field of sort {sort}")
        if at + size > end:
            raise MalformedMessage("the bytes end within a field")
        yield key >> 3, data[at : at + size]
        at += size


def repeated(value: Any) -> list[int]:
    """Returns the numbers of a repeated field, packed or single."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        one, at = read_varint(value, at, len(value))
        found.append(one)
    return found


def read_attribute(data: bytes) -> tuple[str, tuple[str, Any]]:
    """Decodes an AttributeProto."""
    name = ""
    found: tuple[str, Any] = ("", None)
    for field, value in fields(data):
        if field == 1:
            name = _bytes(value).decode(errors="replace")
        elif _FIRST <= field < _FIRST + 2 * len(ATTRIBUTES):
            place, many = divmod(field - _FIRST, 2)
            kind = ATTRIBUTES[place]
            if many:
                found = (
                    kind,
                    [one for part in fields(_bytes(value)) if part[0] == 1 for one in _packed(part[1], kind)],
                )
            else:
                found = (kind, _read(value, kind))
    return name, found


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    raise MalformedMessage("a number instead of bytes")


def _packed(value: Any, kind: str) -> list[Any]:
    """Decodes a list: one value, or many packed values."""
    if kind in ("string", "bytes"):
        return [_read(value, kind)]
    if kind in _FIXED:
        size = struct.calcsize(_FIXED[kind])
        data = _bytes(value)
        return [_read(data[at : at + size], kind) for at in range(0, len(data), size)]
    return [_read(one, kind) for one in repeated(value)]


def _read(value: Any, kind: str) -> Any:
    if kind == "string":
        return _bytes(value).decode(errors="replace")
    if kind == "bytes":
        return _bytes(value)
    if kind in _FIXED:
        data = _bytes(value)
        if len(data) != struct.calcsize(_FIXED[kind]):
            raise MalformedMessage(f"a {kind} of {len(data)} bytes")
        return struct.unpack(_FIXED[kind], data)[0]
    if not isinstance(value, int):
        raise MalformedMessage(f"bytes instead of a {kind}")
    if kind == "bool":
        return bool(value)
    if kind.startswith("sint"):
        return (value >> 1) ^ -(value & 1)
    if kind.startswith("uint"):
        return value
    bits = int(kind[3:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
