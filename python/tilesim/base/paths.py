"""Finds the package's data files."""

import json
from pathlib import Path


def configs_dir() -> Path:
    """Returns the directory of shipped configurations (machines, devices, DRAM parts, networks)."""
    installed = Path(__file__).parents[1] / "configs"
    source = Path(__file__).resolve().parents[3] / "configs"
    for candidate in (installed, source):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"Tilesim's configurations are missing: looked in {installed} and {source}")


def sample(table: str) -> Path:
    """Returns the path of a measured table's shipped sample; `configs/samples/README.md` lists the sources."""
    return configs_dir() / "samples" / f"{table}.csv"


def rows_of_full_table(table: str) -> int:
    """Returns the number of rows of the full measured table."""
    return int(json.loads((configs_dir() / "samples" / "rows.json").read_text(encoding="utf-8"))[table])
