"""Comparison of estimates of whole networks with measured ones: a GPU, eager torch or torch.compile."""

from __future__ import annotations

from typing import Any

from ..models._published import TextSizes, spelled_out
from ..graph import Graph

def graph_of(row: dict[str, Any]) -> Graph:
    sizes = TextSizes(row["family"], *(int(row[k]) for k in ("layers", "width", "heads", "ffn", "vocabulary", "positions")))
    return spelled_out(sizes, int(row["batch"]), int(row["sequence"]))
