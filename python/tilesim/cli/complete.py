"""What a shell offers after Tab: names of machines, devices and networks, and paths of settings."""

from __future__ import annotations

from collections.abc import Iterable


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def simulated(incomplete: str) -> list[str]:
    """Machines that begin so."""
    from ..machine.machine import Machine

    return _from(Machine.names(), incomplete)


def devices(incomplete: str) -> list[str]:
    """Devices that begin so."""
    from ..machine.device import Device

    return _from(Device.names(), incomplete)


def machines(incomplete: str) -> list[str]:
    """Machines and devices that begin so."""
    return [*simulated(incomplete), *devices(incomplete)]


def models_(incomplete: str) -> list[str]:
    """Networks that begin so."""
    from .. import models

    return _from(models.names(), incomplete)


def settings(incomplete: str) -> list[tuple[str, str]]:
    """Paths of settings with "=" behind, and what each means; none once a value has begun."""
    from .. import _core

    if "=" in incomplete:
        return []
    return [
        (f"{path}=", f"{unit}: {meaning}")
        for path, unit, meaning in _core.machine_settings()
        if path.startswith(incomplete) and path != "core.isa.functions"  # a meaning in Python: ts.isa.use
    ]
