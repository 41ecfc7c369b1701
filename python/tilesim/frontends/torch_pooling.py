"""Overloads of pooling: windows of torch's sizes, ceil_mode and counts included."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F

from .._tensor import Tensor
from .torch_import import Importer
from .torch_layers import listed
from .torch_reduce import reduced
from .torch_table import handles


def _window(
    importer: Importer,
    x: Tensor,
    size: list[int],
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    combiner: str,
) -> Tensor:
    """Pads behind are what the result's shape asks for (ceil_mode)."""
    count = len(size)
    lead = x.ndim - count
    pads = [0, 0] * lead
    for i in range(count):
        reach = (importer.shape[i - count] - 1) * stride[i] + dilation[i] * (size[i] - 1) + 1
        extent = x.shape[lead + i]
        pads += [padding[i], max(padding[i], reach - extent - padding[i])]
    return importer.op(
        "window_reduce",
        x,
        window=[1] * lead + size,
        strides=[1] * lead + stride,
        pads=pads,
        window_dilation=[1] * lead + dilation,
        combiner=combiner,
    )


@handles(
    "aten.max_pool1d.default",
    "aten.max_pool2d.default",
    "aten.max_pool3d.default",
    "aten.max_pool2d_with_indices.default",
    "aten.max_pool3d_with_indices.default",
)
def _max_pool(
    importer: Importer, x: Any, size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> Any:
    overload = str(importer.node.target)
    count = int(overload.split("pool")[1][0])
    window = listed(size, count)
    steps = listed(stride, count) if stride else window
    value = _window(
        importer, importer.tensor(x), window, steps, listed(padding, count), listed(dilation, count), "maximum"
    )
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
    count = int(str(importer.node.target).split("pool")[1][0])
    window = listed(size, count)
    steps = listed(stride, count) if stride else window
    pads = listed(padding, count)
    tensor = importer.tensor(x, "f64" if importer.dtype == "f64" else "f32")
    total = _window(importer, tensor, window, steps, pads, [1] * count, "add")
    if divisor is None and ((include_pad and not ceil) or (not any(pads) and not ceil)):
        divisor = math.prod(window)
    if divisor is not None:
        return (total / divisor).convert(importer.dtype)
    pool: Any = F.avg_pool3d if count == 3 else F.avg_pool2d
    lift = 2 if count == 1 else count
    ones = torch.ones([1, 1, *[1] * (lift - count), *tensor.shape[-count:]], dtype=torch.float64)
    settings = [[fill] * (lift - count) + list(item) for fill, item in ((1, window), (1, steps), (0, pads))]
    inside = pool(ones, *settings, ceil, include_pad, 1)
    share = pool(ones, *settings, ceil, include_pad)
    counts = (inside / share).round().reshape(importer.shape[-count:]).to(torch.float32)
    return importer.apply("divide", total, importer.tensor(counts, total.dtype)).convert(importer.dtype)


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
    "aten.adaptive_avg_pool1d.default",
    "aten.adaptive_avg_pool2d.default",
    "aten.adaptive_avg_pool3d.default",
    "aten._adaptive_avg_pool2d.default",
    "aten._adaptive_avg_pool3d.default",
    "aten.adaptive_max_pool1d.default",
    "aten.adaptive_max_pool2d.default",
    "aten.adaptive_max_pool3d.default",
)
def _adaptive_pool(importer: Importer, x: Any, size: Any) -> Any:
    """Windows from floor(i·n/o) to ceil((i+1)·n/o), axis by axis."""
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
