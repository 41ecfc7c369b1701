"""Ten fixed Results as hashes over every integer that timing decides; run as a script, it prints them as JSON.

The programs are written by hand (tests/programs) and the machine stands here, so that no choice of the compiler and no
preset enters; `compiled` adds workloads that are compiled for presets, to compare builds with each other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilesim as ts
from tilesim import _core

FOLDER = Path(__file__).resolve().parents[1] / "programs"
# Clocks that do not divide each other, so that every conversion between domains rounds.
MACHINE: dict[str, Any] = {
    "schema": "tilesim.machine",
    "version": 1,
    "name": "fixed",
    "core": {
        "count": 2,
        "clock": "937 MHz",
        "array": {"count": 2, "rows": 128, "columns": 128, "rates": {"f32": 1, "bf16": 2}, "multiply": "bf16"},
        "vector": {"lanes": 128, "sublanes": 8, "issue": 2, "latency": 8, "divide": 2, "transcendental": 1.7},
        "scratchpad": {"bytes": "16 MiB"},
        "dma": {"load_queues": 2, "issue_cycles": 3, "latency_cycles": 5},
    },
    "network": {"clock": "701 MHz", "latency_cycles": 10},
    "memory": {"bandwidth": "61 GB/s", "efficiency": 0.77, "latency": "93 ns", "burst_bytes": "32 B"},
}
SLOW = {"memory.bandwidth": "3 GB/s", "core.array.dataflow": "output_stationary", "core.kernel_launch_cycles": 17}
RUNS = [(path.stem, "") for path in sorted(FOLDER.glob("*.json"))] + [
    ("flash_attention", "slow"),
    ("two_cores_multicast", "slow"),
]


def routing() -> dict[str, Any]:
    """Integer tensors that the mixture of experts reads: 21 tokens, two of six experts idle."""
    chosen = np.array([0, 2, 3, 5, 5, 5, 2, 0, 3, 3, 3, 2, 0, 0, 5, 2, 2, 3, 0, 5, 5])
    counts = np.bincount(chosen, minlength=6).astype(np.int32)
    offsets = (np.cumsum(counts) - counts).astype(np.int32)
    return {"counts": counts, "offsets": offsets, "order": np.argsort(chosen, kind="stable").astype(np.int32)}


def machine(variant: str) -> ts.Machine:
    return ts.Machine.load(MACHINE).replace(SLOW if variant else {})


def program(name: str) -> _core.Program:
    return _core.Program.from_json((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def tensors(name: str) -> dict[str, Any]:
    return routing() if name == "mixture_of_experts" else {}


def one(name: str, variant: str) -> dict[str, Any]:
    result = _core.simulate(program(name), machine(variant).core, tensors=tensors(name))
    return {"cycles": result.cycles, "hash": result.timing_hash()}


def fixed() -> dict[str, dict[str, Any]]:
    """Program and variant of the machine to cycles and hash."""
    return {f"{name} {variant}".strip(): one(name, variant) for name, variant in RUNS}


COMPILED: dict[str, Callable[[], ts.Graph]] = {
    "matmul": lambda: ts.workloads.matmul(300, 200, 500),
    "softmax": lambda: ts.workloads.softmax(300, 700),
    "layer_norm": lambda: ts.workloads.layer_norm(100, 300),
    "conv2d": lambda: ts.workloads.conv2d(2, 16, 14, 14, 32, 3, padding=1),
    "attention": lambda: ts.workloads.attention(1, 4, 64, 32),
    "mlp": lambda: ts.models.build("mlp"),
    "resnet18": lambda: ts.models.build("resnet18"),
}


def compiled() -> dict[str, dict[str, Any]]:
    """Compiled workloads on two presets: the hash also holds the program."""
    rows = {}
    for name, make in COMPILED.items():
        for preset in ("tpu-v3", "edge-8"):
            result = ts.simulate(ts.compile(make(), preset))
            text = result.timing_hash() + result.data["hashes"]["program"]
            rows[f"{name} on {preset}"] = {"cycles": result.cycles, "hash": text}
    return rows


if __name__ == "__main__":
    print(json.dumps({**fixed(), **(compiled() if "compiled" in sys.argv else {})}, indent=1))
