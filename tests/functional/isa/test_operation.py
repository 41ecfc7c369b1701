"""Operations of one's own: the meaning is numpy's, the kernel is assembly, both meet in execution and verification."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa

# sums and differences of two vectors of one length; extents of both in a4, a5
BUTTERFLY = """
butterfly:
        vsetvli t0, a4, e32, m4, ta, ma
        vle32.v v8, (a0)
        vle32.v v16, (a1)
        vfadd.vv v24, v8, v16
        vse32.v v24, (a2)
        {second} v24, v8, v16
        vse32.v v24, (a3)
        slli    t1, t0, 2
        add     a0, a0, t1
        add     a1, a1, t1
        add     a2, a2, t1
        add     a3, a3, t1
        sub     a4, a4, t0
        bnez    a4, butterfly
        ret
"""


DOUBLE = """
double:
        flw     ft0, (a0)
        fadd.s  ft0, ft0, ft0
        fsw     ft0, (a1)
        ret
"""


def butterfly(second: str = "vfsub.vv", **other: Any) -> isa.Operation:
    return isa.operation(
        "test.butterfly",
        shape=lambda a, b: (a, b),
        reference=lambda a, b: (a + b, a - b),
        kernel=(isa.assemble(BUTTERFLY.format(second=second)), "butterfly"),
        **{"roundings": 0, **other},
    )


def graph(op: isa.Operation, n: int) -> ts.Graph:
    b = ts.GraphBuilder("g")
    x, y = b.input("x", (n,)), b.input("y", (n,))
    total, difference = op(b.apply("negate", x), y, name="pair")
    b.output(b.apply("abs", total), "total")
    b.output(difference, "difference")
    return b.build()


@pytest.mark.parametrize("n", [1, 63, 500])
def test_three_ways_to_run(n: int) -> None:
    op, rng = butterfly(), np.random.default_rng(n)
    x, y = (rng.standard_normal(n).astype(np.float32) for _ in range(2))
    program = ts.compile(graph(op, n), "edge-8")
    for found in (
        ts.reference(graph(op, n), [x, y]),
        ts.execute(program, [x, y]),
        ts.execute(program, [x, y], level="instruction"),
        ts.execute(program, [x, y], order="random", find_races=True),
    ):
        np.testing.assert_array_equal(found["total"], np.abs(y - x))
        np.testing.assert_array_equal(found["difference"], -x - y)
    assert ts.verify(program, [x, y]).ok and ts.verify(program, [x, y], level="instruction").ok


def test_an_operation_of_one_number() -> None:
    double = isa.operation(
        "test.double", shape=lambda a: a, reference=lambda a: a * 2, kernel=(isa.assemble(DOUBLE), "double")
    )
    b = ts.GraphBuilder("g")
    b.output(double(b.input("x", ())), "y")
    program, three = ts.compile(b.build(), "edge-8"), np.asarray(3, np.float32)
    for level in ("tile", "instruction"):
        assert ts.execute(program, [three], level=level)["y"] == 6
    assert double.measure("edge-8", three)[0].shape == ()


def test_a_wrong_kernel_is_found() -> None:
    program = ts.compile(graph(butterfly("vfmul.vv"), 50), "edge-8")
    assert ts.verify(program).ok  # the meaning at tile level
    assert not ts.verify(program, level="instruction").ok
    butterfly()


def opaque_of(program: ts.Program) -> list[dict[str, Any]]:
    text = program.to_json() if hasattr(program, "to_json") else program.core.to_json()
    found: list[dict[str, Any]] = []

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("opaque"), dict):
                found.append({"queue": value.get("queue"), **value["opaque"]})
            for one in value.values():
                walk(one)
        elif isinstance(value, list):
            for one in value:
                walk(one)

    walk(json.loads(text) if isinstance(text, str) else text)
    return found


def test_its_time_is_the_kernels() -> None:
    op, n = butterfly(), 1000
    ones = np.ones(n, np.float32)
    (made, cycles) = op.measure("edge-8", ones, ones)
    np.testing.assert_array_equal(made[0], 2 * ones)
    registers = -(-n // 64)
    assert cycles >= 2 * registers  # two loads for each register, through one port
    program = ts.compile(graph(op, n), "edge-8")
    (own,) = opaque_of(program)
    assert own["cycles"] == cycles and own["queue"] == "vector" and own["target"] == "test.butterfly"
    slower = ts.compile(graph(op, n), ts.Machine.load("edge-8").replace({"core.isa.port_bytes": 4}))
    assert opaque_of(slower)[0]["cycles"] > cycles
    for level in ("tile", "instruction"):
        result = ts.simulate(program, level=level)
        assert result.cycles > cycles
    assert not any("opaque" in line for line in ts.simulate(program, level="instruction").approximations)


def test_a_unit_of_its_own() -> None:
    op = butterfly(unit=isa.unit("lookup", queue=2))
    program = ts.compile(graph(op, 100), "edge-8")
    assert [one["queue"] for one in opaque_of(program)] == ["lookup"]
    assert ts.verify(program, level="instruction").ok
    assert ts.simulate(program).cycles > 0
    butterfly()


def test_instructions_within_a_kernel() -> None:
    twice = isa.define(
        "my.twice vd, vs2", "custom-0", semantics=lambda x: x + x, element="f32", unit=isa.unit("own"), cycles=40
    )
    text = "kernel: vsetvli t0, a2, e32, m1, ta, ma\nvle32.v v8, (a0)\nmy.twice v9, v8\nvse32.v v9, (a1)\nret"
    op = isa.operation("test.twice", lambda a: a, lambda a: a + a, isa.assemble(text, [twice]), instructions=[twice])
    made, cycles = op.measure("edge-8", np.arange(9, dtype=np.float32))
    np.testing.assert_array_equal(made, 2 * np.arange(9))
    assert cycles >= 40


def test_many_extents_go_over_the_stack() -> None:
    # three operands of three axes and a result: four pointers, nine extents; the last is at 32(sp)
    text = "kernel: ld t0, 32(sp)\nld t1, 0(sp)\nsd t0, 0(a3)\nsd t1, 8(a3)\nsd a7, 16(a3)\nret"
    op = isa.operation(
        "test.extents",
        lambda a, b, c: ("i64", (3,)),
        lambda a, b, c: np.array([c.shape[2], b.shape[1], b.shape[0]]),
        isa.assemble(text),
    )
    shapes = [(2, 3, 4), (5, 6, 7), (8, 9, 10)]
    made, _ = op.measure("edge-8", *(np.zeros(shape, np.float32) for shape in shapes))
    np.testing.assert_array_equal(made, [10, 6, 5])


def test_a_trap_names_symbol_and_place() -> None:
    text = "kernel: li t0, 5\nhelper: ld t1, 0(t0)\nret"
    op = isa.operation("test.traps", lambda a: a, lambda a: a, isa.assemble(text))
    with pytest.raises(ts.UserError, match=r"test\.traps.*helper.*did not return"):
        op.measure("edge-8", np.zeros(4, np.float32))
    b = ts.GraphBuilder("g")
    b.output(op(b.input("x", (4,))), "y")
    with pytest.raises(ts.UserError, match="helper"):
        ts.compile(b.build(), "edge-8")


def test_what_is_wrong_with_a_declaration() -> None:
    program = isa.assemble("kernel: ret")

    def refuse(said: str, **other: Any) -> None:
        given: dict[str, Any] = {"shape": lambda a: a, "reference": lambda a: a, "kernel": program, **other}
        with pytest.raises(ts.UserError, match=said):
            isa.operation(**{"name": "test.wrong", **given})

    refuse("unknown symbol", kernel=(program, "kernal"))
    refuse("dots", name="norm")
    refuse("not a function", reference=3)
    refuse("program", kernel=5)
    refuse("symbol", kernel=(program, 5))
    refuse("roundings", roundings=-1)
    for shape, said in (
        (lambda a: 3, "does not return a type"),
        (lambda a: (), "has no result"),
        (lambda a: 1 / 0, "failed"),
    ):
        op = isa.operation("test.wrong", shape, lambda a: a, program)
        b = ts.GraphBuilder("g")
        with pytest.raises(ts.UserError, match=said):
            op(b.input("x", (4,)))


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        (lambda a: a[:2], "wrong shape or dtype"),
        (lambda a: a.astype(np.float64), "wrong shape or dtype"),
        (lambda a: (a, a), "wrong number of results"),
        (lambda a: 1 / 0, "failed"),
    ],
)
def test_what_is_wrong_with_a_reference(reference: Any, said: str) -> None:
    op = isa.operation("test.reference", lambda a: a, reference, isa.assemble("kernel: ret"))
    b = ts.GraphBuilder("g")
    b.output(op(b.input("x", (4,))), "y")
    with pytest.raises(ts.UserError, match=said):
        ts.reference(b.build())
    with pytest.raises(ts.UserError, match=said):
        ts.execute(ts.compile(b.build(), "edge-8"))


def test_more_than_the_scratchpad_holds() -> None:
    op = isa.operation("test.large", lambda a: a, lambda a: a, isa.assemble("kernel: ret"))
    b = ts.GraphBuilder("g")
    b.output(op(b.input("x", (1 << 24,))), "y")
    with pytest.raises(ts.UserError, match="scratchpad"):
        ts.compile(b.build(), "edge-8")


def test_a_graph_from_a_file(tmp_path: Path) -> None:
    graph(butterfly(), 20).save(tmp_path / "g.json")
    x = np.ones(20, np.float32)
    found = ts.execute(ts.compile(ts.Graph.load(tmp_path / "g.json"), "edge-8"), [x, x])
    np.testing.assert_array_equal(found["difference"], -2 * x)
    code = (
        "import sys, tilesim as ts\n"
        "g = ts.Graph.load(sys.argv[1])\n"
        "try:\n    ts.compile(g, 'edge-8')\n"
        "except ts.UserError as error:\n    print(error)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "g.json"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "is not declared" in told.stdout and "test.butterfly" in told.stdout and "pair" in told.stdout


@pytest.mark.parametrize(("extra", "byte"), [(0, None), (4, 24), (64, 84)])
def test_writing_behind_a_result_is_refused(extra: int, byte: int | None) -> None:
    """The kernel stores its last number `extra` bytes behind the place of it."""
    code = isa.assemble(f"k: flw fa0, 0(a0)\nfsw fa0, 0(a1)\nfsw fa0, {20 + extra}(a1)\nret")
    op = isa.operation("test.beyond", shape=lambda x: x, reference=lambda x: x, kernel=(code, "k"))
    b = ts.GraphBuilder("g")
    b.output(op(b.input("x", (6,))), "y")
    x = np.ones(6, np.float32)
    if byte is None:
        program = ts.compile(b.build(), "edge-8")
        assert ts.execute(program, [x], level="instruction")["y"][5] == 1
        return
    with pytest.raises(ts.UserError, match="writes beyond its result") as found:
        ts.compile(b.build(), "edge-8")
    assert "result 0" in str(found.value)
    assert f"byte {byte} was written" in str(found.value) and "24 bytes" in str(found.value)
