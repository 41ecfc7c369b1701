"""Errors of quantized graphs against f32 are those that numpy finds, and stand beside the time."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim

RNG = np.random.default_rng(11)


def quantized(m: int = 32, k: int = 256, n: int = 48, clamp: bool = False) -> tuple[ts.Graph, ts.Graph, Any, Any, Any]:
    """A product of activations in i8 (scale 1/32) and weights in i8 per channel; in f32; x, weights, scales."""
    x = RNG.standard_normal((m, k)).astype(np.float32)
    w = RNG.standard_normal((k, n)).astype(np.float32)
    s = (np.abs(w).max(0) / 127).astype(np.float32)
    q = np.rint(w / s).astype(np.int8)
    b = ts.GraphBuilder("narrow")
    codes = b.apply("round_even", b.input("x", x.shape) * 32.0)
    if clamp:
        codes = b.apply("clamp", b.scalar(-127.0), codes, b.scalar(127.0))
    codes = b.op("convert", codes, dtype="i8", overflow="saturate")
    b.output((codes.convert("f32") * 0.03125) @ (b.weight("q", data=q).convert("f32") * b.weight("s", data=s)), "y")
    f = ts.GraphBuilder("wide")
    f.output(f.input("x", x.shape) @ f.weight("w", data=w), "y")
    return b.build(), f.build(), x, w, (q, s)


@pytest.mark.parametrize("clamp", [False, True])
def test_errors_as_by_numpy(clamp: bool) -> None:
    """Of roundings on the way alone, and against the weights before they were rounded."""
    graph, wide, x, w, (q, s) = quantized(clamp=clamp)
    real = q.astype(np.float64) * s
    coded = np.clip(np.rint(x * 32), -127 if clamp else -128, 127) / 32
    found = coded.astype(np.float64) @ real
    for against, wanted in ((None, x.astype(np.float64) @ real), (wide, x.astype(np.float64) @ w)):
        for subject in (graph, ts.compile(graph, "edge-8")):
            errors = ts.analytic.accuracy(subject, against, {"x": x})
            (row,) = errors.rows
            noise = np.sqrt(np.mean((found - wanted) ** 2)) / np.sqrt(np.mean(wanted**2))
            assert row["relative_error"] == pytest.approx(noise, rel=1e-3) == errors.relative_error
            assert row["max_error"] == pytest.approx(np.abs(found - wanted).max(), rel=1e-3)
            assert row["mean_error"] == pytest.approx(np.abs(found - wanted).mean(), rel=1e-3)
            assert errors.snr_db == pytest.approx(-20 * np.log10(noise), abs=0.01)
            assert row["different"] == 0 and row["elements"] == found.size
    assert wide.name in ts.analytic.accuracy(graph, wide, {"x": x}).against


def test_a_graph_without_narrow_numbers_has_no_error() -> None:
    _, wide, x, _, _ = quantized()
    errors = ts.analytic.accuracy(wide, inputs={"x": x})
    assert errors.max_error == 0 and errors.relative_error == 0 and np.isinf(errors.snr_db)


def test_roundings_of_the_machine_count() -> None:
    """Arrays of the TPU multiply f32 in bf16: 2^-9 of relative error at most, of each operand."""
    _, wide, x, w, _ = quantized()
    errors = ts.analytic.accuracy(ts.compile(wide, "tpu-v3"), inputs={"x": x})
    rounded = x.astype(ml_dtypes.bfloat16).astype(np.float64) @ w.astype(ml_dtypes.bfloat16).astype(np.float64)
    exact = x.astype(np.float64) @ w
    noise = np.sqrt(np.mean((rounded - exact) ** 2) / np.mean(exact**2))
    assert errors.relative_error == pytest.approx(noise, rel=1e-3)


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2", "bf16", "f4e2m1fn"])
def test_floats_that_are_cast(dtype: str) -> None:
    """A convert there and back leaves its rounding, saturation too."""
    types = {"f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "bf16": ml_dtypes.bfloat16}
    narrow = types.get(dtype, ml_dtypes.float4_e2m1fn)
    x = (RNG.standard_normal(4096) * 3).astype(np.float32)
    b = ts.GraphBuilder("cast")
    b.output(b.op("convert", b.input("x", x.shape), dtype=dtype, overflow="saturate").convert("f32"), "y")
    top = float(ml_dtypes.finfo(narrow).max)
    wanted = np.clip(x, -top, top).astype(narrow).astype(np.float64) - x
    (row,) = ts.analytic.accuracy(b.build(), inputs={"x": x}).rows
    assert row["max_error"] == pytest.approx(np.abs(wanted).max(), rel=1e-6)


def test_a_clamp_of_the_model_stays() -> None:
    """relu6 before a cast is no end of the codes: it belongs to the function in f32 as well."""
    x = np.linspace(-10, 10, 257).astype(np.float32)
    b = ts.GraphBuilder("relu6")
    clamped = b.apply("clamp", b.scalar(0.0), b.input("x", x.shape), b.scalar(6.0))
    codes = b.op("convert", b.apply("round_even", clamped * 16.0), dtype="u8", overflow="saturate")
    b.output(codes.convert("f32") / 16.0, "y")
    assert ts.analytic.accuracy(b.build(), inputs={"x": x}).max_error <= 1 / 32


def test_beside_the_time(tmp_path: Any) -> None:
    graph, wide, x, _, _ = quantized()
    result = ts.run(graph, {"x": x}, "edge-8", accuracy=wide)
    assert (
        result.accuracy is not None
        and result.accuracy.rows == ts.analytic.accuracy(ts.compile(graph, "edge-8"), wide, {"x": x}).rows
    )
    assert f"{result.accuracy.snr_db:.1f} dB" in result.summary() and f"{result.cycles:,} cycles" in result.summary()
    assert ts.run(graph, {"x": x}, "edge-8").accuracy is None
    result.save(tmp_path / "r.json")
    again = ts.Result.load(tmp_path / "r.json").accuracy
    assert again is not None and again.data == result.accuracy.data
    graph.save(tmp_path / "narrow.tsim"), wide.save(tmp_path / "wide.tsim")
    for other in ("f32", str(tmp_path / "wide.tsim")):
        said = tilesim("run", str(tmp_path / "narrow.tsim"), "--machine", "edge-8", "--accuracy", other, "--quiet")
        assert said.returncode == 0 and " dB" in said.stdout


def test_what_cannot_be_compared() -> None:
    graph, wide, _, _, _ = quantized()
    other = ts.workloads.matmul(32, 48, 256)
    with pytest.raises(ts.UserError, match=r"different inputs .*got 2; allowed: 1"):
        ts.analytic.accuracy(graph, other)
    with pytest.raises(ts.UserError, match=r"shape of inputs.*\[16, 256\]; allowed: \[32, 256\]"):
        ts.analytic.accuracy(graph, quantized(16)[1])
    b = ts.GraphBuilder("bits")
    codes = b.op("convert", b.input("x", (4,)), dtype="i8", overflow="saturate")
    b.output(b.apply("bitwise_and", codes, b.scalar(15, "i8")), "y")
    with pytest.raises(ts.Unsupported, match="bits of a quantized number"):
        ts.analytic.accuracy(b.build())
    assert ts.analytic.accuracy(wide, wide).max_error == 0
