"""Two ways to lower: as the chip's own compiler does, and as is best."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.cli.main import app


def chain() -> ts.Graph:
    b = ts.GraphBuilder("chain")
    x = b.input("x", (256, 512))
    for i in range(3):
        x = b.apply("relu", b.linear(x, 512, name=f"layer{i}"))
    b.output(x)
    return b.build()


def test_best_reads_neither_profile_nor_barrier() -> None:
    native, best = (ts.simulate(ts.compile(chain(), "tpu-v3", lowering=one)) for one in ("native", "best"))
    assert (native.lowering, best.lowering) == ("native", "best")
    assert best.cycles < native.cycles
    assert native.cycles == ts.simulate(ts.compile(chain(), "tpu-v3")).cycles
    assert best.data["options"]["lowering"] == "best"
    settings = ts.Machine.load("tpu-v3").to_dict()
    del settings["lowering"]
    settings["core"]["kernel_barrier"] = False
    bare = ts.Machine.load(settings)
    assert ts.simulate(ts.compile(chain(), bare, lowering="best")).cycles == best.cycles
    for result in (native, best):
        assert result.bounds is not None and result.bounds.bytes <= result.memory_bytes


def test_the_lowering_stays_with_the_program(tmp_path: Path) -> None:
    program = ts.compile(chain(), "tpu-v3", lowering="best")
    cycles = ts.simulate(program).cycles
    assert ts.simulate(program, "tpu-v3").cycles == cycles
    program.save(tmp_path / "p.tsim")
    assert ts.simulate(ts.Program.load(tmp_path / "p.tsim")).cycles == cycles
    ts.simulate(program).save(tmp_path / "r.json")
    assert ts.Result.load(tmp_path / "r.json").lowering == "best"
    assert ts.verify(program).ok


def test_machines_without_a_profile_have_the_second_alone() -> None:
    with pytest.raises(ts.UserError, match=r"edge-8.*lowering profile"):
        ts.compile(chain(), "edge-8", lowering="native")
    plain, best = (ts.simulate(ts.compile(chain(), "edge-8", **how)) for how in ({}, {"lowering": "best"}))
    assert plain.cycles == best.cycles and plain.lowering == best.lowering == "best"
    with pytest.raises(ts.UserError, match=r"unknown lowering.*'nativ'.*native, best"):
        ts.compile(chain(), "tpu-v3", lowering="nativ")


def test_the_command_shows_both_and_explains_bounds(tmp_path: Path) -> None:
    path = tmp_path / "both.json"
    arguments = ["run", "matmul:512,512,512", "--lowering", "both", "--explain", "bounds", "--json", str(path)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0 and "bytes / bound" in done.output and "at least" in done.output
    found = json.loads(path.read_text())
    assert list(found) == ["native", "best"] and found["best"]["lowering"] == "best"
    done = CliRunner().invoke(app, ["run", "matmul:8,8,8", "--explain", "bound"])
    assert done.exit_code != 0 and "bounds" in str(done.exception)
