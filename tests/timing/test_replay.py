"""Replay of steady loops: against the whole simulation, and where nobody could wait for that."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core
from tilesim.timing import simulate as api

SHAPES: dict[str, tuple[str, Callable[[], ts.Graph]]] = {
    "one loop": ("edge-8", lambda: ts.workloads.matmul(1000, 1000, 4096)),
    "whole tiles": ("tpu-v3", lambda: ts.workloads.matmul(16384, 16384, 1024)),
    "ragged": ("edge-8", lambda: ts.workloads.matmul(300, 70000, 64)),
    "something in the last trip only": ("edge-8", lambda: ts.workloads.matmul(100, 100, 3000)),
    "convolution": ("edge-8", lambda: ts.workloads.conv2d(4, 32, 96, 96, 64, 3, padding=1)),
    "two kernels": ("edge-8", lambda: two_products()),
}


def two_products() -> ts.Graph:
    b = ts.GraphBuilder("two")
    x = b.input("x", [700, 300])
    b.output(b.linear(b.apply("relu", b.linear(x, 3000, name="up")), 200, name="down"), "y")
    return b.build()


@pytest.mark.parametrize("name", SHAPES)
def test_as_the_whole_simulation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """First, last and ragged trips are simulated as they are, so that sums of alike trips between them are exact."""
    machine, graph = SHAPES[name]
    program = ts.compile(graph(), machine, mapping="profile" if machine == "tpu-v3" else "heuristic")
    assert ('"if"' in program.core.to_json()) == (name == "something in the last trip only")
    whole = ts.simulate(program, replay=False)
    monkeypatch.setattr(api, "LIMIT", max(2000, program.operations // 4))
    short = ts.simulate(program)
    assert any("replay" in text for text in short.approximations)
    assert not any("replay" in text for text in whole.approximations)
    assert short.cycles == pytest.approx(whole.cycles, rel=1e-4)
    assert_within_what_is_said(short, whole)
    for key in ("memory_read_bytes", "memory_written_bytes", "multiply_adds", "tile_operations"):
        assert short.data[key] == whole.data[key]
    for unit in short.data["units"]:
        assert sum(unit["cycles"].values()) == short.cycles
    assert sum(row["exclusive"] for row in short.data["operations"]) == short.cycles


def said(result: ts.Result) -> tuple[float, float, float]:
    """The bounds that a replayed result states: of cycles, other counts, DMA queues; 10 % where it states none."""
    (text,) = [text for text in result.approximations if text.startswith("replay: ")]
    if "the error has no bound" in text:
        return 0.1, 0.1, 0.1
    cycles, others, queues = re.findall(r"within ([0-9.]+)%", text)
    return float(cycles) / 100, float(others) / 100, float(queues) / 100


def assert_within_what_is_said(short: ts.Result, whole: ts.Result) -> None:
    cycles, others, queues = said(short)
    assert short.cycles == pytest.approx(whole.cycles, rel=cycles)
    for a, b in zip(short.data["units"], whole.data["units"], strict=True):
        assert a["unit"] == b["unit"]
        far = queues * whole.cycles if a["kind"] in ("load", "store", "send") else others * whole.cycles / 100
        assert a["cycles"]["busy"] == pytest.approx(b["cycles"]["busy"], rel=others, abs=far)
        for key in ("bytes", "work", "operations"):
            assert a[key] == pytest.approx(b[key], rel=others), (a["unit"], key)
    for a, b in zip(short.data["operations"], whole.data["operations"], strict=True):
        assert a["name"] == b["name"]
        for key in ("load_bytes", "store_bytes", "multiply_adds", "vector_operations", "count"):
            assert a[key] == pytest.approx(b[key], rel=others), (a["name"], key)
        for key in ("cycles", "array_busy", "vector_busy", "memory_busy"):
            assert a[key] == pytest.approx(b[key], rel=others, abs=others * whole.cycles / 100), (a["name"], key)
    for a, b in zip(short.data["energy"], whole.data["energy"], strict=True):
        assert a["femtojoules"] == pytest.approx(b["femtojoules"], rel=others)
    few, many = (
        {(row["part"], row["item"], row["level"], row["operation"]): row["number"] for row in result.counts().rows}
        for result in (short, whole)
    )
    assert few.keys() == many.keys() and many
    for key, number in many.items():
        assert few[key] == pytest.approx(number, rel=others, abs=1), key


PRESETS = ("edge-8", "tpu-v3", "gemmini-16", "mesh-16", "tpu-v4", "chiplet-2")


def any_size(rng: random.Random, low: int, high: int) -> int:
    """Ragged, whole tiles of eight, powers of two."""
    return rng.choice([rng.randint(low, high), 8 * rng.randint(1, high // 8), 1 << rng.randint(3, 11)])


def any_graph(rng: random.Random) -> ts.Graph:
    size = lambda low, high: any_size(rng, low, high)  # noqa: E731
    kind = rng.choice(
        ["product", "product", "convolution", "softmax", "norm", "add", "transpose", "running sum", "two"]
    )
    if kind == "product":
        return ts.workloads.matmul(size(1, 3000), size(1, 3000), size(1, 3000))
    if kind == "convolution":
        taps = rng.choice([1, 3])
        sizes = (rng.randint(1, 9), size(1, 128), rng.randint(5, 60), rng.randint(5, 60), size(1, 128))
        return ts.workloads.conv2d(*sizes, taps, padding=1)
    if kind == "softmax":
        return ts.workloads.softmax(size(1, 4000), size(1, 4000))
    b = ts.GraphBuilder("any", dtype="f32")
    x = b.input("x", [size(10, 3000), size(10, 2000)])
    if kind == "norm":
        y = b.layer_norm(x)
    elif kind == "add":
        y = x * b.input("z", list(x.shape)) + x
    elif kind == "transpose":
        y = b.op("transpose", x, permutation=[1, 0])
    elif kind == "running sum":
        y = b.op("cumulative", x, dim=rng.randint(0, 1), combiner="add")
    else:
        y = b.linear(b.apply("relu", b.linear(x, size(10, 1000), name="up")), size(10, 500), name="down")
    b.output(y, "y")
    return b.build()


def compare_any(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the program was replayed; if so the whole simulation is within what the result says."""
    rng = random.Random(seed)
    try:
        program = ts.compile(any_graph(rng), rng.choice(PRESETS))
    except ts.UserError:  # floats on integer machines, products beyond a scratchpad
        return False
    if not 1500 < program.operations < most:
        return False
    monkeypatch.setattr(api, "LIMIT", max(1000, program.operations // 4))
    short = ts.simulate(program)
    if not any(text.startswith("replay: ") for text in short.approximations):
        return False
    assert_within_what_is_said(short, ts.simulate(program, replay=False))
    return True


@pytest.mark.parametrize(
    ("number", "seeds", "least"),
    [
        (20_000, range(48), 1),
        pytest.param(60_000, [*range(48, 120), *range(1000, 61_000)], 2000, marks=pytest.mark.slow),
    ],
)
def test_the_bound_that_is_said_holds(
    monkeypatch: pytest.MonkeyPatch, number: int, seeds: list[int] | range, least: int
) -> None:
    assert sum(compare_any(seed, number, monkeypatch) for seed in seeds) >= least


MESH = [(4096, 4096, 16384), (8000, 300, 30000), (2000, 3000, 80000)]


@pytest.mark.parametrize("sizes", MESH, ids=str)
def test_cores_that_send_to_each_other(sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Operands go from core to core: queues that send wait for who receives, as queues that load do for memory."""
    program = ts.compile(ts.workloads.matmul(*sizes, dtype="bf16"), "mesh-16", mapping="heuristic")
    assert program.cores == 16 and '"send"' in program.core.to_json()
    whole = ts.simulate(program, replay=False)
    monkeypatch.setattr(api, "LIMIT", program.operations * program.cores // 4)
    short = ts.simulate(program)
    assert any(text.startswith("replay: ") for text in short.approximations)
    assert_within_what_is_said(short, whole)
    for key in ("memory_read_bytes", "memory_written_bytes", "network_bytes", "multiply_adds", "tile_operations"):
        assert short.data[key] == pytest.approx(whole.data[key], rel=said(short)[1])


@pytest.mark.parametrize("replay", [False, True])
def test_a_long_run_says_first_what_it_costs(
    replay: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    program = ts.compile(ts.workloads.matmul(4096, 4096, 16384, dtype="bf16"), "mesh-16", mapping="heuristic")
    operations = program.operations * program.cores
    ts.simulate(program, replay=replay)
    assert not caplog.records
    monkeypatch.setattr(api, "LIMIT", operations // 4)
    monkeypatch.setattr(api, "WARNED_FROM", operations // 100)
    ts.simulate(program, replay=replay)
    (said,) = [record.getMessage() for record in caplog.records]
    counts = [int(text.replace(",", "")) for text in re.findall(r"[\d,]{5,}", said)]
    assert counts[-1] == operations and ("extrapolated" in said) == (counts[0] < operations) == replay
    assert "seconds" in said


HUGE: dict[str, Callable[[], ts.Graph]] = {
    "product": lambda: ts.workloads.matmul(1 << 20, 1 << 20, 1 << 20),
    "long contraction": lambda: ts.workloads.matmul(1000, 1000, 1 << 20),
    "softmax": lambda: ts.workloads.softmax(1 << 20, 1 << 20),
}


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
@pytest.mark.parametrize("name", HUGE)
def test_no_less_than_the_roofline(name: str, machine: str) -> None:
    """Programs that could not be simulated operation by operation end, within their bound."""
    graph = HUGE[name]()
    result = ts.simulate(ts.compile(graph, machine))
    assert result.seconds >= ts.roofline(graph, machine).seconds
    assert result.cycles < 2**63


def test_short_programs_are_simulated_whole() -> None:
    program = ts.compile(ts.models.resnet18(), "tpu-v3")
    assert program.operations < api.LIMIT
    assert not any("replay" in text for text in ts.simulate(program).approximations)


def by_hand(body: list[Any], **parts: Any) -> ts.Program:
    """A program of units that take so many cycles each."""
    document = {"schema": "tilesim.program", "version": 1, "name": "hand", "tensors": [], "do": body} | parts
    return ts.Program(_core.Program.from_json(json.dumps(document)), None, ts.Machine.load("edge-8"))


def unit(cycles: int | str, name: str = "one") -> dict[str, Any]:
    return {"opaque": {"target": name, "cycles": cycles, "reads": [], "writes": []}, "queue": name}


def test_operations_counts_loops_branches_and_calls() -> None:
    body = [{"for": "k", "extent": 7, "do": [{"call": "f"}, unit(1)]}, {"scope": "s", "do": [unit(1)]}]
    functions = [{"name": "f", "do": [{"for": "i", "extent": 5, "do": [unit(1), unit(1)]}]}]
    program = by_hand(body, functions=functions)
    assert program.operations == 7 * (10 + 1) + 1
    assert program.kernels == [("", "s", ())]
    huge = [{"for": "i", "extent": 1 << 40, "do": [{"for": "j", "extent": 1 << 40, "do": [unit(1)]}]}]
    assert by_hand(huge).operations == 2**63 - 1  # no more fits


def test_branches_on_data_count_by_what_is_typical() -> None:
    order = {"name": "x", "dtype": "i32", "shape": [4], "role": "input"} | {
        "typical": {"values": [0, 3, 0, 0], "how": "a quarter"}
    }
    branch = {"if": "read(x, i)", "then": [unit(1)] * 40}
    program = by_hand([{"for": "i", "extent": 4, "do": [branch]}], tensors=[order])
    assert program.operations == 4 * 10


FUNCTIONS = {
    "adds up": [{"name": "f", "parameters": ["p"], "do": [unit("3 + p")]}],
    "bends": [{"name": "f", "parameters": ["p"], "do": [unit("max(5, p - 400)")]}],
    "grows": [{"name": "f", "parameters": ["p"], "do": [{"for": "j", "extent": "p", "do": [unit(2)]}]}],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_an_index_decides(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum over all trips by hand; a function whose work bends or grows with the trip is simulated whole."""
    trips = 1000
    body = [{"scope": "k", "do": [{"for": "i", "extent": trips, "do": [{"call": "f", "parameters": {"p": "i"}}]}]}]
    program = by_hand(body, functions=FUNCTIONS[name])
    monkeypatch.setattr(api, "LIMIT", 100)
    result = ts.simulate(program)
    busy = sum({"adds up": 3 + i, "bends": max(5, i - 400), "grows": 2 * i}[name] for i in range(trips))
    assert next(row for row in result.data["units"] if row["unit"].endswith("one"))["cycles"]["busy"] == busy
    replayed = any(text.startswith("replay: ") for text in result.approximations)
    assert replayed == (name == "adds up")  # as much too little at one end as too much at the other


LOOPS: dict[str, tuple[int, Callable[[int], int], str]] = {
    "even": (1000, lambda i: 7, "7"),
    "twice a period": (1002, lambda i: 5 if i % 3 == 0 else 2, "2 + 3 * (i % 3 == 0)"),
    "last": (1000, lambda i: 90 if i == 999 else 3, "3 + 87 * (i == 999)"),
    "bent in the middle": (1000, lambda i: min(7, 3000 - 5 * i) if i < 599 else 5, "max(5, min(7, 3000 - 5*i))"),
    "two steps": (1000, lambda i: 9 if i < 400 else 4, "4 + 5 * (i < 400)"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_by_hand(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy cycles of one unit are the sum over all trips, whether the loop is replayed or left whole."""
    trips, cycles, text = LOOPS[name]
    program = by_hand([{"scope": "k", "do": [{"for": "i", "extent": trips, "do": [unit(text)]}]}])
    monkeypatch.setattr(api, "LIMIT", 100)
    result = ts.simulate(program)
    assert any(text.startswith("replay: ") for text in result.approximations) == (
        name in {"even", "twice a period", "last"}
    )
    row = next(row for row in result.data["units"] if row["unit"].endswith("one"))
    assert row["cycles"]["busy"] == sum(map(cycles, range(trips)))
    assert result.data["tile_operations"] == trips


def test_the_hash_is_that_of_the_whole_program(monkeypatch: pytest.MonkeyPatch) -> None:
    program = by_hand([{"scope": "k", "do": [{"for": "i", "extent": 1000, "do": [unit(7)]}]}])
    whole = ts.simulate(program, replay=False)
    monkeypatch.setattr(api, "LIMIT", 100)
    assert ts.simulate(program).data["hashes"] == whole.data["hashes"]


def test_regions_count_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes from the own and from other regions are those of the whole program. Rows pass in
    tiles of one loop."""
    program = ts.compile(ts.workloads.softmax(20000, 2536), "chiplet-2")
    whole = ts.simulate(program, replay=False)
    monkeypatch.setattr(api, "LIMIT", program.operations // 4)
    short = ts.simulate(program)
    assert any(text.startswith("replay: ") for text in short.approximations)
    for name in ("memory_local_bytes", "memory_remote_bytes"):
        assert whole.data[name] > 0 and short.data[name] == pytest.approx(whole.data[name], rel=said(short)[1])
    assert short.local_bytes + short.remote_bytes == short.memory_bytes


def layers(count: int, shared: bool = False) -> ts.Graph:
    """Layers between an embedding-like product and a head."""
    b = ts.GraphBuilder("layers")
    f = b.function("layer")
    x, w, v = f.input("x", [64, 96]), f.input("w", [96, 200]), f.input("v", [200, 96])
    f.output(x + f.apply("relu", x @ w) @ v)
    h = b.linear(b.input("x", [64, 32]), 96, name="first")
    for i in range(count):
        j = 0 if shared else i
        h = b.call(f, h, b.weight(f"w{j}", [96, 200]), b.weight(f"v{j}", [200, 96]), name=f"layer.{i}")
    b.output(b.linear(h, 500, name="head"), "y")
    return b.build()


def test_layers_that_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that end before the next one starts: one layer more costs the same each time."""
    program = ts.compile(layers(9), "tpu-v3")
    whole = ts.simulate(program, replay=False)
    monkeypatch.setattr(api, "LIMIT", 10)
    short = ts.simulate(program)
    assert any("replay: 9 calls of layer" in text for text in short.approximations)
    assert short.cycles == pytest.approx(whole.cycles, rel=1e-3)
    for what in ("memory_read_bytes", "memory_written_bytes", "tile_operations", "multiply_adds"):
        assert short.data[what] == whole.data[what]
    assert [row["count"] for row in short.data["operations"]] == [row["count"] for row in whole.data["operations"]]
    assert_within_what_is_said(short, whole)


def calls_replayed(document: dict[str, Any]) -> bool:
    core = _core.Program.from_json(json.dumps(document))
    result = ts.simulate(ts.Program(core, None, ts.Machine.load("tpu-v3")))
    return any(" calls of layer" in text for text in result.approximations)


def test_calls_that_differ_or_overlap_are_not_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "LIMIT", 10)
    document = json.loads(ts.compile(layers(9), "tpu-v3").core.to_json())
    calls = [statement for statement in document["do"] if "call" in statement]
    assert len(calls) == 9 and calls_replayed(document)
    assert not calls_replayed(json.loads(ts.compile(layers(4), "tpu-v3").core.to_json()))
    different = json.loads(json.dumps(document))
    next(s for s in different["do"][::-1] if "call" in s)["label"] = "the last one"
    middle = [s for s in different["do"] if "call" in s][4]
    middle["label"] = "another"  # runs of four on both sides
    assert not calls_replayed(different)
    reading = json.loads(json.dumps(document))
    names = {next(iter(call["tensors"].values())) for call in calls}
    for tensor in reading["tensors"]:
        if tensor["name"] in names:
            tensor["typical"] = {"values": [1], "how": "ones"}
    assert not calls_replayed(reading)
    overlapping = json.loads(json.dumps(document))
    overlapping["functions"][0]["do"][0]["barrier"] = False
    assert not calls_replayed(overlapping)


def test_no_bound_where_places_repeat_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 3 elements over layout tiles of 128 lanes in two regions: 0.1 % was stated, 0.3 % was seen."""
    nest = {"tiles": [8, 8, 3], "order": [2, 1, 0], "depths": [2, 3, 1]}
    program = ts.compile(ts.workloads.matmul(906, 1160, 246), "chiplet-2", mapping={"matmul": nest}, cores=1)
    monkeypatch.setattr(api, "LIMIT", max(2000, program.operations // 4))
    texts = [text for text in ts.simulate(program).approximations if text.startswith("replay: ")]
    assert texts and all("the error has no bound" in text for text in texts)
