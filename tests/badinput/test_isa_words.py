"""What calls and commands of the instruction level say of words that they do not know or cannot use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa
from support.command import tilesim

DOCUMENTED = ["I", "M", "A", "F", "D", "C", "Zicsr", "Zifencei", "Zba", "Zbb", "Zbs", "Zfh", "V"]
DOCUMENTED += ["Zvfh", "Zvfbfmin", "Zvfbfwma"]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_extensions_list_what_they_enable(name: str) -> None:
    rows = isa.instructions(name.lower())
    assert len(rows)
    done = tilesim("isa", "list", name)
    assert done.returncode == 0 and done.stdout.startswith(f"{len(rows)} instructions")


def test_halves_in_vectors() -> None:
    names = {row["name"] for row in isa.instructions("Zvfh")}
    assert {"vfadd.vv", "vmfeq.vf", "vfwcvt.f.x.v", "vfncvt.x.f.w", "vfmv.f.s"} <= names
    assert not {"vfirst.m", "vadd.vv", "vfwmaccbf16.vv"} & names


@pytest.mark.parametrize(("name", "near"), [("nonsense", ""), ("Zvfhh", "Zvfh"), ("Zb", "Zba"), ("", "")])
def test_unknown_extensions(name: str, near: str) -> None:
    with pytest.raises(ts.UserError, match="unknown extension") as raised:
        isa.instructions(name)
    assert "Zba" in str(raised.value) and f"Did you mean '{near}'" in str(raised.value) + (
        "" if near else "Did you mean ''"
    )
    if name:
        assert tilesim("isa", "list", name).returncode == 2


def test_an_address_without_raw(tmp_path: Path) -> None:
    (tmp_path / "k.elf").write_bytes(isa.assemble("_start: ret"))
    for words in ([str(tmp_path / "k.elf")], ["00008067"]):
        done = tilesim("isa", "dis", *words, "--address", "4")
        assert done.returncode == 2 and "--raw" in done.stderr
    assert "  4:" in tilesim("isa", "dis", "--raw", "--address", "4", str(tmp_path / "k.elf")).stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("vector", "mma, permute"),
        ("vector f32 e4096", "mma, permute"),
        ("sort", "mma, permute"),
        ("mma", "element type is missing"),
        ("mma bf16", "second element type is missing"),
        ("permute", "element type is missing"),
        ("vectr", "unknown kind"),
        ("mma bf17 bf16 b1 m1 n1 k1 ko1", "unknown dtype"),
    ],
)
def test_texts_of_kernels(text: str, said: str) -> None:
    with pytest.raises(ts.Error, match=said) as raised:
        isa.kernel(text, "edge-8")
    assert said == "unknown dtype" or "dtype" not in str(raised.value)


@pytest.mark.parametrize("text", ["vector", "permute", "mma f32"])
def test_texts_of_latencies(text: str, tmp_path: Path) -> None:
    store: Any = ts.TileLatencies(tmp_path / "l.sqlite", source="mine")
    with pytest.raises(ts.UserError, match="element type is missing"):
        store.add("edge-8", text, 1)


@pytest.mark.parametrize(("element", "swapped"), [("f32", ">f4"), ("f64", ">f8"), ("i16", ">i2")])
def test_semantics_of_another_order_of_bytes(element: str, swapped: str) -> None:
    own = isa.define("my.v vd, vs2", "custom-0", semantics=lambda x: x.astype(swapped), element=element)
    core = isa.Core.load("generic").extend(own)
    bits = 8 * np.dtype(swapped).itemsize
    program = isa.assemble(f"f: vsetivli t0, 2, e{bits}, m1, ta, ma\nmy.v v8, v16\nret", [own])
    with pytest.raises(ts.UserError, match=f"got '{swapped}, the other order of bytes'.*'?<"):
        isa.call(program, "f", core=core)
