"""Verification operation by operation: bounds that hold, bounds that mean something, faults found where they are."""

from __future__ import annotations

import functools
import json
import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import statements
from tilesim import _core
from tilesim.models.transformer import BERT_BASE, bert

MODELS = {
    "mlp": lambda: ts.models.mlp(),
    "resnet18": lambda: ts.models.resnet18(image=64),
    "bert": lambda: bert(replace(BERT_BASE, layers=3, width=192, heads=3), sequence=8),
}


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
@pytest.mark.parametrize("model", MODELS)
def test_networks(model: str, machine: str) -> None:
    """Every stored tensor lies within a finite bound, also those inside called functions."""
    outcome = ts.verify(ts.compile(MODELS[model](), machine))
    assert outcome.ok, outcome
    assert all(math.isfinite(row["bound"]) for row in outcome.rows)
    if model == "bert":
        layers = [row for row in outcome.rows if row["tensor"] == "layer.intermediate.gelu"]
        assert len(layers) == 3
    # Bounds are small beside the tensors: a lost tile could not hide.
    assert all(row["bound"] <= 0.05 * row["scale"] for row in outcome.rows if row["error"] > 0)


def altered(program: ts.Program, change: Any) -> ts.Program:
    document = json.loads(program.core.to_json())
    change(document)
    return ts.Program(_core.Program.from_json(json.dumps(document)), program.graph, program.machine)


def absolute(document: dict[str, Any]) -> None:
    """A relu computes |x|."""
    for statement in statements(document["do"]):
        for node in statement.get("vector", {}).get("nodes", []):
            if node.get("function") == "relu":
                node["function"] = "abs"


def test_run_verifies_where_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that computes something else is no result where `run` is to verify, and one where it is not."""
    module = sys.modules["tilesim.timing.simulate"]
    compiled = ts.compile

    @functools.wraps(compiled)
    def wrong(*args: Any, **options: Any) -> ts.Program:
        return altered(compiled(*args, **options), absolute)

    b = ts.GraphBuilder("small")
    b.output(b.apply("relu", b.input("x", [64, 64])))
    graph = b.build()
    assert ts.run(graph, machine="edge-8", verify=True).cycles > 0
    monkeypatch.setattr(module, "compile", wrong)
    assert ts.run(graph, machine="edge-8").cycles > 0
    with pytest.raises(ts.UserError, match="differs from the reference"):
        ts.run(graph, machine="edge-8", verify=True)


def test_a_fault_is_found_where_it_is() -> None:
    """One kernel computes something else: its row fails, and no other."""
    program = ts.compile(ts.models.mlp(), "tpu-v3")
    assert ts.verify(program).ok

    def change(document: dict[str, Any]) -> None:
        scopes = [s for s in statements(document["do"]) if any("relu" in name for name in s.get("operation", []))]
        for statement in statements(scopes[1]["do"]):
            for node in statement.get("vector", {}).get("nodes", []):
                if node.get("function") == "relu":
                    node["function"] = "abs"
                    return
        raise AssertionError("no relu found")

    outcome = ts.verify(altered(program, change))
    assert [row["operation"] for row in outcome.rows if not row["ok"]] == ["layers.1+layers.1.relu"]


def test_a_lost_tile_of_a_sum_is_found() -> None:
    """A product that stops one step short of its contracted dimension is out of its bound."""
    graph = ts.workloads.matmul(64, 64, 4096)
    program = ts.compile(graph, "edge-8")

    def change(document: dict[str, Any]) -> None:
        (loop,) = [s for s in statements(document["do"]) if s.get("for") == "i_k"]
        loop["extent"] -= 1

    try:
        outcome = ts.verify(altered(program, change))
    except ts.UserError:
        return  # the last tile's commit is missing: reported as such
    assert not outcome.ok


def test_integers_are_equal() -> None:
    outcome = ts.verify(ts.compile(ts.workloads.matmul(40, 30, 50, dtype="i8"), "gemmini-16"))
    assert outcome.ok and all(row["error"] == 0 for row in outcome.rows)


def test_products_are_exact_on_one_hot_operands() -> None:
    """A loose bound cannot hide here: every product picks one element."""
    graph = ts.workloads.matmul(96, 80, 200)
    program = ts.compile(graph, "edge-8")
    rng = np.random.default_rng(5)
    a = np.zeros((96, 200), np.float32)
    a[np.arange(96), rng.integers(0, 200, 96)] = 1
    b = rng.integers(-100, 100, (200, 80)).astype(np.float32)
    names = [row["name"] for row in graph.core.inputs]
    outputs = ts.execute(program, dict(zip(names, (a, b), strict=True)))
    np.testing.assert_array_equal(next(iter(outputs.values())), a @ b)
