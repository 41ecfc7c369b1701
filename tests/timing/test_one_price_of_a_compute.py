"""What one compute of a product costs is decided in one place: the price of a single tile is what the engine takes.

The engine's side is the table of computes that it asked the closed forms for, the price's side the mapping problem."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import random_case, random_machine
from tilesim import _core
from tilesim.mapping import Product, kernels

DATAFLOWS = ["weight_stationary", "input_stationary", "output_stationary"]


def computes(program: ts.Program, machine: ts.Machine) -> list[str]:
    """Texts of the products that the engine computed, with what ran before them."""
    book = _core.LatencyBook("closed form")
    _core.simulate(program.core, machine.core, latencies=book)
    return [text for text in book.entries() if text.startswith("mma ")]


def behind_another(machine: ts.Machine, text: str) -> int:
    bare = text.replace(" resident", "").replace(" pipelined", "")
    return int(_core.closed_form_latency(machine.core, bare + " pipelined")["busy"])


def roomy(machine: ts.Machine, rng: random.Random) -> ts.Machine:
    """Whole operands fit; arrays of odd extents, of every dataflow, filled at any rate."""
    return machine.replace(
        {
            "core.scratchpad.bytes": "64 MiB",
            **({"core.scratchpad.accumulator_bytes": "64 MiB"} if machine.name == "gemmini-16" else {}),
            "core.array.rows": rng.choice([4, 8, 16, 128]),
            "core.array.columns": rng.choice([4, 8, 16, 128]),
            "core.array.dataflow": rng.choice(DATAFLOWS),
            "core.array.weight_double_buffer": rng.random() < 0.7,
        }
    )


def check(seeds: range) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        draw, rng = np.random.default_rng(seed), random.Random(seed)
        case = random_case(draw)
        if not case.product:
            continue
        machine = roomy(random_machine(draw, case), rng)
        (product,) = (kernel for kernel in kernels(case.graph, machine) if kernel.operation == case.product)
        assert isinstance(product, Product)
        nest: dict[str, Any] = dict(product.nest)
        nest["tiles"] = list(product.info["extents"])
        nest.pop("sub", None)
        pack = rng.choice([-1, *product.info["k_dims"][:-1]])
        nest.pop("pack", None)
        if pack >= 0 and product.legal({**nest, "pack": pack})[0]:
            nest["pack"] = pack
        if nest["unit"] != "array" or not product.legal(nest)[0]:
            continue
        program = ts.compile(case.graph, machine, mapping={case.product: nest})
        ran = [text for text in computes(program, machine) if "b0" not in text]
        priced = product.cost(nest)["compute_cycles"]
        assert priced == max(behind_another(machine, text) for text in ran), (seed, machine.name, nest, ran)
        seen[machine.get("core.array.dataflow")] += 1
        seen[case.family] += 1
        seen["arrays"] += machine.get("core.array.count") > 1
        seen["packed"] += "pack" in nest
    return seen


def test_a_single_tile_is_priced_as_it_is_computed() -> None:
    seen = check(range(150))
    assert all(seen[name] > 5 for name in [*DATAFLOWS, "arrays"]), seen


@pytest.mark.slow
def test_many_single_tiles_are_priced_as_they_are_computed() -> None:
    seen = check(range(1000, 3000))
    assert all(seen[name] > 5 for name in [*DATAFLOWS, "arrays", "packed"]), seen


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("inner", ["rows", "columns"])
def test_what_lies_still_is_found_again(dataflow: str, inner: str) -> None:
    """Eight tiles of rows (columns) share one tile of b (a), which fits the array: it is loaded into it once where it
    is what the dataflow keeps, and never found again where that is the other operand, or the sums."""
    machine = ts.Machine.load("edge-8").replace({"core.array.dataflow": dataflow})
    rows, columns = (int(machine.get("core.array." + key)) for key in ("rows", "columns"))
    across = min(rows, columns)
    m, n = (8 * across, across) if inner == "rows" else (across, 8 * across)
    graph = ts.workloads.matmul(m, n, rows)
    nest = {"tiles": [across, across, rows], "order": [0, 1, 2], "depths": [2, 2, 2]}
    texts = computes(ts.compile(graph, machine, mapping={"matmul": nest}), machine)
    kept = {"weight_stationary": "rows", "input_stationary": "columns"}.get(dataflow)
    assert any(" resident" in text for text in texts) == (inner == kept)
