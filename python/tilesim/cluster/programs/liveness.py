"""Computes the peak bytes of a device during a program."""

from __future__ import annotations

from ...graph.devices import bytes_of
from .flat import FREE, POINTWISE, Flat, in_place
from .splitting import ProgramPart, Split

__all__ = ["peak_bytes"]


def peak_bytes(split: Split, order: list[int], aliases: list[tuple[int, int]]) -> dict[str, int]:
    """Returns the peak of live bytes in program order, by category."""
    flat = split.flat
    base = _bases(flat)
    last: dict[int, int] = {}
    for place, number in enumerate(order):
        for value in _reads(flat, split.parts[number]):
            last[base[value]] = place
    kept = set()
    for number, value in enumerate(flat.outputs):
        if base[value] not in kept and number not in {output for output, _ in aliases}:
            kept.add(base[value])
    own = {base[flat.outputs[output]] for output, _ in aliases if output < len(flat.outputs)} - kept
    inputs = {base[value] for value in flat.inputs}
    held = sum(bytes_of(flat.values[value]) for value in inputs)
    constants = {i for i, op in enumerate(flat.operations) if op.kind == "constant"}
    held += sum(bytes_of(flat.values[value]) for i in constants for value in flat.operations[i].writes)
    ending: dict[int, list[int]] = {}
    for value, place in last.items():
        if value not in inputs and value not in kept and value not in own:
            ending.setdefault(place, []).append(value)
    alive = most = 0
    inner: dict[str, int] = {}
    begun: set[int] = set()
    for place, number in enumerate(order):
        part = split.parts[number]
        made = [base[value] for value in _writes(flat, part) if base[value] not in inputs and base[value] not in own]
        fresh = [value for value in dict.fromkeys(made) if value not in begun]
        begun.update(fresh)
        alive += sum(bytes_of(flat.values[value]) for value in fresh)
        if not part.op and part.key not in inner:
            inner[part.key] = _within(flat, part, base)
        most = max(most, alive + inner.get(part.key, 0))
        alive -= sum(bytes_of(flat.values[value]) for value in ending.get(place, []) if value in begun)
        alive -= sum(bytes_of(flat.values[value]) for value in fresh if value not in last and value not in kept)
    return {"inputs": held, "activations": most}


def _bases(flat: Flat) -> list[int]:
    """Returns, for each value, the value that it views or overwrites, or itself."""
    base = list(range(len(flat.values)))
    written = in_place(flat)
    for i, op in enumerate(flat.operations):
        if (op.kind in FREE or i in written) and op.reads:
            for value in op.writes:
                base[value] = base[op.reads[0]]
    return base


def _reads(flat: Flat, part: ProgramPart) -> list[int]:
    return [value for i in part.operations for value in flat.operations[i].reads] if part.op else part.inputs


def _writes(flat: Flat, part: ProgramPart) -> list[int]:
    return [value for i in part.operations for value in flat.operations[i].writes] if part.op else part.outputs


def _within(flat: Flat, part: ProgramPart, base: list[int]) -> int:
    """Returns the peak of live bytes within a segment, without its inputs and outputs."""
    last: dict[int, int] = {}
    stored: set[int] = set()
    border = {base[value] for value in (*part.inputs, *part.outputs)}
    for place, i in enumerate(part.operations):
        op = flat.operations[i]
        for value in op.reads:
            last[base[value]] = place
            if op.kind not in (*FREE, *POINTWISE, "reduce"):
                stored.add(base[value])
        if op.kind not in (*FREE, *POINTWISE):
            stored.update(op.writes)
    ending: dict[int, list[int]] = {}
    for value in stored - border:
        ending.setdefault(last.get(value, 0), []).append(value)
    alive = most = 0
    for place, i in enumerate(part.operations):
        alive += sum(bytes_of(flat.values[value]) for value in flat.operations[i].writes
                     if value in stored and value not in border)  # fmt: skip
        most = max(most, alive)
        alive -= sum(bytes_of(flat.values[value]) for value in ending.get(place, []))
    return most
