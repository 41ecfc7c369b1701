"""Measured times of segments and operations from a CSV file."""

from __future__ import annotations

import json
import math
import os
from typing import Any

from ...base.errors import nearest, user_error
from ...base.validation import positive, read_cases
from ...graph.devices import bytes_of
from ...graph.graph import Graph
from .flat import FREE
from .predicting import Predicted
from .splitting import content_key

__all__ = ["MeasuredTimes", "signature"]

Row = dict[str, Any]


def signature(entry: Row) -> str:
    """Returns an operation's name in a table, such as "contract bf16[8,4] bf16[4,2] -> bf16[8,2]"."""

    def text(values: list[Row | None]) -> str:
        return " ".join(f"{one['dtype']}[{','.join(map(str, one['shape']))}]" for one in values if one and one["name"])

    kind = entry["attributes"].get("function", entry["kind"]) if entry["kind"] == "elementwise" else entry["kind"]
    return f"{kind} {text(entry['operands'])} -> {text(entry['results'])}"


class MeasuredTimes:
    """A table with columns `what` (a signature, or "segment KEY"), `seconds`, and optionally `device`, `attributes`.

    A segment's row has priority; without it, the rows of its operations are summed, and views and constants are free.
    """

    def __init__(self, path: str | os.PathLike[str], interpolate: bool = False) -> None:
        """Reads a table."""
        self.path, self.interpolate = os.fspath(path), interpolate
        self.name = f"table:{self.path}" + (":interpolate" if interpolate else "")
        self.rows: dict[str, list[tuple[str, str, float]]] = {}
        for number, row in enumerate(read_cases(self.path, ("what", "seconds")), 2):
            seconds = positive(row, "seconds")
            wanted = str(row.get("attributes") or "").strip()
            try:
                wanted = json.dumps(json.loads(wanted), sort_keys=True) if wanted else ""
            except ValueError:
                raise user_error("no JSON", place=f"{self.path}:{number}, attributes", value=wanted[:80]) from None
            device = str(row.get("device") or "").strip()
            self.rows.setdefault(str(row["what"]).strip(), []).append((device, wanted, seconds))

    def find(self, what: str, device: str, attributes: Row | None = None) -> float | None:
        """Returns the seconds of the first matching row, or None."""
        for named, wanted, seconds in self.rows.get(what, []):
            asked = json.loads(wanted) if wanted else {}
            if named in ("", device) and all((attributes or {}).get(key) == value for key, value in asked.items()):
                return seconds
        return None

    def seconds(self, segment: Graph, device: Any) -> Predicted:
        """Returns the measured time of a segment."""
        name = str(getattr(device, "name", device))
        key = f"segment {content_key(segment)}"
        whole = self.find(key, name)
        if whole is not None:
            return Predicted(whole, {"measured": whole}, f"{self.path}: {key}", 1)
        total, count, between = 0.0, 0, []
        for entry in segment.core.operations():
            if entry["kind"] in FREE:
                continue
            what = signature(entry)
            found = self.find(what, name, entry["attributes"])
            if found is None and self.interpolate:
                found = self._between(entry, what, name)
                between.append(what)
            if found is None:
                raise user_error(
                    "missing row for an operation", place=f"{self.path}, operation '{entry['name']}'",
                    value=what, allowed=f"a row '{what}', or a row '{key}' for all of {len(segment.core.operations())} "
                    "operations", suggestion=nearest(what, list(self.rows)),
                )  # fmt: skip
            total, count = total + found, count + 1
        notes = tuple(f"interpolated in {self.path}: {what}" for what in dict.fromkeys(between))
        return Predicted(total, {"measured": total}, f"{self.path}: {count} operations", count, 0.0, notes)

    def _between(self, entry: Row, what: str, device: str) -> float | None:
        """Interpolates linearly between the nearest smaller and larger row; None outside the table."""
        size = sum(bytes_of(one) for one in [*entry["operands"], *entry["results"]] if one and one["name"])
        points = []
        for other in self.rows:
            if _form(other) == _form(what) and (seconds := self.find(other, device)) is not None:
                points.append((_bytes(other), seconds))
        below, above = [p for p in points if p[0] <= size], [p for p in points if p[0] >= size]
        if not below or not above or size <= 0:
            return None
        (x0, y0), (x1, y1) = max(below), min(above)
        if x0 == x1:
            return y0
        share = math.log(size / x0) / math.log(x1 / x0)
        return math.exp(math.log(y0) + share * math.log(y1 / y0))


def _form(what: str) -> tuple[str, ...]:
    """Returns kind, dtypes and ranks of a signature."""
    return tuple(f"{word.partition('[')[0]}{word.count(',')}" for word in what.split())


def _bytes(what: str) -> int:
    total = 0
    for word in what.split():
        dtype, bracket, rest = word.partition("[")
        if bracket:
            shape = [int(one) for one in rest.rstrip("]").split(",") if one]
            total += bytes_of({"dtype": dtype, "shape": shape})
    return total
