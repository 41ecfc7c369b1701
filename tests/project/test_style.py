"""ruff, mypy and clang-format find nothing. `.ci/format` repairs what is only layout."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _clean(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command[:6])}\n{done.stdout[-8000:]}", pytrace=False)


def _program(name: str) -> list[str]:
    if importlib.util.find_spec(name):
        return [sys.executable, "-m", name]
    if found := shutil.which(name):
        return [found]
    pytest.skip(f"{name} is not installed: pip install 'tilesim[test]'")


def test_ruff_check() -> None:
    _clean(*_program("ruff"), "check", ".")


def test_ruff_format() -> None:
    _clean(*_program("ruff"), "format", "--diff", ".")


def test_mypy() -> None:
    _clean(*_program("mypy"), "--config-file", "pyproject.toml", "python/tilesim")


def test_clang_format() -> None:
    beside = Path(sys.executable).with_name("clang-format")
    found = str(beside) if beside.exists() else shutil.which("clang-format")
    if not found:
        pytest.skip("clang-format is not installed: pip install 'tilesim[test]'")
    files = [
        str(path)
        for folder in ("cpp", "bindings", "tests/cpp")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in {".cpp", ".hpp"}
    ]
    _clean(found, "--dry-run", "-Werror", "--ferror-limit=20", *files)
