"""Reads Chakra traces (`ts.cluster.from_chakra`)."""

from __future__ import annotations

import os
from typing import Any

from ...base.checked import checked
from ...base.errors import listed, path_text, user_error
from ...base.files import read_json
from ..trace import Trace, TraceClass, TraceNode
from . import wire
from .writing import FILE, GROUPS, RESERVED, STREAM

__all__ = ["from_chakra"]


@checked()
def from_chakra(folder: str | os.PathLike[str], name: str | None = None) -> Trace:
    """Reads Chakra execution traces: `NAME.<device>.et` and `comm_group.json` of a folder.

    Compute nodes have recorded times (`duration_ps`, else `duration_micros`). `to_chakra` writes unknown attributes
    unchanged. Devices with equal files form one class.

    Args:
        folder: directory with one file per device, numbered from 0.
        name: NAME of the files; by default the only one in the directory.

    Returns:
        The trace; `bytes` of a gather is the size of its result. A device without a collective of a named group leaves
        the group, with a note.

    Raises:
        UserError: for files that are missing, truncated or of another format, unknown types or operations, and nodes
            that wait for missing nodes; the message has the file and the node.
    """
    root = path_text(folder)
    name, paths = _files(root, name)
    groups = _groups(os.path.join(root, GROUPS), len(paths))
    by_content: dict[bytes, list[int]] = {}
    for device, path in enumerate(paths):
        try:
            with open(path, "rb") as file:
                by_content.setdefault(file.read(), []).append(device)
        except OSError as error:
            raise user_error("cannot read the file", place=path, value=error.strerror or str(error)) from None
    classes = []
    for data, devices in by_content.items():
        path = paths[devices[0]]
        nodes = [_node(body, path, number, devices, groups) for number, body in _messages(data, path)]
        classes.append(TraceClass(devices, nodes, path))
    trace = Trace(name, len(paths), classes, {number: [members] for number, members in groups.items()})
    _join(trace)
    trace.check()
    return trace


def _join(trace: Trace) -> None:
    """Removes devices without a collective of a named group from it, and updates the sizes of gathers."""
    found = [(part, node) for part in trace.classes for node in part.nodes if node.kind == "collective"]
    joined: dict[str, set[int]] = {}
    for part, node in found:
        joined.setdefault(node.group, set()).update(part.devices)
    for group, (members, *_) in trace.groups.items():
        there = [device for device in members if device in joined.get(group, members)]
        if away := [str(device) for device in members if device not in there]:
            what = f"devices {listed(away)} have no collective of group {group} and are removed from it"
            trace.notes.append(what)
            trace.groups[group] = [there]
    for _, node in found:
        if node.op in ("all_gather", "gather"):
            node.bytes *= len(trace.groups[node.group][0]) if node.group else trace.devices


def _files(root: str, name: str | None) -> tuple[str, list[str]]:
    """Returns the name of the trace and the path of each device's file."""
    try:
        there = sorted(os.listdir(root))
    except OSError as error:
        raise user_error("cannot read the directory", place=root, value=error.strerror or str(error)) from None
    found: dict[str, dict[int, str]] = {}
    for file in there:
        if match := FILE.fullmatch(file):
            found.setdefault(match[1], {})[int(match[2])] = os.path.join(root, file)
    names = sorted(found)
    if name is None and len(names) == 1:
        name = names[0]
    if name is None or name not in found:
        what = (
            "the directory has several traces" if names and name is None else "the directory does not have this trace"
        )
        raise user_error(what, place=root, value=name or "", allowed=listed(names) or "files NAME.<device>.et")
    paths = found[name]
    if missing := [device for device in range(max(paths) + 1) if device not in paths]:
        raise user_error("missing file of a device", place=os.path.join(root, f"{name}.{missing[0]}.et"))
    return name, [paths[device] for device in sorted(paths)]


def _groups(path: str, devices: int) -> dict[str, list[int]]:
    if not os.path.exists(path):
        return {}
    data = read_json(path)
    groups: dict[str, list[int]] = {}
    rows: list[tuple[str, Any]] = list(data.items()) if isinstance(data, dict) else [("", None)]
    for number, members in rows:
        good = isinstance(members, list) and all(type(one) is int and 0 <= one < devices for one in members)
        if not good or len(set(members)) != len(members) or not members:
            raise user_error("no group", place=f"{path}, {number!r}", value=str(members),
                             allowed=f"a list of devices from 0 to {devices - 1}")  # fmt: skip
        groups[number] = members
    return groups


def _messages(data: bytes, path: str) -> list[tuple[int, bytes]]:
    """Returns the number in the file and the bytes of each node; skips GlobalMetadata."""
    found: list[tuple[int, bytes]] = []
    at = count = 0
    while at < len(data):
        try:
            size, at = wire.read_varint(data, at, len(data))
        except wire.MalformedMessage as error:
            raise user_error(f"the file is truncated: {error}", place=f"{path}: {_which(count)}") from None
        if at + size > len(data):
            raise user_error("the file is truncated", place=f"{path}: {_which(count)}",
                             value=f"{len(data) - at} of {size} bytes")  # fmt: skip
        body = data[at : at + size]
        at += size
        if count or not _is_metadata(body):
            found.append((count, body))
        count += 1
    if not count:
        raise user_error("the file is empty", place=path, allowed="GlobalMetadata, then nodes")
    return found


def _which(count: int) -> str:
    return "GlobalMetadata" if count == 0 else f"node {count} of the file"


def _is_metadata(body: bytes) -> bool:
    try:
        first = next(wire.fields(body), (1, b""))
    except wire.MalformedMessage:
        return False
    return isinstance(first[1], bytes)


def _node(body: bytes, path: str, count: int, devices: list[int], groups: dict[str, list[int]]) -> TraceNode:
    place = f"{path}: {_which(count)}"
    values: dict[int, Any] = {}
    deps: list[int] = []
    attributes: dict[str, Any] = {}
    try:
        for field, value in wire.fields(body):
            if field in (4, 5):
                deps += wire.repeated(value)
            elif field == 10:
                key, found = wire.read_attribute(value)
                attributes[key] = found
            else:
                values[field] = value
        name = values.get(2, b"").decode(errors="replace")
        number, sort, micros = (int(values.get(field, 0)) for field in (1, 3, 7))
    except (wire.MalformedMessage, AttributeError, TypeError, ValueError) as error:
        raise user_error(f"not a node of a trace: {error}", place=place) from None
    place = f"{path}: node {number} ({name})"
    if sort not in wire.NODES:
        kinds = ", ".join(f"{key} ({kind})" for key, kind in wire.NODES.items())
        raise user_error("unknown node type", place=place, value=str(sort), allowed=kinds)
    kind = wire.NODES[sort]
    if kind.startswith("memory"):
        if kind == "memory store":
            attributes["stores"] = ("bool", True)
        kind = "memory"
    kind = "none" if kind == "metadata" else kind
    spent = _number(attributes, "duration_ps", place, micros * 10**6)
    kept = {key: found for key, found in attributes.items() if key not in RESERVED}
    node = TraceNode(number, name, kind, list(dict.fromkeys(deps)), spent, attributes=kept)
    node.stream = str(attributes.get(STREAM, ("", ""))[1])
    if kind == "collective":
        _collective(node, attributes, place, groups)
    elif kind in ("send", "recv"):
        _message(node, attributes, place, devices)
    return node


def _number(attributes: dict[str, Any], name: str, place: str, default: int | None = None) -> int:
    value = attributes.get(name, ("", None))[1]
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or value < 0:
        what = "missing attribute" if value is None else "the attribute is not a number of at least 0"
        raise user_error(what, place=f"{place}, {name}", value="" if value is None else repr(value))
    return value


def _collective(node: TraceNode, attributes: dict[str, Any], place: str, groups: dict[str, list[int]]) -> None:
    comm = _number(attributes, "comm_type", place)
    if comm not in wire.COLLECTIVES:
        kinds = ", ".join(f"{key} ({name})" for key, name in wire.COLLECTIVES.items())
        raise user_error("unknown collective", place=f"{place}, comm_type", value=str(comm), allowed=kinds)
    node.op = wire.COLLECTIVES[comm]
    named = attributes.get("pg_name", ("", ""))[1]
    node.group = "" if named is None else str(named)
    if node.group and node.group not in groups:
        raise user_error(f"the group is not in {GROUPS}", place=f"{place}, pg_name", value=node.group,
                         allowed=listed(groups) or "no groups")  # fmt: skip
    node.bytes = _number(attributes, "comm_size", place, 0 if node.op == "barrier" else None)


def _message(node: TraceNode, attributes: dict[str, Any], place: str, devices: list[int]) -> None:
    own, other = ("comm_src", "comm_dst") if node.kind == "send" else ("comm_dst", "comm_src")
    node.bytes = _number(attributes, "comm_size", place)
    node.tag = _number(attributes, "comm_tag", place, 0)
    here = _number(attributes, own, place, devices[0])
    if [here] * len(devices) != devices and own in attributes:
        raise user_error(f"the {node.kind} belongs to another device", place=f"{place}, {own}", value=str(here),
                         allowed=str(devices[0]))  # fmt: skip
    node.peers = [_number(attributes, other, place)] * len(devices)
