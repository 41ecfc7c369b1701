"""One program over several cores: equal to the reference, without races, in every order."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import choose_mapping, random_case, random_machine
from tilesim import _core, execution


def check_random_graphs(cores: int, first: int, rounds: int) -> None:
    seen: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + rounds):
        random = np.random.default_rng(seed)
        case = random_case(random)
        machine = random_machine(random, case).replace({"core.count": cores})
        if random.integers(4) == 0:
            machine = machine.replace({"core.kernel_barrier": True})
        mapping = choose_mapping(random, case)
        try:
            program = ts.compile(case.graph, machine, mapping=mapping)
        except ts.UserError as error:
            assert "fit" in str(error) or "not legal" in str(error), (seed, error)
            seen["no tile fits"] += 1
            continue
        assert ts.verify(program, seed=seed).ok, (seed, case.family)
        arrays = execution._arrays(program, None, seed)
        try:
            wanted = _core.execute(program.core, arrays, find_races=True)
        except ts.UserError as error:
            raise AssertionError((seed, case.family)) from error
        outputs = _core.execute(program.core, arrays, order="random", seed=seed)
        assert all(outputs[name].tobytes() == array.tobytes() for name, array in wanted.items()), (seed, case.family)
        seen["compiled"] += 1
        alone = sum("the first core runs it alone" in note for note in program.notes)
        seen["kernels on one core"] += alone
        seen[f"divided {case.family}"] += alone == 0
    print(cores, dict(seen))
    assert seen["compiled"] > rounds / 2


@pytest.mark.parametrize("cores", [2, 3, 4, 16])
def test_random_graphs_equal_the_reference(cores: int) -> None:
    check_random_graphs(cores, 100 * cores, 12)


@pytest.mark.slow
@pytest.mark.parametrize("cores", [2, 3, 4, 16])
def test_many_random_graphs_equal_the_reference(cores: int) -> None:
    check_random_graphs(cores, 10_000 * cores, 150)
