"""Simulates a pipeline of stages (`ts.cluster.pipeline`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...base.arguments import integer
from ...base.checked import checked
from ...base.errors import shown, user_error
from .order import Order, Placement, check, parse, peak_activations
from .result import PICO, Pipeline
from .schedules import PLACED, chunks_of, make
from .timing import run

__all__ = ["pipeline"]

MOST_STAGES, MOST_PASSES = 4096, 20_000_000
_MOST_SECONDS = 1e6


@checked()
def pipeline(
    schedule: str | Sequence[str],
    stages: int,
    microbatches: int,
    virtual: int = 1,
    *,
    forward: float | Sequence[Any],
    backward_input: float | Sequence[Any],
    backward_weight: float | Sequence[Any] = 0.0,
    transfer: float = 0.0,
    placement: str | None = None,
    most_held: int | None = None,
) -> Pipeline:
    """Computes time, bubble and memory of a pipeline of stages.

    First, Tilesim checks the order: each stage runs each pass once and after its dependencies, stages do not
    deadlock, and no stage stores activations of more than `most_held` micro-batches.

    Args:
        schedule: gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, dualpipe; or a custom order: a line of text per stage,
            for example `"F0 F1 B0 B1"`. F3 is micro-batch 3 forward, B3 its full backward pass, I3 and W3 its input
            and weight gradients; F3.1 is in chunk 1.
        stages: number of stages, 1 to 4096.
        microbatches: number of micro-batches of a step.
        virtual: number of chunks per stage.
        forward: seconds of a stage's forward pass of one micro-batch: a number, one per stage (split over its chunks),
            or one list per stage with a number per chunk. `dualpipe`: one per part of the model, not split.
        backward_input: seconds of the input gradient, in the same form.
        backward_weight: seconds of the weight gradient, in the same form; a full backward pass takes their sum.
        transfer: seconds of a send between stages; the sender does not wait.
        placement: placement of the chunks of a custom order: loop (chunk c of stage s is part c × stages + s of the
            model), v, or both_ways; named schedules have a fixed placement.
        most_held: most micro-batches with stored activations on a stage; unlimited by default.

    Returns:
        Its `.seconds`, `.period_seconds`, `.bubble_seconds`, `.held`, `.order`, `.table()`, `.timeline(path)`.

    Raises:
        UserError: for sizes that the schedule does not accept, invalid times, an unknown schedule, or an order that is
            illegal, exceeds `most_held` or deadlocks; the message has the stages.
    """
    stages = integer("stages", stages, 1, MOST_STAGES)
    microbatches = integer("microbatches", microbatches)
    virtual = integer("virtual", virtual, 1, 1024)
    if 3 * stages * microbatches * virtual > MOST_PASSES:
        raise user_error("too many passes", place="stages × microbatches × virtual",
                         value=str(stages * microbatches * virtual), allowed=f"up to {MOST_PASSES // 3:,}")  # fmt: skip
    name, order, placed = _order(schedule, stages, microbatches, virtual, placement)
    check(order, placed, microbatches)
    chunks = placed.chunks
    if most_held is not None:
        most_held = integer("most_held", most_held)
        copies = 1 if placed.kind == "both_ways" else chunks
        for stage, row in enumerate(order):
            if peak_activations(row) > most_held * copies:
                what, place = "a stage holds too many micro-batches", f"schedule {name}, stage {stage}"
                found = str(-(-peak_activations(row) // copies))
                raise user_error(what, place=place, value=found, allowed=f"up to most_held = {most_held}")
    parts = {
        "F": _times("forward", forward, placed),
        "I": _times("backward_input", backward_input, placed),
        "W": _times("backward_weight", backward_weight, placed),
    }
    both = zip(parts["I"], parts["W"], strict=True)
    parts["B"] = [[one + other for one, other in zip(*rows, strict=True)] for rows in both]
    between = _picoseconds("transfer", transfer)
    times = run(order, placed, parts, between, microbatches)
    return Pipeline(name, stages, microbatches, chunks, placed, order, times, between)


def _order(
    schedule: Any, stages: int, microbatches: int, virtual: int, placement: str | None
) -> tuple[str, Order, Placement]:
    own = not isinstance(schedule, str) or any(letter in schedule for letter in " \n")
    own = own or (isinstance(schedule, str) and schedule[:1] in "FBIW" and schedule[1:2].isdecimal())
    if own and isinstance(schedule, (str, list, tuple)):
        order = parse(schedule, stages)
        return "own", order, Placement(placement or "loop", stages, virtual)
    if not isinstance(schedule, str):
        raise user_error("no schedule", place="schedule", value=shown(schedule),
                         allowed=f"{', '.join(PLACED)}, or one line of text per stage")  # fmt: skip
    if schedule not in PLACED:
        make(schedule, stages, microbatches, virtual)  # raises an error for an invalid schedule
    if placement not in (None, PLACED[schedule]):
        raise user_error(f"schedule {schedule} has a fixed placement", place="placement", value=shown(placement),
                         allowed=PLACED[schedule])  # fmt: skip
    chunks = chunks_of(schedule, virtual)
    return schedule, make(schedule, stages, microbatches, chunks), Placement(PLACED[schedule], stages, chunks)


def _picoseconds(name: str, value: Any) -> int:
    try:
        seconds = math.nan if isinstance(value, (bool, str)) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not 0 <= seconds <= _MOST_SECONDS:
        raise user_error("no time" if math.isnan(seconds) else "out of range", place=name, value=shown(value),
                         allowed=f"seconds from 0 to {_MOST_SECONDS:,.0f}")  # fmt: skip
    return math.ceil(round(seconds * PICO, 3))


def _times(name: str, given: Any, placed: Placement) -> list[list[int]]:
    """Returns the picoseconds of a pass by stage and chunk."""
    stages, chunks = range(placed.stages), range(placed.chunks)
    if isinstance(given, (str, bytes)) or not hasattr(given, "__len__"):
        given = [given] * placed.stages
    if len(given) != placed.stages:
        raise user_error("the number of times differs from the number of stages", place=name, value=f"{len(given)}",
                         allowed=f"a number, or {placed.stages}")  # fmt: skip
    result = []
    for stage in stages:
        row, place = given[stage], f"{name}, stage {stage}"
        if not isinstance(row, (str, bytes)) and hasattr(row, "__len__"):
            if len(row) != placed.chunks:
                raise user_error(
                    "the number of times differs from the number of chunks",
                    place=place,
                    value=f"{len(row)}",
                    allowed=f"a number, or {placed.chunks}",
                )
            result.append([_picoseconds(f"{place}, chunk {chunk}", row[chunk]) for chunk in chunks])
        elif placed.kind == "both_ways":
            result.append([_picoseconds(place, given[placed.position(stage, chunk)]) for chunk in chunks])
        else:
            result.append([-(-_picoseconds(place, row) // placed.chunks)] * placed.chunks)
    return result
