"""Complex tensors: graphs compute with pairs of f32 or f64 tensors; inputs and outputs are c64 or c128."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..graph.tensor import Tensor

#: dtype of the real and imaginary part -> complex dtype
COMPLEX_OF = {"f32": "c64", "f64": "c128"}


@dataclass(frozen=True, eq=False)
class Complex:
    """A complex tensor as its real and imaginary part."""

    re: Tensor
    im: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of both parts."""
        return self.re.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.re.ndim


def parts(builder: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Splits complex elements into their real and imaginary part."""
    if x.dtype == "c128":
        both = builder.op("bitcast", x, dtype="f64")  # shape [.., 2]: both parts
        re, im = (both[(..., i)] for i in (0, 1))
        return re, im
    bits = builder.op("bitcast", x, dtype="i64")  # vector units shift signed 64-bit integers
    high = builder.apply("shift_right", bits, builder.scalar(32, "i64"))
    words = [builder.op("convert", half, dtype="u32") for half in (bits, high)]
    return builder.op("bitcast", words[0], dtype="f32"), builder.op("bitcast", words[1], dtype="f32")


def joined(builder: Any, re: Tensor, im: Tensor) -> Tensor:
    """Joins real and imaginary part; the inverse of `parts`."""
    if re.dtype == "f64":
        rows = [builder.op("reshape", x, shape=[*x.shape, 1]) for x in (re, im)]
        whole: Tensor = builder.op("bitcast", builder.op("concat", *rows, dim=re.ndim), dtype="c128")
        return whole
    low, high = (builder.op("convert", builder.op("bitcast", x, dtype="u32"), dtype="u64") for x in (re, im))
    shifted = builder.apply("shift_left", high, builder.scalar(32, "u64"))
    result: Tensor = builder.op("bitcast", builder.apply("bitwise_or", low, shifted), dtype="c64")
    return result
