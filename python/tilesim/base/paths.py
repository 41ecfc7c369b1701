"""Where the data files of the package lie."""

import json
from pathlib import Path


def configs_dir() -> Path:
    """The directory of the shipped configurations (machines, devices, DRAM parts, networks)."""
    installed = Path(__file__).parents[1] / "configs"
    source = Path(__file__).resolve().parents[3] / "configs"
    for candidate in (installed, source):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the configurations of tilesim are neither at {installed} nor at {source}")


def sample(table: str) -> Path:
    """The rows of a measured table that the package ships; `configs/samples/README.md` says where they come from."""
    return configs_dir() / "samples" / f"{table}.csv"


def whole_rows(table: str) -> int:
    """The size of the measured table that a sample is of."""
    return int(json.loads((configs_dir() / "samples" / "rows.json").read_text(encoding="utf-8"))[table])
