"""Counted loops along axes that all trips share are one kernel: against numpy, beside loops that call their body."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import few_cores

jax = pytest.importorskip("jax")
jnp = jax.numpy

MACHINES = ["tpu-v4", "edge-8", "mesh-16", "chiplet-2"]


def selective(u: Any, dt: Any, b: Any, c: Any, a: Any, h: Any) -> Any:
    """Mamba's scan."""

    def step(state: Any, x: Any) -> Any:
        ut, dtt, bt, ct = x
        state = jnp.exp(dtt[:, None] * a) * state + (dtt * ut)[:, None] * bt[None, :]
        return state, (state * ct[None, :]).sum(-1)

    return jax.lax.scan(step, h, (u, dt, b, c))


def selective_oracle(u: Any, dt: Any, b: Any, c: Any, a: Any, h: Any) -> Any:
    ys = []
    for t in range(len(u)):
        h = np.exp(dt[t][:, None] * a) * h + (dt[t] * u[t])[:, None] * b[t]
        ys.append(h @ c[t])
    return [h, np.stack(ys)]


def linear_attention(q: Any, k: Any, v: Any, s: Any) -> Any:
    def step(state: Any, x: Any) -> Any:
        qt, kt, vt = x
        state = state * 0.97 + kt[:, :, None] * vt[:, None, :]
        return state, jnp.einsum("hd,hde->he", qt, state, precision="highest")

    return jax.lax.scan(step, s, (q, k, v))


def linear_attention_oracle(q: Any, k: Any, v: Any, s: Any) -> Any:
    ys = []
    for t in range(len(q)):
        s = s * np.float32(0.97) + k[t][:, :, None] * v[t][:, None, :]
        ys.append((q[t][:, :, None] * s).sum(1))
    return [s, np.stack(ys)]


def backwards(x: Any, h: Any) -> Any:
    return jax.lax.scan(lambda state, xt: (state * 0.5 + xt, state - xt), h, x, reverse=True)


def backwards_oracle(x: Any, h: Any) -> Any:
    ys = np.empty_like(x)
    for t in reversed(range(len(x))):
        ys[t] = h - x[t]
        h = h * np.float32(0.5) + x[t]
    return [h, ys]


def exchanged(x: Any, a: Any, b: Any) -> Any:
    """Each state is made of the other's old value, one of them through a sum."""

    def step(states: Any, xt: Any) -> Any:
        one, other = states
        return (other * 0.5 + xt, one - jnp.abs(xt).sum(-1, keepdims=True)), one * other

    return jax.lax.scan(step, (a, b), x)


def exchanged_oracle(x: Any, a: Any, b: Any) -> Any:
    ys = []
    for xt in x:
        ys.append(a * b)
        a, b = b * np.float32(0.5) + xt, a - np.abs(xt).sum(-1, keepdims=True)
    return [a, b, np.stack(ys)]


def running_softmax(x: Any, m: Any, s: Any) -> Any:
    def step(states: Any, xt: Any) -> Any:
        most, total = states
        new = jnp.maximum(most, xt.max(-1))
        total = total * jnp.exp(most - new) + jnp.exp(xt - new[:, None]).sum(-1)
        return (new, total), total

    return jax.lax.scan(step, (m, s), x)


def running_softmax_oracle(x: Any, m: Any, s: Any) -> Any:
    ys = []
    for xt in x:
        new = np.maximum(m, xt.max(-1))
        s = s * np.exp(m - new) + np.exp(xt - new[:, None]).sum(-1)
        m = new
        ys.append(s)
    return [m, s, np.stack(ys)]


def shifted(x: Any, a: Any, b: Any) -> Any:
    """A shift register: a state takes another's old value as it is."""
    return jax.lax.scan(lambda s, xt: ((xt, s[0]), s[1]), (a, b), x)


def shifted_oracle(x: Any, a: Any, b: Any) -> Any:
    ys = []
    for xt in x:
        ys.append(b)
        a, b = xt, a
    return [a, b, np.stack(ys)]


def sizes(name: str, r: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    trips = int(r.choice([1, 2, 3, 7, 65, 130]))
    c, n = int(r.choice([1, 5, 128, 200, 301])), int(r.choice([1, 4, 16]))

    def new(*shape: int) -> np.ndarray[Any, Any]:
        return r.standard_normal(shape).astype(np.float32)

    if name == "selective":
        return [new(trips, c), abs(new(trips, c)), new(trips, n), new(trips, n), -abs(new(c, n)), new(c, n)]
    if name == "linear_attention":
        return [new(trips, 3, n), new(trips, 3, n), new(trips, 3, c), new(3, n, c)]
    if name == "backwards":
        return [new(trips, n, c), new(n, c)]
    if name == "running_softmax":
        return [new(trips, n, c), new(n), abs(new(n))]
    return [new(trips, n, c), new(n, c), new(n, c)]


CASES = {
    "selective": (selective, selective_oracle),
    "linear_attention": (linear_attention, linear_attention_oracle),
    "backwards": (backwards, backwards_oracle),
    "exchanged": (exchanged, exchanged_oracle),
    "running_softmax": (running_softmax, running_softmax_oracle),
    "shifted": (shifted, shifted_oracle),
}


def bodies(program: ts.Program) -> int:
    """Functions of the program: bodies of loops that were not made one kernel."""
    return len(json.loads(program.core.to_json())["functions"])


def check(name: str, machine: str, seed: int) -> bool:
    function, oracle = CASES[name]
    values = sizes(name, np.random.default_rng(seed))
    graph = ts.from_jax(function, *values)
    program = ts.compile(graph, machine, lowering="best")
    found = list(ts.execute(program, values, numerics="exact", find_races=True).values())
    for got, wanted in zip(found, oracle(*values), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-4)
    again = list(ts.execute(program, values, numerics="exact", order="random", seed=seed).values())
    for got, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(got, other)
    assert ts.verify(program, values).ok
    result = ts.simulate(program)
    assert result.seconds >= result.bounds.seconds and result.memory_bytes >= result.bounds.bytes
    through_memory = {"lowering": "best", "residency": "none"}  # as the rule is priced
    taken = ts.simulate(ts.compile(graph, machine, **through_memory))
    apart = ts.simulate(ts.compile(graph, machine, fuse="none", **through_memory))
    assert taken.cycles <= apart.cycles * 1.02
    return bodies(program) == 0


@pytest.mark.singly
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_any_recurrence_is_that_of_numpy(name: str, machine: str) -> None:
    first = 10 * MACHINES.index(machine) + 100 * list(CASES).index(name)
    assert any([check(name, machine, seed) for seed in (first, first + 1)])


@pytest.mark.parametrize("name", ["backwards", "exchanged", "shifted"])
def test_trips_without_long_sums_give_the_same_bits(name: str) -> None:
    """As the table of rules says: only sums may be taken in another order (here of powers of two of small numbers)."""
    function, _ = CASES[name]
    values = [np.round(value * 4) / 4 for value in sizes(name, np.random.default_rng(7))]
    graph = ts.from_jax(function, *values)
    others = [rule for rule in ts.mapping.fusion_rules() if rule != "recurrence"]
    for machine in MACHINES[list(CASES).index(name) % 2 :: 2]:
        one, apart = (ts.compile(graph, few_cores(machine), lowering="best", fuse=rules) for rules in ("all", others))
        assert bodies(one) == 0 and bodies(apart) == 1
        found, wanted = (ts.execute(program, values, numerics="exact") for program in (one, apart))
        for key, value in wanted.items():
            np.testing.assert_array_equal(found[key], value)


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", CASES)
def test_many_recurrences_are_those_of_numpy(name: str, machine: str) -> None:
    for seed in range(1000, 1020):
        check(name, machine, seed)


def test_a_state_that_a_whole_product_renews_is_none() -> None:
    def function(x: Any, w: Any, h: Any) -> Any:
        return jax.lax.scan(lambda state, xt: (jnp.tanh(state @ w + xt), state), h, x)

    r = np.random.default_rng(0)
    values = [r.standard_normal(shape).astype(np.float32) for shape in ((5, 2, 24), (24, 24), (2, 24))]
    program = ts.compile(ts.from_jax(function, *values), "edge-8")
    assert bodies(program) == 1
    assert ts.verify(program, values).ok


def test_positions_that_data_choose_are_none() -> None:
    def function(x: Any, where: Any, h: Any) -> Any:
        def step(state: Any, at: Any) -> Any:
            return state * 0.5 + jax.lax.dynamic_slice(x, (at, 0), (1, 40))[0], state

        return jax.lax.scan(step, h, where)

    r = np.random.default_rng(0)
    x, h = r.standard_normal((9, 40)).astype(np.float32), np.zeros(40, np.float32)
    where = np.array([3, 3, 0, 8], np.int32)
    program = ts.compile(ts.from_jax(function, x, where, h), "edge-8")
    assert bodies(program) == 1
    got = list(ts.execute(program, [x, where, h]).values())
    for at in where:
        h = h * np.float32(0.5) + x[at]
    np.testing.assert_allclose(got[0], h, rtol=1e-6)


def test_what_trips_leave_alone_stays() -> None:
    """A loop that writes rows 2 to 5 of 9: the others keep what was there before."""

    def function(x: Any, y: Any, h: Any) -> Any:
        def step(i: Any, carried: Any) -> Any:
            state, out = carried
            state = state + x[i]
            return state, jax.lax.dynamic_update_slice(out, state[None], (i, 0))

        return jax.lax.fori_loop(2, 6, step, (h, y))

    r = np.random.default_rng(0)
    x, y, h = (r.standard_normal(shape).astype(np.float32) for shape in ((9, 130), (9, 130), (130,)))
    program = ts.compile(ts.from_jax(function, x, y, h), "edge-8")
    assert bodies(program) == 0
    got = list(ts.execute(program, [x, y, h]).values())
    for at in range(2, 6):
        h = h + x[at]
        y[at] = h
    np.testing.assert_allclose(got[0], h, rtol=1e-6)
    np.testing.assert_allclose(got[1], y, rtol=1e-6)


def test_a_scratchpad_that_holds_no_chunk_leaves_the_loop_apart() -> None:
    """Two arrays of 3,200 elements per trip, twice, with two states: more than 32 KiB."""
    values = [np.ones((65, 16, 200), np.float32), np.ones((16, 200), np.float32), np.ones((16, 200), np.float32)]
    machine = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "32 KiB"})
    program = ts.compile(ts.from_jax(exchanged, *values), machine, fuse="all")
    assert bodies(program) == 1
    assert ts.verify(program, values).ok


def test_a_state_that_no_trip_reads_is_not_loaded() -> None:
    def function(x: Any, h: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda i, state: x[i] * 2, h)

    values = [np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((5, 300), (300,))]
    program = ts.compile(ts.from_jax(function, *values), "edge-8", lowering="best")
    assert bodies(program) == 0
    found = ts.execute(program, values, numerics="exact", find_races=True)
    np.testing.assert_array_equal(next(iter(found.values())), values[0][4] * 2)
    assert ts.verify(program, values).ok
    result = ts.simulate(program)
    assert result.memory_bytes >= result.bounds.bytes


def looped(reads: bool, constant: bool, trips: int = 3, shape: tuple[int, int] = (2, 17)) -> ts.Graph:
    """t, the output, is never read. s and t stay, or (`reads`) s becomes |s| and t its softmax."""
    b = ts.GraphBuilder("looped")
    more, step = b.function("more"), b.function("step")
    types = {"i": ((), "i32"), "s": (shape, "f32"), "t": (shape, "f32")}
    before = {name: more.input(name, shape, dtype) for name, (shape, dtype) in types.items()}
    more.output(more.apply("less", before["i"], more.scalar(trips, "i32")), "on")
    old = {name: step.input(name, shape, dtype) for name, (shape, dtype) in types.items()}
    now = step.apply("abs", old["s"]) if reads else old["s"]
    for name, value in (("i", old["i"] + 1), ("s", now), ("t", step.op("softmax", now, dim=1) if reads else old["t"])):
        step.output(value, f"{name}.next")
    s, t = (b.broadcast(b.scalar(0.5), list(shape)) if constant else b.input(name, shape) for name in "st")
    found = b.core.op("while", [b.scalar(0, "i32").value, s.value, t.value], {}, "loop", 3, ["more", "step"])
    b.output(ts.graph.Tensor(b, found[2]), "y")
    return b.build()


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "sigma-256", "tpu-v3"])
def test_loops_without_kernels_and_states_that_are_not_read(machine: str, constant: bool, reads: bool) -> None:
    program = ts.compile(looped(reads, constant), machine)
    assert ts.verify(program).ok
    result = ts.simulate(program)
    assert result.memory_bytes >= ts.lower_bound(looped(reads, constant), machine).bytes


@pytest.mark.parametrize("trips", [0, 1])
@pytest.mark.parametrize("shape", [(1, 130), (130, 1), (9, 64)])
@pytest.mark.parametrize("mapping", ["cost", "heuristic"])
def test_a_loop_copies_a_state_that_other_cores_have_stored(shape: tuple[int, int], trips: int, mapping: str) -> None:
    for reads in (False, True):
        program = ts.compile(looped(reads, True, trips, shape), "mesh-16", mapping=mapping, lowering="best")
        program.core.check_races()
        found = ts.execute(program, [], order="random", seed=1, find_races=True)["y"]
        wanted = np.full(shape, 1 / shape[1] if reads and trips else 0.5)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("machine", MACHINES)
def test_reductions_of_a_reduction_that_is_broadcast(machine: str) -> None:
    def run(state: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            columns = jnp.broadcast_to(state.max(0, keepdims=True), state.shape)
            return -jnp.broadcast_to(columns.max(1, keepdims=True), state.shape), state.sum(1)

        return jax.lax.scan(step, state, length=3)

    state = np.random.default_rng(0).integers(-4, 5, (4, 5)).astype(np.float32)
    program = ts.compile(ts.from_jax(run, state), machine, lowering="best")
    found = ts.execute(program, [state], poison=True, find_races=True)
    for mine, theirs in zip(found.values(), run(state), strict=True):
        np.testing.assert_array_equal(mine, np.asarray(theirs))


@pytest.mark.singly
@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
def test_the_last_trip_reads_its_state_before_it_is_permuted(machine: str, kept: int) -> None:
    """The state lies along other lanes than in memory: the cross-lane unit permutes it in place after the loop."""

    def run(state: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            new = jnp.abs(state)
            return new, jnp.maximum(state.max(1, keepdims=True), new).T

        return jax.lax.scan(step, state, length=7)[:kept]

    state = np.random.default_rng(0).standard_normal((9, 8)).astype(np.float32)
    program = ts.compile(ts.from_jax(run, state), machine, lowering="best")
    for order in ("text", "random"):
        found = ts.execute(program, [state], order=order, seed=1, poison=True, find_races=True)
        for mine, theirs in zip(found.values(), run(state), strict=True):
            np.testing.assert_array_equal(mine, np.asarray(theirs))


def test_the_state_stays_on_the_chip() -> None:
    """By hand: of 100 trips the inputs once, the results once; the state of 40,000 bytes only first and last."""
    values = [np.ones((100, 10000), np.float32), np.ones(10000, np.float32)]
    graph = ts.from_jax(backwards, *values)
    result = ts.simulate(ts.compile(graph, "tpu-v4", lowering="best"))
    once = 2 * (100 * 10000 * 4 + 10000 * 4)
    assert once <= result.memory_bytes <= 1.6 * once
    apart = ts.simulate(ts.compile(graph, "tpu-v4", lowering="best", fuse="none"))
    assert apart.memory_bytes > 2 * result.memory_bytes


@pytest.mark.parametrize("seeds", [range(4), pytest.param(range(4, 12), marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", MACHINES)
def test_states_that_nothing_reads_or_links(machine: str, seeds: range) -> None:
    """Random bodies of elementwise operations between some states: those that are dropped at the end, that have no
    element in common, that become one another; in any order of queues, and without two stores of one element."""

    def program(random: Any) -> tuple[Any, list[Any]]:
        states = int(random.integers(1, 5))
        steps = random.integers(0, 8, (int(random.integers(1, 5)), 3))
        trips = int(random.integers(1, 5))
        kept = [int(i) for i in random.integers(0, states, 2)]

        def body(i: Any, values: Any) -> Any:
            values = list(values)
            for kind, a, b in steps:
                x, y = values[a % states], values[b % states]
                made = [x + y, -x, jnp.maximum(x, y), y, x * 0.5 + 1, jnp.where(x > y, y, -x), x + jnp.float32(i), x][
                    kind
                ]
                values[a % states] = jnp.clip(made, -16, 16)
            return tuple(values)

        def run(*given: Any) -> Any:
            found = jax.lax.fori_loop(0, trips, body, tuple(jnp.clip(x + 1, -16, 16) for x in given))
            return [found[i] for i in kept]

        shape = [int(random.choice([1, 2, 8])), int(random.choice([1, 3, 64]))]
        return run, [random.integers(-4, 5, shape).astype(np.float32) for _ in range(states)]

    for seed in seeds:
        run, given = program(np.random.default_rng(seed))
        compiled = ts.compile(ts.from_jax(run, *given), few_cores(machine), lowering="best")
        for order in ("text", "random"):
            found = ts.execute(compiled, given, order=order, seed=seed, poison=True, find_races=True)
            for mine, theirs in zip(found.values(), run(*given), strict=True):
                np.testing.assert_array_equal(mine, np.asarray(theirs), err_msg=f"seed {seed}")
