"""Training steps as graphs: their gradients against differences of the loss, what passes between devices, measured."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.reference import table
from tilesim.models.layered import Layered
from tilesim.models.llama_training import LLAMA3, llama3, llama_training_step
from tilesim.models.resnet_training import RESNETS, resnet_training_step
from tilesim.validation.step import step as compared

TINY = Layered(2, 8, 2, 12, 6, 2, 10, True, 2, 4, "f32", "unfused")


def drawn(graph: ts.Graph, integers: dict[str, int]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    found: dict[str, Any] = {}
    for row in graph.inputs:
        name, shape = row["name"], row["shape"]
        if name in integers:
            found[name] = rng.integers(0, integers[name], shape).astype(np.int32)
        elif name.endswith((".m", ".v", ".momentum")):
            found[name] = np.zeros(shape, np.float32)
        else:
            own = 1.0 if name.endswith(("norm", "norm1", "norm2", ".scale")) else 0.0
            spread = float(np.sqrt(2 / np.prod(shape[:-1]))) if len(shape) == 4 and name.endswith(".w") else 0.3
            found[name] = (own + min(0.3, spread) * rng.standard_normal(shape)).astype(np.float32)
    return found


def slope(graph: ts.Graph, inputs: dict[str, Any], name: str, way: Any, size: float) -> float:
    """Of the loss along a direction of one weight, by a central difference."""
    ends = [ts.reference(graph, {**inputs, name: inputs[name] + sign * size * way})["loss"] for sign in (1, -1)]
    return float((ends[0] - ends[1]) / (2 * size))


@pytest.mark.parametrize("name", ["embedding", "layer0.q", "layer0.norm1", "layer1.gate", "layer1.o", "norm", "head"])
def test_gradients_of_a_llama(name: str) -> None:
    """With empty moments the first one is a tenth of the gradient."""
    graph = llama_training_step(TINY)
    inputs = drawn(graph, {"tokens": 12, "targets": 12})
    gradient = ts.reference(graph, inputs)[f"new.{name}.m"] * 10
    way = np.random.default_rng(2).standard_normal(gradient.shape).astype(np.float32)
    assert float((gradient * way).sum()) == pytest.approx(slope(graph, inputs, name, way, 2e-3), rel=0.03, abs=3e-4)


@functools.cache
def updated() -> tuple[ts.Graph, dict[str, Any], dict[str, Any]]:
    """A step of a ResNet, its inputs, and what they become."""
    graph = resnet_training_step("resnet18", 1, images=4, image=32, dtype="f32")
    inputs = drawn(graph, {"labels": 1000})
    return graph, inputs, ts.reference(graph, inputs)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name", ["stem.w", "stage1.0.a.w", "stage1.0.d.w", "stage2.1.c.scale", "stage3.0.a.bias", "head.w"]
)
def test_gradients_of_a_resnet(name: str) -> None:
    """With empty momenta the new ones are the gradient."""
    graph, inputs, outputs = updated()
    gradient = outputs[f"new.{name}.momentum"]
    length = float(np.linalg.norm(gradient))
    assert length == pytest.approx(slope(graph, inputs, name, gradient / length, 0.02 / length), rel=0.05)


def test_fsdp_gathers_every_weight_once_and_scatters_its_gradient() -> None:
    """9 weights in each of two layers, embedding, last norm and head; nothing else but the loss is summed."""
    spmd = ts.partition(llama_training_step(Layered(2, 8, 2, 12, 8, 4, 12, True, 2, 4, "f32", "unfused"), 4))
    kinds = [row["kind"] for row in spmd.collectives()]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"all_gather": 21, "reduce_scatter": 21, "all_reduce": 1}


def test_data_parallel_sums_every_gradient() -> None:
    """25.56 million parameters of ResNet-50 in f32, and statistics beside; published: 102.866 MB in 375 sums."""
    spmd = ts.partition(resnet_training_step("resnet50", 4))
    rows = list(spmd.collectives())
    assert {row["kind"] for row in rows} == {"all_reduce"}
    moved = sum(row["bytes_in"] for row in rows)
    assert moved == pytest.approx(102.866e6, rel=0.01)


def test_names() -> None:
    with pytest.raises(ts.UserError, match="llama3-100m"):
        llama3("llama3-100", 4)
    with pytest.raises(ts.UserError, match="resnet50"):
        resnet_training_step("resnet51", 4)
    assert len(LLAMA3) == 6 and len(RESNETS) == 5


@pytest.mark.parametrize(
    ("file", "rows", "limit"),
    [
        ("llama3_step_seconds.csv", ("llama3-100m", "llama3-500m"), 0.15),
        ("resnet_step_seconds.csv", ("resnet18", "resnet34"), 0.20),
    ],
)
def test_measured_steps(file: str, rows: tuple[str, ...], limit: float, tmp_path: Any) -> None:
    """The smaller models; `tilesim validate step` takes all of them."""
    lines = table(file).read_text().splitlines()
    own = tmp_path / file
    own.write_text(
        "\n".join([lines[0], *[line for line in lines[1:] if any(f",{row}," in line for row in rows)]]) + "\n"
    )
    report = compared(own)
    assert report["rows"]
    assert all(row["status"] == "ok" and not row["fitted"] for row in report["rows"])
    by_system: dict[str, list[float]] = {}
    for row in report["rows"]:
        by_system.setdefault(row["system"], []).append(abs(row["error"]))
    assert all(float(np.mean(errors)) <= limit for errors in by_system.values()), by_system


def test_rows_that_ask_for_what_is_not_there(tmp_path: Any) -> None:
    path = tmp_path / "cases.csv"
    path.write_text(
        "system,devices,model,measured_seconds\nA100-41GB,4,llama3-100m,1\nB200,4,llama9,1\nB200,4,llama3-1b,x\n"
    )
    rows = compared(path)["rows"]
    assert [row["status"] for row in rows] == ["invalid"] * 3
    assert "A100-40GB" in rows[0]["reason"] and "model list" in rows[1]["reason"]
