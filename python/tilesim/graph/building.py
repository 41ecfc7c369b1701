"""Graph construction as front ends need it: constants that are known, movements that leave out what moves nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.dtypes import NUMPY
from ..base.errors import user_error
from .builder import GraphBuilder
from .tensor import Tensor

SMALL = 4096  # elements of a constant whose value is kept at hand
TABLE = 1 << 26  # elements of a table that a front end makes: indices, interpolation


def bounded(count: float, what: str) -> None:
    """Refuses a table that a front end would make from a few numbers of a file."""
    if count > TABLE:
        raise user_error(f"{what} is too large", value=f"{count:.0f} elements", allowed=f"{TABLE} elements")


def namer() -> Callable[[str], str]:
    """Makes names unique: "x", "x.1", "x.2", .."""
    given: dict[str, itertools.count[int]] = {}

    def fresh(stem: str) -> str:
        number = next(given.setdefault(stem, itertools.count()))
        return f"{stem}.{number}" if number else stem

    return fresh


class Building:
    """One function of a graph under construction."""

    def __init__(self, builder: GraphBuilder, fresh: Callable[[str], str]) -> None:
        """Starts without constants."""
        self.builder, self.fresh = builder, fresh
        self.known: dict[int, NDArray[Any]] = {}
        self.spread: dict[int, Tensor] = {}  # broadcasts: what they repeat, with its axes in place

    def constant(self, array: Any, name: str = "constant") -> Tensor:
        """A constant with these elements; equal small ones are shared."""
        array = np.asarray(array)
        key = f"{array.dtype}({array.item()!r})" if array.ndim == 0 else self.fresh(name)
        tensor = self.builder.weight(key, data=array, trainable=False)
        if array.size <= SMALL:
            self.known[tensor.value] = array
        return tensor

    def scalar(self, number: Any, dtype: str) -> Tensor:
        """A constant without axes."""
        return self.constant(np.asarray(number).astype(NUMPY[dtype]))

    def array(self, tensor: Tensor) -> NDArray[Any] | None:
        """Elements of a tensor where they are known and few."""
        return self.known.get(tensor.value)

    # --- operations ---

    def op(self, kind: str, *operands: Tensor | None, **attributes: Any) -> Any:
        """An operation of the graph."""
        return self.builder.op(kind, *operands, **attributes)

    def apply(self, function: str, *operands: Tensor) -> Tensor:
        """An elementwise function; what is repeated to the shape of another operand is taken before its repetition."""
        if any(x.value in self.spread for x in operands):
            shape = np.broadcast_shapes(*(x.shape for x in operands))
            full = [i for i, x in enumerate(operands) if x.shape == shape]
            kept = next((i for i in full if operands[i].value not in self.spread), full[0] if full else -1)
            if full:
                operands = tuple(x if i == kept else self.spread.get(x.value, x) for i, x in enumerate(operands))
        return self.builder.apply(function, *operands)

    def convert(self, x: Tensor, dtype: str, **more: Any) -> Tensor:
        """x in another dtype."""
        if x.dtype == dtype:
            return x
        if dtype == "bool":
            return self.apply("not_equal", x, self.scalar(0, x.dtype))
        result: Tensor = self.op("convert", x, dtype=dtype, **more)
        return result

    def bitcast(self, x: Tensor, dtype: str) -> Tensor:
        """The bits of x as another dtype of the same width."""
        if x.dtype == dtype:
            return x
        result: Tensor = self.op("bitcast", x, dtype=dtype)
        return result

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """x in another shape of as many elements."""
        if list(x.shape) == list(shape):
            return x
        result: Tensor = self.op("reshape", x, shape=list(shape))
        return result

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """Axis i of the result is axis permutation[i] of x."""
        if list(permutation) == list(range(x.ndim)):
            return x
        result: Tensor = self.op("transpose", x, permutation=list(permutation))
        return result

    def broadcast(self, x: Tensor, shape: Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
        """x repeated to a shape; dims: result axis of each axis of x, the last ones by default."""
        dims = list(range(len(shape) - x.ndim, len(shape))) if dims is None else list(dims)
        if list(x.shape) == list(shape) and dims == list(range(x.ndim)):
            return x
        result: Tensor = self.op("broadcast", x, shape=list(shape), dims=dims)
        axes = [x.shape[dims.index(axis)] if axis in dims else 1 for axis in range(len(shape))]
        self.spread[result.value] = self.reshape(x, axes) if x.ndim else x
        return result

    def slice(self, x: Tensor, start: Sequence[int], limit: Sequence[int], stride: Sequence[int] = ()) -> Tensor:
        """A part of x with static borders."""
        stride = list(stride) or [1] * x.ndim
        if not any(start) and list(limit) == list(x.shape) and set(stride) <= {1}:
            return x
        result: Tensor = self.op("slice", x, start=list(start), limit=list(limit), stride=stride)
        return result

    def along(self, x: Tensor, dim: int, start: int, limit: int, stride: int = 1) -> Tensor:
        """A part of one axis."""
        starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
        starts[dim], limits[dim], strides[dim] = start, limit, stride
        return self.slice(x, starts, limits, strides)

    def concat(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        """Tensors one after the other."""
        if len(parts) == 1:
            return parts[0]
        result: Tensor = self.op("concat", *parts, dim=dim)
        return result
