"""ONNX: fused operators of the domain com.microsoft against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="needs onnx: pip install 'tilesim[onnx]'")
from onnx import helper  # noqa: E402

from support.onnx_models import RNG, floats, run  # noqa: E402


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x, n):
    return x.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)


def attended(q, k, v, bias=0.0):
    y = softmax(q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + bias) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def test_microsoft_attention():
    x, w, b = floats(2, 5, 16), floats(16, 48) / 4, floats(48)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    node = helper.make_node("Attention", ["x", "w", "b", "mask"], ["y"], num_heads=4, domain="com.microsoft")
    (y,) = run([node], {"x": x, "mask": mask}, ["y"], {"w": w, "b": b}, microsoft=True)
    q, k, v = (heads(part, 4) for part in np.split(x @ w + b, 3, axis=2))
    wanted = attended(q, k, v, np.where(mask, 0, -10000.0)[:, None, None, :])
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_microsoft_multi_head_attention():
    q, k, v = floats(2, 3, 16), floats(2, 5, 16), floats(2, 5, 16)
    node = helper.make_node("MultiHeadAttention", ["q", "k", "v"], ["y"], num_heads=2, domain="com.microsoft")
    (y,) = run([node], {"q": q, "k": k, "v": v}, ["y"], microsoft=True)
    np.testing.assert_allclose(y, attended(*(heads(x, 2) for x in (q, k, v))), rtol=1e-4, atol=1e-5)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def test_microsoft_group_query_attention():
    """Two steps after three in the cache; four heads share two groups; rotary positions go on."""
    q, k, v = floats(1, 2, 32), floats(1, 2, 16), floats(1, 2, 16)
    old_k, old_v, table = floats(1, 2, 3, 8), floats(1, 2, 3, 8), floats(16, 4)
    cos, sin = np.cos(table), np.sin(table)
    node = helper.make_node(
        "GroupQueryAttention", ["q", "k", "v", "old_k", "old_v", "lengths", "total", "cos", "sin"],
        ["y", "new_k", "new_v"], num_heads=4, kv_num_heads=2, do_rotary=1, domain="com.microsoft",
    )  # fmt: skip
    given = {"q": q, "k": k, "v": v, "old_k": old_k, "old_v": old_v}
    weights = {"lengths": np.array([4], np.int32), "total": np.array([5], np.int32), "cos": cos, "sin": sin}
    y, new_k, new_v = run([node], given, ["y", "new_k", "new_v"], weights, microsoft=True)
    keys = np.concatenate([old_k, rotate(heads(k, 2), cos[3:5], sin[3:5])], 2)
    values = np.concatenate([old_v, heads(v, 2)], 2)
    np.testing.assert_allclose(new_k, keys, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(new_v, values)
    hidden = np.where(np.arange(5)[None, :] <= np.arange(2)[:, None] + 3, 0, -np.inf)
    turned = rotate(heads(q, 4), cos[3:5], sin[3:5])
    wanted = attended(turned, keys.repeat(2, 1), values.repeat(2, 1), hidden)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


def test_microsoft_normalizations():
    x, skip, scale, shift, bias = floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8), floats(8)
    names = ["x", "skip", "scale", "shift", "bias"]
    node = helper.make_node(
        "SkipLayerNormalization", names, ["y", "", "", "total"], epsilon=1e-5, domain="com.microsoft"
    )
    weights = {"scale": scale, "shift": shift, "bias": bias}
    y, total = run([node], {"x": x, "skip": skip}, ["y", "total"], weights, microsoft=True)
    s = x + skip + bias
    wanted = (s - s.mean(-1, keepdims=True)) / np.sqrt(s.var(-1, keepdims=True) + 1e-5) * scale + shift
    np.testing.assert_allclose(total, s, rtol=1e-6)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)
    names = ["x", "skip", "scale"]
    node = helper.make_node("SkipSimplifiedLayerNormalization", names, ["y"], epsilon=1e-5, domain="com.microsoft")
    (y,) = run([node], {"x": x, "skip": skip}, ["y"], {"scale": scale}, microsoft=True)
    s = x + skip
    np.testing.assert_allclose(y, s / np.sqrt((s * s).mean(-1, keepdims=True) + 1e-5) * scale, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("zeros", [False, True])
def test_microsoft_matmul_of_four_bits(zeros):
    n, k, block = 6, 40, 16
    codes = RNG.integers(0, 16, (n, 48)).astype(np.uint8)
    points = RNG.integers(0, 16, (n, 4)).astype(np.uint8)
    scales = floats(n, 3)
    offset = points[:, :3] if zeros else np.full((n, 3), 8)
    w = ((codes.reshape(n, 3, block).astype(np.float32) - offset[:, :, None]) * scales[:, :, None]).reshape(n, 48)[
        :, :k
    ]
    packed = (codes[:, ::2] | codes[:, 1::2] << 4).reshape(n, 3, block // 2)
    x = floats(2, 5, k)
    weights = {"b": packed, "s": scales.reshape(-1)}
    if zeros:
        weights["z"] = (points[:, ::2] | points[:, 1::2] << 4).reshape(-1)
    names = ["x", "b", "s", *(["z"] if zeros else [])]
    node = helper.make_node("MatMulNBits", names, ["y"], N=n, K=k, bits=4, block_size=block, domain="com.microsoft")
    (y,) = run([node], {"x": x}, ["y"], weights, microsoft=True)
    np.testing.assert_allclose(y, x @ w.T, rtol=1e-4, atol=1e-4)


def test_microsoft_fused_products():
    a, b, c = floats(3, 4), floats(4, 5), floats(5)
    node = helper.make_node("FusedGemm", ["a", "b", "c"], ["y"], activation="Relu", domain="com.microsoft")
    (y,) = run([node], {"a": a, "b": b}, ["y"], {"c": c}, microsoft=True)
    np.testing.assert_allclose(y, np.maximum(a @ b + c, 0), rtol=1e-5, atol=1e-6)
    node = helper.make_node("FusedMatMul", ["a", "b"], ["y"], transA=1, alpha=0.5, domain="com.microsoft")
    (y,) = run([node], {"a": a.T.copy(), "b": b}, ["y"], microsoft=True)
    np.testing.assert_allclose(y, 0.5 * a @ b, rtol=1e-5, atol=1e-6)
