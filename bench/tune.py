"""Rates of mapping and tuning: closed forms, one search, the engine on candidates, whole studies.

Goal of each line stands beside its rate. `--fast` leaves out ResNet-50; `--quality` measures instead how far heuristic
and cost are from the best mapping that can be proved or found; `--json FILE` writes the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from typing import Any

import tilesim as ts
from tilesim import _core
from tilesim.mapping import Product, products


def show(rows: list[dict[str, Any]], name: str, goal: str, **figures: float) -> None:
    """Prints one line and keeps it for the JSON file."""
    rows.append({"name": name, "goal": goal, **figures})
    text = "  ".join(f"{key} {value:,.4g}" for key, value in figures.items())
    print(f"{name:<44} {text}   (goal: {goal})", flush=True)


def rates(rows: list[dict[str, Any]]) -> None:
    """Candidates per second of processor time, one core."""
    cases = {"tpu-v3": "f32", "edge-8": "i8", "gemmini-16": "i8"}
    for machine, dtype in cases.items():
        graph = ts.workloads.matmul(512, 512, 512, dtype=dtype)
        (product,) = products(graph, machine)
        rate = product.problem.price_rate(1_000_000)
        show(rows, f"closed form, 512^3 on {machine}", ">= 1 M/s", candidates_per_second=rate)
        begin = time.process_time()
        found = product.problem.search()
        spent = time.process_time() - begin
        show(rows, f"search, 512^3 on {machine}", "<= 10 ms", milliseconds=spent * 1e3, gap=found["gap"])
        target = ts.Machine.load(machine)
        nests = [nest for nest, _ in product.problem.search(keep=64)["best"]]
        begin = time.process_time()
        for nest in nests:
            program = _core.compile(graph.core, target.core, "all", {"matmul": nest}, "heuristic", "matmul")
            _core.simulate(program, target.core)
        rate = len(nests) / (time.process_time() - begin)
        show(rows, f"engine (simple), 512^3 on {machine}", ">= 500 /s", candidates_per_second=rate)


def studies(rows: list[dict[str, Any]], fast: bool) -> None:
    """Wall time of `ts.tune`."""
    begin = time.perf_counter()
    study = ts.tune("matmul:512,512,512", "tpu-v3", 64, jobs=2)
    show(rows, "tune 512^3, 64 candidates", "<= 1 s", seconds=time.perf_counter() - begin, gain=study.gain)
    for model in ["resnet18"] if fast else ["resnet18", "resnet50"]:
        begin = time.perf_counter()
        study = ts.tune(ts.models.build(model), "tpu-v3", 64, jobs=2)
        seconds = time.perf_counter() - begin
        show(rows, f"tune {model}, 64 per distinct product", "<= 60 s", seconds=seconds, gain=study.gain)


def best_known(graph: ts.Graph, machine: ts.Machine, product: Product, keep: int) -> tuple[int, int, int]:
    """Simulated cycles of the heuristic, of cost, and the least over the `keep` best nests by the model."""

    def cycles(nest: dict[str, Any]) -> int:
        program = _core.compile(
            graph.core, machine.core, "all", {product.operation: nest}, "heuristic", product.operation
        )
        return int(_core.simulate(program, machine.core).cycles)

    cost = product.problem.search()["best"][0][0]
    found = product.problem.search(keep=keep)["best"]
    heuristic, searched = cycles(product.nest), cycles(cost)
    least = min(heuristic, searched)
    for nest, priced in found:
        if priced["bound_cycles"] < least:  # others cannot win
            least = min(least, cycles(nest))
    return heuristic, searched, least


def quality(rows: list[dict[str, Any]], count: int, convolutions: int, keep: int) -> None:
    """How far heuristic and cost are from the best; sizes drawn as in networks, half of them ragged."""
    rng = random.Random(7)
    dtypes = {"tpu-v3": "f32", "edge-8": "i8", "gemmini-16": "i8"}
    sizes = [1, 8, 32, 64, 100, 128, 197, 256, 384, 512, 768, 1000, 1024, 2048]
    for kind, number in (("matmul", count), ("convolution", convolutions)):
        drawn = [[rng.choice(sizes) for _ in range(3)] for _ in range(number)]
        choices = ([1, 2, 8], [3, 16, 64, 128], [7, 14, 28, 56], [16, 64, 128, 256], [1, 3, 5], [1, 2])
        shapes = [[rng.choice(values) for values in choices] for _ in range(number)]
        for name, dtype in dtypes.items():
            machine = ts.Machine.load(name)
            ratios: dict[str, list[float]] = {"heuristic": [], "cost": []}
            worst = ""
            for i in range(number):
                if kind == "matmul":
                    graph = ts.workloads.matmul(*drawn[i], dtype=dtype)
                else:
                    b, c, s, f, k, stride = shapes[i]
                    graph = ts.workloads.conv2d(b, c, s, s, f, k, stride=stride, padding=k // 2, dtype=dtype)
                (product,) = products(graph, machine)
                heuristic, cost, least = best_known(graph, machine, product, keep)
                if cost / least > max(ratios["cost"], default=0):
                    worst = f"{product.sizes}"
                ratios["heuristic"].append(heuristic / least)
                ratios["cost"].append(cost / least)
            for how, goal in (("heuristic", "1.10, 1.5"), ("cost", "1.02, 1.15")):
                mean = math.exp(sum(map(math.log, ratios[how])) / number)
                show(rows, f"{how} / best, {number} {kind}s on {name}", goal, mean=mean, worst=max(ratios[how]))
            print(f"  cost is farthest from the best on {worst}")


def main() -> None:
    """Runs the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="seconds instead of a minute")
    parser.add_argument("--quality", action="store_true", help="distance from the best instead of rates")
    parser.add_argument("--count", type=int, default=50, help="products for --quality")
    parser.add_argument("--convolutions", type=int, default=20, help="convolutions for --quality")
    parser.add_argument("--keep", type=int, default=200, help="nests simulated per product for --quality")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.quality:
        quality(rows, options.count, options.convolutions, options.keep)
    else:
        rates(rows)
        studies(rows, options.fast)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "tilesim.bench", "version": 1, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
