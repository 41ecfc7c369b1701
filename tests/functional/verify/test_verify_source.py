"""verify(against="source"): what was compiled against the graph as it was imported, before passes changed it."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
from support import pattern_mutants, patterns
from tilesim.cli.main import app
from tilesim.program.program import Program


def rows_of(outcome: Any) -> list[dict[str, Any]]:
    return [row for row in outcome.rows if row["operation"] == "source"]


@pytest.mark.parametrize("name", ["gelu by erf", "attention", "rms norm of bf16", "three layers", "grouped heads"])
def test_recognised_patterns_have_the_values_of_their_source(name: str) -> None:
    graph, _ = patterns.built(name)
    plain = graph.copy()
    assert graph.source is graph
    assert ts.optimize(graph)
    assert graph.source == plain and graph.copy().source == plain
    ts.optimize(graph)
    assert graph.source == plain  # not what the first pass made
    program = ts.compile(graph, "tpu-v3")
    outcome = ts.verify(program, against="source")
    assert outcome.ok and [row["tensor"] for row in rows_of(outcome)] == [row["name"] for row in graph.outputs]
    assert len(outcome.rows) == len(ts.verify(program).rows) + len(graph.outputs)


def test_products_of_integers_have_the_values_of_their_source() -> None:
    """`compile` itself runs that pass where arrays multiply i8."""
    program = ts.compile(pattern_mutants.plain("product of integers"), "edge-8")
    assert program.graph is not None and program.graph.changes.counts() == {"integer_products": 1}
    outcome = ts.verify(program, against="source")
    assert outcome.ok and rows_of(outcome)[0]["scale"] > 0


def wrongly_recognised() -> ts.Graph:
    """A clamp to [0, 4] of which a pass is said to have made relu."""
    wrong, right = ts.GraphBuilder("wrong"), ts.GraphBuilder("right")
    wrong.output(wrong.apply("relu", wrong.input("x", [4, 8])), "y")
    x = right.input("x", [4, 8])
    right.output(right.apply("clamp", right.scalar(0), x, right.scalar(4)), "y")
    graph = wrong.build()
    graph.set_source(right.build())
    return graph


def test_a_wrong_pass_shows() -> None:
    program = ts.compile(wrongly_recognised(), "tpu-v3")
    small, large = np.full((4, 8), 3, np.float32), np.full((4, 8), 3, np.float32)
    large[1, 2] = 7
    assert ts.verify(program, [small], against="source").ok
    assert ts.verify(program, [large]).ok  # the reference is what was compiled
    outcome = ts.verify(program, [large], against="source")
    (row,) = rows_of(outcome)
    assert not outcome.ok and row["worst"] == 10 and row["error"] == 3 and row["scale"] == 4
    large[1, 2] = np.nan
    assert ts.verify(program, [large], against="source").ok  # both keep it
    large[1, 2] = np.inf
    assert rows_of(ts.verify(program, [large], against="source"))[0]["ratio"] == np.inf


def test_an_unknown_source_is_an_error(tmp_path: Any) -> None:
    graph, _ = patterns.built("gelu by erf")
    plain = ts.compile(graph.copy(), "tpu-v3")
    ts.optimize(graph)
    program = ts.compile(graph, "tpu-v3")
    for name, made in (("made.tsim", program), ("plain.tsim", plain)):
        made.save(tmp_path / name)
    saved = Program.load(tmp_path / "made.tsim")
    assert saved.graph is not None and saved.graph.source is None and ts.verify(saved).ok
    with pytest.raises(ts.UserError, match="has no imported graph"):
        ts.verify(saved, against="source")
    assert ts.verify(Program.load(tmp_path / "plain.tsim"), against="source").ok  # no pass changed it
    again = pickle.loads(pickle.dumps(graph))
    assert again.source == graph.source
    with pytest.raises(ts.UserError, match="reference, source"):
        ts.verify(program, against="sauce")


def test_on_the_command_line() -> None:
    run = CliRunner().invoke(app, ["run", "matmul:8,8,8", "--verify", "--verify-against", "source", "--quiet"])
    assert run.exit_code == 0 and "source" in run.output
    alone = CliRunner().invoke(app, ["run", "matmul:8,8,8", "--verify-against", "source"])
    assert alone.exit_code != 0


@pytest.mark.parametrize("exact", [True, False])
def test_rows_of_the_source_stand_in_one_table(exact: bool) -> None:
    """Text, HTML and pandas need rows of equal keys in one order."""
    outcome = ts.verify(ts.compile(ts.workloads.softmax(3, 5), "edge-8"), against="source", exact=exact)
    assert "source" in str(outcome) and {tuple(row) for row in outcome.rows} == {tuple(outcome.rows[0])}
    assert outcome.table()._repr_html_().count("<tr>") == len(outcome.rows) + 1
