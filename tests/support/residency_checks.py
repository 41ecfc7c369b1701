"""Values that stay in scratchpads: random graphs and machines, room, and programs against those where nothing stays."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

import tilesim as ts
from support.program_checks import fenced
from support.random_graphs import Random, random_case, random_machine
from tilesim import _core


def chain(random: Random) -> ts.Graph:
    """Products, row operations and sums in a row, some read twice, some of them outputs."""
    b = ts.GraphBuilder("chain")
    size = lambda: int(random.integers(1, 25))  # noqa: E731
    x = b.input("x", [size(), size()])
    values = [x]
    for i in range(int(random.integers(3, 10))):
        kind = int(random.integers(6))
        same = [value for value in values if value.shape == x.shape]
        if kind <= 1:
            x = b.linear(x, size(), name=f"linear{i}")
        elif kind == 2:
            x = b.op("softmax", x, dim=1)
        elif kind == 3:
            x = b.apply("tanh", x)
        elif kind == 4:
            x = b.op("normalize", x, mode="layer", dims=[1], epsilon=1e-5)
        else:
            x = x + same[int(random.integers(len(same)))]
        values.append(x)
        if random.integers(6) == 0:
            b.output(x, f"y{i}")
    b.output(x, "y")
    return b.build()


def machine_of(random: Random) -> ts.Machine:
    """Of one to four cores, with or without barriers, in layouts or dense."""
    if random.integers(4) == 0:
        machine = ts.Machine.load("tpu-v3").replace({"core.scratchpad.bytes": f"{int(random.integers(64, 2048))} KiB"})
    else:
        kilobytes = int(random.choice([2, 4, 8, 16, 64]))
        machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": f"{kilobytes} KiB"})
    cores = int(random.choice([1, 1, 1, 2, 3, 4]))
    queues = int(random.integers(1, 3))
    machine = machine.replace({"core.count": cores, "core.dma.load_queues": queues})
    return fenced(machine, bool(random.integers(2)))


def staying(program: ts.Program) -> list[dict[str, Any]]:
    rows = program.memory_plan().table().rows
    return [row for row in rows if row["level"] == "scratchpad" and not row["alias_of"]]


BITS = {"f32": 32, "bf16": 16, "f16": 16, "i8": 8, "i32": 32, "bool": 8, "u8": 8, "i64": 64, "f64": 64, "i16": 16}


def blocks(statement: dict[str, Any]) -> list[dict[str, Any]]:
    """Statements right inside of a statement."""
    return [inner for value in statement.values() if isinstance(value, list) for inner in value if _is(inner)]


def _is(inner: Any) -> bool:
    return isinstance(inner, dict) and not {"extent", "dtype"} & set(inner)


def tiles(statement: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Bytes of the scratchpad that a kernel's slots lie on, inner scopes included."""
    found = []
    for slot in statement.get("slots", []):
        if not slot.get("accumulator"):
            size = -(-slot["elements"] * BITS[slot["dtype"]] // 512) * 64 * slot.get("depth", 1)
            found.append((slot["address"], slot["address"] + size, slot["name"]))
    return found + [tile for inner in blocks(statement) for tile in tiles(inner)]


def check_room(program: ts.Program, machine: ts.Machine) -> None:
    """From the program's text alone: at every kernel, tiles and what stays lie apart and inside of the scratchpad."""
    text = json.loads(program.core.to_json())
    named = {tensor["name"]: tensor for tensor in text["tensors"]}
    stays = {name: tensor for name, tensor in named.items() if tensor.get("level") == "scratchpad"}

    def owner(name: str) -> str:
        return owner(named[name]["alias_of"]) if name in named and "alias_of" in named[name] else name

    kernels = [statement for statement in text["do"] if {"scope", "call", "for"} & set(statement)]
    used: dict[str, list[int]] = {}
    for k, kernel in enumerate(kernels):
        for part in json.dumps(kernel).split('"tensor": "')[1:]:
            if (name := owner(part[: part.index('"')])) in stays:
                used.setdefault(name, []).append(k)
    capacity = int(_core.parse_bytes(str(machine.get("core.scratchpad.bytes"))))
    for k, kernel in enumerate(kernels):
        held = [name for name, at in used.items() if min(at) <= k <= max(at)]
        places = [(stays[n]["address"], stays[n]["address"] + stays[n]["core_bytes"], n) for n in held]
        assert all(high <= capacity for _, high, _ in places + tiles(kernel)), k
        for i, (low, high, name) in enumerate(places):
            for other_low, other_high, other in places[:i] + tiles(kernel):
                assert high <= other_low or other_high <= low, (k, name, other)


def same(found: dict[str, Any], wanted: dict[str, Any], note: str, exact: bool = True) -> None:
    for name, value in wanted.items():
        if exact:
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name}, {note}")
        else:
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4, err_msg=f"{name}, {note}")


def check(graph: ts.Graph, machine: ts.Machine, seed: int, races: bool = True, **options: Any) -> int:
    """The number of values that stay; what they save, and that nothing else changes."""
    options = {"cores": machine.get("core.count"), **options}
    usual = ts.compile(graph, machine, residency="none", **options)
    program = ts.compile(graph, machine, residency="auto", **options)
    stays = staying(program)
    if not stays:
        return 0
    # Smaller tiles beside a value sum in another order.
    exact = _kernels(usual) == _kernels(program)
    wanted = ts.execute(usual, seed=seed)
    for order in ("text", "early_loads", "random"):
        for poison in (False, True):
            found = ts.execute(program, seed=seed, order=order, poison=poison)
            same(found, wanted, f"{order}, {poison}", exact)
    if races:
        same(ts.execute(program, seed=seed, find_races=True), wanted, "races", exact)
    check_room(program, machine)
    before, after = ts.simulate(usual), ts.simulate(program)
    assert after.memory_bytes < before.memory_bytes
    assert after.cycles <= 1.02 * before.cycles
    assert after.data["on_chip_bytes"] > 0
    if after.bounds is not None:
        assert after.memory_bytes >= after.bounds.bytes
        assert after.seconds >= after.bounds.seconds
    return len(stays)


def _kernels(program: ts.Program) -> list[Any]:
    """Their slots without addresses."""
    text = json.loads(program.core.to_json())

    def slots(statement: dict[str, Any]) -> list[Any]:
        own = [{k: v for k, v in slot.items() if k != "address"} for slot in statement.get("slots", [])]
        return own + [slot for inner in blocks(statement) for slot in slots(inner)]

    bodies = [text["do"], *(function["do"] for function in text["functions"])]
    return [slots(statement) for body in bodies for statement in body]


def run(seeds: Sequence[int]) -> None:
    stayed = 0
    for seed in seeds:
        random = np.random.default_rng(seed)
        if random.integers(3):
            graph, machine = chain(random), machine_of(random)
        else:
            case = random_case(random)
            graph, machine = case.graph, random_machine(random, case)
        fuse, lowering = ["all", "none"][int(random.integers(2))], [None, "best"][int(random.integers(2))]
        options = {"fuse": fuse, "lowering": lowering}
        try:
            ts.compile(graph, machine, **options)
        except ts.UserError:
            continue
        try:
            stayed += check(graph, machine, seed, **options) > 0
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert stayed > len(seeds) // 4
