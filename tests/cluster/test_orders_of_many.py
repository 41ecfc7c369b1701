"""Orders of many plans at once: the times of one by one, and searches among them lose nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.cluster.advice import replaced
from tilesim.cluster.fabric import fabric_of
from tilesim.cluster.frameworks import Framework
from tilesim.cluster.hosts.straggling import slower
from tilesim.cluster.pipelines.order import Placement
from tilesim.cluster.pipelines.schedules import PLACED, chunks_of, program, run_many
from tilesim.cluster.pipelines.stages import at_least, together
from tilesim.cluster.plan import SCHEDULES
from tilesim.cluster.searches.candidates import AXES, candidates, table_of
from tilesim.cluster.searches.pruning import Peak, rises
from tilesim.cluster.stepping import pricer, timed


def sizes(name: str, random: Any) -> tuple[int, int, int]:
    """Stages, micro-batches (often fewer than stages) and chunks that a schedule divides."""
    stages, micros = int(random.integers(1, 8)), int(random.integers(1, 15))
    if name == "dualpipe":
        stages += stages % 2
        return stages, 2 * stages + 2 * int(random.integers(0, 4)), 2
    if name == "interleaved":
        return stages, stages * int(random.integers(1, 4)), int(random.integers(1, 4))
    return stages, micros, chunks_of(name, 1)


def by_relaxing(rows: list[str], placed: Placement, cost: Any, micros: int) -> tuple[list[int], list[int]]:
    """When stages begin and end: every pass is put off until nothing moves."""
    words = [[(word[0], *map(int, (*word[1:].split("."), "0")[:2])) for word in row.split()] for row in rows]
    ends: dict[tuple[Any, ...], int] = {}
    moved = True
    while moved:
        moved = False
        for stage, row in enumerate(words):
            free = 0
            for kind, micro, chunk in row:
                other = None if kind == "W" else (placed.before if kind == "F" else placed.after)[stage, chunk]
                came = 0 if other is None else ends.get(("F" if kind == "F" else "G", *other, micro), 0)
                free = max(free, came) + cost(stage, kind, chunk)
                key = ({"F": "F", "W": "W"}.get(kind, "G"), stage, chunk, micro)
                moved |= ends.get(key) != free
                ends[key] = free
    begins, last = [], []
    for stage, row in enumerate(words):
        (_, micro, chunk), one = row[0], placed.before[stage, row[0][2]]
        begins.append(0 if one is None else ends[("F", *one, micro)])
        kind, micro, chunk = row[-1]
        last.append(ends[{"F": "F", "W": "W"}.get(kind, "G"), stage, chunk, micro])
    return begins, last


@pytest.mark.parametrize("name", PLACED)
def test_times_of_many_are_those_of_each(name: str) -> None:
    """Of as many steps as fill the core's lanes, and of one, four, some more."""
    random = np.random.default_rng(sum(map(ord, name)))
    for steps in (1, 3, 4, 5, 16, 17, 37):
        stages, micros, virtual = sizes(name, random)
        placed = Placement(PLACED[name], stages, chunks_of(name, virtual))
        table = [random.integers(0, 50, (stages * placed.chunks, steps)) for _ in range(3)]
        begins, ends = run_many(program(name, stages, micros, virtual), table)
        assert begins.shape == ends.shape == (stages, steps)
        rows = ts.cluster.pipeline(name, stages, micros, virtual, forward=1.0, backward_input=1.0).order
        for step in {0, steps // 2, steps - 1}:
            forward, inputs, weights = (one[:, step].tolist() for one in table)
            own = {"F": forward, "I": inputs, "W": weights, "B": [a + b for a, b in zip(inputs, weights, strict=True)]}

            def cost(stage: int, kind: str, chunk: int, own: Any = own, stages: int = stages) -> int:
                return int(own[kind][chunk * stages + stage])

            assert (begins[:, step].tolist(), ends[:, step].tolist()) == by_relaxing(rows, placed, cost, micros)


def test_sums_beyond_63_bits() -> None:
    """A sum of all passes may be longer than 2^63 picoseconds, the end may not."""
    one, much = program("gpipe", 4, 4), 1 << 59
    begins, ends = run_many(one, [np.full((4, 2), much), np.full((4, 2), much // 2), np.zeros((4, 2), dtype=np.int64)])
    assert begins[:, 1].tolist() == [0, much, 2 * much, 3 * much]
    assert ends[0].tolist() == [7 * much + 7 * (much // 2)] * 2
    with pytest.raises(ts.UserError, match=r"longer than 2\^63 picoseconds"):
        run_many(one, [np.full((4, 2), 2 * much)] * 3)
    assert ts.cluster.pipeline("gpipe", 2, 2, forward=1e6, backward_input=1e6).seconds == pytest.approx(6e6)
    with pytest.raises(ts.UserError, match=r"longer than 2\^63 picoseconds"):
        ts.cluster.pipeline("gpipe", 2, 20, forward=1e6, backward_input=1e6)


def random_search(random: Any) -> tuple[Any, Any]:
    """Workloads whose plans have odd stages, unequal layers and fewer micro-batches than stages; nodes that stages
    span, and nodes that they do not; a memory that holds some of the plans."""
    node, nodes = [(2, 3), (6, 2), (4, 3), (3, 2), (8, 1), (6, 1)][int(random.integers(6))]
    heads = int(random.choice([2, 6]))
    work = ts.workloads.transformer_step(
        int(random.choice([5, 8, 12, 13])), heads * 128, heads, int(random.choice([1000, 64000])),
        int(random.choice([512, 2048])), int(random.choice([6, 12, 24])),
        experts=((3, 1), None, None)[int(random.integers(3))],
    )  # fmt: skip
    network = [{"kind": "switch", "size": size, "bandwidth_bytes_per_second": float(10 ** random.uniform(9, 12)),
                "latency_seconds": 1e-6} for size in (node, nodes)]  # fmt: skip
    device = ts.Device.load(str(random.choice(["a100", "h100", "tpu-v5e"])))
    room = dataclasses.replace(device.memory, bytes=float(random.choice([5e8, 2e9, 16e9])))
    return work, ts.Cluster(replaced(device, levels=(*device.levels[:-1], room)), network[: 1 + (nodes > 1)])


def test_searches_among_orders_lose_nothing() -> None:
    met: set[tuple[str, bool]] = set()  # schedules, and whether the number of stages is odd
    for seed in range(6):
        random = np.random.default_rng(seed)
        work, cluster = random_search(random)
        keep = int(random.choice([1, 30]))
        every, some = (
            ts.cluster.search(work, cluster, keep=keep, exhaustive=all_, confirm=0, framework="unfitted")
            for all_ in (True, False)
        )
        assert every.priced == every.fits == some.fits
        assert (some.plans, some.seconds, some.peak_bytes) == (every.plans, every.seconds, every.peak_bytes)
        assert list(some.map()) == list(every.map())
        rows = candidates(work, fabric_of(cluster))
        odd = rows[:, AXES.index("pipeline")] % 2 == 1
        met |= {
            (SCHEDULES[int(code)], bool(one)) for code, one in zip(rows[:, AXES.index("schedule")], odd, strict=True)
        }
        for plan, seconds in list(zip(every.plans, every.seconds, strict=True))[::10]:
            alone = ts.cluster.step(work, cluster, plan, framework="unfitted")
            assert alone.seconds == pytest.approx(seconds, rel=1e-12)
    assert met == {(name, odd) for name in SCHEDULES for odd in (False, True)} - {("dualpipe", True)}


def test_bounds_are_no_more_than_orders_take() -> None:
    """Those of the device's peak, and those of busiest stages; some devices are slow."""
    k, near = Framework.load("unfitted").constants, 0
    for seed in range(20, 28):
        random = np.random.default_rng(seed)
        work, cluster = random_search(random)
        fabric = fabric_of(cluster)
        if seed % 2:
            fabric = slower(fabric, {int(random.integers(fabric.devices)): 1.5})
        rows = candidates(work, fabric)
        rows = rows[random.permutation(len(rows))[:2000]]
        table, price = table_of(work, rows), pricer(fabric.device, work.dtype)
        least, bound, found = (timed("train", table, one, fabric, k, by).seconds for one, by in (
            (Peak(price), at_least), (price, at_least), (price, together)))  # fmt: skip
        assert np.all(bound <= found * (1 + 1e-9))
        assert np.all(least * rises(table) <= found * (1 + 1e-9))
        ordered = table.schedule >= SCHEDULES.index("zb-h1")
        near += int(np.sum(found[ordered] < 1.05 * bound[ordered]))
    assert near > 20  # and not far from it
