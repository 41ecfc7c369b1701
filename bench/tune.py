"""Rates of mapping and tuning: closed forms, one search, the engine on candidates, whole studies.

Goal of each line stands beside its rate. `--fast` leaves out ResNet-50; `--quality` measures instead how far every rule
is from the best mapping that the engine finds, `--regret N` how far "cost" and "heuristic" are over N random layers on
random machines (sizes over decades, any number of arrays and load queues); `--json FILE` writes the figures.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from pathlib import Path
from typing import Any

import tilesim as ts
from tilesim import _core
from tilesim.mapping import Product, products
from tilesim.memory import Part


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
        part = Part.load(str(target.get("memory.part"))).core if target.get("memory.part") else None
        for memory, goal in (("simple", ">= 500 /s"), *((("bank", ">= 80 /s"),) if part else ())):
            dram = {"dram": part} if memory == "bank" else {}
            begin = time.process_time()
            for nest in nests:
                program = _core.compile(graph.core, target.core, "all", {"matmul": nest}, "profile", "matmul")
                _core.simulate(program, target.core, memory, **dram)
            rate = len(nests) / (time.process_time() - begin)
            show(rows, f"engine ({memory}), 512^3 on {machine}", goal, candidates_per_second=rate)


def studies(rows: list[dict[str, Any]], fast: bool) -> None:
    """Wall time of `ts.tune`."""
    begin = time.perf_counter()
    study = ts.tune("matmul:512,512,512", "tpu-v3", budget=64, jobs=2)
    show(rows, "tune 512^3, 64 candidates", "<= 1 s", seconds=time.perf_counter() - begin, gain=study.gain)
    for model in ["resnet18"] if fast else ["resnet18", "resnet50"]:
        begin = time.perf_counter()
        study = ts.tune(ts.models.build(model), "tpu-v3", budget=64, jobs=2)
        seconds = time.perf_counter() - begin
        show(rows, f"tune {model}, 64 per distinct product", "<= 60 s", seconds=seconds, gain=study.gain)


def best_known(
    graph: ts.Graph, machine: ts.Machine, product: Product, nests: dict[str, dict[str, Any]], keep: int, draws: int
) -> tuple[dict[str, int], int]:
    """Simulated cycles of each nest, and the least that the engine finds.

    Tried are the nests themselves, the `keep` best by the model, `draws` random nests of any tile size, and steps from
    the best to neighbours until none is faster. Only nests whose lower bound is no longer than the best time are
    simulated: others cannot win.
    """

    def cycles(nest: dict[str, Any]) -> int:
        program = _core.compile(
            graph.core, machine.core, "all", {product.operation: nest}, "profile", product.operation
        )
        return int(_core.simulate(program, machine.core).cycles)

    given = {how: cycles(nest) for how, nest in nests.items()}
    least, best = min((count, how) for how, count in given.items())
    here, problem = nests[best], product.problem
    space, rng = problem.space("all"), random.Random(3)

    def faster(tried: list[dict[str, Any]]) -> bool:
        nonlocal least, here
        before = least
        for nest in tried:
            if problem.legal(nest)[0] and problem.bound(nest) < least and (count := cycles(nest)) < least:
                least, here = count, nest
        return least < before

    faster([nest for nest, _ in problem.search(keep=keep)["best"]])
    faster([space.sample(rng.getrandbits(60)) for _ in range(draws)])
    while faster(space.neighbours(here)):
        pass
    return given, least


def quality(rows: list[dict[str, Any]], count: int, convolutions: int, keep: int, draws: int) -> None:
    """How far each rule is from the best; sizes drawn as in networks, half of them ragged."""
    rng = random.Random(7)
    dtypes = {"tpu-v3": "f32", "edge-8": "i8", "gemmini-16": "i8"}
    goals = {"heuristic": "mean 1.10, worst 1.5", "cost": "mean 1.02, worst 1.15"}
    sizes = [1, 8, 32, 64, 100, 128, 197, 256, 384, 512, 768, 1000, 1024, 2048]
    for kind, number in (("matmul", count), ("convolution", convolutions)):
        drawn = [[rng.choice(sizes) for _ in range(3)] for _ in range(number)]
        choices = ([1, 2, 8], [3, 16, 64, 128], [7, 14, 28, 56], [16, 64, 128, 256], [1, 3, 5], [1, 2])
        shapes = [[rng.choice(values) for values in choices] for _ in range(number)]
        for name, dtype in dtypes.items():
            machine = ts.Machine.load(name)
            ratios: dict[str, list[float]] = {how: [] for how in _core.mapping_strategies()}
            for i in range(number):
                if kind == "matmul":
                    graph = ts.workloads.matmul(*drawn[i], dtype=dtype)
                else:
                    b, c, s, f, k, stride = shapes[i]
                    graph = ts.workloads.conv2d(b, c, s, s, f, k, stride=stride, padding=k // 2, dtype=dtype)
                found = {how: products(graph, machine, mapping=how)[0] for how in ratios}
                nests = {how: product.nest for how, product in found.items()}
                given, least = best_known(graph, machine, found["profile"], nests, keep, draws)
                for how, cycles in given.items():
                    ratios[how].append(cycles / least)
            for how, values in ratios.items():
                mean = math.exp(sum(map(math.log, values)) / number)
                label = f"{how} / best, {number} {kind}s on {name}"
                show(rows, label, goals.get(how, "to compare"), mean=mean, worst=max(values))


def regret(rows: list[dict[str, Any]], count: int, first: int, keep: int, draws: int) -> None:
    """Cycles over the best known, of layers and machines that nothing was tuned on."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from support.random_layers import describe, layer, machine

    ratios: dict[str, list[tuple[float, str]]] = {"cost": [], "heuristic": []}
    for seed in range(first, first + count):
        rng = random.Random(seed)
        target, dtype = machine(rng)
        graph = layer(rng, dtype)
        found = {how: products(graph, target, mapping=how)[0] for how in ratios}
        nests = {how: product.nest for how, product in found.items()}
        given, least = best_known(graph, target, found["cost"], nests, keep, draws)
        for how, cycles in given.items():
            ratios[how].append((cycles / least, describe(graph, target, seed)))
    for how, values in ratios.items():
        mean = math.exp(sum(math.log(ratio) for ratio, _ in values) / len(values))
        worst = sorted(values, reverse=True)[:5]
        goal = "mean 1.02, worst 1.15" if how == "cost" else "to compare"
        show(rows, f"{how} / best, {count} random layers", goal, mean=mean, worst=worst[0][0])
        print("\n".join(f"    {ratio:.3f} {what}" for ratio, what in worst))


def main() -> None:
    """Runs the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="seconds instead of a minute")
    parser.add_argument("--quality", action="store_true", help="distance from the best instead of rates")
    parser.add_argument("--regret", type=int, metavar="N", help="distance from the best for N random layers")
    parser.add_argument("--first", type=int, default=100_000, help="first seed for --regret")
    parser.add_argument("--count", type=int, default=50, help="products for --quality")
    parser.add_argument("--convolutions", type=int, default=20, help="convolutions for --quality")
    parser.add_argument("--keep", type=int, default=200, help="nests simulated per product for --quality")
    parser.add_argument("--draws", type=int, default=200, help="random nests per product for --quality")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.regret:
        regret(rows, options.regret, options.first, options.keep, options.draws)
    elif options.quality:
        quality(rows, options.count, options.convolutions, options.keep, options.draws)
    else:
        rates(rows)
        studies(rows, options.fast)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "tilesim.bench", "version": 1, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
