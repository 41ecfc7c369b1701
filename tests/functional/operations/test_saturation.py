"""Conversions that saturate, of every element type to every other: exact arithmetic says what they give."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts

FLOATS: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2, "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
INTEGERS: dict[str, Any] = {
    **{
        f"{sign}{bits}": getattr(np, f"{name}{bits}")
        for sign, name in (("i", "int"), ("u", "uint"))
        for bits in (64, 32, 16, 8)
    },
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
}
TYPES = {**FLOATS, **INTEGERS, "bool": np.bool_}
POWERS = "f8e8m0fnu"  # no sign, no zero


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """numpy warns of numbers beyond a type, which are meant here."""
    with np.errstate(all="ignore"):
        yield


def limits(dtype: str) -> tuple[int, int]:
    bits = int(dtype[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "i" else (0, (1 << bits) - 1)


def samples(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.array([False, True] * 8)
    if dtype in INTEGERS:
        low, high = limits(dtype)
        numbers = [0, 1, 2, 5, -1, low, high, high - 1, (1 << 62) + (1 << 54) + 1, 65519, 65520, -65520, 465, 464]
        for bits in (3, 4, 7, 8, 15, 16, 31, 32, 63):
            numbers += [sign * (1 << bits) + more for sign in (1, -1) for more in (-1, 0, 1)]
        return np.array([one for one in numbers if low <= one <= high], TYPES[dtype])
    numbers = [0, -0.0, 0.4, 1, 1.5, 2.5, 5, 5.5, 6, 7.5, 1e-3, 1e-30, 465, 464, 65519, 65520, 3e5, np.inf]
    numbers += [(1 << bits) + more for bits in (7, 8, 15, 16, 31, 32, 63, 64) for more in (-1, -0.5, 0, 0.5, 1)]
    most = np.float64(ml_dtypes.finfo(FLOATS[dtype]).max)
    both = np.array([*(sign * one for one in [*numbers, most, most / 2] for sign in (1, -1)), np.nan], np.float64)
    return both.astype(FLOATS[dtype])


@cache
def numbers_of(dtype: str) -> np.ndarray:
    """All numbers of a narrow type, ascending."""
    bits = 4 if dtype == "f4e2m1fn" else 8 * np.dtype(FLOATS[dtype]).itemsize
    every = np.arange(1 << bits, dtype=f"u{max(8, bits) // 8}").view(FLOATS[dtype]).astype(np.float64)
    return np.unique(every[np.isfinite(every)])


def nearest(value: Fraction, dtype: str) -> float:
    """Among all numbers of a narrow type, the even one of two that are as near; the upper power of two."""
    table = numbers_of(dtype)
    at = int(np.searchsorted(table, float(value)))
    near = [float(one) for one in table[max(0, at - 2) : at + 3]]
    least = min(abs(Fraction(one) - value) for one in near)
    found = [one for one in near if abs(Fraction(one) - value) == least]
    if len(found) == 1 or dtype == POWERS:
        return found[-1]
    step = Fraction(found[1]) - Fraction(found[0])
    return next(one for one in found if (Fraction(one) / step) % 2 == 0)


def expected(value: Any, source: str, target: str) -> Any:
    """As Python numbers."""
    of_float = source in FLOATS
    value = float(value) if of_float else int(value)
    nan, infinite = of_float and value != value, of_float and abs(value) == np.inf
    if target == "bool":
        return value != 0
    if source == target:
        return value
    if target in INTEGERS:
        low, high = limits(target)
        return 0 if nan else (high if value > 0 else low) if infinite else min(max(int(value), low), high)
    if nan:
        return 0.0 if target == "f4e2m1fn" else value
    if target == "f64" or (target == "f32" and source != "f64"):
        return float(TYPES[target](value))
    most = float(ml_dtypes.finfo(FLOATS[target]).max)
    if target == POWERS and value <= 0:
        return np.nan
    if abs(value) > most:
        return most if value > 0 else -most
    return float(np.float32(value)) if target == "f32" else nearest(Fraction(value), target)


def refused(source: str, target: str) -> bool:
    """What no vector unit does: 64-bit integers without a sign become no floats; 2^63 - 1 is no double."""
    if source == target or "bool" in (source, target):
        return False
    if source == "u64":
        return target in FLOATS or target == "i64"
    return source in FLOATS and target in ("i64", "u64")


def graph(source: str, targets: list[str], count: int) -> ts.Graph:
    b = ts.GraphBuilder("g")
    x = b.input("x", (count,), dtype=source)
    for target in targets:
        b.output(b.op("convert", x, dtype=target, overflow="saturate"), target)
    return b.build()


def wide(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float64) if values.dtype.kind not in "iub" else values


@pytest.mark.parametrize("source", TYPES)
def test_every_pair(source: str) -> None:
    x = samples(source)
    targets = [target for target in TYPES if not refused(source, target)]
    program = ts.compile(graph(source, targets, len(x)), "edge-8")
    found = {"tile": ts.execute(program, [x])}
    found["reference"] = ts.reference(graph(source, list(TYPES), len(x)), [x])
    for level, results in found.items():
        for target, result in results.items():
            want = [expected(one, source, target) for one in x]
            np.testing.assert_array_equal(wide(result), np.array(want, wide(result).dtype), f"{level}: {target}")


@pytest.mark.parametrize("source", TYPES)
def test_others_are_refused(source: str) -> None:
    for target in TYPES:
        if refused(source, target):
            with pytest.raises(ts.Unsupported, match=r"saturating conversion|orders 64-bit integers"):
                ts.compile(graph(source, [target], 4), "edge-8")


@pytest.mark.parametrize("source", ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"])
def test_kernels(source: str) -> None:
    x = samples(source)
    targets = [t for t in ("f32", "f16", "bf16", "i32", "i16", "i8", "u16", "u8", "bool") if t != source]
    program = ts.compile(graph(source, targets, len(x)), "edge-8")
    for target, result in ts.execute(program, [x], level="instruction").items():
        want = [expected(one, source, target) for one in x]
        np.testing.assert_array_equal(wide(result), np.array(want, wide(result).dtype), target)
