"""The shipped samples of the measured tables: what README.md says holds wherever the package is installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.reference import table
from tilesim.base.paths import sample
from tilesim.cli.main import app, validate_app
from tilesim.validation import analytic, noc, rvv, sparse, tables

#: Largest mean and single error of a sample: what the README states of the whole table, with room for the smaller
#: number of rows, but below any error that would make the statement untrue.
LIMITS = {"gemm": (0.10, 0.7), "attention": (0.14, 0.8), "conv": (0.17, 0.9), "vector": (0.08, 0.5)}


@pytest.mark.parametrize("name", LIMITS)
def test_samples_of_gpu_tables(name: str) -> None:
    report = analytic.validate(name, sample(name))
    assert report["n"] >= 40
    assert report["n_unsupported"] == 0
    mean, worst = LIMITS[name]
    assert report["mean_abs_error"] <= mean
    assert report["max_abs_error"] <= worst


def test_decisions_of_the_sample() -> None:
    for answer in analytic.decisions(analytic.validate("gemm", sample("gemm"))).values():
        assert answer["right"] >= 0.9
        assert answer["right"] > answer["majority"]


def test_sample_of_dram() -> None:
    report = tables.dram(sample("dram"))
    assert report["n"] >= 36
    assert report["max_abs_error"] == 0  # the rules are the reference's: equal, not near


def test_sample_of_noc() -> None:
    report = noc.noc(sample("noc"), seeds=1)
    stable = [row for row in report["rows"] if row["state"] == "stable"]
    assert len(stable) >= 10
    assert sum(abs(row["error"]) for row in stable) / len(stable) <= 0.01


def test_sample_of_tpu_v3() -> None:
    report = tables.tpu_v3(sample("tpu-v3"))
    assert report["n"] >= 10
    assert report["mean_abs_error"] <= 0.035
    assert report["max_abs_error"] <= 0.09


def test_sample_of_sparse_units() -> None:
    groups = sparse.sparse(sample("sparse"))["groups"]
    assert groups["STONNE|sigma"]["n"] >= 20
    assert groups["STONNE|sigma"]["max_abs_error"] == 0  # the wiring is the reference's: equal, not near
    assert groups["DSTC|dstc"]["mean_abs_error"] <= 0.05
    assert groups["Eyeriss v2 PE"]["mean_abs_error"] <= 0.03


def test_sample_of_vector_cores() -> None:
    report = rvv.rvv(sample("rvv"))
    assert report["n"] == 240
    assert report["n_unsupported"] == 0
    for group in report["groups"].values():
        assert group["within_10_percent"] >= 0.93
        assert group["mean_capped_error"] <= 0.05


@pytest.mark.parametrize("name", [command.name for command in validate_app.registered_commands])
def test_validate_without_a_file(name: str) -> None:
    """Every table; the sizes are those of the sample's file and of rows.json."""
    once = ["--seeds", "1"] if name == "noc" else []
    outcome = CliRunner().invoke(app, ["validate", name, *once])
    assert outcome.exit_code == 0
    rows = len(sample(name).read_text(encoding="utf-8").splitlines()) - 1
    whole = json.loads(sample(name).with_name("rows.json").read_text(encoding="utf-8"))[name]
    told = f"all {whole:,} rows" if rows == whole else f"{rows:,} of {whole:,} rows"
    assert f"{name}: the shipped sample of the table, {told}" in outcome.output
    assert 0 < rows <= whole


def test_samples_are_taken_as_they_say(repository: Path) -> None:
    folder = table("tpu_v3_cycles.csv").parent
    script = repository / "bench" / "sample_tables.py"
    outcome = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
