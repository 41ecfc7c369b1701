"""Many steps of one order at once: the order is made once, and each pass is an array of times."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .order import Pass, Placement
from .schedules import PLACED, chunks_of, make
from .timing import need, run

__all__ = ["program", "run_many"]

Times = NDArray[np.int64]
#: shape [passes, 4]: stage, kind (0 forward, 1 input gradient, 2 weight gradient, 3 both), place (chunk × stages +
#: stage), and the number of the pass that it waits for, -1: none
Program = NDArray[np.int32]
_KINDS = "FIWB"


@lru_cache(1024)
def program(schedule: str, stages: int, microbatches: int, virtual: int = 1) -> Program:
    """The passes of a named schedule, each behind those that it waits for.

    Args:
        schedule: its name.
        stages: of the pipeline.
        microbatches: of the step.
        virtual: chunks of a stage, interleaved.

    Returns:
        The passes.
    """
    chunks = chunks_of(schedule, virtual)
    order, placed = make(schedule, stages, microbatches, chunks), Placement(PLACED[schedule], stages, chunks)
    alike = {kind: [[2 if kind == "B" else 1] * chunks for _ in order] for kind in _KINDS}
    starts = run(order, placed, alike, 0, microbatches).starts
    listed = sorted((start, stage, at) for stage, row in enumerate(starts) for at, start in enumerate(row))
    numbers: dict[tuple[str, int, int, int], int] = {}
    found = []
    for number, (_, stage, at) in enumerate(listed):
        one: Pass = order[stage][at]
        key = need(one, stage, placed)
        found.append((stage, _KINDS.index(one.kind), one.chunk * stages + stage, -1 if key is None else numbers[key]))
        if one.kind != "W":
            numbers["F" if one.kind == "F" else "G", stage, one.chunk, one.micro] = number
    return np.array(found, dtype=np.int32).reshape(-1, 4)


def run_many(passes: Program, times: list[Times], stages: int) -> tuple[Times, Times]:
    """Carries out an order for several steps.

    Args:
        passes: of `program`.
        times: picoseconds of forward passes, input and weight gradients, each of shape [places, steps].
        stages: of the pipeline.

    Returns:
        When each stage begins and ends, each of shape [stages, steps].
    """
    table = [*times, times[1] + times[2]]
    each = [list(one) for one in table]
    free = [np.zeros(times[0].shape[1], dtype=np.int64) for _ in range(stages)]
    begins: list[Times | None] = [None] * stages
    ends: list[Times] = []
    for stage, kind, place, waits in passes.tolist():
        start = free[stage] if waits < 0 else np.maximum(free[stage], ends[waits])
        if begins[stage] is None:
            begins[stage] = start
        end = start + each[kind][place]
        free[stage] = end
        ends.append(end)
    return np.array(begins), np.array(free)
