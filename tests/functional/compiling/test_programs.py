"""The eight programs written by hand: their results, every legal order, races, and mutants."""

from __future__ import annotations

import numpy as np
import pytest

from support.hand_programs import CASES, FOLDER, load
from tilesim import _core
from tilesim.base.errors import UserError


def test_every_program_has_a_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_result(name: str) -> None:
    """Text order computes what numpy computes."""
    inputs, expected, tolerance = CASES[name]()
    outputs = _core.execute(load(name), inputs)
    assert outputs.keys() == expected.keys()
    for key, wanted in expected.items():
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(outputs[key].astype(np.float64) / scale, wanted / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_every_order_gives_the_same_bits(name: str) -> None:
    program, (inputs, _, _) = load(name), CASES[name]()
    wanted = _core.execute(program, inputs)
    for order, seed in [("early_loads", 0), *(("random", seed) for seed in range(24))]:
        outputs = _core.execute(program, inputs, order=order, seed=seed)
        for key, array in wanted.items():
            assert array.tobytes() == outputs[key].tobytes(), (order, seed, key)


@pytest.mark.parametrize("name", CASES)
def test_no_race_and_every_mutant_is_reported(name: str) -> None:
    """The program is free of races, and none of its waits, commits and releases can be left out."""
    program, (inputs, _, _) = load(name), CASES[name]()
    program.check()
    _core.execute(program, inputs, find_races=True)
    mutants = _core.mutants(program)
    assert len(mutants) >= 8
    unnoticed = []
    for mutant, deleted in mutants:
        try:
            _core.execute(mutant, inputs, find_races=True)
            unnoticed.append(deleted)
        except UserError:
            pass
    assert unnoticed == []
    print(f"{name}: {len(mutants)} mutants reported")


@pytest.mark.parametrize("name", CASES)
def test_json_round_trip(name: str) -> None:
    text = load(name).to_json()
    assert _core.Program.from_json(text).to_json() == text
