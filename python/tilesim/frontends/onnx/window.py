"""Convolutions and pooling of ONNX."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...base.errors import user_error
from ...graph.building import bounded, convolved, scattered
from ...graph.tensor import Tensor
from .scope import OnnxNode, OnnxScope, Value, handles

TAPS = 4096  # most elements of a window that is unrolled element by element


class Window:
    """Kernel, strides, dilations and pads of a node, with `auto_pad` resolved."""

    def __init__(self, node: OnnxNode, extents: Sequence[int], kernel: Sequence[int]) -> None:
        """Reads the attributes of a node."""
        rank = len(extents)
        self.kernel = list(kernel)
        self.strides = node.integers("strides", [1] * rank)
        self.dilations = node.integers("dilations", [1] * rank)
        pads = node.integers("pads", [0] * (2 * rank))
        for name, values, count in (
            ("kernel_shape", self.kernel, rank),
            ("strides", self.strides, rank),
            ("dilations", self.dilations, rank),
            ("pads", pads, 2 * rank),
        ):
            if len(values) != count:
                raise user_error(
                    f"attribute '{name}' has the wrong length",
                    place=node.place,
                    value=str(values),
                    allowed=f"{count} integers",
                )
        if min([*self.strides, *self.dilations, *self.kernel], default=1) < 1:
            raise user_error("strides, dilations and kernels must be positive", place=node.place)
        self.low, self.high = pads[:rank], pads[rank:]
        self.extra = [0] * rank  # padding at the end for the last window of ceil_mode
        auto = node.text("auto_pad", "NOTSET")
        reach = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        for i, extent in enumerate(extents):
            if auto in ("SAME_UPPER", "SAME_LOWER"):
                outputs = -(-extent // self.strides[i])
                total = max(0, (outputs - 1) * self.strides[i] + reach[i] - extent)
                self.low[i] = total // 2 if auto == "SAME_UPPER" else total - total // 2
                self.high[i] = total - self.low[i]
            elif auto == "VALID":
                self.low[i] = self.high[i] = 0
            if node.integer("ceil_mode"):
                span = extent + self.low[i] + self.high[i] - reach[i]
                outputs = -(-span // self.strides[i]) + 1
                if (outputs - 1) * self.strides[i] >= extent + self.low[i]:  # that window would start in the padding
                    outputs -= 1
                self.extra[i] = max(0, (outputs - 1) * self.strides[i] - span)
            padded = extent + self.low[i] + self.high[i] + self.extra[i]
            if padded < reach[i] and (padded, reach[i]) != (0, 1):
                raise user_error(
                    "the window is larger than the padded operand",
                    place=node.place,
                    value=str(reach[i]),
                    allowed=f"at most {padded} on axis {i + 2}",
                )

    @property
    def pads(self) -> list[int]:
        """Low and high padding of each axis in turn."""
        return [pad for i in range(len(self.low)) for pad in (self.low[i], self.high[i] + self.extra[i])]


@handles("Conv")
def conv(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Convolves an input [N, C, ..] with a weight [O, I, ..]."""
    x, w, bias = scope.get(node, 0), scope.get(node, 1), scope.get(node, 2)
    return [convolution(scope, node, x, w, bias)]


def convolution(scope: OnnxScope, node: OnnxNode, x: Tensor, w: Tensor, bias: Tensor | None, **more: Any) -> Tensor:
    """Builds one convolution with the node's window."""
    window = Window(node, x.shape[2:], w.shape[2:])
    return convolved(
        scope.op, x, w, bias, strides=window.strides, pads=window.pads, window_dilation=window.dilations,
        groups=node.integer("group", 1), **more,
    )  # fmt: skip


@handles("ConvTranspose")
def conv_transpose(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds the gradient of a convolution: a dilated input and a reversed kernel."""
    x, w, bias = scope.get(node, 0), scope.get(node, 1), scope.get(node, 2)
    rank, groups = x.ndim - 2, node.integer("group", 1)
    strides, dilations = node.integers("strides", [1] * rank), node.integers("dilations", [1] * rank)
    added, pads = node.integers("output_padding", [0] * rank), node.integers("pads", [0] * (2 * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
    low, high = pads[:rank], pads[rank:]
    wanted, auto = node.integers("output_shape")[-rank:], node.text("auto_pad", "NOTSET")
    for i in range(rank):
        whole = (x.shape[2 + i] - 1) * strides[i] + reach[i] + added[i]
        if wanted or auto in ("SAME_UPPER", "SAME_LOWER"):
            target = wanted[i] if wanted else x.shape[2 + i] * strides[i]
            total = max(0, whole - target)
            high[i] = total // 2 if auto != "SAME_UPPER" else total - total // 2
            low[i] = total - high[i]
            if wanted and whole < target:
                added[i] += target - whole
    channels, outputs = x.shape[1], w.shape[1]
    grouped = scope.reshape(w, [groups, channels // groups, outputs, *w.shape[2:]])
    swapped = scope.transpose(grouped, [0, 2, 1, *range(3, 3 + rank)])
    kernel = scope.reshape(swapped, [groups * outputs, channels // groups, *w.shape[2:]])
    kernel = scope.op("reverse", kernel, dims=list(range(2, 2 + rank)))
    pads = [p for i in range(rank) for p in (reach[i] - 1 - low[i], reach[i] - 1 - high[i] + added[i])]
    return [
        convolved(
            scope.op, x, kernel, bias, strides=[1] * rank, pads=pads, input_dilation=strides,
            window_dilation=dilations, groups=groups,
        )
    ]  # fmt: skip


def over(window: Window, lead: int = 2) -> dict[str, list[int]]:
    """Extends the settings of a window to all axes of [N, C, ..]."""
    ones = [1] * lead
    return {
        "window": [*ones, *window.kernel],
        "strides": [*ones, *window.strides],
        "window_dilation": [*ones, *window.dilations],
        "pads": [0] * (2 * lead) + window.pads,
    }


@handles("MaxPool")
def max_pool(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Computes maxima, and their positions as an optional second result."""
    x = scope.get(node, 0)
    window = Window(node, x.shape[2:], node.integers("kernel_shape"))
    y = scope.op("window_reduce", x, combiner="maximum", **over(window))
    if len(node.outputs) < 2:
        return [y]
    return [y, max_positions(scope, node, x, window, y)]


def max_positions(scope: OnnxScope, node: OnnxNode, x: Tensor, window: Window, y: Tensor) -> Tensor:
    """Finds the offset of each window's first maximum in the flattened tensor, tap by tap."""
    n, c, *extents = x.shape
    bounded(math.prod(y.shape), "a table of positions")
    if math.prod(window.kernel) > TAPS:
        raise Unsupported(f"positions of maxima in windows of more than {TAPS} taps")
    rank = len(extents)
    order = list(range(rank))
    if node.integer("storage_order"):
        order = order[::-1]
    strides = {}
    step = 1
    for axis in order[::-1]:
        strides[axis], step = step, step * extents[axis]
    lead = np.arange(n * c, dtype=np.int64).reshape(n, c, *[1] * rank) * step
    positions = [
        np.arange(count, dtype=np.int64) * window.strides[i] - window.low[i] for i, count in enumerate(y.shape[2:])
    ]
    inner = x.shape[2:]
    found = scope.broadcast(scope.scalar(-1, "i64"), y.shape)
    lowest = scope.like(
        float("-inf")
        if x.dtype[0] in "fb"
        else np.iinfo(x.dtype.replace("i", "int").replace("u", "uint").replace("uuint", "uint")).min,
        x,
    )
    padded = scope.op(
        "pad",
        x,
        lowest,
        low=[0, 0, *window.low],
        high=[0, 0, *(a + b for a, b in zip(window.high, window.extra, strict=True))],
    )
    for tap in itertools.product(*(range(size) for size in window.kernel)):
        start = [0, 0, *(t * d for t, d in zip(tap, window.dilations, strict=True))]
        limit = [n, c, *(start[2 + i] + (y.shape[2 + i] - 1) * window.strides[i] + 1 for i in range(rank))]
        values = scope.slice(padded, start, limit, [1, 1, *window.strides])
        offset, inside = np.zeros([1] * rank, np.int64), np.ones([1] * rank, bool)
        for i in range(rank):
            shape = [-1 if axis == i else 1 for axis in range(rank)]
            at = (positions[i] + tap[i] * window.dilations[i]).reshape(shape)
            offset, inside = offset + at * strides[i], inside & (at >= 0) & (at < inner[i])
        index = scope.constant(np.broadcast_to(lead + offset, y.shape).copy())
        first = scope.apply("equal", found, scope.scalar(-1, "i64"))
        hit = scope.apply(
            "logical_and", scope.apply("equal", values, y), scope.constant(np.broadcast_to(inside, y.shape[2:]).copy())
        )
        found = scope.apply("select", scope.apply("logical_and", hit, first), index, found)
    return found


@handles("AveragePool")
def average_pool(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Averages over the elements of a window, with or without its padding."""
    x = scope.get(node, 0)
    window = Window(node, x.shape[2:], node.integers("kernel_shape"))
    total = scope.op("window_reduce", x, combiner="add", **over(window))
    return [scope.apply("divide", total, scope.tensor(tap_counts(node, window, x, total), x.dtype))]


def tap_counts(node: OnnxNode, window: Window, x: Tensor, y: Tensor) -> Any:
    """Counts the elements of each window, including padding if the node's attribute says so."""
    counts: Any = np.ones([1] * (x.ndim - 2))
    padding = node.integer("count_include_pad") != 0
    bounded(math.prod(y.shape[2:]) + max(y.shape[2:], default=0) * max(window.kernel, default=0), "a table of taps")
    for i, outputs in enumerate(y.shape[2:]):
        taps = np.arange(window.kernel[i]) * window.dilations[i]
        at = np.arange(outputs)[:, None] * window.strides[i] - window.low[i] + taps[None, :]
        low, high = (-window.low[i], x.shape[2 + i] + window.high[i]) if padding else (0, x.shape[2 + i])
        counts = counts * ((at >= low) & (at < high)).sum(1).reshape(
            [-1 if axis == i else 1 for axis in range(x.ndim - 2)]
        )
    return counts


@handles("LpPool", "GlobalLpPool")
def lp_pool(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Computes the p-norm of each window."""
    x, p = scope.get(node, 0), node.number("p", 2.0)
    powers = scope.apply("power", scope.apply("abs", x), scope.like(p, x))
    if node.op == "GlobalLpPool":
        total = scope.reduce(powers, range(2, x.ndim), "add")
    else:
        total = scope.op(
            "window_reduce", powers, combiner="add", **over(Window(node, x.shape[2:], node.integers("kernel_shape")))
        )
    return [scope.apply("power", total, scope.like(1.0 / p, x))]


@handles("GlobalAveragePool", "GlobalMaxPool")
def global_pool(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Pools over all spatial axes."""
    x = scope.get(node, 0)
    return [scope.reduce(x, range(2, x.ndim), "mean" if node.op == "GlobalAveragePool" else "maximum")]


@handles("MaxUnpool")
def max_unpool(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Scatters values to their indices in a tensor of zeros."""
    x, indices = scope.get(node, 0), scope.get(node, 1)
    rank = x.ndim - 2
    kernel, pads = node.integers("kernel_shape"), node.integers("pads", [0] * (2 * rank))
    strides = node.integers("strides", [1] * rank)
    natural = [
        *x.shape[:2],
        *((x.shape[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + rank] for i in range(rank)),
    ]
    shape = scope.integers(node, 2, "the shape") if node.has(2) else natural
    count = math.prod(natural)
    zeros = scope.broadcast(scope.like(0, x), [count])
    index, updates = scope.reshape(indices, [math.prod(x.shape), 1]), scope.reshape(x, [math.prod(x.shape)])
    flat = scattered(scope.op, zeros, index, updates, [0], 1, combiner="set")
    whole = scope.reshape(flat, natural)
    if shape == natural:
        return [whole]
    return [scope.op("pad", whole, low=[0] * x.ndim, high=[a - b for a, b in zip(shape, natural, strict=True)])]
