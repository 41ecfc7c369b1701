"""Measurements of this machine, in the columns that `calibrate` reads."""

from __future__ import annotations

import csv
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..graph import user_error

__all__ = ["measure_cpu", "measure_cuda"]

COLUMNS = ["source", "engine", "device", "dtype", "batch", "m", "n", "k", "latency_ms", "spread"]
SHAPES = [
    *((size, size, size) for size in (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)),
    *((m, 1024, 1024) for m in (1, 2, 4, 8, 16, 32, 64)),
    *((m, 4096, 1024) for m in (1, 4, 16, 64)),
    *((m, 1024, 4096) for m in (1, 4, 16, 64, 256)),
    *((512, n, 256) for n in (64, 128, 1024, 4096)),
    *((256, 256, k) for k in (16, 64, 1024, 4096, 16384)),
]


def _time(call: Callable[[], Any], budget: float) -> tuple[float, float]:
    """Lower quartile of the seconds of batches of calls (others disturb upwards only), and their relative spread."""
    call()
    begin = time.perf_counter()
    call()
    once = max(1e-7, time.perf_counter() - begin)
    inner = max(1, int(1e-3 / once))
    samples: list[float] = []
    end = time.perf_counter() + budget
    while len(samples) < 3 or (time.perf_counter() < end and len(samples) < 30):
        begin = time.perf_counter()
        for _ in range(inner):
            call()
        samples.append((time.perf_counter() - begin) / inner)
    quartile = sorted(samples)[len(samples) // 4]
    return quartile, (max(samples) - min(samples)) / quartile


def _numpy_calls() -> Iterator[tuple[str, str, Callable[[int, int, int], Callable[[], Any]]]]:
    def plain(m: int, n: int, k: int) -> Callable[[], Any]:
        a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
        out = np.empty((m, n), np.float32)
        return lambda: np.matmul(a, b, out=out)

    yield "numpy", "fp32", plain


def _torch_calls() -> Iterator[tuple[str, str, Callable[[int, int, int], Callable[[], Any]]]]:
    try:
        import torch
    except ImportError:
        return

    def plain(dtype: Any) -> Callable[[int, int, int], Callable[[], Any]]:
        def make(m: int, n: int, k: int) -> Callable[[], Any]:
            a, b = torch.ones(m, k, dtype=dtype), torch.ones(k, n, dtype=dtype)
            return lambda: torch.mm(a, b)

        return make

    def packed(dtype: Any) -> Callable[[int, int, int], Callable[[], Any]]:
        def make(m: int, n: int, k: int) -> Callable[[], Any]:
            from torch.utils import mkldnn

            layer = mkldnn.to_mkldnn(torch.nn.Linear(k, n, bias=False), dtype)
            x = torch.ones(m, k, dtype=dtype).to_mkldnn()
            return lambda: layer(x)

        return make

    yield "torch-plain", "fp32", plain(torch.float32)
    yield "torch-plain", "bf16", plain(torch.bfloat16)
    if torch.backends.mkldnn.is_available():
        yield "torch-packed", "fp32", packed(torch.float32)


def measure_cpu(path: str | os.PathLike[str], device: str = "desktop-avx512", seconds: float = 60.0) -> int:
    """Measures matrix products on this machine's CPU with numpy, and with torch where it is installed.

    Plain operands lie as a program holds them; packed weights were rearranged once, before the clock starts.

    Args:
        path: CSV file to write: source, engine, device, dtype, batch, m, n, k, latency_ms, and the relative spread.
        device: name of the device file that describes this machine.
        seconds: for all measurements together, about.

    Returns:
        The number of rows.

    Raises:
        UserError: for an unknown device.
    """
    from ..device import Device

    name = Device.load(device).name
    kinds = [*_numpy_calls(), *_torch_calls()]
    budget = seconds / (len(kinds) * len(SHAPES))
    rows = []
    for engine, dtype, make in kinds:
        for m, n, k in SHAPES:
            try:
                middle, spread = _time(make(m, n, k), budget)
            except RuntimeError:  # this build of the library has no such kernel
                break
            rows.append(["measured", engine, name, dtype, 1, m, n, k, f"{middle * 1e3:.6g}", f"{spread:.3f}"])
    _write(path, rows)
    return len(rows)


def measure_cuda(path: str | os.PathLike[str], device: str, seconds: float = 60.0) -> int:
    """Measures matrix products on a CUDA device with torch, replayed in a graph.

    Args:
        path: CSV file to write, columns as of `measure_cpu`.
        device: name of the device file that describes the GPU.
        seconds: for all measurements together, about.

    Returns:
        The number of rows.

    Raises:
        UserError: without torch or a GPU, naming what is missing; for an unknown device.
    """
    from ..device import Device

    name = Device.load(device).name
    try:
        import torch
    except ImportError:
        raise user_error("torch is needed to measure a GPU", suggestion="pip install 'tilesim[torch]'") from None
    if not torch.cuda.is_available():
        raise user_error("no CUDA device is present", suggestion="tilesim measure cpu measures this machine's CPU")
    rows: list[list[Any]] = []
    dtypes = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    shapes = [*SHAPES, *((size, size, size) for size in (4096, 8192))]
    budget = seconds / (len(dtypes) * len(shapes))
    for dtype, kind in dtypes.items():
        for m, n, k in shapes:
            a = torch.randn(m, k, device="cuda", dtype=kind)
            weights = [torch.randn(k, n, device="cuda", dtype=kind) for _ in range(6)]
            middle, spread = _replay(torch, a, weights, budget)
            rows.append(["measured", "library", name, dtype, 1, m, n, k, f"{middle * 1e3:.6g}", f"{spread:.3f}"])
    _write(path, rows)
    return len(rows)


def _replay(torch: Any, a: Any, weights: list[Any], budget: float) -> tuple[float, float]:
    for _ in range(3):
        torch.mm(a, weights[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for weight in weights:
            torch.mm(a, weight)
    samples: list[float] = []
    end = time.perf_counter() + budget
    while len(samples) < 6 or (time.perf_counter() < end and len(samples) < 30):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(stop) * 1e-3 / len(weights))
    middle = statistics.median(samples)
    return middle, (max(samples) - min(samples)) / middle


def _write(path: str | os.PathLike[str], rows: list[list[Any]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
