"""docs/accuracy.md and its pictures are what the shipped samples give."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.reference import table
from tilesim.base.paths import configs_dir
from tilesim.cli.main import validate_app

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("accuracy_page", ROOT / "bench" / "accuracy_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["accuracy_page"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reports(script: ModuleType) -> dict[str, dict[str, Any]]:
    return dict(script.reports())


def test_the_page(script: ModuleType, reports: dict[str, dict[str, Any]]) -> None:
    wrong = script.stale(reports)
    assert not wrong, wrong


def test_every_table_and_row_is_told(script: ModuleType, reports: dict[str, dict[str, Any]]) -> None:
    """By hand from the rows: number, mean and largest error of each table, and each row in one group."""
    text = script.PAGE.read_text(encoding="utf-8")
    assert set(reports) == {command.name for command in validate_app.registered_commands}
    for name, report in reports.items():
        errors = [abs(row["error"]) if row["status"] == "ok" else 1.0 for row in report["rows"]]
        mean, largest = f"{100 * sum(errors) / len(errors):.1f} %", f"{100 * max(errors):.1f} %"
        assert re.search(rf"\(#{name}\) \| {len(errors)} \| {mean} \| [^|]+ \| {largest} \|", text), name
        groups = script.grouped(report)
        assert sum(map(len, groups.values())) == report["n"]
        assert len(script.points(report)) == report["n"] - report["n_unsupported"]
        assert f"## {name}\n" in text and f"](pictures/accuracy-{name}.svg)" in text
        for row in report["rows"]:
            if row["status"] != "ok":
                assert row["reason"] in text


def test_pictures_are_small_and_whole() -> None:
    for path in (ROOT / "docs" / "pictures").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert len(text) < 60_000 and text.rstrip().endswith("</svg>")


def test_whole_tables_are_as_large_as_told() -> None:
    """And none of their rows is in the file of figures."""
    whole = json.loads((ROOT / "bench" / "accuracy_whole.json").read_text(encoding="utf-8"))["tables"]
    sizes = json.loads((configs_dir() / "samples" / "rows.json").read_text(encoding="utf-8"))
    assert {name: row["n"] for name, row in whole.items() if name in sizes} == sizes
    for row in whole.values():
        assert row["n"] == len(table(row["file"]).read_text(encoding="utf-8").splitlines()) - 1
        assert not any(isinstance(value, (list, dict)) for value in row.values())
