"""Selects products whose split overlaps communication and shortens the step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ... import _core
from ..advice import LEAST
from ..spmd import Spmd
from .decomposing import GPU_LEAST_BYTES, Ring, decomposed, rings
from .result import ProgramResult

__all__ = ["MOST_TRIED", "in_parts"]

#: most kinds of gathers and scatters with products to try, each in one step, by possible gain (bounds: their seconds
#: and the step's exposed seconds)
MOST_TRIED = 6


def in_parts(
    spmd: Spmd, on_gpu: bool, first: ProgramResult, again: Callable[[_core.Graph], ProgramResult],
    passes: Callable[[Ring], float],
) -> ProgramResult:  # fmt: skip
    """The step with split products, tried kind by kind, if that is shorter."""
    if len(spmd.graphs) > 1:
        return first
    core = spmd.graphs[0].core.copy()
    core.inline_calls()
    kinds: dict[str, list[Ring]] = {}
    for ring in rings(core, spmd.devices):
        if not on_gpu or ring.bytes >= GPU_LEAST_BYTES:
            kinds.setdefault(ring.key, []).append(ring)
    if not kinds:
        return first
    most = {key: min(first.exposed_seconds + first.bubble_seconds, sum(map(passes, alike)))
            for key, alike in kinds.items()}  # fmt: skip
    ranked = sorted(kinds, key=lambda key: -most[key])
    worth = [key for key in ranked if most[key] >= LEAST * first.seconds]
    best, taken, tried = first, list[Ring](), [kinds[key] for key in worth[:MOST_TRIED]]
    for alike in tried:
        chosen = _disjoint([*taken, *alike])
        if len(chosen) == len(taken):
            continue
        found = again(decomposed(core, chosen, spmd.devices))
        if found.seconds < best.seconds and (found.fits or not best.fits):
            best, taken = found, chosen
    return replace(best, notes=[_note(taken, len(tried), len(worth)), *best.notes])


def _disjoint(wanted: list[Ring]) -> list[Ring]:
    """Removes rings that share a product with an earlier ring."""
    found: list[Ring] = []
    used: set[str] = set()
    for ring in wanted:
        names = {one.name for one in ring.products}
        if not names & used:
            found.append(ring)
            used |= names
    return found


def _note(taken: list[Ring], tried: int, worth: int) -> str:
    names = [f"{one.name} in {ring.steps}" for ring in taken for one in ring.products]
    parts = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    left = f", {worth - tried} kinds with less time not tried" if worth > tried else ""
    return f"library: products split to overlap communication, if shorter: {parts or 'none'}{left}"
