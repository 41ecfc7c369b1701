"""Scope of values in which nodes of an ONNX model become graph operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core import Unsupported
from ...base.dtypes import NUMPY
from ...base.errors import user_error
from ...graph.builder import GraphBuilder
from ...graph.building import Building, gathered
from ...graph.tensor import Tensor

# onnx.proto, TensorProto.DataType: element types by number, from 1; "-" is unsupported
_NUMBERED = """
    f32 u8 i8 u16 i16 i32 i64 - bool f16 f64 u32 u64 c64 - bf16 f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz u4 i4 f4e2m1fn
    f8e8m0fnu
"""
DTYPES = {number: name for number, name in enumerate(_NUMBERED.split(), 1) if name != "-"}
OTHER_TYPES = {8: "string", 15: "complex128", 25: "uint2", 26: "int2"}

Value = Any  # a Tensor, a list of values (a sequence), or None (an absent optional)
Handler = Callable[["OnnxScope", "OnnxNode"], Sequence[Value]]
HANDLERS: dict[tuple[str, str], Handler] = {}


def dtype_of(number: int, place: str) -> str:
    """Returns the dtype of a number in TensorProto.DataType."""
    if number not in DTYPES:
        raise Unsupported(f"{place}: element type {OTHER_TYPES.get(number, number)}")
    return DTYPES[number]


def handles(*names: str, domain: str = "") -> Callable[[Handler], Handler]:
    """Registers a handler for operators."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[domain, name] = handler
        return handler

    return register


class OnnxNode:
    """One node: operator, operands by name, attributes as Python values."""

    def __init__(self, proto: Any, attributes: dict[str, Any], opset: int) -> None:
        """Reads operator, operand names and attributes."""
        self.proto, self.attributes, self.opset = proto, attributes, opset
        self.op, self.domain = str(proto.op_type), "" if proto.domain == "ai.onnx" else str(proto.domain)
        self.inputs, self.outputs = [str(name) for name in proto.input], [str(name) for name in proto.output]

    @property
    def place(self) -> str:
        """Operator and name of the node, for messages."""
        name = self.proto.name or (self.outputs[0] if self.outputs else "")
        return f"{self.domain + '.' if self.domain else ''}{self.op} '{name}'"

    @property
    def path(self) -> str:
        """Converts the node's name to a module path: "/blocks.0/fc1/MatMul" to blocks.0.fc1; "" without a name."""
        parts = [part for part in str(self.proto.name).split("/") if part]
        return ".".join(parts[:-1] if len(parts) > 1 and parts[-1].partition("_")[0] == self.op else parts)

    def get(self, name: str, fallback: Any = None) -> Any:
        """The value of an attribute."""
        return self.attributes.get(name, fallback)

    def integer(self, name: str, fallback: int = 0) -> int:
        """The value of an integer attribute."""
        return int(self.attributes.get(name, fallback))

    def number(self, name: str, fallback: float = 0.0) -> float:
        """The value of a number attribute."""
        return float(self.attributes.get(name, fallback))

    def text(self, name: str, fallback: str = "") -> str:
        """The value of a text attribute."""
        return str(self.attributes.get(name, fallback))

    def integers(self, name: str, fallback: Sequence[int] = ()) -> list[int]:
        """The value of an attribute that is a list of integers."""
        return [int(value) for value in self.attributes.get(name, fallback)]

    def has(self, index: int) -> bool:
        """Whether an operand is present."""
        return index < len(self.inputs) and self.inputs[index] != ""


class OnnxScope(Building):
    """Values of one graph, function body or subgraph of the model."""

    def __init__(self, model: Any, builder: GraphBuilder, outer: OnnxScope | None = None) -> None:
        """Creates a scope without values."""
        super().__init__(builder, model.fresh)
        self.model, self.outer = model, outer
        self.names: dict[str, Value] = {}
        self.stored: dict[int, Callable[[], NDArray[Any]]] = {}  # weight -> function that reads its elements
        self.origins: dict[str, frozenset[str]] = {}  # name of a value -> inputs of the model on which it depends
        if outer is not None and outer.builder is builder:
            self.known, self.spread, self.stored = outer.known, outer.spread, outer.stored

    def value(self, name: str) -> Value:
        """Finds the value of a name."""
        if name in self.names:
            return self.names[name]
        if self.outer is None:
            raise user_error("no node computes a value that is used", value=f"'{name}'")
        found = self.outer.value(name)
        if isinstance(found, Tensor) and found.builder is not self.builder:
            found = self.model.brought_in(self, name, found)
            self.names[name] = found
        return found

    def origin(self, name: str) -> frozenset[str]:
        """Returns the names of the model's inputs on which a value depends."""
        if name in self.origins or self.outer is None:
            return self.origins.get(name, frozenset())
        return self.outer.origin(name)

    def get(self, node: OnnxNode, index: int) -> Any:
        """An operand as a tensor, or None if it is absent."""
        return self.value(node.inputs[index]) if node.has(index) else None

    def operands(self, node: OnnxNode) -> list[Any]:
        """All operands; None stands for an absent one."""
        return [self.get(node, i) for i in range(len(node.inputs))]

    def numbers(self, node: OnnxNode, index: int, what: str) -> NDArray[Any]:
        """The elements of an operand that must be constant."""
        tensor = self.get(node, index)
        array = self.array(tensor) if tensor is not None else None
        if array is None:
            origins = sorted(self.origin(node.inputs[index]))
            error = Unsupported(
                f"{what} depends on data (operand '{node.inputs[index]}'"
                + (f" from input {', '.join(map(repr, origins))}" if origins else "")
                + "): fix the inputs that shapes depend on with fixed={name: array}, or export with static shapes"
            )
            error.needed = tuple(origins)  # type: ignore[attr-defined]
            raise error
        return array

    def integers(self, node: OnnxNode, index: int, what: str) -> list[int]:
        """The elements of a constant operand as a list of integers."""
        return [int(value) for value in self.numbers(node, index, what).reshape(-1)]

    def like(self, number: float, x: Tensor) -> Tensor:
        """A scalar with the dtype of x."""
        return self.scalar(number, x.dtype)

    def wide(self, x: Tensor) -> Tensor:
        """Converts f16 and bf16 to f32, in which composed functions compute."""
        return self.convert(x, "f32") if x.dtype in ("f16", "bf16") else x

    def reduce(self, x: Tensor, dims: Sequence[int], combiner: str, keep: bool = True, **more: Any) -> Tensor:
        """Reduces axes of x."""
        result: Tensor = self.op("reduce", x, dims=list(dims), combiner=combiner, keep_dims=keep, **more)
        return result

    def take(self, x: Tensor, indices: Tensor, axis: int) -> Tensor:
        """Reads slices along one axis at indices that are in range."""
        rank, shape = indices.ndim, list(x.shape)
        if axis == 0 and x.ndim >= 2 and all(shape):
            width = int(np.prod(shape[1:]))
            rows = self.op("embedding", self.reshape(x, [shape[0], width]), indices)
            return self.reshape(rows, [*indices.shape, *shape[1:]])
        return gathered(self.op, x, indices, [axis], rank, front=axis)

    def wrapped(self, indices: Tensor, extent: int) -> Tensor:
        """Adds `extent` to negative indices, which count from the end."""
        known = self.array(indices)
        if known is not None:
            return indices if (known >= 0).all() else self.constant(np.where(known < 0, known + extent, known))
        if indices.dtype[0] == "u":
            return indices
        negative = self.apply("less", indices, self.like(0, indices))
        return self.apply("select", negative, self.apply("add", indices, self.like(extent, indices)), indices)

    def tensor(self, array: Any, dtype: str) -> Tensor:
        """A constant tensor with this dtype."""
        return self.constant(np.asarray(array).astype(NUMPY[dtype]))


def axis_of(axis: int, rank: int, place: str) -> int:
    """Converts an axis index, negative ones count from the end, to an index from the front."""
    if not -rank <= axis < max(rank, 1):
        raise user_error("the axis does not exist", place=place, value=str(axis), allowed=f"{-rank} to {rank - 1}")
    return axis + rank if axis < 0 else axis
