"""Files of public measurement sets: a few rows of each in the form that the set has."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
from tilesim.analytic.measured.tables import MeasuredRow, kinds_of, read
from tilesim.validation.analytic import validate

GEMM = "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency"


def written(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def numbers(row: MeasuredRow, *names: str) -> list[float]:
    return [row.numbers[name] for name in names]


def test_aiconfigurator_products(tmp_path: Path) -> None:
    head = "VLLM,0.14,NVIDIA H100 80GB HBM3,gemm,vllm_default"
    path = written(tmp_path / "gemm.csv", GEMM, f"{head},fp8,64,4096,4096,0.014", f"{head},fp8_block,64,4096,4096,0.05")
    row, block = read("gemm", path)
    assert (row.text("engine"), row.text("device"), row.text("dtype")) == ("vLLM", "H100", "fp8")
    assert block.status == "unsupported" and "graph" in block.reason
    report = validate("gemm", path)
    assert report["n_unsupported"] == 1 and abs(report["rows"][0]["error"]) < 0.3
    path = written(tmp_path / "b.csv", GEMM, "TRTLLM,1,NVIDIA L40S,gemm,x,bfloat16,64,4096,4096,0.05")
    assert read("gemm", path)[0].text("device") == "L40S"


def test_aiconfigurator_attention_and_casts(tmp_path: Path) -> None:
    path = written(
        tmp_path / "attention.csv",
        "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,"
        "attn_dtype,kv_cache_dtype,step,window_size,latency",
        "VLLM,0.14,NVIDIA H100 80GB HBM3,generation_attention,x,16,1,32,8,128,1,bfloat16,fp8,4095,0,0.05",
    )
    assert validate("attention", path)["n_unsupported"] == 0
    path = written(
        tmp_path / "quantize.csv",
        "framework,version,device,op_name,kernel_source,m,k,quant_dtype,latency",
        "TRTLLM,1,NVIDIA H100 80GB HBM3,compute_scale,x,4096,4096,fp8,0.03",
        "TRTLLM,1,NVIDIA H100 80GB HBM3,scale_matrix,x,4096,4096,fp8,0.04",
    )
    assert [row.text("op") for row in read("vector", path)] == ["compute_scale", "quantize"]
    scale, cast = validate("vector", path)["rows"]
    assert cast["predicted_ms"] > scale["predicted_ms"] >= 4096 * 4096 * 2 / 5.2e12 * 1e3


def test_parquet(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = dict(zip(GEMM.split(","), ("VLLM", "0.14", "NVIDIA H100 80GB HBM3", "gemm", "x", "fp8"), strict=False))
    table = pyarrow.table(
        {**{k: [v] for k, v in columns.items()}, "m": [64], "n": [4096], "k": [4096], "latency": [0.014]}
    )
    parquet.write_table(table, tmp_path / "gemm.parquet")
    (row,) = read("gemm", tmp_path / "gemm.parquet")
    assert numbers(row, "m", "n", "k", "latency_ms") == [64, 4096, 4096, 0.014]
    with pytest.raises(ts.UserError, match="Parquet"):
        read("gemm", written(tmp_path / "bad.parquet", "not a table"))


@pytest.mark.parametrize("suffix", ["parquet", "xlsx"])
def test_a_library_that_is_not_there_is_named(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pyarrow", "pyarrow.parquet", "openpyxl"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ts.UserError, match=r"tilesim\[tables\]"):
        read("gemm", written(tmp_path / f"rows.{suffix}", "x"))


def test_neusight(tmp_path: Path) -> None:
    head = "OPName,Latency (ms),Device"
    path = written(
        tmp_path / "a.csv", f"{head},B,M,N,K", "linear,1.5,Tesla T4,8,128,1024,512", "bmm,0.4,Tesla T4,96,128,64,128"
    )
    linear, batched = read("gemm", path)
    assert numbers(linear, "batch", "m", "n", "k") == [1, 1024, 512, 1024]
    assert numbers(batched, "batch", "m", "n", "k") == [96, 128, 128, 64]
    path = written(tmp_path / "b.csv", f"{head},B,H", "softmax,0.4,Tesla T4,4096,1024")
    (vector,) = read("vector", path)
    assert (vector.text("op"), *numbers(vector, "rows", "width")) == ("softmax", 4096, 1024)
    assert validate("vector", path)["mean_abs_error"] < 1
    path = written(
        tmp_path / "c.csv", f"{head},B,Cin,Cout,H,kernel,stride,padding", "conv2d,2.0,Tesla T4,32,64,128,28,3,1,1"
    )
    (conv,) = read("conv", path)
    assert numbers(conv, "batch", "in_channels", "out_channels", "size", "kernel") == [32, 64, 128, 28, 3]
    assert validate("conv", path)["n_unsupported"] == 0
    with pytest.raises(ts.UserError, match="missing column stride"):
        read("conv", written(tmp_path / "d.csv", f"{head},B,Cin,Cout,H,kernel", "conv2d,2.0,Tesla T4,32,64,128,28,3"))


def test_mlsim_and_a_sheet_of_deepbench(tmp_path: Path) -> None:
    (square,) = read(
        "gemm", written(tmp_path / "m.csv", "matrix_size,dtype,runtime_ms,tflops", "1024,fp16,0.105206,20.4")
    )
    assert (square.text("source"), square.text("device"), square.numbers["k"]) == ("mlsim", "T4", 1024)
    path = written(tmp_path / "d.csv", "device,dtype,M,N,K,transA,transB,ms", "T4,fp32,1760,16,1760,T,N,0.096")
    (product,) = read("gemm", path)
    assert (product.text("source"), product.numbers["ta"], product.seconds) == ("DeepBench", 1, pytest.approx(96e-6))


def test_workbook_of_deepbench(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "fp16-input mixed"
    for row in (
        ["Dense products"],
        ["M", "N", "K", "A Transpose", "B Transpose", "Time (ms)", "TeraFLOPS"],
        [1760, 16, 1760, "T", "N", 0.036, 2.75],
        [],
        [
            "W",
            "H",
            "C",
            "N",
            "K",
            "S",
            "R",
            "pad_w",
            "pad_h",
            "stride_w",
            "stride_h",
            "fwd_time (ms)",
            "bwd_inputs (ms)",
        ],
        [28, 28, 64, 32, 128, 3, 3, 1, 1, 1, 1, 0.5, 0.7],
        [700, 161, 1, 4, 32, 20, 5, 0, 0, 2, 2, 0.9, 0.9],
    ):
        sheet.append(row)
    path = tmp_path / "DeepBench_NV_T4.xlsx"
    book.save(path)
    assert kinds_of(path)[0] == ["gemm", "conv"]
    (product,) = read("gemm", path)
    assert (product.text("device"), product.text("dtype")) == ("T4", "fp16")
    assert numbers(product, "m", "n", "k", "ta", "latency_ms") == [1760, 16, 1760, 1, 0.036]
    square, long = read("conv", path)
    assert numbers(square, "batch", "in_channels", "out_channels", "kernel", "padding") == [32, 64, 128, 3, 1]
    assert long.status == "unsupported" and "square" in long.reason
    with pytest.raises(ts.UserError, match="workbook"):
        read("gemm", written(tmp_path / "bad.xlsx", "x"))


def test_vidur(tmp_path: Path) -> None:
    times = {"attn_pre_proj": 0.30, "attn_post_proj": 0.10, "mlp_up_proj": 0.5, "mlp_down_proj": 0.25, "add": 0.01}
    path = written(
        tmp_path / "compute" / "a100" / "Qwen" / "Qwen-72B" / "mlp.csv",
        "num_tokens,n_head,n_kv_head,n_embd,n_expanded_embd,use_gated_mlp,num_tensor_parallel_workers,"
        + ",".join(f"time_stats.{name}.median" for name in times),
        "512,64,8,8192,24576,True,2," + ",".join(map(str, times.values())),
    )
    assert kinds_of(path)[0] == ["gemm", "vector"]
    before, after, up, down = read("gemm", path)
    assert numbers(before, "m", "n", "k") == [512, (64 + 16) * 128 / 2, 8192]
    assert numbers(after, "n", "k") == [8192, 4096] and numbers(down, "n", "k") == [8192, 12288]
    assert numbers(up, "n", "latency_ms") == [24576, 0.5] and up.text("device") == "A100"
    assert read("vector", path)[0].text("op") == "add"
    with pytest.raises(ts.UserError, match="missing device"):
        read("gemm", written(tmp_path / "mlp.csv", *path.read_text(encoding="utf-8").splitlines()))
    path = written(
        tmp_path / "h100" / "attention.csv",
        "n_embd,n_q_head,n_kv_head,num_tensor_parallel_workers,block_size,batch_size,prefill_chunk_size,kv_cache_size,"
        "is_prefill,time_stats.attn_prefill.median,time_stats.attn_decode.median",
        "8192,64,8,2,16,1,512,0,True,0.2,",
        "8192,64,8,2,16,32,0,2047,False,,0.3",
    )
    prefill, decode = read("attention", path)
    assert numbers(prefill, "isl", "num_heads", "num_key_value_heads", "latency_ms") == [512, 32, 4, 0.2]
    assert (decode.text("phase"), *numbers(decode, "isl", "step")) == ("generation", 1, 2047)
    assert validate("attention", path)["n_unsupported"] == 0


def test_llmcompass_has_no_header(tmp_path: Path) -> None:
    path = written(tmp_path / "matmul_A100.csv", "64, 12288, 12288, 0.1900ms, 101.7124Tflops")
    (row,) = read("gemm", path)
    assert (row.text("device"), row.text("dtype"), row.seconds) == ("A100", "fp16", pytest.approx(0.19e-3))
    assert abs(validate("gemm", path)["rows"][0]["error"]) < 0.25
    (row,) = read("vector", written(tmp_path / "layernorm_A100.csv", "4096, 1024, 78.9"))
    assert (row.text("op"), row.seconds) == ("ln", pytest.approx(4096 * 1024 / 78.9e9))
    (row,) = read("vector", written(tmp_path / "gelu_A100.csv", "1048576, 21.9"))
    assert numbers(row, "rows", "width") == [1, 1 << 20]


def test_llmservingsim(tmp_path: Path) -> None:
    lines = ["layer_name,input,kv_cache,tp_size,latency(ns)", "q_proj,64,0,1,43140", "input_layernorm,64,0,1,7947"]
    path = written(
        tmp_path / "H100" / "meta-llama" / "Llama-3.1-8B" / "tp1" / "layers.csv", *lines, "rope,64,0,1,30482"
    )
    product, rope = read("gemm", path)
    assert (product.text("device"), *numbers(product, "m", "n", "k")) == ("H100", 64, 4096, 4096)
    assert product.seconds == pytest.approx(43.14e-6) and rope.status == "unsupported"
    assert read("vector", path)[0].text("op") == "rms"
    with pytest.raises(ts.UserError, match="missing model"):
        read("gemm", written(tmp_path / "H100" / "layers.csv", *lines))


def test_performance_table_of_xla(tmp_path: Path) -> None:
    path = written(
        tmp_path / "table.pbtxt",
        'entries { key: "sm_90" value {',
        '  entries { b: 1 m: 1024 n: 4096 k: 512 flops { key: "bf16xbf16->bf16" value: 340681153010232 }',
        '            flops { key: "f8e4m3fnxf8e5m2->bf16" value: 340681153010232 } }',
        "  entries {",
        "    b: 4",
        "    m: 256",
        "    n: 1024",
        "    k: 256",
        '    flops { key: "F32xF32->F32" value: 51861564142194 }',
        "  }",
        "} }",
    )
    brain, mixed, single = read("gemm", path)
    assert (brain.text("device"), brain.text("dtype"), single.text("dtype")) == ("H100", "bf16", "tf32")
    assert brain.seconds == pytest.approx(2 * 1024 * 4096 * 512 / 340681153010232)
    assert numbers(single, "batch", "m", "n", "k") == [4, 256, 1024, 256]
    assert mixed.status == "unsupported"
    assert read("gemm", written(tmp_path / "table.txt", *path.read_text(encoding="utf-8").splitlines()))


def test_products_on_tpus_count_microseconds(tmp_path: Path) -> None:
    path = written(
        tmp_path / "v6e.csv",
        "timestamp,device,tpu_gen,dtype,m,n,k,time_us,tflops",
        "x,Google TPU v6e (Trillium),v6e,bfloat16,8192,8192,8192,1645.7,668.1",
    )
    (row,) = read("gemm", path)
    assert row.seconds == pytest.approx(1645.7e-6)
    assert ts.Device.load(row.text("device")).name == "tpu-v6e"


def test_what_a_file_does_not_hold_is_said(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "OPName,Latency (ms),Device,B,H", "softmax,0.4,Tesla T4,4096,1024")
    with pytest.raises(ts.UserError, match="vector"):
        read("gemm", path)
    path = written(tmp_path / "b.csv", "OPName,Latency (ms),Device,B,M,N,K", "linear,1.5,Tesla T4,x,128,1024,512")
    with pytest.raises(ts.UserError, match=r"b.csv:2"):
        read("gemm", path)


def test_what_is_refused_is_said_by_a_calibration(tmp_path: Path) -> None:
    head = "VLLM,0.14,NVIDIA H100 80GB HBM3,gemm,x"
    rows = [f"{head},fp8,{m},4096,4096,{0.012 + m * 1e-5:.4f}" for m in range(1, 64, 4)]
    path = written(tmp_path / "gemm.csv", GEMM, *rows, f"{head},fp8_block,64,4096,4096,0.05")
    profile = ts.analytic.calibrate(path, holdout="none")
    assert any("1 rows: measured without a captured graph" in text for text in profile.refused)


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is not None, reason="pyarrow is installed")
def test_without_pyarrow_csv_still_reads(tmp_path: Path) -> None:
    assert read("gemm", written(tmp_path / "m.csv", "matrix_size,dtype,runtime_ms", "1024,fp16,0.1"))


@pytest.mark.parametrize("suffix", ["csv", "pbtxt", "txt", "parquet", "xlsx"])
def test_damaged_files_are_explained(tmp_path: Path, suffix: str) -> None:
    """Cut, mangled or random bytes: rows or one clear error, nothing else."""
    random = np.random.default_rng(5)
    table = b'entries { key: "sm_90" value { entries { b: 1 m: 8 n: 8 k: 8 flops { key: "f16xf16->f16" value: 9 } } } }'
    head = b"device,dtype,M,N,K,transA,transB,ms\nT4,fp32,1760,16,1760,T,N,0.096\n"
    for source in (table, head, b"OPName,Latency (ms),Device,B,H\nsoftmax,0.4,Tesla T4,4096,1024\n"):
        for _ in range(60):
            damaged = bytearray(source[: int(random.integers(0, len(source) + 1))])
            for _ in range(int(random.integers(0, 4))):
                if damaged:
                    damaged[int(random.integers(len(damaged)))] = int(random.integers(256))
            path = tmp_path / f"damaged.{suffix}"
            path.write_bytes(bytes(damaged))
            for kind in ("gemm", "vector"):
                try:
                    read(kind, path)
                except ts.UserError as error:
                    assert str(error)
