"""Addresses by lifetime: nothing that lives at one time shares bytes, and little more is taken than lives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim
from support.program_checks import fenced
from support.random_graphs import random_case, random_machine


def own_rows(program: ts.Program) -> list[dict[str, Any]]:
    """Of the memory: tests of this file leave values there; what stays in scratchpads is `test_residency.py`'s."""
    rows = program.memory_plan().table().rows
    return [row for row in rows if not row["alias_of"] and row["level"] == "memory"]


def check(program: ts.Program) -> None:
    """By hand from the rows: apart in time or in addresses, and the peak over every kernel."""
    plan, rows = program.memory_plan(), own_rows(program)
    for i, a in enumerate(rows):
        assert 0 <= a["first"] <= a["last"] < plan.kernels
        assert a["address"] + a["bytes"] <= plan.peak_bytes["memory"]
        for b in rows[:i]:
            together = a["first"] <= b["last"] and b["first"] <= a["last"]
            meet = a["address"] < b["address"] + b["bytes"] and b["address"] < a["address"] + a["bytes"]
            assert not (together and meet), (a, b)
    assert program.machine is not None
    granule = int(str(program.machine.get("memory.burst_bytes")).removesuffix(" B"))
    sizes = [-(-row["bytes"] // granule) * granule for row in rows]
    places = list(zip(sizes, rows, strict=True))
    live = max(sum(size for size, row in places if row["first"] <= k <= row["last"]) for k in range(plan.kernels))
    assert live == plan.live_bytes["memory"] <= plan.peak_bytes["memory"]
    # What a function makes lies at one address in all its calls, whatever lives around each of them.
    names = [row["tensor"] for row in rows]
    fixed = {row["tensor"]: size for size, row in places if names.count(row["tensor"]) > 1}
    assert plan.peak_bytes["memory"] <= 1.1 * live + sum(fixed.values())
    owners = {row["tensor"]: row for row in rows}
    for row in program.memory_plan().table().rows:
        if row["alias_of"] and row["level"] == "memory":
            assert owners[row["alias_of"]]["address"] == row["address"]


def same_bits(program: ts.Program, seed: int) -> None:
    wanted = ts.execute(program, seed=seed)
    for order in ("text", "early_loads", "random"):
        found = ts.execute(program, seed=seed, order=order, poison=True)
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{name}, {order}")


def random_program(seed: int) -> ts.Program | None:
    random = np.random.default_rng(seed)
    case = random_case(random)
    machine = random_machine(random, case)
    cores = int(random.choice([1, 1, 2, 3]))
    machine = machine.replace({"core.count": cores})
    machine = fenced(machine) if seed % 2 else machine
    try:
        fuse = ["all", "none"][int(random.integers(2))]
        return ts.compile(case.graph, machine, fuse=fuse, residency=["auto", "none"][seed // 2 % 2], cores=cores)
    except ts.UserError as error:
        assert "fit" in str(error), error  # not one element fits the smallest scratchpads
        return None


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    program = random_program(seed)
    if program is not None:
        check(program)
        same_bits(program, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 1000))
def test_more_random_programs(seed: int) -> None:
    test_random_programs(seed)


def chain(length: int, read_at_the_end: bool = False) -> ts.Graph:
    """Steps that no kernel joins: every one transposes what the one before made."""
    b = ts.GraphBuilder("chain")
    x = first = b.apply("tanh", b.input("x", (128, 128)), name="first")
    for i in range(length):
        x = b.matmul(x, b.input(f"w{i}", (128, 128)), name=f"step{i}")
    b.output(x + first if read_at_the_end else x, "y")
    return b.build()


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
def test_a_chain_needs_two_temporaries(machine: str) -> None:
    """The operand and the result of a step live together, nothing before them; a third where all are read again."""
    tensor = 128 * 128 * 4
    for length in (6, 12):
        for again in (False, True):
            program = ts.compile(chain(length, again), machine, fuse="none", lowering="best", residency="none")
            check(program)
            given = tensor * (1 + length)
            peak = program.memory_plan().peak_bytes["memory"] - given
            overlapping = 2 if not ts.Machine.load(machine).get("core.kernel_barrier") else 0
            assert 2 * tensor <= peak <= (3 + again + overlapping) * tensor
            assert sum(size for size, _ in program.footprint) - given >= length * tensor
            same_bits(program, 1)


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3"])
def test_the_order_of_kernels_lowers_the_peak(machine: str) -> None:
    """Six large values, all made before the first is read: one after the other, at most those live that overlap."""
    b = ts.GraphBuilder("wide")
    x = b.input("x", (64, 64))
    large = [b.matmul(x, b.input(f"w{i}", (64, 4096)), name=f"large{i}") for i in range(6)]
    small = [b.matmul(value, b.input(f"v{i}", (4096, 8)), name=f"small{i}") for i, value in enumerate(large)]
    y = small[0]
    for value in small[1:]:
        y = y + value
    b.output(y, "y")
    program = ts.compile(b.build(), machine, lowering="best", fuse="none", residency="none")
    check(program)
    same_bits(program, 1)
    plan = program.memory_plan()
    spans = sorted((row["first"], row["last"]) for row in own_rows(program) if row["tensor"].startswith("large"))
    tensor = 64 * 4096 * 4
    given = sum(row["bytes"] for row in own_rows(program) if row["tensor"][0] in "wvx")
    assert plan.peak_bytes["memory"] <= given + 4 * tensor
    assert all(later[0] > earlier[0] + 1 for earlier, later in itertools.pairwise(spans))


def test_states_keep_their_order() -> None:
    """Who reads the old value is before who overwrites it, whatever that does to the peak."""
    b = ts.GraphBuilder("state")
    cache, new = b.input("cache", (64, 64)), b.input("new", (8, 64))
    old = [b.matmul(cache, b.input(f"w{i}", (64, 512)), name=f"old{i}") for i in range(4)]
    position = b.input("at", (), "i32")
    updated = b.op("dynamic_update", cache, new, position, b.scalar(0, "i32"), name="updated")
    for i, value in enumerate(old):
        b.output(b.matmul(value, b.input(f"v{i}", (512, 8)), name=f"small{i}"), f"y{i}")
    b.output(updated, "cache.next")
    b.alias(4, 0)
    graph = b.build()
    for machine in ("edge-8", "tpu-v3"):
        program = ts.compile(graph, machine, lowering="best")
        assert ts.verify(program).ok
        inputs = {row["name"]: np.ones(tuple(row["shape"]), np.float32) for row in graph.core.inputs}
        inputs["at"] = np.array(3, np.int32)
        found = ts.execute(program, inputs, poison=True, order="early_loads")
        assert all((found[f"y{i}"] == 64 * 512).all() for i in range(4))


def test_lifetimes_that_touch_do_not_share() -> None:
    """A kernel's operand, read for the last time, and its result are both taken while it runs."""
    program = ts.compile(chain(4), "edge-8", fuse="none", residency="none")
    rows = {row["tensor"]: row for row in own_rows(program) if "step" in row["tensor"] or row["tensor"] == "first"}
    for a in rows.values():
        for b in rows.values():
            if a is not b and a["last"] == b["first"]:
                assert a["address"] + a["bytes"] <= b["address"] or b["address"] + b["bytes"] <= a["address"]


def test_several_cores_and_calls() -> None:
    b = ts.GraphBuilder("calls")
    f = b.function("block")
    v = f.input("v", (64, 64))
    inner = f.matmul(f.apply("tanh", v), f.input("w", (64, 64)))
    f.output(f.matmul(inner, inner, name="square"), "y")
    x = b.input("x", (64, 64))
    for i in range(4):
        x = b.call(f, x, b.input(f"w{i}", (64, 64)), name=f"call{i}")
    b.output(x, "y")
    for machine in ("edge-8", "mesh-16"):
        program = ts.compile(b.build(), machine, residency="none")
        check(program)
        same_bits(program, 3)
        inside = [row for row in own_rows(program) if row["tensor"].startswith("block.")]
        assert len(inside) % 4 == 0
        assert len({(row["tensor"], row["address"]) for row in inside}) == len({row["tensor"] for row in inside})


def test_capacity_counts_the_peak() -> None:
    """Twelve temporaries that share bytes fit where they do not side by side."""
    own = chain(12)
    program = ts.compile(own, "edge-8", fuse="none", residency="none")
    peak, apart = program.peak_bytes, sum(size for size, _ in program.footprint)
    assert peak < apart
    fits, less = (ts.Machine.load("edge-8").replace({"memory.capacity": f"{n} B"}) for n in (peak, peak - 1))
    ts.compile(own, fits, fuse="none", residency="none", capacity="error")
    with pytest.raises(ts.UserError, match="exceed the machine's memory"):
        ts.compile(own, less, fuse="none", residency="none", capacity="error")


def test_a_saved_program_has_the_same_plan(tmp_path: Any) -> None:
    program = ts.compile(chain(5), "edge-8", fuse="none")
    program.save(tmp_path / "p.tsim")
    again = ts.Program.load(tmp_path / "p.tsim")
    assert again.memory_plan().table().rows == program.memory_plan().table().rows


def test_the_command_shows_the_plan() -> None:
    done = tilesim("run", "mlp", "--machine", "edge-8", "--explain", "memory")
    program = ts.compile(ts.models.mlp(), "edge-8")
    assert done.returncode == 0, done
    assert f"{program.peak_bytes / 1e6:,.2f} MB at the peak" in done.stdout
    largest = max(own_rows(program), key=lambda row: (row["bytes"], row["tensor"]))
    assert f"{largest['bytes']:,}" in done.stdout


@pytest.mark.parametrize("barrier", [False, True])
@pytest.mark.parametrize("cores", [1, 3])
def test_neighbours_that_overlap_are_both_live(cores: int, barrier: bool) -> None:
    """A core that is done with its part begins the next branch, which waits for nothing, while others still read."""
    b = ts.GraphBuilder("branches")
    for i in range(4):
        inner = b.matmul(b.input(f"x{i}", (30, 24)), b.input(f"v{i}", (24, 30)), name=f"first{i}")
        b.output(b.matmul(inner, inner, name=f"second{i}"), f"y{i}")
    machine = fenced(ts.Machine.load("edge-8").replace({"core.count": cores}), barrier)
    program = ts.compile(b.build(), machine, fuse="none", residency="none", cores=cores)
    check(program)
    same_bits(program, 2)
    spans = {row["tensor"]: (row["first"], row["last"]) for row in own_rows(program)}
    for i in range(3):
        first, last = spans[f"first{i}"]
        if cores == 1:
            assert (first, last) == (2 * i, 2 * i + (1 if barrier else 2))
        else:  # nothing tells a core that is behind another one which branch that reads
            assert first == 2 * i and last >= 2 * i + (1 if barrier else 2)


@pytest.mark.parametrize("trips", [1, 2, 3, 6, 8])
@pytest.mark.parametrize("unroll", [1, 2])
def test_free_bytes_of_loops_are_poisoned_and_nobody_reads_them(trips: int, unroll: int) -> None:
    """A body is called by the loop and behind it: which kernel runs is told by the calls under way."""
    jnp, lax = pytest.importorskip("jax.numpy"), pytest.importorskip("jax.lax")

    def scan(xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            return state * 0.5 + x[:, None] * x[None, :], (state * x[None, :]).sum(-1)

        return lax.scan(step, jnp.zeros((7, 7)), xs, unroll=unroll)

    xs = np.random.default_rng(trips).normal(size=(trips, 7)).astype(np.float32)
    state, sums = np.zeros((7, 7), np.float32), []
    for x in xs:
        sums.append((state * x[None, :]).sum(-1))
        state = state * np.float32(0.5) + x[:, None] * x[None, :]
    graph = ts.from_jax(scan, xs)
    for machine, fuse in (("edge-8", "none"), ("edge-8", "all"), ("tpu-v3", "none")):
        program = ts.compile(graph, machine, fuse=fuse)
        got = list(ts.execute(program, [xs], poison=True).values())
        np.testing.assert_allclose(got[0], state, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got[1], np.stack(sums), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("machine", ["mesh-16", "chiplet-2", "tpu-v3-chip"])
@pytest.mark.parametrize("sizes", [(16, 32, 32, 4, 1), (130, 128, 7, 4, 2)])
def test_values_beside_kernels_whose_addresses_data_tell(sizes: tuple[int, ...], machine: str) -> None:
    program = ts.compile(ts.workloads.experts(*sizes), machine, lowering="best")
    assert ts.verify(program).ok


def test_tiny_tensors_take_little_more_than_their_bytes() -> None:
    """An unrolled recurrence: values of one burst of 64 bytes, not of all that one channel has in a row."""
    b = ts.GraphBuilder("scan", dtype="f32")
    h, gate = b.input("h", [16]), b.input("gate", [16])
    for i in range(12):
        h = b.apply("tanh", h * gate + b.input(f"x{i}", [16]))
        b.output(h, f"y{i}")
    program = ts.compile(b.build(), "edge-8", fuse="none")
    rows = own_rows(program)
    assert program.memory_plan().peak_bytes["memory"] <= sum(row["bytes"] for row in rows)
    assert all(row["address"] % 64 == 0 for row in rows)
