"""Complex numbers at a graph's border: one c64 tensor outside, a pair of f32 tensors within."""

from __future__ import annotations

from typing import Any

from .._core import Unsupported
from ..graph.tensor import Tensor


def parts(builder: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Real and imaginary half of the bits of c64 elements.

    Args:
        builder: of the function.
        x: c64.

    Returns:
        Two f32 tensors of its shape.
    """
    bits = builder.op("bitcast", x, dtype="i64")  # vector units shift signed 64-bit integers
    high = builder.apply("shift_right", bits, builder.scalar(32, "i64"))
    words = [builder.op("convert", half, dtype="u32") for half in (bits, high)]
    return builder.op("bitcast", words[0], dtype="f32"), builder.op("bitcast", words[1], dtype="f32")


def joined(builder: Any, re: Tensor, im: Tensor) -> Tensor:
    """The opposite of `parts`.

    Args:
        builder: of the function.
        re: f32.
        im: f32 of the same shape.

    Returns:
        A c64 tensor.

    Raises:
        Unsupported: for parts that are no f32.
    """
    if re.dtype != "f32":
        raise Unsupported(f"complex numbers with parts of {re.dtype} at the border of a graph: c64 alone is known")
    low, high = (builder.op("convert", builder.op("bitcast", x, dtype="u32"), dtype="u64") for x in (re, im))
    shifted = builder.apply("shift_left", high, builder.scalar(32, "u64"))
    result: Tensor = builder.op("bitcast", builder.apply("bitwise_or", low, shifted), dtype="c64")
    return result
