"""Checks and documents the functions of all networks."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from ..base.arguments import dtype_name, integer
from ..base.checked import checked

F = TypeVar("F", bound=Callable[..., Any])

_SIZES = ("batch", "image", "sequence", "context", "lookups")
_ARGUMENTS = {
    "config": "sizes of the network.",
    "batch": "number of images, sequences or samples.",
    "image": "height and width in elements.",
    "sequence": "tokens per sequence.",
    "context": "tokens: read at once in prefill, attended to by the last one in decode.",
    "phase": '"prefill" or "decode".',
    "lookups": "rows of each table per sample.",
    "dtype": "of weights, activations and cache.",
}


def network(function: F) -> F:
    """Marks the function of a network: checks its arguments, notes them in the graph, and documents the usual ones."""
    signature = inspect.signature(function)
    function.__doc__ = _documented(inspect.getdoc(function) or "", signature)
    sizes = [name for name in _SIZES if name in signature.parameters]

    @functools.wraps(function)
    def build(*args: Any, **named: Any) -> Any:
        with contextlib.suppress(TypeError):  # the function itself raises the error for such a call
            given = signature.bind(*args, **named).arguments
            for name in sizes:
                if name in given:
                    integer(f"{function.__name__}: {name}", given[name])
        graph = function(*args, **named)
        bound = signature.bind(*args, **named)
        bound.apply_defaults()
        graph.setting = _settings_text(bound.arguments)
        return graph

    return cast(F, checked()(build))


def _documented(text: str, signature: inspect.Signature) -> str:
    """Adds to a docstring the sections that it leaves to this module."""
    lines = [f"    {name}: {_ARGUMENTS[name]}" for name in signature.parameters if name in _ARGUMENTS]
    raised = "    UserError: for a size out of range, an unknown phase or an unknown dtype."
    for title, body in {"Args:": lines, "Returns:": ["    The graph."], "Raises:": [raised]}.items():
        if title not in text:
            text += "\n".join(["\n", title, *body])
    return text


def _settings_text(settings: Mapping[str, Any]) -> str:
    """Describes dtype, batch and tokens in words."""
    words = [dtype_name(settings["dtype"]), f"batch {settings['batch']:,}"]
    tokens, phase = settings.get("context", settings.get("sequence")), settings.get("phase")
    if tokens is not None:
        words.append(
            f"{tokens:,} tokens" if phase is None else f"{phase} {'at' if phase == 'decode' else 'of'} {tokens:,}"
        )
    return ", ".join(words)
