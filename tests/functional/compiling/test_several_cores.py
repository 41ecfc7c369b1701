"""One program over several cores: equal to the reference, without races, in every order."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import tilesim as ts
from support.lowering_cases import CASES
from support.program_checks import fenced, unnoticed_mutants
from support.random_graphs import choose_mapping, random_case, random_machine
from tilesim import _core
from tilesim.graph import Tensor
from tilesim.timing import execution


def check_random_graphs(cores: int, first: int, rounds: int) -> None:
    seen: collections.Counter[str] = collections.Counter()
    for seed in range(first, first + rounds):
        random = np.random.default_rng(seed)
        case = random_case(random)
        machine = random_machine(random, case).replace({"core.count": cores})
        if random.integers(4) == 0:
            machine = fenced(machine)
        mapping = choose_mapping(random, case)
        try:
            program = ts.compile(case.graph, machine, mapping=mapping, cores=cores)
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


@pytest.mark.parametrize("base", ["edge-8", "tpu-v3"])
def test_every_lowering_equals_the_reference_on_four_cores(base: str) -> None:
    scratchpad = "64 KiB" if base == "edge-8" else "256 KiB"
    machine = ts.Machine.load(base).replace({"core.count": 4, "core.scratchpad.bytes": scratchpad})
    divided, cases = 0, list(CASES.items())[base == "tpu-v3" :: 2]  # each on one of them
    for name, build in cases:
        try:
            program = ts.compile(build(), machine, cores=4)
        except ts.UserError as error:
            assert "fit" in str(error), (name, error)
            continue
        assert ts.verify(program).ok, name
        try:
            _core.execute(program.core, execution._arrays(program, None, 0), find_races=True)
        except ts.UserError as error:
            raise AssertionError(name) from error
        assert ts.simulate(program).cycles > 0, name
        divided += not any("the first core runs it alone" in note for note in program.notes)
    assert divided > len(cases) / 2


def test_no_synchronization_between_cores_can_be_left_out() -> None:
    b = ts.GraphBuilder("chain")
    x = b.input("x", [20, 48])
    hidden = b.apply("relu", b.linear(x, 40, name="up"))
    b.output(b.linear(hidden.softmax(-1), 24, name="down") + b.linear(x, 24, name="skip"), "y")
    machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "16 KiB", "core.count": 2})
    program = ts.compile(b.build(), machine, residency="none", cores=2)
    arrays = execution._arrays(program, None, 0)
    assert len(_core.mutants(program.core)) > 20 and unnoticed_mutants(program, arrays) == []


@pytest.mark.parametrize("cores", [2, 3, 4])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_loops_of_the_graph_run_on_all_cores(cores: int, trips: int) -> None:
    """Kernels of every trip are divided; each trip waits for what other cores stored in the one before."""
    b = ts.GraphBuilder("loop")
    more, step = b.function("more"), b.function("step")
    shapes: dict[str, tuple[list[int], str | None]] = {"i": ([], "i32"), "s": ([24, 40], None), "w": ([40, 40], None)}
    state = {key: more.input(key, shape, dtype) for key, (shape, dtype) in shapes.items()}
    more.output(more.apply("less", state["i"], more.scalar(trips, "i32")), "on")
    state = {key: step.input(key, shape, dtype) for key, (shape, dtype) in shapes.items()}
    step.output(state["i"] + 1, "i.next")
    step.output((step.matmul(state["s"], state["w"]) * 0.1).softmax(-1), "s.next")
    step.output(state["w"], "w.next")
    first = [b.scalar(0, "i32"), b.apply("exp", b.input("x", [24, 40])), b.input("w", [40, 40])]
    found = b.core.op("while", [t.value for t in first], {}, "loop", 3, ["more", "step"])
    b.output(Tensor(b, found[0]), "count")
    b.output(b.apply("exp", Tensor(b, found[1])), "y")
    machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "16 KiB", "core.count": cores})
    program = ts.compile(b.build(), machine, cores=cores)
    assert ts.verify(program).ok
    wanted = ts.reference(program.graph, machine=machine)
    arrays = execution._arrays(program, None, 0)
    found_races = _core.execute(program.core, arrays, find_races=True)
    for name, value in wanted.items():
        np.testing.assert_allclose(found_races[name], value, rtol=1e-4, atol=1e-6)
    shuffled = _core.execute(program.core, arrays, order="random", seed=1)
    assert all(shuffled[name].tobytes() == value.tobytes() for name, value in found_races.items())
    work = [row["multiply_adds"] for row in ts.simulate(program).cores().rows]
    assert sum(work) == trips * 24 * 40 * 40
    assert trips == 0 or sorted(work)[-2] > 0


@pytest.mark.slow
@pytest.mark.parametrize("cores", [2, 3, 4, 16])
def test_many_random_graphs_equal_the_reference(cores: int) -> None:
    check_random_graphs(cores, 10_000 * cores, 150)


def test_the_chosen_program_has_the_weights_of_its_graph() -> None:
    """A small graph takes the fastest of several programs, some of which are lowered for a slower memory."""
    torch = pytest.importorskip("torch")

    class Sampled(torch.nn.Module):
        def forward(self, x, grid):  # type: ignore[no-untyped-def]
            return torch.nn.functional.grid_sample(x, grid, "nearest", "border", False)

    graph = ts.from_torch(Sampled(), (torch.randn(2, 3, 4, 11), torch.randn(2, 7, 5, 2)))
    for cores in (None, 1):
        program = ts.compile(graph, "chiplet-2", cores=cores)
        assert set(program.weights()) == {row["name"] for row in program.core.tensors() if row["role"] == "weight"}
        assert ts.verify(program).ok
