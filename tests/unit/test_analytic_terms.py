"""Attention, convolution and vector operations: each term with figures worked out on paper."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts
from tilesim.analytic import attention, conv, gemm, vector

# ten units at 1 GHz, 10 TFLOP/s of bf16, a cache of 1 MB at 1 TB/s before a memory of 100 GB/s
DEVICE = ts.Device(
    [ts.analytic.Level("cache", 1e6, 1e12), ts.analytic.Level("DRAM", 1e10, 1e11)], units=10, clock_hz=1e9,
    kind="gpu", matrix={"bf16": 1e13, "f32": 1e13}, vector={"f32": 1e12},
)  # fmt: skip
ATTENTION = {
    "launch": 1e-6, "efficiency": 1.0, "exponentials": 1e3, "tile": 0.0, "block": 0.0, "sequence": 0.0,
    "memory_share": 0.5, "cache_share": 1.0, "unit_bytes_per_clock": 100.0, "row": 0.0, "split": 0.0, "overlap": 12.0,
    "wave_smoothing": 0.0,
}  # fmt: skip
VECTOR = {
    "launch": 1e-6, "memory_share": 0.5, "cache_share": 0.5, "cache_fill": 1.0, "cache_edge": 0.01, "lanes_share": 0.5,
    "row": 1e-7, "narrow": 0.0, "overlap": 1.0,
}  # fmt: skip


def attended(constants: dict[str, float] | None = None, **shape: float) -> dict[str, float]:
    names = ("batch", "queries", "keys", "heads", "key_heads", "depth", "window")
    given = {"batch": 1, "queries": 128, "keys": 128, "heads": 1, "key_heads": 1, "depth": 64, "window": 0, **shape}
    cases = attention.AttentionCases(*(np.array([float(given[name])]) for name in names), causal=True)
    found = attention.attention_terms(DEVICE, cases, "bf16", "bf16", {**ATTENTION, **(constants or {})})
    return {name: float(value[0]) for name, value in found.items()}


def test_attention_computes_in_blocks_and_rounds() -> None:
    block = 4 * 128 * 128 * 64 / 1e12  # two products of a tile of queries with a block of keys on one unit
    assert attended()["compute"] == pytest.approx(block)
    assert attended(heads=10, key_heads=10)["compute"] == pytest.approx(block)  # a unit each
    assert attended(heads=11, key_heads=11)["compute"] == pytest.approx(2 * block)
    assert attended({"wave_smoothing": 1.0}, heads=11, key_heads=11)["compute"] == pytest.approx(1.1 * block)
    assert attended({"efficiency": 0.5})["compute"] == pytest.approx(2 * block)
    assert attended({"exponentials": 1.0})["compute"] == pytest.approx(128 * 128 / 1e9)  # pairs, one per cycle
    assert attended({"block": 1e-3})["compute"] == pytest.approx(1e-3)
    assert attended({"tile": 1e-3})["compute"] == pytest.approx(1e-3 + block)


def test_attention_moves_its_tensors() -> None:
    found = attended(batch=2, heads=4, key_heads=2)
    fresh = 2 * 128 * 64 * 2 * (2 * 4 + 2 * 2)  # queries, outputs, new keys and values
    cached = 2 * 2 * 128 * 64 * 2 * 2
    assert found["memory"] == pytest.approx((fresh + cached) / 0.5e11)
    assert attended()["load"] == pytest.approx(2 * 128 * 64 * 2 / 1e11)  # keys and values of one head, 100 B/cycle
    windowed = attended(queries=1, keys=4096, window=255)
    assert windowed["memory"] == pytest.approx((256 * 64 * 2 * 2 + 64 * 2 * 4) / 0.5e11)


def test_attention_launches_writes_its_cache_and_joins_splits() -> None:
    assert attended()["launch"] == pytest.approx(1e-6)
    assert attended({"sequence": 1e-6}, batch=7)["launch"] == pytest.approx(8e-6)
    assert attended({"row": 1e-6}, batch=5, key_heads=1)["launch"] == pytest.approx(1e-6 + 5 * 128 * 1e-6 / 10)
    decode = attended({"split": 5e-6}, queries=1, keys=4096)  # one tile, ten units, sixteen pairs of blocks
    assert decode["split"] == pytest.approx(5e-6)
    assert decode["compute"] == pytest.approx(3.2 * 4 * 128 * 128 * 64 / 1e12)  # 410 keys each
    few = attended({"split": 1e-9}, queries=1, keys=400)  # no split is shorter than a block
    assert few["compute"] == pytest.approx(4 * 128 * 128 * 64 / 1e12)
    assert attended({"split": 5e-6}, queries=1, keys=128)["split"] == 0
    total = attended({"overlap": 1.0})
    assert total["total"] == pytest.approx(
        sum(total[name] for name in ("launch", "compute", "load", "memory", "split"))
    )


def streamed(op: str, rows: float, width: float, **constants: float) -> dict[str, float]:
    found = vector.vector_terms(DEVICE, op, np.array([rows]), np.array([width]), "fp32", {**VECTOR, **constants})
    return {name: float(value[0]) for name, value in found.items()}


def test_vector_operations_stream_from_memory_or_cache() -> None:
    large = streamed("add", 1000, 1000)
    assert large["memory"] == pytest.approx(3 * 4e6 / (1e11 * 0.5))
    assert large["compute"] == pytest.approx(1e6 / (1e12 * 0.5))
    assert large["rows"] == 0 and large["launch"] == 1e-6
    assert large["total"] == pytest.approx(1e-6 + large["memory"] + large["compute"])
    small = streamed("add", 10, 1000)  # 120 kB: in the cache
    assert small["memory"] == pytest.approx(3 * 4e4 / (1e12 * 0.5))
    assert streamed("relu", 1000, 1000)["memory"] == pytest.approx(2 * 4e6 / (1e11 * 0.5))


def test_rows_of_softmax_and_normalization_cost_their_units() -> None:
    found = streamed("softmax", 1000, 1000)
    assert found["rows"] == pytest.approx(1000 * 1e-7 / 10)
    assert found["compute"] == pytest.approx(12e6 / (1e12 * 0.5))
    padded = streamed("ln", 1000, 1000, narrow=24.0)
    assert padded["memory"] == pytest.approx(2 * 4 * 1000 * 1024 / (1e11 * 0.5))


def test_ways_to_convolve() -> None:
    found = conv.estimator_of(DEVICE, "fp32")
    plain = {
        "launch": 0.0, "efficiency": 1.0, "epilogue": 0.0, "half_tile": 0.0, "step": 0.1, "tile": 1.0,
        "memory_share": 0.5, "taps_share": 0.5, "winograd": 2.0, "transforms": 1e-3, "transform": 3.0, "layout": 0.25,
    }  # fmt: skip
    values = {**found.entry.constants, **plain}
    images, channels, filters, size = 10.0, 512.0, 512.0, 16.0
    shape = [np.array([x]) for x in (images, channels, filters, size, 3.0, 1.0, 1.0)]
    ways = {name: float(value[0]) for name, value in conv.conv_terms(found, conv.ConvCases(*shape), plain).items()}
    inputs = outputs = images * 512 * 256 * 4
    assert ways["layout"] == pytest.approx(0.25 * (inputs + outputs) / 0.5e11)

    def product(batch: float, m: float, n: float, k: float, efficiency: float) -> float:
        constants = {name: values[name] for name in gemm.CONSTANTS} | {"efficiency": efficiency}
        columns = (np.array([x]) for x in (batch, m, n, k))
        return float(found.core(constants).seconds(*columns)[0])

    assert ways["direct"] == pytest.approx(product(1, images * 256, 512, 512 * 9, 0.5))
    blocks = images * 16  # 16 x 16 outputs in blocks of four by four, each of 36 points
    moved = blocks * 36 * (512 + 512) * 4 + 512 * 512 * (9 + 36) * 4
    expected = 2.0 * product(36, blocks, 512, 512, 1.0) + 3.0 * moved / 0.5e11 + 1e-3
    assert ways["winograd4"] == pytest.approx(expected)
    best = min(ways[name] for name in ("direct", "winograd2", "winograd4"))
    assert ways["total"] == pytest.approx(best + ways["layout"])
