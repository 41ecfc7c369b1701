"""Where an operation of a module becomes operations of a graph."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._builder import GraphBuilder
from .._core import Unsupported
from .._tensor import Tensor
from .stablehlo_types import NUMPY, Shaped

SMALL = 4096  # elements of a constant whose value is kept at hand


class Complex:
    """A complex tensor as two real ones."""

    def __init__(self, re: Tensor, im: Tensor) -> None:
        """Pairs the parts.

        Args:
            re: real part.
            im: imaginary part, of the same shape.
        """
        self.re, self.im = re, im


Value = Any  # Tensor | Complex
Handler = Callable[["Scope", Any], Sequence[Value]]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers the meaning of operations.

    Args:
        names: with dialect, as "stablehlo.add".

    Returns:
        A decorator.
    """

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


def named(op: Any) -> str:
    """Name of an operation with its dialect."""
    return str(op.operation.name)


def source_of(op: Any) -> str:
    """Place of an operation in the user's code where the module says it, else in the module: "name (file:line)"."""
    location = str(op.operation.location)
    name = re.match(r'loc\("([^"]*)"\(', location)
    files = [(file, line) for file, line in re.findall(r'"([^"]*)":(\d+)', location) if "/jax/" not in file]
    place = f"{files[0][0]}:{files[0][1]}" if files else ""
    return f"{name[1]} ({place})" if name and place else name[1] if name else place


def place_of(op: Any) -> str:
    """Where an operation comes from, for messages: its name, and its location in the module or the user's code."""
    where = source_of(op)
    return f"{named(op)} at {where}" if where else named(op)


def placed(error: Unsupported) -> Unsupported:
    """Marks an error that names its place."""
    error.placed = True  # type: ignore[attr-defined]
    return error


class Scope:
    """Values of one function under construction."""

    def __init__(self, module: Any, builder: GraphBuilder) -> None:
        """Starts without values.

        Args:
            module: the module that is read (a `stablehlo.ModuleReader`).
            builder: of the function.
        """
        self.module, self.builder = module, builder
        self.values: dict[Any, Value] = {}
        self.known: dict[int, NDArray[Any]] = {}
        self.spread: dict[int, Tensor] = {}  # broadcasts: what they repeat, with its axes in place

    def inner(self) -> Scope:
        """A scope for a body that is built in place: same function, own names."""
        scope = Scope(self.module, self.builder)
        scope.values, scope.known, scope.spread = dict(self.values), self.known, self.spread
        return scope

    # --- values ---

    def value(self, mlir: Any) -> Value:
        """What a value of the module is here."""
        if mlir not in self.values:
            raise Unsupported(f"{mlir}: a value that no operation before it computes")
        return self.values[mlir]

    def real(self, mlir: Any) -> Tensor:
        """The same, where complex numbers have no meaning."""
        value = self.value(mlir)
        if isinstance(value, Complex):
            raise Unsupported(f"{mlir}: complex numbers are not read here")
        tensor: Tensor = value
        return tensor

    def operands(self, op: Any) -> list[Tensor]:
        """All operands, real."""
        return [self.real(operand) for operand in op.operands]

    def shaped(self, mlir: Any) -> Shaped:
        """Type of a value of the module."""
        return Shaped(mlir.type, str(mlir))

    # --- constants ---

    def constant(self, array: Any, name: str = "constant") -> Tensor:
        """A constant with these elements; equal small ones are shared."""
        array = np.asarray(array)
        key = f"{array.dtype}({array.item()!r})" if array.ndim == 0 else self.module.fresh(name)
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
        sizes = [int(np.prod(x.shape)) for x in operands]
        full = [i for i, x in enumerate(operands) if x.value not in self.spread and sizes[i] == max(sizes)]
        if len(operands) > 1 and not full:
            full = [sizes.index(max(sizes))]
        if len(operands) > 1:
            shape = np.broadcast_shapes(*(x.shape for x in operands))
            if operands[full[0]].shape == shape:
                operands = tuple(
                    self.spread.get(x.value, x) if i not in full[:1] else x for i, x in enumerate(operands)
                )
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

    # --- bodies ---

    def run(self, block: Any) -> list[Value]:
        """Builds the operations of a block; values of its terminator."""
        for op in block.operations:
            name = named(op)
            if name in ("func.return", "stablehlo.return", "mhlo.return", "sdy.return"):
                return [self.value(operand) for operand in op.operands]
            self.step(op, name)
        return []

    def step(self, op: Any, name: str) -> None:
        """Builds one operation."""
        handler = HANDLERS.get(name) or HANDLERS.get(name.replace("mhlo.", "stablehlo."))
        if handler is None:
            handler = self.module.foreign(name)
        if handler is None:
            raise placed(Unsupported(f"{place_of(op)}: no meaning for operation '{name}'"))
        self.builder.core.set_source(source_of(op))
        try:
            results = handler(self, op.operation)
        except Unsupported as error:
            if getattr(error, "placed", False):
                raise
            raise placed(Unsupported(f"{place_of(op)}: {error}")) from None
        for mlir, result in zip(op.operation.results, results, strict=True):
            self.values[mlir] = result

    def inline(self, block: Any, arguments: Sequence[Value]) -> list[Value]:
        """Builds a block in place, with these values for its arguments (of any shape, where it is elementwise)."""
        scope = self.inner()
        for argument, value in zip(block.arguments, arguments, strict=True):
            scope.values[argument] = value
        return scope.run(block)
