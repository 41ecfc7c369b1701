"""Handlers for overloads of layers: products, convolutions, normalization, embedding, recurrent layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ...graph.building import convolved
from ...graph.tensor import Tensor
from .. import recurrent
from .importing import Importer
from .reduce import reduced
from .shape import axis
from .table import handles

# --- products ---


@handles("aten.linear.default")
def _linear(importer: Importer, x: Any, w: Any, bias: Any = None) -> Tensor:
    tensor, weight = importer.tensor(x), importer.tensor(w)
    operands = [tensor, weight] + ([] if bias is None else [importer.tensor(bias)])
    return importer.op("contract", *operands, a_contract=[tensor.ndim - 1], b_contract=[weight.ndim - 1])


def product(importer: Importer, a: Any, b: Any, bias: Tensor | None = None) -> Tensor:
    """Multiplies like torch.matmul; integers wrap in their dtype."""
    left, right = importer.tensor(a), importer.tensor(b)
    if left.dtype[0] in "iu":
        left, right = left.convert("i64"), right.convert("i64")
    rows = left.reshape(1, -1) if left.ndim == 1 else left
    columns = right.reshape(-1, 1) if right.ndim == 1 else right
    result = importer.builder.matmul(rows, columns, bias, importer._name)
    if left.ndim == 1 or right.ndim == 1:
        result = result.reshape(*importer.shape)
    return result.convert(importer.dtype)


@handles("aten.matmul.default", "aten.mm.default", "aten.bmm.default", "aten.mv.default", "aten.dot.default")
def _matmul(importer: Importer, a: Any, b: Any) -> Tensor:
    return product(importer, a, b)


@handles("aten.addmm.default", "aten.baddbmm.default", "aten.addmv.default", "aten.addbmm.default")
def _addmm(importer: Importer, bias: Any, a: Any, b: Any, *, beta: float = 1, alpha: float = 1) -> Tensor:
    if "addbmm.default" in str(importer.node.target) and "baddbmm" not in str(importer.node.target):
        raise importer.unsupported("a sum over the batch")
    if alpha == 1 and beta == 1 and "addmv" not in str(importer.node.target):
        return product(importer, a, b, importer.tensor(bias))
    result = product(importer, a, b)
    result = result if alpha == 1 else result * alpha
    if beta == 0:
        return result
    added = importer.tensor(bias)
    return importer.apply("add", result, added if beta == 1 else added * beta)


# --- convolution ---


def listed(value: Any, count: int) -> list[int]:
    """Extends one number to a list of `count` numbers; converts a list."""
    items = [value] if isinstance(value, int) else list(value)
    return [int(item) for item in (items * count if len(items) == 1 else items)]


def _same_padding(importer: Importer, weight: Tensor, dilation: Sequence[int], word: str) -> list[int]:
    if word == "valid":
        return [0] * (2 * len(dilation))
    pads = []
    for size, step in zip(weight.shape[2:], dilation, strict=True):
        total = step * (size - 1)
        pads += [total // 2, total - total // 2]
    return pads


@handles(*[f"aten.conv{rank}d.{form}" for form in ("default", "padding") for rank in (1, 2, 3)])
def _conv(
    importer: Importer,
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    weight = importer.tensor(w)
    count = weight.ndim - 2
    steps = listed(dilation, count)
    if isinstance(padding, str):
        pads = _same_padding(importer, weight, steps, padding)
    else:
        pads = [pad for pad in listed(padding, count) for _ in range(2)]
    return _convolve(
        importer, x, weight, bias, strides=listed(stride, count), pads=pads, window_dilation=steps, groups=groups
    )


def _convolve(importer: Importer, x: Any, weight: Tensor, bias: Any, swapped: bool = False, **settings: Any) -> Tensor:
    tensor = importer.tensor(x)
    batched = tensor.ndim == weight.ndim
    image = tensor if batched else tensor.reshape(1, *tensor.shape)
    added = None if bias is None else importer.tensor(bias)
    result = convolved(importer.op, image, weight, added, "IO" if swapped else "OI", **settings)
    return result if batched else result.reshape(*importer.shape)


@handles("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def _conv_transpose(
    importer: Importer,
    x: Any,
    w: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """Convolves the input, dilated by the stride, with the reversed kernel."""
    weight = importer.tensor(w)
    count = weight.ndim - 2
    steps, pads = listed(dilation, count), []
    for size, step, pad, extra in zip(
        weight.shape[2:], steps, listed(padding, count), listed(output_padding, count), strict=True
    ):
        reach = step * (size - 1) - pad
        pads += [reach, reach + extra]
    if math.prod(weight.shape[2:]) > 1:
        weight = importer.op("reverse", weight, dims=list(range(2, weight.ndim)))
    if groups > 1:  # converts [g·I, O, ...] to [g·O, I, ...]
        inputs, outputs, *window = weight.shape
        apart = weight.reshape(groups, inputs // groups, outputs, *window)
        order = [0, 2, 1, *range(3, apart.ndim)]
        weight = apart.transpose(*order).reshape(groups * outputs, inputs // groups, *window)
    return _convolve(
        importer, x, weight, bias, swapped=groups == 1, pads=pads, window_dilation=steps,
        input_dilation=listed(stride, count), groups=groups,
    )  # fmt: skip


@handles("aten.convolution.default", "aten._convolution.default")
def _convolution(
    importer: Importer,
    x: Any,
    w: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *_: Any,
) -> Tensor:
    if transposed:
        return _conv_transpose(importer, x, w, bias, stride, padding, output_padding, groups, dilation)
    return _conv(importer, x, w, bias, stride, padding, dilation, groups)


# --- normalization ---


def _normalized(importer: Importer, x: Any, *parts: Any, **attributes: Any) -> Tensor:
    """Builds kind normalize with optional scale and bias."""
    given = [None if part is None else importer.tensor(part) for part in parts]
    return importer.op("normalize", importer.tensor(x), *given, **attributes)


@handles("aten.layer_norm.default", "aten.native_layer_norm.default")
def _layer_norm(
    importer: Importer, x: Any, shape: Sequence[int], w: Any = None, b: Any = None, epsilon: float = 1e-5, *_: Any
) -> Any:
    tensor = importer.tensor(x)
    dims = list(range(tensor.ndim - len(shape), tensor.ndim))
    native = "native" in str(importer.node.target)
    if native and any(user.args[1] != 0 for user in importer.node.users):
        raise importer.unsupported("mean and rstd as results of a normalization")
    value = _normalized(importer, tensor, w, b, mode="layer", dims=dims, epsilon=float(epsilon))
    return (value, None, None) if native else value


@handles("aten.rms_norm.default", "aten._fused_rms_norm.default")
def _rms_norm(importer: Importer, x: Any, shape: Sequence[int], w: Any = None, epsilon: float | None = None) -> Any:
    tensor = importer.tensor(x)
    if epsilon is None:
        epsilon = 2.0**-52 if tensor.dtype == "f64" else 2.0**-23  # torch takes epsilon of its compute dtype
    dims = list(range(tensor.ndim - len(shape), tensor.ndim))
    value = _normalized(importer, tensor, w, mode="rms", dims=dims, epsilon=float(epsilon))
    return (value, None) if "_fused" in str(importer.node.target) else value


@handles("aten.group_norm.default")
def _group_norm(
    importer: Importer, x: Any, groups: int, w: Any = None, b: Any = None, epsilon: float = 1e-5, *_: Any
) -> Tensor:
    return _normalized(importer, x, w, b, mode="group", groups=int(groups), epsilon=float(epsilon))


@handles("aten.instance_norm.default")
def _instance_norm(
    importer: Importer,
    x: Any,
    w: Any,
    b: Any,
    mean: Any,
    variance: Any,
    use_input: bool,
    momentum: float,
    epsilon: float,
    *_: Any,
) -> Tensor:
    if not use_input:
        return _batch(importer, x, w, b, mean, variance, epsilon)
    return _normalized(importer, x, w, b, mode="instance", epsilon=float(epsilon))


def _batch(importer: Importer, x: Any, w: Any, b: Any, mean: Any, variance: Any, epsilon: float) -> Tensor:
    tensor = importer.tensor(x)
    channels, dtype = tensor.shape[1], importer.tensor(mean).dtype

    def parameter(value: Any, neutral: float) -> Tensor:
        if value is not None:
            return importer.tensor(value)
        return importer.broadcast(importer.builder.scalar(neutral, dtype), [channels])

    parts = [parameter(w, 1), parameter(b, 0), importer.tensor(mean), importer.tensor(variance)]
    return importer.op("batch_norm", tensor, *parts, feature_dim=1, epsilon=float(epsilon))


@handles("aten._native_batch_norm_legit_no_training.default")
def _batch_norm(importer: Importer, x: Any, w: Any, b: Any, mean: Any, variance: Any, _: float, epsilon: float) -> Any:
    return _batch(importer, x, w, b, mean, variance, epsilon), None, None


# --- embedding ---


@handles("aten.embedding.default")
def _embedding(importer: Importer, table: Any, ids: Any, *_: Any, **__: Any) -> Tensor:
    """Looks up rows; the padding index affects only gradients."""
    return importer.op("embedding", importer.tensor(table), importer.tensor(ids))


@handles("aten.embedding_bag.padding_idx", "aten._embedding_bag_forward_only.default", "aten._embedding_bag.default")
def _embedding_bag(
    importer: Importer, table: Any, ids: Any, offsets: Any, _: bool = False, mode: int = 0, *rest: Any
) -> Any:
    """Reduces rows of the table per bag; bags have equal size and constant offsets."""
    if not isinstance(offsets, torch.Tensor):
        raise importer.unsupported(
            "bag offsets that depend on inputs", suggestion="Pass ids of shape [bags, ids per bag]"
        )
    if len(rest) > 1 and rest[1] is not None:
        raise importer.unsupported("per-sample weights")
    if len(rest) > 3 and rest[3] is not None and rest[3] >= 0:
        raise importer.unsupported("a padding index of bags")
    tensor, bags = importer.tensor(ids), importer.shape[0]
    starts = offsets.tolist()[:bags]
    size = tensor.shape[0] // bags if bags else 0
    if tensor.ndim != 1 or starts != [i * size for i in range(bags)] or size * bags != tensor.shape[0] or not size:
        raise importer.unsupported("bags of different sizes", str(starts[:8]))
    rows = importer.op("embedding", importer.tensor(table), tensor.reshape(bags, size))
    return reduced(importer, rows, ("add", "mean", "maximum")[mode], axis(1, 3)), None, None, None


# --- recurrent layers: one counted loop for each layer and direction ---


def _layers(
    importer: Importer,
    cell: recurrent.Cell,
    states: Sequence[Any],
    x: Any,
    params: Sequence[Any],
    has_biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, list[list[Tensor]]]:
    """Builds all layers; returns [steps, batch, directions * hidden] and the last states by layer and direction."""
    if train and dropout:
        raise importer.unsupported("dropout between recurrent layers", str(dropout), "Call module.eval() first")
    b, directions = importer.builder, 2 if bidirectional else 1
    x, weights = importer.tensor(x), [importer.tensor(one) for one in params]
    given = [importer.tensor(state) for state in states]
    x = x.transpose(1, 0, 2) if batch_first else x
    each, last = len(weights) // (layers * directions), []
    for layer in range(layers):
        results = []
        for turned in range(directions):
            number = layer * directions + turned
            inner, outer, *rest = weights[number * each : (number + 1) * each]
            bias = rest.pop(0) if has_biases else None
            projected = importer.op("contract", x, inner, bias, a_contract=[2], b_contract=[1])
            before, fixed = [state[number] for state in given], [outer, *rest]
            found, after = recurrent.over_steps(
                b, projected, before, fixed, cell, backwards=turned == 1, stem=importer._name or "recurrence"
            )
            results.append(found)
            last.append(after)
        x = results[0] if directions == 1 else b.concat(results, axis=2)
    return x.transpose(1, 0, 2) if batch_first else x, last


def _stacked(importer: Importer, states: Sequence[Tensor]) -> Tensor:
    """Stacks states [batch, hidden] to one tensor [layers * directions, batch, hidden]."""
    return importer.builder.concat([state.reshape(1, *state.shape) for state in states])


@handles("aten.lstm.input")
def _lstm(importer: Importer, x: Any, states: Sequence[Any], params: Sequence[Any], *settings: Any) -> Any:
    result, last = _layers(importer, recurrent.lstm, states, x, params, *settings)
    return result, *(_stacked(importer, [one[i] for one in last]) for i in range(2))


@handles("aten.gru.input", "aten.rnn_tanh.input", "aten.rnn_relu.input")
def _single_state_layer(importer: Importer, x: Any, state: Any, params: Sequence[Any], *settings: Any) -> Any:
    word = str(importer.node.target).split(".")[1]
    cell = recurrent.gru if word == "gru" else recurrent.rnn(word.removeprefix("rnn_"))
    result, last = _layers(importer, cell, [state], x, params, *settings)
    return result, _stacked(importer, [one[0] for one in last])
