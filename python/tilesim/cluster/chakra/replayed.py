"""The result of a trace replay."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any

from ...base.table import Table, Tabled
from ..pipelines.result import PICO, write_events
from ..trace import Trace, TraceClass
from .matching import Quotient
from .pricing import INSIDE, NETWORK
from .running import ExecutedNodes

__all__ = ["Replay", "length", "recorded", "union"]

SCHEMA, VERSION = "tilesim.cluster_replay", 1


@dataclass(frozen=True)
class Replay(Tabled):
    """The timeline of a trace on a cluster.

    `seconds`: end of the last device. For this device, `exposed_seconds`: communication outside of computing,
    `compute_seconds`: computing, `idle_seconds`: the rest, in which it waits for other devices. `classes` has a row per
    class of devices with equal timelines. `notes` list assumptions and ignored data.
    """

    name: str
    cluster: str
    network: str
    devices: int
    seconds: float
    exposed_seconds: float
    compute_seconds: float
    idle_seconds: float
    classes: list[dict[str, Any]]
    trace: Trace = field(repr=False)
    found: Quotient = field(repr=False)
    ran: list[ExecutedNodes] = field(repr=False)
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def of(
        trace: Trace,
        found: Quotient,
        ran: list[ExecutedNodes],
        cluster: str,
        network: str,
        notes: list[str] | None = None,
    ) -> Replay:
        """Builds the result of a run.

        Args:
            trace: the trace.
            found: the classes of devices.
            ran: the nodes of each class with times.
            cluster: name of the cluster.
            network: name of the network model.
            notes: assumptions and ignored data.

        Returns:
            The result.
        """
        end = max((one.end for one in ran), default=0)
        rows = [_row(number, found, one) for number, one in enumerate(ran)]
        last = max(range(len(ran)), key=lambda number: (ran[number].end, rows[number]["exposed_seconds"]), default=None)
        exposed, compute, idle = (0.0 if last is None else float(rows[last][name]) for name in _PARTS)
        return Replay(trace.name, cluster, network, trace.devices, end / PICO, exposed, compute, idle, rows, trace,
                      found, ran, notes or [])  # fmt: skip

    def table(self) -> Table:
        """Tabulates the times by class of devices.

        Returns:
            Rows with class, devices, first_device, seconds, compute_seconds, exposed_seconds, idle_seconds,
            communication_seconds (overlapped and exposed).
        """
        return Table(self.classes)

    def to_dict(self) -> dict[str, Any]:
        """Converts the result, without timeline, to JSON values.

        Returns:
            A dict for JSON.
        """
        names = ("name", "cluster", "network", "devices", "seconds", *_PARTS, "classes", "notes")
        return {"schema": SCHEMA, "version": VERSION, **{name: getattr(self, name) for name in names}}

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes trace events for Perfetto: a process per class of devices, a track per stream.

        Args:
            path: a path that ends in .json.

        Raises:
            UserError: if the path has another ending or cannot be written.
        """
        write_events(self.events(), path)

    def events(self) -> list[dict[str, Any]]:
        """Builds trace events.

        Returns:
            A process per class of devices, a track per stream; times in microseconds. Argument `slowed_us` of a slice
            is its delay by concurrent nodes.
        """
        events: list[dict[str, Any]] = []
        for number, ran in enumerate(self.ran):
            unit = self.found.units[number]
            tracks: dict[str, int] = {}
            called = f"{self.found.devices[number]} devices like {unit.devices[0]}"
            events.append({"ph": "M", "name": "process_name", "pid": number + 1, "args": {"name": called}})
            for stream, place, begin, end in ran.intervals:
                if stream not in tracks:
                    tracks[stream] = len(tracks) + 1
                    events.append({"ph": "M", "name": "thread_name", "pid": number + 1, "tid": tracks[stream],
                                   "args": {"name": stream}})  # fmt: skip
                node = unit.part.nodes[place]
                said: dict[str, Any] = {"node": node.id}
                if place in ran.slowed:
                    said["slowed_us"] = ran.slowed[place] / 1e6
                events.append({"ph": "X", "name": node.name, "pid": number + 1, "tid": tracks[stream],
                               "ts": begin / 1e6, "dur": (end - begin) / 1e6, "args": said})  # fmt: skip
        return events


def recorded(replay: Replay) -> Trace:
    """Returns the replayed trace, whose compute nodes have the times of the replay."""
    classes = []
    for unit, devices, ran in zip(replay.found.units, replay.found.members, replay.ran, strict=True):
        at = {device: number for number, device in enumerate(unit.part.devices)}
        nodes = [
            replace(
                node,
                peers=[node.peers[at[device]] for device in devices] if node.peers else node.peers,
                duration_ps=node.duration_ps + (ran.slowed.get(place, 0) if node.kind == "compute" else 0),
                attributes=node.attributes | dict(zip((NETWORK, INSIDE), unit.within.get(place, ()), strict=False)),
            )
            for place, node in enumerate(unit.part.nodes)
        ]
        classes.append(TraceClass(devices, nodes, unit.part.source))
    return Trace(replay.trace.name, replay.trace.devices, classes, replay.trace.groups)


_PARTS = ("exposed_seconds", "compute_seconds", "idle_seconds")


def _row(number: int, quotient: Quotient, ran: ExecutedNodes) -> dict[str, Any]:
    compute = union([(begin, done) for stream, _, begin, done in ran.intervals if stream in ("compute", "memory")])
    talking = union([(begin, done) for stream, _, begin, done in ran.intervals
                      if stream not in ("compute", "memory", "none")])  # fmt: skip
    busy, said = length(compute), length(talking)
    exposed = length(union(compute + talking)) - busy
    return {
        "class": number, "devices": quotient.devices[number], "first_device": quotient.units[number].devices[0],
        "seconds": ran.end / PICO, "compute_seconds": busy / PICO, "exposed_seconds": exposed / PICO,
        "idle_seconds": (ran.end - busy - exposed) / PICO, "communication_seconds": said / PICO,
    }  # fmt: skip


def union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merges overlapping or adjacent spans of time."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def length(spans: list[tuple[int, int]]) -> int:
    """Returns the total length of spans."""
    return sum(end - begin for begin, end in spans)
