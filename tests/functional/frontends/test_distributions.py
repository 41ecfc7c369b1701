"""What timing reads: traces, named distributions with a seed, executions; and what is wrong with them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.models import decoder as decoders
from tilesim.models.experts import Experts
from tilesim.program.distributions import Distribution, GroupRows, Indices

SMALL = {"vocabulary": 50, "width": 32, "layers": 2, "heads": 4, "key_heads": 2, "hidden": 48, "head_width": 8}
MIXTRAL = dataclasses.replace(decoders.MIXTRAL_8X7B, **SMALL, experts=Experts(count=5, chosen=2))


def ragged(rows: int = 512, groups: int = 8, name: str = "sizes") -> ts.Graph:
    b = ts.GraphBuilder("ragged", dtype="bf16")
    x, w, sizes = b.input("x", [rows, 64]), b.input("w", [groups, 64, 128]), b.input(name, [groups], "i32")
    b.output(b.op("ragged_contract", x, w, sizes, name="experts"), "y")
    return b.build()


def of(text: str) -> Distribution:
    return Distribution.of(text, "tensors, x")


@pytest.mark.parametrize("text", ["uniform", "balanced", "zipf:0", "zipf:1.1", "zipf:3"])
@pytest.mark.parametrize("rows", [0, 1, 7, 4096])
@pytest.mark.parametrize("groups", [1, 3, 64])
@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_counts_sum_to_the_rows(text: str, rows: int, groups: int, chosen: int) -> None:
    if chosen > groups or (chosen and rows % chosen):
        chosen = 0
    for seed in range(3):
        counts = of(text).draw(GroupRows(rows, groups, chosen), seed, "x")
        assert counts.shape == (groups,) and counts.sum() == rows and (counts >= 0).all()
        if chosen:
            assert text == "balanced" or counts.max(initial=0) <= rows // chosen  # a row goes to different groups
        if text == "balanced":
            assert counts.max() - counts.min() <= 1


def test_a_seed_gives_the_same_again() -> None:
    role = Indices((1000,), (77,))
    first, again, other = (of("zipf:1").draw(role, seed, "x") for seed in (1, 1, 2))
    assert (first == again).all() and (first != other).any()
    assert (of("zipf:1").draw(role, 1, "y") != first).any()


def test_shares_are_those_of_the_name() -> None:
    """Frequencies within five standard deviations of 1 / (i + 1)^s, normalised."""
    count, limit = 200_000, 20
    for text, exponent in (("uniform", 0.0), ("zipf:1.1", 1.1), ("zipf:2", 2.0)):
        shares = 1 / np.arange(1.0, limit + 1) ** exponent
        shares /= shares.sum()
        found = np.bincount(of(text).draw(Indices((count,), (limit,)), 3, "x"), minlength=limit) / count
        assert (np.abs(found - shares) < 5 * np.sqrt(shares * (1 - shares) / count)).all()
    balanced = np.bincount(of("balanced").draw(Indices((count,), (limit,)), 3, "x"))
    assert balanced.max() == balanced.min() == count // limit


def test_vectors_of_indices_stay_within_each_axis() -> None:
    drawn = of("uniform").draw(Indices((500, 2), (3, 1000), 1), 0, "x")
    assert drawn[:, 0].max() == 2 and drawn[:, 1].max() > 500 and drawn.min() >= 0


@pytest.mark.parametrize("key", ["sizes", "counts"])
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
def test_counts_by_name_or_word(key: str, machine: str) -> None:
    """What is drawn takes the time of the same numbers given."""
    program = ts.compile(ragged(), machine)
    drawn = ts.simulate(program, tensors={key: "zipf:1.1"}, seed=5)
    numbers = of("zipf:1.1").draw(GroupRows(512, 8), 5, "sizes").astype(np.int32)
    assert drawn.cycles == ts.simulate(program, tensors={"sizes": numbers}).cycles
    assert set(drawn.data_sources.values()) == {"computed from sizes (zipf:1.1, seed 5)"}
    spread = ts.simulate(program, tensors={key: "balanced"})
    assert spread.cycles == ts.simulate(program).cycles  # what is typical


def test_a_name_goes_before_the_word() -> None:
    """A tensor that is called counts is meant by its name; one that is given is not drawn."""
    program = ts.compile(ragged(name="counts"), "edge-8")
    result = ts.simulate(program, tensors={"counts": "uniform"})
    assert set(result.data_sources.values()) == {"computed from counts (uniform, seed 0)"}
    given = np.array([512, *[0] * 7], np.int32)
    program = ts.compile(ragged(), "edge-8")
    both = ts.simulate(program, tensors={"counts": "uniform", "sizes": given})
    assert both.cycles == ts.simulate(program, tensors={"sizes": given}).cycles


def test_experts_in_a_layer_that_is_called() -> None:
    """Counts inside a function have no name that a graph's entry knows: the word finds them."""
    program = ts.compile(decoders.decoder(MIXTRAL, 2, 9, "prefill", "f32"), "edge-8")
    result = ts.simulate(program, tensors={"counts": "zipf:3", "indices": "uniform"}, seed=1)
    counts = {name: how for name, how in result.data_sources.items() if name.endswith(".counts")}
    assert counts and all("zipf:3, seed 1, 2 of 5 for each row" in how for how in counts.values())
    ids = [how for name, how in result.data_sources.items() if "ids" in name]
    assert ids == ["uniform, seed 1"]


def test_counts_behind_a_router_come_from_an_execution() -> None:
    """Given all inputs of the graph, integers that it computes are computed."""
    graph = ts.workloads.experts(64, 32, 48, count=4, chosen=2)
    tokens = np.random.default_rng(0).standard_normal((1, 64, 32)).astype(np.float32)
    program = ts.compile(graph, "edge-8")
    result = ts.simulate(program, tensors={"x": tokens})
    assert result.data_sources and set(result.data_sources.values()) == {"computed from x"}
    logits = tokens[0] @ np.asarray(program.weight("experts.gate.weight")).T
    counts = np.bincount(np.argsort(-logits, axis=1)[:, :2].ravel(), minlength=4)
    sizes = next(op["operands"][2]["name"] for op in program.prepared.operations("") if op["kind"] == "ragged_contract")
    by_hand = ts.simulate(program, tensors={"x": tokens, sizes: counts.astype(np.int32)})
    assert result.cycles == by_hand.cycles


def test_starts_of_gathers_are_computed() -> None:
    """A gather clips its starts first: the tiled program's own step makes them of what was given."""
    b = ts.GraphBuilder("two")
    t, ids = b.input("t", [64, 32, 16]), b.input("ids", [40, 2], "i32")
    attributes: dict[str, Any] = {"start_index_map": [0, 1], "slice_sizes": [1, 1, 16], "collapsed_slice_dims": [0, 1]}
    attributes |= {"offset_dims": [1], "index_vector_dim": 1, "mode": "clip"}
    b.output(b.op("gather", t, ids, name="rows", **attributes), "y")
    program = ts.compile(b.build(), "mesh-16")
    result = ts.simulate(program, tensors={"ids": np.zeros((40, 2), np.int32)})
    assert set(result.data_sources.values()) == {"computed from ids"}
    drawn = ts.simulate(program, tensors={"indices": "uniform"})
    assert set(drawn.data_sources.values()) == {"computed from ids (uniform, seed 0)"}


def test_a_trace_has_all_that_timing_reads(tmp_path: Path) -> None:
    program = ts.compile(ragged(), "edge-8")
    sizes = np.array([505, *[1] * 7], np.int32)
    np.savez(tmp_path / "whole.npz", sizes=sizes)
    result = ts.simulate(program, tensors=tmp_path / "whole.npz")
    assert result.cycles == ts.simulate(program, tensors={"sizes": sizes}).cycles
    assert set(result.data_sources.values()) == {"computed from sizes (trace whole.npz)"}
    assert ts.run(ragged(), machine="edge-8", tensors=str(tmp_path / "whole.npz")).cycles == result.cycles
    np.savez(tmp_path / "part.npz", x=np.zeros((512, 64), np.float32))
    with pytest.raises(ts.UserError, match=r"part.npz: the trace lacks tensors that timing reads.*y.counts") as caught:
        ts.simulate(program, tensors=str(tmp_path / "part.npz"))
    assert "its arrays: x" in str(caught.value)


@pytest.mark.parametrize("what", ["none.npz", "text.npz", 7, ["a"]])
def test_what_is_no_trace(what: Any, tmp_path: Path) -> None:
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(ts.UserError):
        ts.simulate(ts.compile(ragged(), "edge-8"), tensors=tmp_path / what if isinstance(what, str) else what)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("zipff:1.1", "unknown distribution.*Did you mean 'zipf'"),
        ("unifrom", "unknown distribution.*Did you mean 'uniform'"),
        ("zipf", "exponent.*zipf:1.1"),
        ("zipf:-1", "exponent"),
        ("zipf:nan", "exponent"),
        ("balanced:2", "takes no parameter"),
        ("", "unknown distribution"),
    ],
)
def test_a_distribution_that_does_not_exist(text: str, match: str) -> None:
    with pytest.raises(ts.UserError, match=match) as caught:
        ts.simulate(ts.compile(ragged(), "edge-8"), tensors={"sizes": text})
    assert "tensors, sizes" in str(caught.value)


def test_no_distribution_for_what_is_no_count_or_index() -> None:
    program = ts.compile(ragged(), "edge-8")
    with pytest.raises(ts.UserError, match=r"rows per group and to indices.*'x'.*sizes"):
        ts.simulate(program, tensors={"x": "uniform"})
    with pytest.raises(ts.UserError, match=r"such a tensor.*'indices'.*sizes"):
        ts.simulate(program, tensors={"indices": "uniform"})
    with pytest.raises(ts.UserError, match=r"'sizez'.*Did you mean 'sizes'"):
        ts.simulate(program, tensors={"sizez": "uniform"})


@pytest.mark.parametrize("value", [3, np.ones(8), [1, 2]])
def test_a_word_for_all_counts_is_no_array(value: Any) -> None:
    program = ts.compile(ragged(), "edge-8")
    with pytest.raises(ts.UserError, match=r"takes a distribution for all counts.*zipf"):
        ts.simulate(program, tensors={"counts": value})


def test_a_program_that_reads_no_data_takes_no_distribution() -> None:
    with pytest.raises(ts.UserError, match="timing of this program does not depend on data"):
        ts.simulate(ts.compile(ts.models.mlp(), "edge-8"), tensors={"counts": "uniform"})


def test_empty_traces_and_arrays_without_names(tmp_path: Path) -> None:
    program = ts.compile(ragged(), "edge-8")
    np.savez(tmp_path / "empty.npz")
    np.save(tmp_path / "one.npy", np.ones(3))
    with pytest.raises(ts.UserError, match=r"lacks tensors that timing reads.*y.counts"):
        ts.simulate(program, tensors=tmp_path / "empty.npz")
    with pytest.raises(ts.UserError, match=r"not an \.npz file"):
        ts.simulate(program, tensors=tmp_path / "one.npy")


@pytest.mark.parametrize(
    ("sizes", "match"),
    [([65] * 8, "too many rows together.*520.*at most 512"), ([513, -1, 0, 0, 0, 0, 0, 0], "-1 of group 1")],
)
@pytest.mark.parametrize("key", ["sizes", "y.counts"])
def test_counts_that_do_not_sum(sizes: list[int], match: str, key: str) -> None:
    program = ts.compile(ragged(), "edge-8")
    with pytest.raises(ts.UserError, match=match):
        ts.simulate(program, tensors={key: np.array(sizes, np.int32)})


def test_parts_for_the_host_draw_too() -> None:
    b = ts.GraphBuilder("placed", dtype="bf16")
    x, w, sizes = b.input("x", [512, 64]), b.input("w", [8, 64, 128]), b.input("sizes", [8], "i32")
    b.output(b.apply("relu", b.op("ragged_contract", x, w, sizes, name="experts"), name="act"), "y")
    program = ts.compile(b.build(), "tpu-v3", place={"act": "host"})
    result = ts.simulate(program, tensors={"counts": "zipf:3"})
    assert result.cycles != ts.simulate(program).cycles
    assert all("zipf:3" in how for how in result.data_sources.values())
