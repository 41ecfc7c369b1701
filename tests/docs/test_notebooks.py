"""Notebooks and README snippets run as they stand."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from support.notebooks import Kernel, kernel

__all__ = ["kernel"]
ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_notebook(path: Path, kernel: Kernel) -> None:
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    notebook = nbformat.read(path, as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    for library in ("torch", "jax", "onnx", "pandas", "matplotlib", "plotly"):
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


def test_kinds_by_rooms(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty cell is legal only through the expansion."""
    from tilesim import _core

    between = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_devices", "broadcast_devices"}
    between.add("device_index")
    assert not any(_core.has_lowering(name) for name in between)
    for kind in _core.kinds():
        name = kind["name"] if isinstance(kind, dict) else kind
        lowered = _core.has_lowering(name)
        print(f"{name:<16} kernel {_core.has_kernel(name)!s:<6} lowering {lowered}")
        assert _core.has_kernel(name)
        assert lowered or name in between or name == "fused"
