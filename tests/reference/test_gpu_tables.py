"""Measured tables of GPUs: predictions, decisions, and the error on rows that were not fitted.

The rows here are a few of each table, with their sources (shared/reference/README.md says more); whole tables are read
where they lie beside the repository, and those tests are skipped elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from support.reference import table
from tilesim.analytic import gemm
from tilesim.analytic.calibration import calibrate
from tilesim.analytic.measured.tables import read
from tilesim.validation.analytic import decisions, validate

# NVIDIA AIConfigurator tables (Apache-2.0): H100 SXM, vLLM, CUDA graph.
H100 = """device,engine,dtype,m,n,k,latency_ms
H100-SXM-80GB,vLLM,bfloat16,1,4096,4096,0.01505
H100-SXM-80GB,vLLM,fp8,1,4096,4096,0.01377
H100-SXM-80GB,vLLM,bfloat16,257,4096,4096,0.02261
H100-SXM-80GB,vLLM,fp8,257,4096,4096,0.02413
H100-SXM-80GB,vLLM,bfloat16,1025,4096,4096,0.04371
H100-SXM-80GB,vLLM,fp8,1025,4096,4096,0.05784
H100-SXM-80GB,vLLM,bfloat16,4,1024,8192,0.01023
H100-SXM-80GB,vLLM,fp8,4,1024,8192,0.01197
H100-SXM-80GB,vLLM,bfloat16,1537,1024,8192,0.03564
H100-SXM-80GB,vLLM,fp8,1537,1024,8192,0.06185
"""
# mlsim's results table, read as facts: one T4, torch, square products of edge n; ms of fp32, fp16, bf16, int8.
T4 = {
    256: (0.042008, 0.019537, 0.067956, 0.036105),
    512: (0.112116, 0.030596, 0.187495, 0.060457),
    1024: (0.601832, 0.105206, 1.065779, 0.119266),
    2048: (4.080828, 0.724071, 6.565882, 0.959535),
    4096: (32.15447, 5.80524, 58.074419, 7.934712),
}
# torch-performance-test-data, best TFLOP/s of fp32 and bf16 where bf16 is emulated: T4 4.17 / 2.46, V100S 13.55 / 9.85.
EMULATED = ("t4", "v100")
# Others' measurements of a device without rows, one set of weights, kernels in a graph over and over: TFLOP/s by rows
# of [m, 4096] by [4096, 6144] on B200 (vLLM PR 20578: nvfp4 with its cast; PR 18778: bf16).
NVFP4_B200 = {
    1: 3.738, 16: 59.96, 64: 235.6, 128: 454.2, 256: 879.8, 512: 1569.1, 1024: 2221.4, 2048: 2613.1, 4096: 2947.9,
    8192: 3025.5, 16384: 3038.8,
}  # fmt: skip
BF16_B200 = {1: 5.92, 16: 94.8, 64: 402.5, 128: 728.7, 256: 1112, 512: 1300, 1024: 1380, 2048: 1355, 4096: 1365}
# Matrix products on TPU v6e, wall clock: int8 over bf16 is 1.69 times faster for 8192 cubed.


def test_rows_of_the_h100(tmp_path: Path) -> None:
    path = tmp_path / "h100.csv"
    path.write_text(H100, encoding="utf-8")
    report = validate("gemm", path)
    assert report["n_unsupported"] == 0
    assert report["mean_abs_error"] < 0.12
    (answer,) = decisions(report).values()
    assert answer["right"] == 1.0


@pytest.mark.parametrize(("dtype", "measured", "limit"), [("nvfp4", NVFP4_B200, 0.08), ("bf16", BF16_B200, 0.12)])
def test_a_device_without_rows(dtype: str, measured: dict[int, float], limit: float) -> None:
    """B200 as others measured it: no constant was fitted on these times."""
    found = replace(gemm.estimator("b200", dtype, engine="TensorRT-LLM"), weight_sets=1.0, calls=1000.0)
    m, rates = np.array(list(measured)), np.array(list(measured.values()))
    seconds = 2 * m * 6144 * 4096 / (rates * 1e12)
    assert np.mean(np.abs(found.seconds(m, 6144, 4096) / seconds - 1)) <= limit


def test_kernels_of_rtx_blackwell_take_whole_rounds() -> None:
    """vLLM PR 34424, RTX 5090: 1 to 10 rounds of tiles of 128 by 128 take 49.1, 98.8, 148.7, 243.2, 488.5 us."""
    found = gemm.estimator("rtx-pro-6000", "fp8", engine="vLLM")
    found = replace(found, scheme=replace(found.scheme, cast_bytes=0.0), calls=1e-3)
    one, two, ten = (found.terms(m, 128 * 188, 4096)["compute"][()] for m in (257, 513, 1281))
    assert two / one == pytest.approx(5 / 3, rel=0.05) and ten / one == pytest.approx(11 / 3, rel=0.05)
    just = found.terms(384, 128 * 188 + 1, 4096)["compute"][()]
    assert just / one > 1.2  # another round for one column more


def test_a_call_takes_no_less_than_its_host() -> None:
    """Without graphs, calls of vLLM on XPU follow each other as fast as the host gives them; kernels run beside it."""
    found = gemm.estimator("b60", "bf16", engine="vLLM")
    alone = replace(found, host=0.0)
    assert found.host > 0 and gemm.estimator("b60", "bf16").host == 0
    assert gemm.estimator("h100", "bf16", engine="vLLM").host == 0
    m = np.array([1.0, 64.0, 4096.0])
    for k in (64, 4096):
        assert found.seconds(m, 4096, k) == pytest.approx(np.maximum(found.host, alone.seconds(m, 4096, k)), rel=1e-12)
    terms = {name: float(value) for name, value in found.terms(1, 64, 64).items()}
    assert terms["total"] == pytest.approx(
        terms["launch"] + float(alone.terms(1, 64, 64)["total"]) - float(alone.terms(1, 64, 64)["launch"])
    )


def test_dtype_questions_of_a_t4() -> None:
    """Fifteen questions with times well above the launch: is fp16, bf16, int8 faster than fp32?"""
    for engine, least in (("mlsim", 15), ("", 14)):  # as that table was measured; as a library is called otherwise
        right = 0
        for size, measured in T4.items():
            for index, name in enumerate(("fp16", "bf16", "int8"), 1):
                shapes = [(size, size, size)]
                (row,) = ts.crossover("t4", dtype=name, against="fp32", shapes=shapes, engine=engine).rows
                right += row["helps"] == (measured[index] < measured[0])
        assert right >= least, engine


@pytest.mark.parametrize("device", EMULATED)
def test_emulated_bf16_is_slower_than_fp32(device: str) -> None:
    answer = ts.crossover(device, dtype="bf16", against="fp32", shapes=[(4096, 4096, 4096)])
    assert not answer.rows[0]["helps"]
    assert "emulated" in answer.reason


def test_int8_helps_on_the_newest_tpu() -> None:
    (row,) = ts.crossover("tpu-v6e", dtype="sq", against="bf16", shapes=[(8192, 8192, 8192)]).rows
    assert row["helps"]


def _subset(source: Path, target: Path, keep: object) -> Path:
    lines = source.read_text(encoding="utf-8").splitlines()
    target.write_text("\n".join([lines[0], *[line for line in lines[1:] if keep(line)]]) + "\n", encoding="utf-8")  # type: ignore[operator]
    return target


def test_whole_gemm_table() -> None:
    report = validate("gemm", table("gpu_gemm_latency.csv"))
    assert report["n_unsupported"] == 0
    for key, group in report["groups"].items():
        assert group["mean_abs_error"] <= 0.15, key
        assert group["median_abs_error"] <= 0.08, key
    for key, answer in decisions(report).items():
        assert answer["right"] >= answer["majority"] + 0.1, key
        assert answer["right_clear"] >= 0.93, key
    assert all(row["fitted"] for row in report["rows"])


def test_rows_left_out_of_a_fit(tmp_path: Path) -> None:
    """Fitted from standard constants on one half of the H100 fp8 rows, judged on the other."""
    source = table("gpu_gemm_latency.csv")
    path = _subset(source, tmp_path / "fp8.csv", lambda line: line.startswith("H100") and ",fp8," in line)
    profile = calibrate(path)
    (row,) = profile.held_out
    assert row["mean"] <= 0.15
    assert row["median"] <= 0.08


def test_constants_are_carried_to_another_device(tmp_path: Path) -> None:
    """The H200 has no rows: what it predicts follows from its bandwidth."""
    rows = [row for row in read("gemm", table("gpu_gemm_latency.csv")) if row.text("device").startswith("H100")][:200]
    path = tmp_path / "carried.csv"
    lines = [f"{row.text('device').replace('H100-SXM-80GB', 'H200-SXM')},vLLM,{row.text('dtype')}" for row in rows]
    cells = [
        f"{line},{r.cells['m']},{r.cells['n']},{r.cells['k']},{r.cells['latency_ms']}"
        for line, r in zip(lines, rows, strict=True)
    ]
    path.write_text("\n".join(["device,engine,dtype,m,n,k,latency_ms", *cells]) + "\n", encoding="utf-8")
    report = validate("gemm", path)
    ratios = np.array([row["predicted_ms"] / row["measured_ms"] for row in report["rows"]])
    assert np.all(ratios < 2)
    assert 0.7 < np.median(ratios) <= 1.05
    assert not any(row["fitted"] for row in report["rows"])


@pytest.mark.parametrize(
    ("name", "kind", "limit"),
    [
        ("gpu_attention_latency.csv", "attention", 0.15),
        ("t4_conv_latency.csv", "conv", 0.15),
        ("t4_vector_latency.csv", "vector", 0.15),
    ],
)
def test_other_tables(name: str, kind: str, limit: float) -> None:
    report = validate(kind, table(name))
    assert report["n_unsupported"] == 0
    for key, group in report["groups"].items():
        assert group["mean_abs_error"] <= limit, key


def test_t4_products() -> None:
    report = validate("gemm", table("t4_gemm_latency.csv"))
    limits = {
        "DeepBench|T4|fp32": 0.12, "DeepBench|T4|fp16": 0.10, "DeepBench|T4|int8": 0.12,
        "NeuSight-linear|T4|fp32": 0.15, "NeuSight-bmm|T4|fp32": 0.16,
    }  # fmt: skip
    for key, limit in limits.items():
        assert report["groups"][key]["mean_abs_error"] <= limit, key
