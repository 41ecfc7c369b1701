"""Builds the orders of named schedules for equal model parts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ... import _core
from ...base.errors import nearest, user_error
from .order import NUMBERED, ChunkPass, Order, Placement

__all__ = ["PLACED", "chunks_of", "make", "program", "run_many"]

Times = NDArray[np.int64]

#: schedule -> placement of its chunks
PLACED = dict.fromkeys(("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"), "loop") | {
    "zb-v": "v",
    "dualpipe": "both_ways",
}


def chunks_of(schedule: str, virtual: int) -> int:
    """Returns the chunks per stage of a named schedule."""
    two = PLACED[schedule] != "loop"
    if (two and virtual not in (1, 2)) or (schedule not in ("interleaved",) and not two and virtual != 1):
        raise user_error(
            f"schedule {schedule} has {'two chunks' if two else 'one chunk'} per stage",
            place="virtual",
            value=str(virtual),
            allowed="1 or 2" if two else "1",
            suggestion="" if two else "For several chunks use schedule 'interleaved' or 'zb-v'",
        )
    return 2 if two else virtual


def make(schedule: str, stages: int, microbatches: int, virtual: int) -> Order:
    """Makes the order of a named schedule."""
    if schedule not in PLACED:
        names = ", ".join(PLACED)
        raise user_error("unknown schedule", place="schedule", value=repr(schedule),
                         allowed=f"{names}, or an order: one line of text per stage, for example 'F0 F1 B0 B1'",
                         suggestion=nearest(schedule, PLACED))  # fmt: skip
    if schedule == "interleaved" and virtual > 1 and microbatches % stages:
        raise user_error("interleaved stages need whole groups of micro-batches", place="microbatches",
                         value=str(microbatches), allowed=f"multiples of stages = {stages}",
                         suggestion=_multiple(microbatches, stages))  # fmt: skip
    if schedule == "dualpipe":
        if stages % 2:
            raise user_error(
                "dualpipe needs an even number of stages", place="stages", value=str(stages), allowed="even numbers"
            )
        if microbatches % 2 or microbatches < 2 * stages:
            raise user_error(
                "dualpipe needs micro-batches for both directions",
                place="microbatches",
                value=str(microbatches),
                allowed=f"even numbers from 2 × stages = {2 * stages}",
            )
    rows = _core.pipeline_order(schedule, stages, microbatches, virtual)
    return [[ChunkPass(NUMBERED[kind], chunk, micro) for kind, chunk, micro in row.tolist()] for row in rows]


def _multiple(number: int, of: int) -> str:
    below, above = number // of * of, -(-number // of) * of
    return f"Use {below} or {above}" if below else f"Use {above}"


@lru_cache(16)
def program(schedule: str, stages: int, microbatches: int, virtual: int = 1) -> _core.PipelineOrder:
    """Returns the passes of a named schedule in a valid order."""
    chunks = chunks_of(schedule, virtual)
    placed = Placement(PLACED[schedule], stages, chunks)
    return _core.PipelineOrder(schedule, stages, microbatches, chunks, *placed.adjacent())


def run_many(passes: _core.PipelineOrder, times: list[Times]) -> tuple[Times, Times]:
    """Simulates an order for several steps."""
    return passes.run(np.concatenate([*times, times[1] + times[2]]), 0)
