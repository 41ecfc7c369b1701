"""docs/how_to/troubleshooting.md: each message comes, and each remedy helps."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.cli.main import main

pytestmark = pytest.mark.docs

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how_to" / "troubleshooting.md"


def rows() -> list[list[str]]:
    """What was asked, message, cause, remedy."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if not row[0].startswith("what was asked")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files that the rows name."""
    monkeypatch.chdir(tmp_path)
    edge = ts.Machine.load("edge-8")
    edge.save("there.json")
    edge.save("good.toml")
    Path("damaged.toml").write_text("a = = 1\n", encoding="utf-8")
    Path("typo.json").write_text(edge.core.to_json().replace('"rows"', '"rowz"'), encoding="utf-8")
    Path("wrong.csv").write_text("device,latency\nh100,1\n", encoding="utf-8")
    ts.run("mlp").save("kept.json")
    return tmp_path


def done(text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[bool, str]:
    """Whether a command or a call ends well, and what was said."""
    capsys.readouterr()
    if not text.startswith("tilesim "):
        try:
            eval(text, {"ts": ts})
        except Exception as error:
            return False, f"{type(error).__name__}: {error}"
        return True, ""
    monkeypatch.setattr(sys, "argv", shlex.split(text))
    code: Any = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code or 0
    return code == 0, capsys.readouterr().err


def code_in(cell: str) -> str:
    found = re.search(r"`([^`]+)`", cell)
    assert found, cell
    return found[1]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0].strip("`")[:60])
def test_row(row: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked, message, cause, remedy = row
    with monkeypatch.context() as lacking:
        if asked.startswith("without "):
            library = asked.split()[1].rstrip(":")
            for name in [one for one in sys.modules if one == library or one.startswith(library + ".")]:
                lacking.delitem(sys.modules, name)
            lacking.setitem(sys.modules, library, None)
        well, said = done(code_in(asked), lacking, capsys)
    assert not well and message in said, said
    assert cause
    if not remedy.startswith("`pip "):
        well, said = done(code_in(remedy), monkeypatch, capsys)
        assert well, said


def test_the_page_has_rows() -> None:
    assert len(rows()) >= 20
