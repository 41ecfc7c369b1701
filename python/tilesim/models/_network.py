"""What every network's function does with its arguments before it builds anything."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from ..base.arguments import dtype_name, whole
from ..base.checked import checked

F = TypeVar("F", bound=Callable[..., Any])

_SIZES = ("batch", "image", "sequence", "context", "lookups")


def network(function: F) -> F:
    """Marks the function of a network: its arguments are held to their annotations, its sizes are 1 or more, and its
    graph says with which it was built."""
    signature = inspect.signature(function)
    sizes = [name for name in _SIZES if name in signature.parameters]

    @functools.wraps(function)
    def build(*args: Any, **named: Any) -> Any:
        with contextlib.suppress(TypeError):  # of a call that the function itself refuses
            given = signature.bind(*args, **named).arguments
            for name in sizes:
                if name in given:
                    whole(f"{function.__name__}: {name}", given[name])
        graph = function(*args, **named)
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        graph.setting = _said(bound.arguments)
        return graph

    return cast(F, checked()(build))


def _said(settings: Mapping[str, Any]) -> str:
    """dtype, batch and tokens in words."""
    words = [dtype_name(settings["dtype"]), f"batch {settings['batch']:,}"]
    tokens, phase = settings.get("context", settings.get("sequence")), settings.get("phase")
    if tokens is not None:
        words.append(
            f"{tokens:,} tokens" if phase is None else f"{phase} {'at' if phase == 'decode' else 'of'} {tokens:,}"
        )
    return ", ".join(words)
