"""What is priced of a vector kernel is what its program does: loops, buffers, pieces, bytes and computes, exactly.

The program's side is read from its text and from what the engine counted, the price from the mapping problem alone."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts
from support.program_checks import ring_bytes, statements
from tilesim.mapping import VectorKernel, kernels

EXTENTS = [1, 2, 3, 8, 16, 31, 64, 100, 127, 128, 129, 197, 256, 500]
MACHINES = ["edge-8", "edge-8", "tpu-v3", "gemmini-16", "mesh-16", "tpu-v4"]


def shape_of(rng: random.Random) -> list[int]:
    shape = [rng.randint(1, 300) if rng.random() < 0.5 else rng.choice(EXTENTS) for _ in range(rng.randint(1, 4))]
    while math.prod(shape) > 1e5:
        shape[rng.randrange(len(shape))] = rng.choice([1, 2, 3, 5, 8])
    return shape


def function(rng: random.Random, b: ts.GraphBuilder, x: Any) -> Any:
    return b.apply(rng.choice(["tanh", "relu", "negate", "sigmoid"]), x)


def chain(rng: random.Random, b: ts.GraphBuilder, shape: list[int]) -> None:
    """Functions, operands that broadcast, results that are stored transposed, several results."""
    dtype = rng.choice(["f32", "bf16"])
    x = b.input("x", shape, dtype)
    y = function(rng, b, x)
    if rng.random() < 0.6:
        own = [extent if rng.random() < 0.6 else 1 for extent in shape]
        y = y + b.input("z", own[rng.randrange(len(shape)) :], dtype)
    if rng.random() < 0.4:
        y = b.op("transpose", y, permutation=rng.sample(range(len(shape)), len(shape)))
    b.output(y, "y")
    if rng.random() < 0.3:
        b.output(b.apply("abs", x), "w")


def view(rng: random.Random, b: ts.GraphBuilder, shape: list[int]) -> None:
    """What is read lies in another order, in parts of a tensor, or several axes along one."""
    x = b.input("x", shape)
    kind = rng.randrange(3)
    if kind == 0:
        y = b.op("transpose", x, permutation=rng.sample(range(len(shape)), len(shape)))
    elif kind == 1:
        start = [rng.randrange(extent) for extent in shape]
        limit = [rng.randint(at + 1, extent) for at, extent in zip(start, shape, strict=True)]
        y = b.op("slice", x, start=start, limit=limit, stride=[rng.choice([1, 1, 2, 3]) for _ in shape])
    else:
        halves = [[2, extent // 2] if extent % 2 == 0 and extent > 2 else [extent] for extent in shape]
        y = b.op("reshape", x, shape=[extent for pair in halves for extent in pair])
    b.output(function(rng, b, y), "y")


def reduction(rng: random.Random, b: ts.GraphBuilder, shape: list[int]) -> None:
    dtype = rng.choice(["f32", "bf16", "i8"])
    x = b.input("x", shape, dtype)
    combiners = ["add", "maximum", "minimum", "argmax", "argmin"] + (["mean"] if dtype != "i8" else [])
    if dtype != "i8" and rng.random() < 0.4:
        x = function(rng, b, x)
    dims = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    b.output(b.op("reduce", x, dims=dims, combiner=rng.choice(combiners), keep_dims=rng.random() < 0.5), "y")


def rows(rng: random.Random, b: ts.GraphBuilder, shape: list[int]) -> None:
    x = b.input("x", shape, rng.choice(["f32", "bf16"]))
    kind = rng.choice(["softmax", "log_softmax", "normalize"])
    if kind == "normalize":
        b.output(b.op("normalize", x, mode="layer", dims=[len(shape) - 1], epsilon=1e-5), "y")
    else:
        b.output(b.op(kind, x, dim=rng.randrange(len(shape))), "y")


def scan(rng: random.Random, b: ts.GraphBuilder, shape: list[int]) -> None:
    x = b.input("x", shape, rng.choice(["f32", "bf16", "i8"]))
    flags = {"reverse": rng.random() < 0.5, "exclusive": rng.random() < 0.5}
    combiner = rng.choice(["add", "maximum"])
    b.output(b.op("cumulative", x, dim=rng.randrange(len(shape)), combiner=combiner, **flags), "y")


def window(rng: random.Random, b: ts.GraphBuilder, shape: list[int]) -> None:
    """Some windows are larger than the scratchpad; some lie in the padding, whole."""
    taps = [min(extent, rng.choice([1, 1, 2, 3, 4, 7, 20])) for extent in shape]
    apart = [rng.choice([1, 1, 2]) if 2 * t - 1 <= e else 1 for t, e in zip(taps, shape, strict=True)]
    x = b.input("x", shape, rng.choice(["f32", "bf16"]))
    y = b.op(
        "window_reduce", x, window=taps, strides=[rng.choice([1, 1, 2, 3]) for _ in shape],
        pads=[rng.randrange(t) for t in taps for _ in range(2)], window_dilation=apart,
        combiner=rng.choice(["add", "maximum"]),
    )  # fmt: skip
    b.output(y, "y")


def order(rng: random.Random, b: ts.GraphBuilder, shape: list[int]) -> None:
    """Sorts by several keys, of which some results are read; the first of them alone."""
    dim = rng.randrange(len(shape))
    x = b.input("x", shape, rng.choice(["f32", "bf16", "i8"]))
    if rng.random() < 0.5:
        found = b.op("top_k", x, k=rng.randint(1, shape[dim]), dim=dim, results=2)
    else:
        count = rng.randint(1, 3)
        others = [b.input(f"c{i}", shape, rng.choice(["f32", "i32"])) for i in range(count - 1)]
        attributes = {"dim": dim, "keys": rng.randint(1, count), "descending": rng.random() < 0.5}
        results = b.op("sort", x, *others, results=count, **attributes)
        found = results if count > 1 else [results]
    kept = [i for i in range(len(found)) if rng.random() < 0.7] or [0]
    for i in kept:
        b.output(found[i], f"y{i}")


FAMILIES: list[Callable[[random.Random, ts.GraphBuilder, list[int]], None]] = [
    chain, view, reduction, rows, scan, window, order,
]  # fmt: skip


def machine_of(rng: random.Random) -> ts.Machine:
    change: dict[str, Any] = {}
    if rng.random() < 0.6:
        change["core.scratchpad.bytes"] = f"{rng.choice([2, 4, 8, 16, 64]) * 1024} B"
    if rng.random() < 0.3:
        change["core.dma.load_queues"] = rng.randint(1, 3)
    return ts.Machine.load(rng.choice(MACHINES)).replace(change)


def drawn(rng: random.Random, kernel: VectorKernel) -> dict[str, Any] | None:
    """Any legal tiles, some in pieces; none where none was found."""
    info = kernel.info
    whole = info["whole"] or [False] * len(info["space"])
    for _ in range(40):
        sizes = [e if w or rng.random() < 0.4 else rng.randint(1, e) for e, w in zip(info["space"], whole, strict=True)]
        nest = {"tiles": sizes, "lane": rng.choice(info["lanes"]), "depth": rng.randint(1, 3)}
        if not info["whole_tiles"] and rng.random() < 0.5:
            nest["sub"] = [rng.randint(1, size) if rng.random() < 0.5 else size for size in sizes]
        tiles = math.prod(-(-e // size) for e, size in zip(info["space"], sizes, strict=True))
        if tiles < 5000 and kernel.legal(nest)[0]:
            return nest
    return None


def check_kernel(
    kernel: VectorKernel, nest: dict[str, Any], scope: dict[str, Any], row: dict[str, Any], cores: int
) -> float:
    plan, cost = kernel.problem.vector_plan(nest), kernel.cost(nest)
    loops = {s["for"]: s["extent"] for s in statements(scope["do"]) if "for" in s}
    if cores == 1:  # else loops are parts of these
        assert {name: trips for name, trips in loops.items() if name[0] in "iw"} == dict(plan["loops"])
        assert cost["vector_cycles"] == row["vector_busy"]
    subs = {f"s{axis}": count for axis, count in enumerate(plan["pieces"]) if count > 1}
    assert {name: trips for name, trips in loops.items() if name[0] == "s"} == subs
    rings = Counter((slot["elements"], slot.get("depth", 2)) for slot in scope["slots"])
    assert rings == Counter((b["elements"], b["depth"]) for b in plan["buffers"] if b["there"])
    assert kernel.problem.scratchpad_bytes(nest) == sum(map(ring_bytes, scope["slots"]))
    turned = {s["permute"]["in"]["slot"] for s in statements(scope["do"]) if "permute" in s}
    assert len(turned) == sum(b["turned"] for b in plan["buffers"])
    assert (cost["read_bytes"], cost["written_bytes"]) == (row["load_bytes"], row["store_bytes"])
    return float(cost["cycles"] / row["cycles"])


def check(seeds: range) -> None:
    ratios: list[float] = []
    seen: Counter[str] = Counter()
    for seed in seeds:
        rng, family = random.Random(seed), FAMILIES[seed % len(FAMILIES)]
        b = ts.GraphBuilder(family.__name__)
        family(rng, b, shape_of(rng))
        graph, machine = b.build(), machine_of(rng)
        try:
            found = kernels(graph, machine)
        except ts.Unsupported:  # a row that does not fit the scratchpad
            continue
        if len(found) != 1 or not isinstance(found[0], VectorKernel):
            continue
        kernel = found[0]
        for nest in (dict(kernel.nest), drawn(rng, kernel)):
            if nest is None:
                continue
            program = ts.compile(graph, machine, mapping={kernel.operation: nest})
            table = ts.simulate(program).data["operations"]
            text = json.loads(program.core.to_json())
            scopes = [s for s in statements(text["do"]) if "scope" in s]
            if len(table) != 1 or len(scopes) != 1:
                continue
            try:
                ratios.append(check_kernel(kernel, nest, scopes[0], table[0], text["cores"]))
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {machine.name} {kernel.info['kernel']} {nest}") from error
            seen[
                family.__name__ + (" in pieces" if math.prod(kernel.problem.vector_plan(nest)["pieces"]) > 1 else "")
            ] += 1
    ratios.sort()
    some = [ratios[int(share * (len(ratios) - 1))] for share in (0, 0.05, 0.5, 0.95, 1)]
    print(dict(seen), [round(ratio, 2) for ratio in some])
    assert all(seen[family.__name__] > len(seeds) / 40 for family in FAMILIES), seen
    assert 0.95 < some[2] < 1.05 and some[1] > 0.75 and some[3] < 1.33


@pytest.mark.parametrize(
    "seeds", [range(27), pytest.param([*range(27, 63), *range(1000, 2000)], marks=pytest.mark.slow)]
)
def test_vector_kernels_are_priced_as_their_programs_are(seeds: list[int] | range) -> None:
    check(seeds)
