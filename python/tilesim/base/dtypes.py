"""Element types by name."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

__all__ = ["FLOATS", "NUMPY"]

NUMPY: dict[str, Any] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8e4m3fn": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "f8e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "f4e2m1fn": ml_dtypes.float4_e2m1fn,
    "bool": np.bool_,
    "i4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"u{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
    "c64": np.complex64,
    "c128": np.complex128,
    "f8e4m3ieee": ml_dtypes.float8_e4m3,
    "f8e3m4": ml_dtypes.float8_e3m4,
    "f8e4m3b11fnuz": ml_dtypes.float8_e4m3b11fnuz,
    "f6e2m3fn": ml_dtypes.float6_e2m3fn,
    "f6e3m2fn": ml_dtypes.float6_e3m2fn,
    "i2": ml_dtypes.int2,
    "u2": ml_dtypes.uint2,
}
FLOATS = {name for name in NUMPY if name[0] == "f" or name == "bf16"}
