"""Pages from the command line: `run --report` and `open`."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import pytest

import tilesim as ts
from support.command import tilesim
from tilesim.cli import run as cli_run

PRODUCT = "matmul:64,64,64"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "r.json"
    ts.run(PRODUCT, machine="edge-8").save(path)
    return path


def test_report(tmp_path: Path) -> None:
    done = tilesim("run", PRODUCT, "--machine", "edge-8", "--report", str(tmp_path / "r.html"), "--quiet")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "matmul on edge-8" in text and "recorded by simulating once more" in text


def test_report_into_a_directory_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("work began before the path was looked at")

    monkeypatch.setattr(cli_run, "read", refuse)
    target = tmp_path / "not there" / "r.html"
    done = tilesim("run", PRODUCT, "--report", str(target))
    assert done.returncode == 2
    assert str(target) in done.stderr and "cannot be written" in done.stderr


def test_report_of_a_result_into_a_directory_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = ts.run(PRODUCT, machine="edge-8")
    monkeypatch.setattr(type(result), "explain", lambda _: pytest.fail("simulated before the path was looked at"))
    with pytest.raises(ts.UserError, match="cannot be written"):
        result.to_html(tmp_path / "not there" / "r.html")


def test_open(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    target = tmp_path / "page.html"
    done = tilesim("open", str(saved), "-o", str(target))
    assert done.returncode == 0 and done.stdout.split() == [str(target)]
    assert opened == [target.as_uri()]
    assert "matmul on edge-8" in target.read_text(encoding="utf-8")
    done = tilesim("open", str(saved))
    (path,) = done.stdout.split()
    assert Path(path).name == "r.html" and Path(path).parent != saved.parent
    assert opened[1:] == [Path(path).as_uri()]


def test_open_without_a_browser(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("a browser was opened"))
    target = tmp_path / "page.html"
    assert tilesim("open", str(saved), "--no-browser", "-o", str(target)).returncode == 0
    monkeypatch.setattr(webbrowser, "open", lambda _: False)
    done = tilesim("open", str(saved), "-o", str(target))
    assert done.returncode == 0 and "No browser" in done.stderr and target.is_file()


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "tilesim.machine"}', "<html>"])
def test_open_what_is_no_result(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text, encoding="utf-8")
    done = tilesim("open", str(path), "--no-browser", "-o", str(tmp_path / "page.html"))
    assert done.returncode == 2 and str(path) in done.stderr and not (tmp_path / "page.html").exists()
    done = tilesim("open", str(tmp_path / "missing.json"))
    assert done.returncode == 2 and "missing.json" in done.stderr
