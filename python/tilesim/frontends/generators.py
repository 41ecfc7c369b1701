"""Counter-based random numbers: Threefry-2x32 and Philox-4x32.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..base.dtypes import FLOATS
from ..graph.building import Building
from ..graph.tensor import Tensor

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
THREEFRY_PARITY = 0x1BD11BDA
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)
PHILOX_ROUNDS = 10

Halves = tuple[Tensor, Tensor]  # two u32 tensors: low and high


def halves(scope: Building, x: Tensor) -> Halves:
    """Splits 64-bit integers into low and high halves."""
    signed = scope.bitcast(x, "i64")  # vector units order and shift signed integers
    high = scope.apply("shift_right", signed, scope.scalar(32, "i64"))
    return scope.convert(signed, "u32"), scope.convert(high, "u32")


def joined(scope: Building, low: Tensor, high: Tensor) -> Tensor:
    """Joins low and high halves to 64-bit integers."""
    shifted = scope.apply("shift_left", scope.convert(high, "u64"), scope.scalar(32, "u64"))
    return scope.apply("bitwise_or", scope.convert(low, "u64"), shifted)


def counters(scope: Building, count: int, low: Tensor, high: Tensor) -> Halves:
    """Returns `count` successive 64-bit integers from (low, high) on, as halves of shape [count]."""
    index = scope.op("iota", shape=[count], dtype="u32", dim=0)
    sum_low = scope.apply("add", index, low)
    carry = scope.convert(scope.apply("less", sum_low, index), "u32")
    return sum_low, scope.apply("add", carry, high)


def threefry(scope: Building, key: Halves, x: Halves) -> Halves:
    """Computes Threefry-2x32 with 20 rounds."""
    parity = scope.apply("bitwise_xor", scope.apply("bitwise_xor", *key), scope.scalar(THREEFRY_PARITY, "u32"))
    keys = [*key, parity]
    a, b = scope.apply("add", x[0], keys[0]), scope.apply("add", x[1], keys[1])
    for group in range(5):
        for distance in ROTATIONS[group % 2]:
            a = scope.apply("add", a, b)
            left = scope.apply("shift_left", b, scope.scalar(distance, "u32"))
            right = scope.apply("shift_right", b, scope.scalar(32 - distance, "u32"))
            b = scope.apply("bitwise_xor", scope.apply("bitwise_or", left, right), a)
        a = scope.apply("add", a, keys[(group + 1) % 3])
        b = scope.apply("add", b, scope.apply("add", keys[(group + 2) % 3], scope.scalar(group + 1, "u32")))
    return a, b


def _product(scope: Building, x: Tensor, factor: int) -> Halves:
    """Returns both halves of the 64-bit product x * factor."""
    return halves(scope, scope.apply("multiply", scope.convert(x, "u64"), scope.scalar(factor, "u64")))


def philox(scope: Building, key: Halves, counter: Sequence[Tensor]) -> list[Tensor]:
    """Computes Philox-4x32 with 10 rounds."""
    state, keys = list(counter), list(key)
    for turn in range(PHILOX_ROUNDS):
        if turn:
            keys = [
                scope.apply("add", part, scope.scalar(step, "u32"))
                for part, step in zip(keys, PHILOX_STEPS, strict=True)
            ]
        low0, high0 = _product(scope, state[0], PHILOX_MULTIPLIERS[0])
        low1, high1 = _product(scope, state[2], PHILOX_MULTIPLIERS[1])
        first = scope.apply("bitwise_xor", scope.apply("bitwise_xor", high1, state[1]), keys[0])
        third = scope.apply("bitwise_xor", scope.apply("bitwise_xor", high0, state[3]), keys[1])
        state = [first, low1, third, low0]
    return state


def random_halves(scope: Building, seed: Tensor, stream: int, count: int) -> Halves:
    """Draws two words of 32 random bits for each of `count` elements, by Threefry."""
    key = tuple(scope.reshape(scope.along(seed, 0, i, i + 1), []) for i in (0, 1))
    index = scope.op("iota", shape=[count], dtype="u32", dim=0)
    other = scope.broadcast(scope.scalar(stream, "u32"), [count])
    return threefry(scope, (key[0], key[1]), (index, other))


def unit(scope: Building, bits: Tensor) -> Tensor:
    """Converts 23 random bits per element to f32 in [0, 1)."""
    mantissa = scope.apply("shift_right", bits, scope.scalar(9, "u32"))
    one = scope.apply("bitwise_or", mantissa, scope.scalar(0x3F800000, "u32"))
    return scope.apply("subtract", scope.bitcast(one, "f32"), scope.scalar(1.0, "f32"))


def uniform(scope: Building, bits: Halves, low: Tensor, high: Tensor, dtype: str) -> Tensor:
    """Returns uniform numbers in [low, high): floats from 23 random bits, integers by the remainder of 32 bits."""
    if dtype in FLOATS:
        a, b = scope.convert(low, "f32"), scope.convert(high, "f32")
        spread = scope.apply("multiply", unit(scope, bits[0]), scope.apply("subtract", b, a))
        below = scope.apply("add", spread, a)
        # The sum, or its narrower dtype, may round up to high; the result is then low.
        narrow = scope.convert(below, dtype)
        return scope.apply("select", scope.apply("less", narrow, high), narrow, scope.broadcast(low, narrow.shape))
    if dtype == "bool":
        return scope.apply("greater_equal", unit(scope, bits[0]), scope.scalar(0.5, "f32"))
    a, b = scope.convert(low, "i64"), scope.convert(high, "i64")
    rest = scope.apply("remainder", scope.convert(bits[0], "i64"), scope.apply("subtract", b, a))
    return scope.convert(scope.apply("add", rest, a), dtype)


def normal(scope: Building, bits: Halves, mean: Tensor, deviation: Tensor, dtype: str) -> Tensor:
    """Returns normally distributed numbers (Box and Muller, Annals of Mathematical Statistics 29, 1958)."""
    radius = scope.apply("log", scope.apply("subtract", scope.scalar(1.0, "f32"), unit(scope, bits[0])))
    radius = scope.apply("sqrt", scope.apply("multiply", radius, scope.scalar(-2.0, "f32")))
    angle = scope.apply("multiply", unit(scope, bits[1]), scope.scalar(2 * math.pi, "f32"))
    standard = scope.apply("multiply", radius, scope.apply("cos", angle))
    scaled = scope.apply("multiply", standard, scope.convert(deviation, "f32"))
    return scope.convert(scope.apply("add", scaled, scope.convert(mean, "f32")), dtype)


def interleaved(scope: Building, parts: Sequence[Tensor], count: int) -> Tensor:
    """Interleaves the parts (element 0 of each, then element 1 of each) and returns the first `count` elements."""
    wide = [scope.reshape(part, [*part.shape, 1]) for part in parts]
    together = scope.concat(wide, 1)
    return scope.along(scope.reshape(together, [int(np.prod(together.shape))]), 0, 0, count)
