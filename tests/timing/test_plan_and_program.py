"""What is priced is what the program does: loops, buffers, pieces, bytes and cycles of random kernels.

The program's side is read from its text and from what the engine counted, the price from the mapping problem alone."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import ring_bytes, statements
from support.random_graphs import random_case, random_machine
from tilesim.mapping import Product, kernels


def scope_of(program: ts.Program, operation: str) -> dict[str, Any] | None:
    """The kernel of an operation, if the program has it once."""
    text = json.loads(program.core.to_json())
    blocks = [text["do"]] + [function["do"] for function in text["functions"]]
    found = [
        statement
        for block in blocks
        for statement in statements(block)
        if "scope" in statement and operation in statement.get("operation", [])
    ]
    return found[0] if len(found) == 1 else None


def drawn(rng: random.Random, product: Product) -> dict[str, Any]:
    """A nest of the product's space, or any other that is legal; some tiles come in pieces."""
    nest = dict(product.problem.space(rng.choice(["aligned", "all", "divisors"])).sample(rng.getrandbits(60)))
    nest["unit"] = product.nest["unit"]
    return nest


def check_product(product: Product, nest: dict[str, Any], scope: dict[str, Any], row: dict[str, Any]) -> float:
    plan, cost = product.problem.plan(nest), product.cost(nest)
    loops = {s["for"]: s["extent"] for s in statements(scope["do"]) if "for" in s}
    for name, trips in plan["loops"]:
        assert loops["i_" + name] == trips
    slots = {slot["name"]: slot for slot in scope["slots"]}
    for name, buffer in zip("abc", plan["buffers"], strict=True):
        assert (slots[name]["elements"], slots[name].get("depth", 2)) == (buffer["elements"], buffer["depth"])
    held = sum(ring_bytes(slot) for slot in scope["slots"] if not slot.get("accumulator"))
    assert product.problem.scratchpad_bytes(nest) == held
    assert row["load_bytes"] == sum(cost["bytes"][:2]) + cost["epilogue_bytes"]
    assert row["store_bytes"] == cost["bytes"][2]
    return float(cost["cycles"] / row["cycles"])


def fused(rng: random.Random) -> ts.Graph:
    """A product with what may be computed on chip before and after it; residuals may be its own operand."""
    m, k, n = (rng.randint(1, 150) for _ in range(3))
    b = ts.GraphBuilder("fused")
    x = b.input("x", [m, k])
    y = b.apply(rng.choice(["tanh", "relu", "negate"]), x) if rng.random() < 0.7 else x
    if rng.random() < 0.5:
        y = y * b.input("s", [k] if rng.random() < 0.5 else [m, k])
    w = b.input("w", [k, n])
    z = b.matmul(y, b.apply("tanh", w) if rng.random() < 0.3 else w, name="product")
    if rng.random() < 0.5:
        z = z + (x if k == n else b.input("q", [m, n]))
    if rng.random() < 0.3:
        b.output(b.apply("relu", z), "r")
    b.output(z, "z")
    return b.build()


def random_product(seed: int) -> tuple[ts.Graph, ts.Machine, str, str] | None:
    draw, rng = np.random.default_rng(seed), random.Random(seed)
    if seed % 3 == 0:
        name = rng.choice(["edge-8", "tpu-v3", "gemmini-16"])
        rates = {"core.array.rates": {"f32": 1.0, "i8": 1.0}} if name == "gemmini-16" else {}
        return fused(rng), ts.Machine.load(name).replace(rates), "product", "fused"
    case = random_case(draw)
    return (case.graph, random_machine(draw, case), case.product, case.family) if case.product else None


def check(seeds: range) -> None:
    ratios: list[float] = []
    seen: Counter[str] = Counter()
    for seed in seeds:
        case = random_product(seed)
        if case is None:
            continue
        graph, machine, name, family = case
        (product,) = (kernel for kernel in kernels(graph, machine) if kernel.operation == name)
        assert isinstance(product, Product)
        for nest in (dict(product.nest), drawn(random.Random(seed), product)):
            if not product.legal(nest)[0] or not math.isfinite(product.cost(nest)["cycles"]):
                continue
            program = ts.compile(graph, machine, mapping={name: nest})
            scope = scope_of(program, name)
            table = ts.simulate(program).data["operations"]
            rows = [row for row in table if name in row["operation"]]
            if scope is None or len(rows) != 1:
                continue
            try:
                ratio = check_product(product, nest, scope, rows[0])
                if len(table) == 1:  # kernels one behind the other overlap
                    assert product.cost(nest)["bound_cycles"] <= rows[0]["cycles"] + 1
                    ratios.append(ratio)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {machine.name} {product.info['extents']} {nest}") from error
            seen[family + ("" if "sub" not in nest else " in pieces")] += 1
    ratios.sort()
    some = [ratios[int(share * (len(ratios) - 1))] for share in (0, 0.05, 0.5, 0.95, 1)]
    print(dict(seen), [round(ratio, 2) for ratio in some])
    assert 0.9 < some[2] < 1.1 and some[1] > 0.75 and some[3] < 1.33


@pytest.mark.parametrize(
    "seeds", [range(64), pytest.param([*range(64, 160), *range(1000, 2600)], marks=pytest.mark.slow)]
)
def test_products_are_priced_as_their_programs_are(seeds: list[int] | range) -> None:
    check(seeds)
