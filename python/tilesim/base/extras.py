"""Checks for optional dependencies, with the command that installs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from .errors import user_error


def need(module: str, extra: str) -> ModuleType:
    """Imports an optional dependency; a `UserError` names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise user_error(
            f"'{module}' is not installed",
            value=str(error),
            suggestion=f"Install it with: pip install 'tilesim[{extra}]'",
        ) from None
