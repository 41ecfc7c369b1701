"""Random numbers of StableHLO."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._core import Unsupported
from ...base.dtypes import FLOATS
from ...graph.tensor import Tensor
from ..generators import counters, halves, interleaved, joined, normal, philox, random_halves, threefry, uniform
from .scope import Scope, Value, handles
from .types import BITS, Shaped, text


def halved(shape: Sequence[int]) -> tuple[int, list[int]]:
    """Returns the axis along which the two 32-bit results of Threefry alternate, and the shape of its counters."""
    even = [axis for axis, extent in enumerate(shape) if extent % 2 == 0]
    axis = even[0] if even else max(range(len(shape)), key=lambda i: shape[i])
    return axis, [-(-extent // 2) if i == axis else extent for i, extent in enumerate(shape)]


def by_threefry(scope: Scope, key: Tensor, low: Tensor, high: Tensor, shape: list[int], wide: bool) -> tuple[Any, int]:
    """Draws bits by Threefry; also returns the number of counters used."""
    if wide or not shape:
        count = math.prod(shape)
        a, b = threefry(scope, halves(scope, key), counters(scope, count, low, high))
        return scope.reshape(joined(scope, a, b) if wide else a, shape), count
    axis, half = halved(shape)
    count = math.prod(half)
    both = threefry(scope, halves(scope, key), counters(scope, count, low, high))
    apart = [*half[: axis + 1], 1, *half[axis + 1 :]]
    together = scope.concat([scope.reshape(part, apart) for part in both], axis + 1)
    whole = scope.reshape(together, [2 * n if i == axis else n for i, n in enumerate(half)])
    return scope.along(whole, axis, 0, shape[axis]), count


def by_philox(
    scope: Scope, key: Tensor, low: Tensor, high: Tensor, upper: Tensor, shape: list[int], wide: bool
) -> tuple[Any, int]:
    """Draws bits by Philox, four words per counter; also returns the number of counters used."""
    size = math.prod(shape)
    count = -(-size // (2 if wide else 4))
    first, second = counters(scope, count, low, high)
    wrapped = scope.convert(scope.apply("less", second, high), "u32")
    third, fourth = halves(scope, upper)
    third_word = scope.apply("add", wrapped, third)
    carry = scope.apply("bitwise_and", wrapped, scope.convert(scope.apply("less", third_word, third), "u32"))
    parts = philox(scope, halves(scope, key), [first, second, third_word, scope.apply("add", carry, fourth)])
    if wide:
        parts = [joined(scope, parts[0], parts[1]), joined(scope, parts[2], parts[3])]
    return scope.reshape(interleaved(scope, parts, size), shape), count


@handles("stablehlo.rng_bit_generator")
def rng_bit_generator(scope: Scope, op: Any) -> Sequence[Value]:
    """Draws bits by Threefry or Philox as XLA does; the unspecified algorithm DEFAULT is Philox, as in XLA."""
    state = scope.real(op.operands[0])
    shaped = Shaped(op.results[1].type, "rng_bit_generator")
    algorithm = text(op, "rng_algorithm", "DEFAULT")
    if state.dtype != "u64" or state.ndim != 1 or state.shape[0] not in ((2,) if algorithm == "THREE_FRY" else (2, 3)):
        raise Unsupported(
            f"rng_bit_generator with a state of {state.dtype}{list(state.shape)}: allowed are u64[2] and u64[3]"
        )
    if shaped.dtype in FLOATS or shaped.dtype == "bool":
        raise Unsupported(f"rng_bit_generator of {shaped.dtype}: its results are integers")
    if shaped.size == 0:
        return [state, scope.op("iota", shape=shaped.shape, dtype=shaped.dtype, dim=0)]
    each = [scope.reshape(scope.along(state, 0, i, i + 1), []) for i in range(state.shape[0])]
    low, high = halves(scope, each[1])
    wide = BITS[shaped.dtype] == 64
    if algorithm == "THREE_FRY":
        bits, count = by_threefry(scope, each[0], low, high, shaped.shape, wide)
    else:
        if algorithm == "DEFAULT":
            scope.module.assumptions.append(
                "rng_bit_generator of algorithm DEFAULT is Philox-4x32, as in XLA for CPUs and GPUs"
            )
        bits, count = by_philox(scope, each[0], low, high, each[-1 if len(each) == 3 else 0], shaped.shape, wide)
    following = scope.apply("add", each[1], scope.scalar(count, "u64"))
    rest = each[2:]
    if rest:  # adds the carry to the upper half
        wrapped = scope.apply("less", *(scope.bitcast(flipped(scope, x), "i64") for x in (following, each[1])))
        rest = [scope.apply("add", rest[0], scope.convert(wrapped, "u64"))]
    new = scope.concat([scope.reshape(x, [1]) for x in (each[0], following, *rest)], 0)
    narrow = bits if bits.dtype == shaped.dtype else scope.convert(bits, f"u{BITS[shaped.dtype]}")
    return [new, scope.bitcast(narrow, shaped.dtype)]


def flipped(scope: Scope, x: Tensor) -> Tensor:
    """Flips the highest bit of u64, so that signed comparison orders the unsigned numbers."""
    return scope.apply("bitwise_xor", x, scope.scalar(1 << 63, "u64"))


@handles("stablehlo.rng")
def rng(scope: Scope, op: Any) -> Sequence[Value]:
    """Draws random numbers by Threefry-2x32 with the graph's input "rng_seed" as its key; the specification
    does not define the stream."""
    a, b = (scope.real(operand) for operand in list(op.operands)[:2])
    shaped = Shaped(op.results[0].type, "rng")
    distribution = text(op, "rng_distribution")
    if distribution == "NORMAL" and shaped.dtype not in FLOATS:
        raise Unsupported(f"rng of normally distributed {shaped.dtype}")
    if BITS[shaped.dtype] == 64:
        raise Unsupported(f"rng of {shaped.dtype}: numbers have at most 32 bits")
    seed, stream = scope.module.random_seed(scope)
    bits = random_halves(scope, seed, stream, shaped.size)
    draw = normal if distribution == "NORMAL" else uniform
    return [scope.reshape(draw(scope, bits, a, b, shaped.dtype), shaped.shape)]
