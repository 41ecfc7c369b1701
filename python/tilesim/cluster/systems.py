"""Systems of measured steps by name."""

from __future__ import annotations

import re

from .fabric import systems

__all__ = ["system_of"]


def system_of(name: str) -> str | None:
    """The entry of `configs/systems.json` that a name is of.

    Args:
        name: an entry's, with a number in place of N or with N itself, with devices behind a colon or without.

    Returns:
        The entry's name; none: it is of no system.
    """
    own = name.partition(":")[0]
    return next((key for key in systems() if re.fullmatch(key.replace("N", "([0-9]+|N)"), own, re.IGNORECASE)), None)
