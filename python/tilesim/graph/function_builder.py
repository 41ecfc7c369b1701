"""Builds a function of a graph operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from .. import _core
from ..base.arguments import as_array, dtype_name, extents, integer
from ..base.checked import MEANT, checked_class
from ..base.errors import nearest, shown, user_error
from .graph import Graph
from .tensor import Tensor

MOST_NUMBER = 2**31 - 1  # largest number of an input or output

Self = TypeVar("Self", bound="FunctionBuilder")


#: Names of functions in other libraries.
_FUNCTIONS = {"swish": "silu", "gelu": "gelu_erf", "mul": "multiply", "sub": "subtract", "div": "divide",
              "pow": "power", "max": "maximum", "min": "minimum", "where": "select", "neg": "negate"}  # fmt: skip


@checked_class("shape", "value", inside=False)
class FunctionBuilder:
    """Inputs, weights, operations and calls of one function; `GraphBuilder` adds common layers."""

    def __init__(self, name: str = "graph", *, parent: FunctionBuilder | None = None, dtype: str = "f32") -> None:
        """Starts a graph, or another function of a graph."""
        self.graph: Graph = Graph() if parent is None else parent.graph
        self.dtype = dtype_name(dtype)
        self.function_name = "main" if parent is None else name
        self.stem = ""  # default name of operations; front ends set it to the name of the current node
        if parent is None:
            self.graph.name = name
        self.core = _core.Builder(self.graph.core, self.function_name)

    def __repr__(self) -> str:
        """Name of the graph and of the function."""
        where = "" if self.function_name == "main" else f", function {self.function_name}"
        return f"<{type(self).__name__} of {self.graph.name}{where}>"

    def function(self: Self, name: str) -> Self:
        """Starts another function of the same graph, to be run by `call`.

        Args:
            name: name of the function.

        Returns:
            Its builder.
        """
        return type(self)(name, parent=self, dtype=self.dtype)

    def input(self, name: str, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        """Adds an input.

        Args:
            name: unique in the function.
            shape: extents in elements.
            dtype: the builder's by default.

        Returns:
            The input.

        Raises:
            UserError: for a name that is taken, a negative extent or an unknown dtype.
        """
        return Tensor(self, self.core.input(name, self._dtype(dtype), extents(shape, f"input '{name}'")))

    def weight(
        self,
        name: str,
        shape: Sequence[int] = (),
        dtype: str | None = None,
        *,
        data: ArrayLike | None = None,
        scale: float = 0.05,
        offset: float = 0.0,
        seed: int = 0,
        trainable: bool = True,
    ) -> Tensor:
        """Adds a weight with given or random elements.

        Args:
            name: unique in the graph; equal names share the weight.
            shape: extents in elements; default: that of `data`.
            dtype: the builder's by default; that of `data` if given.
            data: array of any shape.
            scale: random elements are uniform in offset ± scale, and depend only on seed, name and position.
            offset: see scale.
            seed: see scale.
            trainable: false for buffers, which are not counted as parameters.

        Returns:
            The weight.

        Raises:
            UserError: for a negative extent, an unknown dtype, or a name that another type has.
        """
        array = None if data is None else as_array(data, f"weight '{name}'")
        if array is not None and tuple(shape) not in ((), array.shape):
            raise user_error("the data has another shape", place=f"weight '{name}'", value=shown(array.shape),
                             allowed=shown(tuple(shape)), suggestion="Leave the shape out")  # fmt: skip
        value = self.core.weight(
            name,
            data=array,
            dtype=self._dtype(dtype),
            shape=extents(shape, f"weight '{name}'"),
            seed=seed,
            scale=scale,
            offset=offset,
            trainable=trainable,
        )
        return Tensor(self, value)

    def scalar(self, value: float, dtype: str | None = None) -> Tensor:
        """Adds a scalar constant.

        Args:
            value: the number.
            dtype: the builder's by default.

        Returns:
            The constant.
        """
        return Tensor(self, self.core.scalar(_number(value), self._dtype(dtype)))

    def output(self, tensor: Tensor, name: str = "") -> None:
        """Declares a tensor as next output.

        Args:
            tensor: a tensor of this builder.
            name: name of the output; by default the tensor's name. A number is added to a name that is taken.
        """
        self.core.output(self._value(tensor), name)

    def alias(self, output: int, input: int) -> None:
        """Declares that an output overwrites an input (state, caches).

        Args:
            output: number of the output.
            input: number of the input, of the same shape and dtype.

        Raises:
            UserError: for a number that no input or output can have.
        """
        self.core.alias(integer("output", output, 0, MOST_NUMBER), integer("input", input, 0, MOST_NUMBER))

    def build(self, shardings: Mapping[str, str] | None = None, mesh: Mapping[str, int] | str | None = None) -> Graph:
        """Ends the construction.

        Args:
            shardings: sharding over the mesh by value name: see `Graph.annotate`.
            mesh: sizes of the device mesh axes, as {"x": 4}.

        Returns:
            The graph, checked, with this function as its entry.

        Raises:
            UserError: for an inconsistent graph; names function, operation, the value found and the value expected.
        """
        self.core.finish()
        if shardings or mesh:
            self.graph.annotate(shardings, mesh)
        self.graph.tell_devices()
        return self.graph

    def _dtype(self, dtype: Any) -> str:
        return self.dtype if dtype is None else dtype_name(dtype)

    def _value(self, operand: Tensor | None) -> int:
        if operand is None:
            return -1
        if not isinstance(operand, Tensor):
            what = f"an operand is of class {type(operand).__name__}, not a tensor"
            hint = "An array is a weight: builder.weight(name, data=array)" if hasattr(operand, "__array__") else ""
            raise user_error(what, value="" if hint else shown(operand), allowed="tensors of this builder",
                             suggestion=hint)  # fmt: skip
        if operand.builder is not self:
            other = operand.builder.graph is not self.graph
            raise user_error(
                f"a tensor belongs to another {'GraphBuilder' if other else 'function'}",
                value=shown(operand),
                allowed=f"tensors of {self!r}" if other else f"tensors of function '{self.function_name}'",
                suggestion="" if other else "Pass it as an operand of call()",
            )
        return operand.value

    def op(self, kind: str, *operands: Tensor | None, name: str = "", results: int = 1, **attributes: Any) -> Any:
        """Adds an operation of any kind.

        Args:
            kind: name of the kind.
            operands: tensors; None where an optional one is absent.
            name: name of the operation; derived from the kind by default.
            results: how many to compute, for kinds with optional results.
            attributes: attributes of the kind.

        Returns:
            The result, or a tuple of several.

        Raises:
            UserError: for an unknown kind (with the nearest), or operands and attributes that do not fit it.
        """
        if kind not in _kinds():
            raise _unknown_kind(kind, self)
        values = self.core.op(
            kind, [self._value(operand) for operand in operands], attributes, name or self.stem, results
        )
        tensors = tuple(Tensor(self, value) for value in values)
        return tensors[0] if len(tensors) == 1 else tensors

    def call(self, function: FunctionBuilder, *operands: Tensor, name: str = "") -> Any:
        """Adds a call of another function of the graph.

        Args:
            function: its builder, finished with outputs.
            operands: one tensor per input.
            name: name of the operation.

        Returns:
            The output, or a tuple of several.

        Raises:
            UserError: for operands that do not fit the inputs, or recursion.
        """
        values = [self._value(operand) for operand in operands]
        found = self.core.op("call", values, {}, name or function.function_name, 1, [function.function_name])
        tensors = tuple(Tensor(self, value) for value in found)
        return tensors[0] if len(tensors) == 1 else tensors

    def apply(self, function: str, *operands: Tensor, name: str = "") -> Tensor:
        """Adds an elementwise function; operands broadcast like numpy's.

        Args:
            function: name, such as "relu", "add" or "select".
            operands: one tensor per argument of the function.
            name: name of the operation.

        Returns:
            The result.

        Raises:
            UserError: for an unknown function (with the nearest) or operands that do not fit.
        """
        if function in _FUNCTIONS:
            raise user_error("unknown function", value=f"'{function}'", suggestion=_FUNCTIONS[function])
        return Tensor(self, self.core.elementwise(function, [self._value(x) for x in operands], name or self.stem))

    def matmul(self, a: Tensor, b: Tensor, bias: Tensor | None = None, name: str = "") -> Tensor:
        """Adds a matrix product like numpy's matmul, plus bias.

        Args:
            a: [..., m, k].
            b: [..., k, n].
            bias: broadcasts to the result.
            name: name of the operation.

        Returns:
            Tensor of shape [..., m, n].

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        return Tensor(self, self.core.matmul(self._value(a), self._value(b), self._value(bias), name or self.stem))

    def concat(self, tensors: Sequence[Tensor], axis: int = 0, name: str = "") -> Tensor:
        """Concatenates tensors along an axis.

        Args:
            tensors: tensors of equal shape except along `axis`.
            axis: negative ones count from the end.
            name: name of the operation.

        Returns:
            The joined tensor.

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        dim = axis + tensors[0].ndim if axis < 0 and tensors else axis
        result: Tensor = self.op("concat", *tensors, name=name, dim=dim)
        return result


@lru_cache(maxsize=1)
def _kinds() -> tuple[str, ...]:
    return tuple(str(row["name"]) for row in _core.kinds())


def _unknown_kind(kind: str, builder: FunctionBuilder) -> Exception:
    """The error for an unknown kind; suggests elementwise functions and methods of that name."""
    similar = nearest(str(kind), [*_kinds(), *_core.function_names()])
    remedy = f"It is a method: b.{kind}(...)" if hasattr(type(builder), str(kind)) else _elsewhere(kind) or similar
    return user_error("unknown kind of operation", value=shown(kind), allowed=", ".join(_kinds()), suggestion=remedy)


def _elsewhere(name: str, value: Any = None) -> str:
    """Suggests the call that has the name of a missing builder method."""
    if name in _core.function_names():
        return f"It is an elementwise function: b.apply('{name}', x, ...)"
    if hasattr(Tensor, str(name)):
        return f"It is a method of tensors: x.{name}(...)"
    return f"It is a kind of operation: b.op('{name}', x, ...)" if name in _kinds() else ""


MEANT["FunctionBuilder."] = _elsewhere


def _number(value: Any) -> float:
    try:
        return float(value)
    except Exception:  # an error inside the object itself also ends here
        raise user_error("an operand is neither a tensor nor a number", value=shown(value),
                         allowed="a Tensor of this builder, a number") from None  # fmt: skip
