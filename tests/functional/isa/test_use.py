"""Functions of networks by instructions of one's own: numpy says what they give, hand counts what they take."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa

LANES = math.prod(ts.Machine.load("edge-8").get(f"core.vector.{which}") for which in ("lanes", "sublanes"))


# of 32 bits with a sign: the bits of a negative u32 are those of an i32's
TAKEN_AS_I32 = {"negate": ("i32", "u32", "i8", "u8"), "abs": ("i32", "i8", "u8")}


def exp2(semantics: Any = np.exp2, **other: Any) -> isa.Instruction:
    given: dict[str, Any] = {"element": "f32", "unit": "special", "cycles_per_register": 2, "latency": 10, **other}
    return isa.define("my.vexp2 vd, vs2", opcode="custom-0", funct3=1, funct6=9, semantics=semantics, **given)


def used(**other: Any) -> ts.Machine:
    return isa.use("edge-8", function="exp2", instruction=exp2(**other))


def applied(function: str, shape: tuple[int, ...], operands: int = 1, dtype: str = "f32") -> ts.Graph:
    b = ts.GraphBuilder("g", dtype=dtype)
    xs = [b.input(f"x{i}", shape) for i in range(operands)]
    b.output(b.apply(function, *xs), "y")
    return b.build()


def plus_one(x: np.ndarray) -> np.ndarray:
    return (np.exp2(x) + np.float32(1)).astype(np.float32)


@pytest.mark.parametrize("shape", [(1,), (7, 3), (2, 65), (40, 64)])
def test_results(shape: tuple[int, ...]) -> None:
    """What the semantics return reaches the outputs at level instruction, and there alone."""
    x = np.linspace(-3, 3, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    x.flat[0] = np.nan if x.size > 1 else 1
    program = ts.compile(applied("exp2", shape), used(semantics=plus_one))
    np.testing.assert_array_equal(ts.execute(program, [x], level="instruction")["y"], plus_one(x))
    np.testing.assert_allclose(ts.execute(program, [x])["y"], np.exp2(x), rtol=1e-6)
    assert not ts.verify(program, [x], level="instruction").ok
    right = ts.compile(applied("exp2", shape), used())
    assert ts.verify(right, [x], level="instruction").ok


def test_elements_of_16_bits() -> None:
    import ml_dtypes

    x = np.linspace(-3, 3, 70, dtype=np.float32).reshape(7, 10)
    program = ts.compile(applied("exp2", x.shape), used(element="bf16"))
    want = np.exp2(x.astype(ml_dtypes.bfloat16)).astype(np.float32)
    np.testing.assert_array_equal(ts.execute(program, [x], level="instruction")["y"], want)


@pytest.mark.parametrize("text", ["my.op vd, vs2, vs1", "my.op vd, vs1, vs2", "my.op vd+, vs2", "my.op vd+, vs2, vm"])
def test_order_of_operands(text: str) -> None:
    minus = isa.define(text, "custom-0", funct6=3, semantics=np.subtract, element="f32")
    a, b = np.arange(150, dtype=np.float32).reshape(10, 15), np.full((10, 15), 3, np.float32)
    program = ts.compile(applied("subtract", a.shape, 2), isa.use("edge-8", "subtract", minus))
    np.testing.assert_array_equal(ts.execute(program, [a, b], level="instruction")["y"], a - b)


@pytest.mark.parametrize("name", ["edge-8", "mesh-16", "tpu-v3"])
@pytest.mark.parametrize("shape", [(7, 10), (3, 130), (1, 1), (5, 3, 17)])
def test_semantics_see_elements_alone(name: str, shape: tuple[int, ...]) -> None:
    """Registers that the elements do not fill: in the places left over stand elements too, with their own partners."""
    seen: set[tuple[float, float]] = set()

    def semantics(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        seen.update(zip(x.tolist(), y.tolist(), strict=True))
        return x / y

    divide = isa.define("my.div vd, vs2, vs1", "custom-0", funct6=3, semantics=semantics, element="f32")
    a = 1 + np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    b = 2 * a + 1
    program = ts.compile(applied("divide", shape, 2), isa.use(name, "divide", divide))
    np.testing.assert_array_equal(ts.execute(program, [a, b], level="instruction")["y"], a / b)
    assert seen == set(zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
    seen.clear()

    def plus(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        seen.update(zip(x.tolist(), y.tolist(), strict=True))
        return x + y

    add = isa.define("my.add vd, vs2, vs1", "custom-0", funct6=3, semantics=plus, element="f32")
    program = ts.compile(applied("add", shape, 2), isa.use(name, "add", add))
    np.testing.assert_array_equal(ts.execute(program, [a, b], level="instruction")["y"], a + b)
    assert seen == set(zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))


def latency(machine: ts.Machine, rows: int, source: str = "instruction") -> dict[str, Any]:
    """Of the largest of the computes, and how many elements it has."""
    store, level = ts.TileLatencies(source=source), "instruction" if source == "instruction" else "tile"
    ts.simulate(ts.compile(applied("exp2", (rows, 64)), machine), level=level, latencies=store)
    found = [{**row, "elements": int(row["compute"].split(" e")[1].split()[0])} for row in store.table(machine)]
    return max(found, key=lambda row: row["elements"])


@pytest.mark.parametrize("what", ["cycles_per_register", "cycles"])
def test_kernels_take_its_cycles(what: str) -> None:
    """A kernel behind another is bound by the pipe: so long for each register; whole, for each group of registers."""
    more, less = (latency(used(**{"cycles_per_register": None, what: c}), 64) for c in (50, 40))
    times = (more["busy"] - less["busy"]) // 10
    assert more["busy"] == 50 * times and less["busy"] == 40 * times
    assert times >= more["elements"] / LANES / (1 if what == "cycles_per_register" else 8)
    assert more["done"] >= more["busy"]


def test_latency_delays_the_last_result() -> None:
    slow, fast = latency(used(latency=200), 1), latency(used(latency=100), 1)
    assert slow["done"] - fast["done"] == 100


def closed(machine: ts.Machine | str, rows: int = 64) -> tuple[int, int, float]:
    row = latency(ts.Machine.load(machine), rows, "closed form")
    return row["busy"], row["done"], row["elements"] / LANES


def test_closed_forms_take_its_cost() -> None:
    busy, done, registers = closed(used(cycles_per_register=50, latency=70))
    # the last register begins 50 cycles before its instruction has given all of them; around it a load and a store
    assert busy == 50 * registers and busy + 70 - 50 <= done <= busy + 70 + 20
    assert closed(used(cycles_per_register=50, unit=isa.unit("lookup", pipes=2)))[0] == 25 * registers
    # nothing is stated: the class of the function
    assert closed(used(cycles_per_register=None, latency=None)) == closed("edge-8")


def test_closed_forms_take_cycles_of_groups() -> None:
    """`cycles` whatever the group: kernels give it four registers together, so a register costs a fourth."""
    machine = used(cycles_per_register=None, cycles=200)
    busy, _, registers = closed(machine, 16)  # four registers of rows side by side
    assert busy == 50 * registers
    kernel = latency(machine, 16)
    assert kernel["elements"] / LANES == registers and busy <= kernel["busy"] <= busy + 200


def test_a_unit_of_its_own_in_kernels() -> None:
    """Two pipes: half the time."""
    two, one = (latency(used(cycles_per_register=50, unit=isa.unit("lookup", pipes=n)), 64)["busy"] for n in (2, 1))
    assert one / 2 <= two < one / 2 + 50


@pytest.mark.parametrize("source", ["closed form", "instruction"])
def test_another_latency_is_another_key(source: str, tmp_path: Path) -> None:
    store = ts.TileLatencies(tmp_path / "latencies.sqlite", source=source)
    level = "instruction" if source == "instruction" else "tile"
    one, two = used(latency=10), used(latency=11)
    ts.simulate(ts.compile(applied("exp2", (8, 64)), one), level=level, latencies=store)
    assert len(store.table(one)) == 1 and len(store.table(two)) == 0 and len(store.table("edge-8")) == 0
    again = isa.use("edge-8", function="exp2", instruction=exp2(semantics=plus_one))  # the meaning takes no time
    assert len(store.table(again)) == 1


def test_results_and_advice_name_it() -> None:
    result = ts.simulate(ts.compile(applied("exp2", (64, 64)), used(cycles_per_register=100)))
    assert any("'my.vexp2' for exp2 in 1 place of" in line and "100 cycles" in line for line in result.approximations)
    advice = [one for one in result.explain() if "my.vexp2" in one.text]
    assert len(advice) == 1 and advice[0].cycles < result.cycles  # it is slower than what the machine has
    other = ts.simulate(ts.compile(applied("tanh", (64, 64)), used()))
    assert any("the program has no exp2" in line for line in other.approximations)


@pytest.mark.parametrize("element", ["f32", "bf16", "i32"])
@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "i64", "i32", "u32", "i8", "u8"])
@pytest.mark.parametrize("function", ["negate", "abs"])
def test_closed_forms_charge_what_kernels_take(function: str, element: str, dtype: str) -> None:
    """Its results are wrong on purpose: they tell whether kernels of this type take it."""
    seven = isa.define(
        "my.a vd, vs2", opcode="custom-0", funct3=1, funct6=9, semantics=lambda x: x * 0 + 7, element=element,
        unit="special", cycles_per_register=500,
    )  # fmt: skip
    import ml_dtypes

    kinds = {"f": "float", "i": "int", "u": "uint"}
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else np.dtype(f"{kinds[dtype[0]]}{dtype[1:]}")
    graph, x = applied(function, (64, 64), dtype=dtype), np.full((64, 64), 2, kind)
    program = ts.compile(graph, isa.use("edge-8", function, seven))
    taken = bool((np.asarray(ts.execute(program, [x], level="instruction")["y"], np.float64) == 7).all())
    assert taken == ((dtype in ("f32", "bf16")) if element != "i32" else dtype in TAKEN_AS_I32[function])
    result = ts.simulate(program)
    notes = [line for line in result.approximations if "my.a" in line]
    assert len(notes) == 1 and ("in 1 place" in notes[0] if taken else "is not taken" in notes[0])
    if taken:
        assert result.cycles >= 500 * 64 * 64 / LANES / ts.Machine.load("edge-8").get("core.count")
    else:
        assert result.cycles == ts.simulate(ts.compile(graph, "edge-8")).cycles


def test_types_of_one_program_are_told_apart() -> None:
    b = ts.GraphBuilder("g")
    for dtype in ("f32", "i32", "bf16"):
        b.output(b.apply("abs", b.input(f"x_{dtype}", (8, 64), dtype=dtype)), dtype)
    one = isa.define("my.a vd, vs2", "custom-0", funct6=9, semantics=np.abs, element="f32", cycles_per_register=500)
    result = ts.simulate(ts.compile(b.build(), isa.use("edge-8", "abs", one)))
    assert any("'my.a' for abs in 2 places" in line for line in result.approximations)


def test_a_file_has_the_declaration_alone(tmp_path: Path) -> None:
    machine = used(unit=isa.unit("lookup", queue=2), semantics=plus_one)
    machine.save(tmp_path / "m.json")
    machine.save(tmp_path / "m.toml")
    x = np.ones((4, 8), np.float32)
    for name in ("m.json", "m.toml"):
        loaded = ts.Machine.load(tmp_path / name)
        assert loaded.get("core.isa.functions") == machine.get("core.isa.functions")
        program = ts.compile(applied("exp2", x.shape), loaded)
        known = ts.compile(applied("exp2", x.shape), machine)
        for level in ("tile", "instruction"):
            assert ts.simulate(program, level=level).cycles == ts.simulate(known, level=level).cycles
        with pytest.raises(ts.UserError, match=r"semantics.*my\.vexp2|my\.vexp2.*semantics"):
            ts.execute(program, [x], level="instruction")
        again = isa.use(loaded, "exp2", exp2(unit=isa.unit("lookup", queue=2)))
        found = ts.execute(ts.compile(applied("exp2", x.shape), again), [x], level="instruction")
        np.testing.assert_array_equal(found["y"], np.exp2(x))


def test_a_program_is_not_parted_from_its_machine(tmp_path: Path) -> None:
    """A .json file names a preset alone; .tsim keeps the machine and its times."""
    program = ts.compile(applied("exp2", (16, 64)), used(cycles_per_register=100))
    with pytest.raises(ts.UserError, match=r"preset.*exp2.*\.tsim"):
        program.save(tmp_path / "p.json")
    assert not (tmp_path / "p.json").exists()
    program.save(tmp_path / "p.tsim")
    for level in ("tile", "instruction"):
        found = ts.simulate(ts.Program.load(tmp_path / "p.tsim"), level=level)
        assert found.cycles == ts.simulate(program, level=level).cycles
    plain = ts.compile(applied("exp2", (16, 64)), "edge-8")
    plain.save(tmp_path / "p.json")
    assert ts.simulate(ts.Program.load(tmp_path / "p.json")).cycles == ts.simulate(plain).cycles


def test_copies_have_the_semantics() -> None:
    x = np.ones((4, 8), np.float32)
    for machine in (
        copy.deepcopy(used()),
        pickle.loads(pickle.dumps(used())),
        used().replace({"core.isa.queue": 8}),
    ):
        program = ts.compile(applied("exp2", x.shape), machine)
        np.testing.assert_array_equal(ts.execute(program, [x], level="instruction")["y"], np.exp2(x))


def test_programs_run_on_the_machines_core() -> None:
    one = exp2()
    code = isa.assemble(
        "f: vsetvli t0, a2, e32, m1, ta, ma\nvle32.v v8, (a0)\nmy.vexp2 v9, v8\nvse32.v v9, (a1)\nret", [one]
    )
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    result = isa.call(code, "f", x, y, 5, machine=isa.use("edge-8", "exp2", one), timed=True)
    np.testing.assert_array_equal(y, np.exp2(x))
    assert result.cycles is not None and result.cycles >= 12
    assert isa.call(code, "f", x, y, 5, machine="edge-8").trap is not None


@pytest.mark.parametrize(
    ("meaning", "said"),
    [
        (lambda a: a[:3], "'my.vexp2' return a wrong shape"),
        (lambda a: a.astype(np.float64), "'my.vexp2' return a wrong dtype"),
        (lambda a: 1 / 0, "'my.vexp2' failed"),
    ],
)
def test_mistakes_in_a_meaning(meaning: Any, said: str) -> None:
    program = ts.compile(applied("exp2", (8, 8)), used(semantics=meaning))
    for call in (ts.execute, ts.verify):
        with pytest.raises(ts.UserError, match=said):
            call(program, level="instruction")


@pytest.mark.parametrize("through_file", [False, True])
def test_one_instruction_for_several_functions(through_file: bool, tmp_path: Path) -> None:
    """The same value is no clash: kernels of each function write it, one semantics carries it out."""
    one = exp2(semantics=plus_one)
    machine = isa.use(isa.use("edge-8", "exp2", one), "exp", one)
    machine = isa.use(isa.use(machine, "tanh", one), "exp", exp2(semantics=plus_one))
    if through_file:
        machine.save(tmp_path / "m.json")
        machine = isa.use(str(tmp_path / "m.json"), "tanh", one)
    x = np.linspace(-3, 3, 21, dtype=np.float32).reshape(7, 3)
    for function in ("exp2", "exp", "tanh"):
        program = ts.compile(applied(function, x.shape), machine)
        np.testing.assert_array_equal(ts.execute(program, [x], level="instruction")["y"], plus_one(x))
    assert [own.name for own in isa.Core.from_machine(machine).instructions] == ["my.vexp2"]
    core = isa.Core.load("generic").extend(one)
    assert core.extend(one).instructions == core.instructions == (one,)
    assert isa.assemble("my.vexp2 v8, v16", [one, one]) == isa.assemble("my.vexp2 v8, v16", [one])
    with pytest.raises(ts.UserError, match=r"overlap|have one name"):  # another meaning is another instruction
        isa.use(machine, "sin", exp2(semantics=np.sin))


def test_what_does_not_fit() -> None:
    def refuse(said: str, function: str, text: str = "my.v vd, vs2", **other: Any) -> None:
        given: dict[str, Any] = {"semantics": np.exp2, "element": "f32", **other}
        with pytest.raises(ts.UserError, match=said):
            isa.use("edge-8", function, isa.define(text, "custom-0", **given))

    refuse("exp2", "exp3")
    refuse("another number of operands", "add")
    refuse("another number of operands", "exp2", "my.v vd, vs2, vs1")
    refuse("conditions", "less", "my.v vd, vs2, vs1")
    refuse("elements", "exp2", element=None)
    refuse("elements", "exp2", element="f64")
    refuse("vector registers", "add", "my.v vd, vs2, rs1")
    refuse("vector registers", "exp2", "my.v rd, rs1")
    machine = used()
    with pytest.raises(ts.UserError, match=r"core.isa.functions: tanh.*overlap"):
        isa.use(
            machine,
            "tanh",
            isa.define("my.tanh vd, vs2", "custom-0", funct3=1, funct6=9, semantics=np.tanh, element="f32"),
        )
    with pytest.raises(ts.UserError, match="two units have one name"):
        one = isa.use("edge-8", "exp2", exp2(unit=isa.unit("own", queue=2)))
        tanh = isa.define("my.t vd, vs2", "custom-0", semantics=np.tanh, element="f32", unit=isa.unit("own", queue=3))
        isa.use(one, "tanh", tanh)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"element": "f31"}, "f32"),
        ({"match": -1}, "match"),
        ({"instruction": "my.vexp2 vd, vs9"}, "vs9"),
        ({"unit": "specal"}, "special"),
        ({"cycles": 3}, "not both"),
        ({"latency": -2}, "out of range"),
        ({"wrong": 1}, "wrong"),
    ],
)
def test_damaged_files(change: dict[str, Any], said: str) -> None:
    entries = used().to_dict()
    entries["core"]["isa"]["functions"]["exp2"].update(change)
    with pytest.raises(ts.UserError, match=said):
        ts.Machine.load(entries)
