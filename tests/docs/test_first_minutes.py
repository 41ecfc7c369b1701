"""What the first page says to type works as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts

pytestmark = pytest.mark.docs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorials" / "first_minutes.md"
ROWS = re.findall(r"^\| ([^|]+) \| (.*`.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def calls(row: str) -> list[str]:
    """Calls of a row that are whole: those with dots in them only show the form."""
    return [code for code in re.findall(r"`((?:ts|machine)\.[^`]+)`", row) if "..." not in code]


def test_rows_have_calls() -> None:
    assert len(ROWS) >= 10 and sum(bool(calls(row)) for _, row in ROWS) >= 10


@pytest.mark.parametrize(("what", "row"), ROWS, ids=[what for what, _ in ROWS])
def test_a_row(what: str, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if ".plot()" in row:
        pytest.importorskip("matplotlib").use("Agg")
    small = ts.workloads.matmul(64, 64, 64)
    names: dict[str, Any] = {"ts": ts, "machine": ts.Machine.load("tpu-v3")}
    names["a"], names["b"] = ts.compile(small, "tpu-v3"), ts.compile("mlp", "tpu-v3")
    if "compare" in row:
        names["a"], names["b"] = ts.simulate(names["a"]), ts.simulate(names["b"])
    if "from_jax" in row:
        jax = pytest.importorskip("jax")
        names["f"], names["args"] = jax.numpy.sin, (jax.numpy.ones((8, 8)),)
    ts.run("mlp").save("result.json")
    for code in calls(row):
        found = eval(code, names)
        assert found is not None
        if "energy" in row:
            result = ts.simulate("mlp", found)
            moved = result.data["memory_read_bytes"] + result.data["memory_written_bytes"]
            assert result.energy["memory bytes"] == pytest.approx(20e-12 * moved)
            assert ts.simulate("mlp", "tpu-v3").energy == {}
