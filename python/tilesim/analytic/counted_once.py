"""Raises closed-form times to the minimum of a single run, which moves inputs, weights and outputs once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _core
from ..graph import Graph
from ..machine.device import Device
from .operations import Cost, flat_operations

__all__ = ["counted_once", "products_per_second"]

KINDS = ("npu", "tpu")
"""Devices whose shared level is a scratchpad, which is empty at the start of a run."""
_VIEWS = ("reshape", "transpose", "bitcast")


def products_per_second(device: Device) -> float:
    """Returns the highest FLOP rate of matrix products on a device over all dtypes."""
    native = [rate for rate in device.matrix.values() if rate.how == "native"]
    return max((one.flops_per_second for one in native or device.matrix.values()), default=0.0)


def counted_once(graph: Graph, device: Device, rows: Sequence[Cost], peak: float) -> list[str]:
    """Raises each operation's time to the memory time of its first reads of inputs and weights and its output writes.

    The closed forms describe repeated library calls, which find a part of the weights in the
    cache; but a machine with a scratchpad reads the weights in each run.
    """
    if device.kind not in KINDS:
        return []
    rate = device.memory.bytes_per_second
    before = sum(cost.seconds for cost in rows)
    operations = flat_operations(graph)
    first = _first_bytes(graph, operations)
    by_name = {op["name"]: bytes_ for op, bytes_ in zip(operations, first, strict=True)}
    aligned = len(operations) == len(rows)
    for at, cost in enumerate(rows):
        _at_least(cost, (first[at] if aligned else by_name.get(cost.name, 0.0)) / rate)
    least = {"memory": graph.core.compulsory_bytes() / rate}
    if peak > 0:
        least["compute"] = graph.core.flops()["matrix"] / peak
    for term, seconds in least.items():
        _spread(rows, seconds, term)
    hertz = round(device.clock_hz)
    if lost := math.ceil(max(least.values()) * hertz) - sum(round(cost.seconds * hertz) for cost in rows):
        longest = max(rows, key=lambda cost: cost.seconds, default=None)
        if longest is not None and lost > 0:  # restores time that rounding to cycles removed
            longest.seconds += lost / hertz
    after = sum(cost.seconds for cost in rows)
    if after <= before:
        return []
    return ["each run moves inputs, weights and outputs once between memory and chip, even if they fit the scratchpads"]


def _at_least(cost: Cost, seconds: float, term: str = "memory") -> None:
    if seconds <= 0:
        return
    cost.terms[term] = max(cost.terms.get(term, 0.0), seconds)
    cost.seconds = max(cost.seconds, seconds + cost.terms.get("launch", 0.0))


def _spread(rows: Sequence[Cost], least: float, term: str) -> None:
    """If the graph's bound exceeds the sum of times, adds the excess to operations in proportion to their time."""
    total = sum(cost.seconds for cost in rows)
    if not rows or total >= least:
        return
    taking = [cost for cost in rows if cost.seconds > 0] or list(rows[-1:])
    for cost in taking:
        more = (least - total) * (cost.seconds / total if total > 0 else 1 / len(taking))
        cost.seconds += more
        cost.terms[term] = max(cost.terms.get(term, 0.0), cost.seconds - cost.terms.get("launch", 0.0))


def _first_bytes(graph: Graph, operations: Sequence[dict[str, Any]]) -> list[float]:
    """Returns, per operation, the bytes of inputs and weights that it reads first and of outputs that it writes."""
    sizes: dict[str, float] = {}
    root: dict[str, str] = {}
    for row in graph.core.inputs:
        root[row["name"]] = row["name"]
    outputs = {row["name"] for row in graph.core.outputs}
    read: set[str] = set()
    found: list[float] = []
    for op in operations:
        mine = 0.0
        if op["kind"] == "constant":
            root[op["results"][0]["name"]] = op["results"][0]["name"]
        elif op["kind"] in _VIEWS and op["operands"][0]["name"] in root:
            root[op["results"][0]["name"]] = root[op["operands"][0]["name"]]
        elif op["bytes"] > 0:
            written = sum(_size(x, sizes) for x in op["results"] if x)
            room = max(0.0, float(op["bytes"]) - written)  # a lookup reads only the requested rows of the table
            for x in op["operands"]:
                source = root.get(x["name"]) if x else None
                if source is not None and source not in read:
                    read.add(source)
                    part = min(room, _size(x, sizes))
                    mine, room = mine + part, room - part
            mine += sum(_size(x, sizes) for x in op["results"] if x and x["name"] in outputs)
        found.append(mine)
    return found


def _size(value: dict[str, Any], known: dict[str, float]) -> float:
    if value["dtype"] not in known:
        known[value["dtype"]] = _core.dtype_bits(value["dtype"]) / 8
    return math.prod(value["shape"]) * known[value["dtype"]]
