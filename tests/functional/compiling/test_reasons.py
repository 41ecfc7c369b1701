"""Why a machine cannot run an operation: the operation, what it lacks, and a text; whatever operations are called."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
from support.unlowered import by_size
from tilesim.cli.main import app
from tilesim.program.mixed import MixedProgram
from tilesim.study.coverage import coverage

NAMES = ["fft+x", "a b", 'say "x"', "it's", "<b>&amp;</b>", "x.y+z.w", "+", "a++b", "$(x)", "[red]x[/red]", "é\u4e2d"]


def attention(name: str) -> ts.Graph:
    """Passes write it as products, of a type that the arrays lack, beside operations with names as those have."""
    b = ts.GraphBuilder("odd")
    x = b.input("x", (1, 2, 16, 16))
    before = b.apply("relu", x, name=name.partition("+")[0] + "_")
    before = b.apply("abs", before, name=name + ".scores")
    made = b.op("attention", before, before, before, name=name)
    b.output(b.apply("relu", made, name=name + ".behind"), "y")
    return b.build()


def ordered(name: str) -> ts.Graph:
    b = ts.GraphBuilder("odd")
    x = b.input("x", (16, 16))
    re, _ = by_size(b, b.matmul(x, x, name="mm"), name, 1)
    b.output(b.apply("relu", re, name=name + ".relu"), "y")
    return b.build()


def on_host(program: Any) -> set[str]:
    assert isinstance(program, MixedProgram)
    return {row["operation"] for row in program.placement.rows if row["where"] == "host"}


@pytest.mark.parametrize("name", NAMES)
def test_the_host_takes_operations_of_any_name(name: str, tmp_path: Path) -> None:
    graph = ordered(name)
    with pytest.raises(ts.Unsupported, match=r"fallback='host'") as refused:
        ts.compile(graph)
    error = refused.value
    assert (error.operation, error.function, error.lack) == (name, graph.core.main, "comparator")
    # the host multiplies f32 as it is: so does this machine, and nothing is near to another place in the order
    exact = ts.Machine.load("tpu-v3").replace({"core.array.multiply": "as stored"})
    program = ts.compile(graph, exact, fallback="host")
    assert name in on_host(program)
    found, wanted = ts.execute(program, seed=3), ts.reference(graph, seed=3)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4 * np.abs(value).max())
    assert any(row["name"] == name for row in ts.run(graph, fallback="host").data["operations"])
    told = coverage(graph)
    assert [line for line in told.unsupported if line.startswith(f"{name} (sort)")] and len(told.unsupported) == 1
    assert {row["operation"]: row["on"] for row in told.rows}["mm"] == "array"
    profile = ts.study.profile(graph)
    assert name in {row["operation"] for row in profile.rows}
    graph.save(tmp_path / "odd.json")
    command = ["run", str(tmp_path / "odd.json"), "--fallback", "host", "--json", str(tmp_path / "r.json"), "--quiet"]
    outcome = CliRunner().invoke(app, [*command, "--no-advice"])
    assert outcome.exit_code == 0, outcome.output
    rows = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["operations"]
    assert any(row["name"] == name and row["bound"] == "host" for row in rows)


@pytest.mark.parametrize("name", ["fft+x", "fft.x", "fft.scores", "fft"])
def test_what_passes_made_of_an_operation_is_the_operation(name: str) -> None:
    graph = attention(name)
    with pytest.raises(ts.Unsupported, match="fallback='host'") as refused:
        ts.compile(graph, "gemmini-16")  # its arrays multiply i8
    assert (refused.value.operation, refused.value.lack) == (name, "dtype")
    program = ts.compile(graph, "gemmini-16", fallback="host")
    lacking = [row["operation"] for row in program.placement.rows if row["machine_picoseconds"] is None]
    assert lacking == [name]
    found, wanted = ts.execute(program, seed=2), ts.reference(graph, seed=2)
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-5, atol=1e-5)


def test_an_operation_in_a_body_takes_its_loop_along() -> None:
    """What is refused is in a function whose name tells nothing of the loop; a function that is called is opened."""
    b = ts.GraphBuilder("loops")
    x = b.input("x", (8, 8))
    more, step = b.function("more"), b.function("body of it")
    more.output(more.apply("less", more.input("i", (), "i32"), more.scalar(3, "i32")), "on")
    more.input("x", (8, 8))
    i, state = step.input("i", (), "i32"), step.input("x", (8, 8))
    ordered_rows, _ = by_size(step, state, "sort+x", 1)
    step.output(i + 1, "i.next")
    step.output(ordered_rows, "x.next")
    found = b.core.op("while", [b.scalar(0, "i32").value, x.value], {}, "loop+3", 2, ["more", "body of it"])
    b.output(b.matmul(ts.graph.Tensor(b, found[1]), x, name="mm"), "y")
    graph = b.build()
    with pytest.raises(ts.Unsupported) as refused:
        ts.compile(graph)
    assert (refused.value.function, refused.value.operation) == ("body of it", "sort+x")
    exact = ts.Machine.load("tpu-v3").replace({"core.array.multiply": "as stored"})
    program = ts.compile(graph, exact, fallback="host")
    assert "loop+3" in on_host(program)
    found_values, wanted = ts.execute(program, seed=1), ts.reference(graph, seed=1)
    np.testing.assert_allclose(found_values["y"], wanted["y"], rtol=1e-4, atol=1e-4 * np.abs(wanted["y"]).max())


@pytest.mark.parametrize("how", ["forced", "devices"])
def test_the_advice_is_none_that_was_taken(how: str) -> None:
    if how == "forced":
        graph = ordered("fft+x")
        with pytest.raises(ts.Unsupported, match=r"Remove 'fft\+x' from place") as refused:
            ts.compile(graph, fallback="host", place={"fft+x": "machine"})
        assert "fallback" not in str(refused.value)
    else:
        b = ts.GraphBuilder("devices")
        x = b.input("x", (8, 8))
        b.output(b.op("all_reduce", x, name="sum+all", combiner="add", groups=[0, 1], group_size=2), "y")
        with pytest.raises(ts.Unsupported, match="untimed") as refused:
            ts.compile(b.build(), fallback="host")
        assert "fallback" not in str(refused.value) and refused.value.lack == "devices"
        assert refused.value.operation == "sum+all"
