"""Ports of cores that several transfers share: who waits for whom, and that no core passes what others could."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.mapping import Product, kernels

PORT, CORES = 64, 16  # of mesh-16: bytes per cycle and core


def sends_to(last: int, folder: Path) -> ts.Program:
    """Core 0 sends a tile to core 1, then to core 2; core 3, a little later, one to core `last`."""
    elements, few = 8192, 1024
    dims = [{"extent": elements, "axis": 0, "stride": 1}]

    def load(slot: str, count: int) -> list[dict[str, Any]]:
        return [
            {"acquire": slot, "queues": ["load0"]},
            {
                "load": {"tensor": "A", "at": [0], "dims": [{**dims[0], "extent": count}], "slot": slot},
                "queue": "load0",
            },
            {"commit": slot, "queue": "load0"},
            {"wait": slot, "queue": "send"},
        ]

    def send(slot: str, core: int) -> dict[str, Any]:
        view = [[elements, 1]]
        body = {"from": {"slot": "s", "dims": view}, "slot": slot, "dims": view, "cores": [core]}
        return {"send": body, "queue": "send"}

    def take(slot: str, core: int) -> dict[str, Any]:
        taken = [{"receive": slot}, {"wait": slot, "queue": "vector"}, {"release": slot, "queue": "vector"}]
        return {"if": f"core == {core}", "then": taken}

    release = [{"release": "s", "queue": "send"}]
    late = [*load("few", few), {"release": "few", "queue": "send"}]
    slots = [("s", elements, "send"), ("few", few, "send"), ("y", elements, "vector"), ("z", elements, "vector")]
    text = {
        "schema": "tilesim.program",
        "version": 1,
        "name": "sends",
        "cores": 5,
        "tensors": [{"name": "A", "dtype": "f32", "shape": [elements], "role": "input"}],
        "slots": [
            {"name": name, "dtype": "f32", "elements": size, "depth": 1, "address": 65536 * i, "consumers": [consumer]}
            for i, (name, size, consumer) in enumerate(slots)
        ],
        "do": [
            {"if": "core == 0", "then": [*load("s", elements), send("y", 1), send("y", 2), *release]},
            {"if": "core == 3", "then": [*load("s", elements), *late, send("z", last), *release]},
            *(take("y", core) for core in (1, 2)),
            take("z", last),
        ],
    }
    path = folder / f"sends_{last}.json"
    path.write_text(json.dumps(text), encoding="utf-8")
    return ts.Program.load(path)


def test_a_tile_that_waits_at_its_source_leaves_the_destination_free(tmp_path: Path) -> None:
    """What core 3 sends to core 2 passes while core 0's second tile waits for the first: as fast as to an idle core."""
    near, idle = (ts.simulate(sends_to(core, tmp_path), "mesh-16") for core in (2, 4))
    assert near.cycles == idle.cycles
    assert near.cycles >= 3 * 8192 * 4 / PORT  # core 0: in, and out twice


def test_a_full_port_passes_no_more_than_its_rate(tmp_path: Path) -> None:
    for core in (1, 2, 4):
        result = ts.simulate(sends_to(core, tmp_path), "mesh-16")
        assert result.cycles >= 3 * 8192 * 4 / PORT


def alone(m: int, n: int, k: int, dtype: str = "f32") -> tuple[ts.Program, ts.Result]:
    program = ts.compile(ts.workloads.matmul(m, n, k, dtype=dtype), "mesh-16", lowering="best")
    return program, ts.simulate(program)


@pytest.mark.parametrize(("m", "n", "k"), [(128, 768, 768), (100, 1024, 768), (197, 2304, 768)])
def test_several_cores_fetch_for_all_in_turn(m: int, n: int, k: int) -> None:
    """All cores need the first operand. One that fetched it for all would pass it twice, and its part of the rest."""
    program, result = alone(m, n, k)
    one = 4 * (2 * m * k + k * n / CORES + m * n / CORES) / PORT
    memory = 4 * (m * k + k * n + m * n) / (512 * 0.9)
    arrays = m * -(-n // CORES // 64) * 64 * k / (64 * 64 * 0.25)
    assert result.cycles < max(one, 1.35 * memory, 1.35 * arrays)
    sent = [float(row["send_bytes"]) for row in result.cores().rows]
    assert sum(sent) > 0 and max(sent) <= 4 * m * k / 2 and sum(1 for bytes_ in sent if bytes_) >= 2
    assert ts.verify(program).ok


@pytest.mark.parametrize("seed", range(4))
def test_turns_share_what_is_sent(seed: int) -> None:
    """With tiles in two buffers or more, no core sends all of a part that several need."""
    rng = random.Random(seed)
    m, n, k = (rng.choice([96, 130, 256, 512, 770, 1024]) for _ in range(3))
    dtype = rng.choice(["f32", "bf16"])
    graph = ts.workloads.matmul(m, n, k, dtype=dtype)
    found = kernels(graph, ts.Machine.load("mesh-16"), mapping="cost")[0]
    assert isinstance(found, Product)
    program = ts.compile(graph, "mesh-16", mapping="cost")
    sent = [float(row["send_bytes"]) for row in ts.simulate(program).cores().rows]
    cost = found.cost(found.nest)
    several = [i for i in (0, 1) if found.nest["depths"][i] % 2 == 0 and cost["transfers"][i] >= 4]
    if len(several) == 2:
        assert max(sent) <= 0.75 * max(cost["bytes"][:2])
    assert ts.verify(program).ok


def test_columns_of_half_an_array_are_for_cores_that_ports_limit() -> None:
    """768 columns are twelve arrays wide: 16 cores take 48 each, since their ports need longer than their arrays."""
    _, result = alone(128, 768, 768)
    assert sum(float(row["multiply_adds"]) > 0 for row in result.cores().rows) > 12


@pytest.mark.parametrize(("m", "n", "k"), [(512, 768, 3072), (640, 768, 2304)])
def test_a_contraction_that_arrays_limit_stays_whole(m: int, n: int, k: int) -> None:
    """Arrays multiply f32 at a quarter of their rate: there is nothing to gain from parts of it, whose sums are added
    in another kernel."""
    _, result = alone(m, n, k)
    assert len(result.table().rows) == 1
    assert result.cycles < 1.25 * m * n * k / CORES / (64 * 64 * 0.25)


@pytest.mark.parametrize(("m", "n", "k"), [(512, 768, 768), (128, 3072, 768), (256, 512, 1024)])
def test_values_that_cores_hold_for_each_other_cost_little_time(m: int, n: int, k: int) -> None:
    """A chain of two products: its middle stays only where holders that many ask at one time are not what it waits
    for."""
    rng = random.Random(m)
    b = ts.GraphBuilder("chain")
    x = b.input("x", [m, k])
    h = b.apply("relu", b.matmul(x, b.weight("v", [k, n])))
    b.output(b.matmul(h, b.weight("w", [n, rng.choice([512, 768])])), "y")
    graph = b.build()
    stays, none = (
        ts.simulate(ts.compile(graph, "mesh-16", lowering="best", residency=way)) for way in ("auto", "none")
    )
    assert stays.memory_bytes <= none.memory_bytes
    assert stays.cycles <= 1.15 * none.cycles
