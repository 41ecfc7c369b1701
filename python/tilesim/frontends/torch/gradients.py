"""Handlers for overloads of backward graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...graph.building import window_labels
from ...graph.tensor import Tensor
from .importing import Importer
from .layers import _conv, _conv_transpose, listed
from .reduce import reduced
from .table import handles


@handles("aten.convolution_backward.default")
def _convolution_backward(
    importer: Importer,
    gradient: Any,
    x: Any,
    w: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    wanted: Sequence[bool],
) -> tuple[Any, ...]:
    """Builds the gradients of input (result gradient * reversed kernel) and weight (input * result gradient)."""
    grad, image, weight = importer.tensor(gradient), importer.tensor(x), importer.tensor(w)
    count = weight.ndim - 2
    steps, pads, spread = listed(stride, count), listed(padding, count), listed(dilation, count)
    results: list[Any] = [None, None, None]
    if transposed:  # the adjoint of a convolution: its input gradient is that convolution
        if wanted[0]:
            whole = _conv(importer, grad, weight, None, steps, pads, spread, groups)
            results[0] = whole[tuple(slice(0, extent) for extent in (*whole.shape[:2], *image.shape[2:]))]
        if wanted[1]:
            results[1] = _weight_gradient(importer, image, grad, weight, (steps, pads, spread), groups)
    elif wanted[0]:
        # output padding is the size beyond that of a transposed convolution without it
        rest = [
            extent - ((out - 1) * step - 2 * pad + far * (size - 1) + 1)
            for extent, out, step, pad, far, size in zip(
                image.shape[2:], grad.shape[2:], steps, pads, spread, weight.shape[2:], strict=True
            )
        ]
        results[0] = _conv_transpose(importer, grad, weight, None, steps, pads, rest, groups, spread)
    if wanted[1] and not transposed:
        results[1] = _weight_gradient(importer, grad, image, weight, (steps, pads, spread), groups)
    if wanted[2]:
        results[2] = reduced(importer, grad, "add", [0, *range(2, grad.ndim)])
    return tuple(results)


def _weight_gradient(
    importer: Importer, grad: Tensor, image: Tensor, weight: Tensor, window: tuple[list[int], ...], groups: int
) -> Tensor:
    """Builds the weight gradient as a convolution whose kernel is the result gradient; swaps strides and dilations."""
    steps, low, spread = window
    x_labels, w_labels = (window_labels(lead, weight.ndim - 2) for lead in ("CN", "IO"))
    pads = []
    for i, pad in enumerate(low):
        reach = (grad.shape[2 + i] - 1) * steps[i] + 1
        pads += [pad, (weight.shape[2 + i] - 1) * spread[i] + reach - image.shape[2 + i] - pad]
    result: Tensor = importer.op(
        "convolution", image, grad, x_labels=x_labels, w_labels=w_labels, y_labels=x_labels, strides=spread, pads=pads,
        window_dilation=steps, batch_groups=groups,
    )  # fmt: skip
    return result
