"""matplotlib, imported when something is drawn."""

from __future__ import annotations

from typing import Any

from .errors import shown, user_error

__all__ = ["axes_or_new", "plain"]

_REMEDY = "pip install 'tilesim[notebook]'"


def axes_or_new(axes: Any, height: float = 4.8) -> Any:
    """Axes to draw on."""
    if axes is not None:
        if not callable(getattr(axes, "imshow", None)):
            raise user_error("these are no axes", place="axes", value=shown(axes), allowed="axes of matplotlib, None")
        return axes
    try:
        from matplotlib import pyplot
    except ImportError:
        raise user_error("matplotlib is needed to draw", suggestion=_REMEDY) from None
    return pyplot.subplots(figsize=(7.5, height))[1]


def plain(text: object) -> str:
    """A text that a picture shows as it is: matplotlib sets what stands between two "$" as mathematics."""
    return str(text).replace("$", r"\$")
