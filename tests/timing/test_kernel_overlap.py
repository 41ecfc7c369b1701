"""Kernels without a barrier overlap as far as bytes and counters allow."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core

TEXT = Path(__file__).resolve().parents[1] / "programs" / "gemm_double_buffered.json"
MACHINE = {"core.dma.load_queues": 2}


def two_kernels(apart: bool, barrier: bool) -> dict[str, Any]:
    """The double-buffered product twice, as two scopes: on bytes of their own or on the same ones."""
    base = json.loads(TEXT.read_text(encoding="utf-8"))
    document = {key: base[key] for key in ("schema", "version", "parameters")}
    document["name"] = "two kernels"
    document["tensors"] = [t for t in base["tensors"] if t["role"] != "output"]
    (output,) = [t for t in base["tensors"] if t["role"] == "output"]
    document["do"] = []
    for index, name in enumerate(("C", "D")):
        document["tensors"].append({**output, "name": name})
        body = json.loads(json.dumps(base["do"]).replace('"tensor": "C"', f'"tensor": "{name}"'))
        slots = copy.deepcopy(base["slots"])
        for slot in slots:
            slot["address"] += index * 65536 if apart else 0
        document["do"].append(
            {"scope": f"product {name}", "operation": name, "barrier": barrier, "slots": slots, "do": body}
        )
    return document


def simulate(apart: bool, barrier: bool) -> ts.Result:
    core = _core.Program.from_json(json.dumps(two_kernels(apart, barrier)))
    core.check()
    return ts.simulate(ts.Program(core), ts.Machine.load("tpu-v3").replace(MACHINE))


def test_bytes_of_their_own_allow_overlap() -> None:
    apart, together, barrier = simulate(True, False), simulate(False, False), simulate(True, True)
    assert apart.cycles < together.cycles <= barrier.cycles


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("barrier", [True, False])
def test_exclusive_times_add_up(apart: bool, barrier: bool) -> None:
    result = simulate(apart, barrier)
    assert sum(row["exclusive"] for row in result.data["operations"]) == result.cycles
    for row in result.data["operations"]:
        assert row["start"] < row["finish"] and row["cycles"] <= result.cycles


@pytest.mark.parametrize("apart", [True, False])
def test_every_order_gives_the_same_bits(apart: bool) -> None:
    program = _core.Program.from_json(json.dumps(two_kernels(apart, barrier=False)))
    rng = np.random.default_rng(3)
    inputs = {
        "A": rng.standard_normal((70, 90)).astype(np.float32),
        "B": rng.standard_normal((90, 50)).astype(np.float32),
    }
    wanted = _core.execute(program, inputs, find_races=True)
    np.testing.assert_allclose(wanted["D"], inputs["A"] @ inputs["B"], rtol=0, atol=1e-4)
    for order, seed in [("early_loads", 0), *(("random", seed) for seed in range(12))]:
        outputs = _core.execute(program, inputs, order=order, seed=seed)
        assert all(outputs[key].tobytes() == array.tobytes() for key, array in wanted.items())
