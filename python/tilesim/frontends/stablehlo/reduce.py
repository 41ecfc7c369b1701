"""Reductions, windows, sorts and maps of StableHLO."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..._core import Unsupported
from ...base.dtypes import FLOATS, NUMPY
from ...graph.tensor import Tensor
from .bodies import arg_combiner, combiner_of, producer, promoted, sort_order
from .control import ranked, split_captured
from .elementwise import from_total_order, total_order
from .scope import Complex, Scope, Value, each, flat, handles, named, rebuilt
from .types import Shaped, integer, integers, text

WINDOW_LIMIT = 4096  # most elements of a window if its body is custom
Body = Callable[[list[Value], list[Value]], list[Value]]


def neutral(combiner: str, dtype: str) -> Any:
    """The neutral element of a combiner."""
    if combiner in ("add", "logical_or"):
        return 0
    if combiner in ("multiply", "logical_and"):
        return 1
    low = combiner == "maximum"
    if dtype in FLOATS:
        return -np.inf if low else np.inf
    if dtype == "bool":
        return not low
    info = ml_dtypes.iinfo(NUMPY[dtype])
    return info.min if low else info.max


def is_neutral(scope: Scope, init: Tensor, combiner: str) -> bool:
    """Whether a start value is the neutral element."""
    known = scope.array(init)
    return known is not None and bool(known == np.asarray(neutral(combiner, init.dtype)).astype(known.dtype))


def joined(scope: Scope, combiner: str, x: Tensor, init: Tensor) -> Tensor:
    """Combines x with its start value."""
    return x if is_neutral(scope, init, combiner) else scope.apply(combiner, x, init)


def body_of(scope: Scope, block: Any) -> Body:
    """Converts a body to a function of tensors of any shape."""

    def combine(left: list[Value], right: list[Value]) -> list[Value]:
        shape = np.broadcast_shapes(*(x.shape for x in (*left, *right)))
        return [
            each(lambda part: scope.broadcast(part, shape), value) for value in scope.inline(block, [*left, *right])
        ]

    return combine


def folded(scope: Scope, xs: list[Value], dim: int, body: Body) -> list[Value]:
    """Reduces one axis to extent 1 by halving; StableHLO does not define the order."""

    def parts(start: int, limit: int) -> list[Value]:
        return [each(lambda part: scope.along(part, dim, start, limit), x) for x in xs]

    while xs[0].shape[dim] > 1:
        extent = xs[0].shape[dim]
        half = extent // 2
        found = body(parts(0, half), parts(half, 2 * half))
        if extent % 2:
            rest = parts(extent - 1, extent)
            found = [each(lambda *pair: scope.concat(pair, dim), a, b) for a, b in zip(found, rest, strict=True)]
        xs = found
    return xs


def combiners_of(block: Any, xs: Sequence[Value]) -> list[str | None]:
    """The combiner of each result; a complex result allows only sums, which act on both parts separately."""
    found = [combiner_of(block, i, len(xs)) for i in range(len(xs))]
    return [None if isinstance(x, Complex) and name != "add" else name for x, name in zip(xs, found, strict=True)]


def without(shape: Sequence[int], dims: Sequence[int]) -> list[int]:
    """A shape without some axes."""
    return [extent for axis, extent in enumerate(shape) if axis not in dims]


@handles("stablehlo.reduce")
def reduce(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds one operation for known combiners and index searches, else a tree of elementwise operations."""
    block = op.regions[0].blocks[0]
    operands = promoted(scope, block, [scope.value(operand) for operand in op.operands])
    count = len(operands) // 2
    xs, inits = operands[:count], operands[count:]
    dims = integers(op, "dimensions")
    combiners = combiners_of(block, xs)

    def reduced(x: Tensor, init: Tensor, combiner: str) -> Tensor:
        return joined(scope, combiner, scope.op("reduce", x, dims=dims, combiner=combiner) if dims else x, init)

    if all(combiners):
        return [
            each(lambda x, init, name=name: reduced(x, init, name), x, init)
            for x, init, name in zip(xs, inits, combiners, strict=True)
        ]
    if count == 2 and len(dims) == 1 and all(isinstance(x, Tensor) for x in xs):
        found = index_search(scope, op, xs, inits, dims[0])
        if found is not None:
            return found
    return general(scope, xs, inits, dims, body_of(scope, block))


def index_search(scope: Scope, op: Any, xs: list[Tensor], inits: list[Tensor], dim: int) -> list[Tensor] | None:
    """Builds argmax or argmin over values and their positions; returns None for another body."""
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


def general(scope: Scope, xs: list[Value], inits: list[Value], dims: Sequence[int], body: Body) -> list[Value]:
    """Reduces with a custom body, axis by axis; the start value is the left operand."""
    shape = without(xs[0].shape, dims)
    start = [each(lambda part: scope.broadcast(part, shape), init) for init in inits]
    if any(xs[0].shape[dim] == 0 for dim in dims):
        return start
    for dim in dims:
        xs = folded(scope, xs, dim, body)
    return body(start, [each(lambda part: scope.reshape(part, shape), x) for x in xs])


def window_settings(op: Any, rank: int) -> dict[str, list[int]]:
    """Returns sizes, strides, pads and dilations of an operation's window."""
    return {
        "window": integers(op, "window_dimensions"),
        "strides": integers(op, "window_strides", [1] * rank),
        "pads": integers(op, "padding", [0] * (2 * rank)),
        "base": integers(op, "base_dilations", [1] * rank),
        "window_dilation": integers(op, "window_dilations", [1] * rank),
    }


@handles("stablehlo.reduce_window")
def reduce_window(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds pooling or running sums; a custom body runs once per window element."""
    block = op.regions[0].blocks[0]
    operands = promoted(scope, block, [scope.value(operand) for operand in op.operands])
    count = len(operands) // 2
    xs, inits = operands[:count], operands[count:]
    s = window_settings(op, xs[0].ndim)
    combiners = combiners_of(block, xs)
    for init, combiner in zip(inits, combiners, strict=True):
        plain = combiner in ("add", "multiply", "maximum", "minimum")
        if not plain or not all(is_neutral(scope, part, str(combiner)) for part in flat([init])):
            return tapped(scope, xs, inits, s, body_of(scope, block))

    def windowed(x: Tensor, init: Tensor, combiner: str) -> Tensor:
        return cumulative(scope, x, s, combiner) or pooled(scope, x, init, s, combiner)

    return [
        each(lambda x, init, name=name: windowed(x, init, name), x, init)
        for x, init, name in zip(xs, inits, combiners, strict=True)
    ]


def cumulative(scope: Scope, x: Tensor, s: dict[str, list[int]], combiner: str) -> Tensor | None:
    """Builds a cumulative operation if windows extend from each element to one end of the axis, else returns None."""
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
    """Fills the borders and holes of x with the start value."""
    low, high, interior = s["pads"][::2], s["pads"][1::2], [step - 1 for step in s["base"]]
    if not any(low) and not any(high) and not any(interior):
        return x
    result: Tensor = scope.op("pad", x, init, low=low, high=high, interior=interior)
    return result


def pooled(scope: Scope, x: Tensor, init: Tensor, s: dict[str, list[int]], combiner: str) -> Tensor:
    """Applies a known combiner to windows."""
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


def taps_of(s: dict[str, list[int]], shape: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yields start and limit along padded axes for each position in the window, in order."""
    taps = int(np.prod(s["window"]))
    if taps > WINDOW_LIMIT:
        raise Unsupported(f"a window of {taps} elements with a custom body: at most {WINDOW_LIMIT}")
    counts = window_counts(s, shape)
    for tap in itertools.product(*(range(size) for size in s["window"])):
        start = [position * step for position, step in zip(tap, s["window_dilation"], strict=True)]
        yield (
            start,
            [
                first + (number - 1) * stride + 1 if number else first
                for first, number, stride in zip(start, counts, s["strides"], strict=True)
            ],
        )


def window_counts(s: dict[str, list[int]], shape: Sequence[int]) -> list[int]:
    """Number of windows along each padded axis."""
    reach = [(size - 1) * step + 1 for size, step in zip(s["window"], s["window_dilation"], strict=True)]
    return [
        max(0, (extent - far) // stride + 1) for extent, far, stride in zip(shape, reach, s["strides"], strict=True)
    ]


def tapped(scope: Scope, xs: list[Value], inits: list[Value], s: dict[str, list[int]], body: Body) -> list[Value]:
    """Reduces windows with a custom body: one elementwise step per window element."""
    xs = [each(lambda x, init: padded(scope, x, init, s), x, init) for x, init in zip(xs, inits, strict=True)]
    counts = window_counts(s, xs[0].shape)
    total = [each(lambda part: scope.broadcast(part, counts), init) for init in inits]
    if 0 in counts:
        return total
    for start, limit in taps_of(s, xs[0].shape):
        total = body(
            total,
            [each(lambda x, a=start, b=limit: scope.slice(x, a, b, s["strides"]), x) for x in xs],
        )
    return total


@handles("stablehlo.select_and_scatter")
def select_and_scatter(scope: Scope, op: Any) -> Sequence[Value]:
    """Builds the gradient of max or min pooling; custom bodies run once per window element."""
    x = scope.value(op.operands[0])
    source, init = promoted(scope, op.regions[1].blocks[0], [scope.value(operand) for operand in list(op.operands)[1:]])
    block = op.regions[0].blocks[0]
    first, swapped = list(block.operations), {"GE": "LE", "LE": "GE"}
    direction = text(first[0].operation, "comparison_direction") if len(first) == 2 else ""  # ties select the first
    order = [list(block.arguments), list(block.arguments)[::-1]].index(list(first[0].operands)) if direction else 0
    select = {"GE": "maximum", "LE": "minimum"}.get(swapped.get(direction, "") if order else direction)
    combiner = combiner_of(op.regions[1].blocks[0], 0, 1)
    s = window_settings(op, x.ndim)
    if flat([x])[0].dtype != flat([source])[0].dtype:
        select = None
    if isinstance(x, Complex) or select is None or combiner != "add" or not is_neutral(scope, init, "add"):
        bodies = [body_of(scope, region.blocks[0]) for region in op.regions]
        return [selected_and_scattered(scope, x, source, init, s, bodies)]
    return [
        scope.op("window_scatter", x, source, window=s["window"], strides=s["strides"], pads=s["pads"], select=select)
    ]


def selected_and_scattered(
    scope: Scope, x: Value, source: Value, init: Value, s: dict[str, list[int]], bodies: Sequence[Body]
) -> Value:
    """Selects an element of each window by the first body, and combines its source values by the second body."""
    low, high = s["pads"][::2], s["pads"][1::2]

    def pad(part: Tensor, fill: Tensor) -> Tensor:
        return scope.op("pad", part, fill, low=low, high=high, interior=[0] * part.ndim)

    inside = pad(scope.broadcast(scope.scalar(True, "bool"), x.shape), scope.scalar(False, "bool"))
    whole = each(pad, x, each(lambda part: scope.scalar(0, part.dtype), x))
    taps = list(taps_of(s, inside.shape))
    best, at = None, scope.broadcast(scope.scalar(-1, "i32"), source.shape)
    for number, (start, limit) in enumerate(taps):
        value = each(lambda part, a=start, b=limit: scope.slice(part, a, b, s["strides"]), whole)
        wins = scope.slice(inside, start, limit, s["strides"])
        if best is not None:
            kept = bodies[0]([best], [value])[0]
            open_yet = scope.apply("less", at, scope.scalar(0, "i32"))
            wins = scope.apply(
                "logical_and", wins, scope.apply("logical_or", open_yet, scope.apply("logical_not", kept))
            )
        at = scope.apply("select", wins, scope.scalar(number, "i32"), at)
        best = value if best is None else each(lambda a, b, w=wins: scope.apply("select", w, a, b), value, best)
    result = each(lambda part: scope.broadcast(part, inside.shape), init)
    for number, (start, limit) in enumerate(taps):
        sides = {
            "low": start,
            "high": [extent - end for extent, end in zip(inside.shape, limit, strict=True)],
            "interior": [stride - 1 for stride in s["strides"]],
        }
        here = scope.apply("equal", at, scope.scalar(number, "i32"))
        where = scope.op("pad", here, scope.scalar(False, "bool"), **sides)
        given = each(lambda part, to=sides: scope.op("pad", part, scope.scalar(0, part.dtype), **to), source)
        combined = bodies[1]([result], [given])[0]
        result = each(lambda new, old, w=where: scope.apply("select", w, new, old), combined, result)
    limits = [first + extent for first, extent in zip(low, x.shape, strict=True)]
    return each(lambda part: scope.slice(part, low, limits), result)


@handles("stablehlo.sort")
def sort(scope: Scope, op: Any) -> Sequence[Value]:
    """Sorts by keys if the comparator is a known order of keys, else calls the comparator."""
    xs = [scope.value(operand) for operand in op.operands]
    dim, block = integer(op, "dimension", -1), op.regions[0].blocks[0]
    dim = dim + xs[0].ndim if dim < 0 else dim
    order = None if any(isinstance(x, Complex) for x in xs) else sort_order(scope.module, block)
    if order is None:
        return by_comparator(scope, op, xs, dim)
    keys, descending, signed = order
    floats = [signed and i < keys and x.dtype in FLOATS for i, x in enumerate(xs)]
    operands = [total_order(scope, x) if turned else x for x, turned in zip(xs, floats, strict=True)]
    found = scope.op("sort", *operands, results=len(xs), dim=dim, keys=keys, descending=descending, stable=True)
    found = list(found) if isinstance(found, tuple) else [found]
    return [
        from_total_order(scope, y, x.dtype) if turned else y for x, y, turned in zip(xs, found, floats, strict=True)
    ]


def by_comparator(scope: Scope, op: Any, xs: list[Value], dim: int) -> list[Value]:
    """Sorts with the comparator as a graph function; captured scalars become operands."""
    block = op.regions[0].blocks[0]
    passed, remade = split_captured(scope, [block])
    outer = [each(lambda part: scope.broadcast(part, xs[0].shape), scope.value(mlir)) for mlir in passed]
    name = scope.module.fresh("function.comparator")
    inner = Scope(scope.module, scope.module.root.function(name))

    def formal(x: Value, stem: str) -> tuple[Value, Value]:
        """Adds inputs for two elements in the order that operation sort expects."""
        pairs = [
            [inner.builder.input(f"{stem}{i}{end}", (), part.dtype) for end in "ab"] for i, part in enumerate(flat([x]))
        ]
        first, second = ([pair[side] for pair in pairs] for side in (0, 1))
        return (Complex(*first), Complex(*second)) if isinstance(x, Complex) else (first[0], second[0])

    arguments = [formal(x, f"x{i}") for i, x in enumerate(xs)]
    for argument, value in zip(block.arguments, itertools.chain(*arguments), strict=True):
        inner.values[argument] = value
    for i, (mlir, value) in enumerate(zip(passed, outer, strict=True)):
        inner.values[mlir] = formal(value, f"outer{i}")[0]
    for mlir in remade:
        inner.values[mlir] = inner.constant(scope.array(scope.real(mlir)))
    (before,) = inner.run(block)
    inner.builder.output(inner.op("copy", before), "before")
    operands = flat([*xs, *outer])
    ids = [x.value for x in operands]
    values = scope.builder.core.op("sort", ids, {"dim": dim, "stable": True}, "", len(ids), [name])
    types = [result.type for result in op.results]
    return rebuilt(types, [Tensor(scope.builder, value) for value in values][: len(flat(xs))])


@handles("chlo.top_k", "mhlo.topk")
def top_k(scope: Scope, op: Any) -> Sequence[Value]:
    """Finds the largest elements along the last axis."""
    largest = "largest" not in op.attributes or bool(op.attributes["largest"].value)
    (x,) = scope.operands(op)
    return ranked(scope, x, integer(op, "k"), Shaped(op.results[1].type, "chlo.top_k").dtype, largest)


@handles("stablehlo.map")
def mapped(scope: Scope, op: Any) -> Sequence[Value]:
    """Applies a body to every element."""
    shape = Shaped(op.results[0].type, "stablehlo.map").shape
    found = scope.inline(op.regions[0].blocks[0], [scope.value(operand) for operand in op.operands])
    return [each(lambda part: scope.broadcast(part, shape), value) for value in found]
