"""reduce_precision of StableHLO: a float through a format of those widths and back, by conversions of numpy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts

pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")

FORMATS = {"bf16": (8, 7), "f16": (5, 10), "f32": (8, 23), "f64": (11, 52)}
ARRAYS = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("through", FORMATS)
def test_reduce_precision(dtype: str, through: str) -> None:
    exponent, mantissa = FORMATS[through]
    text = f"""
module @one {{
  func.func public @main(%x: tensor<64x{dtype}>) -> tensor<64x{dtype}> {{
    %r = stablehlo.reduce_precision %x, format = e{exponent}m{mantissa} : tensor<64x{dtype}>
    return %r : tensor<64x{dtype}>
  }}
}}
"""
    random = np.random.default_rng(exponent)
    with np.errstate(over="ignore"):
        x = (random.normal(size=64) * 2.0 ** random.integers(-10, 20, 64)).astype(ARRAYS[dtype])
    x[:4] = (np.inf, -np.inf, np.nan, -0.0)
    (got,) = ts.reference(ts.from_stablehlo(text), [x]).values()
    with np.errstate(over="ignore"):
        wanted = x.astype(ARRAYS[through]).astype(ARRAYS[dtype])
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))
    assert np.signbit(got[3].astype(np.float64))
