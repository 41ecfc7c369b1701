"""Computes begin and end of the passes of an order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ... import _core
from ...base.errors import user_error
from .order import NUMBERED, ChunkPass, Order, Placement, text

__all__ = ["PipelineTimes", "run"]

_Key = tuple[str, int, int, int]  # F or G (the input gradient), stage, chunk, micro-batch


@dataclass(frozen=True)
class PipelineTimes:
    """Begin and end of each pass in picoseconds, in the order of each stage."""

    starts: list[list[int]]
    ends: list[list[int]]


def need(one: ChunkPass, stage: int, placement: Placement) -> _Key | None:
    """Returns the pass of another stage for which a pass waits, or None."""
    if one.kind == "W":
        return None
    other = (placement.before if one.kind == "F" else placement.after)[stage, one.chunk]
    return None if other is None else ("F" if one.kind == "F" else "G", *other, one.micro)


def run(
    order: Order, placement: Placement, times: dict[str, list[list[int]]], transfer: int, microbatches: int
) -> PipelineTimes:
    """Runs each stage in its order; a pass waits for the send of its predecessor, but senders do not wait."""
    rows = [np.array([(NUMBERED.index(one.kind), one.chunk, one.micro) for one in row], dtype=np.int32).reshape(-1, 3)
            for row in order]  # fmt: skip
    listed = _core.PipelineOrder(rows, microbatches, placement.chunks, *placement.adjacent())
    reached = listed.reached
    if stuck := [stage for stage, row in enumerate(order) if reached[stage] < len(row)]:
        raise _deadlock(order, placement, reached, stuck[0])
    table = np.array([times[kind] for kind in NUMBERED], dtype=np.int64)  # indexed by kind, stage, chunk
    ends = listed.ends(np.swapaxes(table, 1, 2).reshape(-1), transfer)
    starts = [
        (end - table[row[:, 0], stage, row[:, 1]]).tolist()
        for stage, (row, end) in enumerate(zip(rows, ends, strict=True))
    ]
    return PipelineTimes(starts, [end.tolist() for end in ends])


def _deadlock(order: Order, placement: Placement, at: list[int], stage: int) -> Exception:
    """Returns the error that names the stages of a cyclic wait."""
    chain: list[int] = []
    while stage not in chain:
        chain.append(stage)
        key = need(order[stage][at[stage]], stage, placement)
        assert key is not None  # a stage stops only if it waits for another
        stage = key[1]
    lines = []
    for one in chain[chain.index(stage) :]:
        waits = order[one][at[one]]
        key = need(waits, one, placement)
        assert key is not None
        name = text([ChunkPass("F" if key[0] == "F" else "I", key[2], key[3])])
        whole = ChunkPass("B", key[2], key[3])
        if key[0] == "G" and whole in order[key[1]]:
            name = text([whole])
        lines.append(f"{text([waits])} of stage {one} waits for {name} of stage {key[1]}")
    return user_error("deadlock between stages: " + "; ".join(lines), place="schedule")
