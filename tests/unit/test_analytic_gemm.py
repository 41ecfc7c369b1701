"""The product model: every term by hand, units, monotone, bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.analytic import gemm
from tilesim.analytic.constants import resolve
from tilesim.analytic.schemes import scheme, scheme_names

HARDWARE = {
    "units": 10.0, "clock": 1e9, "flops_per_second": 1e13, "memory_bytes_per_second": 1e11, "cache_bytes": 1e6,
    "cache_bytes_per_clock": 1000.0,
}  # fmt: skip
PLAIN = {
    "launch": 1e-6, "efficiency": 1.0, "epilogue_steps": 0.0, "half_tile": 0.0, "step": 1e-10, "tile": 1e-9,
    "unit_bytes_per_clock": 1000.0, "reload_share": 8.0, "cache_share": 8.0, "memory_share": 0.5, "cache_edge": 0.01,
    "cache_fill": 1.0, "overlap": 12.0, "wave_smoothing": 0.0, "droop": -0.999,
}  # fmt: skip
KERNEL = (128.0, 128.0, 64.0, 1.0, 0.0, 1e18, 0.0, 1e18)


def model(
    constants: dict[str, float] | None = None,
    scheme_: dict[str, float] | None = None,
    kernel: tuple[float, ...] = KERNEL,
) -> _core.GemmModel:
    return _core.GemmModel(
        HARDWARE, {"weight_sets": 1.0, "calls": 1.0, **(scheme_ or {})}, {**PLAIN, **(constants or {})}, [kernel]
    )


def terms(of: _core.GemmModel, m: float, n: float, k: float, batch: float = 1) -> dict[str, float]:
    row = of.terms(np.array([batch]), np.array([m]), np.array([n]), np.array([k]))[0]
    return dict(zip(_core.gemm_term_names(), row.tolist(), strict=True))


def test_compute_is_whole_waves_of_padded_tiles() -> None:
    # 129 x 1281 needs 2 x 11 = 22 tiles: three waves over 10 units; k = 65 is padded to 128
    found = terms(model(), 129, 1281, 65)
    one = 2 * 128 * 128 * 128 / (1e13 / 10)
    assert found["compute"] == pytest.approx(3 * one)
    assert found["launch"] == pytest.approx(1e-6 + 2 * 1e-9)


def test_smoothed_waves_epilogue_half_tile_droop_and_least_step() -> None:
    smoothed = terms(model({"wave_smoothing": 1.0}), 129, 1281, 65)["compute"]
    assert smoothed == pytest.approx(2.2 * 2 * 128 * 128 * 128 / 1e12)
    epilogue = terms(model({"epilogue_steps": 64.0}), 128, 128, 128)["compute"]
    assert epilogue == pytest.approx(2 * 128 * 128 * 192 / 1e12)
    assert terms(model({"half_tile": 64.0}), 128, 128, 128)["compute"] == pytest.approx(2 * 2 * 128**3 / 1e12)
    plain = 2 * 128 * 128 * 64e6 / 1e12
    droop = terms(model({"droop": 0.5}), 128, 1280, 64e6)["compute"]  # all ten units busy
    assert droop == pytest.approx(plain * (1 + 1.5**4) ** 0.25, rel=1e-3)
    assert terms(model({"step": 3e-6}), 128, 128, 640)["compute"] == pytest.approx(30e-6)


def test_latency_and_occupancy() -> None:
    found = terms(model({"step": 3e-6}), 128, 1281, 640)  # eleven tiles on ten units, ten steps each
    assert found["latency"] == pytest.approx(2 * 10 * 3e-6) and found["latency"] == found["compute"]
    assert found["occupancy"] == pytest.approx(11 / 20)
    assert terms(model(), 128, 1280, 640)["occupancy"] == 1
    rows = {
        row["operation"]: row
        for row in ts.estimate(ts.workloads.matmul(1, 4096, 64, dtype="bf16"), "h100").terms().rows
    }
    assert 0 < rows["matmul"]["occupancy"] <= 1


def test_load_is_per_unit_or_shared() -> None:
    tile = 128 * (128 * 2 + 128 * 2)  # bytes of one tile, k = 128
    alone = terms(model({"unit_bytes_per_clock": 10.0}), 128, 128, 128)["load"]
    assert alone == pytest.approx(tile / 10e9)
    shared = terms(model({"reload_share": 0.01}), 1280, 128, 128)["load"]
    assert shared == pytest.approx(10 * tile / (1e12 * 0.01))


def test_memory_is_compulsory_bytes_of_misses_or_hits() -> None:
    bytes_ = 2 * (64 * 64 * 3)
    warm = terms(model(), 64, 64, 64)
    assert warm["hits"] == pytest.approx(1.0)
    assert warm["memory"] == pytest.approx(bytes_ / (1e12 * 8))
    cold = terms(model(scheme_={"warm": 0.0}), 64, 64, 64)
    assert cold["hits"] == 0
    assert cold["memory"] == pytest.approx(bytes_ / (1e11 * 0.5))


def test_weights_walked_over_decide_the_hits() -> None:
    weight = 256 * 256 * 2  # 131 kB: six of them fit into 1 MB, ten do not
    assert terms(model(scheme_={"weight_sets": 6.0}), 1, 256, 256)["hits"] > 0.99
    assert terms(model(scheme_={"weight_sets": 10.0}), 1, 256, 256)["hits"] < 0.01
    # as many as fill the cache: ceil(1e6 / 131072) = 8 sets, a little more than the cache
    assert terms(model(scheme_={"weight_sets": -20.0}), 1, 256, 256)["hits"] < 0.2
    assert math.ceil(1e6 / weight) == 8


def test_operands_that_do_not_fit_are_read_once_per_block_of_tiles() -> None:
    found = terms(model(), 128 * 20, 128 * 20, 4096)
    side = math.sqrt(10 * 128 * 128)
    assert found["memory"] == pytest.approx((128 * 20) ** 2 * 4096 * 4 / side / (1e11 * 0.5), rel=1e-6)


def test_split_of_k_pays_a_reduction_and_is_chosen_when_it_helps() -> None:
    splitting = (128.0, 128.0, 64.0, 16.0, 0.0, 1e18, 0.0, 1e18)
    found = terms(model({"split": 1e-6}, kernel=splitting), 128, 128, 65536)
    assert found["splits"] == 8  # ten units, one tile: eight of them work
    assert found["split"] == pytest.approx(1e-6 + 128 * 128 * 8 * 8 / (1e12 * 8))
    assert terms(model({"split": 1e-3}, kernel=splitting), 128, 128, 64)["splits"] == 1


def test_rules_of_thumb_keep_to_large_tiles_and_split_only_deep_products() -> None:
    small, split = (64.0, 64.0, *KERNEL[2:]), (*KERNEL[:3], 4.0, *KERNEL[4:])
    shape = 128, 128 * 15, 640  # fifteen large tiles on ten units: two rounds; 60 small ones take six quarters

    def of(rules: float, kernels: list[tuple[float, ...]], **constants: float) -> _core.GemmModel:
        scheme_ = {"weight_sets": 1.0, "calls": 1.0, "rules": rules}
        return _core.GemmModel(HARDWARE, scheme_, {**PLAIN, **constants}, kernels)

    assert terms(of(0.0, [KERNEL, small]), *shape)["tile_m"] == 64
    assert terms(of(1.0, [KERNEL, small]), *shape)["tile_m"] == 128
    assert terms(of(1.0, [KERNEL, small]), 128, 128 * 10, 640)["tile_m"] == 128
    # what is passed over is not ignored: at one and a half times its arithmetic, five quarters are less than two rounds
    chosen = terms(of(1.0, [KERNEL, small]), 128, 128 * 11, 640)
    assert chosen["tile_m"] == 64
    assert chosen["compute"] == pytest.approx(1.5 * 5 / 4 * terms(of(1.0, [KERNEL]), 128, 128, 640)["compute"])
    assert terms(of(1.0, [KERNEL, small]), 128, 128 * 3, 640)["tile_m"] == 64  # idle units: smaller tiles fill them
    long = 128, 128 * 11, 64000
    assert terms(of(0.0, [split], split=1e-8), *long)["splits"] == 4
    assert terms(of(1.0, [split], split=1e-8, deep=64000.0), *long)["splits"] == 1
    found = terms(of(1.0, [split], split=1e-8, deep=40000.0), *long)
    assert found["splits"] == 4
    assert found["compute"] == pytest.approx(2 * 40000 * 2 * 128 * 128 / 1e12)  # no sooner than the whole one at deep


def test_seven_splits_and_vector_kernels_of_limited_width() -> None:
    odd = (*KERNEL[:3], 7.0, *KERNEL[4:])
    assert terms(model({"split": 1e-8}, kernel=odd), 128, 128, 64 * 7 * 100)["splits"] == 7
    vector = (0.0, 8.0, 1.0, 1.0, 0.0, 8.0, 0.0, 3072.0)
    assert math.isfinite(terms(model(kernel=vector), 8, 3072, 512)["total"])
    passes = terms(model(kernel=vector), 8, 3073, 512)  # too wide: eight of the columns at a time, 385 times
    assert passes["launch"] == pytest.approx(385 * terms(model(kernel=vector), 8, 3072, 512)["launch"])


def test_the_power_limit_needs_time() -> None:
    def compute(calls: float, m: float) -> float:
        return terms(model({"droop": 1.0}, {"calls": calls}), m, 1280, 64000)["compute"]

    plain = 2 * 128 * 128 * 64000 / 1e12  # 2 ms
    assert compute(0.01, 128) == pytest.approx(plain)
    assert compute(1e4, 128) == pytest.approx(plain * (1 + 2**4) ** 0.25, rel=1e-3)
    assert compute(0.01, 128) < compute(7, 128) < compute(1e4, 128)
    assert compute(1e4, 1) == pytest.approx(plain, rel=0.01)  # of a padded tile, what is useful draws the power


def test_cast_reads_and_writes_and_pays_per_row() -> None:
    cast = {"cast_bytes": 3.0, "activation_bytes": 1.0, "weight_bytes": 1.0}
    found = terms(model({"cast": 2e-6, "cast_row": 1e-6, "cast_share": 0.5}, cast), 100, 64, 64)
    assert found["cast"] == pytest.approx(2e-6 + 100 * 1e-6 / 10 + 100 * 64 * 3 / (1e12 * 8), rel=1e-3)
    assert terms(model(), 100, 64, 64)["cast"] == 0


def test_terms_combine_between_the_longest_and_the_sum() -> None:
    for p in (1.0, 2.0, 5.0, 12.0):
        found = terms(model({"overlap": p}), 512, 512, 512)
        parts = [found["compute"], found["load"], found["memory"]]
        total = found["total"] - found["launch"]
        assert max(parts) <= total * (1 + 1e-9)
        assert total <= sum(parts) * (1 + 1e-9)
        assert total == pytest.approx(sum(x**p for x in parts) ** (1 / p), rel=1e-3)


def test_a_tile_alone_on_a_unit_leaves_gaps() -> None:
    full = terms(model(), 128, 128, 128)["compute"]
    assert terms(model({"alone": 0.5}), 128, 128, 128)["compute"] == pytest.approx(2 * full)
    # three tiles per unit hide each other's gaps
    assert terms(model({"alone": 0.5}), 128, 128 * 30, 128)["compute"] == pytest.approx(3 * full)


def test_narrow_weights_are_widened_at_a_finite_rate() -> None:
    slow = {"convert": 1.0}
    narrow = terms(model(slow, {"weight_bytes": 1.0, "widens": 1.0}), 128, 128, 128)["load"]
    assert narrow == pytest.approx(128 * 128 / 1e9)
    assert terms(model(slow), 128, 128, 128)["load"] < narrow / 10


def test_a_second_cache_and_small_products_that_are_not_packed() -> None:
    near = {**HARDWARE, "near_bytes": 2e5, "near_bytes_per_clock": 4000.0}
    scheme_ = {"weight_sets": 1.0, "calls": 1.0, "widens": 1.0, "packs_beyond": 1e5}
    of = _core.GemmModel(near, scheme_, {**PLAIN, "convert": 1.0}, [KERNEL])
    small, large = terms(of, 64, 64, 24), terms(of, 512, 64, 512)
    assert small["memory"] == pytest.approx(2 * (64 * 24 * 2 + 64 * 64) / (4e12 * 8))  # the nearer level's rate
    assert large["memory"] == pytest.approx(2 * (512 * 64 * 2 + 512 * 512) / (1e12 * 8))  # the shared level's
    assert small["load"] < 24 * 128 / 1e9  # 98,304 multiply-adds: nothing is packed
    assert large["load"] == pytest.approx(512 * 128 / 1e9)
    assert gemm.estimator("desktop-avx512", "fp32", engine="numpy").packs_beyond == 1e6
    # 4 MB of weights come from memory: packing them takes `far` times as long, those of 0.5 MB do not
    far = _core.GemmModel(HARDWARE, scheme_, {**PLAIN, "convert": 1.0, "far": 3.0}, [KERNEL])
    assert terms(far, 64, 1024, 2048)["load"] == pytest.approx(3 * 2048 * 128 / 1e9)  # eight tiles, ten units
    assert terms(far, 64, 256, 1024)["load"] == pytest.approx(1024 * 128 / 1e9)


def test_constants_carry_in_cycles_and_shares() -> None:
    """The same entry on two devices: times in proportion to cycles, loads to rates, droop to rate over power."""
    a100, l40s = ts.Device.load("a100"), ts.Device.load("l40s")
    values = {"launch": 5000.0, "feed": 0.02, "energy": 2.0, "cache_fill": 1.0, "reload_share": 0.8, "epilogue": 2000.0}
    first, second = (resolve(values, device, scheme("bf16")) for device in (a100, l40s))
    assert first["launch"] == pytest.approx(5000 / 1.41e9) and second["launch"] == pytest.approx(5000 / 2.52e9)
    assert first["unit_bytes_per_clock"] / second["unit_bytes_per_clock"] == pytest.approx(2048 / 1012, rel=0.01)
    assert first["droop"] == pytest.approx(2 * 312 / 400 - 1)
    assert first["cache_fill"] == 0.5 and second["cache_fill"] == 1.0
    h100 = resolve(values, ts.Device.load("h100"), scheme("bf16"))
    assert h100["reload_share"] == pytest.approx(1.6)
    assert first["epilogue_steps"] == pytest.approx(2000 / (2 * 128 * 128 / 2048), rel=0.01)


def test_matrix_vector_kernel() -> None:
    kernel = (0.0, 1.0, 1.0, 1.0, 0.0, 4.0, 0.0, 1e18)
    found = terms(model({"vector_launch": 5e-6, "vector_rate": 1e9}, kernel=kernel), 1, 1000, 4096)
    assert found["load"] == pytest.approx(1000 / 160 * 4096 / 1e9)  # blocks follow each other, sixteen on a unit
    assert found["occupancy"] == 1
    few = terms(model({"vector_launch": 5e-6, "vector_rate": 1e9}, kernel=kernel), 1, 100, 4096)
    assert few["load"] == pytest.approx(4096 / 1e9) and few["occupancy"] == pytest.approx(100 / 160)
    assert found["launch"] == pytest.approx(5e-6)
    five = terms(model({"vector_launch": 5e-6, "vector_rate": 1e9}, kernel=kernel), 5, 1000, 4096)  # four and one
    assert five["launch"] == pytest.approx(10e-6) and five["load"] == pytest.approx(2 * found["load"])


@pytest.mark.parametrize("device", ["t4", "a100", "h100", "b200", "l40s", "mi300x", "xeon-8480", "tpu-v5e"])
def test_monotone_in_size_bandwidth_and_rate(device: str) -> None:
    target = ts.Device.load(device)
    found = gemm.estimator(target, "fp16" if device == "t4" else "bf16")
    random = np.random.default_rng(3)
    shapes = (2.0 ** random.uniform(0, 14, (400, 3))).round()
    base = found.seconds(*shapes.T)
    for axis in range(3):
        larger = shapes.copy()
        larger[:, axis] = np.ceil(larger[:, axis] * random.uniform(1, 3, 400)) + 1
        grown = found.seconds(*larger.T)
        thin = shapes.min(axis=1) <= 4  # other kernels serve those
        assert np.all(grown[~thin] >= base[~thin] * (1 - 1e-9)), axis
    levels = [dict(level) for level in target.to_dict()["levels"]]
    levels[-1]["bytes_per_second"] *= 2
    assert np.all(gemm.estimator(target.replace(levels=levels), found.scheme).seconds(*shapes.T) <= base * (1 + 1e-9))
    faster = {
        key: {**rate, "flops_per_second": 2 * rate["flops_per_second"]}
        for key, rate in target.to_dict()["matrix"].items()
    }
    assert np.all(gemm.estimator(target.replace(matrix=faster), found.scheme).seconds(*shapes.T) <= base * (1 + 1e-9))


@pytest.mark.parametrize("device", ts.Device.names())
def test_never_faster_than_the_arithmetic_and_the_bytes_of_a_cold_cache(device: str) -> None:
    target = ts.Device.load(device)
    for name in scheme_names():
        how = scheme(name, target)
        rate = target.rate(how.arithmetic)
        if rate.how == "absent":
            with pytest.raises(ts.Unsupported, match=target.name):
                gemm.estimator(target, name)
            continue
        m, n, k = (
            np.array([1.0, 64, 1000, 4096]),
            np.array([4096.0, 4096, 1000, 8192]),
            np.array([4096.0, 4096, 3000, 16384]),
        )
        seconds = gemm.estimator(target, name).seconds(m, n, k)
        assert np.all(seconds >= 2 * m * n * k / rate.flops_per_second)
        assert np.all(np.isfinite(seconds))


def test_batches_and_broadcasting() -> None:
    found = gemm.estimator("h100", "bf16")
    assert found.seconds([[1], [2]], 512, [256, 512]).shape == (2, 2)
    many, one = found.seconds(512, 512, 512, batch=64), found.seconds(512, 512, 512)
    assert one < many < 64 * one


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: gemm.estimator("h100", "fp9"), "fp8"),
        (lambda: gemm.estimator("h10", "fp8"), "h100"),
        (lambda: gemm.estimator("h100").seconds(0, 1, 1), "positive"),
        (lambda: gemm.estimator("h100").seconds(float("nan"), 1, 1), "positive"),
        (lambda: gemm.estimator("h100").core({"eficiency": 1.0}), "efficiency"),
        (lambda: gemm.estimator("h100").core({"efficiency": 2.0}), "range"),
        (lambda: gemm.kernels("cublas"), "library"),
    ],
)
def test_mistakes(call: object, word: str) -> None:
    with pytest.raises(ts.UserError, match=word):
        call()  # type: ignore[operator]
