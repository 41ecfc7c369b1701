"""Runs traces: each device has a compute stream, a memory stream, and communication streams that share ports."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

from ...base.errors import user_error
from ..trace import Trace, TraceClass, TraceNode
from .matching import Quotient
from .rates import ConcurrentRates

__all__ = ["ExecutedNodes", "ordered", "run"]

_At = tuple[int, int]


def ordered(trace: Trace) -> Trace:
    """Returns the trace with nodes in program order: the file's order, but after their dependencies."""
    return Trace(trace.name, trace.devices, [_ordered(trace, part) for part in trace.classes], trace.groups)


def _ordered(trace: Trace, part: TraceClass) -> TraceClass:
    at = {node.id: place for place, node in enumerate(part.nodes)}
    left = [len(node.deps) for node in part.nodes]
    after: list[list[int]] = [[] for _ in part.nodes]
    for place, node in enumerate(part.nodes):
        for dep in node.deps:
            after[at[dep]].append(place)
    ready = [place for place, count in enumerate(left) if not count]
    order: list[TraceNode] = []
    while ready:
        place = heapq.heappop(ready)
        order.append(part.nodes[place])
        for other in after[place]:
            left[other] -= 1
            if not left[other]:
                heapq.heappush(ready, other)
    if len(order) < len(part.nodes):
        place = next(place for place, count in enumerate(left) if count)
        chain: list[int] = []
        while place not in chain:
            chain.append(place)
            place = next(at[dep] for dep in part.nodes[place].deps if left[at[dep]])
        circle = [*chain[chain.index(place) :], place]
        names = ", which waits for ".join(f"node {part.nodes[one].id} ({part.nodes[one].name})" for one in circle)
        raise user_error(f"deadlock between nodes: {names}", place=trace.place(part))
    return TraceClass(part.devices, order, part.source)


@dataclass(slots=True)
class ExecutedNodes:
    """Nodes that a class of devices ran: (stream, node index, begin, end) in picoseconds; by node index, the delay by
    concurrent nodes."""

    intervals: list[tuple[str, int, int, int]] = field(default_factory=list)
    end: int = 0
    slowed: dict[int, int] = field(default_factory=dict)


class _Run:
    """Runs in rounds: all nodes with equal end time end before other nodes begin."""

    def __init__(self, trace: Trace, quotient: Quotient, slowing: float) -> None:
        self.trace, self.found = trace, quotient
        self.pace = ConcurrentRates(quotient, slowing)
        self.nodes = [unit.part.nodes for unit in quotient.units]
        self.ran = [ExecutedNodes() for _ in quotient.units]
        self.heap: list[tuple[int, int, int]] = []
        self.left: list[list[int]] = []
        self.after: list[list[list[int]]] = []
        self.ready: dict[tuple[int, str], list[int]] = {}
        self.queues: dict[tuple[int, str], deque[int]] = {}  # program-ordered collectives of each queue
        self.able: set[_At] = set()  # collectives whose operands are ready
        self.arrived: dict[_At, set[_At]] = {}  # first member of a collective -> members that arrived
        self.busy: set[tuple[int, str]] = set()
        self.asked: dict[_At, int] = {}  # receive -> time at which it began to wait
        self.sent: dict[_At, int] = {}  # send -> its begin
        self.gone: dict[_At, int] = {}  # send -> its end
        self.begun: dict[_At, int] = {}
        self.touched: list[tuple[int, str]] = []
        for number, nodes in enumerate(self.nodes):
            self._prepare(number, nodes)

    def _prepare(self, number: int, nodes: list[TraceNode]) -> None:
        at = {node.id: place for place, node in enumerate(nodes)}
        self.left.append([len(node.deps) for node in nodes])
        after: list[list[int]] = [[] for _ in nodes]
        for place, node in enumerate(nodes):
            for dep in node.deps:
                after[at[dep]].append(place)
            if node.kind == "collective":
                self.queues.setdefault((number, self.stream(node)), deque()).append(place)
        self.after.append(after)

    @staticmethod
    def stream(node: TraceNode) -> str:
        if node.stream:
            return node.stream if node.kind == "collective" else f"{node.kind} {node.stream}"
        return f"collectives {node.group}".rstrip() if node.kind == "collective" else node.kind

    def run(self) -> list[ExecutedNodes]:
        for number, left in enumerate(self.left):
            for place, count in enumerate(left):
                if not count:
                    self._offer(number, place, 0)
        self._begin(0)
        self.pace.adjust(0, self.heap)
        while self.heap:
            now = self.heap[0][0]
            while self.heap and self.heap[0][0] == now:
                _, number, place = heapq.heappop(self.heap)
                if self.pace.due((number, place), now):
                    self._end(number, place, now)
            self._begin(now)
            self.pace.adjust(now, self.heap)
        self._check()
        return self.ran

    def _offer(self, number: int, place: int, now: int) -> None:
        """Queues a node whose dependencies have ended."""
        node = self.nodes[number][place]
        stream = (number, self.stream(node))
        if node.kind == "none":
            heapq.heappush(self.heap, (now, number, place))
        elif node.kind == "recv":
            self.asked[number, place] = now
            self._receive((number, place), now)
        else:
            if node.kind == "collective":
                self.able.add((number, place))
            else:
                heapq.heappush(self.ready.setdefault(stream, []), place)
            self.touched.append(stream)

    def _receive(self, at: _At, now: int) -> None:
        """Ends a waiting receive if its message has arrived."""
        partner = self.found.partner[at]
        if at in self.asked and partner in self.gone:
            self.begun[at] = min(max(self.asked[at], self.sent[partner]), now)
            heapq.heappush(self.heap, (now, *at))

    def _begin(self, now: int) -> None:
        touched, self.touched = sorted(set(self.touched)), []
        for stream in touched:
            if stream in self.busy:
                continue
            number = stream[0]
            if stream in self.queues:
                if self.queues[stream] and (number, self.queues[stream][0]) in self.able:
                    self.busy.add(stream)
                    self._arrive((number, self.queues[stream][0]), now)
            elif ready := self.ready.get(stream):
                self.busy.add(stream)
                self._start((number, heapq.heappop(ready)), now)

    def _start(self, at: _At, now: int) -> None:
        node = self.nodes[at[0]][at[1]]
        self.begun[at] = now
        if node.kind == "send":
            self.sent[at] = now
            end = self.pace.begin([at], self.found.units[at[0]].cost[at[1]], now, (at[0], self.found.partner[at][0]))
        elif node.kind == "compute":
            end = self.pace.begin([at], node.duration_ps, now)
        else:
            end = now + node.duration_ps
        heapq.heappush(self.heap, (end, *at))

    def _arrive(self, at: _At, now: int) -> None:
        joined = self.found.joined[at]
        here = self.arrived.setdefault(joined[0], set())
        here.add(at)
        if len(here) == len(joined):
            end = self.pace.begin(joined, self.found.units[at[0]].cost[at[1]], now, [one for one, _ in joined])
            for one in joined:
                self.begun[one] = now
                heapq.heappush(self.heap, (end, *one))

    def _end(self, number: int, place: int, now: int) -> None:
        node = self.nodes[number][place]
        stream = (number, self.stream(node))
        ran = self.ran[number]
        ran.intervals.append((stream[1], place, self.begun.get((number, place), now), now))
        ran.end = max(ran.end, now)
        if more := self.pace.end((number, place), now):
            ran.slowed[place] = more
        if node.kind == "send":
            self.gone[number, place] = now
            self._receive(self.found.partner[number, place], now)
        if stream in self.queues:
            self.queues[stream].popleft()
        if stream in self.busy:
            self.busy.remove(stream)
            self.touched.append(stream)
        left = self.left[number]
        left[place] = -1
        for other in self.after[number][place]:
            left[other] -= 1
            if not left[other]:
                self._offer(number, other, now)

    def _check(self) -> None:
        """Raises an error if nodes never began because devices wait for each other in a cycle."""
        for number, left in enumerate(self.left):
            for place, count in enumerate(left):
                if count != 0:
                    continue
                unit, node = self.found.units[number], self.nodes[number][place]
                what = "its collective never begins, since other devices wait for another one"
                if node.kind == "recv":
                    other, there = self.found.partner[number, place]
                    end = self.found.units[other]
                    what = f"missing send for {self.trace.place(end.part, self.nodes[other][there])}"
                raise user_error(f"deadlock between devices; {what}", place=self.trace.place(unit.part, node))


def run(trace: Trace, quotient: Quotient, slowing: float = 0.0) -> list[ExecutedNodes]:
    """Runs a trace; returns the nodes of each class with times."""
    return _Run(trace, quotient, slowing).run()
