"""Notebooks and README snippets run as they stand."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from support.notebooks import Kernel, kernel

pytestmark = pytest.mark.docs

__all__ = ["kernel"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(path: Path, kernel: Kernel) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    for library in ("torch", "jax", "onnx", "pandas", "matplotlib", "bokeh"):
        if f"import {library}" in text or (library == "pandas" and "to_pandas" in text):
            pytest.importorskip(library)
    if "os.environ" not in text:
        kernel.run(notebook, Path.cwd())
        return
    own = Kernel()  # what libraries read once, when they are imported
    try:
        own.run(notebook, Path.cwd())
    finally:
        own.close()


def torch_is_there() -> bool:
    return importlib.util.find_spec("torch") is not None


def test_readme_snippets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # one of them writes a file
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert snippets
    names: dict[str, object] = {}
    for snippet in snippets:
        if "import torch" not in snippet or torch_is_there():
            exec(snippet, names)
