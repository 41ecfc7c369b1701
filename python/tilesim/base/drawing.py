"""Helpers for plots; imports matplotlib at the first plot."""

from __future__ import annotations

from typing import Any

from .errors import shown, user_error

__all__ = ["axes_or_new", "no_math"]

_REMEDY = "pip install 'tilesim[notebook]'"


def axes_or_new(axes: Any, height: float = 4.8) -> Any:
    """Returns the given axes, or new axes."""
    if axes is not None:
        if not callable(getattr(axes, "imshow", None)):
            raise user_error("not matplotlib axes", place="axes", value=shown(axes), allowed="axes of matplotlib, None")
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise user_error("matplotlib is not installed", suggestion=_REMEDY) from None
    return pyplot.subplots(figsize=(7.5, height))[1]


def no_math(text: object) -> str:
    """Escapes "$", which would start mathematics in matplotlib."""
    return str(text).replace("$", r"\$")
