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
    "both cycles": ({"cycles": 2, "cycles_per_register": 2}, "both cycles_per_register"),
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
        (lambda a: 3, "'my.vexp2' do not return an array"),
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


MASKED = """
f:      vsetvli t0, a3, e32, m2, ta, mu
        vle32.v v8, (a0)
        vle32.v v16, (a1)
        vand.vi v0, v8, 1
        vmsne.vi v0, v0, 0
        my.mix v16, v8, {scalar}, v0.t
        vse32.v v16, (a1)
        ret
"""


@pytest.mark.parametrize(("word", "scalar", "value"), [("rs1", "a2", 77), ("simm5", "-3", -3), ("zimm5", "29", 29)])
@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_masked_with_old_value_and_scalar(word: str, scalar: str, value: int, count: int) -> None:
    """Only active elements reach the function; the others keep what they had, tails too."""
    seen: list[int] = []

    def mix(old: Any, a: Any, b: Any) -> Any:
        seen.append(a.size)
        return old * 3 + a + a.dtype.type(b)

    one = isa.define(f"my.mix vd+, vs2, {word}, vm", "custom-0", funct3=2, funct6=5, semantics=mix, element="i32")
    rng = np.random.default_rng(count)
    a, old = (rng.integers(-(10**6), 10**6, 16).astype(np.int32) for _ in range(2))
    made = old.copy()
    core = isa.Core("c", 256).extend(one)
    result = isa.call(isa.assemble(MASKED.format(scalar=scalar), [one]), "f", a, made, 77, count, core=core)
    assert result.trap is None
    active = (np.arange(16) < count) & (a & 1 == 1)
    np.testing.assert_array_equal(made, np.where(active, old * 3 + a + value, old))
    assert seen == ([int(active.sum())] if active.any() else [])


def test_floats_and_immediates_of_scalars() -> None:
    scale = isa.define(
        "my.scale fd+, fs1", "custom-0", funct3=3, funct7=1, element="f32", semantics=lambda old, by: old + 2 * by
    )
    add = isa.define("my.add12 rd, rs1, i12", "custom-0", funct3=4, semantics=lambda a, b: a + b)
    code = isa.assemble("f: my.scale fa0, fa1\nret\ng: my.add12 a0, a0, -2048\nret", [scale, add])
    core = isa.Core().extend(scale, add)
    assert isa.call(code, "f", np.float32(1.5), np.float32(0.25), core=core, returns="f32").value == 2.0
    assert isa.call(code, "g", 40, core=core, returns="i64").value == -2008
    bits = scale.match | 10 << 7 | 11 << 15
    assert isa.disassemble(bits, instructions=[scale]) == "my.scale fa0, fa1"
    assert isa.disassemble(bits).startswith(".word")


@pytest.mark.parametrize("machine", [None, "tpu-v3"])
def test_recorded_by_name_and_unit(machine: str | None) -> None:
    """Views of a timed run name the instruction and its unit, on a core and on a machine's."""
    lookup = isa.unit("lookup", pipes=2)
    one = exp2(unit=lookup, cycles_per_register=2)
    base = isa.Core.load("generic") if machine is None else isa.Core.from_machine(machine)
    core = base.extend(lookup, one)
    x = np.linspace(-1, 1, 8).astype(np.float32)
    y = np.zeros_like(x)
    result = isa.call(isa.assemble(LOOP, [one]), "f", x, y, 8, core=core, timed=True, pipeline=100, timeline=True)
    assert result.trap is None
    np.testing.assert_array_equal(y, np.exp2(x))
    mine = [row for row in result.pipeline if row["instruction"].startswith("my.vexp2")]
    assert [row["unit"] for row in mine] == ["lookup0"] * len(mine) and mine
    busy = sum(row["end"] - row["start"] for row in mine)
    assert busy == result.stalls["lookup0"]["busy"]


def test_a_machine_has_its_units_once() -> None:
    with pytest.raises(ts.UserError, match="has such a unit"):
        isa.Core.from_machine("tpu-v3").extend(isa.unit("matrix"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"opcode": "custom-9"}, "unknown opcode"),
        ({"opcode": "custom-0", "unit": "no"}, "unknown unit"),
        ({"opcode": "OP-V"}, "'vadd.vv' overlap"),
        ({"opcode": "custom-0"}, "the semantics are not a function"),
    ],
)
def test_a_missing_meaning_is_the_last_mistake_named(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ts.UserError, match=said):
        isa.define("my.vexp2 vd, vs2", funct6=0, **given)
