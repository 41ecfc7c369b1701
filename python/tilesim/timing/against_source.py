"""Verifies a graph after passes against the imported graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import _core
from ..base.errors import user_error
from ..graph.graph import Graph

__all__ = ["source_rows"]


def source_rows(graph: Graph, given: list[Any]) -> list[dict[str, Any]]:
    """Compares outputs of a graph and of its source (before passes), both by the reference kernels."""
    source = graph.source
    if source is None:
        what = "a compiled program from a file has no imported graph"
        raise user_error(what, place="against", allowed="reference", suggestion="Import the model and compile it again")
    got = _core.evaluate(graph.core, given, {})
    wanted = got if source is graph else _core.evaluate(source.core, given, {})
    roundoff, count = 0.0, 0
    for one in (source, graph):
        flat = one.copy()
        flat.inline_calls()
        operations = flat.operations()
        count = max(count, len(operations))
        dtypes = {row["dtype"] for op in operations for row in op["results"]}
        roundoff = max([roundoff, *map(_core.unit_roundoff, dtypes)])
    share = roundoff * (8 + 4 * math.sqrt(count))
    names = [row["name"] for row in graph.core.outputs]
    return [_row(name, one, other, share) for name, one, other in zip(names, got, wanted, strict=True)]


def _row(name: str, got: Any, wanted: Any, share: float) -> dict[str, Any]:
    """Returns the row of one output at its largest error relative to the bound."""
    whole = np.issubdtype(wanted.dtype, np.integer) or wanted.dtype == np.bool_
    wide = np.complex128 if np.iscomplexobj(wanted) else np.int64 if whole and wanted.dtype != np.uint64 else np.float64
    with np.errstate(invalid="ignore"):  # widening a signalling NaN raises this flag
        a, b = np.asarray(got).astype(wide).ravel(), np.asarray(wanted).astype(wide).ravel()
    finite = np.isfinite(a) & np.isfinite(b)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    scale = float(np.abs(b[finite]).max(initial=0))
    neighbour = 1.0 if share > 0 and wanted.dtype != np.bool_ and wanted.dtype.itemsize == 1 else 0.0
    bound = neighbour if whole else share * scale
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.where(finite, np.abs(a - b).astype(np.float64), math.inf))
    ratio = np.divide(error, bound, out=np.where(error > 0, math.inf, 0.0), where=(error > 0) & (bound > 0))
    worst = int(ratio.argmax()) if ratio.size else 0
    largest = float(error.max(initial=0))
    return {
        "operation": "source",
        "tensor": name,
        "elements": int(a.size),
        "error": float(error[worst]) if a.size else 0.0,
        "bound": bound,
        "ratio": float(ratio[worst]) if a.size else 0.0,
        "largest": largest,
        "scale": scale,
        "worst": worst,
        "ok": bool((ratio <= 1).all()),
        "exact": True,
        "integer_error": 0.0,
        "integer_ratio": 0.0,
        "rounds": "",
    }
