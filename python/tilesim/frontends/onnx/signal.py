"""Fourier transforms of ONNX. A last axis of extent 2 holds the real and imaginary part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core import Unsupported
from ...graph.building import bounded
from ...graph.tensor import Tensor
from .scope import OnnxNode, OnnxScope, Value, axis_of, dtype_of, handles


def parts_of(scope: OnnxScope, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Splits the last axis of x into real and imaginary part; the latter is None if that axis has extent 1."""
    shape, last = x.shape[:-1], x.ndim - 1
    re = scope.reshape(scope.along(x, last, 0, 1), shape)
    return re, scope.reshape(scope.along(x, last, 1, 2), shape) if x.shape[-1] == 2 else None


def together(scope: OnnxScope, re: Tensor, im: Tensor) -> Tensor:
    """Joins both parts along a last axis of extent 2."""
    return scope.concat([scope.reshape(part, [*part.shape, 1]) for part in (re, im)], re.ndim)


@handles("DFT")
def dft(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Transforms one axis, cut or padded to a given length; real signals may return half of the spectrum."""
    x = scope.get(node, 0)
    axis = (
        int(scope.numbers(node, 2, "the axis")) if node.has(2) else node.integer("axis", 1 if node.opset < 20 else -2)
    )
    axis = axis_of(axis, x.ndim, node.place)
    inverse, onesided = node.integer("inverse") != 0, node.integer("onesided") != 0
    re, im = parts_of(scope, x)
    length = int(scope.numbers(node, 1, "the length")) if node.has(1) else 0
    if inverse and onesided:
        if im is None:
            raise Unsupported("a one-sided inverse of a real spectrum")
        length = length or 2 * (re.shape[axis] - 1)
        return [real_inverse(scope, re, im, axis, length)]
    if length:
        re, im = fitted(scope, re, axis, length), fitted(scope, im, axis, length) if im is not None else None
    out_re, out_im = scope.op("fft", *([re] if im is None else [re, im]), results=2, dim=axis, inverse=inverse)
    if onesided:
        half = re.shape[axis] // 2 + 1
        out_re, out_im = (scope.along(part, axis, 0, half) for part in (out_re, out_im))
    return [together(scope, out_re, out_im)]


def fitted(scope: OnnxScope, x: Tensor, axis: int, length: int) -> Tensor:
    """Cuts an axis, or pads it with zeros, to a length."""
    if x.shape[axis] >= length:
        return scope.along(x, axis, 0, length)
    high = [length - x.shape[axis] if other == axis else 0 for other in range(x.ndim)]
    padded: Tensor = scope.op("pad", x, low=[0] * x.ndim, high=high)
    return padded


def real_inverse(scope: OnnxScope, re: Tensor, im: Tensor, axis: int, length: int) -> Tensor:
    """Computes the signal of a half spectrum by products with cosines and sines; the last axis has extent 1."""
    half = length // 2 + 1
    bounded(float(half) * length, "a table of cosines")
    re, im = fitted(scope, re, axis, half), fitted(scope, im, axis, half)
    angle = 2 * np.pi * np.outer(np.arange(half), np.arange(length)) / length
    weight = np.full((half, 1), 2.0)
    weight[0] = 1
    if length % 2 == 0:
        weight[-1] = 1
    terms = []
    for part, matrix in ((re, np.cos(angle)), (im, -np.sin(angle))):
        table = scope.tensor(matrix * weight / length, re.dtype)
        product = scope.op("contract", part, table, a_contract=[axis], b_contract=[0])
        terms.append(scope.transpose(product, [*range(axis), part.ndim - 1, *range(axis, part.ndim - 1)]))
    total = scope.apply("add", terms[0], terms[1])
    return scope.reshape(total, [*total.shape, 1])


@handles("STFT")
def stft(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Transforms windows of the signal."""
    x = scope.get(node, 0)
    step = int(scope.numbers(node, 1, "the step"))
    window = scope.get(node, 2)
    length = int(scope.numbers(node, 3, "the length")) if node.has(3) else window.shape[0]
    if x.ndim == 2:
        x = scope.reshape(x, [*x.shape, 1])
    re, im = parts_of(scope, x)
    bounded(float(re.shape[1]) * length / max(step, 1), "a table of frames")
    frames = (re.shape[1] - length) // step + 1
    index = scope.tensor(np.arange(frames)[:, None] * step + np.arange(length)[None, :], "i64")
    cut = [scope.take(part, index, 1) for part in (re, im) if part is not None]
    if window is not None:
        cut = [scope.apply("multiply", part, window) for part in cut]
    out_re, out_im = scope.op("fft", *cut, results=2, dim=2)
    if node.integer("onesided", 1):
        half = length // 2 + 1
        out_re, out_im = (scope.along(part, 2, 0, half) for part in (out_re, out_im))
    return [together(scope, out_re, out_im)]


@handles("MelWeightMatrix")
def mel_weights(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Weights of triangles that are evenly spaced on the mel scale, 2595 log10(1 + f / 700) (O'Shaughnessy 1987)."""
    bands, length, rate, low, high = (scope.numbers(node, i, "a mel matrix").reshape(-1)[0] for i in range(5))
    bins = int(length) // 2 + 1
    bounded(float(bins) * float(bands), "a mel matrix")
    low_mel, high_mel = (2595 * np.log10(1 + float(f) / 700) for f in (low, high))
    step = (high_mel - low_mel) / (int(bands) + 2)
    hertz = 700 * (10 ** ((np.arange(int(bands) + 2) * step + low_mel) / 2595) - 1)
    at = (int(length) + 1) * hertz // int(rate)
    matrix = np.zeros((bins, int(bands)))
    for band in range(int(bands)):
        first, center, last = (int(value) for value in at[band : band + 3])
        if center == first:
            matrix[center, band] = 1
        for i in range(first, center + 1 if center != first else first):
            matrix[i, band] = (i - first) / (center - first)
        if last > center:
            for i in range(center, last):
                matrix[i, band] = (last - i) / (last - center)
    dtype = dtype_of(node.integer("output_datatype", 1), node.place)
    return [scope.tensor(matrix, dtype)]
