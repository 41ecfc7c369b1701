"""The shipped samples of the measured tables: what README.md says holds wherever the package is installed, and
docs/explanation/accuracy.md and its pictures are what they give.

Each table is predicted once, by its command, whose output and file all tests here look at.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from support.reference import table
from tilesim.base.paths import configs_dir, sample
from tilesim.cli.commands import COMMANDS
from tilesim.cli.main import app
from tilesim.validation import analytic

ROOT = Path(__file__).resolve().parents[2]
NAMES = [name.split()[1] for name in COMMANDS if name.startswith("validate ")]
Reports = dict[str, dict[str, Any]]
QUICK = [name for name in NAMES if name not in ("noc", "network")]
#: Largest mean and single error of a sample: what the README states of the whole table, with room for the smaller
#: number of rows, but below any error that would make the statement untrue.
LIMITS = {"gemm": (0.10, 0.7), "attention": (0.14, 0.8), "conv": (0.17, 0.9), "vector": (0.08, 0.5)}


@pytest.fixture(scope="module")
def outputs() -> dict[str, str]:
    """What each command printed."""
    return {}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, outputs: dict[str, str]) -> Reports:
    """The validation file that each command wrote."""
    found, folder = {}, tmp_path_factory.mktemp("reports")
    for name in NAMES:
        path = folder / f"{name}.json"
        outcome = CliRunner().invoke(app, ["validate", name, "--json", str(path)])
        assert outcome.exit_code == 0, outcome.output
        outputs[name] = outcome.output
        found[name] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", LIMITS)
def test_samples_of_gpu_tables(name: str, reports: Reports) -> None:
    report = reports[name]
    assert report["n"] >= 40
    assert report["n_unsupported"] == 0
    mean, worst = LIMITS[name]
    assert report["mean_abs_error"] <= mean
    assert report["max_abs_error"] <= worst


def test_decisions_of_the_sample(reports: Reports) -> None:
    for answer in analytic.decisions(reports["gemm"]).values():
        assert answer["right"] >= 0.9
        assert answer["right"] > answer["majority"]


def test_sample_of_dram(reports: Reports) -> None:
    report = reports["dram"]
    assert report["n"] >= 36
    assert report["max_abs_error"] == 0  # the rules are the reference's: equal, not near


def test_sample_of_noc(reports: Reports) -> None:
    report = reports["noc"]
    assert report["n"] >= 19 and report["n_unsupported"] == 0
    assert [row["predicted_state"] for row in report["rows"]] == [row["state"] for row in report["rows"]]
    assert report["groups"]["stable"]["mean_abs_error"] <= 0.01
    assert report["groups"]["stable"]["max_abs_error"] <= 0.04
    assert report["groups"]["saturated"]["max_abs_error"] <= 0.015
    for row in report["rows"]:
        if row["hops"]:
            assert row["predicted_hops"] == pytest.approx(float(row["hops"]), rel=0.02)
            assert row["predicted_network_latency"] == pytest.approx(float(row["network_latency_cycles"]), rel=0.04)


def test_sample_of_tpu_v3(reports: Reports) -> None:
    report = reports["tpu-v3"]
    assert report["n"] >= 10
    assert report["mean_abs_error"] <= 0.0355
    assert report["max_abs_error"] <= 0.09


def test_sample_of_sparse_units(reports: Reports) -> None:
    groups = reports["sparse"]["groups"]
    assert groups["STONNE|sigma"]["n"] >= 20
    assert groups["STONNE|sigma"]["max_abs_error"] == 0  # the wiring is the reference's: equal, not near
    assert groups["DSTC|dstc"]["mean_abs_error"] <= 0.05
    assert groups["Eyeriss v2 PE"]["mean_abs_error"] <= 0.05


def test_sample_of_vector_cores(reports: Reports) -> None:
    report = reports["rvv"]
    assert report["n"] == 240
    assert report["n_unsupported"] == 0
    for group in report["groups"].values():
        assert group["within_10_percent"] >= 0.93
        assert group["mean_capped_error"] <= 0.05


@pytest.mark.parametrize("name", NAMES)
def test_validate_without_a_file(name: str, reports: Reports, outputs: dict[str, str]) -> None:
    """Every table; the sizes are those of the sample's file and of rows.json."""
    rows = len(sample(name).read_text(encoding="utf-8").splitlines()) - 1
    whole = json.loads(sample(name).with_name("rows.json").read_text(encoding="utf-8"))[name]
    told = f"all {whole:,} rows" if rows == whole else f"{rows:,} of {whole:,} rows"
    assert reports[name]["n"] == rows
    assert f"{name}: the shipped sample, {told}" in outputs[name]
    assert 0 < rows <= whole


def test_samples_are_taken_as_they_say(repository: Path) -> None:
    folder = table("tpu_v3_cycles.csv").parent
    script = repository / "bench" / "sample_tables.py"
    outcome = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


# --- docs/explanation/accuracy.md ---


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("accuracy_page", ROOT / "bench" / "accuracy_page.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["accuracy_page"] = module
    spec.loader.exec_module(module)
    return module


def test_the_page(script: ModuleType, reports: Reports) -> None:
    wrong = script.stale({name: reports[name] for name in script.TABLES})
    assert not wrong, wrong


@pytest.mark.parametrize("name", QUICK)
def test_the_script_runs_the_tables_as_the_commands_do(name: str, script: ModuleType, reports: Reports) -> None:
    """But for the two that take longest, which are one call each."""
    assert json.loads(json.dumps(script.TABLES[name][1](sample(name)))) == reports[name]


def test_every_table_and_row_is_told(script: ModuleType, reports: Reports) -> None:
    """By hand from the rows: number, mean and largest error of each table, and each row in one group."""
    text = script.PAGE.read_text(encoding="utf-8")
    assert set(script.TABLES) == set(NAMES)
    for name, report in reports.items():
        errors = [abs(row["error"]) if row["status"] == "ok" else 1.0 for row in report["rows"]]
        mean, largest = f"{100 * sum(errors) / len(errors):.1f} %", f"{100 * max(errors):.1f} %"
        assert re.search(rf"\(#{name}\) \| {len(errors)} \| {mean} \| [^|]+ \| {largest} \|", text), name
        groups = script.grouped(report)
        assert sum(map(len, groups.values())) == report["n"]
        assert len(script.points(report)) == report["n"] - report["n_unsupported"]
        assert f"## `{name}`\n" in text and f"](../pictures/accuracy-{name}.svg)" in text
        for row in report["rows"]:
            if row["status"] != "ok":
                assert row["reason"] in text


def test_pictures_are_small_and_whole() -> None:
    for path in (ROOT / "docs" / "pictures").glob("*.svg"):
        text = path.read_text(encoding="utf-8")
        assert len(text) < 60_000 and text.rstrip().endswith("</svg>")


def test_whole_tables_are_as_large_as_told() -> None:
    """And none of their rows is in the file of figures."""
    whole = json.loads((ROOT / "bench" / "accuracy_whole.json").read_text(encoding="utf-8"))["tables"]
    sizes = json.loads((configs_dir() / "samples" / "rows.json").read_text(encoding="utf-8"))
    assert {name: row["n"] for name, row in whole.items() if name in sizes} == sizes
    for row in whole.values():
        assert row["n"] == len(table(row["file"]).read_text(encoding="utf-8").splitlines()) - 1
        assert not any(isinstance(value, (list, dict)) for value in row.values())
