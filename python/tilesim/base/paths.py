"""Where the data files of the package lie."""

import json
from pathlib import Path


def configs_dir() -> Path:
    """The directory of the shipped configurations (machines, devices, DRAM parts, networks).

    Returns:
        `tilesim/configs` of an installed package, or `configs` of the source tree for an editable or development build.

    Raises:
        FileNotFoundError: The installation lacks its data files.
    """
    installed = Path(__file__).parents[1] / "configs"
    source = Path(__file__).resolve().parents[3] / "configs"
    for candidate in (installed, source):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the configurations of tilesim are neither at {installed} nor at {source}")


def sample(table: str) -> Path:
    """The rows of a measured table that the package ships; `configs/samples/README.md` says where they come from.

    Args:
        table: tpu-v3, dram, noc, gemm, attention, conv, vector, network, sparse, rvv, collective or step.

    Returns:
        A CSV file.
    """
    return configs_dir() / "samples" / f"{table}.csv"


def whole_rows(table: str) -> int:
    """The size of the measured table that a sample is of.

    Args:
        table: as for `sample`.

    Returns:
        The number of its rows.
    """
    return int(json.loads((configs_dir() / "samples" / "rows.json").read_text(encoding="utf-8"))[table])
