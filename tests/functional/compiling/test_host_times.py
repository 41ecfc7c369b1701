"""Operations on the host take the host's time, whatever comes before them."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts
from tilesim.machine.device import Device

BYTES = {"f32": 4, "bf16": 2}


def before(b: ts.GraphBuilder, how: str, x: Any, columns: int) -> Any:
    if how == "input":
        return x
    if how == "product":
        return b.linear(x, columns, bias=False, name="before")
    if how == "softmax":
        return b.op("softmax", x, dim=1, name="before")
    if how == "pair":
        return b.apply("add", b.apply("exp", x, name="first"), x, name="before")
    return b.apply("tanh", x, name="before")


BEFORE = ("input", "product", "softmax", "pair", "function")

# the operation, bytes that it reads and writes beside its operand of `size` bytes, least FLOPs per element
AFTER: dict[str, tuple[Callable[[ts.GraphBuilder, Any], Any], Callable[[int, list[int]], float], float]] = {
    "relu": (lambda b, x: b.apply("relu", x, name="after"), lambda size, _: size, 1),
    "gelu": (lambda b, x: b.apply("gelu_erf", x, name="after"), lambda size, _: size, 1),
    "twice": (lambda b, x: b.apply("add", x, x, name="after"), lambda size, _: size, 1),
    "transpose": (lambda b, x: b.op("transpose", x, permutation=[1, 0], name="after"), lambda size, _: size, 0),
    "sum": (lambda b, x: b.op("reduce", x, dims=[1], combiner="add", name="after"), lambda size, s: size / s[1], 1),
    "softmax": (lambda b, x: b.op("softmax", x, dim=1, name="after"), lambda size, _: size, 3),
    "broadcast": (
        lambda b, x: b.op("broadcast", x, shape=[3, *x.shape], dims=[1, 2], name="after"),
        lambda size, _: 3 * size,
        0,
    ),
    "reverse": (lambda b, x: b.op("reverse", x, dims=[0], name="after"), lambda size, _: size, 0),
    "cumulative": (
        lambda b, x: b.op("cumulative", x, dim=1, combiner="add", name="after"),
        lambda size, _: size,
        0,
    ),
}


def hosted(how: str, what: str, shape: list[int], dtype: str) -> tuple[Any, ts.Machine]:
    b = ts.GraphBuilder("hosted", dtype=dtype)
    b.output(AFTER[what][0](b, before(b, how, b.input("x", shape), shape[1])), "y")
    machine = ts.Machine.load("tpu-v3")
    program = ts.compile(b.build(), machine, place={"after": "host"}, fallback="host")
    return program, machine


def host_picoseconds(program: Any) -> int:
    (row,) = [row for row in program.placement.rows if row["operation"] == "after"]
    assert row["where"] == "host"
    return int(row["host_picoseconds"])


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_faster_than_the_roofline(seed: int) -> None:
    pick = random.Random(seed)
    for what in pick.sample(list(AFTER), 3):
        shape = [pick.choice((1, 7, 64, 1000)), pick.choice((1, 16, 300, 2048))]
        dtype = pick.choice(("f32", "bf16"))
        size = math.prod(shape) * BYTES[dtype]
        times = {}
        for how in BEFORE:
            program, machine = hosted(how, what, shape, dtype)
            host = Device.load(machine.core.host["device"])
            times[how] = host_picoseconds(program)
            moved = size + AFTER[what][1](size, shape)
            fastest = max(host.vector_rate(dtype), host.vector_rate("f32"))
            least = max(moved / host.memory.bytes_per_second, AFTER[what][2] * math.prod(shape) / fastest)
            assert times[how] >= least * 1e12 * (1 - 1e-9), (how, what, shape, dtype)
        assert len(set(times.values())) == 1, (what, shape, times)


def test_the_time_behind_a_product_is_that_behind_an_input() -> None:
    """2048 x 1024 in f32: 16.8 MB at 307 GB/s are 55 us."""
    times = [host_picoseconds(hosted(how, "relu", [2048, 1024], "f32")[0]) for how in ("product", "input")]
    assert times[0] == times[1] >= 2 * 2048 * 1024 * 4 / 307e9 * 1e12


@pytest.mark.parametrize(("how", "what"), list(itertools.product(("input", "product"), ("relu", "sum"))))
def test_results_hold_transfers_and_the_host(how: str, what: str) -> None:
    shape = [512, 256]
    program, machine = hosted(how, what, shape, "f32")
    result = ts.simulate(program)
    size, link = math.prod(shape) * 4, machine.core.host
    moved = size + AFTER[what][1](size, shape)
    least = moved / link["bytes_per_second"] + 2 * link["latency_ps"] * 1e-12 + host_picoseconds(program) * 1e-12
    assert result.seconds >= least * (1 - 1e-6)
    assert sum(row["bytes"] for row in program.transfers.rows) == moved
