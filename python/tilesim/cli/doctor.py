"""The command `doctor`, which checks the installation."""

from __future__ import annotations

import importlib.metadata
import platform
import sys

from .._core import __version__
from ..base.paths import configs_dir
from ..base.screen import wrapped
from ..machine.device import Device
from ..machine.machine import Machine
from .screen import say

PACKAGES = (
    *("numpy", "ml_dtypes", "torch", "jax", "onnx", "transformers", "safetensors"),
    *("pandas", "matplotlib", "plotly", "scipy", "pyarrow", "openpyxl"),
)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def doctor() -> None:
    lines = wrapped(f"tilesim {__version__}, Python {sys.version.split()[0]}, {platform.platform()}", hang="  ")
    lines += [f"  {name:<13} {_version(name)}" for name in PACKAGES]
    lines += wrapped(f"configurations: {configs_dir()}", hang="  ")
    lines += wrapped(f"machines: {', '.join(Machine.names())}", hang="  ")
    say([*lines, *wrapped(f"devices: {', '.join(Device.names())}", hang="  ")])
