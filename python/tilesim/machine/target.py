"""Finds targets of workloads: machines, which are simulated, and devices, which are estimated."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..base.checked import checked
from ..base.errors import UserError, nearest, path_text, shown, user_error
from ..base.files import CONFIGS, read_json
from ..base.presets import is_shipped, other_kind
from ..base.table import Table
from .device import Device, folded, is_label
from .machine import Machine, MachineLike

__all__ = ["devices", "load", "machines"]


_BACKENDS = ("cuda", "gpu", "cpu", "mps", "tpu", "xla")  # names of devices in PyTorch and JAX


def load(source: MachineLike | Device, labels: bool = False) -> Machine | Device:
    """Loads a machine or a device from a name or another source."""
    if isinstance(source, Device):
        return source
    if isinstance(source, Mapping):
        return Device.load(source) if source.get("schema") == "tilesim.device" else Machine.load(source)
    if isinstance(source, Machine):
        return source
    if not isinstance(source, (str, os.PathLike)):
        several = isinstance(source, (list, tuple))
        hint = "Give one machine per call; ts.sweep and ts.compare take several" if several else ""
        hint = hint or "Names: tilesim machine list, tilesim device list"
        raise user_error("not a machine or device", value=shown(source),
                         allowed="a name, a file, a dict, a ts.Machine, a ts.Device", suggestion=hint)  # fmt: skip
    text = path_text(source)
    if is_shipped(text, "machines", Machine.names()):
        return Machine.load(source)
    if is_label(text.partition("@")[0]):
        if not labels:
            _check_spelling(text)
        return Device.named(text)
    if os.path.isfile(text):
        return Device.load(source) if _is_device(text) else Machine.load(source)
    if text.endswith(CONFIGS) or os.path.exists(text):
        return Machine.load(source)  # this raises the precise error
    known = [*Machine.names(), *Device.names()]
    raise user_error(
        "unknown machine or device",
        value=f"'{text}'",
        allowed=", ".join(known),
        suggestion="Name a chip, such as 'h100'"
        if text in _BACKENDS
        else other_kind(text) or nearest(text.lower(), known),
    )


def _check_spelling(text: str) -> None:
    """Rejects a label that spells a machine's name differently, because another model would run."""
    before = text.partition("@")[0]
    machine = next((name for name in Machine.names() if folded(name) == folded(before)), "")
    if machine:
        device = Device.named(before).name
        remedy = f"Did you mean the machine {machine}, which is simulated? The device {device} is estimated"
        raise user_error("ambiguous name: a machine or a device", value=f"'{text}'", allowed=f"{machine}, {device}",
                         suggestion=remedy)  # fmt: skip


def _is_device(path: str) -> bool:
    try:
        data = read_json(path)
    except UserError:
        return False
    return isinstance(data, dict) and data.get("schema") == "tilesim.device"


def _row(name: str, kind: str, device: Device) -> dict[str, Any]:
    present = {dtype: rate for dtype, rate in device.matrix.items() if rate.how != "absent"}
    best = max(present, key=lambda dtype: present[dtype].flops_per_second, default="")
    half = device.matrix.get("bf16")
    return {
        "name": name,
        "kind": kind,
        "description": device.description,
        "peak_tflops": present[best].flops_per_second / 1e12 if best else 0.0,
        "peak_dtype": best,
        "bf16_tflops": half.flops_per_second / 1e12 if half and half.how != "absent" else None,
        "vector_tflops": device.vector_rate("f32") / 1e12,
        "memory_gbytes_per_second": device.memory.bytes_per_second / 1e9,
    }


def sort_of(name: str) -> str:
    """Whether a name denotes a machine or a device; "" if neither."""
    return "machine" if name in Machine.names() else "device" if name in Device.names() else ""


@checked()
def machines() -> Table:
    """Lists all targets of workloads: machines, which are simulated, then devices, which are estimated.

    Returns:
        Rows with name, kind ("machine", "device"), description, peak_tflops (TFLOP/s of matrix products, whole
        machine, dense) in its fastest dtype, peak_dtype, bf16_tflops (None: no bf16), vector_tflops (f32),
        memory_gbytes_per_second (10⁹ bytes).
    """
    rows = [_row(name, "machine", Device.from_machine(name)) for name in Machine.names()]
    return Table(rows + devices().rows)


@checked()
def devices() -> Table:
    """Devices, which are estimated in closed form.

    Returns:
        Rows as of `machines`, of kind "device".
    """
    return Table([_row(name, "device", Device.load(name)) for name in Device.names()])
