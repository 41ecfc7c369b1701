"""Numeric error of schemes, and the readers of public formats."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilesim as ts
from tilesim.analytic.quantize import product_error, quantization_table
from tilesim.analytic.tables import read
from tilesim.analytic.validation import validate


def test_errors_follow_the_mantissas() -> None:
    """Rounding to a mantissa of p bits leaves about 2^-p / sqrt(3) / 2 per operand; two operands add in squares."""
    assert product_error("fp32") < 1e-7
    for name, bits in (("fp16", 11), ("bf16", 8), ("fp8", 4), ("fp8_e5m2", 3)):
        ulp = 2.0**-bits
        assert 0.4 * ulp < product_error(name) < 1.2 * ulp, name
    order = ["fp16", "bf16", "int8_wo", "sq", "fp8", "fp8_e5m2", "nvfp4"]
    errors = [product_error(name) for name in order]
    assert errors == sorted(errors)
    assert product_error("int4_g128") < product_error("int4_wo")
    assert product_error("nvfp4") < product_error("mxfp4")


def test_table_of_schemes() -> None:
    rows = {row["scheme"]: row for row in quantization_table(8, 8, 64).rows}
    assert rows["int4_wo"]["saved"] == 4
    assert rows["nvfp4"]["saved"] < 4
    assert rows["fp8"]["cast_bytes"] == 3
    with pytest.raises(ts.UserError, match="tf32"):
        product_error("tf32")


def test_zero_points_help_activations_off_centre() -> None:
    assert product_error("w8a8_zp", offset=3.0) < 0.95 * product_error(
        "w8a8", offset=3.0
    )  # half the step of activations; weights keep theirs
    assert product_error("w8a8_zp") < 1.1 * product_error("w8a8")
    assert product_error("int4_g128_zp") < 1.05 * product_error("int4_g128")


def test_error_beside_time() -> None:
    rows = {row["scheme"]: row for row in quantization_table(256, 4096, 4096, "h100").rows}
    assert rows["int4_g128_zp"]["packing"] == "8 in 32 bits" and rows["fp8"]["packing"] == "4 in 32 bits"
    assert rows["bf16"]["speedup"] == 1.0 and rows["fp8"]["ms"] > 0
    assert rows["nvfp4"]["ms"] is None and "4-bit floats" in rows["nvfp4"]["reason"]
    assert rows["int4_wo"]["error"] > rows["int8_wo"]["error"] > rows["bf16"]["error"]


def test_public_formats_are_renamed(tmp_path: Path) -> None:
    path = tmp_path / "gemm.csv"
    path.write_text(
        "framework,version,device,op_name,kernel_source,gemm_dtype,m,n,k,latency\n"
        "VLLM,0.14,NVIDIA H100 80GB HBM3,gemm,vllm_default,fp8,64,4096,4096,0.014\n",
        encoding="utf-8",
    )
    (row,) = read("gemm", path)
    assert (row.text("engine"), row.text("device"), row.text("dtype")) == ("vLLM", "H100", "fp8")
    assert validate("gemm", path)["mean_abs_error"] < 0.3
    path.write_text(
        "OPName,Latency (ms),Device,B,M,N,K\nlinear,1.5,Tesla T4,8,128,1024,512\nbmm,0.4,Tesla T4,96,128,64,128\n",
        encoding="utf-8",
    )
    linear, batched = read("gemm", path)
    assert [linear.numbers[key] for key in ("batch", "m", "n", "k")] == [1, 1024, 512, 1024]
    assert [batched.numbers[key] for key in ("batch", "m", "n", "k")] == [96, 128, 128, 64]
    path.write_text(
        "framework,version,device,op_name,kernel_source,batch_size,isl,num_heads,num_key_value_heads,head_dim,beam_width,"
        "attn_dtype,kv_cache_dtype,step,window_size,latency\n"
        "VLLM,0.14,NVIDIA H100 80GB HBM3,generation_attention,x,16,1,32,8,128,1,bfloat16,fp8,4095,0,0.05\n",
        encoding="utf-8",
    )
    assert validate("attention", path)["n_unsupported"] == 0
    path.write_text("OPName,Latency (ms),Device,B,H\nsoftmax,0.4,Tesla T4,4096,1024\n", encoding="utf-8")
    (vector,) = read("vector", path)
    assert (vector.text("op"), vector.numbers["rows"], vector.numbers["width"]) == ("softmax", 4096, 1024)
    assert validate("vector", path)["mean_abs_error"] < 1
    path.write_text("matrix_size,dtype,runtime_ms,tflops\n1024,fp16,0.105206,20.41\n", encoding="utf-8")
    (square,) = read("gemm", path)
    assert (square.text("source"), square.text("device"), square.numbers["k"]) == ("mlsim", "T4", 1024)
    path.write_text("device,dtype,M,N,K,transA,transB,ms\nT4,fp32,1760,16,1760,T,N,0.096\n", encoding="utf-8")
    (product,) = read("gemm", path)
    assert (product.text("source"), product.numbers["ta"], product.seconds) == ("DeepBench", 1, pytest.approx(96e-6))
    path.write_text("OPName,Latency (ms),Device,B,M,N,K\nlinear,1.5,Tesla T4,x,128,1024,512\n", encoding="utf-8")
    with pytest.raises(ts.UserError, match=r"gemm.csv:2"):
        read("gemm", path)
