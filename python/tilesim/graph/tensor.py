"""A value of a graph under construction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.arguments import integer
from ..base.checked import checked_class
from ..base.errors import shown, user_error


def _flat(values: Sequence[Any]) -> Sequence[Any]:
    """Returns a call's numbers, given separately or as a sequence."""
    return values[0] if len(values) == 1 and isinstance(values[0], Sequence) else values


@checked_class("other", inside=False)
class Tensor:
    """A value of a graph under construction. A `GraphBuilder` creates it; operators and methods work as in numpy.

    `+ - * /` broadcast, `@` is a batched matrix product, numbers become constants of the tensor's dtype. Indexing takes
    integers, slices, `...` and `None`. Mistakes in shape or dtype raise a `UserError` that names the operation.
    """

    def __init__(self, builder: Any, value: int) -> None:
        """Stores a reference to a value of a builder."""
        self.builder = builder
        self.value = value

    @property
    def dtype(self) -> str:
        """Name of the element type, as "f32"."""
        return str(self.builder.core.type(self.value)[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes in elements."""
        return tuple(self.builder.core.type(self.value)[1])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"<Tensor {self.dtype}{list(self.shape)}>"

    def _binary(self, function: str, other: Tensor | float, reverse: bool = False) -> Tensor:
        right = other if isinstance(other, Tensor) else self.builder.scalar(other, self.dtype)
        operands = (right, self) if reverse else (self, right)
        return self.builder.apply(function, *operands)

    def __add__(self, other: Tensor | float) -> Tensor:
        return self._binary("add", other)

    def __radd__(self, other: float) -> Tensor:
        return self._binary("add", other, reverse=True)

    def __sub__(self, other: Tensor | float) -> Tensor:
        return self._binary("subtract", other)

    def __rsub__(self, other: float) -> Tensor:
        return self._binary("subtract", other, reverse=True)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return self._binary("multiply", other)

    def __rmul__(self, other: float) -> Tensor:
        return self._binary("multiply", other, reverse=True)

    def __truediv__(self, other: Tensor | float) -> Tensor:
        return self._binary("divide", other)

    def __rtruediv__(self, other: float) -> Tensor:
        return self._binary("divide", other, reverse=True)

    def __neg__(self) -> Tensor:
        return self.builder.apply("negate", self)

    def __matmul__(self, other: Tensor) -> Tensor:
        return self.builder.matmul(self, other)

    def __getitem__(self, index: Any) -> Tensor:
        items = list(index) if isinstance(index, tuple) else [index]
        dots = [at for at, item in enumerate(items) if item is Ellipsis]
        if len(dots) > 1:
            raise user_error("an index has at most one ellipsis", value=str(len(dots)), allowed="x[..., i]")
        named = sum(item is not None and item is not Ellipsis for item in items)
        if named > self.ndim:
            raise user_error("too many indices", value=str(named), allowed=f"at most {self.ndim} for {self!r}")
        rest = [slice(None)] * (self.ndim - named)
        at = dots[0] if dots else len(items)
        items[at : at + 1] = rest
        start, limit, stride, shape = [], [], [], []
        axes = iter(self.shape)
        for item in items:
            if item is None:
                shape.append(1)
                continue
            extent = next(axes)
            if isinstance(item, slice):
                first, last, step = item.indices(extent)
                if step < 1:
                    raise user_error("a slice runs backwards", value=str(item), allowed="positive steps")
                last = max(first, last)
                shape.append(-(-(last - first) // step))
            else:
                if extent == 0:
                    raise user_error("an index into an axis without elements", value=shown(item), allowed="slices")
                item = integer("index", item, -extent, extent - 1)
                first = item + (extent if item < 0 else 0)
                last, step = first + 1, 1
            start.append(first)
            limit.append(last)
            stride.append(step)
        part = self
        if start != [0] * self.ndim or limit != list(self.shape) or stride != [1] * self.ndim:
            part = self.builder.op("slice", self, start=start, limit=limit, stride=stride)
        return part.reshape(*shape) if part.shape != tuple(shape) else part

    def _compared(self, other: Tensor | float) -> Any:
        hint = "Write builder.apply('greater', x, builder.scalar(0.0)), or less, equal, less_equal, greater_equal"
        raise user_error("comparison operators do not apply to a Tensor", value=shown(other), suggestion=hint)

    __lt__ = __le__ = __gt__ = __ge__ = _compared

    def __float__(self) -> float:
        raise user_error(
            "a Tensor has no value before execution",
            value=shown(self),
            suggestion="Compile and execute the graph: ts.execute(ts.compile(builder.graph, machine))",
        )

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Reshapes the tensor.

        Args:
            shape: extents, or a sequence of them; one may be -1 and follows from the others.

        Returns:
            The reshaped tensor.

        Raises:
            UserError: where the number of elements changes.
        """
        extents = [int(extent) for extent in _flat(shape)]
        if extents.count(-1) == 1:
            known = -math.prod(extents)
            extents[extents.index(-1)] = math.prod(self.shape) // known if known > 0 else 0
        return Tensor(self.builder, self.builder.core.reshape(self.value, extents))

    def transpose(self, *permutation: int | Sequence[int]) -> Tensor:
        """Permutes the axes.

        Args:
            permutation: axis i of the result is axis permutation[i]; reversed when empty.

        Returns:
            The transposed tensor.

        Raises:
            UserError: unless each axis is named once.
        """
        order = list(_flat(permutation)) if permutation else list(range(self.ndim))[::-1]
        return Tensor(self.builder, self.builder.core.transpose(self.value, order))

    def convert(self, dtype: str) -> Tensor:
        """Converts the values to another dtype.

        Args:
            dtype: name, such as "bf16".

        Returns:
            The converted tensor, or this one when nothing changes.

        Raises:
            UserError: for an unknown dtype.
        """
        return Tensor(self.builder, self.builder.core.convert(self.value, dtype))

    def _reduce(self, combiner: str, axes: int | Sequence[int] | None, keep_dims: bool) -> Tensor:
        chosen = range(self.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
        dims = sorted(integer("axis", axis, -self.ndim, self.ndim - 1) % self.ndim for axis in chosen)
        return self.builder.op("reduce", self, combiner=combiner, dims=dims, keep_dims=keep_dims)

    def sum(self, axes: int | Sequence[int] | None = None, keep_dims: bool = False) -> Tensor:
        """Sums over axes.

        Args:
            axes: one or several, negative ones count from the end; all by default.
            keep_dims: keep reduced axes with extent 1.

        Returns:
            The reduced tensor.

        Raises:
            UserError: for an axis that does not exist.
        """
        return self._reduce("add", axes, keep_dims)

    def mean(self, axes: int | Sequence[int] | None = None, keep_dims: bool = False) -> Tensor:
        """Averages over axes.

        Args:
            axes: one or several, negative ones count from the end; all by default.
            keep_dims: keep reduced axes with extent 1.

        Returns:
            The reduced tensor.

        Raises:
            UserError: for an axis that does not exist.
        """
        return self._reduce("mean", axes, keep_dims)

    def max(self, axes: int | Sequence[int] | None = None, keep_dims: bool = False) -> Tensor:
        """Computes the maximum over axes.

        Args:
            axes: one or several, negative ones count from the end; all by default.
            keep_dims: keep reduced axes with extent 1.

        Returns:
            The reduced tensor.

        Raises:
            UserError: for an axis that does not exist.
        """
        return self._reduce("maximum", axes, keep_dims)

    def softmax(self, axis: int = -1) -> Tensor:
        """Computes exp(x) / sum(exp(x)) along an axis.

        Args:
            axis: negative ones count from the end.

        Returns:
            A tensor of the same shape.

        Raises:
            UserError: for an axis that does not exist.
        """
        return self.builder.op("softmax", self, dim=integer("axis", axis, -self.ndim, self.ndim - 1) % self.ndim)
