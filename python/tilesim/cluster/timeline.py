"""A step as trace events: a process per class of devices, a track per stream, flows between stages, bytes counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .pipelines.calling import pipeline
from .pipelines.result import Pipeline
from .pipelines.stages import PERIODIC
from .views.communication import PASSES

__all__ = ["events", "trace"]

MOST = 200_000  # passes of a file
_DRAWN = ("1f1b", "gpipe", "interleaved")
_LETTER = {"F": "forward", "B": "backward"}
_CALLED = {"tensor": "sums", "expert": "tokens to experts and back", "context": "keys and values", "data": "parameters",
           "offload": "activations of layers"}  # fmt: skip
_KINDS = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}

Event = dict[str, Any]


@dataclass
class _Stage:
    """Events of one class of devices; times come in nanoseconds, so that slices that touch do not overlap."""

    pid: int
    tracks: dict[tuple[str, str], int]
    events: list[Event] = field(default_factory=list)
    sent: dict[str, float] = field(default_factory=dict)

    def slice(self, tid: int, name: str, begin: float, end: float, **args: Any) -> None:
        """Something that takes time on a track; nothing where it takes none."""
        start, stop = round(begin), round(end)
        if stop > start:
            self.events.append({"ph": "X", "pid": self.pid, "tid": tid, "name": name, "ts": start / 1e3,
                                "dur": (stop - start) / 1e3, **({"args": args} if args else {})})  # fmt: skip

    def move(self, row: Event, name: str, begin: float, end: float, wire: float) -> None:
        """Bytes on a dimension, counted when they are through."""
        dimension, axis = row["dimension"], row["axis"]
        self.slice(self.tracks[dimension, axis], name, begin, end, operation=row["operation"], bytes=round(wire))
        self.sent[dimension] = self.sent.get(dimension, 0.0) + wire
        self.events.append({"ph": "C", "pid": self.pid, "name": f"{dimension}: bytes sent", "ts": round(end) / 1e3,
                            "args": {"bytes": round(self.sent[dimension])}})  # fmt: skip


class _Drawing:
    """One result, drawn pass by pass.

    Stages beside the slowest are taken as equal: what is left of a micro-batch's way through all of them.
    """

    def __init__(self, result: Any) -> None:
        self.result, self.plan, self.times = result, result.plan, result.stage
        self.micros = result.workload.global_batch // (self.plan.data * self.plan.micro_batch)
        self.whens = PASSES if result.workload.phase == "train" else PASSES[:1]
        self.first = self.times["first"] * 1e9
        passes = self.micros * self.plan.virtual
        self.rows: dict[str, list[tuple[Event, float, float, float]]] = {}
        for row in result.communication:
            calls = {"sent": len(self.whens) * passes, "end": 1}.get(row["when"], passes)
            first = self.times["alone"] if (row["when"], row["axis"]) == ("forward", "data") else 0.0
            each = (row["seconds"] / calls, (row["exposed_seconds"] - first) / calls, row["wire_bytes"] / calls)
            self.rows.setdefault(row["when"], []).append((row, *each))
        self.send = sum(seconds for _, seconds, *_ in self.rows.get("sent", ()))  # of a pass of one chunk
        tracks = sorted({(row["dimension"], row["axis"]) for row in result.communication})
        self.tracks = {track: number + 2 for number, track in enumerate(tracks)}
        self.share = 1.0
        stages, sends = self.plan.pipeline, len(self.whens) * self.send * self.plan.virtual
        self.more, self.slowest = self.times["head"] + self.times["waits"], stages - 1 if self.times["head"] > 0 else 0
        self.what = "embedding, head" + (", loss" if len(self.whens) > 1 else "")
        if self.times["waits"] > 0:  # of the slowest device; what a head adds elsewhere is taken as spread
            device = min(result.fabric.slow, key=lambda one: one[1])[0]
            self.slowest, self.what = device // (self.plan.devices // stages), "waits for a slow device"
        if stages > 1:
            other = (self.times["whole"] - self.times["slowest"]) / (stages - 1)
            own = self.times["slowest"] - sends - self.more
            self.share = max(0.0, other - sends) / own if own > 0 else 0.0
        self.stages = [_Stage(stage + 1, self.tracks) for stage in range(stages)]
        self.waiting: dict[tuple[str, int, int, int], Event] = {}

    def length(self, stage: int, when: str) -> float:
        """Seconds of a stage's pass, all chunks."""
        sends = self.send * self.plan.virtual
        own = self.times[when] - sends - (self.more if when == self.whens[-1] else 0.0)
        if stage == self.slowest:
            return float(self.times[when])
        return self.share * own + sends

    def pipeline(self) -> Pipeline:
        """When passes begin and end."""
        stages = range(self.plan.pipeline)
        each = {when: [self.length(stage, when) for stage in stages] for when in self.whens}
        if len(self.whens) == 1:  # forward passes come first, and nothing goes back
            return pipeline(schedule="gpipe", stages=len(stages), microbatches=self.micros,
                            forward=each["forward"], backward_input=0.0, backward_weight=0.0)  # fmt: skip
        virtual = self.plan.virtual if self.plan.schedule == "interleaved" else 1
        return pipeline(schedule=self.plan.schedule, stages=len(stages), microbatches=self.micros, virtual=virtual,
                        forward=each["forward"], backward_input=each["backward"], backward_weight=0.0)  # fmt: skip

    def draw(self, drawn: Pipeline, scale: float) -> None:
        """All passes, and what follows them."""
        for stage, row in enumerate(drawn.passes):
            for one, begin, end in zip(row, drawn.times.starts[stage], drawn.times.ends[stage], strict=True):
                if _LETTER[one.kind] in self.whens:
                    self._pass(drawn, stage, one, self.first + begin * scale, self.first + end * scale)
        self._flows(drawn)
        for own in self.stages:
            self.around(own, self.first + self.times["through"] * 1e9)

    def around(self, own: _Stage, through: float, begin: float = 0.0) -> None:
        """What a stage whose step starts at `begin` does before the first pass, and after the last one at `through`."""
        whole = through + self.result.seconds * 1e9 - self.first - self.times["through"] * 1e9
        update = whole - self.result.parts["optimizer"] * 1e9
        for row, *_ in self.rows.get("forward", ()):
            if row["axis"] == "data":
                own.slice(self.tracks[row["dimension"], "data"], "parameters of the first layer",
                          begin, begin + self.first)  # fmt: skip
        at = through
        for row, seconds, exposed, wire in self.rows.get("end", ()):
            if row["axis"] == "offload":  # goes on while parameters are updated
                own.move(row, "state", whole - seconds * 1e9, whole, wire)
            else:
                own.move(row, "gradients", at, min(update, at + exposed * 1e9), wire)
                at += exposed * 1e9
        if len(self.whens) > 1:
            own.slice(1, "optimizer", update, whole)
        else:
            own.slice(1, "launches of the step", through, whole)

    def _pass(self, drawn: Pipeline, stage: int, one: Any, begin: float, end: float) -> None:
        own, when = self.stages[stage], _LETTER[one.kind]
        chunks, second = self.plan.virtual, self.scale(drawn) * 1e12  # nanoseconds of a second
        share = 1.0 if stage == self.slowest else self.share
        name = f"{when} {one.micro}" + (f", chunk {one.chunk}" if chunks > 1 else "")
        layers = begin
        if stage == self.slowest and when == self.whens[-1]:
            layers += self.more / chunks * second
            own.slice(1, f"{self.what} {one.micro}", begin, layers)
        at = layers
        for label, seconds in (
            (f"recompute {one.micro}", self.times.get(f"{when}_recompute", 0.0)),
            (name, self.times[f"{when}_compute"]),
            (f"launches {one.micro}", self.times[f"{when}_host"]),
            (f"slowed by what passes {one.micro}", self.times[f"{when}_interference"]),
        ):
            first, at = at, at + seconds * share / chunks * second
            own.slice(1, label, first, at)
        beside: dict[str, float] = {}  # what passes while something is computed begins with it
        for row, seconds, exposed, wire in self.rows.get(when, ()):
            heads = row["axis"] == "context" and row["operation"] == "all_to_all"
            told = f"{'heads' if heads else _CALLED.get(row['axis'], row['axis'])} {one.micro}"
            hides = seconds > exposed * (1 + 1e-9)
            first = beside.get(row["axis"], layers) if hides else at
            if hides and exposed > 0:  # what is left of it ends with what is exposed
                first = max(first, at + (exposed - seconds) * share * second)
            last = min(end, first + (seconds if hides else exposed) * share * second)
            own.move(row, told, first, last, wire * share)
            beside[row["axis"]] = last
            at += exposed * share * second
        self._send(drawn, stage, one, (end, second))

    def _send(self, drawn: Pipeline, stage: int, one: Any, end: tuple[float, float]) -> None:
        """To the stage that goes on with a micro-batch; `end` of the pass, and nanoseconds of a second."""
        places = drawn.placement.after if one.kind == "F" else drawn.placement.before
        target = places[stage, one.chunk]
        if target is None and len(self.whens) == 1 and self.send > 0:
            # the form counts a send for each stage; where the step ends with a pass it shows
            self.stages[stage].slice(1, f"counted as a send {one.micro}", end[0] - self.send * end[1], end[0])
        if target is None or target[0] == stage:
            return
        at = end[0] - self.send * end[1]
        for row, seconds, _, wire in self.rows.get("sent", ()):
            what = "activations" if one.kind == "F" else "gradients"
            name = f"{'send' if row['axis'] == 'pipeline' else 'gather'} {what} {one.micro}"
            begin, at = at, at + seconds * end[1]
            self.stages[stage].move(row, name, begin, min(end[0], at), wire)
            if row["axis"] == "pipeline":
                tid = self.tracks[row["dimension"], row["axis"]]
                at_ = {"pid": stage + 1, "tid": tid, "ts": round(begin) / 1e3}
                self.waiting[one.kind, target[0], target[1], one.micro] = at_

    def _flows(self, drawn: Pipeline) -> None:
        """From each send to the pass that it lets begin."""
        for stage, row in enumerate(drawn.passes):
            own = self.stages[stage].events
            first: dict[float, int] = {}
            for event in own:
                if event["ph"] == "X":
                    first.setdefault(event["ts"], event["tid"])
            for one, begin in zip(row, drawn.times.starts[stage], strict=True):
                begun = self.waiting.pop((one.kind, stage, one.chunk, one.micro), None)
                at = round(self.first + begin * self.scale(drawn)) / 1e3
                if begun is None or at not in first:
                    continue
                flow = {"name": "micro-batch", "cat": "stages",
                        "id": f"{one.kind}{one.micro}.{stage}.{one.chunk}"}  # fmt: skip
                own.append({"ph": "s", **flow, **begun})
                own.append({"ph": "f", "bp": "e", **flow, "pid": stage + 1, "tid": first[at], "ts": at})

    def scale(self, drawn: Pipeline) -> float:
        """Nanoseconds of the closed form per picosecond of the passes in their order."""
        return float(self.times["through"] / drawn.seconds * 1e-3)


def _named(result: Any, tracks: dict[tuple[str, str], int]) -> list[Event]:
    """Names of processes and tracks."""
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
    """Why passes are not drawn; empty where they are."""
    plan, micros = result.plan, result.workload.global_batch // (result.plan.data * result.plan.micro_batch)
    forward = result.workload.phase != "train"
    if "through" not in result.stage or (plan.schedule not in _DRAWN and result.pipe is None):
        return "this step has no timeline of passes"
    if forward and plan.virtual > 1:
        return "chunks of a stage have no order where nothing goes back"
    if plan.virtual > 1 and micros % plan.pipeline:
        return f"{micros} micro-batches are no whole groups of {plan.pipeline} stages"
    passes = (1 if forward else 2) * micros * plan.pipeline * plan.virtual
    if result.pipe is not None:
        passes = sum(map(len, result.pipe.passes))
    return f"{passes:,} passes are more than a file holds, {MOST:,}" if passes > MOST else ""


def _in_turn(result: Any) -> list[Event]:
    """The parts of the critical stage, one after the other."""
    rows = _named(result, {})
    for row in result.classes:
        stage, at = _Stage(row["stage"] + 1, {}), 0.0
        for name, value in result.parts.items():
            stage.slice(1, name, at * 1e9, (at + value) * 1e9)
            at += value
        rows += stage.events
    return rows


def _ordered(result: Any) -> list[Event]:
    """Passes of a schedule that divides the backward pass, as it orders them, and what follows them."""
    drawing, lasts = _Drawing(result), []
    for own, order, starts, ends in zip(
        drawing.stages, result.pipe.passes, result.pipe.times.starts, result.pipe.times.ends, strict=True
    ):
        for one, start, end in zip(order, starts, ends, strict=True):
            name = f"{_KINDS[one.kind]} {one.micro}"
            own.slice(1, name, drawing.first + start / 1e3, drawing.first + end / 1e3)
        lasts.append(drawing.first + ends[-1] / 1e3)
    for own, last, starts in zip(drawing.stages, lasts, result.pipe.times.starts, strict=True):
        if result.plan.schedule in PERIODIC:  # no stage waits for the others
            drawing.around(own, last, starts[0] / 1e3)
            own.events = _folded(own.events, round(result.seconds * 1e9) / 1e3)
        else:
            drawing.around(own, max(lasts))
    ending = {(row["dimension"], row["axis"]) for row, *_ in drawing.rows.get("end", ())}
    tracks = {track: tid for track, tid in drawing.tracks.items() if track in ending}
    return _named(result, tracks) + [event for stage in drawing.stages for event in stage.events]


def _folded(events: list[Event], period: float) -> list[Event]:
    """Events of a stage within one period: what lies behind its end stands at its beginning, as of the step before."""
    found = []
    for event in events:
        over = round(event["ts"] + event.get("dur", 0.0) - period, 3)
        if over <= 0:
            found.append(event)
        elif event["ph"] != "X" or event["ts"] >= period:
            found.append(event | {"ts": round(event["ts"] - period, 3)})
        else:
            found.append(event | {"dur": round(period - event["ts"], 3)})
            found.append(event | {"ts": 0.0, "dur": over, "name": f"{event['name']} (goes on)"})
    return found


def trace(result: Any) -> Event:
    """A file of trace events, as Perfetto and Chrome read it.

    Args:
        result: a StepResult.

    Returns:
        The JSON value; `otherData` names workload, plan and cluster, by which ratio the passes were stretched to last
        as long as the closed form says (`stretched`), or why parts stand one after the other instead (`note`).
    """
    told = {"workload": result.workload.name, "plan": result.plan.text(), "cluster": result.cluster,
            "seconds": result.seconds}  # fmt: skip
    note = _why_not(result)
    if note:
        told["note"] = f"parts of the critical stage one after the other: {note}"
        return {"displayTimeUnit": "ms", "otherData": told, "traceEvents": _in_turn(result)}
    if result.pipe is not None:
        told["note"] = "what passes between devices in a pass is drawn as part of it"
        if result.plan.schedule in PERIODIC:
            told["note"] += "; one step of many: what stages end when the next step has begun stands at the beginning"
        return {"displayTimeUnit": "ms", "otherData": told, "traceEvents": _ordered(result)}
    drawing = _Drawing(result)
    drawn = drawing.pipeline()
    scale = drawing.scale(drawn)
    told["stretched"] = scale * 1e3
    drawing.draw(drawn, scale)
    rows = _named(result, drawing.tracks) + [event for stage in drawing.stages for event in stage.events]
    return {"displayTimeUnit": "ms", "otherData": told, "traceEvents": rows}


def events(result: Any) -> list[Event]:
    """Trace events of a result, times in microseconds.

    Args:
        result: a StepResult.

    Returns:
        One process per class of devices, a track of computing and one per dimension and axis, flows from sends to the
        passes that they let begin, and counters of bytes that a device sent on each dimension.
    """
    rows: list[Event] = trace(result)["traceEvents"]
    return rows
