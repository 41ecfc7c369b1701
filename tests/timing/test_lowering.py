"""Two ways to lower: as the chip's own compiler does, and as is best."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
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


@pytest.mark.few(2)
@pytest.mark.parametrize("machine", ["chiplet-2", "edge-8", "gemmini-16", "mesh-16", "fenced"])
def test_without_a_profile_both_words_mean_one_program(machine: str) -> None:
    """Whatever compiles: the call, a run, a changed machine again, the command."""
    if machine == "fenced":
        target = ts.Machine.load("edge-8").replace({"core.kernel_barrier": True, "core.count": 2})
    else:
        target = ts.Machine.load(machine)
    b = ts.GraphBuilder("rows")  # in types that all of them compute on
    b.output(b.layer_norm(b.input("x", (64, 96))).softmax(-1), "y")
    graph = b.build() if machine == "gemmini-16" else ts.models.mlp()
    plain, best = (ts.compile(graph, target, **how) for how in ({}, {"lowering": "best"}))
    assert plain.core.to_json() == best.core.to_json()
    assert plain.machine is not None and not plain.machine.get("core.kernel_barrier")
    stays = [row for row in plain.memory_plan().table().rows if row["level"] == "scratchpad"]
    assert stays or ts.compile(graph, target, residency="none").core.to_json() == plain.core.to_json()
    cycles = ts.simulate(best).cycles
    assert (
        ts.simulate(plain).cycles == ts.run(graph, machine=target).cycles == ts.simulate(graph, target).cycles == cycles
    )
    assert ts.simulate(plain, target).cycles == cycles
    faster = target.replace({"memory.bandwidth": "900 GB/s"})
    again = ts.simulate(plain)._again({"memory.bandwidth": "900 GB/s"})
    assert again.cycles == ts.simulate(ts.compile(graph, faster, lowering="best")).cycles
    sweep = ts.sweep(graph, target, {"memory.bandwidth": ["900 GB/s"]})
    assert [row["cycles"] for row in sweep.rows] == [again.cycles]


def test_the_host_takes_part_and_values_stay() -> None:
    program = ts.compile(chain(), "edge-8", place={"layer2": "host"}, residency="auto")
    assert ts.verify(program).ok
    with pytest.raises(ts.UserError, match=r"residency by tensor does not apply.*'layer0'.*auto, none"):
        ts.compile(chain(), "edge-8", place={"layer2": "host"}, residency={"layer0": "scratchpad"})


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


@pytest.mark.singly
@pytest.mark.parametrize("shape", [(128, 28, 28, 16), (8, 24, 24, 64), (64, 32, 15, 15)])
@pytest.mark.parametrize(("window", "stride"), [(3, 2), (2, 2), (3, 1)])
def test_gradient_of_pooling_is_no_slower_than_native(shape: tuple[int, ...], window: int, stride: int) -> None:
    """Images or channels lie over the lanes as layouts have them: tiles are cut along the others, and values stay."""
    last = shape[1] == shape[2]
    sizes = [1, window, window, 1] if last else [1, 1, window, window]
    strides = [1, stride, stride, 1] if last else [1, 1, stride, stride]
    pooled = [(extent - size) // step + 1 for extent, size, step in zip(shape, sizes, strides, strict=True)]
    b = ts.GraphBuilder("pooling")
    x, given = b.input("x", list(shape)), b.input("given", pooled)
    x = b.apply("maximum", x, b.scalar(0.0, "f32"))
    y = b.op("window_scatter", x, b.apply("negate", given), window=sizes, strides=strides, select="maximum")
    b.output(b.apply("multiply", y, x), "y")
    graph = b.build()
    programs = {lowering: ts.compile(graph, "tpu-v3", lowering=lowering) for lowering in ("native", "best")}
    times = {lowering: ts.simulate(program).seconds for lowering, program in programs.items()}
    assert times["best"] <= 1.35 * times["native"]
    if math.prod(shape) < 1 << 19:
        data = np.random.default_rng(0)
        inputs = [data.integers(-9, 9, extents).astype(np.float32) for extents in (shape, pooled)]
        (wanted,) = ts.reference(graph, inputs).values()
        for program in programs.values():
            (found,) = ts.execute(program, inputs).values()
            assert np.array_equal(np.asarray(found), np.asarray(wanted))
