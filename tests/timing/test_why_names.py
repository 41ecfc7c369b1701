"""Every name that stands in a table can be given to `why`, and gives the table's own number."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

import tilesim as ts
from tilesim.base import columns as tables
from tilesim.base.folding import pattern
from tilesim.graph.tensor import Tensor
from tilesim.results.page.operations import folded, operation_rows

run = functools.cache(ts.run)  # several tests look at one result
CASES = [
    ("bert-base", "tpu-v3", {}),
    ("bert-base", "tpu-v3", {"lowering": "best"}),
    ("bert-base", "tpu-v4", {"fuse": "none"}),
    ("gpt2", "tpu-v3", {}),
    ("vit-b-16", "tpu-v4", {"mapping": "heuristic"}),
    ("resnet18", "tpu-v3", {"lowering": "best"}),
    ("clip-vit-b-32", "tpu-v4", {"mapping": "heuristic"}),
    ("dlrm", "tpu-v4-chip", {}),
    ("mlp", "gemmini-16", {"quantize": "i8"}),
]


def cycles(result: ts.Result, name: str) -> int:
    return int(result.why(name, intervals=False).cycles)


def numbered(result: ts.Result) -> Iterator[tuple[str, int]]:
    """Names of rows with the number that stands beside them."""
    rows = result.table().rows
    yield from ((row["operation"], row["cycles"]) for row in rows)
    yield from ((row["operation"], row["cycles"]) for row in operation_rows(result))
    for row in tables.folded(rows, ["cycles"]):
        yield row["operation"], row["cycles"]


def named(result: ts.Result, graph: str) -> Iterator[str]:
    """Names in tables whose numbers are others."""
    yield from (name for _, name, _ in folded(result))
    yield from (row["operation"] for row in result.counts().rows if row["operation"])
    yield from (row["operation"] for row in result.checks)
    yield from (row["operation"] for row in ts.roofline(graph, result.data["machine"]).table().rows)
    if result.bounds:
        yield from (row["operation"] for row in result.bounds.table().rows)


@pytest.mark.few(2)
@pytest.mark.parametrize(("network", "machine", "options"), CASES)
def test_each_name_in_a_table_gives_its_row(network: str, machine: str, options: dict[str, str]) -> None:
    result = run(network, machine=machine, **options)
    own = [row["operation"] for row in result.table().rows]
    assert len(set(own)) == len(own)
    for name, number in numbered(result):
        assert cycles(result, name) == number, name
    if "quantize" not in options:
        for name in dict.fromkeys(named(result, network)):
            assert result.why(name, intervals=False).kernels, name


@pytest.mark.parametrize("machine", ["tpu-v3", "h100"])
def test_names_of_estimates_give_their_rows(machine: str) -> None:
    result = ts.estimate("bert-base", machine)
    for name, number in numbered(result):
        assert cycles(result, name) == number, name
    for row in result.terms().rows:
        assert row["operation"] in result.why(row["operation"]).kernels


@pytest.mark.parametrize("network", [pytest.param("bert-base", marks=pytest.mark.slow), "gpt2", "resnet18"])
def test_names_of_comparisons_are_understood_by_both(network: str) -> None:
    results = [run(network, machine="tpu-v3", **more) for more in ({}, {"lowering": "best"}, {"fuse": "none"})]
    comparison = ts.compare(*results)
    for row in [*comparison.operations().rows, *comparison.folded()]:
        there = [at for at, count in enumerate(row["kernels"]) if count]
        for at in there:
            found = results[at].why(row["operation"], intervals=False)
            assert found.kernels, row["operation"]
            if len(there) == len(results) and set(row["kernels"]) == {1} and row.get("layers", 1) == 1:
                assert found.cycles == row["abc"[at]], row["operation"]


def test_an_operation_of_several_kernels_names_them_with_their_cycles() -> None:
    result = run("bert-base", machine="tpu-v3")
    why = result.why("attention.self", intervals=False)
    by_name = {row["name"]: row["exclusive"] for row in result.data["operations"]}
    names = ["attention.self.scores", "attention.self.sum", "attention.self"]
    assert [row["cycles"] for row in why.parts] == [by_name[name] for name in names]
    assert sum(row["share"] for row in why.parts) == pytest.approx(1)
    for at, row in enumerate(why.parts, 1):
        assert cycles(result, row["kernel"]) == cycles(result, f"attention.self[{at}]") == row["cycles"]
        assert cycles(result, f"encoder.layer.3.attention.self[{at}]") == row["cycles"]
        assert f"{row['cycles']:,}" in str(why) and row["kernel"] in str(why)
        assert row["kernel"] in why._repr_html_()
    assert cycles(result, "pooler.dense[1]") == by_name["pooler.dense"]
    for wrong in ("attention.self[0]", "attention.self[4]"):
        with pytest.raises(ts.UserError, match="1 to 3"):
            result.why(wrong)
    with pytest.raises(ts.UserError, match="unknown operation"):
        result.why("nothing.of.it[1]")


def test_a_name_that_has_brackets_of_its_own_is_a_name() -> None:
    b = ts.GraphBuilder("brackets")
    x = b.input("x", (64, 64))
    for name in ("blocks[0].fc", "blocks[1].fc", "a[2]"):
        x = b.matmul(x, b.weight(f"{name}.w", (64, 64)), name=name)
    b.output(x)
    result = ts.run(b.build(), machine="edge-8")
    rows = {row["operation"]: row["cycles"] for row in result.table()}
    assert set(rows) == {"blocks[0].fc", "blocks[1].fc", "a[2]"}
    for name, number in rows.items():
        assert cycles(result, name) == number
    both = pattern("blocks[0].fc")
    assert cycles(result, both) == rows["blocks[0].fc"] + rows["blocks[1].fc"]


def test_operations_of_a_loop_lead_to_the_loop() -> None:
    b = ts.GraphBuilder("loop")
    x = b.input("x", (64, 64))
    more, step = b.function("more"), b.function("step")
    more.output(more.apply("less", more.input("i", (), "i32"), more.scalar(5, "i32")))
    more.input("state", (64, 64))
    i, state = step.input("i", (), "i32"), step.input("state", (64, 64))
    step.output(i + 1)
    step.output(step.apply("tanh", state + state, name="inside"))
    found = b.core.op("while", [b.scalar(0, "i32").value, x.value], {}, "repeated", 2, ["more", "step"])
    b.output(Tensor(b, found[1]))
    result = ts.run(b.build(), machine="edge-8")
    assert result.why("inside", intervals=False).cycles > 0
