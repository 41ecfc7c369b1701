"""Workload suites: a layer of a language model, layers of a vision model, cubic products of growing size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import workloads
from ..base.errors import Unsupported, unknown
from ..graph import Graph
from ..results.result import Table
from .cache import pressure
from .estimate import DeviceLike, device_of, estimate

__all__ = ["compare_suite", "suite", "suite_names"]


def _llm(dtype: str) -> dict[str, Graph]:
    rows, width, heads = 512, 4096, 32
    depth = width // heads
    return {
        "query, key, value": workloads.matmul(rows, 3 * width, width, dtype=dtype),
        "attention": workloads.attention(1, heads, rows, depth, causal=True, dtype=dtype),
        "output": workloads.matmul(rows, width, width, dtype=dtype),
        "feed-forward up": workloads.matmul(rows, 4 * width, width, dtype=dtype),
        "gelu": workloads.elementwise("gelu_tanh", rows, 4 * width, dtype=dtype),
        "feed-forward down": workloads.matmul(rows, width, 4 * width, dtype=dtype),
        "layer norm": workloads.layer_norm(rows, width, dtype=dtype),
        "embedding": workloads.embedding(rows, 32000, width, dtype=dtype),
        "experts, 2 of 8": workloads.experts(rows, width, 14336, 8, 2, dtype=dtype),
        "long attention, grouped, window": workloads.attention(
            1, heads, 8192, depth, key_heads=heads // 4, causal=True, window=1024, dtype=dtype
        ),
        "decode: query, key, value": workloads.matmul(1, 3 * width, width, dtype=dtype),
        "decode: attention": workloads.attention(1, heads, 1, depth, keys=rows, causal=True, dtype=dtype),
        "decode: attention, grouped": workloads.attention(
            16, heads, 1, depth, keys=8192, key_heads=heads // 4, causal=True, dtype=dtype
        ),
        "decode: feed-forward up": workloads.matmul(1, 4 * width, width, dtype=dtype),
    }


def _vision(dtype: str) -> dict[str, Graph]:
    return {
        "stem 7x7": workloads.conv2d(1, 3, 224, 224, 64, 7, stride=2, padding=3, dtype=dtype),
        "3x3 64": workloads.conv2d(1, 64, 56, 56, 64, 3, padding=1, dtype=dtype),
        "1x1 64-256": workloads.conv2d(1, 64, 56, 56, 256, 1, dtype=dtype),
        "3x3 256-128": workloads.conv2d(1, 256, 28, 28, 128, 3, padding=1, dtype=dtype),
        "relu": workloads.elementwise("relu", 256, 56, 56, dtype=dtype),
    }


def _scaling(dtype: str) -> dict[str, Graph]:
    return {f"{size} cubed": workloads.matmul(size, size, size, dtype=dtype) for size in (32, 128, 512, 2048, 8192)}


_SUITES = {"llm": (_llm, "f16"), "vision": (_vision, "f32"), "scaling": (_scaling, "f32")}


def suite_names() -> list[str]:
    """Names of the suites."""
    return [*_SUITES, "all"]


def suite(name: str, dtype: str | None = None) -> dict[str, Graph]:
    """Builds the workloads of a suite."""
    if name == "all":
        return {f"{key}: {label}": graph for key in _SUITES for label, graph in suite(key, dtype).items()}
    if name not in _SUITES:
        raise unknown("suite", name, suite_names())
    build, standard = _SUITES[name]
    return build(dtype or standard)


def compare_suite(
    name: str, devices: Sequence[DeviceLike], dtype: str | None = None, scheme: str | None = None
) -> Table:
    """Compares devices on the workloads of a suite."""
    targets = [device_of(device, labels=True) for device in devices]
    rows = []
    for label, graph in suite(name, dtype).items():
        first: float | None = None
        for target in targets:
            row: dict[str, Any] = {"workload": label, "device": target.name, "ms": None, "speedup": None}
            row |= {"bound": "", "reason": ""}
            try:
                result = estimate(graph, target, scheme=scheme)
            except Unsupported as error:
                row["reason"] = str(error)
            else:
                first = first or result.milliseconds
                row.update(ms=result.milliseconds, speedup=first / result.milliseconds)
                row["bound"] = max(result.costs, key=lambda cost: cost.seconds).bound
            working = graph.core.compulsory_bytes()
            row["pressure"] = pressure(target.shared.bytes, working)
            rows.append(row)
    return Table(rows)
