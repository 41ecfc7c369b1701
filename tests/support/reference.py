"""Where the measured tables lie: `shared/reference` beside the repository, or beside a folder above it."""

from pathlib import Path

import pytest


def table(name: str) -> Path:
    """A measured table; skips the test where the folder is absent."""
    for folder in Path(__file__).resolve().parents:
        path = folder / "shared" / "reference" / name
        if path.is_file():
            return path
    pytest.skip(f"shared/reference/{name} is not here: the measured tables lie beside the repository")
