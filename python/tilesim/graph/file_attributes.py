"""Stores attributes of a graph in its file: defaults of inputs and assumptions."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..base.errors import user_error
from .graph import Graph


def saved_attributes(graph: Graph) -> dict[str, Any]:
    """Returns defaults and assumptions of a graph, and whether passes have changed it."""
    found: dict[str, Any] = {}
    if graph.defaults:
        found["defaults"] = {
            name: base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
            for name, array in graph.defaults.items()
        }
    if graph.assumptions:
        found["assumptions"] = list(graph.assumptions)
    if graph.source is not graph:
        found["recognised"] = True
    return found


def restore(graph: Graph, header: Mapping[str, Any], place: str) -> None:
    """Restores the attributes that `saved_attributes` returned."""
    from ..base.dtypes import NUMPY

    rows = {row["name"]: row for row in graph.inputs}
    for name, text in header.get("defaults", {}).items():
        try:
            row = rows[name]
            array = np.frombuffer(base64.b64decode(text), dtype=NUMPY[row["dtype"]]).reshape(row["shape"])
        except (KeyError, TypeError, ValueError) as error:
            damaged = "elements of an input are damaged"
            raise user_error(damaged, place=f"{place}: '{name}'", value=str(error)) from None
        graph.defaults[name] = array.copy()
    graph.assumptions += [str(line) for line in header.get("assumptions", [])]
    graph.source_known = not header.get("recognised", False)
