"""Jobs through one session: how many per second, what one costs beside its events, and what one leaves in memory.

Goals: 20 us a job beside its events however many wait, and flat memory: an ended job leaves a row.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from engine import program

OPERATIONS = 4
"""Trips of the loop of a job: ten tile operations each."""


def resident() -> int:
    """Bytes of the process that lie in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def session() -> tuple[Any, Any]:
    """A session on tpu-v3, and the job's program."""
    from tilesim import Machine, _core

    return _core.Session(Machine.load("tpu-v3").core), _core.Program.from_json(json.dumps(program(OPERATIONS)), "job")


def ahead(count: int) -> float:
    """Seconds a job where all of them wait from the start on.

    Args:
        count: jobs.

    Returns:
        Seconds.
    """
    own, job = session()
    begin = time.perf_counter()
    for _ in range(count):
        own.submit(job)
    own.run()
    return (time.perf_counter() - begin) / count


def in_turn(count: int) -> tuple[float, float]:
    """Seconds a job where each is submitted when the one before has ended, and bytes that one leaves.

    Args:
        count: jobs.

    Returns:
        Seconds and bytes; those of the first tenth are left out.
    """
    own, job = session()
    before, seconds = 0, 0.0
    for i in range(count):
        if i == count // 10:
            before, seconds = resident(), time.perf_counter()
        own.submit(job, arrival=own.now)
        own.run()
    measured = count - count // 10
    return (time.perf_counter() - seconds) / measured, (resident() - before) / measured


def of_events() -> float:
    """Seconds that the events of such a job take: of one long job of the same loop."""
    from tilesim import Machine, _core

    trips = 50_000
    compiled = _core.Program.from_json(json.dumps(program(trips)), "stream")
    machine = Machine.load("tpu-v3").core
    begin = time.perf_counter()
    _core.simulate(compiled, machine)
    return (time.perf_counter() - begin) / trips * OPERATIONS


def measure(count: int) -> dict[str, float]:
    """All figures.

    Args:
        count: jobs that run one after the other.

    Returns:
        Name to value.
    """
    ahead(100)
    events = of_events()
    seconds, left = in_turn(count)
    figures = {"jobs_per_second": 1 / seconds, "bytes_per_ended_job": left, "microseconds_of_events": events * 1e6}
    figures["microseconds_beside_events"] = (seconds - events) * 1e6
    for queued in (250, 4_000, 64_000):
        figures[f"microseconds_with_{queued}_queued"] = ahead(queued) * 1e6
    return figures


if __name__ == "__main__":
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print(json.dumps({name: round(value, 2) for name, value in measure(jobs).items()}, indent=1))
