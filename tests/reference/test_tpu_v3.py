"""The measured rows of one TPU v3 core (PyTorchSim artifact, MIT, doi 10.1145/3725843.3756045)."""

from __future__ import annotations

from pathlib import Path

from tilesim.validation import tables as validate

ROWS = """workload,measured_cycles_at_940MHz
gemm_512x512x512,9490
gemm_2048x2048x2048,317435
conv_64x56x56x64x64x3x1x1,1496802
conv_64x14x14x256x256x3x1x1,246790
layernorm_2048x768,98234
softmax_2048x2048,169750
attention_16x512x64,145425
resnet18,844524
bert_base,305077
bert_xlarge,1283925
"""


def test_visible_rows(tmp_path: Path) -> None:
    cases = tmp_path / "rows.csv"
    cases.write_text(ROWS, encoding="utf-8")
    report = validate.tpu_v3(cases)
    assert report["n"] == 10
    assert report["n_unsupported"] == 0
    assert report["mean_abs_error"] <= 0.04
    assert report["max_abs_error"] <= 0.12


def test_rows_that_cannot_be_simulated(tmp_path: Path) -> None:
    cases = tmp_path / "rows.csv"
    lines = [
        "workload,measured_cycles",
        "gemm_8x8,5",
        "gemm_16x16x16,-1",
        "nothing,5",
        "gemm_16x16x16,x",
        "gemm_32x32x32,500",
    ]
    cases.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = validate.tpu_v3(cases)
    assert [row["status"] == "ok" for row in report["rows"]] == [False, False, False, False, True]
    assert all(row["reason"] for row in report["rows"][:4])
    assert report["n_unsupported"] == 4
    assert report["max_abs_error"] >= 1
