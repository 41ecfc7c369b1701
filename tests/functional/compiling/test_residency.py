"""Values that stay in scratchpads between kernels: the same bits, fewer bytes, never without room, never too early."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim
from support.program_checks import arrays_of, fenced
from support.residency_checks import check, run, same, staying
from tilesim import _core
from tilesim.graph import Tensor


@pytest.mark.parametrize("seeds", [range(8), pytest.param([*range(8, 40), *range(1000, 1800)], marks=pytest.mark.slow)])
def test_random_graphs_and_machines(seeds: list[int] | range) -> None:
    run(seeds)


def branches(rows: int = 48, width: int = 32, output: bool = False, view: bool = False) -> ts.Graph:
    """A value with two readers, far apart; also an output, or read through a view."""
    b = ts.GraphBuilder("branches")
    x = b.linear(b.input("x", [rows, width]), width, name="first")
    y = b.op("softmax", x, dim=1, name="near")
    for i in range(3):
        y = b.linear(y, width, name=f"step{i}")
    z = x.reshape(width, rows).reshape(rows, width) if view else x
    b.output(y * z, "y")
    if output:
        b.output(x, "first_value")
    return b.build()


def names(program: ts.Program) -> set[str]:
    return {row["tensor"] for row in staying(program)}


EDGE = ts.Machine.load("edge-8")


def best(graph: ts.Graph, machine: Any = EDGE, **options: Any) -> ts.Program:
    return ts.compile(graph, machine, lowering="best", fuse="none", **options)


def test_a_value_stays_until_its_last_reader() -> None:
    program = best(branches())
    row = next(row for row in staying(program) if row["tensor"] == "first")
    kernels = [name for name, _ in _reads(program, "first")]
    assert (row["first"], row["last"]) == (kernels[0], kernels[-1])
    assert row["bytes"] == 48 * 32 * 4 and row["core"] == 0
    assert check(branches(), EDGE, 3, lowering="best", fuse="none") >= 4


def _reads(program: ts.Program, tensor: str) -> list[tuple[int, str]]:
    """Kernels whose text names the tensor."""
    text = json.loads(program.core.to_json())
    kernels = [statement for statement in text["do"] if "scope" in statement]
    return [(k, kernel["scope"]) for k, kernel in enumerate(kernels) if f'"tensor": "{tensor}"' in json.dumps(kernel)]


def test_outputs_and_what_shares_their_bytes_lie_in_memory() -> None:
    program = best(branches(output=True))
    assert not {"first", "first_value", "y"} & names(program)
    assert names(program)
    assert check(branches(view=True), EDGE, 4, lowering="best", fuse="none")


def test_what_does_not_fit_lies_in_memory() -> None:
    """In steps of the scratchpad: whatever fits stays, and less of it where there is less room."""
    held = []
    for kilobytes in (2, 8, 32, 256):
        machine = EDGE.replace({"core.scratchpad.bytes": f"{kilobytes} KiB"})
        check(branches(), machine, kilobytes, races=kilobytes < 64, lowering="best", fuse="none")
        program = best(branches(), machine)
        held.append(len(staying(program)))
        plan = program.memory_plan()
        assert plan.live_bytes["scratchpad"] <= plan.peak_bytes["scratchpad"] <= kilobytes * 1024
    assert held[0] < held[-1] and held == sorted(held)


def layers(calls: int = 3) -> ts.Graph:
    """A function whose own values may stay, called several times, between values of the caller."""
    b = ts.GraphBuilder("layers")
    f = b.function("layer")
    x = f.input("x", (24, 32))
    y = f.op("softmax", f.linear(x, 32, name="up"), dim=1, name="rows")
    f.output(f.linear(y, 32, name="down") + x, "y")
    v = b.linear(b.input("x", (24, 32)), 32, name="before")
    v = b.apply("tanh", v, name="act") + v
    for i in range(calls):
        v = b.call(f, v, name=f"call{i}")
    b.output(b.apply("tanh", b.linear(v, 16, name="after"), name="last"), "y")
    return b.build()


@pytest.mark.singly
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("barrier", [False, True])
def test_inside_of_functions(cores: int, barrier: bool) -> None:
    machine = fenced(EDGE.replace({"core.count": cores}), barrier)
    options = {} if barrier else {"lowering": "best"}
    graph = layers()
    program = ts.compile(graph, machine, fuse="none", residency="auto", **options)
    inside = [row for row in staying(program) if row["tensor"].startswith("layer.")]
    assert len({row["tensor"] for row in inside}) >= 1
    assert len(inside) == 3 * len({row["tensor"] for row in inside})  # in each call
    assert check(graph, machine, cores, fuse="none", **options)


def test_states_and_loops() -> None:
    """What a loop's trips make and read stays, and what they pass on."""
    b = ts.GraphBuilder("looped")
    x = b.apply("tanh", b.linear(b.input("x", (16, 32)), 32, name="before"), name="start")
    more, step = b.function("more"), b.function("step")
    shapes = {"i": ((), "i32"), "x": ((16, 32), "f32")}
    state = {key: more.input(key, shape, dtype) for key, (shape, dtype) in shapes.items()}
    more.output(more.apply("less", state["i"], more.scalar(5, "i32")), "on")
    state = {key: step.input(key, shape, dtype) for key, (shape, dtype) in shapes.items()}
    step.output(state["i"] + 1, "i.next")
    up = step.linear(step.apply("relu", state["x"], name="act"), 32, name="up")
    step.output(step.apply("tanh", up, name="rows"), "x.next")
    found = b.core.op("while", [b.scalar(0, "i32").value, x.value], {}, "loop", 2, ["more", "step"])
    b.output(b.apply("tanh", b.linear(Tensor(b, found[1]), 32, name="after"), name="end"), "y")
    graph = b.build()
    assert check(graph, EDGE, 1, lowering="best", fuse="none") >= 3
    program = best(graph)
    assert {"step.act", "step.up"} <= names(program)


def test_values_that_are_passed_stay() -> None:
    """From the caller into each call and back; whatever the function computes lies beside them."""
    program = best(layers())
    passed = names(program) - {name for name in names(program) if name.startswith("layer.")}
    assert "call0" in passed
    assert check(layers(), EDGE, 5, lowering="best", fuse="none")
    kernels = {row["name"]: row for row in ts.simulate(program).data["operations"]}
    assert kernels["before"]["store_bytes"] == kernels["last"]["load_bytes"] == 0
    small = EDGE.replace({"core.scratchpad.bytes": "8 KiB"})
    check(layers(), small, 6, lowering="best", fuse="none")


@pytest.mark.parametrize("network", ["simple", "mesh"])
def test_cores_read_from_each_other(network: str) -> None:
    """What one core has stored and all read comes through the network, and no byte of it from memory."""
    machine = ts.Machine.load("mesh-16").replace({"core.count": 4, "network.kind": network})
    b = ts.GraphBuilder("wide")
    x = b.linear(b.input("x", [64, 96]), 128, name="first")
    x = b.linear(b.op("softmax", x, dim=0, name="columns"), 96, name="second")
    b.output(b.linear(x, 64, name="third"), "y")
    graph = b.build()
    usual = best(graph, machine, residency="none")
    program = best(graph, machine, residency={"first": "scratchpad", "columns": "scratchpad"})
    before, after = ts.simulate(usual), ts.simulate(program)
    assert after.memory_bytes < before.memory_bytes
    assert after.data["network_bytes"] > after.memory_bytes  # what comes from memory, and what from other cores
    wanted = ts.execute(usual, seed=7)
    for order in ("text", "early_loads", "random"):
        same(ts.execute(program, seed=7, order=order, poison=True), wanted, order, exact=False)
    same(ts.execute(program, seed=7, find_races=True), wanted, "races", exact=False)
    text = json.loads(program.core.to_json())
    shared = [tensor for tensor in text["tensors"] if len(tensor.get("parts", [])) > 1]
    assert shared
    for tensor in shared:  # a core that stores into another's part is told so
        cores = [part["core"] for part in tensor["parts"]]
        for part, core in zip(tensor["parts"], cores[1:] + cores[:1], strict=True):
            part["core"] = core
    with pytest.raises(ts.UserError, match="another core holds"):
        _core.execute(_core.Program.from_json(json.dumps(text)), arrays_of(program))


def test_contexts_of_a_core() -> None:
    machine = ts.Machine.load("edge-8").replace({"core.contexts": 2, "core.scratchpad.bytes": "64 KiB"})
    for seed in range(3):
        check(branches(), machine, seed, lowering="best", fuse="none", contexts=2)


def test_a_saved_program_is_the_same(tmp_path: Path) -> None:
    program = best(branches())
    program.save(tmp_path / "program.json")
    loaded = ts.Program.load(tmp_path / "program.json")
    assert ts.simulate(loaded, EDGE).timing_hash() == ts.simulate(program).timing_hash()
    assert [row["tensor"] for row in staying(loaded)] == [row["tensor"] for row in staying(program)]
    inputs = arrays_of(program)
    assert _same_bits(_core.execute(loaded.core, inputs), _core.execute(program.core, inputs))


def _same_bits(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one[key].tobytes() == other[key].tobytes() for key in one)


@pytest.mark.parametrize("cores", [1, 2])
def test_each_statement_that_orders_is_needed(cores: int) -> None:
    """A program without one wait, commit or release is reported, or gives the same in any order."""
    machine = EDGE.replace({"core.scratchpad.bytes": "4 KiB", "core.count": cores, "core.dma.load_queues": 2})
    program = best(branches(rows=12, width=16), machine, residency="auto")
    assert staying(program)
    inputs = arrays_of(program)
    wanted = _core.execute(program.core, inputs)
    reported = 0
    for mutant, what in _core.mutants(program.core, "erase"):
        try:
            _core.execute(mutant, inputs, find_races=True)
        except ts.UserError:
            reported += 1
            continue
        for order, seed in [("early_loads", 0), ("random", 0), ("random", 1), ("random", 2)]:
            assert _same_bits(_core.execute(mutant, inputs, order=order, seed=seed), wanted), (what, order, seed)
    assert reported > 20


def test_a_value_is_gone_when_tiles_take_its_bytes() -> None:
    """A program whose addresses are wrong does not check, and what it reads there is not what was stored."""
    program = best(branches())
    text = json.loads(program.core.to_json())
    stays = [tensor for tensor in text["tensors"] if tensor.get("level") == "scratchpad"]
    for tensor in stays:
        tensor["address"] = 0
    wrong = _core.Program.from_json(json.dumps(text))
    with pytest.raises(ts.UserError, match="overlap"):
        wrong.check()
    with pytest.raises(ts.UserError, match=r"lies on bytes of|has not stored there|takes bytes of"):
        _core.execute(wrong, arrays_of(program), find_races=True)


@pytest.mark.parametrize("machine", ["chiplet-2", "edge-8", "mesh-16"])
def test_between_kernels_whose_rows_only_the_data_tells(machine: str) -> None:
    """A value that lives across them may stay; what they look for may not."""
    for sizes in [(128, 256, 256), (32, 256, 64)]:
        graph = ts.workloads.experts(*sizes)
        program = best(graph, machine)
        assert ts.verify(program).ok
        assert ts.simulate(program).memory_bytes <= ts.simulate(best(graph, machine, residency="none")).memory_bytes


@pytest.mark.parametrize("kilobytes", [2, 4, 8])
@pytest.mark.parametrize("kind", ["sort", "cumulative"])
def test_beside_kernels_that_hold_whole_rows(kind: str, kilobytes: int) -> None:
    """They have no smaller form: what would stay beside them passes through memory."""
    b = ts.GraphBuilder(kind)
    x = b.apply("tanh", b.linear(b.input("x", (12, 16)), 40, name="before"), name="first")
    found = b.op(kind, x, **({"dim": 1} if kind == "sort" else {"dim": 1, "combiner": "add"}))
    b.output(b.linear(b.apply("abs", found), 24, name="after"), "y")
    b.output(b.apply("relu", x), "z")
    machine = EDGE.replace({"core.scratchpad.bytes": f"{kilobytes} KiB"})
    assert ts.verify(best(b.build(), machine)).ok


def test_what_is_asked_for_by_name() -> None:
    graph = branches()
    native = ts.Machine.load("tpu-v3")  # where nothing stays that is not asked for
    only = ts.compile(graph, native, fuse="none", residency={"near": "scratchpad"})
    assert names(only) == {"near"}
    assert not names(ts.compile(graph, native, fuse="none"))
    others = best(graph, residency={"first": "memory"})
    assert "first" not in names(others) and names(others)
    assert not names(best(graph, residency="none"))
    assert names(ts.compile(graph, EDGE, fuse="none")) == names(best(graph))
    assert any("stay" in note for note in best(graph).notes)


def test_bad_input() -> None:
    graph = branches(output=True)
    with pytest.raises(ts.UserError, match=r"unknown tensor.*'nea'.*near"):
        best(graph, residency={"nea": "scratchpad"})
    with pytest.raises(ts.UserError, match=r"splits an alias|cannot stay"):
        best(graph, residency={"first_value": "scratchpad"})
    with pytest.raises(ts.UserError, match=r"unknown level.*memory, scratchpad"):
        best(graph, residency={"near": "cash"})
    with pytest.raises(ts.UserError, match=r"unknown residency.*auto"):
        best(graph, residency="automatic")
    small = EDGE.replace({"core.scratchpad.bytes": "4 KiB"})
    with pytest.raises(ts.UserError, match=r"does not fit the scratchpad.*6144 bytes.*4096 bytes"):
        best(graph, small, residency={"near": "scratchpad"})
    tight = EDGE.replace({"core.scratchpad.bytes": "16 KiB"})
    wish = {"first": "scratchpad", "step0": "scratchpad", "step1": "scratchpad"}
    with pytest.raises(ts.UserError, match=r"does not fit.*drop '"):
        best(branches(width=40), tight, residency=wish)


def test_the_command_line_tells(tmp_path: Path) -> None:
    words = ("run", "mlp", "--machine", "tpu-v3", "--lowering", "best", "--explain", "memory")
    said = tilesim(*words)
    assert "Scratchpad:" in said.stdout and "scratchpad" in said.stdout
    none = tilesim(*words, "--residency", "none")
    assert "Scratchpad:" not in none.stdout


def test_a_value_is_put_where_it_was_found_to_fit() -> None:
    """Blocks that each read all before them: a place that one value has not taken is no place of the next one's."""
    b = ts.GraphBuilder("dense")
    random = np.random.default_rng(0)

    def convolved(x: Any, out: int, size: int) -> Any:
        channels = x.shape[1]
        w = b.weight(f"w{len(weights)}", data=random.standard_normal((out, channels, size, size)).astype(np.float32))
        weights.append(w)
        pads = [size // 2] * 4
        y = b.op("convolution", x, w, x_labels="NC01", w_labels="OI01", y_labels="NC01", pads=pads)
        return b.apply("relu", y)

    weights: list[Any] = []
    x = b.input("x", (1, 64, 32, 32))
    for extent in (32, 16, 8, 4):
        for _ in range(6):
            x = b.op("concat", x, convolved(convolved(x, 128, 1), 32, 3), dim=1)
        x = convolved(x, x.shape[1] // 2, 1)
        if extent > 4:
            x = x[:, :, ::2, ::2]
    b.output(x, "y")
    program = ts.compile(b.build(), "edge-8", lowering="best")
    rows = [row for row in program.memory_plan().table().rows if row["level"] == "scratchpad"]
    assert rows and all(row["first"] <= row["last"] for row in rows)
    for one in rows:
        for other in rows:
            apart = one["last"] < other["first"] or other["last"] < one["first"]
            free = (
                one["address"] + one["bytes"] <= other["address"] or other["address"] + other["bytes"] <= one["address"]
            )
            assert one is other or one["core"] != other["core"] or apart or free
