"""Random chains of reductions and what goes with them, against numpy: axes of extent 1 and 0, the same axis twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.random_chains import KINDS, Chain, random_chain, random_pair

MACHINES = ["edge-8", "gemmini-16", "mesh-16", "tpu-v3"]


def check_values(chain: Chain, got: dict[str, Any], what: Any) -> None:
    for name, known in chain.outputs.items():
        mine = np.asarray(got[name])
        assert mine.shape == known.shape, (what, name, chain.steps)
        if mine.dtype != np.float32:
            np.testing.assert_array_equal(mine, known, str((what, name, chain.steps)))
            continue
        largest = max(1.0, float(np.nanmax(np.abs(known), initial=0)))
        bound = (2e-5 * (1 + len(chain.steps)) + chain.roundings) * largest
        np.testing.assert_allclose(mine, known, 1e-4, bound, err_msg=str((what, name, chain.steps)))


def check(seed: int, machine: str, zeros: bool) -> None:
    chain = random_chain(np.random.default_rng(seed), zeros)
    inputs = list(chain.inputs.values())
    check_values(chain, ts.reference(chain.graph, inputs), (seed, "reference"))
    if chain.multiplies and machine == "gemmini-16":  # its arrays take i8 only
        return
    program = ts.compile(chain.graph, machine)
    if not (chain.multiplies and machine == "tpu-v3"):  # products round to bf16
        check_values(chain, ts.execute(program, inputs), (seed, machine))
    assert ts.verify(program).ok, (seed, machine, chain.steps)
    ts.simulate(program)


@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param([*range(10, 60), *range(1000, 6000)], marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("zeros", [False, True], ids=["ones", "zeros"])
def test_random_chains(machine: str, zeros: bool, seeds: list[int] | range) -> None:
    for seed in seeds:
        check(seed, machine, zeros)


OPTIONS: list[dict[str, str]] = [
    {"mapping": mapping, "lowering": lowering}
    for mapping in ("profile", "cost", "heuristic")
    for lowering in ("native", "best")
]


def compiled_alike(machine: str, options: dict[str, str]) -> dict[str, str]:
    return options if ts.Machine.load(machine).states("lowering") else {**options, "lowering": "best"}


def check_made(chain: Chain | None, machine: str, options: dict[str, str], note: Any, small: bool = False) -> str:
    """What came out: "equal", or why it was left out."""
    if chain is None:
        return "does not fit"
    note, inputs = (note, machine, options), list(chain.inputs.values())
    target = ts.Machine.load(machine)
    if small:
        target = target.replace({"core.scratchpad.bytes": "8 KiB"})
    try:
        program = ts.compile(chain.graph, target, **compiled_alike(machine, options))
    except ts.Unsupported:
        return "not on this machine"
    except ts.UserError as error:
        assert small and "fit" in str(error), (note, chain.steps)
        return "not in a small scratchpad"
    check_values(chain, ts.execute(program, inputs, numerics="exact" if chain.multiplies else "machine"), note)
    outcome = ts.verify(program)
    assert outcome.ok, (note, chain.steps, outcome)
    return "equal"


def check_pair(seed: int) -> str:
    """The seed says which kinds, machine and options."""
    kinds, random = list(KINDS), np.random.default_rng(seed)
    first, second = kinds[seed % len(kinds)], kinds[seed // len(kinds) % len(kinds)]
    machine, options = str(random.choice(ts.Machine.names())), OPTIONS[int(random.integers(len(OPTIONS)))]
    chain = random_pair(random, first, second)
    return check_made(chain, machine, options, (seed, first, second), small=random.integers(4) == 0)


def test_pairs_of_operations() -> None:
    """Every kind before and behind every kind; as many as take two seconds, spread over all of them."""
    assert sum(check_pair(seed) == "equal" for seed in range(3, len(KINDS) ** 2, 31)) > 25


@pytest.mark.few(2)
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "gemmini-16", "sigma-256", "tpu-v3"])
def test_every_buffer_has_a_layout_of_its_own(machine: str) -> None:
    """Axes of 1, 2, 3 and 5 elements over lanes and sublanes, in another order before and behind each kind."""
    equal = 0
    for number, kind in enumerate(KINDS):
        random = np.random.default_rng(number)
        options = OPTIONS[number % len(OPTIONS)]
        chain = random_pair(random, "transpose", kind, extents=(1, 2, 3, 5))
        equal += check_made(chain, machine, options, kind) == "equal"
    assert equal > len(KINDS) * 3 / 4


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 20_000, 500))
def test_all_pairs_of_operations(first: int) -> None:
    for seed in range(first, first + 500):
        check_pair(seed)


REDUCED_TWICE: dict[str, Any] = {
    "maximum, sum": lambda b, x: b.op(
        "reduce", b.op("reduce", x, dims=[1], combiner="maximum", keep_dims=True), dims=[1], combiner="add"
    ),
    "sum, mean, sum": lambda b, x: b.op(
        "reduce",
        b.op(
            "reduce",
            b.op("reduce", x, dims=[1], combiner="add", keep_dims=True),
            dims=[1],
            combiner="mean",
            keep_dims=True,
        ),
        dims=[1],
        combiner="add",
    ),
    "mean, softmax": lambda b, x: b.op(
        "softmax", b.op("reduce", x, dims=[1], combiner="mean", keep_dims=True), dim=1
    ).reshape(4),
}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", REDUCED_TWICE)
def test_reductions_of_reduced_axes(name: str, machine: str) -> None:
    b = ts.GraphBuilder("twice")
    b.output(REDUCED_TWICE[name](b, b.input("x", [4, 33])), "y")
    x = np.random.default_rng(0).integers(-64, 64, (4, 33)).astype(np.float32)
    wanted = {"maximum, sum": x.max(1), "sum, mean, sum": x.sum(1), "mean, softmax": np.ones(4)}[name]
    np.testing.assert_array_equal(ts.execute(ts.compile(b.build(), machine), [x])["y"], wanted)
