"""Products and convolutions as networks have them, sizes drawn over decades, and machines for them."""

from __future__ import annotations

import random

import tilesim as ts

DTYPES = {"edge-8": "i8", "gemmini-16": "i8", "tpu-v2": "f32", "tpu-v3": "f32", "tpu-v4": "bf16", "mesh-16": "bf16"}


def layer(rng: random.Random, dtype: str, most: int = 2000) -> ts.Graph:
    """A product, a batched product or a convolution; extents of 1 and ragged ones among them."""

    def size(limit: float) -> int:
        return max(1, round(limit ** rng.random()))

    kind = rng.choice(["product", "product", "batched", "convolution"])
    if kind == "product":
        return ts.workloads.matmul(size(most), size(most), size(most), dtype=dtype)
    if kind == "batched":
        return ts.workloads.matmul(size(most / 5), size(most / 5), size(most / 5), dtype=dtype, batch=1 + size(24))
    kernel, side = rng.choice([1, 3, 5]), 4 + size(60)
    return ts.workloads.conv2d(
        size(16), size(256), side, side, size(256), kernel, stride=rng.choice([1, 1, 2]), padding=kernel // 2,
        dtype=dtype,
    )  # fmt: skip


def machine(rng: random.Random, cores: int = 1) -> tuple[ts.Machine, str]:
    """A preset and the type that it multiplies, some with another number of arrays or load queues."""
    name = rng.choice(list(DTYPES))
    changes = {
        "core.count": cores,
        "core.array.count": rng.choice([1, 1, 2, 3, 4]),
        "core.dma.load_queues": rng.choice([1, 1, 2]),
    }
    return ts.Machine.load(name).replace(changes), DTYPES[name]


def describe(graph: ts.Graph, target: ts.Machine, seed: int) -> str:
    """For messages: where to find the case again."""
    shapes = [value["shape"] for value in graph.inputs]
    return f"seed {seed}: {graph.name} {shapes} on {target.name}"
