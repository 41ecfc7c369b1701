"""Builds traces of programs: each device class has a compute stream and a stream per network dimension."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from ..chakra.pricing import DTYPE, PERMUTE, SLOWED, Communication
from ..cluster import Cluster
from ..pipelines.result import PICO
from ..trace import Trace, TraceClass, TraceNode
from .splitting import ProgramPart, Split

__all__ = ["Communication", "dimension_of", "order_of", "trace_of"]

Seconds = Callable[[ProgramPart, int], float]  # function: segment, index of the device class -> seconds


def dimension_of(cluster: Cluster, groups: Sequence[Sequence[int]]) -> str:
    """Returns the name of the outermost network dimension that device groups span, which names their stream."""
    outer, stride = 0, 1
    for number, one in enumerate(cluster.dimensions):
        if any(len({device // stride % one.size for device in group}) > 1 for group in groups):
            outer = number
        stride *= one.size
    name = cluster.dimensions[outer].name if cluster.dimensions else ""
    return f"network {outer}" + (f" ({name})" if name else "")


def trace_of(
    name: str,
    splits: Sequence[Split],
    classes: Sequence[Sequence[int]],
    seconds: Seconds,
    price: Communication,
    *,
    serial: bool = False,
    slow: Mapping[int, float] | None = None,
) -> Trace:
    """Builds the trace of a program."""
    count = sum(map(len, classes))
    slow = dict(slow or {})
    made = _TraceWriter(Trace(name, count, []), price, serial)
    for number, (split, devices) in enumerate(zip(splits, classes, strict=True)):
        permutes = [part for part in split.parts if part.op == "permute_devices"]
        apart: dict[Any, list[int]] = {}
        for device in devices:
            ways = tuple(
                (any(a == device != b for a, b in part.groups), any(b == device != a for a, b in part.groups))
                for part in permutes
            )
            apart.setdefault((ways, slow.get(device, 1.0)), []).append(device)
        for (_, factor), members in apart.items():
            made.add(split, members, partial(_slower, seconds, number, factor), factor)
    return made.trace


def _slower(seconds: Seconds, number: int, factor: float, part: ProgramPart) -> float:
    return seconds(part, number) * factor


class _TraceWriter:
    def __init__(self, trace: Trace, price: Communication, serial: bool) -> None:
        self.trace, self.price, self.serial = trace, price, serial
        self.kinds: dict[str, str] = {}

    def group(self, groups: Sequence[Sequence[int]]) -> str:
        """Returns the name of a kind of groups; "" for one group of all devices in order."""
        if [list(group) for group in groups] == [list(range(self.trace.devices))]:
            return ""
        text = str(groups)
        if text not in self.kinds:
            self.kinds[text] = f"groups {len(self.kinds) + 1}"
            self.trace.groups[self.kinds[text]] = [list(group) for group in groups]
        return self.kinds[text]

    def add(self, split: Split, devices: list[int], seconds: Callable[[ProgramPart], float], factor: float) -> None:
        nodes: list[TraceNode] = []
        ends: dict[int, list[int]] = {}  # part -> nodes for which later parts wait
        order, tag = order_of(split), 0
        for number in order:
            part = split.parts[number]
            deps = sorted({node for dep in part.deps for node in ends[dep]})
            if self.serial and nodes:
                deps = sorted({*deps, len(nodes) - 1})
            ends[number] = self.nodes(nodes, tag, part, deps, devices, seconds)
            tag += part.op == "permute_devices"
        if factor != 1.0:
            for node in nodes:
                if node.kind == "compute":
                    node.attributes[SLOWED] = factor
        self.trace.classes.append(TraceClass(devices, nodes))

    def nodes(
        self, nodes: list[TraceNode], tag: int, part: ProgramPart, deps: list[int], devices: list[int],
        seconds: Callable[[ProgramPart], float],
    ) -> list[int]:  # fmt: skip
        first = len(nodes)
        if not part.op:
            took = math.ceil(round(seconds(part) * PICO, 3))
            nodes.append(TraceNode(first, part.name, "compute", deps, duration_ps=took))
            return [first]
        stream = dimension_of(self.price.cluster, part.groups)
        if part.op == "permute_devices":
            return self.messages(nodes, tag, part, deps, devices, stream)
        mine = set(devices)
        if not any(mine.intersection(group) for group in part.groups):
            nodes.append(TraceNode(first, part.name, "none", deps))
            return [first]
        kind = self.group(part.groups)
        self.price.dtypes.setdefault((part.op, part.bytes), part.dtype)
        nodes.append(TraceNode(first, part.name, "collective", deps, bytes=part.bytes, group=kind, op=part.op,
                               stream=stream, attributes={DTYPE: part.dtype}))  # fmt: skip
        return [first]

    def messages(
        self, nodes: list[TraceNode], tag: int, part: ProgramPart, deps: list[int], devices: list[int], stream: str
    ) -> list[int]:
        pairs = [(a, b) for a, b in part.groups if a != b]
        if pairs:
            self.price.permute(part.bytes, pairs)
        to, source = dict(pairs), {b: a for a, b in pairs}
        found: list[int] = []
        for kind, ends in (("send", to), ("recv", source)):
            if all(device in ends for device in devices):
                found.append(len(nodes))
                nodes.append(TraceNode(len(nodes), part.name, kind, deps, bytes=part.bytes, tag=tag, stream=stream,
                                       peers=[ends[device] for device in devices],
                                       attributes={PERMUTE: True}))  # fmt: skip
        if not found:
            nodes.append(TraceNode(len(nodes), part.name, "none", deps))
            return [len(nodes) - 1]
        return found[-1:] if nodes[found[-1]].kind == "recv" else found


def order_of(split: Split) -> list[int]:
    """Returns the parts in an order that respects dependences, with communications in issue order."""
    count = len(split.parts)
    left = [len(part.deps) for part in split.parts]
    after: list[list[int]] = [[] for _ in range(count)]
    talking = [number for number, part in enumerate(split.parts) if part.op]
    for number, part in enumerate(split.parts):
        for dep in part.deps:
            after[dep].append(number)
    for one, other in pairwise(talking):  # the issue order respects dependences, so these edges form no cycle
        after[one].append(other)
        left[other] += 1
    ready = [(split.parts[number].place, number) for number in range(count) if not left[number]]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        order.append(number)
        for other in after[number]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, (split.parts[other].place, other))
    return order
