"""Every result with a table writes it as a page; what is saved is loaded as the same class, equal."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.public_api import public
from tilesim.base.table import Table, Tabled
from tilesim.base.view.pages import parts_of

CASES = {
    "simulate": lambda: ts.run("mlp", machine="edge-8"),
    "estimate": lambda: ts.estimate("mlp", "h100"),
    "compiled estimate": lambda: ts.estimate("mlp", "h100", compiler="torch"),
    "step": lambda: ts.cluster.step(
        "gpt3-175b", "dgx-h100:64", "tensor=8,pipeline=8,recompute=selective,sequence=true"
    ),
    "scaling": lambda: ts.cluster.scaling("gpt3-175b", "dgx-h100", [64], plan="tensor=8,pipeline=8,recompute=full"),
    "sweep": lambda: ts.sweep("mlp", "edge-8", {"core.arrays": [1, 2]}),
    "tune": lambda: ts.tune("mlp", "edge-8", budget=2),
    "coverage": lambda: ts.coverage("mlp", "edge-8"),
    "levels": lambda: ts.levels("mlp", "edge-8"),
    "roofline": lambda: ts.roofline("mlp", "h100"),
    "crossover": lambda: ts.crossover("h100", "fp8"),
    "machines": lambda: ts.devices(),
}


@pytest.mark.parametrize("name", CASES)
def test_pages_hold_every_row(name: str, tmp_path: Path) -> None:
    result: Any = CASES[name]()
    result.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>") and "http" not in page.partition("<script")[0]
    rows = result.table().rows
    if isinstance(result, Tabled) and len(rows) >= 13:
        assert {part["length"] for part in parts_of(page)["parts"]} == {len(rows)}
    elif isinstance(result, Tabled):
        assert page.count("<tr>") == len(rows) + 1


@pytest.mark.parametrize("name", ["simulate", "step", "estimate", "compiled estimate"])
def test_saved_results_are_loaded_as_they_were(name: str, tmp_path: Path) -> None:
    result: Any = CASES[name]()
    result.save(tmp_path / "result.json")
    loaded = type(result).load(tmp_path / "result.json")
    assert type(loaded) is type(result) and repr(loaded) == repr(result)
    tables = [name for name in ("table", "terms", "kernels", "caches") if hasattr(result, name)]
    assert [getattr(loaded, name)().rows for name in tables] == [getattr(result, name)().rows for name in tables]


def test_public_classes_with_a_table_write_pages() -> None:
    classes = {name: value for name, value in public().items() if inspect.isclass(value) and hasattr(value, "table")}
    data = {"ts.Machine", "ts.Program", "ts.TileLatencies", "ts.mapping.MappingTable"}  # no results
    assert {name for name, value in classes.items() if not hasattr(value, "to_html")} <= data
    assert Table([{"a": 1}]).table().rows == [{"a": 1}]


def test_steps_take_plans_as_text() -> None:
    work, cluster, text = "gpt3-175b", "dgx-h100:64", "tensor=8,pipeline=8,recompute=full"
    given = ts.cluster.step(work, cluster, ts.Plan.load(text))
    assert ts.cluster.step(work, cluster, text).seconds == given.seconds
    assert ts.cluster.step(work, cluster, given.plan.to_dict()).seconds == given.seconds
    with pytest.raises(ts.UserError, match="tensr"):
        ts.cluster.step(work, cluster, "tensr=8")


def test_machines_and_clusters_are_equal_by_value() -> None:
    for kind, name in ((ts.Machine, "tpu-v3"), (ts.Cluster, "dgx-h100:64"), (ts.Device, "h100")):
        one: Any = kind.load(name)
        other = kind.from_dict(one.to_dict())
        assert one == other and len({one, other}) == 1
    assert ts.Machine.load("tpu-v3") != ts.Machine.load("tpu-v3").replace({"core.array.count": 1})
    assert ts.Cluster.load("dgx-h100:64") != ts.Cluster.load("dgx-h100:128")


def test_texts_of_the_command_line_in_calls() -> None:
    work, plan = "llama-3-8b", "tensor=8,data=8"
    listed, text = (ts.cluster.scaling(work, "dgx-h100", devices, plan).rows for devices in ([64, 128], "64, 128"))
    assert text == listed
    with pytest.raises(ts.UserError, match="devices: not a whole number"):
        ts.cluster.scaling(work, "dgx-h100", "64,x", plan)


def test_passes_of_run(tmp_path: Path) -> None:
    """A logistic of x times x is one operation where patterns are recognised, from an object and from a file."""
    build = ts.GraphBuilder("g")
    x = build.input("x", (8, 16), "f32")
    build.output(build.apply("multiply", x, build.apply("sigmoid", x)))
    build.graph.save(tmp_path / "g.json")
    for model in (build.graph, tmp_path / "g.json"):
        for passes, names in (
            ("none", ["sigmoid", "multiply"]),
            ("all", ["multiply"]),
            (["activations"], ["multiply"]),
        ):
            found = ts.run(model, machine="edge-8", passes=passes, fuse="none")
            assert [row["name"] for row in found.data["operations"]] == names
