"""Notebooks and README snippets run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(path: Path) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()


def test_readme_snippets() -> None:
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert snippets
    names: dict[str, object] = {}
    for snippet in snippets:
        exec(snippet, names)


def test_bring_your_model_snippets() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text = (ROOT / "docs" / "bring_your_model.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    for snippet in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(snippet, names)


def test_kinds_by_rooms(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty cell is legal only through the expansion."""
    from tilesim import _core

    for kind in _core.kinds():
        name = kind["name"] if isinstance(kind, dict) else kind
        lowered = _core.has_lowering(name)
        print(f"{name:<16} kernel {_core.has_kernel(name)!s:<6} lowering {lowered}")
        assert _core.has_kernel(name)
        assert lowered or name == "fused"
