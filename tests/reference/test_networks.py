"""Measured times of whole networks: the error of each device, what a compiler gains, the envelope, bad rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jsonschema
import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.base.paths import configs_dir, sample
from tilesim.base.validation import statistics
from tilesim.cli.main import app
from tilesim.validation.network import network


@pytest.fixture(scope="module")
def report() -> dict[str, object]:
    return network(sample("network"))


def test_inference_of_every_device(report: dict) -> None:
    """Fitted on these rows: what is asked of them is 8 %."""
    rows = [row for row in report["rows"] if row["mode"] == "inference"]
    assert all(row["status"] == "ok" and row["fitted"] for row in rows)
    devices = {row["device"] for row in rows}
    assert len(devices) >= 5
    for device in devices:
        assert statistics([row for row in rows if row["device"] == device])["mean_abs_error"] <= 0.08, device


def test_what_compiling_gains(report: dict) -> None:
    pairs: dict[tuple[str, ...], dict[str, dict]] = {}
    for row in report["rows"]:
        if row["mode"] == "inference":
            pairs.setdefault((row["device"], row["model"], row["batch"]), {})[row["engine"]] = row
    errors = []
    for found in pairs.values():
        if len(found) == 2:
            measured, predicted = (
                found["compiled"][key] / found["eager"][key] for key in ("measured_ms", "predicted_ms")
            )
            errors.append(abs(predicted / measured - 1))
    assert len(errors) >= 6
    assert sum(errors) / len(errors) <= 0.04


def test_training(report: dict) -> None:
    """No row of training was fitted; the backward pass is two products per product, and what streams."""
    rows = [row for row in report["rows"] if row["mode"] == "training"]
    assert rows
    for row in rows:
        assert row["status"] == "ok"
        assert not row["fitted"]
        assert row["predicted_ms"] == pytest.approx(row["predicted_forward_ms"] + row["predicted_backward_ms"])
        assert 1.5 < row["predicted_backward_ms"] / row["predicted_forward_ms"] < 2.5
    assert statistics(rows)["mean_abs_error"] <= 0.15
    backward = [abs(row["predicted_backward_ms"] / row["measured_backward_ms"] - 1) for row in rows]
    assert sum(backward) / len(backward) <= 0.1


def test_envelope_and_bad_rows(tmp_path: Path) -> None:
    with open(sample("network"), newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["mode"] == "inference"][:1] * 9
    broken = [
        {}, {"device": "A100-PCIE-41GB"}, {"engine": "tensorrt"}, {"layers": "2.5"}, {"family": "brt"}, {"heads": "7"},
        {"total_ms": "nan"}, {"dtype": "fp7"},
        {"mode": "training", "engine": "compiled"},
    ]  # fmt: skip
    path, to = tmp_path / "cases.csv", tmp_path / "report.json"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows({**row, **change} for row, change in zip(rows, broken, strict=True))
    outcome = CliRunner().invoke(app, ["validate", "network", "--cases", str(path), "--json", str(to)])
    assert outcome.exit_code == 0, outcome.output
    data = json.loads(to.read_text(encoding="utf-8"))
    schema = json.loads((configs_dir() / "schemas" / "validation.json").read_text(encoding="utf-8"))
    jsonschema.validate(data, schema)
    assert [row["status"] for row in data["rows"]] == ["ok", *["invalid"] * 7, "unsupported"]
    wanted = ("A100-PCIE-40GB", "eager", "layers", "bert", "heads", "total_ms", "f32", "eager")
    for row, words in zip(data["rows"][1:], wanted, strict=True):
        assert words in row["reason"]
    first = data["rows"][0]
    assert first["predicted_ms"] == first["predicted_forward_ms"]
    assert first["predicted_backward_ms"] is None
    assert data["table"] == "network"
    assert data["mean_abs_error"] == pytest.approx((8 + abs(first["error"])) / 9)


def test_variants_of_devices() -> None:
    """Bandwidth and board power as published for each form."""
    known = {
        "A100-PCIE-40GB": (1.555e12, 250), "A100-PCIE-80GB": (1.935e12, 300), "A100-SXM4-40GB": (1.555e12, 400),
        "A100-SXM4-80GB": (2.039e12, 400), "V100-PCIE-32GB": (9e11, 250), "V100-SXM2": (9e11, 300),
        "V100-SXM3": (9e11, 350), "H100-SXM-80GB": (3.35e12, 700), "L4": (3e11, 72), "T4": (3.2e11, 70),
    }  # fmt: skip
    for label, (rate, watts) in known.items():
        device = ts.Device.named(label)
        assert (device.memory.bytes_per_second, device.power_watts) == (rate, watts), label
