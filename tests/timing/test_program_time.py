"""The eight hand-written programs in the engine, against a count of their text by a plain interpreter in Python."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.hand_programs import CASES, FOLDER

SIZE = {"f32": 4, "bf16": 2, "i32": 4}


def ceildiv(a: int, b: int) -> int:
    return -(-a // b)


class Text:
    """Walks a program in text order and counts what it moves and multiplies; knows nothing of the engine."""

    def __init__(self, document: dict[str, Any], inputs: dict[str, Any]) -> None:
        self.document, self.inputs = document, inputs
        self.counts: Counter[str] = Counter()

    def value(self, text: Any, names: dict[str, int]) -> int:
        if not isinstance(text, str):
            return int(text)
        read = {name: np.asarray(array) for name, array in self.inputs.items()}
        table = {"min": min, "max": max, "ceildiv": ceildiv, "read": lambda t, *i: int(read[t][i])}
        bare = {name: name for name in read if name not in names}
        return int(eval(text, {"__builtins__": {}}, {**bare, **table, **names}))

    def run(self) -> Counter[str]:
        for core in range(self.document.get("cores", 1)):
            names = {**self.document["parameters"], "core": core, "context": 0}
            self.block(self.document["do"], names)
        return self.counts

    def block(self, block: list[dict[str, Any]], names: dict[str, int]) -> None:
        for statement in block:
            if "for" in statement:
                for i in range(self.value(statement["extent"], names)):
                    self.block(statement["do"], {**names, statement["for"]: i})
            elif "if" in statement:
                branch = "then" if self.value(statement["if"], names) else "else"
                self.block(statement.get(branch, []), names)
            elif "scope" in statement:
                self.block(statement["scope"]["do"], names)
            elif "load" in statement or "store" in statement:
                kind = "load" if "load" in statement else "store"
                self.counts[kind] += sum(self.inside(statement[kind], names))
                self.counts["load"] += self.indices(statement[kind], names)
                self.counts["transfers"] += 1
            elif "mma" in statement:
                mma = statement["mma"]
                extents = [self.value(d[0], names) for d in mma["a"]["dims"]]
                batch, m, n, k = mma["dims"]
                columns = [self.value(d[0], names) for d in mma["b"]["dims"]][-n:]
                assert batch + m + k == len(extents)
                self.counts["multiply_adds"] += int(np.prod(extents) * np.prod(columns))

    def indices(self, transfer: dict[str, Any], names: dict[str, int]) -> int:
        """Bytes of the indices that an indirect transfer reads."""
        dtype = {t["name"]: t["dtype"] for t in self.document["tensors"]}
        through = [d for d in transfer["dims"] if "through" in d]
        return sum(self.value(d["extent"], names) * SIZE[dtype[d["through"]]] for d in through)

    def inside(self, transfer: dict[str, Any], names: dict[str, int]) -> Iterator[int]:
        """Bytes of each element that lies within its tensor."""
        tensor = next(t for t in self.document["tensors"] if t["name"] == transfer["tensor"])
        shape = [self.value(extent, names) for extent in tensor["shape"]]
        start = [self.value(at, names) for at in transfer["at"]]
        dims = transfer["dims"]
        for point in itertools.product(*(range(self.value(d["extent"], names)) for d in dims)):
            index = list(start)
            for dim, i in zip(dims, point, strict=True):
                step = i * self.value(dim.get("step", 1), names)
                if "through" in dim:
                    at = [self.value(a, names) for a in dim["through_at"]]
                    at[-1] += step
                    step = int(np.asarray(self.inputs[dim["through"]])[tuple(at)])
                if dim.get("axis", -1) >= 0:
                    index[dim["axis"]] += step
            if all(0 <= i < extent for i, extent in zip(index, shape, strict=True)):
                yield SIZE[tensor["dtype"]]


MACHINE = {"core.count": 2, "core.dma.load_queues": 2, "memory.burst_bytes": "2 B", "layout.tile": []}


@pytest.mark.parametrize("name", CASES)
def test_simulated(name: str) -> None:
    """Bytes and multiply-adds equal the text's; time respects both bounds; every unit's states fill the time."""
    inputs = CASES[name]()[0]
    path = FOLDER / f"{name}.json"
    counts = Text(json.loads(path.read_text(encoding="utf-8")), inputs).run()
    machine = ts.Machine.load("tpu-v3").replace(MACHINE)
    result = ts.simulate(ts.Program.load(path, machine), tensors=inputs)
    data = result.data
    assert data["memory_read_bytes"] == counts["load"]
    assert data["memory_written_bytes"] == counts["store"]
    assert data["multiply_adds"] == counts["multiply_adds"]
    for unit in data["units"]:
        assert sum(unit["cycles"].values()) == result.cycles
    device = machine.core.device()
    seconds = (counts["load"] + counts["store"]) / device["memory_bytes_per_second"]
    assert result.seconds >= seconds
    peak = 128 * 128 * 2 * 2  # multiply-adds per cycle: two arrays on each of two cores
    assert result.cycles >= counts["multiply_adds"] / peak


@pytest.mark.parametrize("name", CASES)
def test_ideal_memory_is_no_slower(name: str) -> None:
    inputs = CASES[name]()[0]
    machine = ts.Machine.load("tpu-v3").replace(MACHINE)
    program = ts.Program.load(FOLDER / f"{name}.json", machine)
    ideal = ts.simulate(program, memory="ideal", tensors=inputs)
    assert 0 < ideal.cycles <= ts.simulate(program, tensors=inputs).cycles


def test_two_cores_share_one_fetch() -> None:
    """Multicast: the shared operand is read once, not once per core."""
    name = "two_cores_multicast"
    machine = ts.Machine.load("tpu-v3").replace(MACHINE)
    result = ts.simulate(ts.Program.load(FOLDER / f"{name}.json", machine))
    assert result.data["memory_read_bytes"] == 4 * (60 * 150 + 150 * 24)
