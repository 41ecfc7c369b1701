"""Units that skip zeros against the reference table, and rows that are none."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.reference import table
from tilesim import UserError
from tilesim.cli.main import app
from tilesim.validation.sparse import sparse

SIGMA = {
    "source": "STONNE", "unit": "sigma", "m": "40", "n": "33", "k": "64", "a_density": "1", "b_density": "1",
    "multipliers": "64", "read_ports": "64", "write_ports": "64", "stationary": "a", "cycles": "1720",
    "relative_to_dense": "",
}  # fmt: skip


def test_the_reference_table() -> None:
    report = sparse(table("sparse_cycles.csv"))
    sigma, dstc, eyeriss = (report["groups"][key] for key in ("STONNE|sigma", "DSTC|dstc", "Eyeriss v2 PE"))
    assert sigma["n"] >= 60 and sigma["max_abs_error"] == 0
    assert dstc["mean_abs_error"] <= 0.05
    assert eyeriss["mean_abs_error"] <= 0.05 and eyeriss["max_abs_error"] <= 0.08  # products alone; nothing is fitted
    assert report["n_unsupported"] == 0


def judged(folder: Path, **changes: str) -> dict[str, Any]:
    """One row of a table, as it comes out."""
    row = {**SIGMA, **changes}
    with open(folder / "cases.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    (found,) = sparse(folder / "cases.csv")["rows"]
    assert {key: found[key] for key in row} == row
    return found  # type: ignore[no-any-return]


def test_a_row_by_hand(tmp_path: Path) -> None:
    """40 full vectors, one per placement: one word held, 33 streamed, 6 levels, and 3 (not 4: no network)."""
    row = judged(tmp_path)
    assert (row["status"], row["predicted_cycles"], row["error"]) == ("ok", 40 * (1 + 33 + 6 + 3), 0)
    relative = judged(tmp_path, cycles="", relative_to_dense="1.0")
    assert (relative["predicted_relative_to_dense"], relative["measured_relative_to_dense"]) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"a_density": "1.2"}, "invalid", "a_density"),
        ({"b_density": "nan"}, "invalid", "b_density"),
        ({"b_density": ""}, "invalid", "b_density"),
        ({"m": "0"}, "invalid", "m is not"),
        ({"k": "2.5"}, "invalid", "k is not a whole number in range"),
        ({"cycles": "fast"}, "invalid", "cycles"),
        ({"cycles": ""}, "invalid", "relative_to_dense"),
        ({"multipliers": ""}, "invalid", "multipliers is missing"),
        ({"multipliers": "48"}, "invalid", "power of two"),
        ({"read_ports": "48"}, "invalid", "divisor"),
        ({"stationary": "c"}, "invalid", "stationary"),
        ({"unit": "spade"}, "unsupported", "no model of the unit"),
    ],
)
def test_rows_that_are_none(tmp_path: Path, changes: dict[str, str], status: str, words: str) -> None:
    row = judged(tmp_path, **changes)
    assert row["status"] == status
    assert words in row["reason"]
    assert row["error"] is None


def test_command(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["validate", "sparse", "--json", str(tmp_path / "report.json")])
    assert outcome.exit_code == 0
    assert "STONNE|sigma" in outcome.output and (tmp_path / "report.json").is_file()
    (tmp_path / "none.csv").write_text("source,unit\nSTONNE,sigma\n", encoding="utf-8")
    with pytest.raises(UserError, match="missing column m"):
        sparse(tmp_path / "none.csv")
