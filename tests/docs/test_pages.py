"""Every page of the documentation runs: its Python blocks as one session from top to bottom."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from support.doc_pages import LIBRARIES, PAGES, blocks, prepared

pytestmark = pytest.mark.docs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_python_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(blocks(page))
    for library in LIBRARIES:
        if (
            re.search(rf"^(?:import|from) {library}\b", text, re.MULTILINE)
            and importlib.util.find_spec(library) is None
        ):
            pytest.skip(f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    names = prepared(page)
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)
