"""Numbers without end, seeds below zero, long names: refused at once, in messages of bounded length."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.analytic.gemm import gemm_seconds
from tilesim.base.errors import user_error

LONG = "x" * 100_000
MOST = 10**12


def graph() -> ts.Graph:
    return ts.workloads.matmul(8, 8, 8)


def program() -> ts.Program:
    return ts.compile(graph(), "edge-8")


def pooled(window: Any) -> ts.Tensor:
    b = ts.GraphBuilder("g")
    return b.pool2d(b.input("x", (1, 1, 8, 8)), window, stride=1)


def study() -> ts.study.Study:
    return ts.study.Study(graph(), ts.Machine.load("edge-8"), "simple")


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "sweep with fewer than no threads": (lambda: ts.sweep(graph(), "edge-8", {}, jobs=-1), "jobs: out of range.*-1"),
    "sweep with no threads": (lambda: ts.sweep(graph(), "edge-8", {}, jobs=0), "a whole number from 1 on"),
    "tune with fewer than no threads": (lambda: ts.tune(graph(), "edge-8", jobs=-1), "jobs: out of range.*-1"),
    "a seed below zero": (lambda: ts.execute(program(), seed=-1), "seed: out of range.*from 0 on"),
    "a seed of a reference": (lambda: ts.reference(graph(), seed=-1), "seed: out of range"),
    "a seed of tuning": (lambda: ts.tune(graph(), "edge-8", seed=-1), "seed: out of range"),
    "a seed of a network": (lambda: ts.network.run("mesh_4x4", seed=-1), "seed: out of range"),
    "more cores than there are": (lambda: ts.Job(program(), cores=range(MOST)), "cores: too many elements"),
    "more values than there are": (
        lambda: ts.sweep(graph(), "edge-8", {"core.array.count": range(MOST)}),
        "too many combinations",
    ),
    "more combinations than there are": (
        lambda: ts.sweep(graph(), "edge-8", {"core.array.count": range(10**5), "memory.latency": range(10**5)}),
        "too many combinations.*10000000000",
    ),
    "an extent of 63 bits": (
        lambda: ts.mapping.least_traffic(2**63 - 1, 8, 8, 64),
        "m: out of range.*1 to 1099511627776",
    ),
    "a depth of no elements": (lambda: ts.mapping.least_traffic(8, 8, 0, 64), "k: out of range"),
    "a buffer of 63 bits": (lambda: ts.mapping.least_traffic(8, 8, 8, 2**63 - 1), "words: out of range"),
    "a product of 120 bits": (lambda: ts.mapping.least_traffic(2**40, 2**40, 2**40, 64), "too many mappings to try"),
    "no endpoints": (lambda: ts.network.for_endpoints("mesh", 0), "count: out of range.*1 to 1048576"),
    "more endpoints than a machine has": (lambda: ts.network.for_endpoints("mesh", 2**62), "count: out of range"),
    "a window of many extents": (lambda: pooled(range(MOST)), "window: not one number or two"),
    "a window of more than can be counted": (lambda: pooled(range(10**30)), "window: not one number or two"),
    "more axes than there are": (lambda: ts.GraphBuilder("g").input("x", range(MOST)), "too many axes.*at most 65536"),
    "axes without end": (lambda: ts.GraphBuilder("g").input("x", itertools.repeat(1)), "too many axes"),  # type: ignore[arg-type]
    "a rate of no dtype": (lambda: ts.Device.load("t4").vector_rate(dtype=3), "not a dtype.*got 3"),  # type: ignore[arg-type]
    "an input of 32 bits": (lambda: ts.GraphBuilder("g").alias(0, 2**31), "input: out of range.*0 to 2147483647"),
    "an output below zero": (lambda: ts.GraphBuilder("g").alias(-1, 0), "output: out of range"),
    "computes that are rows": (lambda: ts.TileLatencies().fill("edge-8", np.zeros((2, 2))), r"not a tile operation"),  # type: ignore[arg-type]
    "a rest that is no function": (lambda: study().leave(True), "leave: rest.*got True; allowed: a function"),  # type: ignore[arg-type]
    "more extents than there are": (lambda: gemm_seconds("h100-sxm", range(MOST), 1, 1), "more extents than memory"),
}


@pytest.mark.parametrize(
    "field", ["units", "partitions", "multicast", "clock_hz", "launch_seconds", "power_watts", "year"]
)
@pytest.mark.parametrize("value", [10**400, 1e300, -1, float("nan"), float("inf"), True, "1", {"a": 1}])
def test_numbers_of_a_device(field: str, value: Any, tmp_path: Path) -> None:
    """Refused in a copy, in a level, and, where JSON has the number, in a file."""
    device = ts.Device.load("t4")
    with pytest.raises(ts.UserError, match=rf"device\.{field}: .*got .*allowed: .* to ") as caught:
        device.replace(**{field: value})
    assert len(str(caught.value)) < 400
    path = tmp_path / "device.json"
    path.write_text(json.dumps({**device.to_dict(), field: value}), encoding="utf-8")
    with pytest.raises(ts.UserError):
        ts.Device.load(path)


@pytest.mark.parametrize("field", ["bytes", "bytes_per_second", "line_bytes", "ways", "latency_seconds"])
@pytest.mark.parametrize("value", [10**400, 1e300, -1])
def test_numbers_of_a_level_and_a_rate(field: str, value: Any) -> None:
    device = ts.Device.load("t4")
    levels = [{**level, field: value} for level in device.to_dict()["levels"]]
    with pytest.raises(ts.UserError, match=rf"levels\[0\]\.{field}: .*allowed: .* to "):
        device.replace(levels=levels)
    with pytest.raises(
        ts.UserError, match=r"matrix\.f16\.flops_per_second: .*allowed: a number in SI units from 1 to 1e\+18"
    ):
        device.replace(matrix={"f16": value})
    with pytest.raises(ts.UserError, match=r"clocks\.base: .*allowed"):
        device.replace(clocks={"base": value})


def test_whole_numbers_of_a_device_and_their_ends() -> None:
    device = ts.Device.load("t4")
    for field in ("units", "partitions", "multicast"):
        assert getattr(device.replace(**{field: 2**20}), field) == 2**20
        for wrong, words in ((2**20 + 1, "out of range"), (2.5, "not a whole number")):
            with pytest.raises(ts.UserError, match=words):
                device.replace(**{field: wrong})
    largest = device.replace(units=2**20, matrix={"f16": 1e18, "f32": 1e18})
    assert ts.estimate(graph(), largest).explain()  # of twice as many, it tells no more than there may be
    assert all(ts.Device.load(name).name for name in ts.Device.names())


@pytest.mark.parametrize("name", CALLS)
def test_refused_at_once(name: str) -> None:
    call, words = CALLS[name]
    with pytest.raises(ts.UserError, match=words) as caught:
        call()
    assert len(str(caught.value)) < 1000


UNKNOWN: dict[str, Callable[..., Any]] = {
    "gemm_seconds": lambda **more: gemm_seconds("h100-sxm", 1, 1, 1, **more),
    "compile": lambda **more: ts.compile(graph(), "edge-8", **more),
    "simulate": lambda **more: ts.simulate(program(), **more),
    "sweep": lambda **more: ts.sweep(graph(), "edge-8", {}, **more),
    "run": lambda **more: ts.run(graph(), **more),
    "tune": lambda **more: ts.tune(graph(), "edge-8", **more),
    "Job": lambda **more: ts.Job(program(), **more),
    "load": lambda **more: ts.Machine.load("edge-8", **more),
    "matmul": lambda **more: ts.workloads.matmul(8, 8, 8, **more),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_argument(name: str) -> None:
    """Refused as Python does, by TypeError, or as one of ours; never told whole."""
    for wrong in ("junk", LONG, "\ud800", "a\nb"):
        with pytest.raises((ts.UserError, TypeError)) as caught:
            UNKNOWN[name](**{wrong: 1})
        assert 10 < len(str(caught.value)) < 2000
        assert "unknown" in str(caught.value)


def test_no_part_of_a_message_is_told_whole() -> None:
    for part in ("what", "place", "value", "allowed", "suggestion"):
        for text in (LONG, "y " * 50_000):
            assert len(str(user_error(**{"what": "what", part: text}))) < 5000


@pytest.mark.parametrize("part", ["name", "kind", "operand", "function", "attribute", "dtype", "weight"])
def test_no_name_of_a_file_is_told_whole(part: str) -> None:
    """The core's own readers, in the same words."""
    op: dict[str, Any] = {"name": "a", "kind": "elementwise", "operands": ["x"], "attributes": {"function": "exp"}}
    values = {
        "name": {**op, "name": LONG, "operands": [LONG]},
        "kind": {**op, "kind": LONG},
        "operand": {**op, "operands": [LONG]},
        "function": {**op, "kind": "call", "functions": [LONG], "attributes": {}},
        "attribute": {**op, "attributes": {LONG: 1}},
        "dtype": {**op, "attributes": {"function": LONG}},
        "weight": {**op, "kind": "constant", "operands": [], "attributes": {"reference": LONG}},
    }
    function = {"name": "f", "inputs": [{"name": "x", "dtype": "f32", "shape": [4]}], "ops": [values[part]]}
    document = {"schema": "tilesim.graph", "version": 1, "functions": [{**function, "outputs": ["a"]}]}
    with pytest.raises(ts.UserError) as caught:
        ts.Graph.from_dict(json.dumps(document))
    assert len(str(caught.value)) < 6000


def test_long_lists_are_counted_not_written() -> None:
    with pytest.raises(ts.UserError, match="a list of 2000 elements") as caught:
        ts.Job(program(), cores=["a"] * 2000)  # type: ignore[list-item]
    assert len(str(caught.value)) < 600
