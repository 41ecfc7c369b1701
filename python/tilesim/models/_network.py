"""What every network's function does with its arguments before it builds anything."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ..base.arguments import whole
from ..base.checked import checked

F = TypeVar("F", bound=Callable[..., Any])

_SIZES = ("batch", "image", "sequence", "context", "lookups")


def network(function: F) -> F:
    """Marks the function of a network: its arguments are held to their annotations, and its sizes are 1 or more."""
    signature = inspect.signature(function)
    sizes = [name for name in _SIZES if name in signature.parameters]

    @functools.wraps(function)
    def build(*args: Any, **named: Any) -> Any:
        with contextlib.suppress(TypeError):  # of a call that the function itself refuses
            given = signature.bind(*args, **named).arguments
            for name in sizes:
                if name in given:
                    whole(f"{function.__name__}: {name}", given[name])
        return function(*args, **named)

    return cast(F, checked()(build))
