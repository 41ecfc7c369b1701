"""Constants of matrix products in device-independent units: cycles, shares, bytes per operation.

Constants that hardware fixes in cycles (a launch, a tile's prologue) or in proportion to the matrix units (operands
loaded per operation, energy per operation) have such units, so that they transfer between devices. In separate fits of
four GPUs, launches of 2.1 to 3.9 us are 4,900 to 5,500 cycles, and operand loads of 21 to 70 bytes per cycle are 0.016
to 0.021 bytes per operation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core
from ..machine.device import Device
from .schemes import Scheme

__all__ = ["CONSTANTS", "resolve", "standard"]

_CORE: dict[str, dict[str, Any]] = {row["name"]: row for row in _core.gemm_constants()}


def _info(default: float, low: float, high: float, unit: str) -> dict[str, Any]:
    return {"default": default, "low": low, "high": high, "unit": unit}


_CYCLES: dict[str, dict[str, Any]] = {
    "launch": _info(5e3, 0.0, 2e6, "cycles per kernel"),
    "step": _info(80.0, 0.1, 2e4, "minimum cycles per k-step"),
    "tile": _info(500.0, 1.0, 2e5, "cycles per additional wave of tiles"),
    "split": _info(3e3, 10.0, 2e6, "cycles per reduction of a split k"),
    "vector_launch": _info(5e3, 0.0, 2e6, "cycles per matrix-vector kernel"),
    "cast_row": _info(150.0, 0.1, 2e5, "cycles per row and unit of a cast"),
}
_OWN: dict[str, dict[str, Any]] = {
    **_CYCLES,
    "epilogue": _info(2e3, 0.0, 6e4, "cycles of prologue and epilogue of a 128 by 128 tile"),
    "feed": _info(0.02, 1e-4, 100.0, "bytes a unit loads per operation of its peak"),
    "energy": _info(1.4, 1e-3, 1e4, "picojoules per operation, of the whole board"),
    "vector_rate": _info(2.0, 1e-3, 1e3, "k elements per cycle and block of a matrix-vector kernel"),
    "cache_fill": _info(1.0, 0.05, 2.0, "usable share of the cache, or of each of its partitions"),
    "reload_share": _info(0.8, 0.01, 8.0, "share of the cache's rate when tiles load operands again"),
}
_REPLACED = {"epilogue": "epilogue_steps", "feed": "unit_bytes_per_clock", "energy": "droop"}
_BACK = {old: new for new, old in _REPLACED.items()}
CONSTANTS: dict[str, dict[str, Any]] = {
    _BACK.get(name, name): _OWN.get(_BACK.get(name, name), row) for name, row in _CORE.items()
}
# Default for unknown devices: boards sustain nine tenths of their peak, with the core model's smooth power limit
# (0.825^4 + 1 = 1.1^4).
DROOP = -0.175


def _rates(device: Device, how: Scheme) -> tuple[float, float]:
    """Returns operations per cycle of one unit, and operations per joule at the peak rate."""
    rate = device.rate(how.arithmetic).flops_per_second
    return rate / device.units / device.clock_hz, rate / device.power_watts if device.power_watts else 0.0


def standard(device: Device, how: Scheme, casts: int = 1) -> dict[str, float]:
    """Returns the constants of a device and scheme without measurements."""
    values = {name: float(row["default"]) for name, row in CONSTANTS.items()}
    values["cast"] *= casts
    per_clock, per_joule = _rates(device, how)
    if per_joule:
        values["energy"] = (1 + DROOP) / per_joule * 1e12
    if how.weight_bytes < how.activation_bytes:
        values["alone"] = 0.4  # the loop widens weights before multiplying (int8 and int4 on the A100 agree)
    if how.arithmetic in ("f32", "f64"):  # vector lanes load all operands through shared ports
        values["feed"] = 50.0 / per_clock
        values["epilogue"] = 100.0 * 2 * 128 * 128 / per_clock
    if device.kind == "cpu":  # register tiles take tens of cycles, and no threads start
        values.update(tile=20.0, step=1.0, vector_rate=100.0, convert=1.0, overlap=1.5, half_tile=1.0)
        values["feed"] = 50.0 / per_clock
        if (
            how.weight_bytes < how.activation_bytes
        ):  # packed weights cost four vector instructions on one port: unpack, shift, convert, scale
            values["convert"] = max(1.0, device.vector_rate("f32") / device.units / device.clock_hz / 16)
        values["epilogue"] = 8.0 * 2 * 128 * 128 / per_clock
        values["launch"] = values["vector_launch"] = device.launch_seconds * device.clock_hz
    return {name: min(max(value, CONSTANTS[name]["low"]), CONSTANTS[name]["high"]) for name, value in values.items()}


def resolve(constants: Mapping[str, float], device: Device, how: Scheme) -> dict[str, float]:
    """Converts device-independent constants to the units of the core's model."""
    per_clock, per_joule = _rates(device, how)
    values = {}
    for name, value in constants.items():
        if name in _CYCLES:
            value /= device.clock_hz
        elif name == "epilogue":
            value *= per_clock / (2 * 128 * 128)
        elif name == "feed":
            value *= per_clock
        elif name == "energy":
            value = value * 1e-12 * per_joule - 1 if per_joule else DROOP
        elif name == "vector_rate":
            value *= device.clock_hz
        elif name == "cache_fill":
            value /= device.partitions
        elif name == "reload_share":
            value *= device.multicast
        core = _CORE[_REPLACED.get(name, name)]
        values[core["name"]] = min(max(value, core["low"]), core["high"])
    return values
