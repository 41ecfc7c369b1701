"""Rates of closed forms, operations per second of processor time: graphs, the host's operations, arrays of shapes.

`--json FILE` writes the figures. Goals: an estimate of BERT-base in half, of Llama-3-8B in a third of what it took when
Python priced operation by operation (24.8 and 77.0 ms where this file found 6.4 and 20.3).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilesim as ts
from tilesim.analytic.attention import attention_seconds
from tilesim.analytic.conv import conv_seconds
from tilesim.analytic.gemm import gemm_seconds
from tilesim.analytic.operations import Costs
from tilesim.analytic.sparse import SparseCore
from tilesim.analytic.vector import vector_seconds
from tilesim.lowering.costs import Estimator

DEVICE = "a100"
SHAPES = 200_000


def seconds_of(call: Callable[[], Any], least: float = 0.5) -> float:
    """Processor seconds of a call, the least of several within so many seconds.

    Args:
        call: what is measured.
        least: seconds to measure at least.

    Returns:
        Seconds.
    """
    call()
    best, end = float("inf"), time.process_time() + least
    while time.process_time() < end:
        begin = time.process_time()
        call()
        best = min(best, time.process_time() - begin)
    return best


def graphs() -> dict[str, dict[str, float]]:
    """Whole estimates, and what the core takes of them."""
    found = {}
    for name in ("bert-base", "llama-3-8b", "resnet50"):
        graph = ts.models.build(name)
        costs = Costs(ts.Device.load(DEVICE), None, "", None)
        count = len(costs.price(graph.core)[0].seconds)
        core = seconds_of(lambda graph=graph, costs=costs: costs.price(graph.core))
        whole = seconds_of(lambda graph=graph: ts.estimate(graph, DEVICE))
        host = seconds_of(lambda graph=graph: Estimator(graph, ts.Device.load("xeon-8480")))
        found[name] = {
            "operations": count,
            "estimate_ms": whole * 1e3,
            "operations_per_second": count / core,
            "host_operations_per_second": count / host,
        }
    return found


def shapes() -> dict[str, dict[str, float]]:
    """Arrays of shapes of one sort of operation."""
    draw = np.random.default_rng(1)

    def extents(low: int, high: int) -> Any:
        return np.floor(np.exp(draw.uniform(np.log(low), np.log(high), SHAPES)))

    m, n, k = extents(1, 8192), extents(64, 16384), extents(64, 16384)
    queries = np.where(draw.random(SHAPES) < 0.5, 1.0, extents(2, 4096))
    keys, heads = queries + extents(1, 8192), 2.0 ** draw.integers(0, 6, SHAPES)
    calls: dict[str, Callable[[], Any]] = {
        "products": lambda: gemm_seconds(DEVICE, m, n, k),
        "attention": lambda: attention_seconds(DEVICE, batch=8, queries=queries, keys=keys, heads=heads),
        "convolutions": lambda: conv_seconds(DEVICE, 8, m, 56, np.minimum(n, 2048), 3, 1, 1),
        "softmax": lambda: vector_seconds(DEVICE, "softmax", m, n),
    }
    return {name: {"operations_per_second": SHAPES / seconds_of(call)} for name, call in calls.items()}


def sparse_cores() -> dict[str, dict[str, float]]:
    """Products of 1024 x 1024 x 1024, a with density 0.3, b with 0.5, on a sparse core of 256 multipliers."""
    draw = np.random.default_rng(1)
    a, b = draw.random((1024, 1024)) < 0.3, draw.random((1024, 1024)) < 0.5
    found = {}
    for flow in ("inner", "outer", "row"):
        core = SparseCore(256, 64, 64, flow)
        cycles = core.time(a, b).cycles
        seconds = seconds_of(lambda core=core: core.time(a, b))
        found[f"sparse {flow}"] = {"products_per_second": 1 / seconds, "cycles_per_second": cycles / seconds}
    return found


def main() -> None:
    """Prints the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="file to write")
    given = parser.parse_args()
    figures = {**graphs(), **shapes(), **sparse_cores()}
    for name, row in figures.items():
        print(f"{name:<14}" + "  ".join(f"{key} {value:,.4g}" for key, value in row.items()))
    if given.json:
        Path(given.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
