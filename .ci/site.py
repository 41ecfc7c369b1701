"""Takes the notebooks, which lie beside the documentation, into the site, and lists them in its navigation."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]


def notebooks(folder: str = "notebooks") -> list[Path]:
    """Of a folder, in the order of their names, which begin with numbers."""
    return sorted((ROOT / folder).glob("*.ipynb"))


FOLDERS = ("notebooks", "notebooks/exercises")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the notebooks in the places that the navigation has for them."""
    pages: dict[str, list[Any]] = {
        folder: [path.relative_to(ROOT).as_posix() for path in notebooks(folder)] for folder in FOLDERS
    }
    config.nav = _filled(config.nav or [], pages)
    return config


def _filled(entry: Any, pages: dict[str, list[Any]]) -> Any:
    """Navigation in which the name of a folder has become its notebooks."""
    if isinstance(entry, dict):
        return {title: _filled(below, pages) for title, below in entry.items()}
    if isinstance(entry, list):
        return [one for below in entry for one in (pages.get(below) if below in FOLDERS else [_filled(below, pages)])]
    return pages.get(entry, entry)


@event_priority(100)  # before they are turned into pages
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds them as files of the documentation."""
    for path in (path for folder in FOLDERS for path in notebooks(folder)):
        files.append(File(path.relative_to(ROOT).as_posix(), str(ROOT), config.site_dir, config.use_directory_urls))
    return files


LINK = re.compile(r'href="((?:\.\./)+[\w/]+)\.(md|ipynb)(#[^"]*)?"')


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Links of notebooks name files of the repository, for Jupyter: here they lead to the pages of those files."""
    here = page.file.src_uri
    if not here.endswith(".ipynb"):
        return output

    def found(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link[1])).removeprefix("docs/")
        return f'href="{posixpath.relpath(target, here.removesuffix(".ipynb"))}/{link[3] or ""}"'

    return LINK.sub(found, output)
