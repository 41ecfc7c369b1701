"""Values that timing reads: given, computed from what was given, or typical; and unknown names."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest

import tilesim as ts

SIZES = [505, 1, 1, 1, 1, 1, 1, 1]


def ragged(dtype: str = "i32", chain: bool = False, place: bool = False) -> ts.Graph:
    b = ts.GraphBuilder("ragged", dtype="bf16")
    x, w, sizes = b.input("x", [512, 64]), b.input("w", [8, 64, 128]), b.input("sizes", [8], dtype)
    if chain:
        sizes = b.op("reverse", sizes, dims=[0], name="turned")
        sizes = b.op("convert", sizes, dtype="i32", name="narrow")
    y = b.op("ragged_contract", x, w, sizes, name="experts")
    b.output(b.apply("relu", y, name="act") if place else y, "y")
    return b.build()


def by_hand(program: ts.Program, sizes: Any) -> int:
    """Cycles where the program's own tensors are given."""
    tensors = [name for name in tensor_names(program) if name.endswith((".counts", ".offsets"))]
    (counts,) = [name for name in tensors if name.endswith(".counts")]
    (offsets,) = [name for name in tensors if name.endswith(".offsets")]
    rows = np.asarray(sizes, np.int32)
    before = np.concatenate([[0], np.cumsum(rows)[:-1]]).astype(np.int32)
    return ts.simulate(program, tensors={counts: rows, offsets: before}).cycles


def tensor_names(program: ts.Program) -> list[str]:
    return [tensor["name"] for tensor in json.loads(program.core.to_json())["tensors"]]


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8", "mesh-16"])
@pytest.mark.parametrize("chain", [False, True])
def test_a_graphs_input_reaches_timing(machine: str, chain: bool) -> None:
    graph = ragged("i64" if chain else "i32", chain)
    program = ts.compile(graph, machine)
    given = np.array(SIZES[::-1] if chain else SIZES, np.int64 if chain else np.int32)
    typical, result = ts.simulate(program), ts.simulate(program, tensors={"sizes": given})
    assert result.cycles == by_hand(program, SIZES) != typical.cycles
    assert result.data_sources and set(result.data_sources.values()) == {"computed from sizes"}
    assert all(how.startswith("default: 512 rows spread evenly") for how in typical.data_sources.values())
    assert not any("not given" in line for line in result.approximations)
    jsonschema.validate(result.data, ts.Result.schema())


def test_a_value_between_is_taken_as_given() -> None:
    program = ts.compile(ragged("i64", chain=True), "tpu-v3")
    result = ts.simulate(program, tensors={"narrow": np.array(SIZES, np.int32)})
    assert result.cycles == by_hand(program, SIZES)


def test_run_takes_what_its_inputs_say() -> None:
    graph = ragged()
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ([512, 64], [8, 64, 128]))
    sizes = np.array(SIZES, np.int32)
    result = ts.run(graph, (x, w, sizes))
    assert result.cycles == by_hand(ts.compile(graph, "tpu-v3"), SIZES)
    assert ts.run(graph).cycles == ts.simulate(ts.compile(graph, "tpu-v3")).cycles


def test_routers_decide_from_the_tokens() -> None:
    """What a router chooses follows from its input: top-k, histogram and all."""
    graph = ts.workloads.experts(64, 32, 48, count=4, chosen=1)
    tokens = np.tile(np.random.default_rng(1).standard_normal(32).astype(np.float32), (1, 64, 1))
    result = ts.simulate(ts.compile(graph, "tpu-v3"), tensors={"x": tokens})
    assert set(result.data_sources.values()) == {"computed from x"}
    spread = ts.simulate(ts.compile(graph, "tpu-v3"))
    assert result.cycles != spread.cycles  # all tokens are alike: one expert has them all


def test_what_cannot_be_computed_says_so() -> None:
    graph = ts.workloads.experts(64, 32, 48, count=4, chosen=1)
    program = ts.compile(graph, "tpu-v3")
    inner = next(op["results"][0]["name"] for op in program.prepared.operations("") if op["kind"] == "ragged_contract")
    result = ts.simulate(program, tensors={inner: np.zeros((64, 96), np.float32)})
    assert any(how.startswith("default") and "x" in how for how in result.data_sources.values())


def test_what_timing_does_not_read_is_said() -> None:
    program = ts.compile(ts.workloads.matmul(32, 32, 32), "edge-8")
    result = ts.simulate(program, tensors={"a": np.zeros((32, 32), np.float32)})
    assert result.data_sources == {"a": "given; timing does not depend on it"}
    assert result.cycles == ts.simulate(program).cycles


@pytest.mark.parametrize("place", [{}, {"act": "host"}])
def test_an_unknown_name_is_an_error(place: dict[str, str]) -> None:
    program = ts.compile(ragged(place=True), "tpu-v3", place=place)
    with pytest.raises(ts.UserError, match="sizes") as caught:
        ts.simulate(program, tensors={"size": np.array(SIZES, np.int32)})
    assert "'size'" in str(caught.value)
    with pytest.raises(ts.UserError):
        ts.simulate([ts.Job(ts.compile(ragged(), "tpu-v3"), tensors={"size": np.array(SIZES)})])


def test_parts_read_what_is_given_for_the_whole() -> None:
    """Sizes that another part computes follow from what was given too."""
    graph = ragged("i64", chain=True, place=True)
    program = ts.compile(graph, "tpu-v3", place={"act": "host", "turned": "host"})
    result = ts.simulate(program, tensors={"sizes": np.array(SIZES[::-1], np.int64)})
    assert result.cycles != ts.simulate(program).cycles
    assert set(result.data_sources.values()) == {"computed from sizes"}


def test_jobs_have_their_own() -> None:
    program = ts.compile(ragged(), "tpu-v3")
    long, even = np.array(SIZES, np.int32), np.full(8, 64, np.int32)
    one = ts.simulate([ts.Job(program, tensors={"sizes": long})])
    assert one.cycles == by_hand(program, SIZES)
    both = ts.simulate([ts.Job(program, tensors={"sizes": long}), ts.Job(program, tensors={"sizes": even})])
    assert {name.split(":")[0] for name in both.data_sources} == {"job 0", "job 1"}


def test_saved_results_keep_them(tmp_path: Any) -> None:
    result = ts.simulate(ts.compile(ragged(), "edge-8"), tensors={"sizes": np.array(SIZES, np.int32)})
    result.save(tmp_path / "result.json")
    assert ts.Result.load(tmp_path / "result.json").data_sources == result.data_sources != {}


def test_inputs_of_another_shape_are_refused() -> None:
    with pytest.raises(ts.UserError, match=r"wrong shape .*\[3, 4\].*f32\[2, 4\]"):
        ts.run(ts.workloads.softmax(2, 4), [np.zeros((3, 4), np.float32)])
