"""Kernels of XLA on TPUs in closed form: beside measured ones, and in any graph."""

import csv
import random
from pathlib import Path

import pytest

import tilesim as ts
from tilesim.analytic.gpu.compiled import count
from tilesim.cluster.programs.predicting import ClosedForms
from tilesim.graph import Graph, GraphBuilder
from tilesim.validation.tables import workload

SAMPLE = Path(ts.__file__).parent / "configs" / "samples" / "tpu-v3.csv"
CORE, HERTZ = "tpu-v3-core", 940e6
FAMILIES = ("gemm", "layernorm", "softmax", "attention", "bert")  # convolutions: windows and padding are no closed form


def measured() -> list[tuple[str, float]]:
    with SAMPLE.open() as file:
        rows = [(row["workload"], float(row["measured_cycles_at_940MHz"])) for row in csv.DictReader(file)]
    return [row for row in rows if row[0].partition("_")[0] in FAMILIES]


@pytest.mark.parametrize(("name", "cycles"), measured())
def test_products_and_loops_take_what_they_take_on_silicon(name: str, cycles: float) -> None:
    assert ClosedForms().seconds(workload(name), CORE).seconds * HERTZ == pytest.approx(cycles, rel=0.15)


def attention(heads: int, length: int, size: int) -> Graph:
    b = GraphBuilder("spelled")
    q, k, v = (b.input(name, (heads, length, size)) for name in "qkv")
    scores = (q @ k.transpose(0, 2, 1)) * size**-0.5
    part = b.apply("exp", scores - scores.max(-1, keep_dims=True))
    b.output((part / part.sum(-1, keep_dims=True)) @ v, "y")
    return b.build()


def test_scores_pass_memory_three_times() -> None:
    """Written with maxima; read for the sums and the product (docs/explanation/compute_and_fusion.md)."""
    found = ClosedForms().seconds(attention(16, 512, 64), CORE)
    scores, operand, row = 16 * 512 * 512 * 4, 16 * 512 * 64 * 4, 16 * 512 * 4
    assert found.kernels == 3
    assert found.bytes == pytest.approx(3 * scores + 4 * operand + 5 * row, abs=100)
    assert found.seconds * HERTZ == pytest.approx(145_425, rel=0.15)


def random_graph(rng: random.Random) -> Graph:
    b, n = GraphBuilder("random"), 64
    values = [b.input(f"x{i}", (n, n)) for i in range(3)]
    for _ in range(rng.randrange(4, 24)):
        x, y = rng.choice(values), rng.choice(values)
        kind = rng.randrange(6)
        if kind < 2:
            values.append(x @ y if kind else x @ y.transpose(1, 0))
        elif kind < 4:
            values.append(x + y if kind == 2 else b.apply("exp", x))
        else:
            row = x.sum(-1, keep_dims=True) if kind == 4 else x.max(0, keep_dims=True)
            values.append(y * row)
    for number, value in enumerate(dict.fromkeys(rng.sample(values[3:], min(3, len(values) - 3)))):
        b.output(value, f"y{number}")
    return b.build()


@pytest.mark.parametrize("tpu", [False, True])
def test_kernels_read_what_is_there(tpu: bool) -> None:
    """In any graph: each tensor is written once, before it is read; all results are; each product runs once."""
    for seed in range(150):
        graph = random_graph(random.Random(seed))
        graph.core.remove_dead_code()
        counted = count(graph, "xla", tpu)
        operations = list(counted.core.operations())
        there = {row["name"] for row in counted.core.inputs}
        views = {op["name"] for op in operations if op["kind"] in ("reshape", "transpose", "broadcast", "constant")}
        written: set[str] = set()
        for kernel in counted.kernels:
            made = {base for base in kernel.reads if base not in there | written and not base.startswith("f32(")}
            assert not made - views, (seed, kernel.name, made)
            assert not written & set(kernel.writes), (seed, kernel.name)
            written |= set(kernel.writes)
        outputs = {row["name"] for row in counted.core.outputs}
        assert outputs <= written | there | views, (seed, outputs - written)
        calls = [kernel.call for kernel in counted.kernels if kernel.call >= 0]
        assert sorted(calls) == [i for i, op in enumerate(operations) if op["kind"] == "contract"], seed
