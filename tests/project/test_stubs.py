"""python/tilesim/_core.pyi is what pybind11-stubgen writes for the module as it is now."""

import difflib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

STUB = Path(__file__).resolve().parents[2] / "python" / "tilesim" / "_core.pyi"


def test_stubs(tmp_path: Path) -> None:
    if not importlib.util.find_spec("pybind11_stubgen"):
        pytest.skip("pybind11-stubgen is not installed: pip install 'tilesim[test]'")
    command = [sys.executable, "-m", "pybind11_stubgen", "tilesim._core", "-o", str(tmp_path), "--exit-code"]
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    assert done.returncode == 0, done.stdout
    written = (tmp_path / "tilesim" / "_core.pyi").read_text(encoding="utf-8")
    committed = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
    if written != committed:
        new = STUB.with_name("_core.pyi.new")
        new.write_text(written, encoding="utf-8")
        diff = "".join(
            difflib.unified_diff(committed.splitlines(True), written.splitlines(True), "committed", "now", n=1)
        )
        pytest.fail(f"the stubs are out of date; if the change is meant: mv {new} {STUB}\n{diff[:4000]}", pytrace=False)
