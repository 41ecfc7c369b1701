"""Measures matrix products on this machine, in the format that `calibrate` reads."""

from __future__ import annotations

import csv
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import path_text, user_error
from ...base.extras import need
from ...base.files import check_writable, writing
from .readers import label_of
from .this_cpu import describe

__all__ = ["measure_cpu", "measure_cuda"]

COLUMNS = ["source", "engine", "device", "dtype", "batch", "m", "n", "k", "latency_ms", "spread"]


_AXES = ((0, 0.8192), (4, 0.6710), (4, 0.5497))  # for each axis: lowest power of two, step


def _spread(count: int) -> list[tuple[int, int, int]]:
    """Returns shapes of 2^16 to 2^31 multiply-adds, spread evenly over logarithmic axes by plastic-number steps."""
    shapes: list[tuple[int, int, int]] = []
    index = 0
    while len(shapes) < count:
        index += 1
        m, n, k = (round(2.0 ** (low + 12 * (index * step % 1))) for low, step in _AXES)
        if 16 <= math.log2(m * n * k) <= 31:
            shapes.append((m, n, k))
    return shapes


SHAPES = [
    *((size, size, size) for size in (32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)),
    *((m, 1024, 1024) for m in (1, 2, 4, 8, 16, 32, 64)),
    *((m, 4096, 1024) for m in (1, 4, 16, 64)),
    *((m, 1024, 4096) for m in (1, 4, 16, 64, 256)),
    *((512, n, 256) for n in (64, 128, 1024, 4096)),
    *((256, 256, k) for k in (16, 64, 1024, 4096, 16384)),
    *_spread(44),
]


def _time(call: Callable[[], Any], budget: float, clock: Callable[[], float]) -> tuple[float, float]:
    """Returns the lower quartile of the seconds per call (disturbances only add time) and the quartile spread."""
    call()
    begin = clock()
    call()
    once = max(1e-7, clock() - begin)
    inner = max(1, int(1e-3 / once))
    samples: list[float] = []
    end = time.perf_counter() + budget
    while len(samples) < 3 or (time.perf_counter() < end and len(samples) < 60):
        begin = clock()
        for _ in range(inner):
            call()
        samples.append(max(1e-9, clock() - begin) / inner)
    samples.sort()
    quartile = samples[len(samples) // 4]
    return quartile, (samples[(3 * len(samples)) // 4] - quartile) / quartile


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


def measure_cpu(
    path: str | os.PathLike[str], device: str = "auto", seconds: float = 60.0, threads: int | None = None
) -> int:
    """Measures matrix products on this machine's CPU with numpy, and with torch where it is installed.

    Plain operands have a program's usual layout; packed weights are rearranged before the clock starts. One thread is
    timed by CPU time, which other programs do not affect; several threads by the wall clock.
    """
    from ...machine.device import Device

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    used = allowed if threads is None else threads
    if not 1 <= used <= allowed:
        raise user_error("number of threads out of range", value=str(threads), allowed=f"1 to {allowed}")
    check_writable(path)  # before a minute of measurements
    beside = path_text(Path(path).with_suffix(".device.json"))
    name = beside if device == "auto" else Device.load(device).name
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(variables, str(used))}
    arguments = [sys.executable, "-m", __name__, path_text(path), name, str(seconds), str(used), device]
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise user_error("the measurement failed", place=path_text(path), value=done.stderr.strip()[-400:])
    return int(done.stdout.split()[-1])


def _run(path: str, name: str, seconds: float, threads: int, device: str) -> int:
    """Runs `measure_cpu` in a separate process, because libraries read the number of threads when they load."""
    clock = time.process_time if threads == 1 else time.perf_counter
    if device == "auto":
        with writing(name) as file:
            file.write(json.dumps(describe(threads, clock), indent=1) + "\n")
    kinds = [*_numpy_calls(), *_torch_calls()]
    budget = seconds / (len(kinds) * len(SHAPES))
    rows = []
    for engine, dtype, make in kinds:
        for m, n, k in SHAPES:
            try:
                middle, spread = _time(make(m, n, k), budget, clock)
            except RuntimeError:  # this build of the library lacks the kernel
                break
            rows.append(["measured", engine, name, dtype, 1, m, n, k, f"{middle * 1e3:.6g}", f"{spread:.3f}"])
    _write(path, rows)
    return len(rows)


def measure_cuda(path: str | os.PathLike[str], device: str = "auto", seconds: float = 60.0) -> int:
    """Measures matrix products on a CUDA device with torch, replayed from a CUDA graph over six weights.

    Measures fp32, fp16 and bf16, and int8 and fp8 (without casts) where this build of torch has kernels for them.
    """
    from ...machine.device import Device

    name = "" if device == "auto" else Device.load(device).name
    torch: Any = need("torch", "torch")
    if not torch.cuda.is_available():
        raise user_error("no CUDA device found", suggestion="Measure this machine's CPU: tilesim measure cpu")
    name = name or Device.named(label_of(torch.cuda.get_device_name())).name
    check_writable(path)
    rows: list[list[Any]] = []
    kinds = _cuda_kinds(torch)
    shapes = [*SHAPES, *((size, size, size) for size in (4096, 8192))]
    budget = seconds / (len(kinds) * len(shapes))
    for scheme, (multiple, make) in kinds.items():
        for m, n, k in shapes:
            if multiple > 1 and (m <= 16 or n % multiple or k % multiple):
                continue  # these kernels need aligned operands
            try:
                middle, spread = _replay(torch, make(m, n, k), budget)
            except (RuntimeError, AttributeError, TypeError) as error:
                if multiple == 1:
                    raise user_error("the measurement failed", value=str(error)[-400:]) from None
                break  # this build or this GPU lacks the kernel
            rows.append(["measured", "library", name, scheme, 1, m, n, k, f"{middle * 1e3:.6g}", f"{spread:.3f}"])
    _write(path, rows)
    return len(rows)


Products = tuple[int, Callable[[int, int, int], list[Callable[[], Any]]]]


def _cuda_kinds(torch: Any) -> dict[str, Products]:
    """Returns, by scheme, the divisor of n and k, and a function that makes six products with separate weights."""

    def plain(dtype: Any) -> Callable[[int, int, int], list[Callable[[], Any]]]:
        def make(m: int, n: int, k: int) -> list[Callable[[], Any]]:
            a = torch.randn(m, k, device="cuda", dtype=dtype)
            weights = [torch.randn(k, n, device="cuda", dtype=dtype) for _ in range(6)]
            return [partial(torch.mm, a, b) for b in weights]

        return make

    def int8(m: int, n: int, k: int) -> list[Callable[[], Any]]:
        a = torch.ones(m, k, device="cuda", dtype=torch.int8)
        weights = [torch.ones(n, k, device="cuda", dtype=torch.int8).t() for _ in range(6)]
        return [partial(torch._int_mm, a, b) for b in weights]

    def fp8(m: int, n: int, k: int) -> list[Callable[[], Any]]:
        kind, one = torch.float8_e4m3fn, torch.ones((), device="cuda")
        a = torch.randn(m, k, device="cuda").to(kind)
        weights = [torch.randn(n, k, device="cuda").to(kind).t() for _ in range(6)]
        options = {"scale_a": one, "scale_b": one, "out_dtype": torch.bfloat16}
        return [partial(torch._scaled_mm, a, b, **options) for b in weights]

    dtypes = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    kinds: dict[str, Products] = {name: (1, plain(dtype)) for name, dtype in dtypes.items()}
    if hasattr(torch, "_int_mm"):
        kinds["int8"] = (8, int8)
    if hasattr(torch, "_scaled_mm") and hasattr(torch, "float8_e4m3fn"):
        kinds["fp8_nocast"] = (16, fp8)
    return kinds


def _replay(torch: Any, calls: list[Callable[[], Any]], budget: float) -> tuple[float, float]:
    for _ in range(3):
        calls[0]()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    samples: list[float] = []
    end = time.perf_counter() + budget
    while len(samples) < 6 or (time.perf_counter() < end and len(samples) < 30):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(stop) * 1e-3 / len(calls))
    middle = statistics.median(samples)
    return middle, (max(samples) - min(samples)) / middle


def _write(path: str | os.PathLike[str], rows: list[list[Any]]) -> None:
    with writing(path, newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    print(_run(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), sys.argv[5]))
