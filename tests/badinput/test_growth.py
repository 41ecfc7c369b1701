"""Long sessions: memory does not grow with what was compiled and simulated before."""

from __future__ import annotations

import gc
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
