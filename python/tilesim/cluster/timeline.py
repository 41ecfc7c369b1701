"""Converts a step to trace events: a process per device class, a track per stream, flows, byte counters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .pipelines.pass_times import PassTimes
from .pipelines.stages import PERIODIC
from .views.communication import PASSES, dimensions

__all__ = ["events", "trace"]

MOST = 200_000  # largest number of passes in a file
_SIMPLE = ("1f1b", "gpipe", "interleaved")
_LETTER = {"F": "forward", "B": "backward"}
_CALLED = {
    "tensor": "reductions",
    "expert": "tokens to and from experts",
    "context": "keys and values",
    "data": "parameters",
    "offload": "activations of layers",
}
_KINDS = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}

Event = dict[str, Any]


@dataclass
class _Stage:
    """Events of one device class; times are integer nanoseconds, so that adjacent slices do not overlap."""

    pid: int
    tracks: dict[tuple[str, str], int]
    events: list[Event] = field(default_factory=list)
    sent: dict[str, float] = field(default_factory=dict)

    def slice(self, tid: int, name: str, begin: float, end: float, **args: Any) -> None:
        """Adds a slice to a track, unless it is empty."""
        start, stop = round(begin), round(end)
        if stop > start:
            self.events.append({"ph": "X", "pid": self.pid, "tid": tid, "name": name, "ts": start / 1e3,
                                "dur": (stop - start) / 1e3, **({"args": args} if args else {})})  # fmt: skip

    def move(self, row: Event, name: str, begin: float, end: float, wire: float) -> None:
        """Adds a transfer on a dimension, and counts its bytes at its end."""
        dimension, axis = row["dimension"], row["axis"]
        self.slice(self.tracks[dimension, axis], name, begin, end, operation=row["operation"], bytes=round(wire))
        self.sent[dimension] = self.sent.get(dimension, 0.0) + wire
        self.events.append({"ph": "C", "pid": self.pid, "name": f"{dimension}: bytes sent", "ts": round(end) / 1e3,
                            "args": {"bytes": round(self.sent[dimension])}})  # fmt: skip


class _TimelineDrawing:
    """Draws one result pass by pass for each stage."""

    def __init__(self, result: Any) -> None:
        self.result, self.plan, self.times = result, result.plan, result.stage
        self.micros = result.workload.global_batch // (self.plan.data * self.plan.micro_batch)
        self.whens = PASSES if result.workload.phase == "train" else PASSES[:1]
        self.first = self.times["first"] * 1e9
        self.of: PassTimes = result.passes()
        passes = self.micros * self.plan.virtual
        self.rows: dict[str, list[tuple[Event, float, float, float]]] = {}
        for row in result.communication:
            calls = {"sent": row["calls"], "end": 1, "tables": 1}.get(row["when"], passes)
            first = self.times["alone"] if (row["when"], row["axis"]) == ("forward", "data") else 0.0
            each = (row["seconds"] / calls, (row["exposed_seconds"] - first) / calls, row["wire_bytes"] / calls)
            self.rows.setdefault(row["when"], []).append((row, *each))
        self.sent = {row["axis"]: one for row, *one in self.rows.get("sent", ())}
        tracks = {(row["dimension"], row["axis"]) for row in result.communication}
        tracks |= {(self.dimension(kind, place), "pipeline") for kind in "FB" for place in self.sending(kind)}
        self.tracks = {track: number + 2 for number, track in enumerate(sorted(tracks))}
        most = float(self.times["layers"]) / self.plan.virtual  # layers per chunk in the timed stages
        self.share = self.of.layers / most
        self.scale = float(self.times["through"] / self.of.pipe.seconds * 1e-3)  # nanoseconds per picosecond
        self.what = "embedding, head" + (", loss" if len(self.whens) > 1 else "")
        self.stages = [_Stage(stage + 1, self.tracks) for stage in range(self.plan.pipeline)]
        self.waiting: dict[tuple[str, int, int, int], Event] = {}

    def target(self, kind: str, stage: int, chunk: int) -> tuple[int, int] | None:
        """Returns the stage and chunk to which a pass sends, or None."""
        placed = self.of.pipe.placement
        return (placed.after if kind == "F" else placed.before)[stage, chunk]

    def sending(self, kind: str) -> list[tuple[int, int]]:
        """Returns the stages and chunks whose passes send."""
        every = [(stage, chunk) for stage, row in enumerate(self.of.layers) for chunk in range(len(row))]
        places = [(place, self.target(kind, *place)) for place in every if kind == "F" or len(self.whens) > 1]
        return [place for place, to in places if to is not None and to[0] != place[0]]

    def dimension(self, kind: str, place: tuple[int, int]) -> str:
        """Returns the network dimension of a pass's send."""
        return dimensions(self.result.fabric)[int(self.of.out[kind][place])]

    def draw(self) -> None:
        """Draws all passes and the end of the step."""
        times = self.of.pipe.times
        for stage, row in enumerate(self.of.pipe.passes):
            for one, begin, end in zip(row, times.starts[stage], times.ends[stage], strict=True):
                if _LETTER[one.kind] in self.whens:
                    self._pass(stage, one, self.first + begin * self.scale, self.first + end * self.scale)
        self._flows()
        for own in self.stages:
            self.head_and_tail(own, self.first + self.times["through"] * 1e9)

    def head_and_tail(self, own: _Stage, through: float, begin: float = 0.0) -> None:
        """Draws a stage's work before the first pass (from `begin`) and after the last (at `through`)."""
        whole = through + self.result.seconds * 1e9 - self.first - self.times["through"] * 1e9
        update = whole - self.result.parts["optimizer"] * 1e9
        for row, *_ in self.rows.get("forward", ()):
            if row["axis"] == "data":
                own.slice(self.tracks[row["dimension"], "data"], "parameters of the first layer",
                          begin, begin + self.first)  # fmt: skip
        at = through + self.times["tables"] * 1e9
        own.slice(1, "slowed by communication of tables", through, at)
        for row, _, exposed, wire in self.rows.get("tables", ()):
            own.move(row, "tables", at, at + exposed * 1e9, wire)
            at += exposed * 1e9
        for row, seconds, exposed, wire in self.rows.get("end", ()):
            if row["axis"] == "offload":  # this transfer overlaps the update
                own.move(row, "state", whole - seconds * 1e9, whole, wire)
            elif row["axis"] == "pipeline" and own.pid not in (1, len(self.stages)):
                at += exposed * 1e9  # only the first and the last stage have the embedding table
            else:
                own.move(row, "gradients", at, min(update, at + exposed * 1e9), wire)
                at += exposed * 1e9
        if len(self.whens) > 1:
            own.slice(1, "optimizer", update, whole)
        else:
            own.slice(1, "launches of the step", through, whole)

    def _pass(self, stage: int, one: Any, begin: float, end: float) -> None:
        own, when, place = self.stages[stage], _LETTER[one.kind], (stage, one.chunk)
        chunks, second = self.plan.virtual, self.scale * 1e12  # second: nanoseconds per second
        share, late = float(self.share[place]), float(self.of.late[place])
        name = f"{when} {one.micro}" + (f", chunk {one.chunk}" if chunks > 1 else "")
        head, ends = f"{self.what} {one.micro}", float(self.of.ends[one.kind][place])
        layers = begin + (ends * second if one.kind == "B" else 0.0)  # the head's gradient precedes the layers
        own.slice(1, head, begin, layers)
        again, computed = self.times.get(f"{when}_recompute", 0.0), self.times[f"{when}_compute"]
        at = layers
        for label, seconds in (
            (f"recompute {one.micro}", again * share / chunks),
            (name, computed * share / chunks),
            (f"launches {one.micro}", self.times[f"{when}_host"] * share / chunks),
            (f"slowed by communication {one.micro}", self.times[f"{when}_interference"] * share / chunks),
            (f"waits for a slow device {one.micro}", late * ((again + computed) * share / chunks + ends)),
        ):
            first, at = at, at + seconds * second
            own.slice(1, label, first, at)
        beside: dict[str, float] = {}  # overlapped communication starts together with compute
        for row, seconds, exposed, wire in self.rows.get(when, ()):
            heads = row["axis"] == "context" and row["operation"] == "all_to_all"
            told = f"{'heads' if heads else _CALLED.get(row['axis'], row['axis'])} {one.micro}"
            hides = seconds > exposed * (1 + 1e-9)
            first = beside.get(row["axis"], layers) if hides else at
            if hides and exposed > 0:  # a part of the communication is exposed
                first = max(first, at + (exposed - seconds) * share * second)
            last = min(end, first + (seconds if hides else exposed) * share * second)
            own.move(row, told, first, last, wire * share)
            beside[row["axis"]] = last
            at += exposed * share * second
        if one.kind == "F":
            own.slice(1, head, at, at + ends * second)
        self._send(stage, one, end)

    def _send(self, stage: int, one: Any, end: float) -> None:
        """Draws the send to the next stage at the end of a pass."""
        place, second = (stage, one.chunk), self.scale * 1e12
        target, hop = self.target(one.kind, *place), float(self.of.sends[one.kind][place]) * second
        gathered = self.sent.get("tensor", (0.0, 0.0, 0.0))[0] * second
        at = end - hop - gathered
        if target is None and len(self.whens) == 1:  # the closed form counts a send for every stage
            self.stages[stage].slice(1, f"counted as a send {one.micro}", at, end)
        if target is None or target[0] == stage:
            return
        what = f"{'activations' if one.kind == 'F' else 'gradients'} {one.micro}"
        dimension = self.dimension(one.kind, place)
        if hop > 0:
            row = {"dimension": dimension, "axis": "pipeline", "operation": "permute"}
            self.stages[stage].move(row, f"send {what}", at, at + hop, self.sent["pipeline"][2])
            begun = {"pid": stage + 1, "tid": self.tracks[dimension, "pipeline"], "ts": round(at) / 1e3}
            self.waiting[one.kind, target[0], target[1], one.micro] = begun
        for row, *_, wire in self.rows.get("sent", ()):
            if row["axis"] == "tensor":
                self.stages[stage].move(row, f"gather {what}", at + hop, end, wire)

    def _flows(self) -> None:
        """Draws flows from sends to receiving passes."""
        for stage, row in enumerate(self.of.pipe.passes):
            own = self.stages[stage].events
            first: dict[float, int] = {}
            for event in own:
                if event["ph"] == "X":
                    first.setdefault(event["ts"], event["tid"])
            for one, begin in zip(row, self.of.pipe.times.starts[stage], strict=True):
                begun = self.waiting.pop((one.kind, stage, one.chunk, one.micro), None)
                at = round(self.first + begin * self.scale) / 1e3
                if begun is None or at not in first:
                    continue
                flow = {"name": "micro-batch", "cat": "stages",
                        "id": f"{one.kind}{one.micro}.{stage}.{one.chunk}"}  # fmt: skip
                own.append({"ph": "s", **flow, **begun})
                own.append({"ph": "f", "bp": "e", **flow, "pid": stage + 1, "tid": first[at], "ts": at})


def _named(result: Any, tracks: dict[tuple[str, str], int]) -> list[Event]:
    """Returns the events that name processes and tracks."""
    rows: list[Event] = []
    for row in result.classes:
        pid, devices = row["stage"] + 1, f"{row['devices']:,} × {result.device}"
        called = {
            "process_name": {"name": f"stage {row['stage']}: {devices}"},
            "process_sort_index": {"sort_index": pid},
        }
        rows += [{"ph": "M", "pid": pid, "tid": 0, "name": key, "args": args} for key, args in called.items()]
        names = {1: "compute"} | {tid: f"{dimension}: {axis}" for (dimension, axis), tid in tracks.items()}
        for tid, name in names.items():
            rows.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}})
            rows.append({"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}})
    return rows


def _why_not(result: Any) -> str:
    """Returns the reason why passes cannot be drawn; "" if they can."""
    plan, micros = result.plan, result.workload.global_batch // (result.plan.data * result.plan.micro_batch)
    forward = result.workload.phase != "train"
    if "through" not in result.stage or result.passes is None or (plan.schedule not in _SIMPLE and result.pipe is None):
        return "this step has no timeline of passes"
    if forward and plan.virtual > 1:
        return "chunks of a stage have no order in inference"
    passes = (1 if forward else 2) * micros * plan.pipeline * plan.virtual
    if result.pipe is not None:
        passes = sum(map(len, result.pipe.passes))
    return f"{passes:,} passes exceed the limit of {MOST:,}" if passes > MOST else ""


def _in_turn(result: Any) -> list[Event]:
    """Draws the parts of the critical stage one after another."""
    rows = _named(result, {})
    for row in result.classes:
        stage, at = _Stage(row["stage"] + 1, {}), 0.0
        for name, value in result.parts.items():
            stage.slice(1, name, at * 1e9, (at + value) * 1e9)
            at += value
        rows += stage.events
    return rows


def _ordered(result: Any) -> list[Event]:
    """Draws the passes of a schedule that splits the backward pass, and the end of the step."""
    drawing, lasts = _TimelineDrawing(result), []
    for own, order, starts, ends in zip(
        drawing.stages, result.pipe.passes, result.pipe.times.starts, result.pipe.times.ends, strict=True
    ):
        for one, start, end in zip(order, starts, ends, strict=True):
            name = f"{_KINDS[one.kind]} {one.micro}"
            own.slice(1, name, drawing.first + start / 1e3, drawing.first + end / 1e3)
        lasts.append(drawing.first + ends[-1] / 1e3)
    for own, last, starts in zip(drawing.stages, lasts, result.pipe.times.starts, strict=True):
        if result.plan.schedule in PERIODIC:  # in these schedules stages do not wait for each other at the end
            drawing.head_and_tail(own, last, starts[0] / 1e3)
            own.events = _folded(own.events, round(result.seconds * 1e9) / 1e3)
        else:
            drawing.head_and_tail(own, max(lasts))
    ending = {(row["dimension"], row["axis"]) for when in ("tables", "end") for row, *_ in drawing.rows.get(when, ())}
    tracks = {track: tid for track, tid in drawing.tracks.items() if track in ending}
    return _named(result, tracks) + [event for stage in drawing.stages for event in stage.events]


def _folded(events: list[Event], period: float) -> list[Event]:
    """Folds the events of a stage into one period; events beyond its end wrap to the start."""
    found = []
    for event in events:
        over = round(event["ts"] + event.get("dur", 0.0) - period, 3)
        if over <= 0:
            found.append(event)
        elif event["ph"] != "X" or event["ts"] >= period:
            found.append(event | {"ts": round(event["ts"] - period, 3)})
        else:
            found.append(event | {"dur": round(period - event["ts"], 3)})
            found.append(event | {"ts": 0.0, "dur": over, "name": f"{event['name']} (continued)"})
    return found


def trace(result: Any) -> Event:
    """Returns the content of a trace file for Perfetto and Chrome."""
    told = {"workload": result.workload.name, "plan": result.plan.text(), "cluster": result.cluster,
            "seconds": result.seconds}  # fmt: skip
    note = _why_not(result)
    if note:
        told["note"] = f"parts of the critical stage in sequence: {note}"
        return {"displayTimeUnit": "ms", "otherData": told, "traceEvents": _in_turn(result)}
    if result.pipe is not None:
        told["note"] = "communication in a pass is drawn as part of it"
        if result.plan.schedule in PERIODIC:
            told["note"] += "; one step of many: work beyond its end is drawn at the start"
        return {"displayTimeUnit": "ms", "otherData": told, "traceEvents": _ordered(result)}
    drawing = _TimelineDrawing(result)
    told["stretched"] = drawing.scale * 1e3
    drawing.draw()
    rows = _named(result, drawing.tracks) + [event for stage in drawing.stages for event in stage.events]
    return {"displayTimeUnit": "ms", "otherData": told, "traceEvents": rows}


def events(result: Any) -> list[Event]:
    """Returns the trace events of a result; times are in microseconds."""
    rows: list[Event] = trace(result)["traceEvents"]
    return rows
