"""Takes the notebooks, which lie beside the documentation, into the site, and lists them in its navigation."""

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]


def notebooks() -> list[Path]:
    """In the order of their names, which begin with numbers."""
    return sorted((ROOT / "notebooks").glob("*.ipynb"))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Puts the notebooks in the place that the navigation has for them."""
    pages: list[Any] = [f"notebooks/{path.name}" for path in notebooks()]
    config.nav = [
        {name: pages if page == "notebooks" else page} for entry in config.nav or [] for name, page in entry.items()
    ]
    return config


@event_priority(100)  # before they are turned into pages
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds them as files of the documentation."""
    for path in notebooks():
        files.append(File(f"notebooks/{path.name}", str(ROOT), config.site_dir, config.use_directory_urls))
    return files
