"""Systems of measured steps by name, `configs/systems.json`."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ..base.files import read_json
from ..base.paths import configs_dir

__all__ = ["system_of", "systems"]


@cache
def systems() -> dict[str, dict[str, Any]]:
    """The systems.

    Returns:
        Name to device, devices of a node, and links, with sources. N in a name stands for a number.
    """
    table = read_json(configs_dir() / "systems.json")
    return {str(key): value for key, value in table["systems"].items()}


def system_of(name: str) -> tuple[str, int] | None:
    """The system that a name is of.

    Args:
        name: of an entry, with a number in place of N or with N itself, with devices behind a colon or without.

    Returns:
        The entry's name, and the number, 0 where there is none; none: it is of no system.
    """
    own = name.partition(":")[0]
    for key in systems():
        if found := re.fullmatch(key.replace("N", "([0-9]+|N)"), own, re.IGNORECASE):
            number = found.group(1) if found.groups() else "N"
            return key, int(number) if number.isdigit() else 0
    return None
