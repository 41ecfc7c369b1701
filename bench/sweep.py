"""Points of a sweep per second: threads, processes, Dask and Ray where they are installed.

`sweep.py [--points N] [--workers N] [--fast] [--json FILE]`. One product on variants of tpu-v3: what a point costs
beside its events. Executors are started, and have seen the graph, before the clock. Rates compare within one run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import tilesim as ts

GRAPH, MACHINE = "matmul:512,512,512", "tpu-v3"
GOAL = "goal: 2,000 points in 10 s on two cores"


def changes(points: int) -> dict[str, list[Any]]:
    """Settings of so many points: counts of arrays, bandwidths.

    Args:
        points: how many; it is rounded up to a multiple of five.

    Returns:
        As `ts.sweep` takes them.
    """
    widths = math.ceil(points / 5)
    return {
        "core.array.count": [1, 2, 4, 8, 16],
        "memory.bandwidth": [f"{100 + 1900 * i // widths} GB/s" for i in range(widths)],
    }


def rate(points: int, executor: Any) -> dict[str, Any]:
    """One sweep.

    Args:
        points: how many.
        executor: as `ts.sweep` takes it; none: threads.

    Returns:
        Points, wall seconds, points per second, seconds of this process.
    """
    ts.sweep(GRAPH, MACHINE, changes(5), executor=executor)
    wall, own = time.perf_counter(), time.process_time()
    table = ts.sweep(GRAPH, MACHINE, changes(points), executor=executor)
    seconds, own = time.perf_counter() - wall, time.process_time() - own
    assert all(row["status"] == "ok" for row in table.rows)
    return {"points": len(table), "seconds": seconds, "points_per_second": len(table) / seconds, "own_seconds": own}


def main() -> None:
    """Prints a line per executor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--fast", action="store_true", help="few points, no Dask and no Ray")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    points, rows = 50 if given.fast else given.points, []
    makers: dict[str, Any] = {"processes": ts.executors.processes}
    if not given.fast:
        makers |= {"dask": lambda n: ts.executors.dask(workers=n)} if importlib.util.find_spec("distributed") else {}
        makers |= {"ray": lambda n: ts.executors.ray(cpus=n)} if importlib.util.find_spec("ray") else {}
    for name in ("threads", *makers):
        if name == "threads":
            found = rate(points, None)
        else:
            with makers[name](given.workers) as executor:
                executor.worker_pids()
                found = rate(points, executor)
        rows.append({"name": name, **found})
        speed = f"{found['points_per_second']:,.0f} per second; {found['own_seconds']:.2f} s of this process"
        print(f"{name:<10} {found['points']:,} points in {found['seconds']:.2f} s: {speed}   ({GOAL})", flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
