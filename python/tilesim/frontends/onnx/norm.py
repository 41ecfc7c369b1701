"""Normalizations and interpolation of ONNX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._core import Unsupported
from ...graph.building import bounded, gathered
from ...graph.tensor import Tensor
from .scope import OnnxNode, OnnxScope, Value, axis_of, handles


def per_channel(scope: OnnxScope, part: Tensor, x: Tensor) -> Tensor:
    """Reshapes [C] so that it broadcasts to [N, C, ..]."""
    return scope.reshape(part, [x.shape[1], *[1] * (x.ndim - 2)])


@handles("BatchNormalization")
def batch_norm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Batch normalization for inference, or for training with running statistics as additional results."""
    x, scale, bias, mean, variance = scope.operands(node)
    epsilon, dtype = node.number("epsilon", 1e-5), x.dtype
    scale, bias = scope.convert(scale, dtype), scope.convert(bias, dtype)
    if not node.integer("training_mode"):
        mean, variance = scope.convert(mean, dtype), scope.convert(variance, dtype)
        return [scope.op("batch_norm", x, scale, bias, mean, variance, feature_dim=1, epsilon=epsilon)]
    dims, momentum = [axis for axis in range(x.ndim) if axis != 1], node.number("momentum", 0.9)
    own = scope.reduce(x, dims, "mean", keep=False)
    distance = scope.apply("subtract", x, per_channel(scope, own, x))
    spread = scope.reduce(distance * distance, dims, "mean", keep=False)
    y = scope.op("batch_norm", x, scale, bias, own, spread, feature_dim=1, epsilon=epsilon)
    running = [
        scope.apply("add", old * momentum, scope.convert(new, old.dtype) * (1 - momentum))
        for old, new in ((mean, own), (variance, spread))
    ]
    return [y, *running][: len(node.outputs)]


@handles("InstanceNormalization")
def instance_norm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Normalizes each channel of each image."""
    return [scope.op("normalize", *scope.operands(node), mode="instance", epsilon=node.number("epsilon", 1e-5))]


@handles("GroupNormalization")
def group_norm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Normalizes groups; scale and bias are per group before opset 21, and per channel since."""
    x, scale, bias = scope.operands(node)
    groups, channels = node.integer("num_groups"), x.shape[1]
    if scale.shape[0] != channels:
        size = channels // groups
        scale, bias = (
            scope.reshape(scope.broadcast(scope.reshape(part, [groups, 1]), [groups, size]), [channels])
            for part in (scale, bias)
        )
    return [scope.op("normalize", x, scale, bias, mode="group", groups=groups, epsilon=node.number("epsilon", 1e-5))]


@handles("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def layer_norm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Normalizes over the axes from `axis` on."""
    x, scale, bias = scope.get(node, 0), scope.get(node, 1), scope.get(node, 2)
    dims = list(range(axis_of(node.integer("axis", -1), x.ndim, node.place), x.ndim))
    return normalized(scope, node, x, scale, bias, dims)


def normalized(
    scope: OnnxScope, node: OnnxNode, x: Tensor, scale: Tensor | None, bias: Tensor | None, dims: list[int]
) -> Sequence[Value]:
    """Normalizes over the last axes; returns as many results as the node names."""
    mode = "layer" if node.op in ("LayerNormalization", "SkipLayerNormalization") else "rms"
    own = [x.shape[dim] for dim in dims]
    parts = []
    for part in (scale, bias):
        if part is not None and list(part.shape) != own:
            part = scope.broadcast(scope.convert(part, x.dtype), own)
        parts.append(part)
    while parts and parts[-1] is None:
        parts.pop()
    count = max(1, min(3, len(node.outputs)))
    found = scope.op("normalize", x, *parts, results=count, mode=mode, dims=dims, epsilon=node.number("epsilon", 1e-5))
    results = list(found) if isinstance(found, tuple) else [found]
    return results


@handles("LpNormalization")
def lp_norm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Divides by the norm along an axis; the result of zeros is zero."""
    x = scope.get(node, 0)
    axis = axis_of(node.integer("axis", -1), x.ndim, node.place)
    if node.integer("p", 2) == 1:
        size = scope.reduce(scope.apply("abs", x), [axis], "add")
    else:
        size = scope.apply("sqrt", scope.reduce(x * x, [axis], "add"))
    zero = scope.apply("equal", size, scope.like(0, size))
    return [scope.apply("divide", x, scope.apply("select", zero, scope.like(1, size), size))]


@handles("LRN")
def local_response(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Divides by a power of the sum of squares of adjacent channels."""
    x, size = scope.get(node, 0), node.integer("size")
    window, pads = [1] * x.ndim, [0] * (2 * x.ndim)
    window[1], pads[2], pads[3] = size, (size - 1) // 2, size - 1 - (size - 1) // 2
    total = scope.op("window_reduce", x * x, window=window, pads=pads, combiner="add")
    base = total * (node.number("alpha", 0.0001) / size) + node.number("bias", 1.0)
    return [scope.apply("divide", x, scope.apply("power", base, scope.like(node.number("beta", 0.75), x)))]


# --- interpolation ---


def coordinates(
    node: OnnxNode, mode: str, extent: int, size: int, scale: float, roi: tuple[float, float]
) -> NDArray[Any]:
    """Source position of each result element (Resize, attribute coordinate_transformation_mode)."""
    bounded(float(size) * extent, "an interpolation table")
    at = np.arange(size, dtype=np.float64)
    length = scale * extent
    if mode == "asymmetric":
        return at / scale
    if mode == "align_corners":
        return at * (extent - 1) / (length - 1) if length > 1 else at * 0
    if mode == "pytorch_half_pixel":
        return (at + 0.5) / scale - 0.5 if length > 1 else at * 0
    if mode == "half_pixel_symmetric":
        adjustment = size / length
        return extent / 2 * (1 - adjustment) + (at + 0.5) / scale - 0.5
    if mode == "tf_half_pixel_for_nn":
        return (at + 0.5) / scale
    if mode == "tf_crop_and_resize":
        first, last = roi
        if size > 1:
            return first * (extent - 1) + at * (last - first) * (extent - 1) / (size - 1)
        return at * 0 + 0.5 * (first + last) * (extent - 1)
    if mode == "half_pixel":
        return (at + 0.5) / scale - 0.5
    raise Unsupported(f"coordinate_transformation_mode '{mode}'")


def nearest_index(at: NDArray[Any], mode: str) -> NDArray[Any]:
    """Index of the nearest source element (attribute nearest_mode)."""
    if mode == "round_prefer_ceil":
        return np.floor(at + 0.5)
    if mode == "floor":
        return np.floor(at)
    if mode == "ceil":
        return np.ceil(at)
    return np.ceil(at - 0.5)


def taps(mode: str, distance: NDArray[Any], a: float) -> NDArray[Any]:
    """Weight of a source element by distance: linear, or Keys' cubic convolution (1981)."""
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(0, 1 - d)
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def weights(node: OnnxNode, mode: str, at: NDArray[Any], extent: int, scale: float) -> NDArray[Any]:
    """The interpolation matrix [result, source] of one axis."""
    if mode == "nearest":
        index = np.clip(nearest_index(at, node.text("nearest_mode", "round_prefer_floor")), 0, extent - 1).astype(int)
        return np.eye(extent)[index]
    narrow = min(1.0, scale) if node.integer("antialias") else 1.0
    reach = 1 if mode == "linear" else 2
    span = math.ceil(reach / narrow)
    matrix = np.zeros((len(at), extent))
    base = np.floor(at).astype(int)
    total = np.zeros(len(at))
    exclude = node.integer("exclude_outside") != 0
    for offset in range(-span, span + 1):
        index = base + offset
        weight = taps(mode, (at - index) * narrow, node.number("cubic_coeff_a", -0.75))
        inside = (index >= 0) & (index < extent)
        kept = np.where(inside, weight, 0) if exclude else weight
        np.add.at(matrix, (np.arange(len(at)), np.clip(index, 0, extent - 1)), kept)
        total += kept
    return matrix / np.where(total == 0, 1, total)[:, None]


@handles("Resize", "Upsample")
def resize(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Resizes by one product with an interpolation matrix per axis; mode nearest is a lookup."""
    x = scope.get(node, 0)
    axes = [axis_of(axis, x.ndim, node.place) for axis in node.integers("axes", range(x.ndim))]
    scales, sizes = targets(scope, node, x, axes)
    mode = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic"}[
        node.text("mode", "nearest")
    ]
    transform = node.text("coordinate_transformation_mode", "half_pixel" if node.op == "Resize" else "asymmetric")
    roi = (
        [float(v) for v in scope.numbers(node, 1, "the region").reshape(-1)]
        if node.op == "Resize" and node.has(1)
        else []
    )
    outside = []
    y = x
    for i, axis in enumerate(axes):
        region = (roi[i], roi[i + len(axes)]) if len(roi) == 2 * len(axes) else (0.0, 1.0)
        extent = x.shape[axis]
        at = coordinates(node, transform, extent, sizes[i], scales[i], region)
        if transform == "tf_crop_and_resize":
            outside.append((axis, (at < 0) | (at > extent - 1)))
        if sizes[i] == extent and np.array_equal(at, np.arange(extent)):
            continue
        if node.op == "Upsample":
            at = np.floor(at) if mode == "nearest" else at
        if mode == "nearest":
            index = np.clip(nearest_index(at, node.text("nearest_mode", "round_prefer_floor")), 0, extent - 1)
            y = scope.take(y, scope.tensor(index, "i64"), axis)
            continue
        matrix = scope.tensor(weights(node, mode, at, extent, scales[i]), "f32" if x.dtype != "f64" else "f64")
        product = scope.op("contract", scope.convert(y, matrix.dtype), matrix, a_contract=[axis], b_contract=[1])
        order = [*range(axis), y.ndim - 1, *range(axis, y.ndim - 1)]
        y = scope.transpose(product, order)
    y = rounded(scope, y, x.dtype)
    fill = scope.like(node.number("extrapolation_value"), y)
    for axis, mask in outside:
        where = scope.constant(mask.reshape([-1 if other == axis else 1 for other in range(x.ndim)]))
        y = scope.apply("select", where, fill, y)
    return [y]


def rounded(scope: OnnxScope, y: Tensor, dtype: str) -> Tensor:
    """Converts interpolated values to the dtype of the source."""
    if y.dtype != dtype and dtype[0] in "iu":
        return scope.convert(scope.apply("round_even", y), dtype, overflow="saturate")
    return scope.convert(y, dtype)


def targets(scope: OnnxScope, node: OnnxNode, x: Tensor, axes: list[int]) -> tuple[list[float], list[int]]:
    """Scale and size of each axis."""
    place = 2 if node.op == "Resize" and node.opset >= 11 else 1
    extents = [x.shape[axis] for axis in axes]
    if node.has(3):
        sizes = scope.integers(node, 3, "the size")
        policy = node.text("keep_aspect_ratio_policy", "stretch")
        ratios = [size / extent for size, extent in zip(sizes, extents, strict=True)]
        if policy == "stretch":
            return ratios, sizes
        ratio = min(ratios) if policy == "not_larger" else max(ratios)
        return [ratio] * len(axes), [int(np.floor(ratio * extent + 0.5)) for extent in extents]
    given = node.get("scales") if node.op == "Upsample" and not node.has(1) else scope.numbers(node, place, "the scale")
    scales = [float(value) for value in np.asarray(given).reshape(-1)]
    return scales, [int(np.floor(scale * extent)) for scale, extent in zip(scales, extents, strict=True)]


@handles("GridSample")
def grid_sample(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Interpolates at given positions: a weighted sum over the corners of the grid cell."""
    x, grid = scope.operands(node)
    mode = {"bilinear": "linear", "linear": "linear", "nearest": "nearest", "bicubic": "cubic", "cubic": "cubic"}[
        node.text("mode", "linear")
    ]
    padding, aligned = node.text("padding_mode", "zeros"), node.integer("align_corners") != 0
    n, _, *extents = x.shape
    rank, places = len(extents), list(grid.shape[1:-1])
    at = []
    for i, extent in enumerate(extents):
        part = scope.along(grid, grid.ndim - 1, rank - 1 - i, rank - i)
        g = scope.convert(scope.reshape(part, [n, *places]), "f32")
        at.append((g + 1.0) * ((extent - 1) / 2) if aligned else ((g + 1.0) * extent - 1.0) * 0.5)
    if padding == "border" and mode != "cubic":
        at = [scope.apply("clamp", scope.like(0, g), g, scope.like(e - 1, g)) for g, e in zip(at, extents, strict=True)]
    elif padding == "reflection" and mode != "cubic":
        at = [reflected(scope, g, e, aligned) for g, e in zip(at, extents, strict=True)]
    offsets = [0] if mode == "nearest" else [0, 1] if mode == "linear" else [-1, 0, 1, 2]
    base = [scope.apply("round_even" if mode == "nearest" else "floor", g) for g in at]
    total: Tensor | None = None
    for corner in np.ndindex(*[len(offsets)] * rank):
        index, weight = [], None
        for i, choice in enumerate(corner):
            position = base[i] + float(offsets[choice])
            index.append(position)
            if mode != "nearest":
                w = tap_weight(scope, mode, scope.apply("subtract", at[i], position))
                weight = w if weight is None else weight * w
        value = picked(scope, x, index, padding, aligned)
        if weight is not None:
            value = scope.apply("multiply", value, scope.reshape(weight, [n, 1, *places]))
        total = value if total is None else total + value
    return [scope.convert(total, x.dtype)] if total is not None else []


def tap_weight(scope: OnnxScope, mode: str, distance: Tensor) -> Tensor:
    """Builds `taps` as graph operations."""
    d = scope.apply("abs", distance)
    if mode == "linear":
        return scope.apply("maximum", scope.like(0, d), scope.apply("subtract", scope.like(1, d), d))
    a = -0.75
    near = ((d * (a + 2)) - (a + 3)) * d * d + 1.0
    far = ((d * a - 5 * a) * d + 8 * a) * d - 4 * a
    close = scope.apply("less_equal", d, scope.like(1, d))
    return scope.apply("select", close, near, far)


def reflected(scope: OnnxScope, g: Tensor, extent: int, aligned: bool) -> Tensor:
    """Reflects positions beyond the border at the centres or edges of the outer elements."""
    low, high = (0.0, extent - 1.0) if aligned else (-0.5, extent - 0.5)
    span = high - low
    if span == 0:
        return g * 0.0
    shifted = scope.apply("abs", g - low)
    turns = scope.apply("floor", shifted * (1.0 / span))
    rest = scope.apply("subtract", shifted, turns * span)
    odd = scope.apply("not_equal", scope.apply("remainder", turns, scope.like(2, g)), scope.like(0, g))
    inside = scope.apply("select", odd, scope.apply("subtract", scope.like(high, g), rest), rest + low)
    return scope.apply("clamp", scope.like(0, g), inside, scope.like(extent - 1, g))


def picked(scope: OnnxScope, x: Tensor, index: list[Tensor], padding: str, aligned: bool) -> Tensor:
    """Reads elements of [N, C, ..] at integer positions [N, ..]; `padding` determines values for positions outside."""
    n, _, *extents = x.shape
    inside: Tensor | None = None
    parts = []
    for part, extent in zip(index, extents, strict=True):
        if padding == "reflection":
            part = reflected(scope, part, extent, aligned)
        ok = scope.apply(
            "logical_and",
            scope.apply("greater_equal", part, scope.like(0, part)),
            scope.apply("less_equal", part, scope.like(extent - 1, part)),
        )
        inside = ok if inside is None else scope.apply("logical_and", inside, ok)
        clamped = scope.apply("clamp", scope.like(0, part), part, scope.like(extent - 1, part))
        parts.append(scope.reshape(scope.convert(clamped, "i64"), [*part.shape, 1]))
    own = scope.op("iota", shape=list(parts[0].shape), dtype="i64", dim=0)
    places = parts[0].ndim - 2
    places_of = scope.concat([own, *parts], parts[0].ndim - 1)
    found = gathered(scope.op, x, places_of, [0, *range(2, x.ndim)], parts[0].ndim - 1)
    found = scope.transpose(found, [0, places + 1, *range(1, places + 1)])
    found = scope.convert(found, "f32") if x.dtype != "f64" else found
    if padding != "zeros" or inside is None:
        return found
    mask = scope.reshape(inside, [n, 1, *inside.shape[1:]])
    return scope.apply("select", mask, found, scope.like(0, found))
