"""The cache model against a cache that follows every address."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.analytic.cache import Cache, TiledProduct, hit_share, traffic


@pytest.mark.parametrize("order", ["mnk", "mkn", "nkm", "kmn"])
@pytest.mark.parametrize("capacity", [3 << 12, 1 << 15, 1 << 17, 1 << 20])
def test_traffic_of_loop_nests_against_the_trace(order: str, capacity: int) -> None:
    nest = TiledProduct(128, 96, 160, 32, 32, 32, order)
    cache = Cache(capacity, 64, capacity // 64)  # fully associative: no conflicts
    for start, size in nest.rows():
        cache.touch(start, size)
    predicted = sum(traffic(nest, capacity).values())
    compulsory = 4 * (128 * 160 + 160 * 96 + 128 * 96)
    assert cache.missed_bytes >= compulsory
    # at the edge a partly held operand lies between the two values of the closed form
    low, high = (sum(traffic(nest, capacity * factor).values()) for factor in (1.6, 0.6))
    assert low * 0.999 <= cache.missed_bytes <= high * 1.001
    if low == high:
        assert cache.missed_bytes == pytest.approx(predicted)


def test_a_repeated_walk_hits_always_or_never() -> None:
    for total, expected in ((24 << 10, 1.0), (31 << 10, 1.0), (34 << 10, 0.0), (64 << 10, 0.0)):
        share = hit_share([total / 2, total / 2], 4, Cache(32 << 10, 64, 512))
        assert share == pytest.approx(expected, abs=0.01), total


def test_the_product_model_has_the_same_step() -> None:
    """Six weights of a product, walked over in turn: hits of the closed form and of the trace, far from the edge."""
    capacity = 64 << 10
    hardware = {
        "units": 4.0, "clock": 1e9, "flops_per_second": 1e12, "memory_bytes_per_second": 1e11,
        "cache_bytes": float(capacity), "cache_bytes_per_clock": 256.0,
    }  # fmt: skip
    kernel = (16.0, 16.0, 16.0, 1.0, 0.0, 1e18, 0.0, 1e18)
    model = _core.GemmModel(hardware, {"weight_sets": 6.0}, {"cache_fill": 1.0, "cache_edge": 0.02}, [kernel])
    names = list(_core.gemm_term_names())
    for n, k in itertools.product((16, 32, 64, 96), (32, 64, 128)):
        weight, rest = n * k * 2, k * 2 + n * 2
        working_set = 6 * weight + rest
        if abs(working_set / capacity - 1) < 0.15:
            continue
        one = np.ones(1)
        closed = float(model.terms(one, one, one * n, one * k)[0][names.index("hits")])
        traced = hit_share([weight] * 6, 3, Cache(capacity, 64, capacity // 64))
        assert closed == pytest.approx(traced, abs=0.02), (n, k)


def test_the_cache_reaches_the_time() -> None:
    small, large = ts.Device.load("l40s"), ts.Device.load("l40s").to_dict()
    large["levels"][1]["bytes"] *= 100
    from tilesim.analytic import gemm

    shape = (16, 8192, 8192)
    cold = float(gemm.estimator(small, "bf16").seconds(*shape))
    warm = float(gemm.estimator(ts.Device.load(large), "bf16").seconds(*shape))
    assert cold > 2 * warm


def test_a_cache_holds_whole_sets() -> None:
    with pytest.raises(ts.UserError, match="sets"):
        Cache(1000, 64, 8)
    conflicting = Cache(1 << 12, 64, 1)
    for _ in range(3):
        conflicting.touch(0, 4)
        conflicting.touch(1 << 12, 4)
    assert conflicting.hits == 0


@pytest.mark.parametrize("edge", [2, 3, 4])
def test_operands_read_again_against_the_trace_of_a_nest(edge: int) -> None:
    """Tiles of a product in rounds of edge x edge units that walk over k together, every address followed."""
    tile, step, k, across = 32, 16, 256, 12
    extent = tile * across
    capacity = 48 << 10  # the strips of one round fit, an operand (196 kB) does not
    cache = Cache(capacity, 64, capacity // 64)
    for row in range(0, across, edge):
        for column in range(0, across, edge):
            for at in range(0, k, step):
                for line in range(row * tile, (row + edge) * tile):  # a: [extent, k], two bytes
                    cache.touch(2 * (line * k + at), 2 * step)
                for line in range(at, at + step):  # b: [k, extent]
                    cache.touch(2 * extent * k + 2 * (line * extent + column * tile), 2 * edge * tile)
    hardware = {
        "units": float(edge * edge), "clock": 1e9, "flops_per_second": 1e15, "memory_bytes_per_second": 1e9,
        "cache_bytes": float(capacity), "cache_bytes_per_clock": 1e6,
    }  # fmt: skip
    kernel = (float(tile), float(tile), float(step), 1.0, 0.0, 1e18, 0.0, 1e18)
    constants = {"memory_share": 0.5, "cache_edge": 0.005}
    model = _core.GemmModel(hardware, {"weight_sets": 1.0, "warm": 0.0}, constants, [kernel])
    one = np.ones(1)
    terms = dict(zip(_core.gemm_term_names(), model.terms(one, extent * one, extent * one, k * one)[0], strict=True))
    assert terms["memory"] * 1e9 * 0.5 == pytest.approx(cache.missed_bytes, rel=0.01)
    assert terms["total"] >= terms["memory"]  # and the traffic is what the time is made of
    assert terms["memory"] > 0.9 * terms["total"]
