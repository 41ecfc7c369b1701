"""Advice beyond the machine: mappings and lowerings are proposed where they gain, and what slows says so."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from tilesim.results.advice import LEAST_GAIN, Advice
from tilesim.results.result import ASKED


def test_a_product_that_tuning_makes_faster_is_told() -> None:
    """What `tune` finds for one product, `explain` proposes too."""
    graph = ts.workloads.matmul(512, 768, 3072)
    result = ts.run(graph, machine="tpu-v3")
    tuned = ts.tune(graph, "tpu-v3", budget=8)
    assert result.cycles / tuned.result.cycles > 1.3  # type: ignore[union-attr]
    mappings = [item for item in result.explain() if item.kind == "mapping"]
    assert max(item.gain for item in mappings) > 1.3
    assert any("tuned" in repr(item) for item in mappings)
    for item in mappings:
        assert item.cycles == ts.simulate(ts.compile(graph, "tpu-v3", **item.change)).cycles


def test_a_lowering_is_told_where_there_are_two() -> None:
    result = ts.run("mlp", machine="tpu-v3")
    best = next(item for item in result.explain() if item.kind == "lowering")
    assert best.change == {"lowering": "best"}
    assert best.cycles == ts.run("mlp", machine="tpu-v3", lowering="best").cycles
    already = ts.run("mlp", machine="tpu-v3", lowering="best")
    assert "lowering" not in {item.kind for item in already.explain()}


def test_advice_comes_one_by_one_and_explain_sorts_it() -> None:
    result = ts.run(ts.workloads.matmul(256, 256, 256), machine="tpu-v3")
    coming = result.advice()
    assert isinstance(coming, types.GeneratorType)
    first = next(coming)
    everything = [first, *coming]
    assert [repr(item) for item in result.explain()] == [
        repr(item) for item in sorted(everything, key=lambda item: item.cycles)
    ]
    for item in everything:
        assert item.kind == "machine" or item.gain >= LEAST_GAIN


def test_what_slows_says_slower() -> None:
    assert repr(Advice({"core.array.count": 4}, 150, 100)) == "core.array.count = 4: 1.50 times slower (150 cycles)"
    assert repr(Advice({"core.array.count": 4}, 50, 100)) == "core.array.count = 4: 2.00 times faster (50 cycles)"
    assert not Advice({}, 1000, 1009).worth_telling and Advice({}, 1000, 1010).worth_telling
    assert not Advice({}, 1010, 1000).worth_telling
    assert Advice({"mapping": {"a": {}, "b": {}}}, 1, 2, "mapping").__repr__().startswith("mapping tuned: a and 1 more")


def test_programs_without_a_graph_have_machines_alone(tmp_path: Path) -> None:
    ts.compile(ts.workloads.matmul(256, 256, 256), "tpu-v3").save(tmp_path / "p.json")
    program = ts.Program.load(tmp_path / "p.json", machine="tpu-v3")
    assert {item.kind for item in ts.simulate(program).explain()} == {"machine"}
    with pytest.raises(ts.UserError, match="lacks its program"):
        next(ts.Result(ts.simulate(program).data).advice())


def test_an_estimate_advises_too() -> None:
    result = ts.estimate("mlp", "h100")
    assert sorted(map(repr, result.advice())) == sorted(map(repr, result.explain()))


def test_narrower_numbers_are_told_where_arrays_multiply_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever makes a graph narrower is asked for what the machine has a rate for, and marked."""
    asked = []

    def narrower(graph: ts.Graph, scheme: str) -> ts.Graph:
        asked.append(scheme)
        return ts.workloads.matmul(512, 512, 512, dtype="i8" if scheme == "i8" else "bf16")

    monkeypatch.setitem(ASKED, "quantize", narrower)
    graph = ts.workloads.matmul(512, 512, 512, dtype="f32")
    machine = ts.Machine.load("edge-8").replace({"core.array.rates": {"f32": 1, "bf16": 1, "i8": 4}})
    found = [item for item in ts.run(graph, machine=machine).explain() if item.kind == "quantize"]
    assert asked == ["bf16", "i8", "w4a16"]
    assert found[0].change == {"quantize": "i8"} and "changes the numbers" in repr(found[0])
    narrow = ts.run(ts.workloads.matmul(512, 512, 512, dtype="i8"), machine=machine)
    assert found[0].cycles == narrow.cycles


@pytest.mark.parametrize(("zeros", "told"), [(slice(0, 256), True), (slice(0, 100), False)])
def test_tiles_of_zeros_are_told_where_a_weight_has_them(zeros: slice, told: bool) -> None:
    w = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
    w[zeros] = 0
    b = ts.GraphBuilder("zeros")
    b.output(b.matmul(b.input("x", (512, 512)), b.weight("w", data=w), name="up"), "y")
    graph = b.build()
    result = ts.run(graph, machine="tpu-v3")
    found = [item for item in result.explain() if "zero_tiles" in item.change]
    rows = [row for row in result.why("up").alternatives.rows if "zero_tiles" in row["change"]]
    assert len(found) == len(rows) == told
    for item in found:
        skipped = ts.run(graph, machine="tpu-v3", zero_tiles="skip")
        assert item.kind == "lowering" and item.cycles == skipped.cycles == rows[0]["cycles"]
        assert "zero_tiles" not in {key for one in skipped.explain() for key in one.change}


def test_random_weights_are_not_searched_for_zeros() -> None:
    graph = ts.workloads.matmul(512, 512, 512)
    assert not any("zero_tiles" in item.change for item in ts.run(graph, machine="tpu-v3").explain())
