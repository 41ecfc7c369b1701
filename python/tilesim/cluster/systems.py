"""Systems of measured steps by name."""

from __future__ import annotations

import re
from functools import cache

from ..base.files import read_json
from ..base.paths import configs_dir

__all__ = ["system_of"]


@cache
def _names() -> tuple[str, ...]:
    return tuple(read_json(configs_dir() / "systems.json")["systems"])


def system_of(name: str) -> str | None:
    """The entry of `configs/systems.json` that a name is of.

    Args:
        name: an entry's, with a number in place of N or with N itself, with devices behind a colon or without.

    Returns:
        The entry's name; none: it is of no system.
    """
    own = name.partition(":")[0]
    return next((key for key in _names() if re.fullmatch(key.replace("N", "([0-9]+|N)"), own, re.IGNORECASE)), None)
