"""Shell completion: names of machines, devices and networks, and paths of settings."""

from __future__ import annotations

from collections.abc import Iterable


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def simulated(incomplete: str) -> list[str]:
    """Machines with a prefix."""
    from ..machine.machine import Machine

    return _from(Machine.names(), incomplete)


def devices(incomplete: str) -> list[str]:
    """Devices with a prefix."""
    from ..machine.device import Device

    return _from(Device.names(), incomplete)


def machines(incomplete: str) -> list[str]:
    """Machines and devices with a prefix."""
    return [*simulated(incomplete), *devices(incomplete)]


def models_(incomplete: str) -> list[str]:
    """Networks with a prefix."""
    from .. import models

    return _from(models.names(), incomplete)


def settings(incomplete: str) -> list[tuple[str, str]]:
    """Paths of settings followed by "=", with their meanings; none after "="."""
    from .. import _core

    if "=" in incomplete:
        return []
    return [
        (f"{path}=", f"{unit}: {meaning}")
        for path, unit, meaning in _core.machine_settings()
        if path.startswith(incomplete) and path != "core.isa.functions"  # set by ts.isa.use in Python
    ]
