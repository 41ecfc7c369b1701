"""Predictors by name."""

from __future__ import annotations

from typing import Any

from ...base.errors import nearest, shown, user_error
from .measured import Measured
from .predicting import Closed, Engine

__all__ = ["predictor_of"]

_ALLOWED = ("closed", "table:FILE.csv", "table:FILE.csv:interpolate", "engine")


def predictor_of(source: Any) -> Any:
    """A predictor by name.

    Args:
        source: "closed", "table:FILE.csv" (measured rows; ":interpolate" behind it: between rows too), "engine", or an
            object with a name and `seconds(segment, device)`.

    Returns:
        The predictor.

    Raises:
        UserError: for an unknown name, a file that cannot be read.
    """
    if not isinstance(source, str):
        if callable(getattr(source, "seconds", None)):
            return source
        raise user_error("this is no predictor", place="predictor", value=shown(source), allowed=", ".join(_ALLOWED))
    if source == "closed":
        return Closed()
    if source == "engine":
        return Engine()
    if source.startswith("table:"):
        path, colon, word = source[len("table:") :].rpartition(":")
        if colon and word == "interpolate":
            return Measured(path, True)
        return Measured(source[len("table:") :])
    raise user_error(
        "unknown predictor", place="predictor", value=f"'{source}'", allowed=", ".join(_ALLOWED),
        suggestion=nearest(source.partition(":")[0], ["closed", "table", "engine"]),
    )  # fmt: skip
