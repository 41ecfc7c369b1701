"""Builds graphs with numpy's conventions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import Any

from ..base.arguments import extents, integer
from ..base.checked import checked_class
from ..base.errors import shown, user_error
from .function_builder import FunctionBuilder
from .tensor import Tensor


@checked_class("stride", "padding", "dilation", "window", "shape", inside=False)
class GraphBuilder(FunctionBuilder):
    """Builds one function of a graph.

    >>> import tilesim as ts
    >>> b = ts.GraphBuilder("two_layers")
    >>> x = b.input("x", (8, 64))
    >>> h = b.apply("relu", b.linear(x, 32, name="hidden"))
    >>> b.output(b.linear(h, 10, name="scores"))
    >>> graph = b.build()
    """

    def linear(self, x: Tensor, features: int, *, name: str, bias: bool = True, scale: float | None = None) -> Tensor:
        """x · wᵀ + b with new weights `name`.weight [features, k] and `name`.bias [features].

        Args:
            x: [..., k].
            features: extent n of the result.
            name: name of the operation and its weights.
            bias: whether to add a bias.
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
            name: name of the operation.

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
        """Adds a 2-D convolution (cross-correlation) over the last two axes.

        Args:
            x: [N, C, H, W].
            w: [O, C / groups, kernel height, kernel width].
            bias: [O].
            stride: step of the window, in elements; one number or two.
            padding: zeros on both sides, in elements; one number or two.
            dilation: distance of taps, in elements; one number or two.
            groups: channels are split into so many independent convolutions.
            name: name of the operation.

        Returns:
            Tensor of shape [N, O, output height, output width].

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        pads = _pair("padding", padding, 0)
        if x.ndim != 4 or w.ndim != 4:
            raise user_error("an image has the axes N, C, H, W, the weights O, I, H, W", place="conv2d",
                             value=f"{x!r} and {w!r}", suggestion="Add missing axes by x.reshape(1, ...)")  # fmt: skip
        result: Tensor = self.op(
            "convolution",
            x,
            w,
            *([] if bias is None else [bias]),
            name=name,
            x_labels="NCHW",
            w_labels="OIHW",
            y_labels="NCHW",
            strides=_pair("stride", stride),
            pads=[pads[0], pads[0], pads[1], pads[1]],
            window_dilation=_pair("dilation", dilation),
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
        """Adds 2-D pooling over the last two axes.

        Args:
            x: [N, C, H, W].
            window: height and width in elements.
            stride: step in elements; the window by default.
            padding: neutral elements on both sides.
            combiner: "maximum", "minimum", "add" or "multiply".
            name: name of the operation.

        Returns:
            Tensor of shape [N, C, output height, output width].

        Raises:
            UserError: for a window that does not fit.
        """
        steps, pads = _pair("stride", window if stride is None else stride), _pair("padding", padding, 0)
        result: Tensor = self.op(
            "window_reduce",
            x,
            name=name,
            window=[1, 1, *_pair("window", window)],
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
        """Adds a layer normalization over the last axis.

        Args:
            x: [..., n].
            scale: [n].
            bias: [n].
            epsilon: added to the variance.
            name: name of the operation.

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
        kv_len: Tensor | int | None = None,
        pages: Tensor | None = None,
        lse: bool = False,
        name: str = "",
        **more: Any,
    ) -> Any:
        """Adds scaled dot-product attention.

        Args:
            q: [B, H, S, D].
            k: [B, G, T, D], H a multiple of G; with pages [N, G, keys of a page, D].
            v: [B, G, T, E]; with pages [N, G, keys of a page, E].
            mask: broadcastable to [B, H, S, T]; bool keeps, float is added.
            causal: hide keys after the query. Queries are the last ones of their row's keys unless causal_offset is
                set.
            kv_len: number of existing keys, a number or integers [B]; later keys are neither read nor computed.
            pages: integers [B, P]: key t of row b lies in page `pages[b, t // keys of a page]`, T = P * keys of a page.
                Entries after kv_len may hold anything.
            lse: whether to return also the logarithm of each row's sum of exponentials.
            name: name of the operation.
            more: other attributes of kind attention (scale, window, soft_cap, ...).

        Returns:
            Tensor of shape [B, H, S, E]; with lse also [B, H, S], f32 or wider, -inf for rows without visible keys.

        Raises:
            UserError: for shapes or dtypes that do not fit.
        """
        if kv_len is not None and not isinstance(kv_len, Tensor):
            more["kv_len"], kv_len = integer("kv_len", kv_len, 0), None
        operands: list[Tensor | None] = [q, k, v, mask, kv_len, pages]
        while operands[-1] is None:
            operands.pop()
        return self.op("attention", *operands, name=name, results=2 if lse else 1, causal=causal, **more)

    def broadcast(self, x: Tensor, shape: Sequence[int], name: str = "") -> Tensor:
        """Broadcasts x to a shape, like numpy's broadcast_to.

        Args:
            x: its axes align with the last ones of `shape`.
            shape: extents in elements.
            name: name of the operation.

        Returns:
            Tensor of that shape.

        Raises:
            UserError: for shapes that do not fit.
        """
        shape = extents(shape, "shape")
        missing = len(shape) - x.ndim
        dims = list(range(missing, len(shape)))
        result: Tensor = self.op("broadcast", x, name=name, shape=list(shape), dims=dims)
        return result


def _pair(name: str, value: int | Sequence[int], least: int = 1) -> list[int]:
    pair = list(islice(value, 3)) if isinstance(value, Sequence) else [value, value]
    if len(pair) != 2:
        raise user_error("not one number or two", place=name, value=shown(value), allowed="one number, or two")
    return [integer(f"{name} of the {'width' if axis else 'height'}", one, least) for axis, one in enumerate(pair)]
