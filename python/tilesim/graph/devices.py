"""Finds the communication of a graph: collectives with their bytes, and the notes that results have about them."""

from __future__ import annotations

import math
from typing import Any, TypeVar

from .. import _core
from ..base.errors import listed

_Graph = TypeVar("_Graph", bound=Any)

__all__ = ["bytes_of", "collectives", "device_notes", "groups_of", "mesh_devices", "single_device_graph"]

#: collective -> bytes that leave one of n devices per call, as a share of the larger of operand and result
_SHARES = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast_devices": lambda n: 1.0 if n > 1 else 0.0,
}


def mesh_devices(core: _core.Graph) -> int:
    """Returns the number of devices in a graph's mesh; 1 without a mesh."""
    return 1 if core.mesh is None else math.prod(size for _, size in _core.mesh_axes(core.mesh)[0])


def bytes_of(value: dict[str, Any]) -> int:
    """Returns the bytes of a tensor."""
    return math.ceil(math.prod(value["shape"]) * _core.dtype_bits(value["dtype"]) / 8)


def groups_of(entry: dict[str, Any], devices: int) -> list[list[int]]:
    """Returns the members of each group of a collective, or source and target of each pair."""
    attributes = entry["attributes"]
    if "pairs" in attributes:
        pairs = attributes["pairs"]
        return [list(pair) for pair in zip(pairs[::2], pairs[1::2], strict=True)]
    flat, size = attributes.get("groups", []), attributes.get("group_size", 1)
    if not flat:
        return [list(range(max(devices, size)))]
    return [[device for device in flat[i : i + size] if device >= 0] for i in range(0, len(flat), size)]


def _row(entry: dict[str, Any], devices: int) -> dict[str, Any]:
    groups, kind = groups_of(entry, devices), entry["kind"]
    bytes_in, bytes_out = bytes_of(entry["operands"][0]), bytes_of(entry["results"][0])
    if kind == "permute_devices":
        sends = any(source != target for source, target in groups)
        members, wire = len({device for pair in groups for device in pair}), bytes_in if sends else 0
    else:
        n = max(len(group) for group in groups)
        members, wire = n, round(_SHARES[kind](n) * max(bytes_in, bytes_out))
    return {
        "operation": entry["name"],
        "kind": kind,
        "count": 1,
        "devices": members,
        "groups": groups,
        "bytes_in": bytes_in,
        "bytes_out": bytes_out,
        "wire_bytes": wire,
    }


def _sent(rows: list[dict[str, Any]]) -> int:
    return sum(row["count"] * row["wire_bytes"] for row in rows)


def collectives(core: _core.Graph) -> list[dict[str, Any]]:
    """Lists the collectives that the entry function reaches."""
    known: dict[str, list[dict[str, Any]]] = {}
    devices = int(core.devices)

    def rows(entry: dict[str, Any]) -> list[dict[str, Any]]:
        kind = entry["kind"]
        if not entry["functions"]:
            return [] if kind == "device_index" else [_row(entry, devices)]
        inner = [known[name] for name in entry["functions"]]
        trips = 1
        if kind == "while":
            trips = max(1, int(entry["attributes"].get("trips", 0)))
        elif kind == "branch":
            inner = [max(inner, key=_sent)]
        elif kind == "sort":
            inner = []
        return [
            {**row, "operation": f"{entry['name']}/{row['operation']}", "count": row["count"] * trips}
            for found in inner
            for row in found
        ]

    # Callees come first, without recursion: graphs may have more levels than Python's stack.
    open_: list[tuple[str, list[dict[str, Any]]]] = [("", core.communications(""))]
    while open_:
        function, entries = open_[-1]
        missing = [name for entry in entries for name in entry["functions"] if name not in known]
        if missing:
            open_.append((missing[0], core.communications(missing[0])))
        else:
            known[function] = [row for entry in entries for row in rows(entry)]
            open_.pop()
    return known[""]


def device_notes(core: _core.Graph) -> list[str]:
    """Returns notes for single-device results of a graph for several devices."""
    rows = collectives(core)
    devices, mesh = int(core.devices), mesh_devices(core)
    if rows:
        count, moved = sum(row["count"] for row in rows), _sent(rows)
        names = listed([row["operation"] for row in rows], 3)
        among = devices if devices > 1 else max(max(map(max, row["groups"])) + 1 for row in rows if row["groups"])
        return [
            f"devices: the time is of one of {among} devices, without {count} calls of collectives ({names}) that send "
            f"{moved} bytes from each device"
        ]
    if mesh > 1:
        return [f"devices: the program of {mesh} devices runs on one; ts.partition applies its shardings"]
    if devices > 1:
        return [f"devices: the time is of one of {devices} equal devices, which do not communicate"]
    return []


def single_device_graph(graph: _Graph) -> _Graph:
    """Changes collectives so that one device can run the graph, as if all devices held the same tensors."""
    changed = graph.copy()
    names = _core.one_of_alike_devices(changed.core)
    if not names:
        return graph
    if graph.source is not None and graph.source is not graph:
        changed.set_source(single_device_graph(graph.source))
    changed.assumptions.append(
        f"collectives: {listed(names, 3)}: communication takes no time, and all devices hold the same tensors"
    )
    return changed
