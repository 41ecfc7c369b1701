"""Writes Chakra traces: one file per device, and a file of groups (`ts.cluster.to_chakra`)."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ...base.checked import checked
from ...base.errors import path_text, shown, user_error
from ...base.files import writing
from ..cluster import Cluster
from ..spmd import Spmd
from ..trace import Trace, TraceClass, TraceNode
from . import wire

__all__ = ["FILE", "GROUPS", "to_chakra"]

GROUPS = "comm_group.json"
#: name of the file for a device
FILE = re.compile(r"(.+)\.(\d{1,8})\.et")
SCHEMA = "Chakra Execution Trace v0.0.4"
_NUMBER = {"metadata": 1, "none": 1, "memory": 2, "compute": 4, "send": 5, "recv": 6, "collective": 7}
_COMM = {name: number for number, name in reversed(wire.COLLECTIVES.items())}
#: attribute that stores the stream of a communication
STREAM = "tilesim_stream"
#: attributes whose values come from fields of a node
RESERVED = frozenset(
    (
        "is_cpu_op",
        "comm_type",
        "comm_size",
        "comm_src",
        "comm_dst",
        "comm_tag",
        "pg_name",
        "duration_ps",
        "duration_micros",
        STREAM,
    )
)


@checked()
def to_chakra(workload: Any, cluster: Any, folder: str | os.PathLike[str]) -> list[str]:
    """Writes a workload as Chakra execution traces for ASTRA-sim and other simulators.

    Each device has a file `NAME.<device>.et` of length-prefixed messages: GlobalMetadata, then the Nodes. The file
    `comm_group.json` maps a group's number to its devices. `comm_size` is a device's input: the shard of a gather, the
    full tensor of a scatter. `duration_micros` is rounded, `duration_ps` is exact. Replaces a trace of the same
    NAME: deletes only files `NAME.<number>.et` of devices that the new trace lacks.

    Args:
        workload: a `Trace`, a result with `.to_trace()` (from `ts.cluster.pipeline`, or from `ts.cluster.step` of a
            program), or an Spmd, whose segments closed forms time on the cluster.
        cluster: a cluster with as many devices as the trace; None skips this check, but an Spmd needs a cluster.
        folder: output directory, created if missing.

    Returns:
        Paths of the files.

    Raises:
        UserError: for a workload without a trace, an illegal trace, another number of devices, or a directory that
            cannot be written.
    """
    trace = _trace_of(workload, cluster)
    trace.check()
    if isinstance(cluster, str):
        cluster = Cluster.load(cluster)
    devices = getattr(cluster, "devices", None)
    if devices is not None and int(devices) != trace.devices:
        raise user_error(
            "the trace and the cluster have different numbers of devices",
            place="cluster",
            value=str(devices),
            allowed=str(trace.devices),
        )
    root = path_text(folder)
    try:
        os.makedirs(root, exist_ok=True)
    except OSError as error:
        raise user_error("cannot create the directory", place=root, value=error.strerror or str(error)) from None
    names, table = _numbered(trace)
    paths = [os.path.join(root, GROUPS)]
    with writing(paths[0]) as file:
        json.dump(table, file, indent=1)
    written: dict[tuple[Any, ...], bytes] = {}
    for number, part in enumerate(trace.classes):
        for at, device in enumerate(part.devices):
            groups = tuple(sorted((kind, names[kind].get(device, "")) for kind in names))
            peers = any(node.peers for node in part.nodes)
            key = (number, groups, device if peers else -1)
            if key not in written:
                written[key] = _file(trace, part, at, dict(groups))
            paths.append(os.path.join(root, f"{trace.name}.{device}.et"))
            _write(paths[-1], written[key])
    _delete_others(root, trace.name, paths)
    return paths


def _delete_others(root: str, name: str, paths: list[str]) -> None:
    """Deletes files of an older trace with this name, which readers would mistake for devices of the new trace."""
    kept = {os.path.basename(path) for path in paths}
    try:
        for file in os.listdir(root):
            match = FILE.fullmatch(file)
            if match and match[1] == name and file not in kept and os.path.isfile(os.path.join(root, file)):
                os.remove(os.path.join(root, file))
    except OSError as error:
        raise user_error("cannot delete a file of the older trace", place=root,
                         value=error.strerror or str(error)) from None  # fmt: skip


def _write(path: str, data: bytes) -> None:
    """Writes a file without fsync, which would take milliseconds per file."""
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise user_error("cannot write the file", place=path, value=error.strerror or str(error)) from None


def _trace_of(workload: Any, cluster: Any) -> Trace:
    if isinstance(workload, Spmd):
        if cluster is None:
            raise user_error("a program needs a cluster", place="cluster", allowed="a name, a ts.Cluster")
        from ..programs.calling import Options, step_program

        return step_program(workload, cluster, Options(overlap="ready", check_memory=False)).to_trace()
    if isinstance(workload, Trace):
        return workload
    if callable(getattr(workload, "to_trace", None)):
        return workload.to_trace()
    raise user_error("the workload has no trace", place="workload", value=shown(workload),
                     allowed="a tilesim.cluster.Trace, or a result with to_trace()")  # fmt: skip


def _numbered(trace: Trace) -> tuple[dict[str, dict[int, str]], dict[str, list[int]]]:
    """Numbers the groups from 1; returns each device's group number by kind, as text, and devices by group number.

    A kind of one group with a number as name keeps this number, so writing a trace after reading leaves it unchanged.
    """
    kept = {kind for kind, groups in trace.groups.items() if len(groups) == 1 and kind.isdecimal()}
    table: dict[str, list[int]] = {kind: list(trace.groups[kind][0]) for kind in kept}
    names: dict[str, dict[int, str]] = {kind: dict.fromkeys(table[kind], kind) for kind in kept}
    number = 0
    for kind, groups in trace.groups.items():
        if kind in kept:
            continue
        names[kind] = {}
        for group in groups:
            number += 1
            while str(number) in table:
                number += 1
            table[str(number)] = list(group)
            names[kind].update(dict.fromkeys(group, str(number)))
    return names, table


def _file(trace: Trace, part: TraceClass, at: int, groups: dict[str, str]) -> bytes:
    """Returns the file content of one device of a class."""
    head = wire.bytes_field(1, SCHEMA) + wire.bytes_field(2, wire.attribute("writer", "tilesim"))
    parts = [wire.message(head)]
    for node in part.nodes:
        body = wire.number(1, node.id) + wire.bytes_field(2, node.name)
        number = _NUMBER[node.kind] if node.attributes.get("stores") != ("bool", True) else 3
        body += (
            wire.number(3, number) + wire.packed(5, node.deps) + wire.number(7, (node.duration_ps + 500_000) // 10**6)
        )
        body += b"".join(wire.bytes_field(10, one) for one in _attributes(trace, part, node, at, groups))
        parts.append(wire.message(body))
    return b"".join(parts)


def _attributes(trace: Trace, part: TraceClass, node: TraceNode, at: int, groups: dict[str, str]) -> list[bytes]:
    found = [wire.attribute("is_cpu_op", False)]
    if node.duration_ps:
        found.append(wire.attribute("duration_ps", node.duration_ps))
    if node.kind == "collective":
        size = node.bytes
        if node.op in ("all_gather", "gather"):
            size = -(-size // _members(trace, node, part.devices[at]))
        found += [wire.attribute("comm_type", _COMM[node.op]), wire.attribute("comm_size", size)]
        if node.group:
            found.append(wire.attribute("pg_name", groups[node.group]))
    elif node.kind in ("send", "recv"):
        device, peer = part.devices[at], node.peers[at]
        source, target = (device, peer) if node.kind == "send" else (peer, device)
        found.append(wire.attribute("comm_size", node.bytes))
        ends = (("comm_src", source), ("comm_dst", target), ("comm_tag", node.tag))
        found += [wire.attribute(name, value, "int32") for name, value in ends]
    if node.stream:
        found.append(wire.attribute(STREAM, node.stream))
    return found + [wire.attribute(name, value) for name, value in node.attributes.items() if name not in RESERVED]


def _members(trace: Trace, node: TraceNode, device: int) -> int:
    if not node.group:
        return trace.devices
    return next(len(group) for group in trace.groups[node.group] if device in group)
