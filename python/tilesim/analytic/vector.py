"""Times elementwise operations, softmax and normalization by memory streams, vector arithmetic and a launch.

The cache supplies the bytes that stay in it between repeated calls, memory the rest. Softmax and
normalization process rows: a thread block per row costs a fixed time, divided by the number of resident blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..base.arguments import numbers_of
from ..graph import nearest, user_error
from ..machine.device import Device
from .families import Entry
from .gemm import find_entry
from .profile import Profile
from .schemes import scheme

__all__ = ["CONSTANTS", "OPERATIONS", "constants_of", "stream_model", "vector_seconds", "vector_terms"]

Array = NDArray[np.float64]

# Operation -> class, least tensors read and written, FLOPs per element (special functions count as several).
OPERATIONS: dict[str, tuple[str, float, float]] = {
    **dict.fromkeys(("add", "sub", "mul", "maximum", "minimum"), ("binary", 3.0, 1.0)),
    "div": ("binary", 3.0, 8.0),
    "pow": ("binary", 3.0, 40.0),
    **dict.fromkeys(("addu", "subu", "mulu"), ("unary", 2.0, 1.0)),
    "divu": ("unary", 2.0, 8.0),
    "powu": ("unary", 2.0, 20.0),
    **dict.fromkeys(("relu", "neg", "abs", "copy"), ("unary", 2.0, 1.0)),
    **dict.fromkeys(("tanh", "gelu", "silu", "sigmoid", "exp"), ("unary", 2.0, 20.0)),
    "quantize": ("unary", 1.5, 4.0),  # reads two bytes per element and writes one
    "compute_scale": ("unary", 1.0, 2.0),  # only reads, to find the largest magnitude
    "softmax": ("softmax", 2.0, 12.0),
    "ln": ("ln", 2.0, 10.0),
    "rms": ("ln", 2.0, 6.0),
}
_ALIASES = {"layer_norm": "ln", "layernorm": "ln", "rms_norm": "rms", "swish": "silu"}


CONSTANTS: dict[str, dict[str, Any]] = {row["name"]: row for row in _core.stream_constants()}
TERMS: list[str] = list(_core.stream_term_names())


def operation(name: str) -> str:
    """Converts an operation's name or alias to a key of `OPERATIONS`."""
    key = _ALIASES.get(name.strip().lower(), name.strip().lower())
    if key not in OPERATIONS:
        raise user_error(
            "unknown operation",
            value=f"'{name}'",
            allowed=", ".join(OPERATIONS),
            suggestion=nearest(key, [*OPERATIONS, *_ALIASES]),
        )
    return key


def stream_model(device: Device, lanes: float, constants: Mapping[str, float]) -> _core.StreamModel:
    """Builds the core's model of streams through a device's memory and vector lanes (`lanes` operations per second)."""
    facts = {
        "units": float(device.units),
        "memory_bytes_per_second": device.memory.bytes_per_second,
        "shared_bytes": float(device.shared.bytes),
        "shared_bytes_per_second": device.shared.bytes_per_second,
        "lanes_per_second": lanes,
    }
    return _core.StreamModel(facts, dict(constants))


def vector_terms(
    device: Device, op: str, rows: Array, width: Array, dtype: str, constants: Mapping[str, float]
) -> dict[str, Array]:
    """Returns the seconds of each term of an operation by name, shape of `rows`."""
    kind, streams, flops = OPERATIONS[operation(op)]
    how = scheme(dtype, device)
    lanes = device.vector_rate("f32" if how.arithmetic in ("tf32", "f8e4m3fn", "f4e2m1fn") else how.arithmetic)
    model = stream_model(device, lanes, constants)
    by_row = kind in ("softmax", "ln")
    table = np.asarray(model.terms(np.ravel(rows), np.ravel(width), streams, how.activation_bytes, flops, by_row))
    return {name: table[:, i].reshape(np.shape(rows)) for i, name in enumerate(TERMS)}


def constants_of(
    device: Device, op: str, dtype: str, engine: str = "", source: str = "", profile: Profile | None = None
) -> Entry:
    """Returns the constants of an operation's class."""
    kind = OPERATIONS[operation(op)][0]
    how = scheme(dtype, device).name
    names = [f"{how}:{kind}", f"fp32:{kind}", "fp32:unary"]
    entry, _ = find_entry("vector", device, names, engine, source, profile)
    standard = {key: float(info["default"]) for key, info in CONSTANTS.items()}
    if device.launch_seconds or device.kind in ("tpu", "npu"):
        standard["launch"] = device.launch_seconds
    if device.kind in ("tpu", "npu"):  # a TPU or NPU runs all rows in one program, without blocks of threads
        standard |= {"row": CONSTANTS["row"]["low"], "narrow": CONSTANTS["narrow"]["low"]}
    if entry is None:
        return Entry(
            "vector", names[0], constants=standard, provenance=dict.fromkeys(standard, "default"), device=device.name
        )
    return Entry("vector", names[0], engine, source, device.name, {**standard, **entry.constants}, entry.provenance)


def vector_seconds(
    device: Device | str,
    op: str,
    rows: ArrayLike,
    width: ArrayLike,
    dtype: str = "fp32",
    profile: Profile | str | None = None,
) -> Array:
    """Returns the seconds of an elementwise operation, softmax or normalization, shape of `rows`."""
    target = Device.load(device)
    r, w = numbers_of(rows, width)
    if not (np.all(r > 0) and np.all(w > 0)):
        raise user_error("an extent must be positive")
    entry = constants_of(target, op, dtype, profile=Profile.open(profile))
    return vector_terms(target, op, r, w, dtype, entry.constants)["total"]
