"""Long sessions: memory does not grow with what was compiled and simulated before."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from resource import getpagesize

import pytest

import tilesim as ts

ROUNDS, WARM = 2000, 500
ALLOWED = 2 << 20  # bytes over the rounds behind the warm ones: less than one and a half KiB each


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * getpagesize()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much memory is resident")
def test_two_thousand_compiles_and_simulations() -> None:
    warm = 0
    for number in range(ROUNDS):
        graph = ts.workloads.matmul(20 + number % 7, 24, 28) if number % 2 else ts.workloads.softmax(4 + number % 5, 40)
        ts.simulate(ts.compile(graph, "edge-8"), timeline=number % 10 == 0)
        if number == WARM:
            warm = resident()
    grown = resident() - warm
    print(f"{grown >> 10} KiB more after {ROUNDS - WARM} rounds")
    assert grown < ALLOWED


PEAKS = """
import resource
from support.interrupted import fill, loop
from tilesim import _core

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

for order in ("text", "early_loads", "random"):
    _core.execute(loop(2000, fill()), {}, order=order)
    warm = peak()
    _core.execute(loop(30_000, fill()), {}, order=order)
    print(order, peak() - warm)
"""


def test_an_execution_keeps_only_what_is_under_way() -> None:
    """A loop of a program of a few lines may have any number of trips."""
    paths = os.pathsep.join([str(Path(__file__).resolve().parents[1]), str(Path(ts.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", PEAKS], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    grown = {order: int(kibibytes) for order, kibibytes in (line.split() for line in done.stdout.splitlines())}
    assert set(grown) == {"text", "early_loads", "random"}
    assert max(grown.values()) < ALLOWED >> 10, grown
