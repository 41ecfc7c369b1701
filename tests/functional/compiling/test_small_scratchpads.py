"""A scratchpad in which nothing fits: the refusal names the least size, which compiles, and 64 bytes less does not."""

from __future__ import annotations

import re

import pytest

import tilesim as ts
from support.command import tilesim

SETTING = "core.scratchpad.bytes"


#: Each machine with one of two sizes; with the other one in a long run.
NORMAL = [(16, "edge-8"), (100, "mesh-16"), (16, "tpu-v3"), (100, "gemmini-16")]
PAIRS = [*NORMAL, *(pytest.param(116 - size, machine, marks=pytest.mark.slow) for size, machine in NORMAL)]


@pytest.mark.singly
@pytest.mark.parametrize(("bytes_", "machine"), PAIRS)
@pytest.mark.parametrize("model", ["mlp", "matmul:64,64,512", "convolution"])
def test_the_least_size_is_named(model, bytes_, machine):
    if model == "convolution":
        b = ts.GraphBuilder("convolution")
        x = b.conv2d(b.input("x", (1, 3, 16, 16)), b.weight("w", (8, 3, 3, 3)), padding=1, name="conv")
        b.output(b.apply("relu", x), "y")
        graph = b.build()
    else:
        graph = ts.models.build(model) if model == "mlp" else ts.workloads.matmul(64, 64, 512)
    if machine == "gemmini-16":
        graph = ts.quantize(graph)
    target = ts.Machine.load(machine)
    with pytest.raises(ts.UserError) as caught:
        ts.compile(graph, target.replace({SETTING: f"{bytes_} B"}))
    found = re.search(r"compiles from core.scratchpad.bytes of ([\d,]+) B on", str(caught.value))
    assert found, str(caught.value)
    least = int(found[1].replace(",", ""))
    assert least % 64 == 0 and least > bytes_
    assert ts.compile(graph, target.replace({SETTING: f"{least} B"})).machine is not None
    with pytest.raises(ts.UserError):
        ts.compile(graph, target.replace({SETTING: f"{least - max(64, least // 32)} B"}))


def test_on_the_command_line():
    done = tilesim("run", "mlp", "--machine", "edge-8", "--set", f"{SETTING}=64 B")
    assert done.returncode == 2 and f"--set {SETTING}=" in done.stderr


def test_other_refusals_stay():
    graph = ts.workloads.matmul(8, 8, 8)
    with pytest.raises(ts.Unsupported) as caught:
        ts.compile(graph, ts.Machine.load("gemmini-16").replace({SETTING: "4 KiB"}))
    assert "compiles from" not in str(caught.value) and "--quantize i8" in str(caught.value)
