"""Attention and rotary embedding of ONNX and of domain com.microsoft (ONNX Runtime, ContribOperators)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...graph.tensor import Tensor
from .scope import OnnxNode, OnnxScope, Value, handles

MICROSOFT = "com.microsoft"


def heads_first(scope: OnnxScope, x: Tensor, heads: int) -> Tensor:
    """Converts [B, S, H D] to [B, H, S, D]."""
    batch, steps, width = x.shape
    return scope.transpose(scope.reshape(x, [batch, steps, heads, width // heads]), [0, 2, 1, 3])


def heads_last(scope: OnnxScope, x: Tensor) -> Tensor:
    """Converts [B, H, S, D] to [B, S, H D]."""
    batch, heads, steps, width = x.shape
    return scope.reshape(scope.transpose(x, [0, 2, 1, 3]), [batch, steps, heads * width])


def attend(
    scope: OnnxScope,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float,
    lengths: Tensor | None = None,
    **more: Any,
) -> Tensor:
    """Builds one attention operation; query heads that share a key head are adjacent."""
    scale = scale or 1.0 / math.sqrt(q.shape[-1])
    operands = [q, k, v, mask, lengths]
    while operands[-1] is None:
        operands.pop()
    result: Tensor = scope.op("attention", *operands, scale=float(scale), **more)
    return result


@handles("Attention")
def attention(scope: OnnxScope, node: OnnxNode) -> Sequence[Value] | Any:
    """Builds attention (opset 23 and later) without scores as output; else the standard's function body applies."""
    plain = len([name for name in node.outputs[3:] if name]) == 0
    q, k, v, mask = (scope.get(node, i) for i in range(4))
    known = {"is_causal", "kv_num_heads", "q_num_heads", "scale", "softcap", "qk_matmul_output_mode"}
    if not plain or node.number("softcap") != 0 or not known.issuperset(node.attributes) or q.dtype in ("f16", "bf16"):
        return scope.model.inline(scope, node, scope.model.definition(scope, node))
    flat = q.ndim == 3
    if flat:
        q, k, v = (
            heads_first(scope, x, node.integer(name))
            for x, name in ((q, "q_num_heads"), (k, "kv_num_heads"), (v, "kv_num_heads"))
        )
    if node.has(4):
        k, v = scope.concat([scope.get(node, 4), k], 2), scope.concat([scope.get(node, 5), v], 2)
    present: list[Any] = [k, v]
    more: dict[str, Any] = {"masked_row": "zero"}
    lengths = scope.get(node, 6)
    if lengths is not None and node.integer("is_causal"):
        more.update(causal=True)  # the queries are the last tokens of each sequence
    elif node.integer("is_causal"):
        more.update(causal=True, causal_offset=int(scope.get(node, 4).shape[2]) if node.has(4) else 0)
    if mask is not None and mask.shape[-1] < k.shape[2]:
        missing = k.shape[2] - mask.shape[-1]
        fill = scope.scalar(False, "bool") if mask.dtype == "bool" else scope.like(-math.inf, mask)
        mask = scope.op("pad", mask, fill, low=[0] * mask.ndim, high=[0] * (mask.ndim - 1) + [missing])
    if mask is not None and mask.dtype not in ("bool", q.dtype):
        mask = scope.convert(mask, q.dtype)
    y = attend(scope, q, k, v, mask, node.number("scale"), lengths, **more)
    return [heads_last(scope, y) if flat else y, *present][: max(1, len(node.outputs))]


def rotated(scope: OnnxScope, x: Tensor, tables: Sequence[Tensor], interleaved: bool, width: int) -> Tensor:
    """Rotates pairs of elements by an angle; x [B, S, H, D], tables of cosines and sines [B or 1, S, width / 2]."""
    half = width // 2
    rest = scope.along(x, 3, width, x.shape[3]) if width < x.shape[3] else None
    x = scope.along(x, 3, 0, width)
    cos, sin = (scope.reshape(part, [part.shape[0], part.shape[1], 1, part.shape[2]]) for part in tables)
    if interleaved:
        a, b = scope.along(x, 3, 0, width - 1, 2), scope.along(x, 3, 1, width, 2)
    else:
        a, b = scope.along(x, 3, 0, half), scope.along(x, 3, half, width)
    low = scope.apply("subtract", scope.apply("multiply", a, cos), scope.apply("multiply", b, sin))
    high = scope.apply("add", scope.apply("multiply", a, sin), scope.apply("multiply", b, cos))
    if interleaved:
        wide = [scope.reshape(part, [*part.shape, 1]) for part in (low, high)]
        y = scope.reshape(scope.concat(wide, 4), x.shape)
    else:
        y = scope.concat([low, high], 3)
    return y if rest is None else scope.concat([y, rest], 3)


@handles("RotaryEmbedding", domain=MICROSOFT)
def rotary(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds a rotary embedding of x [B, S, H D] or [B, H, S, D]; positions are [1] (the first) or [B, S]."""
    x, positions, cos, sin = (scope.get(node, i) for i in range(4))
    width = node.integer("rotary_embedding_dim") or 2 * cos.shape[1]
    flat = x.ndim == 3
    if flat:
        heads = node.integer("num_heads") or x.shape[2] // (2 * cos.shape[1])
        inner = scope.reshape(x, [x.shape[0], x.shape[1], heads, x.shape[2] // heads])
    else:
        inner = scope.transpose(x, [0, 2, 1, 3])
    if positions.ndim == 1:
        steps = scope.op("iota", shape=[1, inner.shape[1]], dtype=positions.dtype, dim=1)
        positions = scope.apply("add", steps, positions)
    tables = [scope.take(table, positions, 0) for table in (cos, sin)]
    y = rotated(scope, inner, tables, node.integer("interleaved") != 0, width)
    return [scope.reshape(y, x.shape) if flat else scope.transpose(y, [0, 2, 1, 3])]


@handles("MultiHeadAttention", domain=MICROSOFT)
def multi_head(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds attention with separate projections, bias, mask of keys or scores, and key-value cache."""
    q, k, v, bias, mask, scores = (scope.get(node, i) for i in range(6))
    heads = node.integer("num_heads")
    if k is None or q.ndim != 3 or k.ndim not in (3, 4):
        raise Unsupported("packed projections")
    if bias is not None:
        borders = np.cumsum([0, q.shape[2], k.shape[2], v.shape[2]])
        parts = [scope.along(bias, 0, int(a), int(b)) for a, b in pairwise(borders)]
        q, k, v = (scope.apply("add", x, part) for x, part in zip((q, k, v), parts, strict=True))
    q = heads_first(scope, q, heads)
    k, v = (heads_first(scope, x, heads) if x.ndim == 3 else x for x in (k, v))
    if node.has(6):
        k, v = scope.concat([scope.get(node, 6), k], 2), scope.concat([scope.get(node, 7), v], 2)
    y = attend_masked(scope, node, q, k, v, mask, scores)
    return [y, k, v][: max(1, len(node.outputs))]


def attend_masked(
    scope: OnnxScope, node: OnnxNode, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scores: Tensor | None
) -> Tensor:
    """Builds attention with a key mask and additive scores; returns [B, S, H D]."""
    extra = masked(scope, mask, q, k, node.number("mask_filter_value", -10000.0))
    if scores is not None:
        extra = scores if extra is None else scope.apply("add", scores, extra)
    causal: dict[str, Any] = {"causal": True} if node.integer("unidirectional") else {}
    return heads_last(scope, attend(scope, q, k, v, extra, node.number("scale"), **causal))


def masked(scope: OnnxScope, mask: Tensor | None, q: Tensor, k: Tensor, low: float) -> Tensor | None:
    """Converts a mask [B, T], [B, S, T] or lengths [B] to a term of the scores: `low` where the mask is 0."""
    if mask is None:
        return None
    batch, steps, keys = q.shape[0], q.shape[2], k.shape[2]
    if list(mask.shape) == [batch]:
        position = scope.op("iota", shape=[1, keys], dtype=mask.dtype, dim=1)
        kept = scope.apply("less", position, scope.reshape(mask, [batch, 1]))
        shape = [batch, 1, 1, keys]
    else:
        kept = scope.apply("not_equal", mask, scope.like(0, mask))
        shape = [batch, 1, 1, keys] if mask.ndim == 2 else [batch, 1, steps, keys]
        if mask.ndim not in (2, 3):
            raise Unsupported(f"a mask of shape {list(mask.shape)}")
    zero = scope.like(0, q)
    return scope.reshape(scope.apply("select", kept, zero, scope.like(low, q)), shape)


@handles("Attention", domain=MICROSOFT)
def packed_attention(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds attention whose query, key and value projections are one matrix product."""
    x, w, bias, mask = (scope.get(node, i) for i in range(4))
    heads, past_state, scores = node.integer("num_heads"), scope.get(node, 4), scope.get(node, 5)
    sizes = node.integers("qkv_hidden_sizes") or [w.shape[1] // 3] * 3
    projected = scope.builder.matmul(x, w)
    if bias is not None:
        projected = scope.apply("add", projected, bias)
    borders = np.cumsum([0, *sizes])
    q, k, v = (heads_first(scope, scope.along(projected, 2, int(a), int(b)), heads) for a, b in pairwise(borders))
    if past_state is not None:
        old = [scope.reshape(scope.along(past_state, 0, i, i + 1), past_state.shape[1:]) for i in (0, 1)]
        k, v = scope.concat([old[0], k], 2), scope.concat([old[1], v], 2)
    y = attend_masked(scope, node, q, k, v, mask, scores)
    if len(node.outputs) < 2:
        return [y]
    return [y, scope.concat([scope.reshape(part, [1, *part.shape]) for part in (k, v)], 0)]


@handles("GroupQueryAttention", domain=MICROSOFT)
def group_query(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds causal attention with grouped heads, growing cache and optional rotary embedding; lengths are equal."""
    q, k, v = (scope.get(node, i) for i in range(3))
    heads, groups = node.integer("num_heads"), node.integer("kv_num_heads")
    if k is None:
        width = q.shape[2] // (heads + 2 * groups)
        borders = np.cumsum([0, heads * width, groups * width, groups * width])
        q, k, v = (scope.along(q, 2, int(a), int(b)) for a, b in pairwise(borders))
    batch, steps, _ = q.shape
    lengths = scope.integers(node, 5, "the lengths of sequences")
    total = int(scope.numbers(node, 6, "the length of the cache").reshape(-1)[0])
    if any(length != total - 1 for length in lengths):
        raise Unsupported("sequences of different lengths")
    if node.number("softcap") or node.integer("smooth_softmax"):
        raise Unsupported("soft caps of group query attention")
    before = total - steps
    split = [scope.reshape(x, [batch, steps, n, x.shape[2] // n]) for x, n in ((q, heads), (k, groups), (v, groups))]
    if node.integer("do_rotary"):
        tables = [scope.along(scope.get(node, i), 0, before, before + steps) for i in (7, 8)]
        tables = [scope.reshape(table, [1, *table.shape]) for table in tables]
        turn = node.integer("rotary_interleaved") != 0
        split[:2] = [rotated(scope, x, tables, turn, 2 * tables[0].shape[2]) for x in split[:2]]
    q, k, v = (scope.transpose(x, [0, 2, 1, 3]) for x in split)
    past_k, past_v = scope.get(node, 3), scope.get(node, 4)
    if past_k is not None and before:
        k = scope.concat([scope.along(past_k, 2, 0, before), k], 2)
        v = scope.concat([scope.along(past_v, 2, 0, before), v], 2)
    window = node.integer("local_window_size", -1)
    more: dict[str, Any] = {"window": window} if window > 0 else {}
    y = heads_last(scope, attend(scope, q, k, v, None, node.number("scale"), causal=True, causal_offset=before, **more))
    return [y, k, v][: max(1, len(node.outputs))]
