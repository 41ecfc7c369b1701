"""What several tests do to a program: its tensors, its mutants, the flits of its routers, its limits."""

from __future__ import annotations

import contextlib
import resource
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tilesim as ts
from tilesim import _core

BYTES = 1 << 30  # beyond what the process has already
BITS = {"bool": 8, "u8": 8, "i8": 8, "f16": 16, "bf16": 16, "i32": 32, "f32": 32, "i64": 64, "f64": 64}


def few_cores(machine: str) -> ts.Machine:
    """The machine with four cores, if it has more: they share tiles as more do, and compile in half of the time."""
    target = ts.Machine.load(machine)
    return target.replace({"core.count": 4}) if target.get("core.count") > 4 else target


def statements(block: list[Any]) -> Iterator[dict[str, Any]]:
    """All of a program's text, what they hold included."""
    for statement in block:
        yield statement
        for key in ("do", "then", "else"):
            yield from statements(statement.get(key, []))


def ring_bytes(slot: dict[str, Any]) -> int:
    """What all buffers of a slot take of the scratchpad."""
    bytes_ = -(-slot["elements"] * BITS[slot["dtype"]] // 8)
    return -(-bytes_ // 64) * 64 * int(slot.get("depth", 2))


def arrays_of(program: ts.Program) -> dict[str, Any]:
    """Random inputs and the weights, by the names of the program's tensors."""
    names = [row["name"] for row in program.graph.core.inputs]
    arrays = dict(zip(names, _core.random_inputs(program.graph.core, 0), strict=True))
    return arrays | program.weights()


def unnoticed_mutants(program: ts.Program, arrays: dict[str, Any] | None = None) -> list[str]:
    """What can be deleted of a program's waits, commits and releases (three or more) without a race or a deadlock."""
    arrays = arrays_of(program) if arrays is None else arrays
    unnoticed = []
    mutants = _core.mutants(program.core)
    assert len(mutants) >= 3
    for mutant, deleted in mutants:
        try:
            _core.execute(mutant, arrays, find_races=True)
            unnoticed.append(deleted)
        except ts.UserError:
            pass
    return unnoticed


def fenced(machine: ts.Machine, barrier: bool = True) -> ts.Machine:
    """With or without a barrier between kernels.

    Barriers are what compilers of chips put: the machine gets a lowering profile, of convolutions, and else the rules
    of all machines. Nothing stays in its scratchpads that is not asked for.
    """
    settings = machine.to_dict()
    settings["lowering"] = settings.get("lowering") or {"convolution": {"reason": "a test"}}
    settings["core"]["kernel_barrier"] = barrier
    return ts.Machine.load(settings)


def flits_balance(network: dict[str, Any]) -> bool:
    """Whether at every router as many flits come in as go out."""
    balance: Counter[int] = Counter()
    for a, b, count in network["links"]:
        balance[a] -= count
        balance[b] += count
    for row in network["endpoints"]:
        balance[row["router"]] += row["sent"] - row["taken"]
    return not any(balance.values())


@contextlib.contextmanager
def limited_memory() -> Iterator[None]:
    """Memory beyond BYTES fails as MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
