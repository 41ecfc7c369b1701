"""Builds graphs in the manner of numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from numpy.typing import ArrayLike

from . import _core
from ._arguments import dtype_name, extents, whole
from ._errors import nearest, user_error
from ._graph import Graph
from ._tensor import Tensor


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
        self.dtype = dtype_name(dtype)
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
            dtype=self._dtype(dtype),
            shape=extents(shape, f"weight '{name}'"),
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
        return Tensor(self, self.core.scalar(float(value), self._dtype(dtype)))

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

    def _dtype(self, dtype: Any) -> str:
        return self.dtype if dtype is None else dtype_name(dtype)

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
        if kind not in _kinds():
            raise _unknown_kind(kind)
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
    pair = list(value) if isinstance(value, Sequence) else [value, value]
    if len(pair) != 2:
        raise user_error("a setting of both axes", value=repr(value), allowed="one number, or two")
    return [whole("height" if axis == 0 else "width", one, 0) for axis, one in enumerate(pair)]


@lru_cache(maxsize=1)
def _kinds() -> tuple[str, ...]:
    return tuple(str(row["name"]) for row in _core.kinds())


def _unknown_kind(kind: str) -> Exception:
    """The remedy for names that are no kinds: functions of elements, and what the builder spells out."""
    remedy, similar = "", nearest(str(kind), [*_kinds(), *_core.function_names()])
    if kind in _core.function_names():
        remedy = f"It is an elementwise function: b.apply('{kind}', x)"
    elif hasattr(GraphBuilder, str(kind)):
        remedy = f"It is a method: b.{kind}(...)"
    elif hasattr(Tensor, str(kind)):
        remedy = f"It is a method of tensors: x.{kind}(...)"
    names = ", ".join(_kinds())
    return user_error("unknown kind of operation", value=repr(kind), allowed=names, suggestion=remedy or similar)
