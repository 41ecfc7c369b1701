"""The eight programs written by hand, their inputs, and what numpy computes from these."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tilesim import _core

FOLDER = Path(__file__).resolve().parents[1] / "programs"
Arrays = dict[str, Any]
Case = tuple[Arrays, Arrays, float]


def normal(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def gemm(m: int, n: int, k: int) -> Case:
    a, b = normal(1, m, k), normal(2, k, n)
    return {"A": a, "B": b}, {"C": a.astype(np.float64) @ b.astype(np.float64)}, 1e-4


def fused_epilogue() -> Case:
    a, b = (normal(seed, *shape).astype(ml_dtypes.bfloat16) for seed, shape in ((1, (40, 100)), (2, (100, 56))))
    bias = normal(3, 56)
    z = a.astype(np.float64) @ b.astype(np.float64) + bias
    y = 0.5 * z * (1 + np.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3)))
    return {"A": a, "B": b, "bias": bias}, {"Y": y}, 2.0**-8


def convolution() -> Case:
    x, w = normal(1, 11, 10, 4), normal(2, 3, 3, 4, 6)
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    y = np.zeros((6, 5, 6))
    for row in range(6):
        for column in range(5):
            y[row, column] = np.tensordot(padded[2 * row : 2 * row + 3, 2 * column : 2 * column + 3], w, 3)
    return {"x": x, "w": w}, {"y": y}, 1e-4


def layer_norm() -> Case:
    x, gamma, beta = normal(1, 5, 1000) + 0.5, normal(2, 1000), normal(3, 1000)
    wide = x.astype(np.float64)
    scaled = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    return {"x": x, "gamma": gamma, "beta": beta}, {"y": scaled * gamma + beta}, 1e-4


def attention() -> Case:
    q, k, v = normal(1, 4, 40, 16), normal(2, 2, 40, 16), normal(3, 2, 40, 16)
    o = np.empty((4, 40, 16))
    for head in range(4):
        scores = q[head].astype(np.float64) @ k[head // 2].T / 4
        scores[np.triu_indices(40, 1)] = -np.inf
        weights = np.exp(scores - scores.max(1, keepdims=True))
        o[head] = weights / weights.sum(1, keepdims=True) @ v[head // 2]
    return {"q": q, "k": k, "v": v}, {"o": o}, 1e-5


def experts() -> Case:
    x, gate, w = normal(1, 21, 12), normal(2, 21, 1), normal(3, 6, 12, 8)
    chosen = np.random.default_rng(4).choice([0, 2, 3, 5], 21)  # nobody goes to experts 1 and 4
    counts = np.bincount(chosen, minlength=6).astype(np.int32)
    offsets = (np.cumsum(counts) - counts).astype(np.int32)
    z = np.stack([x[t].astype(np.float64) @ w[chosen[t]] for t in range(21)])
    inputs = {"x": x, "gate": gate, "w": w, "counts": counts, "offsets": offsets}
    inputs["order"] = np.argsort(chosen, kind="stable").astype(np.int32)
    return inputs, {"y": z / (1 + np.exp(-z)) * gate}, 1e-4


CASES: dict[str, Callable[[], Case]] = {
    "gemm_double_buffered": lambda: gemm(70, 50, 90), "gemm_fused_epilogue": fused_epilogue,
    "gemm_two_arrays": lambda: gemm(40, 50, 70), "two_cores_multicast": lambda: gemm(60, 24, 150),
    "conv3x3_halo": convolution, "layer_norm_two_pass": layer_norm, "flash_attention": attention,
    "mixture_of_experts": experts,
}  # fmt: skip


def load(name: str) -> _core.Program:
    """The program as its file says."""
    path = FOLDER / f"{name}.json"
    return _core.Program.from_json(path.read_text(encoding="utf-8"), path.name)
