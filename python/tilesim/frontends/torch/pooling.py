"""Handlers for pooling overloads, including ceil_mode and element counts."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from ...graph.tensor import Tensor
from .importing import Importer
from .layers import listed
from .reduce import reduced
from .table import handles


def _window(
    importer: Importer,
    x: Tensor,
    size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    combiner: str,
) -> Tensor:
    """Reduces windows; derives the padding at the end, which ceil_mode needs, from the result's shape."""
    count = len(size)
    lead = x.ndim - count
    pads = [0, 0] * lead
    for i in range(count):
        reach = (importer.shape[i - count] - 1) * stride[i] + dilation[i] * (size[i] - 1) + 1
        extent = x.shape[lead + i]
        pads += [padding[i], max(padding[i], reach - extent - padding[i])]
    return _windows(importer, x, size, [1] * lead + stride, pads, [1] * lead + dilation, combiner)


def _windows(
    importer: Importer, x: Tensor, size: list[int], strides: list[int], pads: list[int], dilation: list[int],
    combiner: str,
) -> Tensor:  # fmt: skip
    window = [1] * (x.ndim - len(size)) + size
    settings = {"window": window, "strides": strides, "pads": pads, "window_dilation": dilation}
    return importer.op("window_reduce", x, combiner=combiner, **settings)


def _settings(importer: Importer, size: Any, stride: Any, padding: Any) -> tuple[int, list[int], list[int], list[int]]:
    """Returns number of pooled axes, window, strides and pads."""
    count = int(str(importer.node.target).split("pool")[1][0])
    window = listed(size, count)
    return count, window, listed(stride, count) if stride else window, listed(padding, count)


@handles(
    *[f"aten.max_pool{rank}d.default" for rank in (1, 2, 3)],
    *[f"aten.max_pool{rank}d_with_indices.default" for rank in (2, 3)],
)
def _max_pool(
    importer: Importer, x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Any:
    overload = str(importer.node.target)
    count, window, steps, pads = _settings(importer, size, stride, padding)
    value = _window(importer, importer.tensor(x), window, steps, pads, listed(dilation, count), "maximum")
    return (value, None) if "with_indices" in overload else value


@handles("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def _avg_pool(
    importer: Importer,
    x: Any,
    size: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil: bool = False,
    include_pad: bool = True,
    divisor: int | None = None,
) -> Tensor:
    count, window, steps, pads = _settings(importer, size, stride, padding)
    tensor = importer.tensor(x, "f64" if importer.dtype == "f64" else "f32")
    total = _window(importer, tensor, window, steps, pads, [1] * count, "add")
    return _averaged(importer, total, tensor, window, steps, pads, ceil, include_pad, divisor).convert(importer.dtype)


def _averaged(
    importer: Importer,
    total: Tensor,
    image: Tensor,
    window: list[int],
    steps: list[int],
    pads: list[int],
    ceil: bool,
    include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """Divides each window's sum by the divisor that torch defines for it."""
    count = len(window)
    if divisor is None and ((include_pad and not ceil) or (not any(pads) and not ceil)):
        divisor = math.prod(window)
    if divisor is not None:
        return total / divisor
    pool: Any = F.avg_pool3d if count == 3 else F.avg_pool2d
    lift = 2 if count == 1 else count
    ones = torch.ones([1, 1, *[1] * (lift - count), *image.shape[-count:]], dtype=torch.float64)
    settings = [[fill] * (lift - count) + list(item) for fill, item in ((1, window), (1, steps), (0, pads))]
    inside = pool(ones, *settings, ceil, include_pad, 1)
    share = pool(ones, *settings, ceil, include_pad)
    counts = (inside / share).round().reshape(total.shape[-count:]).to(torch.float32)
    return importer.apply("divide", total, importer.tensor(counts, total.dtype))


@handles("aten.avg_pool2d_backward.default", "aten.avg_pool3d_backward.default")
def _avg_pool_backward(
    importer: Importer,
    gradient: Any,
    x: Any,
    size: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """Sums, for each element, the gradients of its windows, as a windowed sum of gradients dilated by the strides."""
    count, window, steps, pads = _settings(importer, size, stride, padding)
    image = importer.tensor(x)
    grad = importer.tensor(gradient, "f64" if importer.dtype == "f64" else "f32")
    grad = _averaged(importer, grad, image, window, steps, pads, ceil, include_pad, divisor)
    lead = grad.ndim - count
    low, high, kept = [0] * lead, [0] * lead, [slice(None)] * lead
    for axis in range(count):
        span = (grad.shape[lead + axis] - 1) * steps[axis] + 1
        before = window[axis] - 1 - pads[axis]
        after = image.shape[lead + axis] + window[axis] - 1 - before - span
        low, high = [*low, before], [*high, max(0, after)]
        kept.append(slice(0, before + span + after))  # windows may extend beyond the end
    interior = [0] * lead + [step - 1 for step in steps]
    zero = importer.builder.scalar(0, grad.dtype)
    spread = importer.op("pad", grad, zero, low=low, high=high, interior=interior, mode="constant")
    ones = [1] * grad.ndim
    total = _windows(importer, spread[tuple(kept)], window, ones, [0, 0] * grad.ndim, ones, "add")
    return total.convert(importer.dtype)


def _adaptive_axis(importer: Importer, x: Tensor, at: int, out: int, combiner: str) -> Tensor:
    extent = x.shape[at]
    if out == extent:
        return x
    if extent % out == 0:
        apart = x.reshape(*x.shape[:at], out, extent // out, *x.shape[at + 1 :])
        return reduced(importer, apart, combiner, at + 1)
    parts = []
    for i in range(out):
        key: list[Any] = [slice(None)] * x.ndim
        key[at] = slice(i * extent // out, -(-(i + 1) * extent // out))
        parts.append(reduced(importer, x[tuple(key)], combiner, at, True))
    return importer.op("concat", *parts, dim=at)


@handles(
    *[f"aten.adaptive_{name}_pool{rank}d.default" for name in ("avg", "max") for rank in (1, 2, 3)],
    *[f"aten._adaptive_avg_pool{rank}d.default" for rank in (2, 3)],
)
def _adaptive_pool(importer: Importer, x: Any, size: Any) -> Any:
    """Pools windows from floor(i·n/o) to ceil((i+1)·n/o), axis by axis."""
    overload = str(importer.node.target)
    combiner = "mean" if "avg" in overload else "maximum"
    count = int(overload.split("pool")[1][0])
    tensor = importer.tensor(x)
    if all(extent == 1 for extent in importer.shape[-count:]):
        value = reduced(importer, tensor, combiner, list(range(tensor.ndim - count, tensor.ndim)), True)
        return (value, None) if "max" in overload else value
    value = importer.tensor(tensor, "f32") if importer.dtype in ("f16", "bf16") else tensor
    for i in range(count):
        at = tensor.ndim - count + i
        value = _adaptive_axis(importer, value, at, importer.shape[at], combiner)
    value = value.convert(importer.dtype)
    return (value, None) if "max" in overload else value


@handles("aten._adaptive_avg_pool2d_backward.default", "aten._adaptive_avg_pool3d_backward.default")
def _adaptive_avg_pool_backward(importer: Importer, gradient: Any, x: Any) -> Tensor:
    """Multiplies, axis by axis, by the share of each element in each window."""
    count = int(str(importer.node.target).split("pool")[1][0])
    value = importer.tensor(gradient, "f64" if importer.dtype == "f64" else "f32")
    for axis in range(value.ndim - count, value.ndim):
        extent, out = importer.shape[axis], value.shape[axis]
        if extent == out:
            continue
        shares = torch.zeros(out, extent, dtype=torch.float64)
        for i in range(out):
            start, end = i * extent // out, -(-(i + 1) * extent // out)
            shares[i, start:end] = 1 / (end - start)
        order = [i for i in range(value.ndim) if i != axis] + [axis]
        value = importer.builder.matmul(value.transpose(*order), importer.tensor(shares.float(), value.dtype))
        value = value.transpose(*[order.index(i) for i in range(value.ndim)])
    return value.convert(importer.dtype)
