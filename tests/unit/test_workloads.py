"""Single operations as graphs: what they ask for is what they compute and cost."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts
from tilesim import workloads
from tilesim.analytic.operations import flat_operations


def test_embedding_reads_the_rows_it_looks_up() -> None:
    graph = workloads.embedding(6, 100, 8)
    table = np.arange(800, dtype=np.float32).reshape(100, 8)
    ids = np.array([3, 0, 99, 3, 5, 7], np.int32)
    (y,) = ts.reference(graph, {"table": table, "ids": ids}).values()
    assert np.array_equal(y, table[ids])
    few, many = (ts.estimate(workloads.embedding(n, 32000, 4096, dtype="f16"), "t4").seconds for n in (1, 1 << 16))
    assert many > 50 * few and many >= (1 << 16) * 4096 * 2 / 320e9  # rows, not the table


def test_rms_norm() -> None:
    x = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    scale = np.linspace(0.5, 2, 16, dtype=np.float32)
    (y,) = ts.reference(workloads.rms_norm(3, 16), {"x": x, "scale": scale}).values()
    assert y == pytest.approx(x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * scale, rel=1e-5)


def test_windows_hide_keys() -> None:
    costs = {
        window: ts.estimate(workloads.attention(1, 32, 8192, 128, causal=True, window=window, dtype="bf16"), "h100")
        for window in (None, 512)
    }
    assert costs[512].seconds < costs[None].seconds / 2
    q = np.random.default_rng(1).normal(size=(1, 1, 6, 4)).astype(np.float32)
    graph = workloads.attention(1, 1, 6, 4, causal=True, window=1)
    (y,) = ts.reference(graph, {"q": q, "k": q, "v": q}).values()
    assert y == pytest.approx(q)  # each query sees its own key alone


def test_a_layer_of_experts() -> None:
    graph = workloads.experts(16, 32, 64, 4, 2)
    kinds = [op["kind"] for op in flat_operations(graph)]
    assert kinds.count("ragged_contract") == 2
    program = ts.compile(graph, "tpu-v3")
    assert ts.verify(program).ok
    products = sum(op["flops"]["matrix"] for op in flat_operations(graph) if op["kind"] == "ragged_contract")
    assert products == 2 * 16 * 2 * 3 * 32 * 64  # two experts a token, three products each
    with pytest.raises(ts.UserError, match="chosen"):
        workloads.experts(4, 8, 8, 2, 3)
