"""Quantization schemes: arithmetic, bytes and casts of an operation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..base.arguments import dtype_name
from ..graph import nearest, user_error
from ..machine.device import Device

__all__ = ["Scheme", "scheme", "scheme_names"]


@dataclass(frozen=True)
class Scheme:
    """A quantization scheme: arithmetic, types of a product's tensors, scale granularity, and cast.

    Bytes are per element, including block scales and padding. `cast_bytes` counts the bytes that a kernel before
    the product reads and writes per activation; 0 without a cast.
    """

    name: str
    arithmetic: str
    activation_bytes: float
    weight_bytes: float
    output_bytes: float = 2.0
    cast_bytes: float = 0.0
    accumulate: str = "f32"
    scales: str = ""
    description: str = ""


_TABLE = [
    Scheme("fp64", "f64", 8, 8, 8, accumulate="f64", description="plain double precision"),
    Scheme("fp32", "f32", 4, 4, 4, description="plain single precision, no tensor cores"),
    Scheme("tf32", "tf32", 4, 4, 4, description="single precision stored, 10-bit mantissa multiplied"),
    Scheme("fp16", "f16", 2, 2, 2, description="plain half precision"),
    Scheme("bf16", "bf16", 2, 2, 2, description="plain bfloat16"),
    Scheme("fp8", "f8e4m3fn", 1, 1, 2, 3, scales="tensor", description="e4m3 both, bf16 out, cast included"),
    Scheme("fp8_e5m2", "f8e5m2", 1, 1, 2, 3, scales="tensor", description="e5m2 both, bf16 out, cast included"),
    Scheme("fp8_nocast", "f8e4m3fn", 1, 1, 2, 0, scales="tensor", description="fp8 with the cast fused elsewhere"),
    Scheme("nvfp4", "f4e2m1fn", 0.5625, 0.5625, 2, 2.5625, scales="block of 16", description="4-bit floats, cast too"),
    Scheme("mxfp8", "f8e4m3fn", 1.03125, 1.03125, 2, 3.03125, scales="block of 32", description="fp8 in MX blocks"),
    Scheme("mxfp4", "f4e2m1fn", 0.53125, 0.53125, 2, 2.53125, scales="block of 32", description="fp4 in MX blocks"),
    Scheme("int8", "i8", 1, 1, 4, accumulate="i32", description="int8 both, int32 out, nothing to cast"),
    Scheme("sq", "i8", 1, 1, 2, accumulate="i32", scales="row and column", description="smooth-quant int8, bf16 out"),
    Scheme("w8a8", "i8", 1, 1, 2, 3, "i32", "row and column", "int8 both, bf16 out, cast of activations included"),
    Scheme("w8a8_zp", "i8", 1, 1, 2, 3, "i32", "row with zero point, column", "w8a8 with activations off centre"),
    Scheme("int8_wo", "bf16", 2, 1, 2, scales="channel", description="int8 weights widened in the kernel"),
    Scheme("int4_wo", "bf16", 2, 0.5, 2, scales="channel", description="int4 weights widened in the kernel"),
    Scheme("int4_g128", "bf16", 2, 0.515625, 2, scales="group of 128", description="int4 weights with group scales"),
    Scheme("int4_g128_zp", "bf16", 2, 0.51953125, 2, scales="group of 128 with zero point", description="as AWQ, GPTQ"),
    Scheme("fp8_wo", "bf16", 2, 1, 2, scales="tensor", description="fp8 weights widened in the kernel"),
]
_SCHEMES = {row.name: row for row in _TABLE}
_ALIASES = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "f16": "fp16", "float32": "fp32", "float": "fp32",
    "f32": "fp32", "float64": "fp64", "double": "fp64", "f64": "fp64", "i8": "int8", "fp8_e4m3": "fp8",
    "float8": "fp8", "f8e4m3fn": "fp8", "e4m3": "fp8", "smoothquant": "sq", "smooth_quant": "sq", "int4": "int4_wo",
    "i4": "int4_wo", "w8a16": "int8_wo", "w4a16": "int4_g128", "fp4": "nvfp4", "f4e2m1fn": "nvfp4",
    "int8_weight_only": "int8_wo", "int4_weight_only": "int4_wo", "f8e5m2": "fp8_e5m2",
}  # fmt: skip


def scheme_names() -> list[str]:
    """Names of all schemes."""
    return list(_SCHEMES)


def scheme(name: str | Scheme, device: Device | None = None) -> Scheme:
    """Finds a scheme by name or alias and adapts it to a device."""
    if isinstance(name, Scheme):
        return name
    key = (name if isinstance(name, str) else dtype_name(name)).strip().lower()
    key = _ALIASES.get(key, key)
    found = _SCHEMES.get(key)
    if found is None:
        raise user_error(
            "unknown scheme",
            value=f"'{name}'",
            allowed=", ".join(_SCHEMES),
            suggestion=nearest(key, [*_SCHEMES, *_ALIASES]),
        )
    if key == "fp8" and device is not None and device.family in _WIDENS_FP8:
        return replace(_SCHEMES["fp8_wo"], name="fp8")
    return found


_WIDENS_FP8 = {"xe2"}  # families on which oneDNN widens fp8 weights to 16 bits before multiplying
