"""Profile, pipeline text, Konata log, trace and roofline of timed runs: against counts and times found by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
import tilesim.isa as isa
from support import riscv_tools
from tilesim.cli.main import app

EXIT = "li a0, 0\nli a7, 93\necall\n"
LOOP = f"""_start: li a0, 100
call f
{EXIT}
f: addi a0, a0, -1
bnez a0, f
ret
"""
VECTOR = f"""_start: li t0, 8
vsetvli t1, t0, e32, m1, ta, ma
vadd.vv v8, v16, v24
vadd.vv v9, v8, v24
{EXIT}
"""
AXPY = """
void axpy(int n, float a, const float *x, float *y) {
  for (int i = 0; i < n; ++i)
    y[i] += a * x[i];
}
"""


def core(**changes: object) -> isa.Core:
    """A core whose times are easy to follow: one instruction a cycle, every latency one cycle."""
    data = {"schema": "tilesim.core", "version": 1, "name": "plain", "vlen": 256, "dlen": 256, "width": 1, **changes}
    return isa.Core("plain", 256, data)


def test_functions_add_up_to_the_run() -> None:
    result = isa.run(isa.assemble(LOOP), timed=True)
    by_name = {row["function"]: row for row in result.functions}
    # li, call (two instructions or one), li, li, ecall; addi and bnez a hundred times, ret
    assert by_name["f"]["instructions"] == 201
    assert sum(row["instructions"] for row in result.functions) == result.instructions
    assert sum(row["cycles"] for row in result.functions) == result.cycles
    assert result.lines == []  # assembled text has no line numbers
    table = result.table()
    assert [row["cycles"] for row in table] == sorted((row["cycles"] for row in table), reverse=True)
    assert sum(row["share"] for row in table) == pytest.approx(1)
    with pytest.raises(ts.UserError, match="function, line"):
        result.table("file")


@pytest.mark.parametrize("name", isa.Core.names())
@pytest.mark.parametrize("text", [LOOP, VECTOR])
def test_cycles_add_up_on_every_core(name: str, text: str) -> None:
    result = isa.run(isa.assemble(text), core=name, timed=True)
    assert sum(row["cycles"] for row in result.functions) == result.cycles
    assert all(row["cycles"] >= 0 for row in result.functions)


def test_a_trapped_instruction_is_not_counted() -> None:
    result = isa.run(isa.assemble("_start: nop\nnop\nld a0, 0(zero)"), timed=True)
    assert result.trap is not None and result.instructions == 2
    assert [row["instructions"] for row in result.functions] == [2]


def test_lines_of_a_compiled_program(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(
        AXPY
        + "static float x[64], y[64];\nvoid _start(void) {\n  axpy(64, 2, x, y);\n"
        + '  register long a0 __asm__("a0") = 0, a7 __asm__("a7") = 93;\n'
        + '  __asm__ volatile("ecall" : : "r"(a0), "r"(a7));\n}\n'
    )
    riscv_tools.clang(tmp_path, "-O1", "-g", "-fno-inline", "-ffreestanding", "-nostdlib", "-static", "k.c", "-o", "k")
    result = isa.run(tmp_path / "k", timed=True)
    assert result.exit_status == 0
    assert sum(row["cycles"] for row in result.lines) == result.cycles
    assert sum(row["instructions"] for row in result.lines) == result.instructions
    assert result.lines[0]["function"] == "axpy" and result.lines[0]["line"] in ("k.c:3", "k.c:4")
    assert {row["line"] for row in result.table("line")} == {row["line"] for row in result.lines}


def test_times_by_hand() -> None:
    """A producer holds its pipe for a cycle, its result is there one later; the consumer starts then."""
    result = isa.run(isa.assemble(VECTOR), core=core(classes={"vector": {"latency": 3}}), timed=True, pipeline=100)
    rows = {row["instruction"]: row for row in result.pipeline}
    first, second = rows["vadd.vv v8, v16, v24"], rows["vadd.vv v9, v8, v24"]
    assert first["unit"] == second["unit"] == "arithmetic"
    assert first["end"] == first["start"] + 1 and first["result"] == first["start"] + 3
    assert second["issue"] == first["issue"] + 1
    assert second["start"] == first["start"] + 3
    assert (second["waited_for"], second["waited"]) == ("operands", 2)
    assert first["waited_for"] == ""
    assert all(row["issue"] <= row["dispatch"] <= row["start"] <= row["end"] for row in result.pipeline)
    assert max(row["result"] for row in result.pipeline) <= result.cycles


def test_a_limit_says_what_is_left_out(tmp_path: Path) -> None:
    result = isa.run(isa.assemble(LOOP), timed=True, pipeline=10)
    assert len(result.pipeline) == 10
    assert result.write_pipeline(tmp_path / "p.txt") == result.instructions - 10
    lines = (tmp_path / "p.txt").read_text().splitlines()
    assert f"{result.instructions - 10:,} more" in lines[-1]
    assert sum(not line.startswith("#") for line in lines) == 11  # with the head


def test_no_more_is_kept_than_is_stated(tmp_path: Path) -> None:
    with pytest.raises(ts.UserError, match=r"pipeline.*out of range.*0 to 1000000"):
        isa.run(isa.assemble(LOOP), timed=True, pipeline=1_000_001)
    (tmp_path / "l.elf").write_bytes(isa.assemble(LOOP))
    command = ["isa", "run", str(tmp_path / "l.elf"), "--pipeline", str(tmp_path / "p"), "--pipeline-limit", "1000001"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2 and not (tmp_path / "p").exists()


@pytest.mark.parametrize("text", [LOOP, VECTOR + LOOP.replace("_start", "other")])
def test_konata_is_in_order_of_cycles(text: str, tmp_path: Path) -> None:
    """By cycle, then by instruction, as if all had been sorted at once."""
    slow = core(classes={"vector": {"latency": 30}})
    result = isa.run(isa.assemble(text), core=slow, timed=True, pipeline=1000)
    result.write_pipeline(tmp_path / "p.kanata")
    at, places = 0, []
    for line in (tmp_path / "p.kanata").read_text().splitlines()[1:]:
        word, *rest = line.split("\t")
        if word in ("C=", "C"):
            at += int(rest[0])
        else:
            places.append((at, int(rest[0])))
    assert places == sorted(places) and len({number for _, number in places}) == result.instructions


def test_konata(tmp_path: Path) -> None:
    """Every instruction begins, opens and closes its stages in order, and retires; time never goes back."""
    result = isa.run(isa.assemble(VECTOR + LOOP.replace("_start", "other")), timed=True, pipeline=1000)
    result.write_pipeline(tmp_path / "p.kanata")
    lines = (tmp_path / "p.kanata").read_text().splitlines()
    assert lines[0] == "Kanata\t0004" and lines[1].startswith("C=\t")
    opened: dict[str, str] = {}
    begun, retired = set(), set()
    for line in lines[1:]:
        word, *rest = line.split("\t")
        if word == "C":
            assert int(rest[0]) > 0
        elif word == "I":
            begun.add(rest[0])
        elif word == "S":
            assert rest[0] in begun and rest[0] not in opened
            opened[rest[0]] = rest[2]
        elif word == "E":
            assert opened.pop(rest[0]) == rest[2]
        elif word == "R":
            opened.pop(rest[0], None)
            retired.add(rest[0])
    assert len(begun) == result.instructions and begun == retired and not opened


def test_trace_holds_each_unit_s_busy_time(tmp_path: Path) -> None:
    result = isa.run(isa.assemble(VECTOR), timed=True, timeline=True)
    assert result.timeline(tmp_path / "t.json") == 0
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    busy: dict[str, float] = {}
    for event in events:
        if event["ph"] == "X":
            busy[names[event["tid"]]] = busy.get(names[event["tid"]], 0) + event["dur"] * 1e3
    assert busy["arithmetic"] == pytest.approx(result.stalls["arithmetic"]["busy"])
    assert busy["front"] == pytest.approx(result.stalls["front"]["busy"])
    assert busy["function"] == pytest.approx(result.cycles)
    assert {event["name"] for event in events if event["ph"] == "X"} >= {"_start", "issue", "vadd.vv"}
    result.timeline(tmp_path / "t.pftrace")
    assert b"arithmetic" in (tmp_path / "t.pftrace").read_bytes()


def test_roofline_of_axpy(tmp_path: Path) -> None:
    """y += a·x on n floats: 2n operations, 8n bytes read, 4n written."""
    text = """f: mv t0, a0
    again: vsetvli t1, t0, e32, m8, ta, ma
    vle32.v v8, (a1)
    vle32.v v16, (a2)
    vfmacc.vf v16, fa0, v8
    vse32.v v16, (a2)
    sub t0, t0, t1
    slli t1, t1, 2
    add a1, a1, t1
    add a2, a2, t1
    bnez t0, again
    ret"""
    n = 10_000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    result = isa.call(isa.assemble(text), "f", n, x, y, np.float32(2), timed=True)
    np.testing.assert_array_equal(y, 2 * np.arange(n, dtype=np.float32) + 1)
    found = result.roofline()
    assert (found["operations"], found["bytes_loaded"], found["bytes_stored"]) == (2 * n, 8 * n, 4 * n)
    assert found["operations_per_byte"] == pytest.approx(1 / 6)
    assert result.cycles is not None
    assert found["operations_per_cycle"] == pytest.approx(2 * n / result.cycles)
    # generic: one pipe of 256 bits, a multiply-add each; one load and one store pipe of 32 bytes a cycle
    assert found["peak_operations_per_cycle"] == pytest.approx(16)
    assert found["peak_bytes_per_cycle"] == pytest.approx(64)
    assert found["bound"] == "memory"
    assert found["operations_per_cycle"] <= found["roof_operations_per_cycle"] == pytest.approx(64 / 6)


@pytest.mark.parametrize("name", isa.Core.names())
def test_no_run_is_above_its_roof(name: str) -> None:
    body = "\n".join(f"vfmacc.vf v{8 * (1 + i % 3)}, fa0, v0" for i in range(12))
    text = f"_start: li t0, 200\nvsetvli t1, zero, e32, m8, ta, ma\nl: {body}\naddi t0, t0, -1\nbnez t0, l\n{EXIT}"
    found = isa.run(isa.assemble(text), core=name, timed=True).roofline()
    assert found["operations_per_byte"] is None and found["bound"] == "arithmetic"
    assert (
        0.4 * found["peak_operations_per_cycle"] < found["operations_per_cycle"] <= found["peak_operations_per_cycle"]
    )


def test_recording_changes_no_cycle() -> None:
    elf = isa.assemble(VECTOR)
    plain = isa.run(elf, timed=True)
    watched = isa.run(elf, timed=True, pipeline=3, timeline=True)
    assert plain.to_dict() == watched.to_dict()


def test_functional_runs_have_no_views(tmp_path: Path) -> None:
    result = isa.run(isa.assemble(LOOP))
    assert result.functions == [] and len(result.table()) == 0
    for ask in (result.roofline, lambda: result.pipeline, lambda: result.timeline(tmp_path / "t.json")):
        with pytest.raises(ts.UserError, match="timed=True"):
            ask()
    with pytest.raises(ts.UserError, match="timed=True"):
        isa.run(isa.assemble(LOOP), pipeline=10)


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "k.elf").write_bytes(isa.assemble(LOOP))
    out = {name: str(tmp_path / name) for name in ("r.json", "p.txt", "t.json")}
    command = ["isa", "run", str(tmp_path / "k.elf"), "--timed", "--json", out["r.json"], "--pipeline", out["p.txt"]]
    done = CliRunner().invoke(app, [*command, "--pipeline-limit", "5", "--trace", out["t.json"]])
    assert done.exit_code == 0, done.output
    assert re.search(r"^f +\d+ ", done.output, re.M) and "201 instructions were not recorded" in done.output
    data = json.loads(Path(out["r.json"]).read_text())
    schema = json.loads((Path(__file__).parents[3] / "configs" / "schemas" / "isa_run.json").read_text())
    assert set(data) == set(schema["properties"])
    one = schema["properties"]["functions"]["items"]["properties"]
    assert all(set(row) == set(one) for row in data["functions"])
    assert set(data["roofline"]) == set(schema["properties"]["roofline"]["oneOf"][1]["properties"])
    assert sum(row["cycles"] for row in data["functions"]) == data["cycles"]
    twice = CliRunner().invoke(app, [*command[:5], out["r.json"], "--trace", out["r.json"]])
    assert twice.exit_code != 0


def test_errors_of_core_files_name_the_file(tmp_path: Path) -> None:
    data = json.loads(isa.Core.load("generic").timing)
    data["classes"]["vektor"] = {"latency": 1}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data, indent=1))
    with pytest.raises(ts.UserError, match=r"mine\.json"):
        isa.run(isa.assemble(LOOP), core=path, timed=True)


def test_bits_that_are_no_instruction_trap_in_a_timed_run() -> None:
    result = isa.run(isa.assemble("_start: nop\n.word 0xffffffff"), timed=True, pipeline=10, timeline=True)
    assert result.trap is not None and result.trap["cause"] == "illegal instruction"
    assert sum(row["instructions"] for row in result.functions) == result.instructions == 1
