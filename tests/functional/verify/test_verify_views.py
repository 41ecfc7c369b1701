"""Verification on exact values where one value is another's bits or elements: right programs pass, wrong ones fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core

Build = Callable[[ts.GraphBuilder, Any], Any]


def bits(b: ts.GraphBuilder, x: Any) -> Any:
    return b.op("bitcast", x, dtype="i32")


def two(b: ts.GraphBuilder, x: Any) -> Any:
    return b.apply("add", x, x)


VIEWS: dict[str, Build] = {
    "reshape": lambda b, x: b.op("reshape", x, shape=[1, 35]),
    "transpose": lambda b, x: b.op("transpose", x, permutation=[1, 0]),
    "slice": lambda b, x: b.op("slice", x, start=[1, 0], limit=[4, 7]),
    "one element": lambda b, x: b.op("slice", x, start=[4, 6], limit=[5, 7]),
    "reverse": lambda b, x: b.op("reverse", x, dims=[0]),
    "bits": bits,
    "bits, turned": lambda b, x: b.op("transpose", bits(b, x), permutation=[1, 0]),
    "bits, there and back": lambda b, x: b.op("bitcast", two(b, bits(b, x)), dtype="f32"),
    "slice of a transpose": lambda b, x: b.op(
        "slice", b.op("transpose", x, permutation=[1, 0]), start=[2, 1], limit=[4, 5]
    ),
}
VIEWS["part of a concat"] = lambda b, x: b.op("concat", x, x * x, dim=0)
SOURCES: dict[str, Build] = {
    "input": lambda b, x: x,
    "stored": two,
    "rounded": lambda b, x: b.apply("exp", x),
    "weight": lambda b, x: b.weight("w", [5, 7]),
}


def program(view: str, source: str, output: bool, machine: str) -> ts.Program:
    """A view that other operations read; `output`: the graph gives it too."""
    b = ts.GraphBuilder("views")
    x = b.input("x", [5, 7])
    origin = SOURCES[source](b, x)
    seen = VIEWS[view](b, origin)
    b.output(two(b, seen), "doubled")
    b.output(two(b, origin), "other")
    if output:
        b.output(seen, "seen")
    if output and source == "rounded":
        b.output(origin, "origin")
    return ts.compile(b.build(), machine)


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("view", VIEWS)
def test_right_programs_with_views_pass(view: str, source: str, machine: str) -> None:
    for output in (False, True):
        outcome = ts.verify(program(view, source, output, machine), against="source")
        assert outcome.ok, (output, outcome)
        assert "seen" in {row["tensor"] for row in outcome.rows} or not output


def replaced(node: Any, old: str, new: str) -> int:
    """Replaces a function of the vector unit everywhere; how often."""
    if isinstance(node, list):
        return sum(replaced(each, old, new) for each in node)
    if not isinstance(node, dict):
        return 0
    own = node.get("function") == old
    if own:
        node["function"] = new
    return own + sum(replaced(each, old, new) for each in node.values())


@pytest.mark.parametrize("view", ["reshape", "bits", "bits, turned", "slice of a transpose"])
def test_wrong_programs_with_views_fail(view: str) -> None:
    right = program(view, "stored", True, "edge-8")
    document = json.loads(right.core.to_json())
    assert replaced(document, "add", "maximum") > 0
    wrong = ts.Program(_core.Program.from_json(json.dumps(document)), right.graph, right.machine)
    failed = {row["tensor"] for row in ts.verify(wrong).rows if not row["ok"]}
    assert {"doubled", "other"} <= failed


def test_tensors_of_another_size_fail() -> None:
    """What cannot be compared element by element is not left out."""
    right = ts.compile(ts.workloads.softmax(6, 10), "edge-8")
    document = json.loads(right.core.to_json())
    (output,) = [tensor for tensor in document["tensors"] if tensor["role"] == "output"]
    output["shape"][1] += 1
    wrong = ts.Program(_core.Program.from_json(json.dumps(document)), right.graph, right.machine)
    (row,) = [row for row in ts.verify(wrong).rows if row["tensor"] == output["name"]]
    assert not row["ok"] and row["ratio"] == float("inf")
