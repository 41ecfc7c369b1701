"""Where users enter the PyTorch front end; torch is imported here at the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.checked import checked
from ...base.extras import need
from ...graph import Graph

__all__ = ["from_torch", "is_module"]


def is_module(value: Any) -> bool:
    """Whether a value is a torch.nn.Module, found out without importing torch."""
    return any(base.__module__ == "torch.nn.modules.module" for base in type(value).__mro__)


@checked()
def from_torch(
    module: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    strict: bool = False,
    functions: bool = True,
    passes: str | Sequence[str] | None = None,
    fixed: Mapping[str, Any] | Sequence[str] = (),
) -> Graph:
    """A graph of a PyTorch module, by torch.export.

    What depends on no input (masks, positions, rotary tables) is evaluated while reading. Parameters become weights in
    the module's own memory; meta and fake ones serve for timing (integer and bool buffers count as 0). A buffer that
    the module changes becomes an input whose new value is an output (an alias); its present value is the default.

    Args:
        module: a torch.nn.Module, in the mode (train or eval) that is meant; or a torch.export.ExportedProgram, which
            needs no arguments.
        args: positional arguments: tensors of the shapes and dtypes to import for.
        kwargs: keyword arguments.
        name: of the graph; the module's class by default.
        strict: let torch.export trace the Python bytecode; some static caches need it.
        functions: whether layers that repeat become one function of the graph, called once per layer.
        passes: what is recognised in operations that are spelled out, as `tilesim.optimize`; "none" for nothing.
        fixed: tensor arguments, and buffers that the module changes, that are constants of the graph: patterns of
            names, or a mapping to their values (by default those given). With the position in a static cache fixed
            its mask is known, and attention reads the filled part alone.

    Returns:
        The graph, with one input per tensor argument.

    Raises:
        UserError: when torch is missing, or the module is none.
        Unsupported: naming the ATen overload and its place in the user's code.
    """
    need("torch", "torch")
    from .frontend import from_torch as build

    return build(module, args, kwargs, name=name, strict=strict, functions=functions, passes=passes, fixed=fixed)
