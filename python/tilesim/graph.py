"""Graphs: the workload as operations on tensors, and a builder in the manner of numpy."""

from __future__ import annotations

import difflib
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core

__all__ = ["Graph", "GraphBuilder", "Tensor"]


def user_error(what: str, *, place: str = "", value: str = "", allowed: str = "", suggestion: str = "") -> Exception:
    """A `UserError` with its parts, worded as those of the core are."""
    text = f"{place}: {what}" if place else what
    detail = "; ".join(
        part for part in (f"got {value}" if value else "", f"allowed: {allowed}" if allowed else "") if part
    )
    if detail:
        text += f" ({detail})"
    if suggestion:
        text += f". {suggestion}" if " " in suggestion else f". Did you mean '{suggestion}'?"
    error: Exception = _core.UserError(text)
    for key, part in {
        "what": what,
        "place": place,
        "value": value,
        "allowed": allowed,
        "suggestion": suggestion,
    }.items():
        setattr(error, key, part)
    return error


def nearest(word: str, candidates: Iterable[str]) -> str:
    """The closest of `candidates`, or "" when none is close."""
    return next(iter(difflib.get_close_matches(word, list(candidates), n=1)), "")


class Graph:
    """A workload: operations on single-assignment tensors, in functions, with weights by name.

    Made by a `GraphBuilder`, by `tilesim.models` and `tilesim.workloads`, by a front end, or read from a file. Passes
    change the graph in place and return how many operations they changed; `copy()` first to keep the original.
    """

    def __init__(self, core: _core.Graph | None = None) -> None:
        """Wraps a graph of the core.

        Args:
            core: the compiled graph; none makes an empty one.
        """
        self.core = _core.Graph() if core is None else core

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Graph:
        """Reads a graph file.

        Args:
            path: a file that ends in .json, or in .tsim (a JSON header, then the weights).

        Returns:
            The graph, checked.

        Raises:
            UserError: for a file that cannot be read or is no legal graph, with line and path.
        """
        return cls(_core.Graph.load(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a graph file that reads back equal.

        Args:
            path: a file that ends in .json, or in .tsim (better for large weights).

        Raises:
            UserError: when the file cannot be written.
        """
        self.core.save(os.fspath(path))

    @classmethod
    def from_json(cls, text: str, directory: str | os.PathLike[str] = ".") -> Graph:
        """Reads the JSON form.

        Args:
            text: JSON of schema "tilesim.graph".
            directory: where relative paths of weight files start.

        Returns:
            The graph, checked.

        Raises:
            UserError: for text that is no legal graph, with line and path.
        """
        return cls(_core.Graph.from_json(text, os.fspath(directory)))

    def to_json(self) -> str:
        """The JSON form, one operation per line.

        Returns:
            Text of schema "tilesim.graph".
        """
        return str(self.core.to_json())

    def copy(self) -> Graph:
        """An independent copy.

        Returns:
            A graph whose changes leave this one alone.
        """
        return Graph(self.core.copy())

    def check(self) -> None:
        """Checks structure, attributes, shapes and dtypes.

        Raises:
            UserError: naming function and operation, what was got and what was expected.
        """
        self.core.check()

    @property
    def name(self) -> str:
        """Name of the graph."""
        return str(self.core.name)

    @name.setter
    def name(self, value: str) -> None:
        self.core.name = value

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Inputs in order, each with name, dtype and shape."""
        return list(self.core.inputs())

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """Outputs in order, each with name, dtype and shape."""
        return list(self.core.outputs())

    @property
    def functions(self) -> list[str]:
        """Names of all functions; operations of kind call name the one they run."""
        return list(self.core.functions)

    @property
    def parameters(self) -> int:
        """Number of elements of all trainable weights."""
        return int(self.core.parameter_count())

    def flops(self) -> dict[str, float]:
        """Operations by the unit that they need.

        Returns:
            Number of operations per unit: matrix (a multiply-add is 2), simple, multiply, divide, transcendental.
        """
        return dict(self.core.flops())

    def compulsory_bytes(self) -> int:
        """What no schedule can avoid to move.

        Returns:
            Bytes of inputs, weights and outputs that cross the chip's border at least once.
        """
        return int(self.core.compulsory_bytes())

    def operations(self, function: str = "") -> list[dict[str, Any]]:
        """Operations of one function in order.

        Args:
            function: its name; the entry function by default.

        Returns:
            One dictionary per operation: name, kind, operands, results (name, dtype, shape), attributes, functions,
            source, flops by unit, bytes (compulsory).

        Raises:
            UserError: for an unknown function.
        """
        return list(self.core.operations(function))

    def weights(self) -> dict[str, dict[str, Any]]:
        """Weights by name.

        Returns:
            dtype, shape, source ("data", "random" or "file") and trainable of each.
        """
        return dict(self.core.weights())

    def weight(self, name: str) -> NDArray[Any]:
        """Elements of one weight.

        Args:
            name: its name.

        Returns:
            An array of the weight's shape and dtype.

        Raises:
            UserError: for an unknown name, or a file that cannot be read.
        """
        return np.asarray(self.core.weight(name))

    def set_weight(self, name: str, value: ArrayLike) -> None:
        """Replaces the elements of one weight.

        Args:
            name: its name.
            value: array of the weight's shape and dtype.

        Raises:
            UserError: for an unknown name, or an array of another shape or dtype.
        """
        self.core.set_weight(name, value)

    def expand(self, kinds: Sequence[str] = ()) -> int:
        """Replaces composite operations (softmax, attention, ...) by primitives.

        Args:
            kinds: only these; all composite kinds by default.

        Returns:
            Number of operations replaced.

        Raises:
            UserError: for an unknown kind.
        """
        return int(self.core.expand(list(kinds)))

    def inline_calls(self) -> int:
        """Replaces calls by the operations of the called function.

        Returns:
            Number of calls replaced.
        """
        return int(self.core.inline_calls())

    def remove_dead_code(self) -> int:
        """Removes operations, functions and weights that no output needs.

        Returns:
            Number of operations removed.
        """
        return int(self.core.remove_dead_code())

    def remove_no_ops(self) -> int:
        """Removes operations that change nothing: identity reshapes, conversions, x + 0, ...

        Returns:
            Number of operations removed.
        """
        return int(self.core.remove_no_ops())

    def merge_common_subexpressions(self) -> int:
        """Computes equal operations once.

        Returns:
            Number of operations removed.
        """
        return int(self.core.merge_common_subexpressions())

    def fold_constants(self, max_elements: int = 1 << 20) -> int:
        """Evaluates operations on weights alone.

        Args:
            max_elements: operations with larger operands or results stay.

        Returns:
            Number of operations replaced by a weight.
        """
        return int(_core.fold_constants(self.core, max_elements))

    def fold_batch_norm(self) -> int:
        """Folds batch_norm into the convolution or product before it; exact up to rounding.

        Returns:
            Number of operations folded.
        """
        return int(_core.fold_batch_norm(self.core))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and bool(self.core.equals(other.core))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.core)


class Tensor:
    """A value of a graph under construction: made by a `GraphBuilder`, combined by operators and methods as in numpy.

    `+ - * /` broadcast, `@` is a batched matrix product, numbers become constants of the tensor's dtype. Indexing takes
    integers, slices, `...` and `None`. Every mistake in shape or dtype is a `UserError` that names the operation.
    """

    def __init__(self, builder: GraphBuilder, value: int) -> None:
        """Refers to a value; users get tensors from a builder.

        Args:
            builder: the builder that owns the value.
            value: index of the value in its function.
        """
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
        named = sum(item is not None and item is not Ellipsis for item in items)
        if named > self.ndim:
            raise user_error("too many indices", value=str(named), allowed=f"at most {self.ndim} for {self!r}")
        rest = [slice(None)] * (self.ndim - named)
        at = items.index(Ellipsis) if Ellipsis in items else len(items)
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
                first = int(item) + (extent if item < 0 else 0)
                if not 0 <= first < extent:
                    raise user_error("an index is out of range", value=str(item), allowed=f"-{extent} to {extent - 1}")
                last, step = first + 1, 1
            start.append(first)
            limit.append(last)
            stride.append(step)
        part = self
        if start != [0] * self.ndim or limit != list(self.shape) or stride != [1] * self.ndim:
            part = self.builder.op("slice", self, start=start, limit=limit, stride=stride)
        return part.reshape(*shape) if part.shape != tuple(shape) else part

    def reshape(self, *shape: int) -> Tensor:
        """The same elements in another shape.

        Args:
            shape: extents; one may be -1 and follows from the others.

        Returns:
            The reshaped tensor.

        Raises:
            UserError: when the number of elements changes.
        """
        extents = [
            int(extent) for extent in (shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape)
        ]
        if extents.count(-1) == 1:
            known = -math.prod(extents)
            extents[extents.index(-1)] = math.prod(self.shape) // known if known > 0 else 0
        return Tensor(self.builder, self.builder.core.reshape(self.value, extents))

    def transpose(self, *permutation: int) -> Tensor:
        """Axes in another order.

        Args:
            permutation: axis i of the result is axis permutation[i]; reversed when empty.

        Returns:
            The transposed tensor.

        Raises:
            UserError: unless each axis is named once.
        """
        order = list(permutation) if permutation else list(range(self.ndim))[::-1]
        return Tensor(self.builder, self.builder.core.transpose(self.value, order))

    def convert(self, dtype: str) -> Tensor:
        """The values in another dtype.

        Args:
            dtype: its name, as "bf16".

        Returns:
            The converted tensor, or this one when nothing changes.

        Raises:
            UserError: for an unknown dtype.
        """
        return Tensor(self.builder, self.builder.core.convert(self.value, dtype))

    def _reduce(self, combiner: str, axes: int | Sequence[int] | None, keep_dims: bool) -> Tensor:
        chosen = range(self.ndim) if axes is None else [axes] if isinstance(axes, int) else axes
        dims = sorted(axis + self.ndim if axis < 0 else axis for axis in chosen)
        return self.builder.op("reduce", self, combiner=combiner, dims=dims, keep_dims=keep_dims)

    def sum(self, axes: int | Sequence[int] | None = None, keep_dims: bool = False) -> Tensor:
        """Sum over axes.

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
        """Mean over axes.

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
        """Maximum over axes.

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
        """exp(x) / sum(exp(x)) along an axis.

        Args:
            axis: negative ones count from the end.

        Returns:
            A tensor of the same shape.

        Raises:
            UserError: for an axis that does not exist.
        """
        return self.builder.op("softmax", self, dim=axis + self.ndim if axis < 0 else axis)


class GraphBuilder:
    """Builds one function of a graph.

    >>> import tilesim as ts
    >>> b = ts.GraphBuilder("two_layers")
    >>> x = b.input("x", (8, 64))
    >>> h = b.apply("relu", b.linear(x, 32, name="hidden"))
    >>> b.output(b.linear(h, 10, name="scores"))
    >>> graph = b.build()
    """

    def __init__(self, name: str = "graph", *, parent: GraphBuilder | None = None, dtype: str = "f32") -> None:
        """Starts a graph, or another function of a graph.

        Args:
            name: of the graph; of the function when `parent` is given.
            parent: builder of the graph that gets this function.
            dtype: of inputs and weights that name none.

        Raises:
            UserError: for an unknown dtype.
        """
        self.graph: Graph = Graph() if parent is None else parent.graph
        self.dtype = str(_core.parse_dtype(dtype))
        self.function_name = "main" if parent is None else name
        if parent is None:
            self.graph.name = name
        self.core = _core.Builder(self.graph.core, self.function_name)

    def function(self, name: str) -> GraphBuilder:
        """Starts another function of the same graph, to be run by `call`.

        Args:
            name: of the function.

        Returns:
            Its builder.
        """
        return GraphBuilder(name, parent=self, dtype=self.dtype)

    def input(self, name: str, shape: Sequence[int], dtype: str | None = None) -> Tensor:
        """A new input.

        Args:
            name: unique in the function.
            shape: extents in elements.
            dtype: the builder's by default.

        Returns:
            The input.

        Raises:
            UserError: for a name that is taken, a negative extent or an unknown dtype.
        """
        return Tensor(self, self.core.input(name, dtype or self.dtype, list(shape)))

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
        """A weight: the given array, or random numbers.

        Args:
            name: unique in the graph; equal names share the weight.
            shape: extents in elements; that of `data` if given.
            dtype: the builder's by default; that of `data` if given.
            data: array of any shape.
            scale: random elements are uniform in offset ± scale, and depend on seed, name and position alone.
            offset: see scale.
            seed: see scale.
            trainable: false for buffers, which are not counted as parameters.

        Returns:
            The weight.

        Raises:
            UserError: for a negative extent, an unknown dtype, or a name that another type has.
        """
        value = self.core.weight(
            name,
            data=data,
            dtype=dtype or self.dtype,
            shape=list(shape),
            seed=seed,
            scale=scale,
            offset=offset,
            trainable=trainable,
        )
        return Tensor(self, value)

    def scalar(self, value: float, dtype: str | None = None) -> Tensor:
        """A constant without axes.

        Args:
            value: the number.
            dtype: the builder's by default.

        Returns:
            The constant.
        """
        return Tensor(self, self.core.scalar(float(value), dtype or self.dtype))

    def output(self, tensor: Tensor, name: str = "") -> None:
        """Makes a tensor the next output.

        Args:
            tensor: of this builder.
            name: of the output; the tensor's own by default.
        """
        self.core.output(self._value(tensor), name)

    def alias(self, output: int, input: int) -> None:
        """Declares that an output overwrites an input (state, caches).

        Args:
            output: number of the output.
            input: number of the input, of the same shape and dtype.
        """
        self.core.alias(output, input)

    def build(self) -> Graph:
        """Ends the construction.

        Returns:
            The graph, checked, with this function as its entry.

        Raises:
            UserError: naming function and operation, what was got and what was expected.
        """
        self.core.finish()
        return self.graph

    def _value(self, operand: Tensor | None) -> int:
        if operand is None:
            return -1
        if not isinstance(operand, Tensor):
            raise user_error("an operand is no tensor", value=repr(operand), allowed="tensors of this builder")
        if operand.builder is not self:
            raise user_error(
                "a tensor belongs to another function",
                value=repr(operand),
                allowed=f"tensors of function '{self.function_name}'",
                suggestion="Pass it as an operand of call()",
            )
        return operand.value

    def op(self, kind: str, *operands: Tensor | None, name: str = "", results: int = 1, **attributes: Any) -> Any:
        """Any kind of operation; see `tilesim._core.kinds()`.

        Args:
            kind: its name.
            operands: tensors; None where an optional one is absent.
            name: of the operation; made up from the kind by default.
            results: how many to compute, for kinds with optional results.
            attributes: of the kind.

        Returns:
            The result, or a tuple of several.

        Raises:
            UserError: naming operation, what was got and what was expected.
        """
        values = self.core.op(kind, [self._value(operand) for operand in operands], attributes, name, results)
        tensors = tuple(Tensor(self, value) for value in values)
        return tensors[0] if len(tensors) == 1 else tensors

    def call(self, function: GraphBuilder, *operands: Tensor, name: str = "") -> Any:
        """Runs another function of the graph.

        Args:
            function: its builder, finished with outputs.
            operands: one tensor per input.
            name: of the operation.

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
        """An elementwise function; operands broadcast as numpy's.

        Args:
            function: as "relu", "add", "select"; see `tilesim._core.function_names()`.
            operands: as many as the function takes.
            name: of the operation.

        Returns:
            The result.

        Raises:
            UserError: for an unknown function or operands that do not fit.
        """
        return Tensor(self, self.core.elementwise(function, [self._value(operand) for operand in operands], name))

    def matmul(self, a: Tensor, b: Tensor, bias: Tensor | None = None, name: str = "") -> Tensor:
        """numpy's matmul, plus bias.

        Args:
            a: [..., m, k].
            b: [..., k, n].
            bias: broadcasts to the result.
            name: of the operation.

        Returns:
            Tensor of shape [..., m, n].

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        return Tensor(self, self.core.matmul(self._value(a), self._value(b), self._value(bias), name))

    def linear(self, x: Tensor, features: int, *, name: str, bias: bool = True, scale: float | None = None) -> Tensor:
        """x · wᵀ + b with new weights `name`.weight [features, k] and `name`.bias [features].

        Args:
            x: [..., k].
            features: extent n of the result.
            name: of the operation and its weights.
            bias: whether there is one.
            scale: bound of the random weights; sqrt(3 / k) by default, which keeps the variance of x.

        Returns:
            Tensor of shape [..., features].
        """
        depth = x.shape[-1]
        bound = math.sqrt(3 / max(1, depth)) if scale is None else scale
        w = self.weight(f"{name}.weight", (features, depth), x.dtype, scale=bound)
        b = self.weight(f"{name}.bias", (features,), x.dtype) if bias else None
        return self.project(x, w, b, name=name)

    def project(self, x: Tensor, w: Tensor, bias: Tensor | None = None, *, name: str = "") -> Tensor:
        """x · wᵀ + bias.

        Args:
            x: [..., k].
            w: [n, k].
            bias: [n].
            name: of the operation.

        Returns:
            Tensor of shape [..., n].

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        result: Tensor = self.op(
            "contract", x, w, *([] if bias is None else [bias]), name=name, a_contract=[x.ndim - 1], b_contract=[1]
        )
        return result

    def conv2d(
        self,
        x: Tensor,
        w: Tensor,
        bias: Tensor | None = None,
        *,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        name: str = "",
    ) -> Tensor:
        """Cross-correlation over the two last axes.

        Args:
            x: [N, C, H, W].
            w: [O, C / groups, kernel height, kernel width].
            bias: [O].
            stride: step of the window, in elements; one number or two.
            padding: zeros on both sides, in elements; one number or two.
            dilation: distance of taps, in elements; one number or two.
            groups: channels are split into so many independent convolutions.
            name: of the operation.

        Returns:
            Tensor of shape [N, O, output height, output width].

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        pads = _pair(padding)
        result: Tensor = self.op(
            "convolution",
            x,
            w,
            *([] if bias is None else [bias]),
            name=name,
            x_labels="NCHW",
            w_labels="OIHW",
            y_labels="NCHW",
            strides=_pair(stride),
            pads=[pads[0], pads[0], pads[1], pads[1]],
            window_dilation=_pair(dilation),
            groups=groups,
        )
        return result

    def pool2d(
        self,
        x: Tensor,
        window: int | Sequence[int],
        *,
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        combiner: str = "maximum",
        name: str = "",
    ) -> Tensor:
        """Combines windows over the two last axes.

        Args:
            x: [N, C, H, W].
            window: height and width in elements.
            stride: step in elements; the window by default.
            padding: neutral elements on both sides.
            combiner: "maximum", "minimum", "add" or "multiply".
            name: of the operation.

        Returns:
            Tensor of shape [N, C, output height, output width].

        Raises:
            UserError: for a window that does not fit.
        """
        steps, pads = _pair(window if stride is None else stride), _pair(padding)
        result: Tensor = self.op(
            "window_reduce",
            x,
            name=name,
            window=[1, 1, *_pair(window)],
            strides=[1, 1, *steps],
            pads=[0, 0, 0, 0, pads[0], pads[0], pads[1], pads[1]],
            combiner=combiner,
        )
        return result

    def layer_norm(
        self,
        x: Tensor,
        scale: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        epsilon: float = 1e-5,
        name: str = "",
    ) -> Tensor:
        """Layer normalization over the last axis.

        Args:
            x: [..., n].
            scale: [n].
            bias: [n].
            epsilon: added to the variance.
            name: of the operation.

        Returns:
            A tensor of the same shape.

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        result: Tensor = self.op(
            "normalize", x, scale, bias, name=name, mode="layer", dims=[x.ndim - 1], epsilon=float(epsilon)
        )
        return result

    def attention(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        name: str = "",
        **more: Any,
    ) -> Tensor:
        """Scaled dot-product attention.

        Args:
            q: [B, H, S, D].
            k: [B, G, T, D], H a multiple of G.
            v: [B, G, T, E].
            mask: broadcastable to [B, H, S, T]; bool keeps, float is added.
            causal: hide keys behind the query.
            name: of the operation.
            more: other attributes of kind attention (scale, window, soft_cap, ...).

        Returns:
            Tensor of shape [B, H, S, E].

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        operands = [q, k, v] if mask is None else [q, k, v, mask]
        result: Tensor = self.op("attention", *operands, name=name, causal=causal, **more)
        return result

    def concat(self, tensors: Sequence[Tensor], axis: int = 0, name: str = "") -> Tensor:
        """Tensors one after the other.

        Args:
            tensors: equal but for their extent along `axis`.
            axis: negative ones count from the end.
            name: of the operation.

        Returns:
            The joined tensor.

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        dim = axis + tensors[0].ndim if axis < 0 and tensors else axis
        result: Tensor = self.op("concat", *tensors, name=name, dim=dim)
        return result

    def broadcast(self, x: Tensor, shape: Sequence[int], name: str = "") -> Tensor:
        """x repeated to a shape, as numpy's broadcast_to.

        Args:
            x: its axes align with the last ones of `shape`.
            shape: extents in elements.
            name: of the operation.

        Returns:
            Tensor of that shape.

        Raises:
            UserError: for shapes that do not fit.
        """
        missing = len(shape) - x.ndim
        dims = list(range(missing, len(shape)))
        result: Tensor = self.op("broadcast", x, name=name, shape=list(shape), dims=dims)
        return result


def _pair(value: int | Sequence[int]) -> list[int]:
    return [value, value] if isinstance(value, int) else [int(value[0]), int(value[1])]
