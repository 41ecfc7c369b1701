"""Operators of ONNX that move elements, and constants."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...base.errors import user_error
from ...graph.building import SMALL, bounded
from .elementwise import full
from .scope import OnnxNode, OnnxScope, Value, axis_of, dtype_of, handles

LIMIT = 1 << 32  # most elements of a tensor whose shape a constant gives


@handles("Constant")
def constant(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A constant tensor, number, or list of numbers."""
    for name, dtype in (("value_float", "f32"), ("value_int", "i64"), ("value_floats", "f32"), ("value_ints", "i64")):
        if name in node.attributes:
            return [scope.tensor(node.get(name), dtype)]
    if "value" not in node.attributes:
        raise Unsupported("a constant of sparse elements or text")
    return [scope.constant(scope.model.array(node.get("value"), node.place))]


@handles("ConstantOfShape")
def constant_of_shape(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A tensor of equal elements."""
    shape = checked(scope.integers(node, 0, "the shape"), node)
    value = scope.model.array(node.get("value"), node.place) if "value" in node.attributes else np.zeros(1, np.float32)
    if int(np.prod(shape)) <= SMALL:
        return [scope.constant(np.full(shape, value.reshape(())))]
    return [scope.broadcast(scope.constant(value.reshape(())), shape)]


def checked(shape: list[int], node: OnnxNode) -> list[int]:
    """Checks that a shape has no negative extent and at most LIMIT elements."""
    count = 1
    for extent in shape:
        count *= extent
        if extent < 0 or count > LIMIT:
            raise user_error("a shape is too large", place=node.place, value=str(shape), allowed=f"{LIMIT} elements")
    return shape


@handles("Shape", "Size")
def shape(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Returns the shape as a constant, because shapes are static."""
    x = scope.get(node, 0)
    if node.op == "Size":
        return [scope.scalar(int(np.prod(x.shape)), "i64")]
    end = node.get("end")
    return [scope.tensor(list(x.shape)[node.integer("start") : None if end is None else int(end)], "i64")]


@handles("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Views the same elements in another shape."""
    x = scope.get(node, 0)
    old = list(x.shape)
    if node.op == "Flatten":
        axis = node.integer("axis", 1)
        axis = axis + x.ndim if axis < 0 else axis
        return [scope.reshape(x, [int(np.prod(old[:axis])), int(np.prod(old[axis:]))])]
    if node.op == "Reshape":
        wanted = scope.integers(node, 1, "the shape") if len(node.inputs) > 1 else node.integers("shape")
        if not node.integer("allowzero"):
            wanted = [old[i] if extent == 0 and i < len(old) else extent for i, extent in enumerate(wanted)]
        if -1 in wanted:
            rest = int(np.prod([extent for extent in wanted if extent != -1]))
            wanted[wanted.index(-1)] = int(np.prod(old)) // rest if rest else 0
        return [scope.reshape(x, wanted)]
    given = node.has(1) or "axes" in node.attributes
    axes = scope.integers(node, 1, "the axes") if node.has(1) else node.integers("axes")
    if node.op == "Squeeze":
        if not given:
            axes = [axis for axis, extent in enumerate(old) if extent == 1]
        axes = [axis_of(axis, x.ndim, node.place) for axis in axes]
        return [scope.reshape(x, [extent for axis, extent in enumerate(old) if axis not in axes])]
    rank = x.ndim + len(axes)
    axes = [axis_of(axis, rank, node.place) for axis in axes]
    kept = iter(old)
    return [scope.reshape(x, [1 if axis in axes else next(kept) for axis in range(rank)])]


@handles("Transpose")
def transpose(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Transposes axes; reverses them by default."""
    x = scope.get(node, 0)
    return [scope.transpose(x, node.integers("perm", range(x.ndim)[::-1]))]


@handles("Concat")
def concat(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Joins tensors along an axis."""
    x = scope.operands(node)
    return [scope.concat(x, axis_of(node.integer("axis"), x[0].ndim, node.place))]


@handles("Split")
def split(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Splits a tensor into parts of given or nearly equal sizes."""
    x = scope.get(node, 0)
    axis = axis_of(node.integer("axis"), x.ndim, node.place)
    extent, count = x.shape[axis], node.integer("num_outputs", len(node.outputs))
    sizes = scope.integers(node, 1, "the sizes") if node.has(1) else node.integers("split")
    if not sizes:
        if count != len(node.outputs):
            allowed = str(len(node.outputs))
            raise user_error("a split needs one output per part", place=node.place, value=str(count), allowed=allowed)
        part = -(-extent // count)
        sizes = [max(0, min(part, extent - i * part)) for i in range(count)]
    scope.model.counted(len(sizes))
    borders = [0, *np.cumsum(sizes).tolist()]
    return [scope.along(x, axis, a, b) for a, b in pairwise(borders)]


@handles("Slice")
def slice_(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Slices like numpy; a negative step reverses the axis first."""
    x = scope.get(node, 0)
    if node.opset < 10:
        starts, ends, axes = node.integers("starts"), node.integers("ends"), node.integers("axes")
        steps: list[int] = []
    else:
        starts, ends = scope.integers(node, 1, "a start"), scope.integers(node, 2, "an end")
        axes = scope.integers(node, 3, "the axes") if node.has(3) else []
        steps = scope.integers(node, 4, "a step") if node.has(4) else []
    axes, steps = axes or list(range(len(starts))), steps or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis = axis_of(axis, x.ndim, node.place)
        first, last, stride = slice(start, end, step).indices(x.shape[axis])
        if stride < 0:
            count = len(range(first, last, stride))
            x = scope.op("reverse", x, dims=[axis])
            first = x.shape[axis] - 1 - first
            last, stride = first + (count - 1) * -stride + 1 if count else first, -stride
        x = scope.along(x, axis, first, max(first, last), stride)
    return [x]


@handles("Expand")
def expand(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Broadcasts the operand and the requested shape to each other."""
    x = scope.get(node, 0)
    wanted = checked(scope.integers(node, 1, "the shape"), node)
    return [scope.broadcast(x, list(np.broadcast_shapes(x.shape, tuple(wanted))))]


@handles("Tile")
def tile(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Repeats a tensor along its axes."""
    x = scope.get(node, 0)
    repeats = scope.integers(node, 1, "how often")
    checked([a * b for a, b in zip(x.shape, repeats, strict=True)], node)
    wide = [part for count, extent in zip(repeats, x.shape, strict=True) for part in (count, extent)]
    spread = scope.broadcast(x, wide, list(range(1, 2 * x.ndim, 2)))
    return [scope.reshape(spread, [a * b for a, b in zip(x.shape, repeats, strict=True)])]


@handles("Pad")
def pad(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Pads with a constant, edge, reflect or wrap; negative padding cuts elements off."""
    x = scope.get(node, 0)
    pads = scope.integers(node, 1, "the padding") if node.opset >= 11 else node.integers("pads")
    axes = scope.integers(node, 3, "the axes") if node.has(3) else list(range(x.ndim))
    low, high = [0] * x.ndim, [0] * x.ndim
    for i, axis in enumerate(axes):
        low[axis_of(axis, x.ndim, node.place)] = pads[i]
        high[axis_of(axis, x.ndim, node.place)] = pads[i + len(axes)]
    checked([max(0, e + a + b) for e, a, b in zip(x.shape, low, high, strict=True)], node)
    mode = node.text("mode", "constant")
    if mode == "constant":
        value = scope.get(node, 2) if node.has(2) else scope.like(node.number("value"), x)
        return [scope.op("pad", x, scope.reshape(value, []), low=low, high=high)]
    cut = [max(0, -a) for a in low], [e - max(0, -b) for e, b in zip(x.shape, high, strict=True)]
    x = scope.slice(x, *cut)
    low, high = [max(0, a) for a in low], [max(0, b) for b in high]
    if mode == "wrap":
        for axis in range(x.ndim):
            extent = x.shape[axis]
            bounded(low[axis] + extent + high[axis], "a padded axis")
            indices = np.arange(-low[axis], extent + high[axis]) % max(1, extent)
            if low[axis] or high[axis]:
                x = scope.take(x, scope.tensor(indices, "i64"), axis)
        return [x]
    return [scope.op("pad", x, low=low, high=high, mode=mode)]


@handles("Range")
def range_(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Returns numbers from start to below limit in equal steps."""
    start, limit, step = (scope.numbers(node, i, "a range").reshape(()) for i in range(3))
    if step == 0:
        raise user_error("the step of a range is 0", place=node.place)
    count = max(0, int(np.ceil((float(limit) - float(start)) / float(step))))
    bounded(count, "a range")
    values = start + np.arange(count).astype(start.dtype) * step
    return [scope.constant(values.astype(start.dtype))]


@handles("EyeLike")
def eye_like(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A matrix of ones on a diagonal."""
    x = scope.get(node, 0)
    dtype = dtype_of(node.integer("dtype"), node.place) if "dtype" in node.attributes else x.dtype
    row, column = (scope.op("iota", shape=list(x.shape), dtype="i64", dim=dim) for dim in (0, 1))
    return [scope.convert(scope.apply("equal", row + node.integer("k"), column), dtype)]


@handles("Trilu")
def trilu(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Keeps one triangle of the last two axes; the other is zero."""
    x = scope.get(node, 0)
    k = int(scope.numbers(node, 1, "the diagonal")) if node.has(1) else 0
    row, column = (scope.op("iota", shape=list(x.shape[-2:]), dtype="i64", dim=dim) for dim in (0, 1))
    kept = scope.apply("greater_equal" if node.integer("upper", 1) else "less_equal", column, row + k)
    return [scope.apply("select", kept, x, scope.like(0, x))]


@handles("OneHot")
def one_hot(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Writes on and off values by index; indices out of range give off values."""
    indices, values = scope.get(node, 0), scope.get(node, 2)
    depth = int(scope.numbers(node, 1, "the depth").reshape(-1)[0])
    axis = axis_of(node.integer("axis", -1), indices.ndim + 1, node.place)
    ids = scope.convert(indices, "i64")
    ids = scope.apply("select", scope.apply("less", ids, scope.like(0, ids)), ids + depth, ids)
    shape = [*indices.shape[:axis], depth, *indices.shape[axis:]]
    checked(shape, node)
    position = scope.op("iota", shape=shape, dtype="i64", dim=axis)
    hit = scope.apply("equal", position, scope.reshape(ids, [*indices.shape[:axis], 1, *indices.shape[axis:]]))
    off, on = (scope.reshape(scope.along(values, 0, i, i + 1), []) for i in (0, 1))
    return [scope.apply("select", hit, on, off)]


@handles("DepthToSpace", "SpaceToDepth")
def depth_space(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Moves blocks between channels and space."""
    x, block = scope.get(node, 0), node.integer("blocksize")
    n, c, h, w = x.shape
    if node.op == "SpaceToDepth":
        parts = scope.reshape(x, [n, c, h // block, block, w // block, block])
        return [
            scope.reshape(
                scope.transpose(parts, [0, 3, 5, 1, 2, 4] if node.text("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]),
                [n, c * block * block, h // block, w // block],
            )
        ]
    depth = c // (block * block)
    if node.text("mode", "DCR") == "DCR":
        parts = scope.transpose(scope.reshape(x, [n, block, block, depth, h, w]), [0, 3, 4, 1, 5, 2])
    else:
        parts = scope.transpose(scope.reshape(x, [n, depth, block, block, h, w]), [0, 1, 4, 2, 5, 3])
    return [scope.reshape(parts, [n, depth, h * block, w * block])]


@handles("NonZero", "Unique", "Compress")
def data_sized(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Evaluates operators whose result size depends on data; their operands must be constant."""
    if node.op == "NonZero":
        return [scope.tensor(np.array(np.nonzero(scope.numbers(node, 0, "the number of results"))), "i64")]
    if node.op == "Compress":
        x = scope.get(node, 0)
        chosen = np.nonzero(scope.numbers(node, 1, "the number of results"))[0]
        if "axis" not in node.attributes:
            x = scope.reshape(x, [int(np.prod(x.shape))])
        return [scope.take(x, scope.tensor(chosen, "i64"), axis_of(node.integer("axis"), x.ndim, node.place))]
    return unique(scope, node)


def unique(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Finds unique elements as numpy does, in the order of first occurrence if unsorted."""
    x = scope.numbers(node, 0, "the number of results")
    axis = node.get("axis")
    found: Any = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    values, first, inverse, counts = found
    inverse = inverse.reshape(-1)
    if not node.integer("sorted", 1):
        order = np.argsort(first)
        ranks = np.empty_like(order)
        ranks[order] = np.arange(len(order))
        values = np.take(values, order, axis=0 if axis is None else int(axis))
        first, counts, inverse = first[order], counts[order], ranks[inverse]
    results = [scope.constant(values), *(scope.tensor(part, "i64") for part in (first, inverse, counts))]
    return results[: max(1, len(node.outputs))]


@handles("Col2Im")
def col2im(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Adds blocks at their positions in the image, by one padded sum per kernel tap."""
    x = scope.get(node, 0)
    image, block = scope.integers(node, 1, "the image's shape"), scope.integers(node, 2, "the block's shape")
    rank = len(image)
    dilations, strides = node.integers("dilations", [1] * rank), node.integers("strides", [1] * rank)
    pads = node.integers("pads", [0] * (2 * rank))
    taps = int(np.prod(block))
    channels = x.shape[1] // taps
    counts = [
        (image[i] + pads[i] + pads[i + rank] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    ]
    parts = scope.reshape(x, [x.shape[0], channels, taps, *counts])
    padded = [image[i] + pads[i] + pads[i + rank] for i in range(rank)]
    total = full(scope, 0, [x.shape[0], channels, *padded], x.dtype)
    for tap, position in enumerate(np.ndindex(*block)):
        part = scope.reshape(scope.along(parts, 2, tap, tap + 1), [x.shape[0], channels, *counts])
        low = [position[i] * dilations[i] for i in range(rank)]
        reach = [(counts[i] - 1) * strides[i] + 1 for i in range(rank)]
        total = total + scope.op(
            "pad",
            part,
            low=[0, 0, *low],
            high=[0, 0, *(padded[i] - low[i] - reach[i] for i in range(rank))],
            interior=[0, 0, *(stride - 1 for stride in strides)],
        )
    start = [0, 0, *pads[:rank]]
    return [scope.slice(total, start, [x.shape[0], channels, *(pads[i] + image[i] for i in range(rank))])]
