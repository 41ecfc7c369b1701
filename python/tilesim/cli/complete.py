"""Shell completion of machines, devices, models and setting paths."""

from __future__ import annotations

from collections.abc import Iterable


def _from(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def simulated(incomplete: str) -> list[str]:
    """Returns the machines whose names start with `incomplete`."""
    from ..machine.machine import Machine

    return _from(Machine.names(), incomplete)


def devices(incomplete: str) -> list[str]:
    """Returns the devices whose names start with `incomplete`."""
    from ..machine.device import Device

    return _from(Device.names(), incomplete)


def machines(incomplete: str) -> list[str]:
    """Returns the machines and devices whose names start with `incomplete`."""
    return [*simulated(incomplete), *devices(incomplete)]


def models_(incomplete: str) -> list[str]:
    """Returns the models whose names start with `incomplete`."""
    from .. import models

    return _from(models.names(), incomplete)


def settings(incomplete: str) -> list[tuple[str, str]]:
    """Returns (path=, meaning) of settings that start with `incomplete`; empty once the text has a "="."""
    from .. import _core

    if "=" in incomplete:
        return []
    return [
        (f"{path}=", f"{unit}: {meaning}")
        for path, unit, meaning in _core.machine_settings()
        if path.startswith(incomplete) and path != "core.isa.functions"  # set by ts.isa.use in Python
    ]
