"""DRAM channels against the reference table: every figure of every row."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import tilesim as ts
from tilesim.validation import tables as validate

FIGURES = ("cycles", "hits", "misses", "conflicts", "max_latency")


@pytest.fixture(scope="module")
def reference(repository: Path) -> Path:
    folder = repository.parent / "shared" / "reference"
    if not (folder / "dram_cycles.csv").is_file():
        pytest.skip(f"the reference tables are not at {folder}")
    return folder


@pytest.mark.parametrize("shipped", [True, False])
def test_every_row_is_equal(shipped: bool, reference: Path, tmp_path: Path) -> None:
    """With the shipped parts, and with those of the file beside the table."""
    cases = reference / "dram_cycles.csv"
    if shipped:
        cases = tmp_path / "cases.csv"
        cases.write_bytes((reference / "dram_cycles.csv").read_bytes())
    report = validate.dram(cases)
    assert bool(report["settings"]["from_table"]) != shipped
    assert report["n"] == 110
    for row in report["rows"]:
        assert row["status"] == "ok", row["reason"]
        for figure in FIGURES:
            assert row[f"predicted_{figure}"] == row[f"measured_{figure}"], (figure, row)
        # The table rounds latencies to three decimals.
        assert abs(row["predicted_mean_latency"] - row["measured_mean_latency"]) < 0.00051, row
    assert report["max_abs_error"] == 0


def test_shipped_parts_state_the_reference_constraints(reference: Path) -> None:
    """Expressions over timings give the numbers of the reference file, constraint by constraint."""
    issued = {"RD", "WR", "ACT", "PREpb", "REFpb", "PREab", "REFab"}
    for name, entry in json.loads((reference / "dram_parts.json").read_text()).items():
        part = ts.memory.Part.load(name).to_dict()

        def key(constraint: dict, after: str, before: str, sibling: bool) -> tuple:
            level = constraint["level"].replace("Sid", "stack").replace("_", "").lower()
            window = constraint.get("window", 1)
            return level, after.replace("ACT1", "ACT"), before.replace("ACT1", "ACT"), window, sibling

        wanted: dict[tuple, int] = {}
        for constraint in entry["constraints"]:
            for after in constraint["after"]:
                for before in constraint["before"]:
                    if {after.replace("ACT1", "ACT"), before.replace("ACT1", "ACT")} <= issued:
                        at = key(constraint, after, before, constraint.get("window") == 1)
                        wanted[at] = max(wanted.get(at, 0), constraint["cycles"])
        found: dict[tuple, int] = {}
        for constraint in part["constraints"]:
            for after in constraint["after"]:
                for before in constraint["before"]:
                    at = key(constraint, after, before, constraint.get("sibling", False))
                    found[at] = max(found.get(at, 0), constraint["cycles"])
        assert found == wanted, name


def test_a_part_that_is_not_shipped_is_read_beside_the_table(reference: Path, tmp_path: Path) -> None:
    parts = json.loads((reference / "dram_parts.json").read_text())
    (tmp_path / "dram_parts.json").write_text(json.dumps({"OTHER-1": parts["HBM3-6400"]}))
    with open(reference / "dram_cycles.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == "HBM3-6400"]
    cases = tmp_path / "cases.csv"
    with cases.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({**row, "part": "OTHER-1"} for row in rows)
        writer.writerow({**rows[0], "part": "MISSING-1"})
        writer.writerow({**rows[0], "part": "OTHER-1", "pattern": "zigzag"})
    report = validate.dram(cases)
    assert [row["status"] for row in report["rows"]] == ["ok"] * len(rows) + ["invalid", "invalid"]
    assert all(row["error"] == 0 for row in report["rows"][: len(rows)])
    assert "zigzag" in report["rows"][-1]["reason"]
