"""Reductions, windows, sorts and maps of StableHLO."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...base.dtypes import FLOATS, NUMPY
from ...graph.tensor import Tensor
from .bodies import arg_combiner, combiner_of, producer, sort_order
from .scope import Scope, Value, handles, named
from .types import Shaped, integer, integers

WINDOW_LIMIT = 4096  # taps of a window whose body is built tap by tap
Body = Callable[[list[Tensor], list[Tensor]], list[Tensor]]


def neutral(combiner: str, dtype: str) -> Any:
    """The start value that changes nothing."""
    if combiner in ("add", "logical_or"):
        return 0
    if combiner in ("multiply", "logical_and"):
        return 1
    low = combiner == "maximum"
    if dtype in FLOATS:
        return -np.inf if low else np.inf
    if dtype == "bool":
        return not low
    info = np.iinfo(NUMPY[dtype])
    return info.min if low else info.max


def is_neutral(scope: Scope, init: Tensor, combiner: str) -> bool:
    """Whether a start value is known to change nothing."""
    known = scope.array(init)
    return known is not None and bool(known == np.asarray(neutral(combiner, init.dtype)).astype(known.dtype))


def joined(scope: Scope, combiner: str, x: Tensor, init: Tensor) -> Tensor:
    """x combined with its start value."""
    return x if is_neutral(scope, init, combiner) else scope.apply(combiner, x, init)


def body_of(scope: Scope, block: Any) -> Body:
    """A body as a function of tensors of any shape."""

    def combine(left: list[Tensor], right: list[Tensor]) -> list[Tensor]:
        found = scope.inline(block, [*left, *right])
        return [scope.broadcast(value, np.broadcast_shapes(*(x.shape for x in (*left, *right)))) for value in found]

    return combine


def folded(scope: Scope, xs: list[Tensor], dim: int, body: Body) -> list[Tensor]:
    """One axis reduced to extent 1 by halves; StableHLO leaves the order of a reduction open."""
    while xs[0].shape[dim] > 1:
        extent = xs[0].shape[dim]
        half = extent // 2
        left = [scope.along(x, dim, 0, half) for x in xs]
        right = [scope.along(x, dim, half, 2 * half) for x in xs]
        found = body(left, right)
        if extent % 2:
            rest = [scope.along(x, dim, extent - 1, extent) for x in xs]
            found = [scope.concat([a, b], dim) for a, b in zip(found, rest, strict=True)]
        xs = found
    return xs


def without(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    """A shape without some axes."""
    return [extent for axis, extent in enumerate(shape) if axis not in dims]


@handles("stablehlo.reduce")
def reduce(scope: Scope, op: Any) -> Sequence[Value]:
    """Known combiners and index searches are one operation; any other body is a tree of elementwise ones."""
    operands = scope.operands(op)
    count = len(operands) // 2
    xs, inits = operands[:count], operands[count:]
    dims, block = integers(op, "dimensions"), op.regions[0].blocks[0]
    combiners = [combiner_of(block, i, count) for i in range(count)]
    if all(combiners):
        results = []
        for x, init, combiner in zip(xs, inits, combiners, strict=True):
            reduced = scope.op("reduce", x, dims=dims, combiner=combiner) if dims else x
            results.append(joined(scope, str(combiner), reduced, init))
        return results
    if count == 2 and len(dims) == 1:
        found = index_search(scope, op, xs, inits, dims[0])
        if found is not None:
            return found
    return general(scope, xs, inits, dims, body_of(scope, block))


def index_search(scope: Scope, op: Any, xs: list[Tensor], inits: list[Tensor], dim: int) -> list[Tensor] | None:
    """argmax or argmin over values and their positions."""
    source = producer(op.operands[1])
    positions = source is not None and named(source) == "stablehlo.iota" and integer(source, "iota_dimension") == dim
    first = scope.array(inits[1])
    if not positions or xs[0].shape[dim] == 0 or first is None or int(first) != 0:
        return None
    combiner = arg_combiner(scope.module, op.regions[0].blocks[0])
    if combiner is None or not is_neutral(scope, inits[0], combiner.replace("arg", "") + "imum"):
        return None
    value = scope.op("reduce", xs[0], dims=[dim], combiner=combiner.replace("arg", "") + "imum")
    searched = scope.convert(xs[0], "u8") if xs[0].dtype == "bool" else xs[0]
    return [value, scope.op("reduce", searched, dims=[dim], combiner=combiner, dtype=xs[1].dtype)]


def general(scope: Scope, xs: list[Tensor], inits: list[Tensor], dims: Sequence[int], body: Body) -> list[Tensor]:
    """Any body, axis by axis; the start value comes first, so that it is the left operand."""
    shape = without(xs[0].shape, dims)
    start = [scope.broadcast(init, shape) for init in inits]
    if any(xs[0].shape[dim] == 0 for dim in dims):
        return start
    for dim in dims:
        xs = folded(scope, xs, dim, body)
    return body(start, [scope.reshape(x, shape) for x in xs])


def window_settings(op: Any, rank: int) -> dict[str, list[int]]:
    """Sizes, strides, pads and dilations, with their defaults."""
    return {
        "window": integers(op, "window_dimensions"),
        "strides": integers(op, "window_strides", [1] * rank),
        "pads": integers(op, "padding", [0] * (2 * rank)),
        "base": integers(op, "base_dilations", [1] * rank),
        "window_dilation": integers(op, "window_dilations", [1] * rank),
    }


@handles("stablehlo.reduce_window")
def reduce_window(scope: Scope, op: Any) -> Sequence[Value]:
    """Pooling, running sums, and any other body tap by tap."""
    operands = scope.operands(op)
    count = len(operands) // 2
    xs, inits, block = operands[:count], operands[count:], op.regions[0].blocks[0]
    s = window_settings(op, xs[0].ndim)
    combiners = [combiner_of(block, i, count) for i in range(count)]
    results: list[Tensor] = []
    for x, init, combiner in zip(xs, inits, combiners, strict=True):
        plain = combiner in ("add", "multiply", "maximum", "minimum") and is_neutral(scope, init, combiner)
        if not plain or combiner is None:
            return tapped(scope, xs, inits, s, body_of(scope, block))
        results.append(cumulative(scope, x, s, combiner) or pooled(scope, x, init, s, combiner))
    return results


def cumulative(scope: Scope, x: Tensor, s: dict[str, list[int]], combiner: str) -> Tensor | None:
    """A window that reaches from each element to one end of its axis is a running combination."""
    axes = [axis for axis, size in enumerate(s["window"]) if size > 1]
    if len(axes) != 1 or set(s["strides"]) | set(s["base"]) | set(s["window_dilation"]) != {1}:
        return None
    axis, extent = axes[0], x.shape[axes[0]]
    pads = [pair for other, pair in enumerate(zip(s["pads"][::2], s["pads"][1::2], strict=True)) if other != axis]
    low, high = s["pads"][2 * axis : 2 * axis + 2]
    if any(pad != (0, 0) for pad in pads) or s["window"][axis] != extent or {low, high} != {0, extent - 1}:
        return None
    result: Tensor = scope.op("cumulative", x, dim=axis, combiner=combiner, reverse=high > 0)
    return result


def padded(scope: Scope, x: Tensor, init: Tensor, s: dict[str, list[int]]) -> Tensor:
    """x with its borders and holes filled with the start value."""
    low, high, interior = s["pads"][::2], s["pads"][1::2], [step - 1 for step in s["base"]]
    if not any(low) and not any(high) and not any(interior):
        return x
    result: Tensor = scope.op("pad", x, init, low=low, high=high, interior=interior)
    return result


def pooled(scope: Scope, x: Tensor, init: Tensor, s: dict[str, list[int]], combiner: str) -> Tensor:
    """A known combiner over windows."""
    pads = s["pads"]
    if min(pads, default=0) < 0 or set(s["base"]) != {1}:
        x, pads = padded(scope, x, init, s), [0] * len(pads)
    result: Tensor = scope.op(
        "window_reduce",
        x,
        window=s["window"],
        strides=s["strides"],
        pads=pads,
        window_dilation=s["window_dilation"],
        combiner=combiner,
    )
    return result


def tapped(scope: Scope, xs: list[Tensor], inits: list[Tensor], s: dict[str, list[int]], body: Body) -> list[Tensor]:
    """Any body: one elementwise step per tap of the window."""
    taps = int(np.prod(s["window"]))
    if taps > WINDOW_LIMIT:
        raise Unsupported(f"a window of {taps} taps with a body of its own: at most {WINDOW_LIMIT}")
    xs = [padded(scope, x, init, s) for x, init in zip(xs, inits, strict=True)]
    reach = [(size - 1) * step + 1 for size, step in zip(s["window"], s["window_dilation"], strict=True)]
    counts = [
        max(0, (extent - far) // stride + 1)
        for extent, far, stride in zip(xs[0].shape, reach, s["strides"], strict=True)
    ]
    total = [scope.broadcast(init, counts) for init in inits]
    for tap in itertools.product(*(range(size) for size in s["window"])):
        start = [position * step for position, step in zip(tap, s["window_dilation"], strict=True)]
        limit = [
            first + (number - 1) * stride + 1 if number else first
            for first, number, stride in zip(start, counts, s["strides"], strict=True)
        ]
        total = body(total, [scope.slice(x, start, limit, s["strides"]) for x in xs])
    return total


@handles("stablehlo.select_and_scatter")
def select_and_scatter(scope: Scope, op: Any) -> Sequence[Value]:
    """The gradient of pooling: the extreme element of each window gets what arrives there."""
    x, source, init = scope.operands(op)
    chosen = {"GE": "maximum", "GT": "maximum", "LE": "minimum", "LT": "minimum"}
    from .types import text

    first = list(op.regions[0].blocks[0].operations)
    select = chosen.get(text(first[0].operation, "comparison_direction")) if len(first) == 2 else None
    combiner = combiner_of(op.regions[1].blocks[0], 0, 1)
    if select is None or combiner != "add" or not is_neutral(scope, init, "add"):
        raise Unsupported("a select_and_scatter other than sums at the extreme of windows")
    s = window_settings(op, x.ndim)
    return [
        scope.op("window_scatter", x, source, window=s["window"], strides=s["strides"], pads=s["pads"], select=select)
    ]


@handles("stablehlo.sort")
def sort(scope: Scope, op: Any) -> Sequence[Value]:
    """By keys where the comparator is an order of keys, else by the comparator."""
    xs, dim, block = scope.operands(op), integer(op, "dimension", -1), op.regions[0].blocks[0]
    dim = dim + xs[0].ndim if dim < 0 else dim
    order = sort_order(scope.module, block)
    if order is not None:
        found = scope.op("sort", *xs, results=len(xs), dim=dim, keys=order[0], descending=order[1], stable=True)
        return list(found) if isinstance(found, tuple) else [found]
    captured, name = scope.module.function_of(scope, block, "comparator")
    if captured:
        raise Unsupported("a comparator that uses values from outside")
    values = scope.builder.core.op("sort", [x.value for x in xs], {"dim": dim, "stable": True}, "", len(xs), [name])
    return [Tensor(scope.builder, value) for value in values]


@handles("chlo.top_k", "mhlo.topk")
def top_k(scope: Scope, op: Any) -> Sequence[Value]:
    """The largest along the last axis."""
    if "largest" in op.attributes and not bool(op.attributes["largest"].value):
        raise Unsupported(f"{op.operation.name} of the smallest")
    (x,) = scope.operands(op)
    dtype = Shaped(op.results[1].type, "chlo.top_k").dtype
    found: Sequence[Value] = scope.op("top_k", x, results=2, dim=x.ndim - 1, k=integer(op, "k"), dtype=dtype)
    return found


@handles("stablehlo.map")
def mapped(scope: Scope, op: Any) -> Sequence[Value]:
    """A body on every element."""
    shape = Shaped(op.results[0].type, "stablehlo.map").shape
    return [scope.broadcast(value, shape) for value in scope.inline(op.regions[0].blocks[0], scope.operands(op))]
