"""The exercises run, are short, show a picture, and their answers hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from support.notebooks import Kernel, kernel

pytestmark = pytest.mark.docs

__all__ = ["kernel"]
nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks" / "exercises"
EXERCISES = sorted(FOLDER.glob("*.ipynb"))
TAGS = {"setup", "exercise", "picture", "check"}
LINES, WIDTH = 12, 130


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code(notebook: Any, tag: str = "") -> list[Any]:
    """The code cells, or those with a tag."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in cells if tag in ("", *cell.metadata.tags)]


def text(notebook: Any) -> str:
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def lines(cells: list[Any]) -> list[str]:
    """Lines of code but for empty ones, comments, imports and magics."""
    every = [line.strip() for cell in cells for line in cell.source.splitlines()]
    return [line for line in every if line and not line.startswith(("#", "%", "import ", "from "))]


def test_there_are_nine() -> None:
    assert [path.stem[:2] for path in EXERCISES] == [f"{number:02}" for number in range(1, 10)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_an_exercise_runs_and_its_answer_holds(path: Path, tmp_path: Path, kernel: Kernel) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    notebook = read(path)
    kernel.run(notebook, tmp_path)
    for cell in code(notebook, "picture"):
        shown = [output for output in cell.outputs if "image/png" in output.get("data", {})]
        assert len(shown) == 1, cell.source
    printed = [output for cell in code(notebook) for output in cell.outputs if output.output_type == "stream"]
    assert not [output.text for output in printed if output.name == "stderr" and "Warning" in output.text]
    assert not list(tmp_path.iterdir()), "it leaves files behind"


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_an_exercise_is_short_and_complete(path: Path) -> None:
    notebook = read(path)
    assert all(len(TAGS & set(cell.metadata.tags)) == 1 for cell in code(notebook))
    own = lines(code(notebook, "exercise"))
    assert 0 < len(own) <= LINES, len(own)
    assert max(map(len, own)) <= WIDTH and not any(";" in re.sub(r"([\"']).*?\1", "", line) for line in own)
    assert not lines(code(notebook, "setup")), "the work is done in the cells that are counted"
    assert len(code(notebook, "picture")) >= 1
    drawn = "".join(cell.source for cell in code(notebook, "picture"))
    assert not re.search(r"\bts\.", drawn), "pictures draw, they do not work"
    found = text(notebook)
    assert found.startswith("# Exercise ") and "**Question" in found and "**Answer" in found
    assert "check" in code(notebook)[-1].metadata.tags


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_an_answer_is_checked_by_what_was_computed(path: Path) -> None:
    """An assertion that names no value of the notebook could not fail."""
    notebook = read(path)
    claims = [
        node
        for cell in code(notebook, "check")
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Assert)
    ]
    assert len(claims) >= 3
    for claim in claims:
        assert any(isinstance(part, ast.Name) for part in ast.walk(claim.test)), ast.unparse(claim)
    assert not re.search(r"\d,\d{3}\b", text(notebook)), "figures stand in outputs, where they cannot go stale"


@pytest.mark.parametrize("path", EXERCISES, ids=lambda path: path.stem)
def test_an_exercise_is_stored_without_outputs_and_its_links_lead_somewhere(path: Path) -> None:
    notebook = read(path)
    assert not any(cell.outputs or cell.execution_count for cell in code(notebook))
    for link in re.findall(r"\]\(([^)]+)\)", text(notebook)):
        target, _, section = link.partition("#")
        assert (path.parent / target).is_file(), link
        headings = re.findall(r"^#+ (.+)$", (path.parent / target).read_text(encoding="utf-8"), re.MULTILINE)
        slugs = {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
        assert not section or section in slugs, link


def test_the_index_names_each_with_its_lines() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| \d \| `(\w+)\.ipynb` \|.*\| (\d+) \|$", page, re.MULTILINE))
    assert rows == {path.stem: str(len(lines(code(read(path), "exercise")))) for path in EXERCISES}
    assert "notebooks/exercises" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
