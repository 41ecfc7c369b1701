"""`check` and the commands that compare: tolerances, what changed by more, exit codes, mistakes."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tilesim as ts
from support.compared_results import Tags, by_hand, row
from tilesim.base import figures
from tilesim.cli.main import app
from tilesim.results.headlines import tolerance_of


@pytest.fixture(scope="module")
def template() -> ts.Result:
    return ts.run(ts.workloads.matmul(64, 64, 64), machine="edge-8")


@pytest.mark.parametrize(
    ("text", "share"),
    [("2%", 0.02), ("0.02", 0.02), (0.02, 0.02), ("0", 0), (0, 0), (" 2.5 % ", 0.025), ("150%", 1.5), (".1", 0.1)],
)
def test_tolerances(text: Any, share: float) -> None:
    assert tolerance_of(text) == pytest.approx(share)


@pytest.mark.parametrize(
    "text", ["-1%", "-0.1", -0.1, "two", "", "%", "nan", math.nan, math.inf, "2", 2, "2%%", None, [], "1e999%"]
)
def test_no_tolerances(text: Any) -> None:
    with pytest.raises(ts.UserError, match="tolerance"):
        tolerance_of(text)


def test_check_lists_what_changed_by_more(template: ts.Result) -> None:
    """Ten per cent of 1,000 is 100: 1,100 is within, 1,101 beyond; up and down alike."""
    before = by_hand([row("up", 1000), row("down", 1000), row("same", 1000)], template)
    after = by_hand([row("up", 1100), row("down", 899), row("same", 1000)], template)
    rows = ts.compare(before, after).check("10%").rows
    assert [(one["kind"], one["name"], one["before"], one["after"]) for one in rows] == [
        ("operation", "down", 1000, 899)
    ]
    assert rows[0]["change"] == pytest.approx(-0.101)
    assert not ts.compare(before, after).check("10.2%").rows
    assert [one["name"] for one in ts.compare(before, after).check(0).rows] == ["time", "down", "up"]


def command(*words: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, words)
    return outcome.exit_code, outcome.output + (str(outcome.exception) if outcome.exit_code == 1 else "")


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, k in (("before", 64), ("after", 128)):
        ts.run(ts.workloads.matmul(64, 64, k), machine="edge-8").save(f"{name}.json")
    code, text = command("check", "after.json", "--against", "before.json", "--tolerance", "2%", "--json", "c.json")
    assert code == 1 and re.search(r"time: [\d,]+ cycles → [\d,]+ cycles \(\+\d+\.\d %\)", text)
    found = json.loads(Path("c.json").read_text(encoding="utf-8"))
    assert found["ok"] is False and {one["name"] for one in found["changed"]} >= {"time", "memory_bytes"}
    assert command("check", "after.json", "--against", "after.json")[0] == 0
    code, text = command("compare", "before.json", "after.json", "--html", "page.html", "--json", "-")
    assert code == 0 and json.loads(text)["names"] == {"a": "before", "b": "after"}
    Tags(Path("page.html").read_text(encoding="utf-8"))
    code, text = command("compare", "matmul:64,64,64", "before.json", "--machine", "edge-8", "--machine", "h100")
    assert code == 0 and "c (before) against a (matmul:64,64,64, edge-8)" in text
    assert "estimates and simulations are mixed" in text


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["compare", "mlp"], "at least two results"),
        (["compare", "resnet19", "--machine", "tpu-v3", "--machine", "tpu-v4"], "resnet18"),
        (["compare", "mlp", "--machine", "tpu-v3", "--machine", "tpu-v5"], "tpu-v"),
        (["compare", "result.json", "result.json", "--machine", "edge-8"], "options do not apply to saved results"),
        (["compare", "result.json", "other.json"], "other.json"),
        (["compare", "result.json", "gone.json"], "gone.json"),
        (["compare", "result.json", "result.json", "--html", "nowhere/page.html"], "nowhere"),
        (["compare", "mlp", "--machine", "h100", "--machine", "edge-8", "--mapping", "cost"], "closed form.*--mapping"),
        (["check", "result.json", "--against", "other.json"], "other.json"),
        (["check", "result.json", "--against", "result.json", "--tolerance", "-2%"], "tolerance"),
    ],
)
def test_mistakes(words: list[str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ts.run("matmul:8,8,8", machine="edge-8").save("result.json")
    Path("other.json").write_text('{"a": 1}', encoding="utf-8")
    outcome = CliRunner().invoke(app, words)
    assert isinstance(outcome.exception, ts.UserError) and re.search(what, str(outcome.exception), re.DOTALL)


def test_parts_of_a_whole() -> None:
    assert figures.part_of(120_000, 162_000, "cycles") == "120 of 162 thousand cycles"
    assert figures.part_of(12, 40, "cycles") == "12 of 40 cycles"
    assert figures.part_of(1.2e-3, 3.41e-3, "s") == "1.20 of 3.41 ms"
    assert figures.amount_of(1_620_000, "cycles") == "1.62 million cycles"
    assert figures.amount_of(7, "cycles") == "7 cycles"
