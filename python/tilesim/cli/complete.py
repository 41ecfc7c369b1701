"""What a shell offers after Tab: names of machines, devices and networks, and paths of settings."""

from __future__ import annotations

from collections.abc import Iterable

from .. import _core, models
from ..machine.device import Device
from ..machine.machine import Machine

__all__ = ["devices", "machines", "models_", "settings", "simulated"]


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def simulated(incomplete: str) -> list[str]:
    """Machines.

    Args:
        incomplete: what is written so far.

    Returns:
        Those that begin so.
    """
    return _from(Machine.names(), incomplete)


def devices(incomplete: str) -> list[str]:
    """Devices.

    Args:
        incomplete: what is written so far.

    Returns:
        Those that begin so.
    """
    return _from(Device.names(), incomplete)


def machines(incomplete: str) -> list[str]:
    """Machines and devices.

    Args:
        incomplete: what is written so far.

    Returns:
        Those that begin so.
    """
    return [*simulated(incomplete), *devices(incomplete)]


def models_(incomplete: str) -> list[str]:
    """Networks.

    Args:
        incomplete: what is written so far.

    Returns:
        Those that begin so.
    """
    return _from(models.names(), incomplete)


def settings(incomplete: str) -> list[tuple[str, str]]:
    """Settings of a machine, before their value.

    Args:
        incomplete: what is written so far.

    Returns:
        Paths with "=" behind, and what each means.
    """
    if "=" in incomplete:
        return []
    return [
        (f"{path}=", f"{unit}: {meaning}")
        for path, unit, meaning in _core.machine_settings()
        if path.startswith(incomplete)
    ]
