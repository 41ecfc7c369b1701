"""The documentation site: built without a warning, with the notebooks; every link and anchor leads somewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("mkdocs", "material", "mkdocstrings", "mkdocs_jupyter")


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    # Not --quiet: warnings that are not said are not counted either.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "TILESIM_EXECUTE": "false", "JUPYTER_PLATFORM_DIRS": "1"}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment, timeout=600, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for library in LIBRARIES:
        pytest.importorskip(library)
    out = tmp_path_factory.mktemp("site")
    outcome = build(ROOT, out)
    assert outcome.returncode == 0, outcome.stderr + outcome.stdout
    return out


class Page(HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and tag in ("a", "img", "script", "link"):
                self.links.append(value)


def dead(folder: Path) -> Iterator[str]:
    """Links within the site that lead nowhere."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links if path.name != "404.html" else ():  # whose links are those of a published site
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{path.relative_to(folder.resolve())}: {link}"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{path.relative_to(folder.resolve())}: {link} (no such anchor)"


def test_every_link_leads_somewhere(site: Path) -> None:
    found = list(dead(site))
    assert not found, "\n".join(found[:50])


def test_notebooks_pictures_and_search(site: Path) -> None:
    files = (ROOT / "notebooks").rglob("*.ipynb")
    notebooks = sorted(path.relative_to(ROOT / "notebooks").with_suffix("").as_posix() for path in files)
    built = (path.parent.relative_to(site / "notebooks").as_posix() for path in site.rglob("notebooks/**/index.html"))
    assert len(notebooks) >= 16 and notebooks == sorted(built)
    front = (site / "index.html").read_text(encoding="utf-8")
    assert all(f"notebooks/{name}/" in front for name in notebooks)  # in the navigation
    entries = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]
    found = {entry["location"].split("#")[0] for entry in entries}
    assert {f"notebooks/{name}/" for name in notebooks} | {
        "how_to/calibrate/",
        "how_to/troubleshooting/",
        "explanation/accuracy/",
    } <= found
    accuracy = (site / "explanation" / "accuracy" / "index.html").read_text(encoding="utf-8")
    drawn = sorted(path.name for path in (ROOT / "docs" / "pictures").glob("accuracy-*.svg"))
    assert sorted(re.findall(r'src="\.\./\.\./pictures/(accuracy-[^"]+)"', accuracy)) == drawn and len(drawn) >= 10


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"(?:: |- )([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def two_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two pages with this project's rules, which can be built."""
    for library in LIBRARIES:
        pytest.importorskip(library)
    folder = tmp_path_factory.mktemp("two")
    rules = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    checks = rules[rules.index("validation:") : rules.index("markdown_extensions:")]
    (folder / "docs").mkdir()
    (folder / "mkdocs.yml").write_text(f"site_name: x\ntheme: mkdocs\n{checks}", encoding="utf-8")
    (folder / "docs" / "settings.md").write_text("# Settings\n", encoding="utf-8")
    (folder / "docs" / "index.md").write_text("# Index\n\n[good](settings.md#settings)\n", encoding="utf-8")
    assert build(folder, folder / "good").returncode == 0
    return folder


@pytest.mark.parametrize(
    "text", ["[no page](none.md)\n", "[no heading](settings.md#none)\n", "![no picture](pictures/none.svg)\n"]
)
def test_a_dead_link_fails_the_build(text: str, two_pages: Path, tmp_path: Path) -> None:
    bad = shutil.copytree(two_pages / "docs", tmp_path / "docs") / "bad.md"
    shutil.copy(two_pages / "mkdocs.yml", tmp_path)
    bad.write_text((bad.parent / "index.md").read_text(encoding="utf-8") + text, encoding="utf-8")
    assert build(tmp_path, tmp_path / "bad").returncode != 0


def test_links_of_files_beside_the_site() -> None:
    """README and CONTRIBUTING link to files of the repository."""
    for name in ("README.md", "CONTRIBUTING.md"):
        links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", (ROOT / name).read_text(encoding="utf-8"))
        lost = [link for link in links if not urlsplit(link).scheme and not (ROOT / link).exists()]
        assert not lost, (name, lost)
