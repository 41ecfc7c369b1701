"""Compares a graph imported from torch with torch's eager run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import tilesim as ts
from tilesim.graph.torch_arrays import elements_of


class Applied(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def difference(got: Any, wanted: Any) -> float:
    """Largest difference relative to the largest magnitude; infinities and NaN must agree in place."""
    a, b = np.asarray(got), elements_of(wanted)
    assert a.shape == b.shape and a.dtype == b.dtype, (a.shape, a.dtype, b.shape, b.dtype)
    if a.dtype.kind in "iub":
        return float(np.max(a != b, initial=False))
    a, b = a.astype(np.float64), b.astype(np.float64)
    assert (np.isnan(a) == np.isnan(b)).all()
    same = (a == b) | np.isnan(b)
    scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0)) or 1.0
    with np.errstate(invalid="ignore"):
        return float(np.max(np.where(same, 0, np.abs(a - b)), initial=0)) / scale


def leaves(tree: Any) -> list[Any]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def equal(module: Any, args: Any, kwargs: Any = None, bound: float = 1e-5) -> ts.Graph:
    """Imports a module and asserts that the reference kernels give what torch gives."""
    module.eval()
    graph = ts.from_torch(module, args, kwargs)
    with torch.no_grad():
        wanted = leaves(module(*args, **(kwargs or {})))
    got = list(ts.reference(graph, leaves((args, kwargs or {}))).values())
    assert len(got) >= len(wanted) > 0
    for index, (mine, theirs) in enumerate(zip(got, wanted, strict=False)):
        limit = 0.01 if theirs.dtype in (torch.bfloat16, torch.float16) else bound
        assert difference(mine, theirs) <= limit, (index, difference(mine, theirs))
    return graph
