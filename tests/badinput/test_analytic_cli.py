"""The commands of the closed-form side: exit codes, one clear message, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilesim._core import Error
from tilesim.cli.main import app

ROWS = ["device,engine,dtype,m,n,k,latency_ms"] + [
    f"H100-SXM-80GB,vLLM,{dtype},{m},1024,1024,{0.006 + m * 1e-6 + extra}"
    for m in range(1, 40)
    for dtype, extra in (("bfloat16", 0.0), ("fp8", 0.002))
]


def tilesim(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(arguments))
    if isinstance(done.exception, Error):
        return 2, str(done.exception)
    return done.exit_code, done.output


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(ROWS) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["device", "show", "h1000"], ["h100"]),
        (["roofline", "mlp", "--device", "t44"], ["t4"]),
        (["roofline", "mlp", "--device", "h100", "--scheme", "fp9"], ["fp8"]),
        (["roofline", "resnet19"], ["resnet18"]),
        (["crossover", "h100", "fp9"], ["fp8"]),
        (["crossover", "h100", "fp8", "--shape", "1,b,3"], ["m,n,k"]),
        (["crossover", "h100", "--model", "gpt3"], ["gpt2"]),
        (["crossover", "h100", "fp8", "--engine", "vLMM"], ["vLLM"]),
        (["crossover", "t4@bas", "fp16"], ["base"]),
        (["suite", "llms"], ["llm"]),
        (["validate", "gemm", "--cases", "missing.csv"], ["missing.csv"]),
        (["calibrate", "missing.csv"], ["missing.csv"]),
        (["measure", "cuda", "--save", "x.csv", "--device", "t5"], ["t4"]),
    ],
)
def test_mistakes_are_explained(arguments: list[str], words: list[str]) -> None:
    code, text = tilesim(*arguments)
    assert code == 2
    for word in words:
        assert word in text


def test_calibrate_and_validate(rows: Path, tmp_path: Path) -> None:
    profile, report = tmp_path / "mine.json", tmp_path / "report.json"
    code, text = tilesim("calibrate", str(rows), "--device", "h100", "--save", str(profile))
    assert code == 0, text
    assert "held out by rows" in text
    assert json.loads(profile.read_text())["schema"] == "tilesim.profile"
    code, text = tilesim("validate", "gemm", "--cases", str(rows), "--profile", str(profile), "--json", str(report))
    assert code == 0, text
    assert "majority vote" in text
    assert json.loads(report.read_text())["n"] == len(ROWS) - 1
    assert tilesim("calibrate", str(rows), "--threshold", "0.0001")[0] == 1
    assert tilesim("validate", "gemm", "--cases", str(rows), "--device", "l40s")[0] == 2
    assert tilesim("validate", "gemm", "--cases", str(rows), "--profile", str(rows))[0] == 2


def test_measure_writes_what_calibrate_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilesim import Device
    from tilesim.analytic.measured import measure
    from tilesim.analytic.measured.tables import read

    monkeypatch.setattr(measure, "SHAPES", [(8, 8, 8), (16, 8, 8)])
    monkeypatch.setattr(measure, "_torch_calls", lambda: iter(()))
    path = tmp_path / "cpu.csv"
    device = str(tmp_path / "cpu.device.json")
    assert measure._run(str(path), device, 1.0, 1, "auto") == 2
    measured = read("gemm", path)
    assert [row.status for row in measured] == ["ok", "ok"]
    assert Device.load(device).kind == "cpu" and Device.load(device).units == 1
    code, text = tilesim("measure", "cpu", "--save", str(path), "--threads", "4096")
    assert code == 2 and "threads" in text
