"""Closed forms of sparse cores against slow models that are written from the rules alone, cycle by cycle."""

from __future__ import annotations

import itertools
import json
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import tilesim as ts
from tilesim.analytic.sparse import SparseCore, reference_patterns

Bits = NDArray[np.bool_]
Run = tuple[list[int], bool]  # contraction indices of one sum, and whether a multiplier before them carries a sum


def placements(held: Bits, multipliers: int) -> list[list[Run]]:
    """What lies on the multipliers, one placement after the other."""
    found: list[list[Run]] = []
    now: list[Run] = []
    for vector in held:
        left = np.flatnonzero(vector).tolist()
        if len(left) + sum(len(indices) for indices, _ in now) > multipliers:
            found, now = [*found, now], []
        if len(left) <= multipliers:
            now += [(left, False)] if left else []
            continue
        carried = False
        while left:
            most = multipliers - carried
            found.append([(left[:most], carried)])
            left, carried = left[most:], True
    return [one for one in [*found, now] if one]


def wiring(multipliers: int, lines: int) -> dict[tuple[int, int], int]:
    """Output line of each adder: (adders in its level, index)."""
    pairs, edges = [], []
    width = 1
    while width < multipliers:
        pairs += [((width, i), (width, i + 1)) for i in range(1, width - 1, 2)]
        edges += [(width, 0)] + ([(width, width - 1)] if width > 1 else [])
        width *= 2
    result = {adder: number % lines for number, pair in enumerate(pairs) for adder in pair}
    result.update({adder: (number + 2 * len(pairs)) % lines for number, adder in enumerate(edges)})
    return result


def summed(ready: dict[int, int], multipliers: int) -> tuple[tuple[int, int], int]:
    """The adder that ends the sum of neighbouring multipliers, and its cycle, from the cycles of their products."""
    width, nodes = multipliers, ready
    while True:
        width //= 2
        inputs: dict[int, list[int]] = {}
        for node, cycle in nodes.items():
            inputs.setdefault(node // 2, []).append(cycle)
        out = {node: max(cycles) + 1 for node, cycles in inputs.items()}
        first, last = min(out), max(out)
        if first % 2 == 1 and last == first + 1:
            giver, taker = (last, first) if len(inputs[first]) >= len(inputs[last]) else (first, last)
            out = {taker: max(out[taker], out[giver] + 1)}
        elif first < last:
            for giver, taker in ((first, first + 1), (last, last - 1)):
                if {giver, taker} <= set(out) and giver // 2 != taker // 2:
                    out[taker] = max(out[taker], out.pop(giver) + 1)
        nodes = out
        if len(nodes) == 1:
            node, cycle = next(iter(nodes.items()))
            return (width, node), cycle


def distributed(runs: list[Run], core: SparseCore, streamed: int) -> dict[tuple[int, int], int]:
    """The cycle in which each multiplier gets what it needs for each streamed vector."""
    block = core.multipliers // core.read_ports
    slots: list[tuple[int | None, int]] = []  # index and port
    for indices, carried in runs:
        for index in [None] * carried + indices:
            slots.append((index, len(slots) // block))
    arrival = {}
    for port in range(core.read_ports):
        mine = [(slot, index) for slot, (index, at) in enumerate(slots) if at == port]
        words = deque([("held", 0, 0)] * sum(index is not None for _, index in mine))
        sums: deque[int] = deque()
        cycle, sent, wanted = 1, 0, sorted({index for _, index in mine if index is not None})
        while sent < streamed or words or sums:
            vector = cycle - 2  # vectors are fetched from the second cycle on
            if 0 <= vector < streamed:
                sent += 1
                words.extend(("streamed", index, vector) for index in wanted)
                sums.extend([vector] if any(index is None for _, index in mine) else [])
            if sums:
                arrival[next(slot for slot, index in mine if index is None), sums.popleft()] = cycle
            elif words:
                kind, index, vector = words.popleft()
                for slot, held in mine:
                    if kind == "streamed" and held == index:
                        arrival[slot, vector] = cycle
            cycle += 1
    return arrival


def placed(runs: list[Run], core: SparseCore, streamed: int) -> int:
    """Cycles of one placement: every port, adder, line and write."""
    arrival = distributed(runs, core, streamed)
    direct = core.read_ports == core.multipliers
    lines = wiring(core.multipliers, core.write_ports)
    queues: dict[int, list[int]] = {}
    for t in range(streamed):
        slot = 0
        for indices, carried in runs:
            mine = range(slot, slot + len(indices) + carried)
            slot = mine.stop
            # a product is made a cycle after its operand comes, or in the same one where no network lies between
            adder, cycle = summed({one: arrival[one, t] + (not direct) for one in mine}, core.multipliers)
            queues.setdefault(lines[adder], []).append(cycle + 1)
    written, waiting, cycle = 0, 0, 0
    while written < streamed * len(runs):
        cycle += 1
        for queue in queues.values():
            if queue and min(queue) + 1 <= cycle:
                queue.remove(min(queue))
                waiting += 1
        taken = (waiting + 1) // 2
        waiting, written = waiting - taken, written + taken
    return cycle + 1  # and one to configure


def inner(core: SparseCore, held: Bits, streamed: int) -> int:
    """Cycles of the inner product."""
    return sum(placed(runs, core, streamed) for runs in placements(held, core.multipliers))


def drawn(seed: int) -> tuple[SparseCore, Bits, Bits, str]:
    """A small core with small operands, odd cases among them."""
    rng = np.random.default_rng(seed)
    multipliers = 2 ** int(rng.integers(1, 7))
    ports = 2 ** int(rng.integers(0, np.log2(multipliers) + 1))
    core = SparseCore(multipliers, ports, int(rng.integers(1, multipliers + 1)))
    m, n, k = (int(rng.integers(1, high)) for high in (14, 14, 2 * multipliers + 3))
    a, b = (rng.random(shape) < rng.choice([0, 0.1, 0.3, 0.7, 1]) for shape in ((m, k), (k, n)))
    a[rng.random(m) < 0.1] = False  # rows without anything
    return core, a, b, "ab"[int(rng.integers(2))]


@pytest.mark.parametrize("seed", range(60))
def test_inner_product_is_the_unit_cycle_by_cycle(seed: int) -> None:
    core, a, b, held = drawn(seed)
    expected = inner(core, a, b.shape[1]) if held == "a" else inner(core, b.T, a.shape[0])
    assert core.time(a, b, held).cycles == expected


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_inner_product_often(block: int) -> None:
    for seed in range(1000 + 60 * block, 1060 + 60 * block):
        test_inner_product_is_the_unit_cycle_by_cycle(seed)


def test_the_written_rule_of_one_long_vector() -> None:
    """One vector on all multipliers: stationary words of a port, then one word of each index per streamed vector."""
    for multipliers, ports, streamed in ((64, 16, 7), (256, 8, 33)):
        core = SparseCore(multipliers, ports, 4)
        time = core.time(np.ones((1, multipliers)), np.zeros((multipliers, streamed)))
        block = multipliers // ports
        assert time.cycles == block + streamed * block + np.log2(multipliers) + 4
        assert time.products == multipliers * streamed  # zeros of what streams are multiplied too
        assert time.placements == 1


def test_density_zero_and_one() -> None:
    for core in (
        SparseCore(64, 16, 16),
        SparseCore.load("dstc"),
        SparseCore.load("eyeriss-v2-pe"),
        SparseCore(64, 8, 8, "outer"),
        SparseCore(8, 8, 8, "row"),
    ):
        nothing = core.time(np.zeros((12, 40)), np.ones((40, 9)))
        if core.segment == 0:
            assert nothing.cycles == 0
        assert nothing.products == 0
        assert core.expected(12, 9, 40, 0.0, 1.0).cycles == nothing.cycles
        full = core.time(np.ones((12, 40)), np.ones((40, 9)))
        assert full.cycles == pytest.approx(core.expected(12, 9, 40).cycles, rel=1e-12)
        assert full.products == 12 * 9 * 40
    for shape in ((0, 3, 4), (3, 0, 4), (3, 4, 0)):
        m, n, k = shape
        for flow in ("inner", "outer", "row"):
            assert SparseCore(8, 4, 4, flow).time(np.ones((m, k)), np.ones((k, n))).cycles == 0
            assert SparseCore(8, 4, 4, flow).expected(m, n, k).cycles == 0


@pytest.mark.parametrize("seed", range(20))
def test_outer_and_row_are_their_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, n, k = (int(value) for value in rng.integers(1, 80, 3))
    a, b = rng.random((m, k)) < rng.choice([0.05, 0.4, 1]), rng.random((k, n)) < rng.choice([0.05, 0.4, 1])
    write, read, fits = (int(value) for value in rng.integers(1, 20, 3))
    lanes, tile = (
        (int(rng.integers(1, 9)), int(rng.integers(1, 9))),
        (int(rng.integers(1, 40)), int(rng.integers(1, 40))),
    )
    up = lambda x, y: -(-int(x) // y)  # noqa: E731

    core = SparseCore(lanes[0] * lanes[1], read, write, "outer", lanes=lanes, tile=tile)
    steps = sum(
        up(a[i : i + tile[0], x].sum(), lanes[0]) * up(b[x, j : j + tile[1]].sum(), lanes[1])
        for x in range(k)
        for i in range(0, m, tile[0])
        for j in range(0, n, tile[1])
    )
    assert core.time(a, b).cycles == steps

    core = SparseCore(7, read, write, "outer", accumulators=fits)
    sums = sum(int(a[:, x].sum()) * int(b[x].sum()) for x in range(k))
    steps = sum(up(a[:, x].sum() * b[x].sum(), 7) for x in range(k))
    beyond = max(0, sums - fits)
    time = core.time(a, b)
    assert time.cycles == steps + up(sums, write) + up(beyond, write) + up(beyond, read)
    assert (time.products, time.partial_sums, time.spilled) == (sums, sums, beyond)

    for segment in (0, 3):
        core, cycles = SparseCore(5, read, write, "row", segment=segment), 0
        for row in a:
            parts = [b[x, j : j + (segment or n)].sum() for x in np.flatnonzero(row) for j in range(0, n, segment or n)]
            busy = sum(max(up(part, 5), 1 if segment else 0) for part in parts)
            cycles += max(busy, up(sum(parts), write))
        assert core.time(a, b).cycles == cycles
        assert core.time(b.T, a.T, stationary="b").cycles == cycles


def all_patterns(rows: int, columns: int, count: int) -> list[Bits]:
    """Every pattern with so many elements that are not zero."""
    found = []
    for places in itertools.combinations(range(rows * columns), count):
        flat = np.zeros(rows * columns, bool)
        flat[list(places)] = True
        found.append(flat.reshape(rows, columns))
    return found


@pytest.mark.parametrize(
    "core",
    [
        SparseCore(6, 1, 1000, "outer", lanes=(2, 3), tile=(2, 3)),
        SparseCore(2, 1, 1, "outer"),
        SparseCore(2, 1, 1000, "row"),
        SparseCore(1, 1, 1000, "row", segment=2),
    ],
)
def test_expectation_is_the_mean_of_all_patterns(core: SparseCore) -> None:
    m, n, k, of_a, of_b = 3, 4, 2, 3, 5
    times = [core.time(a, b).cycles for a in all_patterns(m, k, of_a) for b in all_patterns(k, n, of_b)]
    found = core.expected(m, n, k, of_a / (m * k), of_b / (k * n)).cycles
    if core.dataflow == "outer" and core.tile is None:
        # merged sums are rounded up, so that their mean is within one cycle
        assert abs(found - np.mean(times)) <= 1
    else:
        assert found == pytest.approx(np.mean(times), rel=1e-12)


def test_expected_inner_product_is_near_the_mean() -> None:
    core = SparseCore(64, 16, 16)
    rng = np.random.default_rng(3)
    for density in (0.1, 0.5, 0.9):
        times = [core.time(rng.random((40, 50)) < density, np.ones((50, 11))).cycles for _ in range(20)]
        assert core.expected(40, 11, 50, density).cycles == pytest.approx(np.mean(times), rel=0.05)


def test_reference_patterns_are_the_generator() -> None:
    x, mask, bits = 88172645463325252, 2**64 - 1, []
    m, n, k = 3, 5, 4
    for element in range(m * k + k * n):
        x ^= x << 13 & mask
        x ^= x >> 7
        x ^= x << 17 & mask
        bits.append((x >> 20) % 100 >= (70 if element < m * k else 20))
    a, b = reference_patterns(m, n, k, 0.3, 0.8)
    assert np.array_equal(a, np.reshape(bits[: m * k], (m, k)))
    assert np.array_equal(b, np.reshape(bits[m * k :], (k, n)))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"multipliers": 48}, "power of two"),
        ({"read_ports": 48}, "divisor of 256"),
        ({"write_ports": 0}, "write_ports"),
        ({"dataflow": "iner"}, "Did you mean 'inner'"),
        ({"dataflow": "outer", "lanes": (8, 8)}, "lanes"),
        ({"segment": -1}, "segment"),
    ],
)
def test_settings_out_of_range(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ts.UserError, match=words):
        SparseCore().replace(**settings).time(np.ones((2, 2)), np.ones((2, 2)))


def test_cores_of_machines(tmp_path: Path) -> None:
    assert SparseCore.names() == ["dense-sparse-2", "dstc", "eyeriss-v2-pe", "sigma-256"]
    assert SparseCore.load("dstc") == SparseCore(128, 24, 128, "outer", lanes=(8, 16), tile=(32, 32))
    assert SparseCore.load("eyeriss-v2-pe") == SparseCore(1, 1, 1, "row", segment=16)
    assert SparseCore.load("sigma-256") == SparseCore(256, 128, 128)
    assert SparseCore.load("dense-sparse-2") == SparseCore(1024, 1024, 1024, "outer")
    with pytest.raises(ts.UserError, match="Did you mean 'sigma-256'"):
        SparseCore.load("sigma-265")
    with pytest.raises(ts.UserError, match="no sparse multipliers"):
        SparseCore.load("edge-8")
    given = ts.Machine.load("sigma-256").to_dict()
    for settings, words in (
        ({"multiplier": 2}, "Did you mean 'multipliers'"),
        ({"multipliers": 48}, "power of two"),
        ({"multipliers": "many"}, "multipliers"),
        ({"dataflow": 3}, "dataflow"),
        ({"dataflow": "iner"}, "Did you mean 'inner'"),
        ({"lanes_a": 3, "dataflow": "outer"}, "lanes"),
    ):
        given["core"]["array"]["sparse"] = {"multipliers": 64, "read_ports": 4, "write_ports": 4, **settings}
        file = tmp_path / "core.json"
        file.write_text(json.dumps(given), "utf-8")
        with pytest.raises(ts.UserError, match=words):
            SparseCore.load(file)


def test_operands_that_do_not_fit() -> None:
    with pytest.raises(ts.UserError, match="contracted extents"):
        SparseCore().time(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ts.UserError, match="2 axes"):
        SparseCore().time(np.ones(3), np.ones((3, 3)))
    with pytest.raises(ts.UserError, match="stationary"):
        SparseCore().time(np.ones((2, 2)), np.ones((2, 2)), "c")
    with pytest.raises(ts.UserError, match="a_density"):
        SparseCore().expected(2, 2, 2, 1.5)
    with pytest.raises(ts.UserError, match="too large to draw"):
        SparseCore().expected(1 << 20, 2, 1 << 20)
    for extents in ((-1, 2, 2), (2, 1 << 40, 2)):
        for call in (SparseCore().expected, SparseCore(8, 8, 8, "outer").expected):
            with pytest.raises(ts.UserError, match=r"m|n"):
                call(*extents)
        with pytest.raises(ts.UserError, match=r"m|n"):
            reference_patterns(*extents, 0.5, 0.5)
