"""The table of ATen overloads, with the function that builds each overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Handler = Callable[..., Any]

TABLE: dict[str, Handler] = {}


def handles(*overloads: str) -> Callable[[Handler], Handler]:
    """Registers a function for overloads such as "aten.add.Tensor".

    The importer calls f(importer, *arguments, **keywords) with the overload's arguments, whose tensors are values of
    the importer. The function returns a value or a tuple of values.
    """

    def enter(function: Handler) -> Handler:
        for overload in overloads:
            if overload in TABLE:
                raise ValueError(f"{overload} is in the table twice")
            TABLE[overload] = function
        return function

    return enter
