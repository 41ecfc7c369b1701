"""Numeric error of schemes, beside their time."""

from __future__ import annotations

import pytest

import tilesim as ts
from tilesim.analytic.quantize import product_error, quantization_table
from tilesim.analytic.schemes import Scheme, scheme_names


def test_errors_follow_the_mantissas() -> None:
    """Rounding to a mantissa of p bits leaves about 2^-p / sqrt(3) / 2 per operand; two operands add in squares."""
    assert product_error("fp32") < 1e-7
    for name, bits in (("fp16", 11), ("bf16", 8), ("fp8", 4), ("fp8_e5m2", 3)):
        ulp = 2.0**-bits
        assert 0.4 * ulp < product_error(name) < 1.2 * ulp, name
    order = ["fp32", "tf32", "bf16", "int8_wo", "sq", "fp8", "fp8_e5m2", "nvfp4"]
    errors = [product_error(name) for name in order]
    assert errors == sorted(errors)
    assert product_error("tf32") == pytest.approx(product_error("fp16"), rel=0.1)  # both keep ten bits
    assert product_error("int4_g128") < product_error("int4_wo")
    assert product_error("nvfp4") < product_error("mxfp4")


def test_table_of_schemes() -> None:
    rows = {row["scheme"]: row for row in quantization_table(8, 8, 64).rows}
    assert rows["int4_wo"]["saved"] == 4
    assert rows["nvfp4"]["saved"] < 4
    assert rows["fp8"]["cast_bytes"] == 3
    assert set(rows) == set(scheme_names())
    with pytest.raises(ts.UserError, match="mine"):
        product_error(Scheme("mine", "i8", 1, 1))


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
