"""What whole networks showed: names of formals that are others' too, and several groups refused for one value."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
def test_a_formal_may_be_named_as_a_tensor_of_the_caller(machine: str) -> None:
    """T5: the function "block" takes "weight", and the first layer's weight is "block.weight"."""
    b = ts.GraphBuilder("shared", dtype="f32")
    block = b.function("block")
    x, weight = block.input("x", (24, 40)), block.input("weight", (40, 40))
    block.output(block.apply("tanh", block.op("contract", x, weight, a_contract=[1], b_contract=[0])), "y")
    first, second = b.input("block.weight", (40, 40)), b.input("block.x", (40, 40))
    y = b.call(block, b.input("x", (24, 40)), first, name="one")
    b.output(b.call(block, y, second, name="two"), "y")
    graph = b.build()
    r = np.random.default_rng(0)
    values = {name: r.standard_normal(shape).astype(np.float32) for name, shape in
              {"x": (24, 40), "block.weight": (40, 40), "block.x": (40, 40)}.items()}  # fmt: skip
    wanted = np.tanh(np.tanh(values["x"] @ values["block.weight"]) @ values["block.x"])
    for residency in ("none", "auto"):
        program = ts.compile(graph, machine, lowering="best", residency=residency)
        got = ts.execute(program, values, numerics="exact", poison=True)["y"]
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
        assert ts.simulate(program).cycles > 0


def test_groups_that_are_refused_for_the_same_value_are_taken_apart_together() -> None:
    """Of one token, a normalization that each of Q, K and V would compute again is dearer than a kernel of its own."""
    graph = ts.models.build("llama-3-8b", phase="decode", sequence=4096)
    program = ts.compile(graph, "tpu-v3", lowering="best")
    refused = [note for note in program.notes if "its parts run one by one" in note]
    assert refused and len(set(refused)) == len(refused)
    kept = [
        row for row in program.fusion.table().rows if row["decision"] == "not worth it" and row["rule"] == "prologue"
    ]
    assert kept and all("estimated to take" in row["reason"] for row in kept)
