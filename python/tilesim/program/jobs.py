"""Simulates several concurrent programs on one chip."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import _core
from ..base.arguments import integer, is_size
from ..base.checked import checked_class
from ..base.errors import placed
from ..graph import user_error
from ..machine.machine import Machine
from ..results.checks import check_note
from ..results.result import Result
from .data_sources import Data, tensors_that_timing_reads
from .program import Program

__all__ = ["Job"]

_NAMED = 3  # most programs that a headline names


@checked_class()
@dataclass(frozen=True)
class Job:
    """A program with its cores and arrival.

    Attributes:
        program: a compiled program.
        cores: indices of the machine's cores, one per core of the program; by default the first cores, of the
            program's core type if it has one.
        arrival: earliest start in cycles of core.clock, or as a time such as "1 ms" (rounded up to a cycle).
        priority: among jobs that wait for the same cores, earlier arrivals start first, then smaller priorities.
        tensors: integer tensors on which timing depends, by name.
    """

    program: Program
    cores: Sequence[int] | None = None
    arrival: int | str = 0
    priority: int = 0
    tensors: Mapping[str, Any] = field(default_factory=dict)


def cores_of(program: Program, machine: Machine, cores: Sequence[int] | None = None) -> list[int]:
    """Returns the cores of a program on the machine; an empty list means the first cores."""
    if cores is not None:
        return [int(core) for core in cores]
    if not program.sort:
        return []
    own = machine.sorts.get(program.sort)
    if own is None:
        has = ", ".join(machine.sorts) or "one type without a name"
        raise user_error("the machine lacks cores of the program's type", value=f"'{program.sort}'", allowed=has)
    if len(own) < program.cores:
        most = f"at most {len(own)}"
        raise user_error("too few cores of the type", place=program.sort, value=str(program.cores), allowed=most)
    return own[: program.cores]


def arrival_of(job: Job, machine: Machine) -> int:
    """Returns the earliest start of a job in cycles."""
    if not isinstance(job.arrival, str):
        return integer("arrival", job.arrival, least=0)
    text = job.arrival.strip()
    if is_size(text):
        return int(text)
    with placed("arrival"):
        duration = int(_core.parse_duration(text))
    return -(-duration * int(_core.parse_frequency(str(machine.get("core.clock")))) // 10**12)


def _called(jobs: Sequence[Job]) -> str:
    """Names the programs in order, with the number of jobs of each name."""
    counts = Counter(job.program.core.name for job in jobs)
    names = [f"{count} of {name}" if count > 1 else name for name, count in counts.items()]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(jobs)} jobs ({', '.join(names[:_NAMED])}{more})"


def _tell(data: dict[str, Any], allowed: Sequence[Data]) -> None:
    """Adds the sources of each job's values, by job index if there are several jobs."""
    sources: dict[str, str] = {}
    for i, own in enumerate(allowed):
        start = f"job {i}: " if len(allowed) > 1 else ""
        found = data.get("data_sources", {}).items()
        part = {"data_sources": {name.removeprefix(start): how for name, how in found if name.startswith(start)}}
        own.tell(part)
        sources |= {start + name: how for name, how in part["data_sources"].items()}
    if sources:
        data["data_sources"] = sources


def simulate_jobs(
    jobs: Sequence[Job], machine: Machine, parts: dict[str, Any], timeline: bool, placement: dict[str, str]
) -> Result:
    """Runs jobs in one simulation."""
    session = _core.Session(machine.core, placement=placement, timeline=timeline, **parts)
    known = [tensors_that_timing_reads(job.program, job.tensors) for job in jobs]
    for job, own in zip(jobs, known, strict=True):
        cores = cores_of(job.program, machine, job.cores)
        session.submit(job.program.core, cores, arrival_of(job, machine), job.priority, own.arrays)
    session.run()
    data = session.result().data()
    data["machine"] = machine.label
    if len(jobs) > 1:
        data["program"] = _called(jobs)
    _tell(data, known)
    data["versions"] = {"tilesim": _core.__version__, "python": platform.python_version()}
    data["approximations"] += check_note(data)
    return Result(data)
