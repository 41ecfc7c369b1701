"""The table of ATen overloads: name of the overload to the function that builds its meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Handler = Callable[..., Any]

TABLE: dict[str, Handler] = {}


def handles(*overloads: str) -> Callable[[Handler], Handler]:
    """Enters a function for overloads, as "aten.add.Tensor".

    It is called as f(importer, *arguments, **keywords) with the arguments of the overload, tensors being values of the
    importer, and returns a value or a tuple of them.
    """

    def enter(function: Handler) -> Handler:
        for overload in overloads:
            if overload in TABLE:
                raise ValueError(f"{overload} is in the table twice")
            TABLE[overload] = function
        return function

    return enter
