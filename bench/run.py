"""Rates of the whole path: compile, simulate, execute, import.

Goal of each line stands beside its rate. `--fast` is a smoke run of seconds; `--json FILE` writes the figures.
Compare figures as ratios within one run: they depend on the machine they were taken on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def best_of(repeats: int, call: Callable[[], Any]) -> tuple[float, Any]:
    """Shortest wall time of several calls, in seconds, and the last value."""
    best, value = float("inf"), None
    for _ in range(repeats):
        begin = time.perf_counter()
        value = call()
        best = min(best, time.perf_counter() - begin)
    return best, value


def show(rows: list[dict[str, Any]], name: str, seconds: float, goal: str, **rates: float) -> None:
    """Prints one line and keeps it for the JSON file."""
    rows.append({"name": name, "seconds": seconds, "goal": goal, **rates})
    text = "  ".join(f"{key} {value:,.4g}" for key, value in rates.items())
    print(f"{name:<34} {seconds * 1e3:10.2f} ms   {text}   (goal: {goal})", flush=True)


def simulate_gemms(rows: list[dict[str, Any]], sizes: list[int]) -> None:
    """Square f32 products on tpu-v3, simple memory."""
    import tilesim as ts

    machine = ts.Machine.load("tpu-v3")
    for size in sizes:
        program = ts.compile(ts.workloads.matmul(size, size, size), machine)
        seconds, result = best_of(3, lambda program=program: ts.simulate(program))
        goal = "<= 10 ms" if size == 2048 else "-"
        show(rows, f"simulate gemm {size}^3 f32", seconds, goal, cycles_per_second=result.cycles / seconds)


def whole_models(rows: list[dict[str, Any]], models: list[tuple[str, dict[str, int], float]]) -> None:
    """compile + simulate of whole networks on tpu-v3."""
    import tilesim as ts

    machine = ts.Machine.load("tpu-v3")
    for name, options, limit in models:
        graph = ts.models.build(name, **options)
        seconds, result = best_of(3, lambda graph=graph: ts.simulate(ts.compile(graph, machine)))
        label = " ".join([name, *(str(value) for value in options.values())])
        show(rows, f"compile + simulate {label}", seconds, f"<= {limit} s", cycles_per_second=result.cycles / seconds)


def execution(rows: list[dict[str, Any]]) -> None:
    """Tiled execution against the reference kernels, ResNet-18."""
    import tilesim as ts

    graph = ts.models.build("resnet18")
    reference, _ = best_of(1, lambda: ts.reference(graph, seed=0))
    show(rows, "reference kernels resnet18", reference, "< 2 s")
    program = ts.compile(graph, "tpu-v3")
    tiled, _ = best_of(1, lambda: ts.execute(program, seed=0))
    show(rows, "execute resnet18 tiled", tiled, "<= 5 x reference", ratio=tiled / reference)


def command_times(rows: list[dict[str, Any]]) -> None:
    """Start-up as a user meets it, in fresh processes."""
    seconds, _ = best_of(3, lambda: subprocess.run([sys.executable, "-c", "import tilesim"], check=True))
    bare, _ = best_of(3, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    show(rows, "import tilesim", seconds - bare, "<= 0.3 s")
    command = [sys.executable, "-m", "tilesim", "run", "resnet18", "--quiet"]
    seconds, _ = best_of(2, lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
    show(rows, "tilesim run resnet18", seconds, "<= 2 s")


def tile_operations(rows: list[dict[str, Any]], count: int) -> None:
    """Tile operations through the engine; see engine.py for the program."""
    sys.path.insert(0, str(__import__("pathlib").Path(__file__).parent))
    import engine

    seconds, operations, megabytes = engine.measure(count)
    show(
        rows,
        f"engine {operations:.0e} tile operations",
        seconds,
        ">= 4 M/s, < 200 MB",
        operations_per_second=operations / seconds,
        peak_megabytes=megabytes,
    )


def closed_form(rows: list[dict[str, Any]], count: int) -> None:
    """Predictions of matrix products through numpy arrays, one core."""
    import numpy as np

    from tilesim.analytic import gemm

    random = np.random.default_rng(0)
    shapes = (2.0 ** random.uniform(5, 15, (3, count))).round()
    for scheme in ("bf16", "fp8"):
        found = gemm.estimator("h100", scheme)
        seconds, _ = best_of(3, lambda found=found: found.seconds(*shapes))
        label = f"{count:,} products {scheme}, closed form"
        show(rows, label, seconds, ">= 1 M/s", predictions_per_second=count / seconds)


def main() -> None:
    """Runs every benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="seconds instead of minutes")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    simulate_gemms(rows, [256, 512] if options.fast else [256, 512, 1024, 2048, 4096])
    models: list[tuple[str, dict[str, int], float]] = [("resnet18", {}, 0.2)]
    if not options.fast:
        models += [("resnet50", {}, 0.3), ("bert-base", {"sequence": 512}, 0.3)]
    whole_models(rows, models)
    if not options.fast:
        execution(rows)
    closed_form(rows, 100_000 if options.fast else 1_000_000)
    command_times(rows)
    tile_operations(rows, 2_000_000 if options.fast else 100_000_000)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "tilesim.bench", "version": 1, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
