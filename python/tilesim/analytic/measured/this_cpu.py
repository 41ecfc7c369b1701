"""Builds a device file of this machine's processor from the operating system and two measured rates."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...graph import user_error

__all__ = ["describe"]

# Operations per cycle and core by processor flag: f32, bf16, int8, with two multiply-add ports of that width.
_WIDTHS = [
    ("avx512f", 64.0, ("avx512_bf16", 128.0), ("avx512_vnni", 256.0)),
    ("avx2", 32.0, ("avx_ne_convert", 64.0), ("avx_vnni", 128.0)),
    ("asimd", 16.0, ("bf16", 32.0), ("asimddp", 64.0)),
    ("", 8.0, ("", 0.0), ("", 0.0)),
]
_CACHE_BYTES_PER_CYCLE = {1: 128.0, 2: 32.0, 3: 16.0}  # bytes per cycle and core, from microbenchmarks of x86 servers

NEARLY = 0.92  # share of the peak rate that a good library reaches


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _caches(threads: int) -> list[tuple[int, float, int, int]]:
    """Returns level, bytes (for the cores in use), line bytes and ways of every data cache."""
    found = []
    for index in range(8):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{index}"
        if not (size := _text(f"{folder}/size")) or _text(f"{folder}/type") == "Instruction":
            continue
        scale = {"K": 1 << 10, "M": 1 << 20}[size[-1]]
        level = int(_text(f"{folder}/level"))
        shared = "," in (text := _text(f"{folder}/shared_cpu_list")) or "-" in text
        count = 1 if shared else threads
        line, ways = _text(f"{folder}/coherency_line_size"), _text(f"{folder}/ways_of_associativity")
        found.append((level, float(int(size[:-1]) * scale * count), int(line or 64), max(1, int(ways or 8))))
    return sorted(found)


def _product_rate(clock: Callable[[], float]) -> float:
    """Returns the operations per second of a product that fits the caches, best of twenty runs."""
    a = np.ones((384, 384), np.float32)
    out = np.empty_like(a)
    best = float("inf")
    for _ in range(20):
        begin = clock()
        for _ in range(4):
            np.matmul(a, a, out=out)
        best = min(best, (clock() - begin) / 4)
    return 2.0 * 384**3 / max(best, 1e-7)


def _memory_rate(clock: Callable[[], float]) -> float:
    """Returns the bytes per second of reading 256 MiB, which exceed all caches, best of eight runs."""
    source = np.ones(1 << 25, np.float64)
    best = float("inf")
    for _ in range(8):
        begin = clock()
        np.dot(source, source)
        best = min(best, clock() - begin)
    return source.nbytes / max(best, 1e-6)


def describe(threads: int, timer: Callable[[], float] = time.perf_counter) -> dict[str, Any]:
    """Describes this machine's processor as a device file."""
    info = _text("/proc/cpuinfo")
    caches = _caches(threads)
    mhz = [float(line.split(":")[1]) for line in info.splitlines() if line.startswith("cpu MHz")]
    top = _text("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if not caches or not (mhz or top):
        raise user_error(
            "this system does not describe its processor",
            value=platform.system(),
            suggestion="Name a device file with --device",
        )
    clock = float(top) * 1e3 if top else max(mhz) * 1e6
    flags = {word for line in info.splitlines() if line.startswith(("flags", "Features")) for word in line.split()}
    name, single, (bf16, half), (int8, eighth) = next(row for row in _WIDTHS if not row[0] or row[0] in flags)
    nominal = single * clock * threads
    clock *= max(1.0, _product_rate(timer) / (NEARLY * nominal))
    cycle = clock * threads
    matrix: dict[str, Any] = {"f32": single * cycle, "f64": single / 2 * cycle}
    emulated = {"flops_per_second": single * cycle / 2, "how": "emulated", "reason": "widened to f32 first"}
    matrix["bf16"] = half * cycle if bf16 in flags else emulated
    matrix["i8"] = eighth * cycle if int8 in flags else emulated
    levels = [
        {
            "name": f"L{level}",
            "bytes": size,
            "line_bytes": line,
            "ways": ways,
            "bytes_per_second": _CACHE_BYTES_PER_CYCLE.get(level, 16.0) * cycle,
        }
        for level, size, line, ways in caches
    ]
    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    levels.append({"name": "DRAM", "bytes": memory, "bytes_per_second": _memory_rate(timer)})
    model = next((line.split(":")[1].strip() for line in info.splitlines() if line.startswith("model name")), "")
    told = "the operating system"
    return {
        "schema": "tilesim.device",
        "version": 1,
        "name": "this-cpu",
        "description": f"{model}, {threads} of {os.cpu_count()} cores",
        "kind": "cpu",
        "family": "",
        "unit": "core",
        "units": threads,
        "clock_hz": clock,
        "matrix": matrix,
        "vector": {"f32": single * cycle},
        "levels": levels,
        "launch_seconds": 1e-6,
        "sources": {
            "units": "as asked",
            "clock_hz": f"{told}; raised where a product ran faster than {NEARLY:.0%} of the peak at that clock",
            "matrix": f"two multiply-adds per cycle of the widest unit found ({name or 'scalar'})",
            **{f"levels.L{level}": f"{told}; bytes per cycle assumed" for level, *_ in caches},
            "levels.DRAM": "measured: a dot product that reads 256 MiB once",
        },
    }
