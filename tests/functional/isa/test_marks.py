"""Regions that a program marks: counted by hand, within each other, and what is unbalanced."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tilesim.isa as isa

NESTED = """
f: li t0, 3
outer: ts.mark 1
 nop
 li t1, 2
inner: ts.mark 2
 nop
 nop
 addi t1, t1, -1
 ts.mark -2
 bnez t1, inner
 ts.mark -1
 addi t0, t0, -1
 bnez t0, outer
 ts.mark 2
 fadd.s fa0, fa0, fa0
 fmadd.s fa0, fa0, fa0, fa0
 lw t0, -8(sp)
 sd t0, -16(sp)
 ts.mark -2
 ret
"""


def called(text: str, **more: Any) -> isa.IsaResult:
    return isa.call(isa.assemble(text), "f", **more)


@pytest.mark.parametrize("timed", [False, True])
def test_counts_of_nested_regions(timed: bool) -> None:
    result = called(NESTED, timed=timed)
    assert result.trap is None
    rows = {row["path"]: row for row in result.marks}
    assert list(rows) == ["1", "1/2", "2"]
    assert [(row["region"], row["times"], row["open"]) for row in rows.values()] == [
        (1, 3, False),
        (2, 6, False),
        (2, 1, False),
    ]
    # nop, li; twice: mark, three, mark, branch
    assert [row["instructions"] for row in rows.values()] == [3 * (2 + 2 * 6), 6 * 3, 4]
    if not timed:
        assert all(row["cycles"] is None and row["operations"] is None for row in rows.values())
        return
    assert rows["2"]["operations"] == 1 + 2 and rows["1"]["operations"] == 0
    assert (rows["2"]["bytes_loaded"], rows["2"]["bytes_stored"]) == (4, 8)
    assert result.cycles is not None
    assert 0 < rows["1/2"]["cycles"] < rows["1"]["cycles"] < result.cycles
    assert rows["1"]["cycles"] + rows["2"]["cycles"] <= result.cycles


def test_cycles_of_a_region_grow_by_what_is_put_into_it() -> None:
    """A chain of sums that depend on each other: one more cycle each."""

    def cycles(count: int) -> int:
        text = "f: ts.mark 5\n" + "add a0, a0, a0\n" * count + "ts.mark -5\nli t0, 9\nret"
        return int(called(text, timed=True).marks[0]["cycles"])

    assert cycles(30) - cycles(10) == 20


def test_vectors_are_counted() -> None:
    text = "f: ts.mark 7\nli t0, 5\nvsetvli t0, t0, e32, m1, ta, ma\n" + 2 * "vadd.vv v8, v8, v8\n" + "ts.mark -7\nret"
    row = called(text).marks[0]
    assert (row["instructions"], row["vector_instructions"], row["element_operations"]) == (4, 2, 10)
    assert called(text, timed=True).marks[0]["operations"] == 10


def test_a_region_that_does_not_end() -> None:
    result = called("f: ts.mark 3\nnop\nts.mark 4\nnop\nret")
    rows = {row["path"]: row for row in result.marks}
    assert [(path, row["open"], row["instructions"]) for path, row in rows.items()] == [
        ("3", True, 4),
        ("3/4", True, 2),
    ]
    assert "3 (open)" in str(result.table("mark"))
    assert called("f: nop\nret").marks == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ts.mark -4", "region 4 ends, but no region is open"),
        ("ts.mark 4\nts.mark -5", "region 5 ends, but 4 began last"),
        ("ts.mark 1\nts.mark 2\nts.mark -1", "region 1 ends, but 2 began last"),
        ("ts.mark 0", "numbers from 1 on"),
        ("g: ts.mark 1\nj g", "more than 64 regions"),
    ],
)
def test_unbalanced(text: str, said: str) -> None:
    trap = called(f"f: {text}\nret").trap
    assert trap is not None and trap["cause"] == "illegal instruction" and said in trap["detail"], trap


def test_in_the_command(tmp_path: Path) -> None:
    text = "_start: ts.mark 9\nnop\nts.mark -9\nli a0, 0\nli a7, 93\necall"
    (tmp_path / "p.elf").write_bytes(isa.assemble(text))
    command = [sys.executable, "-m", "tilesim", "isa", "run", "p.elf", "--timed", "--json", "r.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0
    data = json.loads((tmp_path / "r.json").read_text())
    assert data["marks"][0]["path"] == "9" and data["marks"][0]["instructions"] == 1
    assert "region" in done.stderr
