"""Simulates many steps with one order together: each pass is an array of times."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ... import _core
from .order import Placement
from .schedules import PLACED, chunks_of

__all__ = ["program", "run_many"]

Times = NDArray[np.int64]


@lru_cache(16)
def program(schedule: str, stages: int, microbatches: int, virtual: int = 1) -> _core.PipelineOrder:
    """The passes of a named schedule, each after the passes that it waits for."""
    chunks = chunks_of(schedule, virtual)
    placed = Placement(PLACED[schedule], stages, chunks)
    return _core.PipelineOrder(schedule, stages, microbatches, chunks, *placed.neighbours())


def run_many(passes: _core.PipelineOrder, times: list[Times]) -> tuple[Times, Times]:
    """Simulates an order for several steps."""
    return passes.run(np.concatenate([*times, times[1] + times[2]]), 0)
