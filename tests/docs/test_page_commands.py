"""The command lines of every page of the documentation run, in their order."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.doc_pages import PAGES, README, commands, prepared
from tilesim.cli.main import app

pytestmark = pytest.mark.docs


@pytest.mark.parametrize("page", [page for page in (*PAGES, README) if commands(page)], ids=lambda page: page.stem)
def test_commands_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    prepared(page)
    for words in commands(page):
        outcome = CliRunner().invoke(app, words)
        assert outcome.exit_code == 0, f"tilesim {' '.join(words)}: {outcome.output}"
