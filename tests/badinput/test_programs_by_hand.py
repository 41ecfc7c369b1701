"""Programs from files: queues of units by name, waits that are missing, presets that they name."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts

PROGRAMS = sorted((Path(__file__).parents[1] / "programs").glob("*.json"))


def statements(body: list[Any]) -> Iterator[tuple[list[Any], int]]:
    """Every statement, as a list and its place there."""
    for at, one in enumerate(body):
        yield body, at
        for value in one.values():
            if isinstance(value, list) and value and isinstance(value[0], dict) and ("do" in one or "else" in one):
                yield from statements(value)


def load(data: Any, path: Path) -> ts.Program:
    path.write_text(json.dumps(data))
    return ts.Program.load(path)


def bodies(data: dict[str, Any]) -> Iterator[tuple[list[Any], int]]:
    yield from statements(data["do"])
    for function in data.get("functions", []):
        yield from statements(function["do"])


WRONG = {"load0": "laod0", "store0": "stoer0", "array0": "aray0", "vector0": "vectr0", "permute0": "premute0"}


def test_every_program_is_there():
    assert len(PROGRAMS) == 8


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_misspelled_queue_is_refused_with_the_nearest(path, tmp_path):
    data = json.loads(path.read_text())
    tried = set()
    for number, (body, at) in enumerate(list(bodies(data))):
        queue, kinds = body[at].get("queue", ""), {"load", "store", "mma", "vector", "permute"} & set(body[at])
        if not kinds or queue not in WRONG or (queue, *kinds) in tried:
            continue
        tried.add((queue, *kinds))
        changed = copy.deepcopy(data)
        own, place = list(bodies(changed))[number]
        own[place]["queue"] = WRONG[queue]
        with pytest.raises(ts.UserError, match=rf"{WRONG[queue]}.*Did you mean '{queue}'"):
            load(changed, tmp_path / "p.json")
    assert tried


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_missing_wait_is_found_when_the_program_is_read(path, tmp_path):
    data = json.loads(path.read_text())
    assert load(data, tmp_path / "p.json").operations > 0
    waits = [number for number, (body, at) in enumerate(list(bodies(data))) if "wait" in body[at]]
    assert waits
    missed = []
    for number in waits:
        changed = copy.deepcopy(data)
        body, at = list(bodies(changed))[number]
        wait = body.pop(at)
        try:
            load(changed, tmp_path / "p.json")
        except ts.UserError:
            continue
        missed.append(wait)
    assert not missed


def test_a_file_that_names_a_preset_needs_no_machine(tmp_path):
    for machine in ("edge-8", "tpu-v3"):
        program = ts.compile("mlp", machine)
        program.save(tmp_path / "m.json")
        found = ts.Program.load(tmp_path / "m.json")
        assert found.machine is not None and found.machine.name == machine
        assert ts.simulate(found).cycles == ts.simulate(program).cycles
        assert ts.simulate(found, "tpu-v4" if machine == "tpu-v3" else machine).cycles > 0
    data = json.loads((tmp_path / "m.json").read_text())
    other = load({**data, "machine": "nobody's"}, tmp_path / "n.json")
    with pytest.raises(ts.UserError, match="machine="):
        ts.simulate(other)


@pytest.mark.parametrize(
    ("graph", "machine"),
    [("mlp", "tpu-v3"), ("mlp", "edge-8"), ("mlp", "mesh-16"), ("mlp", "gemmini-16"), ("mlp", "chiplet-2"),
     ("resnet18", "tpu-v3"), ("resnet18", "gemmini-16")],
)  # fmt: skip
def test_what_is_compiled_loads_from_its_json(graph, machine, tmp_path):
    quantized = ts.quantize(graph, "i8") if machine == "gemmini-16" else graph
    program = ts.compile(quantized, machine)
    program.save(tmp_path / "p.json")
    assert ts.simulate(ts.Program.load(tmp_path / "p.json")).cycles == ts.simulate(program).cycles
