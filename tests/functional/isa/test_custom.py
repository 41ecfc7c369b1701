"""Instructions of one's own: numpy says what they give, hand counts how long they take, mistakes are named at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa

LOOP = """
f:      vsetvli t0, a2, e32, m2, ta, ma
        vle32.v v8, (a0)
        my.vexp2 v16, v8
        vse32.v v16, (a1)
        sub     a2, a2, t0
        slli    t0, t0, 2
        add     a0, a0, t0
        add     a1, a1, t0
        bnez    a2, f
        ret
"""


def exp2(**other: Any) -> isa.Instruction:
    given: dict[str, Any] = {"semantics": np.exp2, "element": "f32", "unit": "special", "latency": 10, **other}
    return isa.define("my.vexp2 vd, vs2", opcode="custom-0", funct3=1, funct6=9, **given)


@pytest.mark.parametrize("vlen", [128, 1024, 65536])
def test_exp2_in_assembly(vlen: int) -> None:
    one = exp2(cycles_per_register=2)
    x = np.linspace(-3, 3, 101).astype(np.float32)
    y = np.zeros_like(x)
    result = isa.call(isa.assemble(LOOP, [one]), "f", x, y, x.size, core=isa.Core("c", vlen).extend(one), timed=True)
    assert result.trap is None and result.cycles is not None and result.cycles > 0
    np.testing.assert_array_equal(y, np.exp2(x))


def test_a_core_that_was_not_extended_traps() -> None:
    x = np.zeros(4, np.float32)
    trap = isa.call(isa.assemble(LOOP, [exp2()]), "f", x, x, 4).trap
    assert trap is not None and trap["cause"] == "illegal instruction"


def test_elements_as_wide_as_sew() -> None:
    narrow, x = exp2(element="f16"), np.zeros(4, np.float32)
    trap = isa.call(isa.assemble(LOOP, [narrow]), "f", x, x, 4, core=isa.Core().extend(narrow)).trap
    assert trap is not None and "elements of 16 bits, SEW is 32" in trap["detail"]


def test_scalar_latency_is_waited_for() -> None:
    def cycles(latency: float) -> int:
        one = isa.define(
            "my.pack rd, rs1, rs2", "custom-0", funct7=3, semantics=lambda a, b: a * 10 + b, latency=latency
        )
        code = isa.assemble("g: my.pack a0, a0, a1\nmy.pack a0, a0, a1\nret", [one])
        result = isa.call(code, "g", 4, 2, core=isa.Core().extend(one), returns="i64", timed=True)
        assert result.value == 422 and result.cycles is not None
        return result.cycles

    assert cycles(17) - cycles(7) == 20  # two of them, one on the other's result


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "in use": ({"text": "my.s rd, rs1, rs2", "opcode": "OP", "funct7": 0}, "'my.s' and 'add' overlap"),
    "vector in use": ({"text": "my.a vd, vs2, vs1, vm", "opcode": "OP-V"}, "'my.a' and 'vadd.vv' overlap"),
    "opcode": ({"opcode": "custum-0"}, "custom-0"),
    "short opcode": ({"opcode": 12}, "another length"),
    "unit": ({"unit": "specal"}, "special"),
    "operand": ({"text": "my.a vd, vs5"}, "column 10.*vs2"),
    "missing": ({"text": "my.a vd, , vs2"}, "column 10"),
    "pseudo": ({"text": "mv rd, rs1"}, "pseudo"),
    "element": ({"element": "f33"}, "f32"),
    "both cycles": ({"cycles": 2, "cycles_per_register": 2}, "not both"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_in_a_declaration(name: str) -> None:
    given, said = WRONG[name]
    with pytest.raises(ts.UserError, match=said):
        isa.define(**{"text": "my.v vd, vs2", "opcode": "custom-0", "semantics": np.exp2, **given})


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        (lambda a: a[:3], "'my.vexp2' return a wrong shape"),
        (lambda a: a.astype(np.float64), "'my.vexp2' return a wrong dtype"),
        (lambda a: 3, "'my.vexp2' return no array"),
        (lambda a: 1 / 0, "'my.vexp2' failed"),
    ],
)
def test_mistakes_in_a_meaning(meaning: Any, said: str) -> None:
    one, x = exp2(semantics=meaning), np.zeros(8, np.float32)
    with pytest.raises(ts.UserError, match=said):
        isa.call(isa.assemble(LOOP, [one]), "f", x, x, 8, core=isa.Core().extend(one))


def test_units() -> None:
    lookup = isa.unit("lookup", queue=2, pipes=2)
    one, x = exp2(unit=lookup, cycles_per_register=2), np.zeros(8, np.float32)
    with pytest.raises(ts.UserError, match="unit that the core does not have"):
        isa.Core().extend(one)
    core = isa.Core.load("generic").extend(lookup, one)
    result = isa.call(isa.assemble(LOOP, [one]), "f", x, x, 8, core=core, timed=True)
    assert sum(result.stalls["lookup0"].values()) == result.cycles
    assert result.stalls["lookup0"]["busy"] + result.stalls["lookup1"]["busy"] > 0
