"""Compares quantization schemes: numeric error of a product, bytes, and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ..base.errors import Unsupported
from ..graph import user_error
from ..machine.device import Device
from ..results.result import Table
from . import gemm
from .crossover import baseline
from .estimate import DeviceLike, device_of
from .schemes import Scheme, scheme

__all__ = ["product_error", "quantization_table"]

Array = NDArray[np.float32]


def _cast(values: Array, dtype: Any) -> Array:
    return values.astype(dtype).astype(np.float32)


def _scaled(values: Array, dtype: Any, largest: float, axis: int | None, block: int = 0) -> Array:
    """Rounds values to a narrow type; one scale per tensor, per slice along `axis`, or per block of the last axis."""
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


def _affine(values: Array, levels: int, axis: int = 1, block: int = 0) -> Array:
    """Rounds values to levels between minimum and maximum, with a scale and a zero point per slice or block."""
    if block:
        width = values.shape[1]
        padded = np.pad(values, ((0, 0), (0, -width % block)), mode="edge")
        return _affine(padded.reshape(-1, block), levels).reshape(padded.shape)[:, :width]
    low = np.minimum(values.min(axis=axis, keepdims=True), 0)
    high = np.maximum(values.max(axis=axis, keepdims=True), 0)
    scale = np.where(high > low, (high - low) / (levels - 1), 1.0).astype(np.float32)
    zero = np.rint(-low / scale)
    return np.asarray((np.clip(np.rint(values / scale) + zero, 0, levels - 1) - zero) * scale, np.float32)


def _ten_bits(values: Array) -> Array:
    """Rounds the mantissa of f32 to ten bits as tf32 does, ties away from zero."""
    return ((values.view(np.uint32) + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)


_E4M3, _E5M2, _E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn
_ROUND: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "fp64": (lambda a: a, lambda b: b),
    "fp32": (lambda a: a, lambda b: b),
    "tf32": (_ten_bits, _ten_bits),
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
    "w8a8_zp": (lambda a: _affine(a, 256), lambda b: _scaled(b, np.int8, 127.0, 0)),
    "int8_wo": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _scaled(b, np.int8, 127.0, 0)),
    "int4_wo": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _scaled(b, "int4", 7.0, 0)),
    "int4_g128": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _scaled(b.T, "int4", 7.0, None, 128).T),
    "int4_g128_zp": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _affine(b.T, 16, 1, 128).T),
    "fp8_wo": (lambda a: _cast(a, ml_dtypes.bfloat16), lambda b: _scaled(b, _E4M3, 448.0, None)),
}


def product_error(
    name: str | Scheme, m: int = 64, n: int = 64, k: int = 1024, seed: int = 0, offset: float = 0.0
) -> float:
    """Returns the relative error of a product of normal random numbers with rounded operands and exact sums."""
    how = scheme(name)
    if how.name not in _ROUND:
        raise user_error("the rounding of this scheme is unsupported", value=how.name, allowed=", ".join(_ROUND))
    random = np.random.default_rng(seed)
    a = (random.normal(size=(m, k)) + offset).astype(np.float32)
    b = random.normal(size=(k, n)).astype(np.float32)
    of_a, of_b = _ROUND[how.name]
    exact = a.astype(np.float64) @ b.astype(np.float64)
    rounded = of_a(a).astype(np.float64) @ of_b(b).astype(np.float64)
    return float(np.sqrt(np.mean((rounded - exact) ** 2) / np.mean(exact**2)))


def _packing(how: Scheme) -> str:
    """Describes how many weights a 32-bit word packs; "plain" without packing."""
    payload = {"int4": 8, "nvfp4": 8, "mxfp4": 8, "int8": 4, "fp8": 4, "mxfp8": 4, "w8a8": 4, "sq": 4}
    per_word = next((count for start, count in payload.items() if how.name.startswith(start)), 0)
    return f"{per_word} in 32 bits" if per_word else "plain"


def quantization_table(
    m: int = 64, n: int = 64, k: int = 1024, device: DeviceLike | None = None, offset: float = 0.0
) -> Table:
    """Tabulates all schemes: weight bytes relative to bf16, packing, scales, cast, error and time of a product."""
    rows = []
    target = None if device is None else device_of(device, labels=True)
    for name in _ROUND:
        how = scheme(name, target)
        row: dict[str, Any] = {
            "scheme": name,
            "weight_bytes": how.weight_bytes,
            "saved": 2 / how.weight_bytes,
            "packing": _packing(how),
            "scales": how.scales,
            "cast_bytes": how.cast_bytes,
            "error": product_error(name, min(m, 64), min(n, 64), k, offset=offset),
        }
        rows.append({**row, **_times(target, name, m, n, k)} if target else row)
    return Table(rows)


def _times(device: Device, name: str, m: int, n: int, k: int) -> dict[str, Any]:
    """Returns milliseconds, speed-up and reason; times are None if the device cannot run the scheme."""
    base = gemm.estimator(device, baseline(device)).seconds(m, n, k)
    try:
        seconds = gemm.estimator(device, name).seconds(m, n, k)
    except Unsupported as error:
        return {"ms": None, "speedup": None, "reason": str(error)}
    how = device.rate(scheme(name, device).arithmetic)
    reason = f"emulated: {how.reason}" if how.how == "emulated" else ""
    return {"ms": float(seconds) * 1e3, "speedup": float(base / seconds), "reason": reason}
