"""Scope of values in which operations of a module become graph operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...base.errors import InternalError
from ...graph.builder import GraphBuilder
from ...graph.building import Building
from ...graph.tensor import Tensor
from ..complex import Complex
from .table import EXCLUDED
from .types import Shaped, parts_of


def each(build: Callable[..., Any], *values: Value) -> Value:
    """Applies `build` to tensors, or to real and imaginary parts separately."""
    if not isinstance(values[0], Complex):
        return build(*values)
    return Complex(build(*(value.re for value in values)), build(*(value.im for value in values)))


def flat(values: Sequence[Value]) -> list[Tensor]:
    """Returns all tensors of values: two for a complex value, several for a tuple."""
    found: list[Tensor] = []
    for value in values:
        found += (
            [value.re, value.im] if isinstance(value, Complex) else flat(value) if isinstance(value, list) else [value]
        )
    return found


def rebuilt(types: Sequence[Any], tensors: Iterable[Tensor]) -> list[Value]:
    """Inverts `flat`: groups tensors into values of the module's types."""
    rest = iter(tensors)
    found: list[Value] = []
    for mlir_type in types:
        parts = parts_of(mlir_type)
        if parts is not None:
            found.append(rebuilt(parts, rest))
        else:
            found.append(Complex(next(rest), next(rest)) if Shaped(mlir_type, "a value").complex else next(rest))
    return found


Value = Any  # a Tensor, a Complex, or a list of values (a tuple; a token is an empty one)
Handler = Callable[["Scope", Any], Sequence[Value]]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers a handler for operations."""

    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:  # otherwise the last import would win
                raise InternalError(f"{name} has two handlers: {HANDLERS[name].__name__} and {handler.__name__}")
            HANDLERS[name] = handler
        return handler

    return register


def named(op: Any) -> str:
    """Name of an operation with its dialect."""
    return str(op.operation.name)


def source_of(op: Any) -> str:
    """Returns an operation's location as "name (file:line)", in the user's code if the module states it."""
    location = str(op.operation.location)
    name = re.match(r'loc\("([^"]*)"\(', location)
    files = [(file, line) for file, line in re.findall(r'"([^"]*)":(\d+)', location) if "/jax/" not in file]
    place = f"{files[0][0]}:{files[0][1]}" if files else ""
    return f"{name[1]} ({place})" if name and place else name[1] if name else place


def place_of(op: Any) -> str:
    """Name of an operation with its location in the module or the user's code, for messages."""
    where = source_of(op)
    return f"{named(op)} at {where}" if where else named(op)


def marked(attributes: Any) -> bool:
    """Whether attributes state a sharding."""
    return any(name in attributes for name in ("sdy.sharding", "mhlo.sharding", "mhlo.frontend_attributes"))


def placed(error: Unsupported) -> Unsupported:
    """Marks that the error's message already names a location."""
    error.placed = True  # type: ignore[attr-defined]
    return error


def path_of(source: str) -> str:
    """Returns the user's name scopes of an operation: layer1 for "jit(f)/layer1/dot_general (f.py:3)"."""
    name, file, _ = source.partition(" (")
    parts = [part for part in name.split("/") if part] if file or source.startswith("jit(") else []
    while parts and parts[0].startswith(("jit(", "pjit(")):
        parts.pop(0)
    return ".".join(parts[:-1])


class Scope(Building):
    """Values of one function under construction."""

    def __init__(self, module: Any, builder: GraphBuilder) -> None:
        """Creates a scope without values."""
        super().__init__(builder, module.fresh)
        self.module = module
        self.values: dict[Any, Value] = {}

    def inner(self) -> Scope:
        """Creates a scope for an inlined body, with the same function and separate value names."""
        scope = Scope(self.module, self.builder)
        scope.values, scope.known, scope.spread = dict(self.values), self.known, self.spread
        return scope

    # --- values ---

    def value(self, mlir: Any) -> Value:
        """Returns the value of an SSA value of the module."""
        if mlir not in self.values:
            raise Unsupported(f"{mlir}: no earlier operation computes this value")
        return self.values[mlir]

    def real(self, mlir: Any) -> Tensor:
        """Returns the real tensor of an SSA value; other values are unsupported."""
        value = self.value(mlir)
        if not isinstance(value, Tensor):
            found = "a tuple or token" if isinstance(value, list) else "complex numbers"
            raise Unsupported(f"{mlir}: {found} as operand")
        return value

    def sizes(self, mlir: Any) -> list[int]:
        """Returns the elements of a constant that states a shape."""
        tensor = self.real(mlir)
        known = self.array(self.spread.get(tensor.value, tensor))
        if known is None:
            raise Unsupported("a shape that depends on data: export with static shapes")
        return [int(value) for value in np.broadcast_to(known, tensor.shape).reshape(-1)]

    def operands(self, op: Any) -> list[Tensor]:
        """All operands as real tensors."""
        return [self.real(operand) for operand in op.operands]

    def shaped(self, mlir: Any) -> Shaped:
        """Type of a value of the module."""
        return Shaped(mlir.type, str(mlir))

    # --- bodies ---

    def run(self, block: Any) -> list[Value]:
        """Builds the operations of a block; returns the values of its terminator."""
        for op in block.operations:
            name = named(op)
            if name in ("func.return", "stablehlo.return", "mhlo.return", "sdy.return"):
                return [self.value(operand) for operand in op.operands]
            self.step(op, name)
        return []

    def step(self, op: Any, name: str) -> None:
        """Builds one operation."""
        handler = HANDLERS.get(name) or HANDLERS.get(name.replace("mhlo.", "stablehlo."))
        compound = any(isinstance(self.values.get(operand), Complex) for operand in op.operands)
        if handler is None or (compound and name.startswith("chlo.")):
            handler = self.module.foreign(name)
        if handler is None:
            reason = EXCLUDED.get(name.replace("mhlo.", "stablehlo."), "")
            why = f" ({reason})" if reason else ""
            raise placed(Unsupported(f"{place_of(op)}: unsupported operation '{name}'{why}"))
        source = source_of(op)
        self.builder.core.set_source(source)
        self.builder.stem = path_of(source)
        try:
            results = handler(self, op.operation)
        except Unsupported as error:
            if getattr(error, "placed", False):
                raise
            raise placed(Unsupported(f"{place_of(op)}: {error}")) from None
        if self.module.annotates and name != "stablehlo.custom_call" and marked(op.operation.attributes):
            results = self.with_shardings(op.operation, results)
        for mlir, result in zip(op.operation.results, results, strict=True):
            self.values[mlir] = result

    # --- shardings ---

    def with_shardings(self, op: Any, results: Sequence[Value]) -> Sequence[Value]:
        """Annotates an operation's results with the shardings in its attributes."""
        if any(parts_of(mlir.type) is not None for mlir in op.results):
            return results
        ranks = [len(self.shaped(mlir).shape) for mlir in op.results]
        found = self.module.devices.shardings_of(op.attributes, ranks)
        return [self.annotated(result, sharding) for result, sharding in zip(results, found, strict=True)]

    def annotated(self, value: Value, sharding: str) -> Value:
        """Annotates a value with a sharding; copies the value if it has another annotation already."""
        if not sharding or self.builder.graph is not self.module.root.graph:
            return value
        if isinstance(value, Complex):
            return each(lambda part: self.annotated(part, sharding), value)
        if self.builder.core.annotate(value.value, sharding):
            return value
        copied = self.op("copy", value)
        self.builder.core.annotate(copied.value, sharding)
        return copied

    def inline(self, block: Any, arguments: Sequence[Value]) -> list[Value]:
        """Builds a block in place, with these values for its arguments (of any shape if the block is elementwise)."""
        scope = self.inner()
        for argument, value in zip(block.arguments, arguments, strict=True):
            scope.values[argument] = value
        return scope.run(block)
