"""What a scheme costs in accuracy and saves in memory: the numeric error of a product beside its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..graph import user_error
from ..result import Table
from .schemes import Scheme, scheme

__all__ = ["product_error", "quantization_table"]

Array = NDArray[np.float32]


def _cast(values: Array, dtype: Any) -> Array:
    return values.astype(dtype).astype(np.float32)


def _scaled(values: Array, dtype: Any, largest: float, axis: int | None, block: int = 0) -> Array:
    """Values rounded to a narrow type; one scale per tensor, per slice along `axis`, or per block of the last axis."""
    if block:
        rows, width = values.shape
        padded = np.zeros((rows, -(-width // block) * block), np.float32)
        padded[:, :width] = values
        grouped = padded.reshape(-1, block)
        return _scaled(grouped, dtype, largest, 1).reshape(padded.shape)[:, :width]
    peak = np.abs(values).max(axis=axis, keepdims=axis is not None)
    scale = np.where(peak > 0, peak / largest, 1.0).astype(np.float32)
    if dtype in (np.int8, "int4"):
        return np.clip(np.rint(values / scale), -largest, largest) * scale
    return _cast(values / scale, dtype) * scale


_E4M3, _E5M2, _E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn
_ROUND: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "fp64": (lambda a: a, lambda b: b),
    "fp32": (lambda a: a, lambda b: b),
    "fp16": (lambda a: _cast(a, np.float16), lambda b: _cast(b, np.float16)),
    "bf16": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _cast(b, ml_dtypes.bfloat16)),
    "fp8": (lambda a: _scaled(a, _E4M3, 448.0, None), lambda b: _scaled(b, _E4M3, 448.0, None)),
    "fp8_nocast": (lambda a: _scaled(a, _E4M3, 448.0, None), lambda b: _scaled(b, _E4M3, 448.0, None)),
    "fp8_e5m2": (lambda a: _scaled(a, _E5M2, 57344.0, None), lambda b: _scaled(b, _E5M2, 57344.0, None)),
    "mxfp8": (lambda a: _scaled(a, _E4M3, 448.0, None, 32), lambda b: _scaled(b.T, _E4M3, 448.0, None, 32).T),
    "nvfp4": (lambda a: _scaled(a, _E2M1, 6.0, None, 16), lambda b: _scaled(b.T, _E2M1, 6.0, None, 16).T),
    "mxfp4": (lambda a: _scaled(a, _E2M1, 6.0, None, 32), lambda b: _scaled(b.T, _E2M1, 6.0, None, 32).T),
    "int8": (lambda a: _scaled(a, np.int8, 127.0, None), lambda b: _scaled(b, np.int8, 127.0, None)),
    "sq": (lambda a: _scaled(a, np.int8, 127.0, 1), lambda b: _scaled(b, np.int8, 127.0, 0)),
    "w8a8": (lambda a: _scaled(a, np.int8, 127.0, 1), lambda b: _scaled(b, np.int8, 127.0, 0)),
    "int8_wo": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _scaled(b, np.int8, 127.0, 0)),
    "int4_wo": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _scaled(b, "int4", 7.0, 0)),
    "int4_g128": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _scaled(b.T, "int4", 7.0, None, 128).T),
    "fp8_wo": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _scaled(b, _E4M3, 448.0, None)),
}


def product_error(name: str | Scheme, m: int = 64, n: int = 64, k: int = 1024, seed: int = 0) -> float:
    """Error that rounding the operands leaves in a product of normal random numbers, sums exact.

    Args:
        name: of the scheme.
        m: rows.
        n: columns.
        k: contracted extent in elements.
        seed: of the random numbers.

    Returns:
        Root mean square of the error over that of the result, a ratio.

    Raises:
        UserError: for an unknown scheme, or one whose rounding is not modelled.
    """
    how = scheme(name)
    if how.name not in _ROUND:
        raise user_error("the rounding of this scheme is not modelled", value=how.name, allowed=", ".join(_ROUND))
    random = np.random.default_rng(seed)
    a = random.normal(size=(m, k)).astype(np.float32)
    b = random.normal(size=(k, n)).astype(np.float32)
    of_a, of_b = _ROUND[how.name]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    rounded = of_a(a).astype(np.float64) @ of_b(b).astype(np.float64)
    return float(np.sqrt(np.mean((rounded - exact) ** 2) / np.mean(exact**2)))


def quantization_table(m: int = 64, n: int = 64, k: int = 1024) -> Table:
    """Every scheme: bytes of weights against bf16, scales, cast, and the error of a product.

    Args:
        m: rows.
        n: columns.
        k: contracted extent in elements.

    Returns:
        Rows with scheme, weight bytes per element, memory saved over bf16 (ratio), scales, cast bytes per activation
        and the error of a product (ratio).
    """
    rows = []
    for name in _ROUND:
        how = scheme(name)
        rows.append(
            {
                "scheme": name,
                "weight_bytes": how.weight_bytes,
                "saved": 2 / how.weight_bytes,
                "scales": how.scales,
                "cast_bytes": how.cast_bytes,
                "error": product_error(name, m, n, k),
            }
        )
    return Table(rows)
