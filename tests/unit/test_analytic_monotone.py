"""The closed form grows with every extent, and by no more than one more kernel or round of tiles explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import tilesim as ts
from tilesim.analytic import attention, conv, gemm, vector
from tilesim.analytic.schemes import scheme_names
from tilesim.machine.device import Device

Array = NDArray[np.float64]
# what powers and logarithms of the model are exact to; a term below a thousandth of the largest is left out
EXACT = 1 - 1e-6
# Engines whose kernels or protocols are their own; their walk over weights is held fixed here: TensorRT-LLM's takes as
# many sets as fill the cache, a whole number, so that what is found there falls and rises with the size.
ENGINES = {
    "a100": ["TensorRT-LLM"],
    "l40s": ["TensorRT-LLM"],
    "h100": ["vLLM", "TensorRT-LLM"],
    "t4": ["DeepBench", "NeuSight-linear", "NeuSight-bmm", "mlsim"],
    "b200": ["TensorRT-LLM"],
    "b60": ["vLLM"],
    "rtx-pro-6000": ["vLLM"],
}


def estimators(device: str) -> Iterator[gemm.GemmEstimator]:
    for engine in ["", *ENGINES.get(device, [])]:
        for name in scheme_names():
            try:
                found = gemm.estimator(device, name, engine=engine)
            except ts.Unsupported:
                continue
            yield replace(found, weight_sets=3.0) if found.weight_sets < 0 else found


def shapes(random: np.random.Generator, count: int) -> Array:
    """Products: batch, m, n, k; half of them single, many with an extent of 1 to 20."""
    found = np.round(2 ** random.uniform(0, [1, 14, 14, 16], (count, 4)))
    found[::2, 0] = 1
    found[1::4, 0] = np.round(2 ** random.uniform(0, 9, len(found[1::4])))
    found[::5, 1 + random.integers(0, 2)] = random.integers(1, 21, len(found[::5]))
    return found


def seconds(of: gemm.GemmEstimator, at: Array) -> Array:
    return of.seconds(at[:, 1], at[:, 2], at[:, 3], at[:, 0])


def larger(at: Array, axis: int, random: np.random.Generator) -> Iterator[Array]:
    """One more, and up to two and a half times as many."""
    for factor in (1.0, random.uniform(1, 2.5, len(at))):
        grown = at.copy()
        grown[:, axis] = np.ceil(grown[:, axis] * factor) + 1
        yield grown


def check_products(device: str, seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    for found in estimators(device):
        at = shapes(random, count)
        base = seconds(found, at)
        for axis in range(4):
            for grown in larger(at, axis, random):
                less = np.flatnonzero(seconds(found, grown) < base * EXACT)
                assert not len(less), (found.scheme.name, found.entry.engine, at[less[0]], grown[less[0]])


@pytest.mark.parametrize("device", ts.Device.names())
def test_products_grow_with_every_extent(device: str) -> None:
    check_products(device, 1, 40)


@pytest.mark.slow
@pytest.mark.parametrize("device", ts.Device.names())
def test_many_products_grow_with_every_extent(device: str) -> None:
    check_products(device, 2, 3000)


def boundaries(found: gemm.GemmEstimator) -> set[float]:
    """Rows at which a fixed menu goes over to another kernel."""
    return {row[5] for row in gemm.kernels(found.entry.kernels) if row[0] > 0}


@pytest.mark.parametrize("device", ts.Device.names())
def test_one_more_row_column_or_step_at_most_doubles(device: str) -> None:
    """The most that one more can cost: a second round of tiles, another pass of a matrix-vector kernel.

    With cold weights (what is found in the cache falls where a walk passes over it) and without the power limit.
    """
    random = np.random.default_rng(5)
    for found in estimators(device):
        if found.entry.engine in ("NeuSight-bmm", "NeuSight-linear"):
            continue
        cold = replace(found, weight_sets=1e9, calls=1e-3)
        at = shapes(random, 40)
        at[:10, 1] = random.integers(1, 33, 10)
        base = seconds(cold, at)
        for axis in range(4):
            grown = next(larger(at, axis, random))
            ratio = seconds(cold, grown) / base
            if axis == 1:
                ratio[[rows in boundaries(found) for rows in at[:, 1]]] = 1
            worst = int(ratio.argmax())
            assert ratio[worst] <= 2.05, (found.scheme.name, found.entry.engine, at[worst], axis, ratio[worst])


@pytest.mark.parametrize(
    ("device", "dtype", "n", "k"),
    [
        ("xeon-8480", "int4_wo", 4096, 4096),
        ("xeon-8480", "fp32", 1024, 1024),
        ("v100", "bf16", 4096, 4096),
        ("a100", "fp32", 4096, 4096),
        ("phone-neon", "int8", 4096, 4096),
        ("desktop-avx512", "fp16", 10000, 100),
        ("t4", "int8", 1024, 500000),
    ],
)
def test_few_rows_meet_the_kernels_of_many(device: str, dtype: str, n: int, k: int) -> None:
    times = gemm.gemm_seconds(device, np.arange(1, 65), n, k, dtype)
    assert np.all(np.diff(times) >= -1e-6 * times[:-1])
    if dtype != "int8" or device != "t4":  # there, one kernel for up to four columns and one of 128 by 128
        assert np.all(times[1:] <= 2.05 * times[:-1])


def test_a_cache_is_never_slower_than_the_memory_behind_it() -> None:
    """H200: 4.8 TB/s; where less is found in the cache, it takes no less time."""
    k = np.arange(200, 400)
    assert np.all(np.diff(gemm.gemm_seconds("h200", 512, 10000, k, "int8")) >= 0)


def check_calls(call: Callable[[Array], Array], at: Array, axes: dict[int, float], seed: int = 0) -> None:
    random = np.random.default_rng(seed)
    base = call(at)
    for axis, least in axes.items():
        for grown in larger(at, axis, random):
            ratio = call(grown) / base
            assert ratio.min() >= least, (axis, at[ratio.argmin()], grown[ratio.argmin()], ratio.min())


@pytest.mark.parametrize("device", ts.Device.names())
@pytest.mark.parametrize(("dtype", "cache"), [("bf16", "bf16"), ("bf16", "fp8"), ("fp32", "fp32")])
def test_attention_grows(device: str, dtype: str, cache: str) -> None:
    """With sequences, keys, heads and their size exactly; with queries but for a tenth: they move the rounds' tiles."""
    target = Device.load(device)
    random = np.random.default_rng(11)
    count = 150
    queries = np.where(random.random(count) < 0.4, 1, np.round(2 ** random.uniform(0, 12, count)))
    keys = queries + np.round(2 ** random.uniform(0, 13, count))
    group, depth = 2.0 ** random.integers(0, 4, count), 2.0 ** random.integers(4, 9, count)
    window = np.where(random.random(count) < 0.7, 0, np.round(2 ** random.uniform(5, 12, count)))
    at = np.stack([np.round(2 ** random.uniform(0, 8, count)), queries, keys, random.integers(1, 17, count), depth], 1)

    def call(x: Array) -> Array:
        return attention.attention_seconds(
            target, batch=x[:, 0], queries=x[:, 1], keys=np.maximum(x[:, 1], x[:, 2]), heads=x[:, 3] * group,
            key_heads=x[:, 3], depth=x[:, 4], window=window, dtype=dtype, cache=cache,
        )  # fmt: skip

    try:
        call(at)
    except ts.Unsupported:
        pytest.skip(f"{device} lacks {dtype} or {cache}")
    check_calls(call, at, {0: EXACT, 1: 0.9, 2: EXACT, 3: EXACT, 4: EXACT})


@pytest.mark.parametrize("device", ts.Device.names())
@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
def test_convolutions_and_vector_operations_grow(device: str, dtype: str) -> None:
    random = np.random.default_rng(12)
    count = 100
    kernel, stride = 2 * random.integers(0, 4, count) + 1.0, random.integers(1, 3, count) + 0.0
    at = np.round(2 ** random.uniform(0, [6, 10, 8, 10], (count, 4)))
    at[:, 2] = np.maximum(at[:, 2], kernel)
    try:
        gemm.estimator(device, dtype)
    except ts.Unsupported:
        pytest.skip(f"{device} lacks {dtype}")

    def convolved(x: Array) -> Array:
        return conv.conv_seconds(device, x[:, 0], x[:, 1], x[:, 2], x[:, 3], kernel, stride, (kernel - 1) // 2, dtype)

    check_calls(convolved, at, dict.fromkeys(range(4), EXACT))
    flat = np.round(2 ** random.uniform(0, 14, (count, 2)))
    for op in ("add", "gelu", "softmax", "ln"):
        check_calls(
            lambda x, op=op: vector.vector_seconds(device, op, x[:, 0], x[:, 1], dtype), flat, {0: EXACT, 1: EXACT}
        )
