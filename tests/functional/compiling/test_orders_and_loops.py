"""Sorts, products by group and loops: what decides at run time, equal to the reference, and timed by what is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.lowering_cases import CASES, graph_of, single
from support.program_checks import unnoticed_mutants
from tilesim import _core

SMALL = {"core.scratchpad.bytes": "8 KiB"}
MACHINES = {"edge": ts.Machine.load("edge-8").replace(SMALL), "tpu": ts.Machine.load("tpu-v3")}


# ---- sort and top-k


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("largest", [True, False])
def test_top_k_orders_nan_and_ties_as_the_reference(name: str, largest: bool) -> None:
    """NaN is the largest number; of equal ones the first is taken."""
    x = np.random.default_rng(0).integers(-3, 4, (5, 40)).astype(np.float32)
    x[0, [7, 3]] = np.nan
    x[1] = -np.inf
    x[2, ::2] = -0.0
    graph = single("top_k", [[5, 40]], dim=1, k=9, largest=largest, results=2)()
    program = ts.compile(graph, MACHINES[name])
    wanted = ts.reference(graph, [x])
    for output, value in ts.execute(program, [x], find_races=True).items():
        np.testing.assert_array_equal(value, wanted[output])


def test_a_stable_sort_carries_what_belongs_to_the_keys() -> None:
    keys = np.random.default_rng(1).integers(0, 4, (3, 60)).astype(np.int32)
    payload = np.arange(180, dtype=np.int32).reshape(3, 60)
    graph = single("sort", [([3, 60], "i32"), ([3, 60], "i32")], dim=1, descending=True, results=2)()
    got = ts.execute(ts.compile(graph, MACHINES["edge"]), [keys, payload], find_races=True)
    order = np.argsort(-keys, axis=1, kind="stable")
    np.testing.assert_array_equal(got["y1"], np.take_along_axis(payload, order, 1))


def test_large_integers_are_not_compared_as_floats() -> None:
    x = np.array([[2**62 + 1, 2**62, 2**62 + 3, 2**62 + 2]], dtype=np.int64)
    graph = single("sort", [([1, 4], "i64")], dim=1)()
    np.testing.assert_array_equal(ts.execute(ts.compile(graph, "tpu-v3"), [x])["y0"], np.sort(x, 1))


def cycles_of(kept: int, extent: int = 4096) -> int:
    graph = single("top_k", [[64, extent]], dim=1, k=kept, results=2)()
    return ts.simulate(graph, "tpu-v3").cycles


def test_few_kept_elements_take_fewer_steps_than_a_sort() -> None:
    """The vector unit is the limit: 12 levels are 78 passes of two operations; of two kept 4, and words of keys."""
    everything, few = cycles_of(4096), cycles_of(2)
    vector = ts.Machine.load("tpu-v3")
    registers = 64 * 4096 / (vector.get("core.vector.lanes") * vector.get("core.vector.sublanes"))
    assert everything >= 2 * 78 * registers / vector.get("core.vector.issue")
    assert few < everything / 3


def test_a_row_beyond_the_scratchpad_is_refused_by_name() -> None:
    graph = single("sort", [[2, 1_500]], dim=1)()
    with pytest.raises(ts.Unsupported, match=r"op: sort.*row must fit.*1500.*8192"):
        ts.compile(graph, MACHINES["edge"])


# ---- products by group


def ragged(rows: int, groups: int = 6, transposed: bool = False, wide: int = 40) -> ts.Graph:
    weights = [groups, wide, 24] if transposed else [groups, 24, wide]
    return single("ragged_contract", [[rows, 24], weights, ([groups], "i32")], b_transposed=transposed)()


def operands(graph: ts.Graph, sizes: list[int]) -> list[Any]:
    generator = np.random.default_rng(2)
    shapes = [row["shape"] for row in graph.core.inputs]
    return [*(generator.standard_normal(s).astype(np.float32) for s in shapes[:2]), np.array(sizes, np.int32)]


SIZES = [(21, [5, 0, 9, 1, 0, 2]), (3, [0, 1, 0, 0, 2, 0]), (40, [40, 0, 0, 0, 0, 0]), (40, [0, 0, 0, 0, 0, 0])]


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "sizes"), SIZES)
def test_rows_meet_the_matrix_of_their_group(name: str, transposed: bool, rows: int, sizes: list[int]) -> None:
    """Empty groups, one group with everything, rows that belong to none (zeros)."""
    graph = ragged(rows, transposed=transposed)
    program = ts.compile(graph, MACHINES[name])
    arrays = operands(graph, sizes)
    assert ts.verify(program, arrays).ok
    got = ts.execute(program, arrays, find_races=True)["y0"]
    np.testing.assert_array_equal(got[sum(sizes) :], 0)


@pytest.mark.parametrize("wide", [1, 2, 9, 33, 129, 200])
@pytest.mark.parametrize(("name", "cores"), [("mesh-16", 16), ("edge-8", 2), ("edge-8", 3)])
def test_each_column_of_a_ragged_product_is_computed_by_one_core(name: str, cores: int, wide: int) -> None:
    graph = ragged(21, wide=wide)
    arrays = operands(graph, [5, 0, 9, 1, 0, 2])
    program = ts.compile(graph, ts.Machine.load(name).replace({"core.count": cores}))
    got = ts.execute(program, arrays, find_races=True)["y0"]
    np.testing.assert_allclose(got, ts.reference(graph, arrays)["y0"], rtol=1e-5, atol=1e-5)


def test_every_mutant_of_a_ragged_product_is_reported() -> None:
    graph = ragged(21)
    program = ts.compile(graph, MACHINES["edge"])
    names = [row["name"] for row in graph.core.inputs]
    arrays = dict(zip(names, operands(graph, [5, 0, 9, 1, 0, 2]), strict=True))
    assert unnoticed_mutants(program, arrays) == []


def test_group_sizes_beyond_the_rows_are_an_error() -> None:
    graph = ragged(10)
    with pytest.raises(ts.UserError):
        ts.execute(ts.compile(graph, MACHINES["edge"]), operands(graph, [9, 9, 0, 0, 0, 0]))


def test_only_groups_with_rows_are_fetched() -> None:
    """Timing reads the sizes: weights of two groups of six, or of all; without values rows are spread evenly."""
    graph = ragged(64, wide=512)
    program = ts.compile(graph, "edge-8")
    matrix = 24 * 512 * 4

    def read(sizes: list[int] | None) -> tuple[int, ts.Result]:
        given = None
        if sizes is not None:
            counts = np.array(sizes, np.int32)
            given = {"y0.counts": counts, "y0.offsets": (np.cumsum(counts) - counts).astype(np.int32)}
        result = ts.simulate(program, tensors=given)
        return result.data["memory_read_bytes"], result

    two, _ = read([32, 0, 0, 32, 0, 0])
    six, known = read([11, 11, 11, 11, 10, 10])
    even, assumed = read(None)
    assert six - two >= 4 * matrix
    assert even == six
    assert not any("not given" in text for text in known.approximations)
    assert any("64 rows spread evenly over 6 groups (y0.counts, y0.offsets)" in text for text in assumed.approximations)
    with pytest.raises(ts.UserError, match=r"y0\.counts"):
        ts.simulate(program, tensors={"y0.counts": np.zeros(3, np.int32)})


# ---- scatter


def rows(mode: str, combiner: str) -> ts.Graph:
    return single(
        "scatter", [[6, 8], ([5, 1], "i32"), [5, 8]], update_window_dims=[1], inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0], index_vector_dim=1, combiner=combiner, mode=mode,
    )()  # fmt: skip


@pytest.mark.parametrize("name", MACHINES)
def test_scatter_drops_or_refuses_what_lies_outside_and_the_last_one_stays(name: str) -> None:
    x, updates = np.zeros((6, 8), np.float32), np.arange(40, dtype=np.float32).reshape(5, 8)
    indices = np.array([[2], [6], [2], [-1], [0]], np.int32)
    got = ts.execute(ts.compile(rows("drop", "set"), MACHINES[name]), [x, indices, updates], find_races=True)["y0"]
    np.testing.assert_array_equal(got[[2, 0]], updates[[2, 4]])
    assert not got[[1, 3, 4, 5]].any()
    got = ts.execute(ts.compile(rows("drop", "add"), MACHINES[name]), [x, indices, updates], find_races=True)["y0"]
    np.testing.assert_array_equal(got[2], updates[0] + updates[2])
    with pytest.raises(ts.UserError, match="index is out of range"):
        ts.execute(ts.compile(rows("error", "set"), MACHINES[name]), [x, indices, updates])


@pytest.mark.parametrize("name", ["tpu-v3", "tpu-v2-chip", "chiplet-2", "edge-8"])
@pytest.mark.parametrize("length", [4, 5, 33])
def test_a_shorter_last_tile_of_a_scatter_has_its_own_row_of_none(name: str, length: int) -> None:
    graph = single(
        "scatter", [[length, 1], ([4, 1], "i32"), [4, 1]], update_window_dims=[1], inserted_window_dims=[0],
        scatter_dims_to_operand_dims=[0], index_vector_dim=1, combiner="add", mode="drop",
    )()  # fmt: skip
    x, indices = np.arange(length, dtype=np.float32)[:, None], np.array([[0], [length - 1], [length], [-1]], np.int32)
    program = ts.compile(graph, ts.Machine.load(name).replace({"core.count": 2}))
    got = ts.execute(program, [x, indices, np.ones((4, 1), np.float32)], find_races=True)["y0"]
    x[[0, -1]] += 1
    np.testing.assert_array_equal(got, x)


def test_every_mutant_of_a_scatter_is_reported() -> None:
    graph = rows("drop", "add")
    arrays = dict(zip([row["name"] for row in graph.core.inputs], _core.random_inputs(graph.core, 0), strict=True))
    assert unnoticed_mutants(ts.compile(graph, MACHINES["edge"]), arrays) == []


def test_scatter_costs_by_what_it_moves() -> None:
    """Adding reads the target, the updates and the numbers of rows, and more than setting does; nothing is free."""

    def read(combiner: str) -> int:
        return int(ts.simulate(rows("drop", combiner), "edge-8").data["memory_read_bytes"])

    assert read("add") > read("set") and read("add") >= (6 * 8 + 5 * 8 + 5) * 4


# ---- values that timing does not know


def test_integer_inputs_taken_as_zero_are_listed() -> None:
    result = ts.simulate(CASES["dynamic_slice"](), "edge-8")
    assert any("zeros (x1)" in text or "zeros (x1, x2)" in text for text in result.approximations)
    given = ts.simulate(CASES["dynamic_slice"](), "edge-8", tensors={"x1": np.array(3), "x2": np.array(0)})
    assert not any("zeros" in text for text in given.approximations)


def test_integer_inputs_that_nothing_depends_on_are_not_listed() -> None:
    result = ts.simulate(CASES["embedding"](), "edge-8")
    assert not any("not given" in text for text in result.approximations)


# ---- loops


def counted(trips: int, limit_is_state: bool = False) -> ts.Graph:
    """s <- s * x[i] + s, y[i] <- sum of s: a renewed state, one written in place, and one that stays."""
    b = ts.GraphBuilder("loop")
    x = b.input("x", [9, 12])
    start = b.input("s", [5, 12])
    shapes = {"i": ([], "i32"), "s": ([5, 12], None), "x": ([9, 12], None), "y": ([9, 12], None)}

    def inputs(f: ts.GraphBuilder) -> dict[str, Any]:
        return {key: f.input(key, shape, dtype) for key, (shape, dtype) in shapes.items()}

    more = b.function("more")
    state = inputs(more)
    more.output(more.apply("less", state["i"], more.scalar(2 + trips, "i32")), "on")
    step = b.function("step")
    state = inputs(step)
    zero = step.scalar(0, "i32")
    row = step.op("dynamic_slice", state["x"], state["i"], zero, sizes=[1, 12])
    grown = state["s"] * row + state["s"]
    total = step.op("reduce", grown, combiner="add", dims=[0], keep_dims=True)
    step.output(state["i"] + 1, "i.next")
    step.output(grown, "s.next")
    step.output(state["x"], "x.next")
    step.output(step.op("dynamic_update", state["y"], total, state["i"], zero), "y.next")
    first = [b.scalar(2, "i32"), start, x, b.broadcast(b.scalar(0.5), [9, 12])]
    found = b.core.op("while", [t.value for t in first], {}, "loop", 4, ["more", "step"])
    from tilesim.graph import Tensor

    for i, value in enumerate(found):
        b.output(Tensor(b, value), f"out{i}")
    return b.build()


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("cores", [1, 3])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 6])
def test_a_counted_loop_equals_the_reference(name: str, trips: int, cores: int) -> None:
    """Even and odd numbers of trips end in the same tensor; none leaves the state as it was."""
    graph = counted(trips)
    program = ts.compile(graph, ts.Machine.load(MACHINES[name]).replace({"core.count": cores}), cores=cores)
    assert ts.verify(program).ok
    got, wanted = ts.execute(program, find_races=True), ts.reference(graph)
    for output, value in wanted.items():
        np.testing.assert_allclose(got[output], value, rtol=1e-5, atol=1e-6)
    assert int(got["out0"]) == 2 + trips


def test_copies_of_states_have_tiles() -> None:
    """What a loop starts from is copied in tiles that mappings choose, by the name of loop and state."""
    from tilesim.mapping import kernels

    graph = counted(3)
    found = [kernel for kernel in kernels(graph, "edge-8") if ".copy" in kernel.operation]
    assert found
    usual = ts.simulate(ts.compile(graph, "edge-8")).cycles
    for kernel in found:
        nest = {"tiles": [1] * len(kernel.sizes), "lane": kernel.info["lanes"][0], "depth": 1}
        program = ts.compile(graph, "edge-8", mapping={kernel.operation: nest})
        assert ts.verify(program).ok
        assert ts.simulate(program).cycles > usual
    assert ts.verify(ts.compile(graph, "edge-8", mapping="cost")).ok
    two = ts.compile(graph, ts.Machine.load("edge-8").replace({"core.contexts": 2}), contexts=2)
    assert ts.verify(two).ok


def test_time_grows_with_the_trips() -> None:
    times = [ts.simulate(counted(trips), "edge-8").cycles for trips in (20, 40, 60)]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=0.05)
    assert times[1] > times[0]


def test_a_loop_that_data_ends_is_refused_by_name() -> None:
    b = ts.GraphBuilder("loop")
    more, step = b.function("more"), b.function("step")
    more.output(more.apply("less", more.input("x", []), more.scalar(3.0)), "on")
    x = step.input("x", [])
    step.output(x + x, "next")
    from tilesim.graph import Tensor

    (value,) = b.core.op("while", [b.input("x", []).value], {}, "until", 1, ["more", "step"])
    b.output(Tensor(b, value), "y")
    with pytest.raises(ts.Unsupported, match=r"until.*number of trips"):
        ts.compile(b.build(), "tpu-v3")


def test_a_scalar_is_spread_without_bytes_of_its_own() -> None:
    """A constant that a loop or a function takes is written, not read from memory."""
    graph = graph_of(lambda b: b.broadcast(b.scalar(0.5), [40, 30]))
    np.testing.assert_array_equal(ts.execute(ts.compile(graph, MACHINES["edge"]))["y0"], np.full((40, 30), 0.5))
