"""Invalid rows of a table of one TPU v3 core."""

from __future__ import annotations

from pathlib import Path

from tilesim.validation import tables as validate


def test_rows_that_cannot_be_simulated(tmp_path: Path) -> None:
    cases = tmp_path / "rows.csv"
    lines = [
        "workload,measured_cycles", "gemm_8x8,5", "gemm_16x16x16,-1", "nothing,5", "gemm_16x16x16,x",
        "gemm_32x32x32,500",
    ]  # fmt: skip
    cases.write_text("\n".join(lines) + "\n", encoding="utf-8")
    report = validate.tpu_v3(cases)
    assert [row["status"] == "ok" for row in report["rows"]] == [False, False, False, False, True]
    assert all(row["reason"] for row in report["rows"][:4])
    assert report["n_unsupported"] == 4
    assert report["max_abs_error"] >= 1
