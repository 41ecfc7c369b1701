"""Counts bytes of a program's tensors in the machine's memory."""

from __future__ import annotations

from .. import _core
from ..base.errors import user_error
from ..machine.machine import Machine
from .program import Program

__all__ = ["check_capacity", "over_capacity"]


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count:,} bytes"


def over_capacity(program: Program, machine: Machine) -> tuple[str, str] | None:
    """Describes the tensors that exceed memory; None if they fit or the capacity is unknown."""
    capacity = int(_core.parse_bytes(str(machine.get("memory.capacity") or "0 B")))
    tensors = program.footprint
    if capacity == 0 or sum(count for count, _ in tensors) <= capacity:
        return None
    needed = program.peak_bytes
    if needed <= capacity:
        return None
    largest = ", ".join(f"{name} {_gibibytes(count)}" for count, name in tensors[:3])
    return f"{_gibibytes(needed)} of tensors (largest: {largest})", _gibibytes(capacity)


def check_capacity(program: Program, machine: Machine) -> None:
    """Rejects a program whose tensors exceed the machine's memory."""
    found = over_capacity(program, machine)
    if found:
        raise user_error(
            "the program's tensors exceed the machine's memory",
            place="memory.capacity",
            value=found[0],
            allowed="at most " + found[1],
            suggestion="fewer layers, a narrower dtype, or a machine with more memory",
        )
