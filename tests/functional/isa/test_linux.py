"""Linux calls that C libraries make behind printf, perror, assert, realloc: as under qemu-user."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilesim.isa as isa
from support import riscv_tools
from support.c_programs import FILES, LIBRARY, STREAMS
from support.riscv_tools import under_qemu


def test_streams_and_memory(tmp_path: Path) -> None:
    file = riscv_tools.linux_gcc(tmp_path, STREAMS, "-O1", "-D_GNU_SOURCE")
    theirs = under_qemu(file)
    ours = isa.run(file, input=b"")
    assert ours.trap is None, ours.trap
    assert (ours.output, ours.errors, ours.exit_status) == (theirs.stdout, theirs.stderr, theirs.returncode)
    assert b"perror: No such file" in ours.errors and ours.exit_status == 3
    # behind abort there is nobody to catch the signal: the trap names it, and what was written before stays
    for how in ("assert", "abort"):
        theirs, ours = under_qemu(file, how), isa.run(file, how, input=b"")
        assert ours.trap is not None and "abort" in str(ours.trap["detail"])
        assert ours.output == theirs.stdout
        assert ours.errors == theirs.stderr.split(b"qemu: uncaught")[0]
    assert b"too few" in isa.run(file, "assert").errors


def test_a_stream_goes_to_a_file(tmp_path: Path) -> None:
    file = riscv_tools.linux_gcc(tmp_path, FILES, "-O1")
    root = tmp_path / "root"
    root.mkdir()
    ours = isa.run(file, root=root)
    assert (ours.exit_status, ours.trap) == (0, None)
    assert ours.errors == (root / "out.txt").read_bytes() == b"into the file\ntwice\nthrice\n"


@pytest.mark.slow  # musl is compiled first
@pytest.mark.parametrize("level", ["-O0", "-O3"])
@pytest.mark.parametrize("name", ["streams", "library"])
def test_programs_with_musl_by_clang(name: str, level: str, tmp_path: Path) -> None:
    """Vectorised by clang, library included, at two vector lengths."""
    source, given = {"streams": (STREAMS, b""), "library": (LIBRARY, b"one\ntwo words\n\nlast")}[name]
    file = riscv_tools.linux_clang(tmp_path, source, level, "-D_GNU_SOURCE", "-fno-sanitize=all")
    for vlen in (128, 512):
        theirs = under_qemu(file, "x", "a b", given=given, vlen=vlen)
        ours = isa.run(file, "x", "a b", input=given, vlen=vlen)
        assert ours.trap is None, ours.trap
        assert (ours.exit_status, ours.output, ours.errors) == (theirs.returncode, theirs.stdout, theirs.stderr)
