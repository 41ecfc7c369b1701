"""Which products a step runs in parts beside communication: those whose parts make it shorter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ... import _core
from ..advice import LEAST
from ..spmd import Spmd
from .decomposing import GPU_LEAST_BYTES, Ring, decomposed, rings
from .result import ProgramResult

__all__ = ["MOST_TRIED", "in_parts"]

#: kinds of gathers and scatters with their products that are tried, each in a step of its own: those that could gain
#: most, what they take and what the step exposes being bounds
MOST_TRIED = 6


def in_parts(
    spmd: Spmd, on_gpu: bool, first: ProgramResult, again: Callable[[_core.Graph], ProgramResult],
    passes: Callable[[Ring], float],
) -> ProgramResult:  # fmt: skip
    """The step with products in parts where that is shorter, kind by kind."""
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
        chosen = _apart([*taken, *alike])
        if len(chosen) == len(taken):
            continue
        found = again(decomposed(core, chosen, spmd.devices))
        if found.seconds < best.seconds and (found.fits or not best.fits):
            best, taken = found, chosen
    return replace(best, notes=[_said(taken, len(tried), len(worth)), *best.notes])


def _apart(wanted: list[Ring]) -> list[Ring]:
    """Without those that want a product that one before them has."""
    found: list[Ring] = []
    used: set[str] = set()
    for ring in wanted:
        names = {one.name for one in ring.products}
        if not names & used:
            found.append(ring)
            used |= names
    return found


def _said(taken: list[Ring], tried: int, worth: int) -> str:
    names = [f"{one.name} in {ring.steps}" for ring in taken for one in ring.products]
    parts = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    left = f", {worth - tried} kinds that pass in less time not tried" if worth > tried else ""
    return f"library: products in parts beside communication, where that is shorter: {parts or 'none'}{left}"
