"""Attention with lengths of its rows, a page table and lse, against numpy row by row."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from support.cached_attention import Arrays, assert_close, decode, drawn, graph, oracle, steering
from support.program_checks import few_cores, unnoticed_mutants


@pytest.mark.parametrize("seed", range(40))
def test_reference_and_spelled_out_are_numpys(seed: int) -> None:
    values, attributes = drawn(seed)
    model, wanted = graph(values, **attributes), oracle(values, attributes)
    assert_close(ts.reference(model, values), wanted)
    spelled = model.copy()
    spelled.expand()
    assert all(row["kind"] != "attention" for row in spelled.operations())
    assert_close(ts.reference(spelled, values), wanted)


def check(machine: str, seed: int, most: int = 40) -> bool:
    values, attributes = drawn(seed, most)
    model, wanted = graph(values, **attributes), oracle(values, attributes)
    others = [rule for rule in ts.mapping.fusion_rules() if rule != "attention"]
    kernel = False
    for fuse in ("all", others):
        program = ts.compile(model, few_cores(machine), fuse=fuse, lowering="best")
        kernel |= any("attention as one kernel" in note for note in program.core.notes)
        assert_close(ts.execute(program, values, numerics="exact", find_races=True), wanted)
        assert ts.verify(program, values).ok
        result = ts.simulate(program, tensors=steering(values))
        assert result.seconds >= result.bounds.seconds and result.memory_bytes >= result.bounds.bytes
        result = ts.simulate(program)
        assert result.seconds >= result.bounds.seconds and result.memory_bytes >= result.bounds.bytes
    return kernel


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3", "chiplet-2"])
def test_kernels_are_numpys(machine: str) -> None:
    assert any([check(machine, seed) for seed in range(200, 203)])


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3", "chiplet-2"])
def test_many_kernels_are_numpys(machine: str) -> None:
    assert any([check(machine, seed, 300) for seed in range(1000, 1100)])


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
@pytest.mark.parametrize("page", [0, 16, 100])
def test_a_long_cache_is_split_whatever_its_length(machine: str, page: int, caplog: pytest.LogCaptureFixture) -> None:
    values = decode(2, 1600, page)
    program = ts.compile(graph(values), machine, lowering="best")
    for lengths in ([1600, 1600], [0, 3], [700, 1599]):
        values["kv_len"] = np.array(lengths, np.int32)
        found = ts.execute(program, values, numerics="exact", find_races=True)
        assert_close(found, oracle(values, {}))
    cores = {
        unit["core"] for unit in ts.simulate(program).data["units"] if unit["kind"] == "array" and unit["operations"]
    }
    assert len(cores) >= (1 if machine == "edge-8" else 8)
    assert not caplog.records  # the number of tile operations is unknown, so no time is announced


def test_queries_are_the_last_ones_of_their_row() -> None:
    """A part of a prompt behind what is in the cache already."""
    values = decode(3, 320, 16, queries=24)
    values["kv_len"] = np.array([24, 320, 100], np.int32)
    program = ts.compile(graph(values, causal=True), "mesh-16", lowering="best")
    assert_close(ts.execute(program, values, numerics="exact"), oracle(values, {"causal": True}))


def layered(values: Arrays) -> ts.Graph:
    """Two layers that one function means; lengths are computed, caches are views of one tensor, pages split rows."""
    b = ts.GraphBuilder("layers")
    f = b.function("layer")
    inner = [f.input(name, values[name].shape) for name in "qkv"]
    steer = [f.input(name, values[name].shape, dtype="i32") for name in ("kv_len", "pages")]
    f.output(f.attention(*inner, kv_len=steer[0], pages=steer[1], name="attention"))
    x = b.input("q", values["q"].shape)
    pages, groups, page, depth = values["k"].shape
    both = [b.input(name, (pages * page, groups, depth)) for name in "kv"]
    k, v = (one.reshape(pages, page, groups, depth).transpose(0, 2, 1, 3) for one in both)
    before = b.input("before", values["kv_len"].shape, dtype="i32")
    table = b.input("pages", values["pages"].shape, dtype="i32")
    lengths = before + b.weight("one", data=np.int32(1), trainable=False)
    for layer in range(2):
        x = b.call(f, x, k, v, lengths, table, name=f"layer.{layer}")
    direct = b.attention(x, k, v, kv_len=lengths, pages=table, name="direct")
    b.output(direct, "y")
    return b.build()


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_tables_that_are_computed_and_passed_on(machine: str) -> None:
    values = decode(2, 256, 16)
    values["kv_len"] = np.array([256, 31], np.int32)
    model = layered(values)
    rows = {name: values[name].transpose(0, 2, 1, 3).reshape(-1, 2, 64) for name in "kv"}
    inputs = {"q": values["q"], **rows, "before": values["kv_len"] - 1, "pages": values["pages"]}
    program = ts.compile(model, machine, lowering="best")
    wanted = values["q"]
    for _ in range(3):
        wanted = oracle({**values, "q": wanted}, {})[0]
    found = ts.execute(program, inputs, numerics="exact", find_races=True)
    np.testing.assert_allclose(np.asarray(found["y"], np.float64), wanted, rtol=1e-4, atol=1e-4)
    assert ts.verify(program, inputs).ok
    short = ts.simulate(program, tensors={"before": np.zeros(2, np.int32)})
    assert short.cycles <= ts.simulate(program).cycles
    assert any("before" in how for how in short.data_sources.values())


def test_infinite_scores_and_nan() -> None:
    """+inf and NaN make their row NaN and its lse too, -inf hides its key; behind the end nothing counts."""
    values = decode(1, 200, 8, queries=3)
    values["kv_len"] = np.array([150], np.int32)
    values["q"][..., 0] = 1
    values["k"][..., 0] = 0
    pages = values["pages"][0]
    values["k"][pages[0], 0, 5, 0] = -np.inf
    values["q"][0, 0, 1, 3] = np.nan
    values["k"][pages[18], :, 6:] = values["v"][pages[18], :, 6:] = np.nan
    for machine in ("edge-8", "mesh-16"):
        program = ts.compile(graph(values), machine, lowering="best", fuse="all")
        with np.errstate(invalid="ignore"):
            wanted = oracle(values, {})
        found = ts.execute(program, values, numerics="exact")
        assert np.isnan(found["lse"][0, 0, 1]) and np.isnan(found["y"][0, 0, 1]).all()
        assert np.isfinite(np.delete(found["lse"].reshape(24), 1)).all()
        assert_close(found, wanted)
        assert ts.verify(program, values).ok


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
def test_parts_that_see_nothing_hold_nothing(machine: str) -> None:
    """Keys that stay while tiles of queries pass: of an empty row, and of queries in front of all keys."""
    n, stay = np.random.default_rng(3), 0
    for queries, more, lengths in (
        (5, {}, [288, 0]),
        (160, {}, [0, 288]),
        (160, {"causal": True}, [100, 3]),
        (160, {"causal": True, "causal_offset": -130}, None),
        (160, {"window": 9, "causal_offset": 200}, [288, 20]),
    ):
        shapes = {"q": (2, 4, queries, 96), "k": (2, 2, 288, 96), "v": (2, 2, 288, 4)}
        values: Arrays = {name: n.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        if lengths is not None:
            values["kv_len"] = np.array(lengths, np.int32)
        program = ts.compile(graph(values, **more), few_cores(machine), lowering="best", fuse="all")
        stay += any("which stay" in note for note in program.core.notes)
        for order in ("text", "early_loads"):
            found = ts.execute(program, values, numerics="exact", find_races=True, order=order)
            assert_close(found, oracle(values, more))
    assert stay > 1


def test_narrow_floats_and_lse_in_f32() -> None:
    values = decode(2, 300, dtype=ml_dtypes.bfloat16)
    values["kv_len"] = np.array([299, 0], np.int32)
    model = graph(values)
    assert [row["dtype"] for row in model.outputs] == ["bf16", "f32"]
    wanted = oracle(values, {})
    program = ts.compile(model, "tpu-v3", lowering="best")
    found = ts.execute(program, values, numerics="exact")
    assert_close(found, wanted, 3e-2)
    np.testing.assert_allclose(found["lse"], wanted[1], rtol=1e-3, atol=1e-3)
    assert ts.verify(program, values).ok


def test_random_inputs_are_legal() -> None:
    for values in (decode(2, 96), decode(2, 96, 8)):
        assert ts.verify(ts.compile(graph(values), "edge-8", fuse="all"), seed=3).ok


def test_json_keeps_all(tmp_path: Any) -> None:
    values = decode(2, 96, 8)
    model = graph(values, causal=True)
    model.save(tmp_path / "model.json")
    again = ts.Graph.load(tmp_path / "model.json")
    assert_close(ts.reference(again, values), oracle(values, {"causal": True}))
    assert ts.compile(again, "edge-8").graph is not None


def test_what_lies_outside_is_named() -> None:
    values = decode(2, 96, 8)
    model = graph(values)
    program = ts.compile(model, "edge-8", fuse="all")
    long = values | {"kv_len": np.array([5, 97], np.int32)}
    wild = values | {"pages": values["pages"].copy()}
    wild["pages"][1, 3] = 24
    runs = (
        lambda given: ts.reference(model, given),
        lambda given: ts.execute(program, given),
        lambda given: ts.simulate(program, tensors=steering(given)),
    )
    for run in runs:
        with pytest.raises(ts.UserError, match=r"kv_len.*97 of batch row 1.*0 to 96"):
            run(long)
        with pytest.raises(ts.UserError, match=r"page 24 \(batch row 1, entry 3.*0 to 23"):
            run(wild)
        run(wild | {"kv_len": np.array([96, 24], np.int32)})  # nobody reads it


def test_operands_that_do_not_fit() -> None:
    values = decode(2, 96, 8)
    for change, text in (
        ({"kv_len": np.zeros(3, np.int32)}, "kv_len"),
        ({"kv_len": np.zeros(2, np.float32)}, "kv_len"),
        ({"pages": np.zeros((3, 12), np.int32)}, "page table"),
        ({"pages": np.zeros(24, np.int32)}, "page table"),
        ({"pages": np.zeros((2, 12), np.float32)}, "page table"),
        ({"v": values["v"][:-1]}, "v"),
        ({"k": values["k"][:0], "v": values["v"][:0]}, "pages"),
    ):
        with pytest.raises(ts.UserError, match=text):
            graph(values | change)


@pytest.mark.parametrize(("page", "queries"), [(0, 150), (16, 1)])
def test_no_wait_commit_or_release_can_be_spared(page: int, queries: int) -> None:
    """Every branch runs: tiles within and on the border, rows without keys; keys in parts."""
    values = decode(1, 2048, page) if queries == 1 else decode(2, queries, page, queries=queries)
    values["kv_len"][1:] = 0
    hidden: Arrays = {"causal": True, "window": 50} if queries > 1 else {}
    machine = few_cores("mesh-16") if hidden else "mesh-16"
    program = ts.compile(graph(values, **hidden), machine, fuse="all")
    assert any("attention as one kernel" in note for note in program.core.notes)
    assert unnoticed_mutants(program, values) == []
