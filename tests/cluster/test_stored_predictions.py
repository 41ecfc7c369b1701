"""Predictions of segments on disk: taken where all they depend on is the same, and nowhere else."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.cluster.programs import stored_predictions
from tilesim.cluster.programs.predicting import ClosedForms


def program(width: int = 512) -> Any:
    b = ts.GraphBuilder("two products", dtype="bf16")
    x = b.input("x", (256, width))
    up, down = b.input("up", (width, 1024)), b.input("down", (1024, width))
    b.output(b.matmul(b.apply("silu", b.matmul(x, up)), down), "y")
    return ts.partition(b.build(), {"d": 4}, {"up": (None, "d"), "down": ("d", None)})


class Counting:
    """The closed forms, counted."""

    name = "counting"
    version = 1

    def __init__(self) -> None:
        self.asked = 0

    def seconds(self, segment: Any, device: Any) -> Any:
        self.asked += 1
        return ClosedForms().seconds(segment, device)


def test_the_second_step_asks_for_nothing(tmp_path: Path) -> None:
    path, spmd, predictor = tmp_path / "p.db", program(), Counting()
    first = ts.cluster.step(spmd, "dgx-h100:4", predictor=predictor, store=path)
    asked = predictor.asked
    assert asked >= 1
    second = ts.cluster.step(spmd, "dgx-h100:4", predictor=predictor, store=path)
    assert predictor.asked == asked
    assert second.to_dict() == first.to_dict() == ts.cluster.step(spmd, "dgx-h100:4", predictor=Counting()).to_dict()
    for cluster, other, version in (("dgx-a100:4", spmd, 1), ("dgx-h100:4", program(768), 1), ("dgx-h100:4", spmd, 2)):
        predictor.version, before = version, predictor.asked
        ts.cluster.step(other, cluster, predictor=predictor, store=path)
        assert predictor.asked > before


def test_another_version_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.db"
    ts.cluster.step(program(), "dgx-h100:4", store=path)
    known = len(ts.Store(path))
    ts.cluster.step(program(), "dgx-h100:4", store=path)
    assert len(ts.Store(path)) == known
    monkeypatch.setattr(stored_predictions, "VERSION", stored_predictions.VERSION + 1)
    ts.cluster.step(program(), "dgx-h100:4", store=path)
    assert len(ts.Store(path)) == 2 * known


def test_a_table_is_known_by_its_rows(tmp_path: Path) -> None:
    path, table = tmp_path / "p.db", tmp_path / "t.csv"
    spmd = program()
    row = ts.cluster.step(spmd, "dgx-h100:4").segments
    for seconds in (1e-3, 2e-3):
        table.write_text("what,seconds\n" + "".join(f"segment {one['segment']},{seconds}\n" for one in row))
        found = ts.cluster.step(spmd, "dgx-h100:4", predictor=f"table:{table}", store=path)
        assert found.parts["compute"] == pytest.approx(seconds * sum(one["count"] for one in row))


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    path.write_text("no store")
    with pytest.raises(ts.UserError, match="damaged, or not a store"):
        ts.cluster.step(program(), "dgx-h100:4", store=path)
    path = tmp_path / "q.db"
    ts.cluster.step(program(), "dgx-h100:4", store=path)
    for value in ("[1.0]", '[-1.0, {}, "", 0, NaN, []]', "{"):
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE results SET value = ?", (value,))
        connection.close()
        with pytest.raises(ts.UserError, match="damaged"):
            ts.cluster.step(program(), "dgx-h100:4", store=path)


def test_what_is_not_kept(tmp_path: Path) -> None:
    nameless = Counting()
    nameless.version = None  # type: ignore[assignment]
    with pytest.raises(ts.UserError, match="needs a version"):
        ts.cluster.step(program(), "dgx-h100:4", predictor=nameless, store=tmp_path / "p.db")
    with pytest.raises(ts.UserError, match="layered workload"):
        ts.cluster.step("llama-3-8b", "dgx-h100:64", store=tmp_path / "p.db")


def test_processes_beside_each_other(tmp_path: Path) -> None:
    spmd, path = program(), tmp_path / "p.db"
    spmd.save(tmp_path / "a.spmd.json")
    text = (
        "import tilesim as ts, sys\nprint(repr(ts.cluster.step(sys.argv[1], 'dgx-h100:4', store=sys.argv[2]).seconds))"
    )
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", text, tmp_path / "a.spmd.json", path], stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    said = {run.communicate(timeout=60)[0].strip() for run in runs}
    assert said == {repr(ts.cluster.step(spmd, "dgx-h100:4").seconds)}
