"""What a sort carries along: lines that lie together are gathered by one compute, and levels are near each other."""

from __future__ import annotations

from typing import Any

import pytest

import tilesim as ts

# shape, sorted dim, keys, type, machine; tiles that are cut, ragged, lines within others, few long lines
CASES = [
    ((128, 64), 1, 1, "f32", "tpu-v3"),
    ((48, 16), 1, 1, "i16", "edge-8"),
    ((5, 33, 8), 0, 1, "u8", "edge-8"),
    ((5, 33, 8), 1, 2, "u8", "gemmini-16"),
    ((5, 33, 8), 2, 1, "u8", "mesh-16"),
    ((7, 1, 9), 0, 1, "i8", "mesh-16"),
    ((1, 60), 1, 1, "f32", "edge-8"),
    ((2, 700), 1, 1, "f32", "edge-8"),
]


def sort_of(shape: tuple[int, ...], dim: int, keys: int, dtype: str) -> ts.Graph:
    """Keys, each of several of a kind, and two operands that follow them; the keys themselves are not asked for."""
    b = ts.GraphBuilder("sort")
    operands = [b.input(f"k{i}", shape, dtype if i == 0 else "i32") for i in range(keys)]
    operands += [b.input("a", shape, "i32"), b.input("b", shape, "f32")]
    results = b.op("sort", *operands, results=len(operands), dim=dim, keys=keys)
    for name, result in zip(("a", "b"), results[keys:], strict=True):
        b.output(result, f"sorted {name}")
    return b.build()


def computes_of(program: ts.Program) -> list[dict[str, Any]]:
    return list(ts.levels(program).computes)


@pytest.mark.parametrize(("shape", "dim", "keys", "dtype", "machine"), CASES)
def test_payloads_follow_at_both_levels(shape: tuple[int, ...], dim: int, keys: int, dtype: str, machine: str) -> None:
    program = ts.compile(sort_of(shape, dim, keys, dtype), machine)
    assert ts.verify(program).ok
    assert ts.verify(program, level="instruction").ok
    tile, kernels = (ts.simulate(program, level=level).cycles for level in ("tile", "instruction"))
    assert abs(tile / kernels - 1) < 0.2, (tile, kernels)
    for row in computes_of(program):
        if row["compute"].startswith("indexed"):
            assert abs(row["difference"]) < 0.15, row


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "mesh-16", "sigma-256"])
def test_payloads_that_nothing_reads_are_neither_moved_nor_counted(machine: str) -> None:
    def graph(payloads: int) -> ts.Graph:
        b = ts.GraphBuilder("sort")
        keys = b.op("sort", *(b.input(name, (64, 96)) for name in "xyz"[: payloads + 1]), results=payloads + 1, dim=1)
        b.output(keys[0] if payloads else keys, "sorted")
        return b.build()

    result, bound = ts.simulate(graph(2), machine), ts.lower_bound(graph(2), machine)
    assert bound.bytes == ts.lower_bound(graph(0), machine).bytes == 2 * 64 * 96 * 4 <= result.memory_bytes


def test_many_lines_are_gathered_by_one_compute() -> None:
    program = ts.compile(sort_of((128, 64), 1, 1, "f32"), "tpu-v3")
    rows = {row["compute"].split(" f0")[0]: row["count"] for row in computes_of(program)}
    assert rows["indexed i32 i32 e8192 m8192 k1"] == rows["indexed f32 i32 e8192 m8192 k1"] == 1
    # 8,192 elements: one for each lane and cycle, where gathers of 64 wait 40 cycles for their check
    assert ts.simulate(program, level="instruction").cycles < 128 * 40


def test_few_long_lines_are_gathered_alone() -> None:
    """Places of all lines together are one more compute, which long lines are not worth."""
    rows = computes_of(ts.compile(sort_of((2, 700), 1, 1, "f32"), "edge-8"))
    assert {row["compute"].split(" k1")[0] for row in rows if row["compute"].startswith("indexed i32")} <= {
        "indexed i32 i32 e700 m700",
        "indexed i32 i32 e1400 m1400",
    }
