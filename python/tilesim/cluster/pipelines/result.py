"""Result of a pipeline: time, bubble, stored micro-batches."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

from ...base.files import writing
from ...base.table import Table, Tabled
from ...results.perfetto import check_ending
from ..trace import Trace, TraceClass, TraceNode
from .order import ChunkPass, Order, Placement, peak_activations, text
from .timing import PipelineTimes, need

__all__ = ["PICO", "Pipeline", "write_events", "write_trace"]

PICO = 10**12
_LONG = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}


@dataclass(frozen=True)
class Pipeline(Tabled):
    """A step of micro-batches on stages.

    `seconds`: from the first pass to the end of the last pass. `period_seconds`: the longest time from a stage's first
    pass to its last; the next step can start after it. `bubble_seconds`: seconds in which the busiest stage does not
    compute. `held`: per stage, most micro-batches with stored activations (rounded up). `order`: the passes of each
    stage as text; `ts.cluster.pipeline(schedule=...)` accepts it.
    """

    schedule: str
    stages: int
    microbatches: int
    virtual: int
    placement: Placement = field(repr=False)
    passes: Order = field(repr=False)
    times: PipelineTimes = field(repr=False)
    transfer_ps: int = 0

    @property
    def _busy(self) -> list[int]:
        return [
            sum(end - start for start, end in zip(*both, strict=True))
            for both in zip(self.times.starts, self.times.ends, strict=True)
        ]

    @property
    def _end(self) -> int:
        return max(row[-1] for row in self.times.ends)

    @property
    def seconds(self) -> float:
        """Seconds from the first pass to the end of the last pass."""
        return self._end / PICO

    @property
    def period_seconds(self) -> float:
        """Seconds after which the next step can begin on every stage."""
        return max(end[-1] - start[0] for start, end in zip(self.times.starts, self.times.ends, strict=True)) / PICO

    @property
    def bubble_seconds(self) -> float:
        """Seconds in which the busiest stage does not compute."""
        return (self._end - max(self._busy)) / PICO

    @property
    def held(self) -> list[int]:
        """Most micro-batches per stage with stored activations."""
        parts = 1 if self.placement.kind == "both_ways" else self.virtual
        return [-(-peak_activations(row) // parts) for row in self.passes]

    @property
    def order(self) -> list[str]:
        """Passes of each stage: F3 is micro-batch 3 forward, B its backward pass, I and W the parts of B; .1 names a
        chunk."""
        return [text(row) for row in self.passes]

    def table(self) -> Table:
        """Tabulates the stages.

        Returns:
            Rows with stage, begin_seconds, end_seconds, busy_seconds, idle_seconds (from begin to end), held.
        """
        rows = []
        for stage, (busy, kept) in enumerate(zip(self._busy, self.held, strict=True)):
            begin, end = self.times.starts[stage][0], self.times.ends[stage][-1]
            spent = {"busy_seconds": busy / PICO, "idle_seconds": (end - begin - busy) / PICO}
            rows.append(
                {"stage": stage, "begin_seconds": begin / PICO, "end_seconds": end / PICO, **spent, "held": kept}
            )
        return Table(rows)

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes trace events for Perfetto: a track per stage.

        Args:
            path: a path that ends in .json.

        Raises:
            UserError: if the path has another ending or cannot be written.
        """
        write_events(self._events(), path)

    def _events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": stage + 1, "args": {"name": f"stage {stage}"}}
            for stage in range(self.stages)
        ]
        for stage, row in enumerate(self.passes):
            for one, start, end in zip(row, self.times.starts[stage], self.times.ends[stage], strict=True):
                args = {"micro_batch": one.micro, "chunk": one.chunk}
                events.append({"ph": "X", "name": text([one]), "cat": _LONG[one.kind], "pid": 1, "tid": stage + 1,
                               "ts": start / 1e6, "dur": (end - start) / 1e6, "args": args})  # fmt: skip
        return events

    def to_trace(self, bytes_per_transfer: int = 0) -> Trace:
        """Converts the step to a trace with compute nodes for passes, and sends and receives between stages.

        Args:
            bytes_per_transfer: bytes of a micro-batch's activations (and of its gradients) between two stages.

        Returns:
            A trace with one device per stage.
        """
        tags: dict[tuple[str, int, int, int], int] = {}  # (kind, micro-batch and places) of a send -> its tag
        for stage, row in enumerate(self.passes):
            for one in row:
                key = need(one, stage, self.placement)
                if key is not None and key[1] != stage:
                    tags[key] = len(tags)
        receivers = {
            key: stage
            for stage, row in enumerate(self.passes)
            for one in row
            if (key := need(one, stage, self.placement)) in tags
        }
        classes = [
            TraceClass([stage], self._nodes(stage, tags, receivers, bytes_per_transfer)) for stage in range(self.stages)
        ]
        return Trace("pipeline", self.stages, classes)

    def _nodes(self, stage: int, tags: dict[Any, int], receivers: dict[Any, int], size: int) -> list[TraceNode]:
        nodes: list[TraceNode] = []
        before: list[int] = []
        for number, one in enumerate(self.passes[stage]):
            deps = list(before)
            key: Any = need(one, stage, self.placement)
            if key in tags:
                nodes.append(TraceNode(len(nodes), f"receive {text([one])}", "recv", bytes=size, peers=[key[1]],
                                       tag=tags[key]))  # fmt: skip
                deps.append(nodes[-1].id)
            spent = self.times.ends[stage][number] - self.times.starts[stage][number]
            nodes.append(TraceNode(len(nodes), text([one]), "compute", deps, duration_ps=spent))
            before = [nodes[-1].id]
            key = _sent(one, stage)
            if key in tags:
                nodes.append(TraceNode(len(nodes), f"send {text([one])}", "send", list(before), bytes=size,
                                       peers=[receivers[key]], tag=tags[key]))  # fmt: skip
        return nodes


def _sent(one: ChunkPass, stage: int) -> tuple[str, int, int, int] | None:
    return None if one.kind == "W" else ("F" if one.kind == "F" else "G", stage, one.chunk, one.micro)


def write_events(events: list[dict[str, Any]], path: str | os.PathLike[str]) -> None:
    """Writes a list of trace events to a file."""
    write_trace({"displayTimeUnit": "ns", "traceEvents": events}, path)


def write_trace(trace: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Writes one file of trace events."""
    check_ending(path, events=True)
    with writing(path) as file:
        json.dump(trace, file)
