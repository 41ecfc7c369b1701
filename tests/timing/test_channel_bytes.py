"""Bytes of the memory channels follow from the bytes that were asked for."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts

ROOT = Path(__file__).resolve().parents[2]


def random_graph(pick: random.Random) -> ts.Graph:
    """Odd extents, so that rows begin anywhere in a burst."""
    b = ts.GraphBuilder("random", dtype=pick.choice(("bf16", "f32")))
    rows, columns = pick.randint(1, 90), pick.randint(1, 150)
    x = b.input("x", [rows, columns])
    for i in range(pick.randint(1, 3)):
        kind = pick.choice(("linear", "softmax", "transpose", "slice", "function", "pad"))
        if kind == "linear":
            x = b.linear(x, pick.randint(1, 120), name=f"linear{i}")
        elif kind == "softmax":
            x = b.op("softmax", x, dim=1)
        elif kind == "transpose":
            x = b.op("transpose", x, permutation=[1, 0])
        elif kind == "slice" and min(x.shape) > 2:
            x = b.op("slice", x, start=[1, 1], limit=[n - 1 for n in x.shape], stride=[1, 1])
        elif kind == "pad":
            x = b.op("pad", x, low=[0, 3], high=[1, 0], interior=[0, 0])
        else:
            x = b.apply("gelu_erf", x)
    b.output(x, "y")
    return b.build()


MEMORIES = ("ideal", "simple", "bank")
NETWORKS = ("simple", "mesh", "crossbar")


def balanced(result: ts.Result) -> None:
    parts = result.channel_bytes
    assert parts["moved"] == parts["asked"] + parts["padding"] - parts["merged"] - parts["forwarded"]
    assert min(parts.values()) >= 0


@pytest.mark.parametrize("seed", range(10))
def test_bytes_are_conserved(seed: int) -> None:
    pick = random.Random(seed)
    graph = random_graph(pick)
    for name in pick.sample(["tpu-v3", "edge-8", "mesh-16", "chiplet-2", "tpu-v4"], 2):
        program = ts.compile(graph, name)
        for memory in MEMORIES:
            machine = program.machine
            if memory == "bank" and not machine.get("memory.part"):
                machine = machine.replace({"memory.part": "HBM2-2000"})
            for network in pick.sample(NETWORKS, 2):
                try:
                    result = ts.simulate(program, machine, memory=memory, network=network)
                except ts.UserError as error:  # a network that does not fit, bursts that are no multiple of the part's
                    assert "burst" in str(error) or "network" in str(error) or "node" in str(error), error
                    continue
                balanced(result)
                parts = result.channel_bytes
                assert memory == "bank" or parts["merged"] == parts["forwarded"] == 0
                assert network != "simple" or memory == "bank" or parts["padding"] == 0


@pytest.mark.parametrize("network", ["simple", "mesh"])
def test_commands_are_the_bytes(network: str) -> None:
    """Column commands of all banks, each of a burst, and bursts that are paid for are the bytes of the channels."""
    machine = ts.Machine.load("mesh-16").replace({"memory.part": "HBM2-2000"})
    burst = json.loads((ROOT / "configs/dram/HBM2-2000.json").read_text())["burst_bytes"]
    for graph in (ts.workloads.softmax(64, 200), ts.workloads.matmul(100, 70, 60, dtype="bf16")):
        result = ts.simulate(ts.compile(graph, machine), memory="bank", network=network)
        balanced(result)
        banks = result.data["memory"]["banks"]
        assert result.channel_bytes["moved"] == burst * sum(bank[1] for row in banks for bank in row)


def test_with_a_cache() -> None:
    machine = ts.Machine.load("tpu-v3").replace(
        {"memory.cache.sets": 64, "memory.cache.ways": 4, "memory.cache.managed": "hardware"}
    )
    for memory in ("simple", "bank"):
        balanced(ts.simulate(ts.compile(ts.workloads.softmax(64, 200), machine), memory=memory))


def test_results_keep_them(tmp_path: Any) -> None:
    program = ts.compile(ts.workloads.matmul(61, 67, 59, dtype="bf16"), "tpu-v3")
    result = ts.simulate(program, memory="bank")
    result.save(tmp_path / "result.json")
    assert ts.Result.load(tmp_path / "result.json").channel_bytes == result.channel_bytes
