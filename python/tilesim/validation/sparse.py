"""Compares predicted with measured cycles of sparse cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..analytic.sparse import SparseCore, density, reference_patterns
from ..base.errors import Unsupported, shown, user_error
from ..base.progress import followed
from ..base.validation import envelope, graded, integer, positive, read_cases

__all__ = ["sparse"]

_MOST = 1 << 20  # largest extent
_EYERISS = "eyeriss v2 pe"
_Row = dict[str, Any]


def sparse(cases: str | os.PathLike[str]) -> dict[str, Any]:
    """Predicts every row of a table of sparse products."""
    columns = ("source", "unit", "m", "n", "k", "a_density", "b_density", "cycles", "relative_to_dense")
    table = read_cases(cases, columns)
    rows = []
    for given in followed(table):
        kind = _kind(given)
        relative = not (given["cycles"] or "").strip()
        column = "relative_to_dense" if relative else "cycles"
        row: _Row = {**given, "status": "ok", "reason": "", f"measured_{column}": None}
        row.update({f"predicted_{column}": None, "error": None, "fitted": False})
        with graded(row):
            row[f"measured_{column}"] = measured = positive(given, column)
            predicted = _predict(kind, given, relative)
            row[f"predicted_{column}"] = predicted
            row["error"] = predicted / measured - 1
        rows.append(row)
    return envelope("sparse", {"units": "sigma, dstc, Eyeriss v2 PE"}, rows, _group)


def _kind(row: _Row) -> str:
    unit, source = (row["unit"] or "").strip().lower(), (row["source"] or "").strip().lower()
    return unit if unit in ("sigma", "dstc") else source


def _group(row: _Row) -> str:
    kind = _kind(row)
    return f"{row['source']}|{row['unit']}" if kind in ("sigma", "dstc") else str(row["source"])


def _predict(kind: str, row: _Row, relative: bool) -> float:
    predictor = _PREDICTORS.get(kind)
    if predictor is None:
        raise Unsupported(
            f"no model of the unit {shown(row['unit'])} of {shown(row['source'])}: sigma, dstc, Eyeriss v2 PE"
        )
    a_density, b_density = (density(name, row[name]) for name in ("a_density", "b_density"))
    cycles = predictor(row, a_density, b_density)
    return cycles / predictor(row, 1.0, 1.0) if relative else cycles


def _shape(row: _Row) -> tuple[int, int, int]:
    return integer(row, "m", _MOST), integer(row, "n", _MOST), integer(row, "k", _MOST)


def _sigma(row: _Row, a_density: float, b_density: float) -> float:
    missing = [name for name in ("multipliers", "read_ports", "write_ports", "stationary") if not row.get(name)]
    if missing:
        raise user_error(f"{missing[0]} is missing", value=shown(row.get(missing[0])), allowed="a value in a sigma row")
    core = SparseCore(
        integer(row, "multipliers", _MOST), integer(row, "read_ports", _MOST), integer(row, "write_ports", _MOST)
    )
    m, n, k = _shape(row)
    if k * max(m, n) > 1 << 28:
        raise Unsupported(f"patterns of {m} x {k} and {k} x {n} are too large to draw")
    return core.time(*reference_patterns(m, n, k, a_density, b_density), row["stationary"].strip()).cycles


def _dstc(row: _Row, a_density: float, b_density: float) -> float:
    return SparseCore.load("dstc").expected(*_shape(row), a_density, b_density).cycles


def _eyeriss(row: _Row, a_density: float, b_density: float) -> float:
    """Returns the cycles of an Eyeriss v2 PE, which multiplies each nonzero activation by a column of weights."""
    core = SparseCore.load("eyeriss-v2-pe")
    return core.expected(*_shape(row), a_density, b_density, stationary="b").cycles


_PREDICTORS: dict[str, Callable[[_Row, float, float], float]] = {"sigma": _sigma, "dstc": _dstc, _EYERISS: _eyeriss}
