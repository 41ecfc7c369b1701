"""Products whose operands one core fetches and sends to all that need them: planned, priced and emitted alike."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import tilesim as ts
from tilesim.mapping import Product, kernels

RATE = 512 * 0.9  # bytes per cycle of mesh-16's memory: 512 GB/s at 1 GHz, 90 % of them


def compiled(m: int, n: int, k: int, dtype: str, **changes: object) -> tuple[Product, ts.Program]:
    graph, machine = ts.workloads.matmul(m, n, k, dtype=dtype), ts.Machine.load("mesh-16").replace(changes)
    found = kernels(graph, machine, mapping="cost")[0]
    assert isinstance(found, Product)
    return found, ts.compile(graph, machine, mapping="cost")


def sent(result: ts.Result) -> float:
    return sum(float(row["send_bytes"]) for row in result.cores().rows)


def test_a_product_that_memory_limits_is_sent_round() -> None:
    """Over 16 cores, 4 by 4, each fetching what it needs: 4.5 MB each, 164 thousand cycles of the memory. The arrays
    need 131 thousand; with each operand fetched by one core for four, the memory needs a third of that."""
    size, tensor = 2048, 2048 * 2048 * 2
    arrays, fetched = size**3 / (16 * 64 * 64), (4 + 4 + 1) * tensor / RATE
    _, program = compiled(size, size, size, "bf16")
    result = ts.simulate(program)
    assert result.memory_bytes < 5 * tensor and sent(result) > 0
    assert arrays < result.cycles < 0.95 * fetched


@pytest.mark.parametrize("seed", range(8))
def test_sends_are_priced(seed: int) -> None:
    rng = random.Random(seed)
    m, n, k = (rng.choice([256, 512, 1000, 1024, 2048]) for _ in range(3))
    kernel, program = compiled(m, n, k, rng.choice(["bf16", "f32"]))
    result = ts.simulate(program)
    assert abs(kernel.cost(kernel.nest)["cycles"] / result.cycles - 1) < 0.15, (m, n, k, kernel.nest, result.cycles)


def test_what_is_planned_is_sent() -> None:
    """The nest leaves room for the buffers from which tiles are sent: no plan is dropped at the end for want of it."""
    for kilobytes in (256, 512, 2048):
        _, program = compiled(2048, 2048, 2048, "bf16", **{"core.scratchpad.bytes": f"{kilobytes} KiB"})
        result = ts.simulate(program)
        alone = compiled(
            2048, 2048, 2048, "bf16", **{"core.scratchpad.bytes": f"{kilobytes} KiB", "network.multicast": False}
        )[1]
        assert sent(result) > 0
        assert result.cycles <= 1.02 * ts.simulate(alone).cycles


def test_a_given_nest_finds_a_division_that_holds_it() -> None:
    """Legal for the parts that were recorded: it compiles, whatever other divisions could not hold it."""
    kernel, _ = compiled(2048, 2048, 2048, "bf16")
    rng, tried = random.Random(0), 0
    graph, machine = ts.workloads.matmul(2048, 2048, 2048, dtype="bf16"), ts.Machine.load("mesh-16")
    while tried < 12:
        tiles = [rng.choice([64, 128, 256, 512]), rng.choice([64, 128, 512]), rng.choice([64, 128, 512])]
        nest = {"tiles": tiles, "order": rng.sample(range(3), 3), "depths": rng.choice([[2, 2, 1], [1, 1, 1]])}
        if not kernel.legal(nest)[0]:
            continue
        tried += 1
        ts.compile(graph, machine, mapping={kernel.operation: nest})


def test_products_that_are_sent_are_right() -> None:
    rng = random.Random(2)
    total = 0.0
    for _ in range(6):
        m, n, k = (rng.choice([130, 256, 300, 512]) for _ in range(3))
        _, program = compiled(m, n, k, rng.choice(["bf16", "f32"]), **{"memory.bandwidth": "64 GB/s"})
        total += sent(ts.simulate(program))
        assert ts.verify(program).ok
    assert total > 0


def test_no_branch_asks_what_a_branch_around_it_asks() -> None:
    """Both operands go round the same cores: one branch per core that fetches."""
    found = []

    def walk(block: list[dict[str, Any]], around: tuple[str, ...]) -> None:
        for statement in block:
            inside = (*around, str(statement["if"])) if "if" in statement else around
            found.extend([inside] if len(set(inside)) < len(inside) else [])
            for body in ("do", "then", "else"):
                if isinstance(statement.get(body), list):
                    walk(statement[body], inside)

    rounds = 0
    for m, n, k in ((256, 130, 512), (64, 130, 300), (130, 256, 256)):
        program = json.loads(compiled(m, n, k, "bf16")[1].core.to_json())
        rounds += sum(slot["name"] in ("a1", "b1") for step in program["do"] for slot in step.get("slots", []))
        walk(program["do"], ())
    assert rounds >= 2 and not found
