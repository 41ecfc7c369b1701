"""Calibration: known constants come back, what the rows do not show stays, bad tables are refused."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import tilesim as ts
from tilesim.analytic import gemm
from tilesim.analytic.calibration import FOLDS, _folds, calibrate
from tilesim.analytic.constants import standard
from tilesim.analytic.families import pack_keys, row_key, unpack_keys
from tilesim.base.paths import configs_dir
from tilesim.validation.analytic import decisions, validate

HEADER = "device,engine,dtype,m,n,k,latency_ms"


def write(path: Path, rows: list[str], header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def synthetic(
    path: Path, constants: dict[str, float], count: int = 160, dtypes: tuple[str, ...] = ("bfloat16",)
) -> Path:
    """Rows that the model itself makes, with 1 % of noise."""
    random = np.random.default_rng(7)
    shapes = (2.0 ** random.uniform(0, 13, (count, 3))).round()
    rows = []
    for dtype in dtypes:
        found = gemm.estimator("h100", dtype, engine="vLLM")
        core = found.core(constants)
        seconds = np.asarray(core.seconds(np.ones(count), *(np.ascontiguousarray(x) for x in shapes.T)))
        seconds *= np.exp(random.normal(scale=0.01, size=count))
        rows += [
            f"H100-SXM-80GB,vLLM,{dtype},{m:.0f},{n:.0f},{k:.0f},{t * 1e3:.9g}"
            for (m, n, k), t in zip(shapes, seconds, strict=True)
        ]
    return write(path, rows)


def test_known_constants_come_back(tmp_path: Path) -> None:
    truth = {"launch": 11000.0, "efficiency": 0.55, "memory_share": 0.6}
    profile = calibrate(synthetic(tmp_path / "rows.csv", truth), "h100", holdout="rows")
    entry = profile.entries[0]
    for name, value in truth.items():
        assert entry.constants[name] == pytest.approx(value, rel=0.08), name
        assert entry.provenance[name] == "fitted on 160 rows"
    assert profile.held_out[0]["mean"] < 0.05
    profile.save(tmp_path / "mine.json")
    again = ts.analytic.Profile.load(tmp_path / "mine.json")
    assert again.to_dict() == profile.to_dict()
    report = validate("gemm", tmp_path / "rows.csv", profile=tmp_path / "mine.json")
    assert report["mean_abs_error"] < 0.03
    assert all(row["fitted"] for row in report["rows"])
    assert "launch" in str(profile.report())


def test_profiles_are_never_used_unless_named(tmp_path: Path) -> None:
    path = synthetic(tmp_path / "rows.csv", {"launch": 16000.0}, 40)
    plain = validate("gemm", path)
    profile = calibrate(path, holdout="none")
    assert validate("gemm", path)["mean_abs_error"] == plain["mean_abs_error"]
    assert validate("gemm", path, profile=profile)["mean_abs_error"] < plain["mean_abs_error"] / 2


def test_what_the_rows_do_not_show_is_kept_and_said(tmp_path: Path) -> None:
    rows = [f"H100-SXM-80GB,vLLM,bfloat16,{m},32,32,{0.0045 if m % 2 else 0.0055}" for m in range(1, 60)]
    profile = calibrate(write(tmp_path / "small.csv", rows), holdout="none")
    entry = profile.entries[0]
    before = gemm.estimator("h100", "bf16", engine="vLLM").entry.constants
    for name in ("efficiency", "memory_share", "energy"):  # launches only: nothing is bound by rates
        assert entry.constants[name] == pytest.approx(before[name])
        assert not entry.provenance[name].startswith("fitted on 59")
    assert any("do not show" in text and "efficiency" in text for text in profile.refused)
    assert entry.constants["launch"] / 1.83e9 == pytest.approx(5e-6, rel=0.1)


def test_few_rows_are_refused(tmp_path: Path) -> None:
    rows = [f"H100-SXM-80GB,vLLM,bfloat16,{m},1024,1024,0.01" for m in (1, 2, 3)]
    with pytest.raises(ts.UserError, match="too few"):
        calibrate(write(tmp_path / "few.csv", rows))


def test_one_dtype_cannot_be_held_out(tmp_path: Path) -> None:
    path = synthetic(tmp_path / "rows.csv", {}, 40)
    for way in ("dtype", "device", "family"):
        with pytest.raises(ts.UserError, match="held out"):
            calibrate(path, holdout=way)
    with pytest.raises(ts.UserError, match="size"):
        calibrate(path, holdout="sise")


def test_dtypes_can_be_held_out(tmp_path: Path) -> None:
    path = synthetic(tmp_path / "rows.csv", {}, 40, ("bfloat16", "fp16"))
    profile = calibrate(path, holdout="dtype")
    assert {row["holdout"] for row in profile.held_out} == {"dtype"}
    assert all(row["mean"] < 0.2 for row in profile.held_out)


def test_devices_can_be_held_out(tmp_path: Path) -> None:
    """Rows of one truth on three devices: what two of them show predicts the third, and better than nothing fitted."""
    truth = {"launch": 12000.0, "memory_share": 0.5, "efficiency": 0.5}
    random = np.random.default_rng(3)
    rows = []
    for device in ("A100-SXM4-80GB", "H100-SXM-80GB", "L40S"):
        found = gemm.estimator(device, "bf16", engine="TensorRT-LLM")
        constants = {**standard(found.device, found.scheme), **truth}
        for m, n, k in (2.0 ** random.uniform(4, 12, (24, 3))).round().tolist():
            (seconds,) = np.asarray(found.core(constants).seconds(*np.array([[1.0], [m], [n], [k]])))
            rows.append(f"{device},TensorRT-LLM,bfloat16,{m:.0f},{n:.0f},{k:.0f},{seconds * 1e3:.9g}")
    path = write(tmp_path / "rows.csv", rows)
    carried = calibrate(path, holdout="device").held_out
    blind = calibrate(path, holdout="specification").held_out
    assert [row["holdout"] for row in (*carried, *blind)] == ["device"] * 3 + ["specification"] * 3
    for ours, nothing in zip(carried, blind, strict=True):
        assert ours["mean"] < 0.08
        assert ours["mean"] < nothing["mean"] / 2


def test_few_rows_of_several_schemes_share_one_launch(tmp_path: Path) -> None:
    """8 rows each: the launch is one constant of all of them, the efficiency each scheme's own."""
    efficiency = {"bfloat16": 0.45, "fp8": 0.7}
    shapes = [
        (1, 64, 64), (1, 128, 64), (2, 64, 128), (4, 64, 64), *[(8192, 8192, k) for k in (2048, 4096, 8192, 16384)],
    ]  # fmt: skip
    columns = [np.ones(len(shapes)), *np.array(shapes, dtype=float).T.copy()]
    rows = []
    for dtype, share in efficiency.items():
        core = gemm.estimator("h100", dtype, engine="vLLM").core(
            {"launch": 15000.0, "efficiency": share, "energy": 0.001}
        )
        rows += [
            f"H100-SXM-80GB,vLLM,{dtype},{m},{n},{k},{seconds * 1e3:.9g}"
            for (m, n, k), seconds in zip(shapes, np.asarray(core.seconds(*columns)), strict=True)
        ]
    path = write(tmp_path / "rows.csv", rows)
    profile = calibrate(path, holdout="none")
    assert len(profile.entries) == 2
    assert profile.entries[0].constants["launch"] == profile.entries[1].constants["launch"]
    for entry, share in zip(profile.entries, efficiency.values(), strict=True):
        assert entry.rows == len(shapes)
        assert entry.constants["launch"] == pytest.approx(15000, rel=0.1)
        assert entry.constants["efficiency"] == pytest.approx(share, rel=0.15)
        assert entry.provenance["launch"] == "fitted on 16 rows"
        assert entry.provenance["efficiency"] == "fitted on 8 rows"
        assert entry.fit_error["mean"] < 0.05
    report = validate("gemm", path, profile=profile)
    assert report["mean_abs_error"] == pytest.approx(
        np.mean([entry.fit_error["mean"] for entry in profile.entries]), abs=1e-9
    )


def test_sizes_can_be_held_out(tmp_path: Path) -> None:
    truth = {"launch": 11000.0, "efficiency": 0.55, "memory_share": 0.6}
    profile = calibrate(synthetic(tmp_path / "rows.csv", truth, 16), holdout="size")
    (row,) = profile.held_out
    assert (row["holdout"], row["n"]) == ("size", 16)
    assert 0.003 < row["mean"] < 0.2, "1 % of noise, seen from the other sizes"
    assert row["median"] <= row["max"] and row["mean"] <= row["max"]


@pytest.mark.parametrize("parts", [1, 2, 5, FOLDS, FOLDS + 1, 3 * FOLDS + 2])
def test_each_row_is_left_out_once_with_its_like(parts: int) -> None:
    values = np.random.default_rng(parts).integers(0, parts, 100).tolist()
    folds = _folds(values, lambda value: value)  # type: ignore[arg-type]
    assert len(folds) == min(FOLDS, len(set(values)))
    assert sorted(index for fold in folds for index in fold) == list(range(100))
    fold_of = {index: number for number, fold in enumerate(folds) for index in fold}
    for value in set(values):
        assert len({fold_of[index] for index in range(100) if values[index] == value}) == 1
    several = [len({values[index] for index in fold}) for fold in folds]
    assert max(several) - min(several) <= 1, "as many sorts of rows in each part"


GOOD = "H100-SXM-80GB,vLLM,bfloat16,64,1024,1024,0.006"


@pytest.mark.parametrize(
    ("rows", "header", "word"),
    [
        (["H100-SXM-80GB,vLLM,bfloat16,64,1024,1024,fast"], HEADER, "rows.csv:2"),
        (["H100-SXM-80GB,vLLM,bfloat16,64,1024,-5,0.01"], HEADER, "positive"),
        (["H100-SXM-80GB,vLLM,bfloat16,64.5,1024,5,0.01"], HEADER, "whole"),
        (["H100-SXM-80GB,vLLM,bfloat16,64,1024,nan,0.01"], HEADER, "k must be"),
        ([GOOD], HEADER.replace("latency_ms", "latency_us"), "another unit"),
        ([GOOD], HEADER.replace(",n,", ",columns,"), "lacks columns: n"),
        ([GOOD, GOOD.replace("0.006", "0.007")], HEADER, "duplicate measurement"),
        ([GOOD.replace("H100-SXM", "H1000-SXN")], HEADER, "unknown device"),
        ([GOOD.replace("bfloat16", "bflot16")], HEADER, "bfloat16"),
        ([f"H100-SXM-80GB,vLLM,bfloat16,{m},1024,1024,{6 + m}" for m in range(1, 9)], HEADER, "another unit"),
        ([], HEADER, "no rows"),
        ([], "a,b", "no table with these columns"),
    ],
)
def test_bad_tables(tmp_path: Path, rows: list[str], header: str, word: str) -> None:
    with pytest.raises(ts.UserError, match=word):
        calibrate(write(tmp_path / "rows.csv", rows, header))


def test_rows_of_another_device_are_an_error_unless_auto(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", [GOOD, "L40S,vLLM,bfloat16,64,1024,1024,0.006"])
    assert validate("gemm", path, "auto")["n_unsupported"] == 0
    with pytest.raises(ts.UserError, match=r"rows.csv:3.*auto"):
        validate("gemm", path, "h100")


def test_validation_file(tmp_path: Path) -> None:
    rows = [GOOD, GOOD.replace("bfloat16", "nvfp4"), GOOD.replace("0.006", "x"), GOOD.replace("H100-SXM-80GB", "H900")]
    report = validate("gemm", write(tmp_path / "rows.csv", rows))
    schema = configs_dir() / "schemas" / "validation.json"
    jsonschema.validate(report, json.loads(schema.read_text(encoding="utf-8")))
    assert [row["status"] for row in report["rows"]] == ["ok", "unsupported", "invalid", "invalid"]
    for row in report["rows"]:
        assert {"device", "dtype", "m", "measured_ms", "predicted_ms", "error", "fitted", "reason"} <= set(row)
        assert (row["error"] is None) == (row["status"] != "ok") == (row["predicted_ms"] is None) == bool(row["reason"])
    assert set(report["groups"]) == {
        "vLLM|H100-SXM-80GB|bfloat16",
        "vLLM|H100-SXM-80GB|nvfp4",
        "vLLM|H900|bfloat16",
    }
    first = report["rows"][0]
    assert first["error"] == pytest.approx(first["predicted_ms"] / 0.006 - 1)
    assert report["mean_abs_error"] == pytest.approx((abs(first["error"]) + 3) / 4)


def test_decisions_leave_ties_out_and_tell_the_majority(tmp_path: Path) -> None:
    rows = []
    for m, (base, other) in enumerate([(0.01, 0.01), (0.01, 0.02), (0.01, 0.0102), (0.03, 0.01)], 1):
        rows += [f"H100-SXM-80GB,vLLM,bfloat16,{m},512,512,{base}", f"H100-SXM-80GB,vLLM,fp8,{m},512,512,{other}"]
    (answer,) = decisions(validate("gemm", write(tmp_path / "rows.csv", rows))).values()
    assert answer["n"] == 3
    assert answer["n_clear"] == 2
    assert answer["majority"] == pytest.approx(2 / 3)
    assert answer["right"] == pytest.approx(2 / 3)  # small products: the model says that a cast never pays


def test_keys_of_rows_survive() -> None:
    keys = {row_key(("gemm", i, "1.0")) for i in range(100)}
    assert len(keys) == 100
    assert unpack_keys(pack_keys(keys)) == keys
    assert row_key(["T4", "1", 2.0]) == row_key(["t4 ", 1.0, "2"])
