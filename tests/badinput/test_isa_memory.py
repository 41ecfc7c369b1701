"""Memory of a simulated program: what is asked for beyond the limit is refused, what is used beyond it traps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa
from support.command import tilesim

LIMIT = 1 << 20
EXIT = "li a7, 93\necall\n"
MAP = "li a0, 0\nli a2, 3\nli a3, 0x22\nli a4, -1\nli a5, 0\nli a7, 222\necall\n"  # a1: bytes


def ended(text: str, **options: object) -> int:
    result = isa.run(isa.assemble(f"_start: {text}\n{EXIT}"), **{"max_memory": LIMIT, **options})
    assert result.trap is None, result.trap
    return int(result.exit_status or 0)


def test_mappings_beyond_it_fail() -> None:
    assert ended(f"li a1, {LIMIT + 4096}\n{MAP}neg a0, a0") == 12  # ENOMEM
    assert ended(f"li a1, {LIMIT}\n{MAP}sltz a0, a0") == 0
    # a third of a half each: the third one no longer fits, and does once one is gone
    text = f"li a1, {LIMIT // 2}\n{MAP}mv s1, a0\nli a1, {LIMIT // 2}\n{MAP}li a1, 4096\n{MAP}mv s2, a0\n"
    text += f"mv a0, s1\nli a1, {LIMIT // 2}\nli a7, 215\necall\nli a1, 4096\n{MAP}sltz t0, a0\n"
    text += "slli t0, t0, 4\nneg a0, s2\nadd a0, a0, t0"
    assert ended(text) == 12


def test_the_heap_stays_where_it_is_beyond_it() -> None:
    text = f"li a0, 0\nli a7, 214\necall\nmv s0, a0\nli t0, {LIMIT}\nadd a0, s0, t0\necall\nmv s1, a0\n"
    text += f"li t0, {LIMIT + 1}\nadd a0, s0, t0\necall"
    assert ended(f"{text}\nsub a0, a0, s1\nsnez a0, a0") == 0
    assert ended(f"{text}\nsub a0, a0, s0\nsrli a0, a0, 16") == LIMIT >> 16


def test_what_may_not_be_used_is_not_counted() -> None:
    """Address space that is only reserved is free, until it may be used."""
    reserved = MAP.replace("li a2, 3", "li a2, 0")
    text = (
        f"li a1, {64 * LIMIT}\n{reserved}mv s0, a0\nli a1, {LIMIT}\nli a2, 3\nli a7, 226\necall\nmv s1, a0\nmv a0, s0\n"
    )
    text += f"li a1, {2 * LIMIT}\necall\nneg a0, a0\nsnez s1, s1\nslli s1, s1, 7\nadd a0, a0, s1"
    assert ended(text) == 12


def test_a_mapping_that_grows_is_counted_once_and_keeps_its_bytes() -> None:
    size = LIMIT * 3 // 4
    text = f"li a1, {LIMIT // 2}\n{MAP}mv s0, a0\nli t0, 77\nli t1, {LIMIT // 2 - 8}\nadd t1, t1, s0\nsd t0, 0(t1)\n"
    text += f"mv a0, s0\nli a1, {LIMIT // 2}\nli a2, {size}\nli a3, 1\nli a7, 216\necall\n"
    text += f"li t1, {LIMIT // 2 - 8}\nadd t1, t1, a0\nld a0, 0(t1)"
    assert ended(text) == 77


# what touches the page at a0, and at 4,096 bytes further
TOUCHES = {
    "store": "sb t0, 0(a0)",
    "load": "lb t0, 0(a0)",
    "atomic": "amoadd.d t0, t1, (a0)",
    "float": "fsd fa0, 0(a0)",
    "vector store": "vsetvli t0, x0, e8, m1, ta, ma\nvse8.v v8, (a0)",
    "vector gather": "vsetivli t0, 1, e8, m1, ta, ma\nvluxei8.v v8, (a0), v16",
    "call": "mv s5, a0\nmv s6, a1\nli a1, 8\nli a2, 0\nli a7, 278\necall\nmv a0, s5\nmv a1, s6",
}


@pytest.mark.parametrize("how", TOUCHES)
def test_a_page_beyond_it_traps(how: str) -> None:
    """All of a mapping as large as the limit: the program itself has some pages, so that its last ones are too many."""
    text = f"_start: li a1, {LIMIT}\n{MAP}li a1, {LIMIT}\nadd a1, a1, a0\nli s9, 4096\n"
    text += f"walk: {TOUCHES[how]}\nadd a0, a0, s9\nbltu a0, a1, walk\n{EXIT}"
    result = isa.run(isa.assemble(text), max_memory=LIMIT)
    assert result.trap is not None and result.trap["cause"] == "memory is used up", result.trap
    assert "1048576 bytes are in use" in result.trap["detail"] and "max_memory" in result.trap["detail"]
    assert result.trap["symbol"].startswith("walk") and result.trap["address"] >= 0x20_0000_0000
    assert result.exit_status is None


def test_no_handler_of_the_program_gets_it() -> None:
    """Without an operating system too: a handler that allocates would never end."""
    text = ".globl tohost\n_start: la t0, h\ncsrw mtvec, t0\nla a0, room\n1: sb t0, 0(a0)\nli t1, 4096\n"
    text += "add a0, a0, t1\nj 1b\n"
    text += f".balign 4\nh: j h\n.balign 64\ntohost: .dword 0\nroom: .space {2 * LIMIT}"
    with pytest.raises(ts.UserError, match="do not fit into memory"):
        isa.run(isa.assemble(text), max_memory=LIMIT, bare=True)
    text = "_start: la t0, h\ncsrw mtvec, t0\nli a0, 0x3fff800000\nli t1, 4096\n"
    text += "1: sb t0, 0(a0)\nadd a0, a0, t1\nj 1b\n.balign 4\nh: j h"
    result = isa.run(isa.assemble(text), max_memory=LIMIT, bare=True)
    assert result.trap is not None and result.trap["cause"] == "memory is used up"


def test_output_that_is_kept_is_limited() -> None:
    text = f"_start: li a0, 1\nla a1, _start\nli a2, 4096\nli a7, 64\necall\nj _start\n.space 8192\n{EXIT}"
    result = isa.run(isa.assemble(text), max_memory=LIMIT)
    assert result.trap is not None and "output" in result.trap["detail"] and len(result.output) <= LIMIT


def test_descriptors_are_limited() -> None:
    assert ended("1: li a0, 1\nli a7, 23\necall\nbgez a0, 1b\nneg a0, a0") == 24  # EMFILE


def test_arguments_of_a_call_are_limited() -> None:
    program = isa.assemble("f: ret")
    array = np.ones(LIMIT, np.uint8)
    with pytest.raises(ts.UserError, match="do not fit into memory"):
        isa.call(program, "f", array, max_memory=LIMIT)
    assert isa.call(program, "f", array, max_memory="2 MiB").trap is None


@pytest.mark.parametrize(
    ("given", "said"),
    [(0, "4096"), (-1, "4096"), (1.5, "whole number"), ("4 apples", "apples"), (True, "whole number")],
)
def test_what_is_no_limit(given: object, said: str) -> None:
    with pytest.raises(ts.UserError, match=said):
        isa.run(isa.assemble(f"_start: {EXIT}"), max_memory=given)


FILL = f"""_start: li a1, 0x800000000
{MAP}
walk: sb t0, 0(a0)
li t0, 4096
add a0, a0, t0
j walk"""


def test_command_line(tmp_path: Path) -> None:
    (tmp_path / "p.elf").write_bytes(isa.assemble(FILL.replace("0x800000000", str(LIMIT))))
    done = tilesim("isa", "run", str(tmp_path / "p.elf"), "--max-memory", "1MiB")
    assert done.returncode == 1 and "memory is used up" in done.stderr and "walk" in done.stderr
    assert tilesim("isa", "run", str(tmp_path / "p.elf"), "--max-memory", "many").returncode == 2


def test_a_host_without_memory_is_said_in_words(tmp_path: Path) -> None:
    """The limit of the process is reached before the program's: no traceback."""
    (tmp_path / "p.elf").write_bytes(isa.assemble(FILL))

    command = f'ulimit -v 1048576; exec "{sys.executable}" -m tilesim isa run p.elf --max-memory 64GiB'
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode in (1, 2) and "Traceback" not in done.stderr and "memory" in done.stderr, done.stderr
