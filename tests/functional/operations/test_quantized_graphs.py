"""Graphs with narrow weights and activations: numbers as numpy has them, bytes as by hand, on every machine."""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from support.program_checks import few_cores

MACHINES = ["edge-8", "mesh-16", "tpu-v3"]
BF16 = ml_dtypes.bfloat16
FLOATS = {
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
}


class Case(NamedTuple):
    """A graph, its inputs, its result in f64, and the bytes of its tensors, each moved once."""

    graph: ts.Graph
    inputs: dict[str, Any]
    wanted: Any
    bytes: float
    tolerance: float = 0.01


def rng(*seed: int) -> np.random.Generator:
    return np.random.default_rng([17, *seed])


def spread(b: Any, part: Any, group: int, depth: int) -> Any:
    """Rows of [groups, n], each repeated; the last group may be short."""
    groups, n = part.shape
    wide = b.op("broadcast", part, shape=[groups, group, n], dims=[0, 2]).reshape(groups * group, n)
    return wide if groups * group == depth else wide[:depth]


def grouped(m: int, k: int, n: int, group: int, zero: bool = False) -> Case:
    """Weights of 4 bits with a scale, and perhaps a zero point, for each `group` of the contraction."""
    random, groups = rng(m, k, n, group, zero), -(-k // group)
    low, high, dtype = (0, 16, ml_dtypes.uint4) if zero else (-8, 8, ml_dtypes.int4)
    q, z = random.integers(low, high, (k, n)), random.integers(0, 16, (groups, n))
    s = random.uniform(0.01, 0.05, (groups, n)).astype(BF16)
    x = random.standard_normal((m, k)).astype(BF16)
    b = ts.GraphBuilder("grouped", dtype="bf16")
    real = b.weight("q", data=q.astype(dtype)).convert("bf16")
    if zero:
        real = real - spread(b, b.weight("z", data=z.astype(ml_dtypes.uint4)).convert("bf16"), group, k)
    b.output(b.input("x", x.shape) @ (real * spread(b, b.weight("s", data=s), group, k)), "y")
    codes = q - (np.repeat(z, group, 0)[:k] if zero else 0)
    w = (codes * np.repeat(s.astype(np.float32), group, 0)[:k]).astype(BF16).astype(np.float64)
    own = k * n / 2 + groups * n * (2.5 if zero else 2) + 2 * (m * k + m * n)
    return Case(b.build(), {"x": x}, x.astype(np.float64) @ w, own)


def tiled_scales(m: int, k: int, n: int, block: int) -> Case:
    """fp8 weights with a scale per square of the weight: both of its axes are cut."""
    random = rng(m, k, n, block)
    q = (random.standard_normal((k, n)) * 30).astype(FLOATS["f8e4m3fn"])
    s = random.uniform(0.01, 0.05, (k // block, n // block)).astype(np.float32)
    x = random.standard_normal((m, k)).astype(np.float32)
    b = ts.GraphBuilder("squares")
    parts = b.weight("q", data=q).reshape(k // block, block, n // block, block).convert("f32")
    w = parts * b.weight("s", data=s).reshape(k // block, 1, n // block, 1)
    y = b.input("x", x.shape) @ w.reshape(k, n)
    b.output(b.apply("relu", y + b.weight("bias", data=np.ones(n, np.float32))), "y")
    whole = q.astype(np.float64) * np.kron(s, np.ones((block, block)))
    own = k * n + 4 * (s.size + n + m * k + m * n)
    return Case(b.build(), {"x": x}, np.maximum(x.astype(np.float64) @ whole + 1, 0), own)


def microscaled(m: int, k: int, n: int, dtype: str) -> Case:
    """Elements of 4 or 8 bits, a power of two for each 32."""
    random = rng(m, k, n)
    q = (random.standard_normal((n, k // 32, 32)) * 2).astype(FLOATS[dtype])
    s = np.exp2(random.integers(-6, -2, (n, k // 32, 1))).astype(ml_dtypes.float8_e8m0fnu)
    x = random.standard_normal((m, k)).astype(BF16)
    b = ts.GraphBuilder("mx", dtype="bf16")
    w = (b.weight("q", data=q).convert("bf16") * b.weight("s", data=s).convert("bf16")).reshape(n, k)
    b.output(b.op("contract", b.input("x", x.shape), w, a_contract=[1], b_contract=[1]), "y")
    whole = (q.astype(np.float64) * s.astype(np.float64)).reshape(n, k)
    own = k * n * (0.5 if dtype[1] == "4" else 1) + s.size + 2 * (m * k + m * n)
    return Case(b.build(), {"x": x}, x.astype(np.float64) @ whole.T, own)


def narrow_floats(m: int, k: int, n: int, a: str, w: str) -> Case:
    """Products of narrow floats themselves; activations are quantized with a scale per tensor."""
    random = rng(m, k, n)
    q = (random.standard_normal((k, n)) * 30).astype(FLOATS[w])
    x = random.standard_normal((m, k)).astype(np.float32)
    b = ts.GraphBuilder("narrow")
    coded = b.op("convert", b.input("x", x.shape) * 64.0, dtype=a, overflow="saturate")
    axes = {"a_batch": [], "b_batch": [], "a_contract": [1], "b_contract": [0]}
    b.output(b.op("contract", coded, b.weight("q", data=q), dtype="f32", **axes) * 0.125, "y")
    top = float(ml_dtypes.finfo(FLOATS[a]).max)
    wanted = np.clip(x * 64, -top, top).astype(FLOATS[a]).astype(np.float64) @ q.astype(np.float64) / 8
    return Case(b.build(), {"x": x}, wanted, k * n + 4 * (m * k + m * n), 1e-5)


def quantized_output(m: int, k: int, n: int) -> Case:
    """i8 in, two layers, i8 between and out (round half to even, saturated): rows of the second by numpy in f64."""
    random = rng(m, k, n)
    q = [random.integers(-127, 128, shape).astype(np.int8) for shape in ((k, n), (n, k))]
    s = [random.uniform(0.001, 0.002, width).astype(np.float32) for width in (n, k)]
    x = random.integers(-127, 128, (m, k)).astype(np.int8)
    b = ts.GraphBuilder("chain")

    def layer(a: Any, i: int, scale: float, after: float) -> Any:
        y = (a.convert("f32") * scale) @ (b.weight(f"q{i}", data=q[i]).convert("f32") * b.weight(f"s{i}", data=s[i]))
        return b.op("convert", b.apply("round_even", y / after), dtype="i8", overflow="saturate")

    b.output(layer(layer(b.input("x", x.shape, "i8"), 0, 0.03, 0.05), 1, 0.05, 0.1), "y")

    def by_hand(a: Any, i: int, scale: float, after: float) -> Any:
        return np.clip(np.rint((a * scale) @ (q[i] * s[i].astype(np.float64)) / after), -128, 127)

    wanted = by_hand(by_hand(x, 0, 0.03, 0.05), 1, 0.05, 0.1)
    return Case(b.build(), {"x": x}, wanted, 2 * k * n + 4 * (k + n) + 2 * m * k, 0.03)


CASES: dict[str, Any] = {
    "one row": lambda: grouped(1, 512, 512, 128),
    "rows, zero points": lambda: grouped(16, 512, 512, 128, True),
    "last group short": lambda: grouped(8, 500, 384, 128),
    "last group short, zero points": lambda: grouped(1, 300, 200, 64, True),
    "one group, short": lambda: grouped(4, 40, 64, 64),
    "squares": lambda: tiled_scales(4, 512, 256, 64),
    "mxfp4": lambda: microscaled(16, 512, 384, "f4e2m1fn"),
    "mxfp4, one row": lambda: microscaled(1, 512, 384, "f4e2m1fn"),
    "mxfp8": lambda: microscaled(64, 512, 384, "f8e4m3fn"),
    "fp8": lambda: narrow_floats(64, 512, 384, "f8e4m3fn", "f8e4m3fn"),
    "fp8 by another": lambda: narrow_floats(1, 512, 384, "f8e4m3fn", "f8e5m2"),
    "i8 between": lambda: quantized_output(24, 256, 512),
}


@pytest.mark.singly
@pytest.mark.parametrize(("machine", "lowering"), [*((machine, "best") for machine in MACHINES), ("tpu-v3", None)])
@pytest.mark.parametrize("name", CASES)
def test_numbers(name: str, machine: str, lowering: str | None) -> None:
    """The tiled program and the reference give what numpy does, within the roundings of the result and the array."""
    case = CASES[name]()
    program = ts.compile(case.graph, few_cores(machine), lowering=lowering)
    for found in (ts.reference(case.graph, case.inputs), ts.execute(program, case.inputs)):
        off = np.abs(np.asarray(found["y"]).astype(np.float64) - case.wanted).max()
        assert off <= case.tolerance * np.abs(case.wanted).max()
    assert ts.verify(program, case.inputs).ok
    assert ts.simulate(program).cycles > 0


LARGE: dict[str, Any] = {
    "w4a16": lambda: grouped(1, 1024, 1024, 128),
    "w4a16, groups of 32": lambda: grouped(1, 1024, 1024, 32),
    "w4a16, zero points": lambda: grouped(1, 1024, 1024, 128, True),
    "w4a16, last group short": lambda: grouped(1, 1000, 1024, 128),
    "squares": lambda: tiled_scales(1, 1024, 1024, 128),
    "mxfp4": lambda: microscaled(1, 2048, 2048, "f4e2m1fn"),
    "fp8": lambda: narrow_floats(1, 1024, 1024, "f8e4m3fn", "f8e4m3fn"),
}


@pytest.mark.singly
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", LARGE)
def test_weights_are_loaded_in_their_narrow_form(name: str, machine: str) -> None:
    """Of one row, weights are nearly all that moves: once, as they are stored, with their scales. A product that wrote
    scales out, or the weights as floats, would move four times as much at least. Four scales of a row may fill a burst
    of 32 bytes: as much again as the weights.
    """
    case = LARGE[name]()
    result = ts.simulate(ts.compile(case.graph, machine, lowering="best"))
    assert case.bytes <= result.memory_bytes <= 2 * case.bytes
    assert result.bounds is not None
    assert result.seconds >= result.bounds.seconds
    assert result.memory_bytes >= result.bounds.bytes >= 0.999 * case.bytes


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
def test_small_weights_are_not_widened_beforehand(machine: str) -> None:
    """50,000 elements of 4 bits: as floats they would be four times as many bytes."""
    case = grouped(1, 256, 196, 128)
    result = ts.simulate(ts.compile(case.graph, machine, lowering="best"))
    assert case.bytes <= result.memory_bytes <= 1.45 * case.bytes


def test_groups_one_by_one_give_the_same_bits() -> None:
    """Sums of whole numbers are exact: a product cut into blocks equals numpy's, whatever the order."""
    random = rng(1)
    q, s = random.integers(-8, 8, (256, 96)), 2.0 ** random.integers(-2, 3, (8, 96))
    x = random.integers(-4, 5, (20, 256)).astype(np.float32)
    for m, depth in ((20, 256), (1, 250), (3, 31)):
        groups = -(-depth // 32)
        b = ts.GraphBuilder("whole")
        w = b.weight("q", data=q[:depth].astype(ml_dtypes.int4)).convert("f32")
        w = w * spread(b, b.weight("s", data=s[:groups].astype(np.float32)), 32, depth)
        b.output(b.input("x", (m, depth)) @ w, "y")
        wanted = x[:m, :depth] @ (q[:depth] * np.repeat(s[:groups], 32, 0)[:depth])
        graph = b.build()
        for machine in MACHINES:
            for fuse in ("all", "none"):
                program = ts.compile(graph, machine, lowering="best", fuse=fuse)
                assert np.array_equal(np.asarray(ts.execute(program, {"x": x[:m, :depth]})["y"]), wanted)


def test_three_products_of_one_quantized_weight() -> None:
    """Each is cut; a weight that something else reads is stored as well."""
    random = rng(2)
    q, s = random.integers(-8, 8, (128, 64)), random.uniform(0.5, 1, (4, 64)).astype(np.float32)
    x = random.standard_normal((3, 6, 128)).astype(np.float32)
    b = ts.GraphBuilder("shared")
    w = b.weight("q", data=q.astype(ml_dtypes.int4)).convert("f32")
    w = w * spread(b, b.weight("s", data=s), 32, 128)
    for i in range(3):
        b.output(b.input(f"x{i}", (6, 128)) @ w, f"y{i}")
    b.output(w.sum(0), "sum")
    graph = b.build()
    real = q * np.repeat(s, 32, 0)
    for machine in ("edge-8", "mesh-16"):
        program = ts.compile(graph, machine, lowering="best")
        found = ts.execute(program, {f"x{i}": x[i] for i in range(3)})
        for i in range(3):
            assert np.allclose(np.asarray(found[f"y{i}"]), x[i] @ real, rtol=1e-3, atol=1e-3)
        assert np.allclose(np.asarray(found["sum"]), real.sum(0), rtol=1e-3, atol=1e-3)
        assert ts.verify(program).ok


def test_mappings_of_the_kernel_that_was_cut() -> None:
    """Names of its dims are those of the blocks; a nest of the whole product is taken as it is given."""
    graph = grouped(16, 256, 256, 64).graph
    tuned = ts.compile(graph, "edge-8", mapping="tuned")
    assert ts.verify(tuned).ok
    kernels = ts.mapping.kernels(graph, "edge-8")
    assert any(kernel.operation == "matmul" for kernel in kernels)


def test_nan_is_zero_in_i8_and_refused_where_scales_come_from_it() -> None:
    def graph(weight: Any) -> ts.Graph:
        b = ts.GraphBuilder("nan")
        b.output(b.matmul(b.input("x", [4, 16]), b.weight("w", data=weight), name="product"), "y")
        return b.build()

    random = np.random.default_rng(0)
    weight, x = random.standard_normal((16, 8)).astype(np.float32), random.standard_normal((4, 16)).astype(np.float32)
    holed, zeroed = x.copy(), x.copy()
    holed[1, 2], zeroed[1, 2] = np.nan, 0
    quantized = ts.quantize(graph(weight), "i8", calibrate=[x])
    program = ts.compile(quantized, "gemmini-16")
    for run in (lambda given: ts.reference(quantized, [given]), lambda given: ts.execute(program, [given])):
        np.testing.assert_array_equal(run(holed)["y"], run(zeroed)["y"])
    with pytest.raises(ts.UserError, match="not finite"):
        ts.quantize(graph(weight), "i8", calibrate=[holed])
    weight[3, 4] = np.nan
    with pytest.raises(ts.UserError, match="narrow dtypes hold neither NaN"):
        ts.quantize(graph(weight), "i8")
