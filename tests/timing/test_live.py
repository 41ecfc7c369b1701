"""Level "live": kernels together in the engine, against each kernel alone, bounds of units by hand, and
what must make no difference. The eight hand-written programs at three levels."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
from support.hand_programs import CASES, FOLDER, load
from tilesim import _core
from tilesim.cli.main import app

#: arrays' rows a cycle in f32, as the machines' files say, and cells
RATES = {"tpu-v3": (1, 128 * 128), "edge-8": (0.5, 8 * 8)}
MACHINE = {"core.count": 2, "core.dma.load_queues": 2, "memory.burst_bytes": "2 B", "layout.tile": []}


def product(m: int, n: int, k: int, dtype: str = "f32") -> ts.Graph:
    b = ts.GraphBuilder("product", dtype=dtype)
    b.output(b.matmul(b.input("x", (m, k)), b.input("w", (k, n)), name="product"), "y")
    return b.build()


def softmax(rows: int, width: int) -> ts.Graph:
    b = ts.GraphBuilder("net", dtype="f32")
    b.output(b.op("softmax", b.input("x", (rows, width)), dim=1), "y")
    return b.build()


def live(program: ts.Program, **options: Any) -> ts.Result:
    return ts.simulate(program, level="live", **options)


@pytest.mark.parametrize(
    ("machine", "graph"),
    [
        ("edge-8", product(8, 8, 8)),
        ("edge-8", product(64, 64, 64)),
        ("edge-8", product(33, 20, 17)),
        ("mesh-16", product(64, 64, 64)),
        ("edge-8", softmax(7, 90)),
        ("tpu-v3", softmax(64, 200)),
    ],
)
def test_what_never_overlaps_takes_its_kernels_alone(machine: str, graph: ts.Graph) -> None:
    """One kernel, or kernels whose queue is over before the next begins: both levels start them at the same cycles."""
    program = ts.compile(graph, machine)
    store = ts.TileLatencies(source="instruction")
    alone = ts.simulate(program, level="instruction", latencies=store)
    found = live(program)
    count = sum(row["count"] for row in found.data["live"]["computes"])
    assert count == sum(store.last_counts.values())
    if count == 1:
        assert found.cycles == alone.cycles
    # where one follows the other, it begins when the front end is through: within what emptying the pipes takes
    done = max(entry["done"] - entry["busy"] for entry in store.table(machine))
    assert abs(found.cycles - alone.cycles) <= (done + 8) * count


def test_bounds_of_arrays() -> None:
    for machine, (rate, cells) in RATES.items():
        result = live(ts.compile(product(256, 256, 256), machine))
        arrays = [unit for unit in result.data["units"] if unit["kind"] == "array"]
        assert arrays and result.cycles >= 256**3 / cells / rate / len(arrays)
        for unit in result.data["units"]:
            assert sum(unit["cycles"].values()) == result.cycles


def test_results_say_what_was_modelled() -> None:
    program = ts.compile(softmax(16, 64), "edge-8")
    result = live(program)
    said = " ".join(result.approximations)
    assert "side by side" in said and "scratchpad banks are not modelled" in said and "closed forms for" not in said
    assert result.data["fidelity"]["tile latency"] == "live"
    b = ts.GraphBuilder("sorted", dtype="f32")
    b.output(b.op("sort", b.input("x", (16, 32)), dim=1), "y")
    program = ts.compile(b.build(), "edge-8")
    without = [row for row in live(program).data["live"]["computes"] if "closed_form" in row]
    said = " ".join(live(program).approximations)
    assert bool(without) == ("closed forms for" in said)
    restored = ts.Result.from_json(json.dumps(result.data)) if hasattr(ts.Result, "from_json") else result
    assert restored.cycles == result.cycles


def test_what_must_make_no_difference() -> None:
    """Order of insertion, a statistic that does nothing, a second run in the same process."""
    program = ts.compile(ts.models.mlp(batch=64, sizes=(96, 160, 64), dtype="bf16"), "tpu-v3")
    machine = program.machine
    assert machine is not None
    cycles = live(program).cycles
    assert live(program).cycles == cycles
    hashes = set()
    for seed, extra in ((1, False), (7, True), (123, False)):
        found = _core.simulate(program.core, machine.core, shuffle_seed=seed, extra_statistic=extra, live=True)
        hashes.add(json.dumps(found.data()["units"]))
        assert found.data()["cycles"] == cycles
    assert len(hashes) == 1


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
def test_more_ports_are_never_slower(machine: str) -> None:
    for graph in (product(128, 128, 128, "bf16"), softmax(96, 160), ts.models.mlp(batch=32, sizes=(96, 64))):
        program = ts.compile(graph, machine)
        one = ts.Machine.load(machine)
        two, four = (one.replace({"core.isa.loads": n, "core.isa.stores": n}) for n in (2, 4))
        cycles = [ts.simulate(program, of, level="live").cycles for of in (one, two, four)]
        assert cycles == sorted(cycles, reverse=True)


def test_timelines_show_pipes() -> None:
    """Intervals of a unit lie one behind the other within the run; a load port is held as long as its beats take."""
    program = ts.compile(product(64, 64, 64), "edge-8")
    result = live(program, timeline=True)
    names = [unit["unit"] for unit in result.data["units"]]
    assert "core0.pipe.load0" in names and "core0.pipe.arithmetic0" in names
    by_unit: dict[int, list[tuple[int, int]]] = {}
    for unit, _, start, finish in result.data["intervals"]:
        by_unit.setdefault(unit, []).append((start, finish))
    for spans in by_unit.values():
        spans.sort()
        assert spans[0][0] >= 0 and spans[-1][1] <= result.cycles
        assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))
    (port,) = (unit for unit in result.data["units"] if unit["unit"] == "core0.pipe.load0")
    assert names.index("core0.pipe.load0") in by_unit
    # a register of 128 B a beat: weights and rows of all eight products of 64 by 8, and sums of 7 in 8 depths
    rows, weights, sums = 8 * 8 * 64 * 8 * 4, 64 * 64 * 4, 7 * 64 * 64 * 4
    assert port["cycles"]["busy"] >= (rows + weights + sums) / 128


def test_jobs_share_a_core() -> None:
    """Two contexts of one core: no sooner than the longer alone, no later than one after the other."""
    machine = ts.Machine.load("edge-8").replace({"core.contexts": 2})
    jobs = [ts.compile(graph, machine) for graph in (product(32, 32, 32), softmax(16, 64))]
    alone = [ts.simulate(job, machine, level="live").cycles for job in jobs]
    both = ts.simulate([ts.Job(job, cores=[0]) for job in jobs], machine, level="live").cycles
    assert max(alone) <= both <= sum(alone) + 1


def test_levels_side_by_side(tmp_path: Any) -> None:
    program = ts.compile(ts.models.mlp(batch=64, sizes=(96, 160, 64), dtype="bf16"), "edge-8")
    both = ts.levels(program, live=True)
    assert list(both.cycles) == ["tile", "instruction", "live"]
    assert both.cycles["live"] == live(program).cycles
    assert not both.equal and "live" in repr(both)
    assert all(row["live"] > 0 for row in both.rows) and sum(row["live"] for row in both.rows) == both.cycles["live"]
    assert all(row["live"] > 0 for row in both.computes)
    path = tmp_path / "levels.json"
    done = CliRunner().invoke(app, ["levels", "matmul:64,64,64", "--machine", "edge-8", "--live", "--json", str(path)])
    assert done.exit_code == 0, done.output
    told = json.loads(path.read_text(encoding="utf-8"))
    assert set(told["cycles"]) == {"tile", "instruction", "live"} and "live" in told["computes"][0]


def test_stores_are_refused() -> None:
    program = ts.compile(product(8, 8, 8), "edge-8")
    with pytest.raises(ts.UserError, match="together"):
        live(program, latencies=ts.TileLatencies(source="instruction"))


@pytest.mark.parametrize("name", CASES)
def test_hand_written_programs(name: str) -> None:
    """Values by kernels as numpy says; times no less than arrays and bytes allow, at all three levels."""
    inputs, expected, tolerance = CASES[name]()
    machine = ts.Machine.load("tpu-v3").replace(MACHINE)
    program = ts.Program.load(FOLDER / f"{name}.json", machine)
    # arrays of edge-8 multiply f32 as they are, those of tpu-v3 round to bf16
    outputs = _core.execute(program.core, inputs, kernels=ts.Machine.load("edge-8").core)
    for key, wanted in expected.items():
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(outputs[key].astype(np.float64) / scale, wanted / scale, rtol=0, atol=tolerance)
    results = {level: ts.simulate(program, tensors=inputs, level=level) for level in ("tile", "instruction", "live")}
    for result in results.values():
        data = result.data
        bytes_moved = data["memory_read_bytes"] + data["memory_written_bytes"]
        assert result.seconds >= bytes_moved / machine.core.device()["memory_bytes_per_second"]
        assert result.cycles >= data["multiply_adds"] / (128 * 128 * 2 * 2)
        for unit in data["units"]:
            assert sum(unit["cycles"].values()) == result.cycles
    for key in ("memory_read_bytes", "memory_written_bytes", "multiply_adds", "vector_operations"):
        assert len({result.data[key] for result in results.values()}) == 1
    done = {unit["unit"]: unit["operations"] for unit in results["live"].data["units"] if ".pipe." not in unit["unit"]}
    assert done == {unit["unit"]: unit["operations"] for unit in results["tile"].data["units"]}


@pytest.mark.parametrize("name", CASES)
def test_waits_that_are_missing_are_found_by_kernels_too(name: str) -> None:
    inputs = CASES[name]()[0]
    machine = ts.Machine.load("tpu-v3").replace(MACHINE).core
    mutants = [(mutant, what) for mutant, what in _core.mutants(load(name)) if what.startswith("wait")]
    assert mutants
    for mutant, what in mutants:
        with pytest.raises(ts.UserError):
            _core.execute(mutant, inputs, find_races=True, kernels=machine)
            pytest.fail(what)
