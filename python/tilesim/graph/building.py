"""Helpers with which front ends build graphs: constants, movements, gathers and convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import Unsupported
from ..base.dtypes import NUMPY
from ..base.errors import user_error
from .builder import GraphBuilder
from .tensor import Tensor

SMALL = 4096  # most elements of a constant whose value front ends can read
TABLE = 1 << 26  # most elements of a table that a front end creates, such as indices or interpolation weights
SPATIAL = "DHW"


def bounded(count: float, what: str) -> None:
    """Raises an error for a table that is too large, because a few numbers of a file determine its size."""
    if count > TABLE:
        raise user_error(f"{what} is too large", value=f"{count:.0f} elements", allowed=f"{TABLE} elements")


def gathered(
    op: Callable[..., Any], x: Tensor, index: Tensor, axes: Sequence[int], lead: int, front: int = 0, mode: str = "clip"
) -> Tensor:
    """Gathers slices of x at positions on `axes`.

    Axis `lead` of the index holds one component per axis (a single component needs no such axis). Its first `lead` axes
    start at axis `front` of the result.
    """
    rank = lead + x.ndim - len(axes)
    result: Tensor = op(
        "gather", x, index, offset_dims=[i for i in range(rank) if not front <= i < front + lead],
        collapsed_slice_dims=sorted(axes), start_index_map=list(axes), index_vector_dim=lead, mode=mode,
        slice_sizes=[1 if axis in axes else extent for axis, extent in enumerate(x.shape)],
    )  # fmt: skip
    return result


def scattered(
    op: Callable[..., Any], x: Tensor, index: Tensor, updates: Tensor, axes: Sequence[int], lead: int, **more: Any
) -> Tensor:
    """Combines updates with x at positions on `axes`; the index has the form of `gathered`."""
    result: Tensor = op(
        "scatter", x, index, updates, update_window_dims=list(range(lead, updates.ndim)),
        inserted_window_dims=sorted(axes), scatter_dims_to_operand_dims=list(axes), index_vector_dim=lead, **more,
    )  # fmt: skip
    return result


def window_labels(lead: str, rank: int) -> str:
    """Labels of the operand of a convolution over `rank` axes, such as "NCHW"."""
    if not 0 <= rank <= len(SPATIAL):
        raise Unsupported(f"windows over {rank} axes")
    return lead + SPATIAL[len(SPATIAL) - rank :]


def convolved(
    op: Callable[..., Any], x: Tensor, w: Tensor, bias: Tensor | None = None, w_lead: str = "OI", **settings: Any
) -> Tensor:
    """Convolves x [N, C, ..] with w [O, I, ..]."""
    x_labels, w_labels = (window_labels(lead, w.ndim - 2) for lead in ("NC", w_lead))
    operands = [x, w] if bias is None else [x, w, bias]
    result: Tensor = op("convolution", *operands, x_labels=x_labels, w_labels=w_labels, y_labels=x_labels, **settings)
    return result


def namer() -> Callable[[str], str]:
    """Returns a function that makes names unique: "x", "x.1", "x.2", .."""
    given: dict[str, itertools.count[int]] = {}

    def fresh(stem: str) -> str:
        number = next(given.setdefault(stem, itertools.count()))
        return f"{stem}.{number}" if number else stem

    return fresh


class Building:
    """Builds one function of a graph."""

    def __init__(self, builder: GraphBuilder, fresh: Callable[[str], str]) -> None:
        """Creates an empty set of constants."""
        self.builder, self.fresh = builder, fresh
        self.known: dict[int, NDArray[Any]] = {}
        self.spread: dict[int, Tensor] = {}  # result of each broadcast -> its operand, with the axes in place

    def constant(self, array: Any, name: str = "constant") -> Tensor:
        """Returns a constant with these elements; shares equal small constants."""
        array = np.asarray(array)
        key = f"{array.dtype}({array.item()!r})" if array.ndim == 0 else self.fresh(name)
        tensor = self.builder.weight(key, data=array, trainable=False)
        if array.size <= SMALL:
            self.known[tensor.value] = array
        return tensor

    def scalar(self, number: Any, dtype: str) -> Tensor:
        """Returns a scalar constant."""
        return self.constant(np.asarray(number).astype(NUMPY[dtype]))

    def array(self, tensor: Tensor) -> NDArray[Any] | None:
        """Returns the elements of a small constant, or None."""
        return self.known.get(tensor.value)

    # --- operations ---

    def op(self, kind: str, *operands: Tensor | None, **attributes: Any) -> Any:
        """Adds an operation to the graph."""
        return self.builder.op(kind, *operands, **attributes)

    def apply(self, function: str, *operands: Tensor) -> Tensor:
        """Applies an elementwise function; omits a broadcast that the function performs."""
        if any(x.value in self.spread for x in operands):
            shape = np.broadcast_shapes(*(x.shape for x in operands))
            full = [i for i, x in enumerate(operands) if x.shape == shape]
            kept = next((i for i in full if operands[i].value not in self.spread), full[0] if full else -1)
            if full:
                operands = tuple(x if i == kept else self.spread.get(x.value, x) for i, x in enumerate(operands))
        return self.builder.apply(function, *operands)

    def convert(self, x: Tensor, dtype: str, **more: Any) -> Tensor:
        """Converts x to another dtype."""
        if x.dtype == dtype:
            return x
        if dtype == "bool":
            return self.apply("not_equal", x, self.scalar(0, x.dtype))
        result: Tensor = self.op("convert", x, dtype=dtype, **more)
        return result

    def bitcast(self, x: Tensor, dtype: str) -> Tensor:
        """Reads the bits of x as another dtype of the same width."""
        if x.dtype == dtype:
            return x
        result: Tensor = self.op("bitcast", x, dtype=dtype)
        return result

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshapes x to another shape with as many elements."""
        if list(x.shape) == list(shape):
            return x
        result: Tensor = self.op("reshape", x, shape=list(shape))
        return result

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """Transposes x: axis i of the result is axis permutation[i] of x."""
        if list(permutation) == list(range(x.ndim)):
            return x
        result: Tensor = self.op("transpose", x, permutation=list(permutation))
        return result

    def broadcast(self, x: Tensor, shape: Sequence[int], dims: Sequence[int] | None = None) -> Tensor:
        """Broadcasts x to a shape; dims: the result axis of each axis of x, by default the last ones."""
        dims = list(range(len(shape) - x.ndim, len(shape))) if dims is None else list(dims)
        if list(x.shape) == list(shape) and dims == list(range(x.ndim)):
            return x
        result: Tensor = self.op("broadcast", x, shape=list(shape), dims=dims)
        axes = [x.shape[dims.index(axis)] if axis in dims else 1 for axis in range(len(shape))]
        self.spread[result.value] = self.reshape(x, axes) if x.ndim else x
        return result

    def slice(self, x: Tensor, start: Sequence[int], limit: Sequence[int], stride: Sequence[int] = ()) -> Tensor:
        """Slices x with static borders."""
        stride = list(stride) or [1] * x.ndim
        if not any(start) and list(limit) == list(x.shape) and set(stride) <= {1}:
            return x
        result: Tensor = self.op("slice", x, start=list(start), limit=list(limit), stride=stride)
        return result

    def along(self, x: Tensor, dim: int, start: int, limit: int, stride: int = 1) -> Tensor:
        """Slices one axis."""
        starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
        starts[dim], limits[dim], strides[dim] = start, limit, stride
        return self.slice(x, starts, limits, strides)

    def concat(self, parts: Sequence[Tensor], dim: int) -> Tensor:
        """Joins tensors along an axis."""
        if len(parts) == 1:
            return parts[0]
        result: Tensor = self.op("concat", *parts, dim=dim)
        return result
