"""Reads the systems of measured steps by name from `configs/systems.json`."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ..base.files import read_json
from ..base.paths import configs_dir

__all__ = ["system_of", "systems"]


@cache
def systems() -> dict[str, dict[str, Any]]:
    """Reads all systems."""
    table = read_json(configs_dir() / "systems.json")
    return {str(key): value for key, value in table["systems"].items()}


def system_of(name: str) -> tuple[str, int] | None:
    """Finds the system and the number of devices of a name."""
    own = name.partition(":")[0]
    for key in systems():
        if found := re.fullmatch(key.replace("N", "([0-9]+|N)"), own, re.IGNORECASE):
            number = found.group(1) if found.groups() else "N"
            return key, int(number) if number.isdigit() else 0
    return None
