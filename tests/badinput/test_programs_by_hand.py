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
        for key in ("do", "then", "else"):
            yield from statements(one.get(key, []))


def load(data: Any, path: Path) -> ts.Program:
    path.write_text(json.dumps(data))
    return ts.Program.load(path)


def bodies(data: dict[str, Any]) -> Iterator[tuple[list[Any], int]]:
    yield from statements(data["do"])
    for function in data.get("functions", []):
        yield from statements(function["do"])


WRONG = {"load": "laod", "store": "stoer", "mma": "mna", "vector": "vectro", "permute": "premute"}


def test_every_program_is_there():
    assert len(PROGRAMS) == 8


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_misspelled_queue_is_refused_with_the_nearest(path, tmp_path):
    data = json.loads(path.read_text())
    tried = set()
    for number, (body, at) in enumerate(list(bodies(data))):
        queue, kinds = body[at].get("queue", ""), set(WRONG) & set(body[at])
        if not kinds or queue in tried:
            continue
        tried.add(queue)
        stem = queue.rstrip("0123456789")
        wrong = WRONG[stem] + queue.removeprefix(stem)
        changed = copy.deepcopy(data)
        own, place = list(bodies(changed))[number]
        own[place]["queue"] = wrong
        near = rf".*Did you mean '{queue}'" if queue in (stem, f"{stem}0") else ""
        with pytest.raises(ts.UserError, match=rf"cannot go to queue '{wrong}'{near}"):
            load(changed, tmp_path / "p.json")
    assert len(tried) >= 3


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
    # Which bytes are touched follows from data: that is for ts.execute(..., find_races=True).
    assert len(missed) == (len(waits) if load(data, tmp_path / "p.json").reads_tensors else 0)


@pytest.mark.parametrize("kind", WRONG)
def test_work_goes_to_queues_of_its_own_sort(kind, tmp_path):
    other = "store0" if kind != "store" else "load0"
    for path in PROGRAMS:
        data = json.loads(path.read_text())
        own = [body[at] for body, at in bodies(data) if kind in body[at]]
        if own:
            own[0]["queue"] = other
            with pytest.raises(ts.UserError, match=rf"a '{kind}' cannot go to queue '{other}'"):
                load(data, tmp_path / "p.json")
            return
    assert kind == "permute", "no program has one"


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


@pytest.mark.few(2)
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
