"""Explains the time of an operation: its lower bound, the terms above it, and alternatives."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from .. import _core
from ..base.checked import checked, checked_class
from ..base.files import check_writable, writing
from ..base.table import Table
from ..graph import Graph
from ..results.advice import change_text
from ..results.names import Names
from ..results.result import Result
from ..timing.rerun import Rerun
from .alternatives import LARGEST, offers, simulated, tuned
from .ground import RECORDED, Ground
from .origins import NamedKernels, chosen
from .page.why import page, picture
from .terms import terms_of
from .why_text import lines_of

__all__ = ["Why", "why"]

SCHEMA, VERSION = "tilesim.why", 1


@checked_class()
class Why:
    """An explanation of operations' time, as `Result.why` returns.

    `terms` has a row per term of the time, with shares that add up to 1; `alternatives` are simulated on first use.
    """

    def __init__(self, result: Result, name: str, *, intervals: bool = True) -> None:
        """Finds the kernels and attributes their time."""
        self.result, self.name = result, name
        ground = Ground(result)
        found = _chosen(result, name, ground.again)
        self._again, self._operands, self._rates = ground.again, ground.operands, ground.rates
        self._facts = ground.facts(found.rows)
        spans, reason = ground.spans(intervals)
        self.attribution = ground.attribution(spans is not None, reason)
        rows, self.bound = terms_of(self._facts, self._rates, result.data, spans)
        self.terms = Table(rows)
        self.note = found.note

    @property
    def cycles(self) -> int:
        """Attributed cycles of all runs; over all operations they add up to the total."""
        return self._facts.cycles

    @property
    def seconds(self) -> float:
        """`cycles` in seconds."""
        return self.cycles / self._rates.hertz

    @property
    def bound_cycles(self) -> float:
        """Lower bound in cycles if each value moves once and all parts run at their peaks."""
        return max(self._facts.bounds(self._rates).values())

    @property
    def bound_seconds(self) -> float:
        """`bound_cycles` in seconds."""
        return self.bound_cycles / self._rates.hertz

    @property
    def hidden_cycles(self) -> int:
        """Cycles of the runs that are attributed to overlapping operations."""
        return max(0, self._facts.spanned - self._facts.cycles)

    @property
    def kernels(self) -> list[str]:
        """Names of the explained kernels."""
        return list(self._facts.names)

    @cached_property
    def parts(self) -> Table:
        """The explained kernels in program order.

        Rows with kernel (unique name for `Result.why`), cycles (which add up to `cycles`), share and runs.
        """
        names, total = Names(self.result.data), max(1, self.cycles)
        own = {id(row): name for name, row in zip(names.unique, names.rows, strict=True)}
        return Table(
            [
                {
                    "kernel": own[id(row)],
                    "cycles": int(row["exclusive"]),
                    "share": row["exclusive"] / total,
                    "runs": int(row["count"]),
                }
                for row in self._facts.rows
            ]
        )

    @cached_property
    def tiles(self) -> list[dict[str, Any]]:
        """Tiling of the kernels: kernel, loops with trip counts, buffers; empty for a stored result."""
        return self._operands.tiles(self.kernels) if self._operands is not None else []

    @property
    def roofline(self) -> dict[str, Any]:
        """Roofline point: intensity (FLOP per byte moved), attained FLOP/s and bytes/s, and the machine's ceilings.

        Attained rates refer to the duration of its runs. A multiply-add is 2 FLOP; operations without one count vector
        operations against the vector units' peak.
        """
        return self._facts.point(self._rates)

    @property
    def can_be_changed(self) -> bool:
        """Whether alternatives can be simulated; false for a stored result or a program without its graph."""
        return self._again is not None and self._again.compiled

    def try_alternatives(self) -> Iterator[dict[str, Any]]:
        """Simulates the alternatives one by one.

        Yields:
            A row of `alternatives` after each simulation.
        """
        if self._again is None:
            return
        operations = {one for row in self._facts.rows for one in row["operation"]}
        longest = max(self._facts.rows, key=lambda row: row["exclusive"])["name"]
        told: list[dict[str, Any]] = []
        for change in self._offers(longest):
            row: dict[str, Any] = {"change": change, "what": change_text(change)}
            other = simulated(self._again, change)
            if other is None:
                continue
            own = sum(one["exclusive"] for one in other.data["operations"] if operations & set(one["operation"]))
            gains = [_gain(self.result.cycles, other.cycles), _gain(self.cycles, own)]
            told.append({**row, "cycles": other.cycles, "own_cycles": own, "gain": gains[0], "own_gain": gains[1]})
            yield told[-1]
        self.__dict__["alternatives"] = _ranked(told)

    def _offers(self, longest: str) -> Iterator[dict[str, Any]]:
        assert self._again is not None
        yield from offers(self._again, longest)
        if self.result.data["tile_operations"] <= LARGEST and (found := tuned(self._again, self.kernels[:4])):
            yield found

    @cached_property
    def alternatives(self) -> Table:
        """Simulated other mappings, lowerings, layouts and fusion, fastest program first.

        Rows with change (options of `compile`), what, cycles (of the program), own_cycles (of all kernels with one of
        these operations), gain and own_gain (time before divided by time after). Empty for a stored result.
        """
        return _ranked(self.try_alternatives())

    def table(self) -> Table:
        """Tabulates the terms.

        Returns:
            Rows with term, cycles, share and meaning; the shares add up to 1.
        """
        return Table([{key: row[key] for key in ("term", "cycles", "share", "meaning")} for row in self.terms.rows])

    @property
    def data(self) -> dict[str, Any]:
        """The JSON form, schema "tilesim.why"."""
        return {**self.answer, "alternatives": self.alternatives.rows}

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON form without alternatives; simulates nothing."""
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "operation": self.name,
            "note": self.note,
            "kernels": self.kernels,
            "parts": self.parts.rows,
            "program": self.result.data["program"],
            "machine": self.result.data["machine"],
            "lowering": self.result.lowering,
            "cycles": self.cycles,
            "seconds": self.seconds,
            "share": self.cycles / max(1, self.result.cycles),
            "runs": self._facts.runs,
            "bound": self.bound,
            "bound_cycles": self.bound_cycles,
            "bound_seconds": self.bound_seconds,
            "hidden_cycles": self.hidden_cycles,
            "terms": self.terms.rows,
            "attribution": self.attribution,
            "tiles": self.tiles,
            "roofline": self.roofline,
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON form.

        Args:
            path: file to write.

        Raises:
            UserError: when the file cannot be written.
        """
        with writing(path) as file:
            json.dump(self.data, file, indent=1)

    def to_html(self, path: str | os.PathLike[str], alternatives: bool = True) -> None:
        """Writes a self-contained HTML page.

        Args:
            path: file to write.
            alternatives: whether to simulate alternatives too, which takes some seconds.

        Raises:
            UserError: for a file that cannot be written.
        """
        check_writable(path)
        text = page(self.data if alternatives or "alternatives" in vars(self) else self.answer)
        with writing(path) as file:
            file.write(text)

    def __str__(self) -> str:
        """The explanation as text of 80 columns, with alternatives if they take seconds or were simulated."""
        return "\n".join(lines_of(self._available))

    def __repr__(self) -> str:
        """Operation, cycles and lower bound."""
        return f"<Why {self.name}: {self.cycles:,} cycles, at least {self.bound_cycles:,.0f}>"

    def _repr_html_(self) -> str:
        return picture(self._available)

    @property
    def _available(self) -> dict[str, Any]:
        known = "alternatives" in vars(self) or self.result.data["tile_operations"] <= RECORDED
        return self.data if known else self.answer


def _ranked(rows: Iterable[dict[str, Any]]) -> Table:
    return Table(sorted(rows, key=lambda row: int(row["cycles"])))


def _chosen(result: Result, name: str, again: Rerun | None) -> NamedKernels:
    """Finds the kernels of a name; an operation in a loop or branch gives the kernels of the loop."""
    try:
        return chosen(result.data, name)
    except _core.UserError:
        graph = again.program.workload if again is not None else None
        if graph is None:
            raise
        inner = {name.strip()}
        for function in reversed(graph.functions):  # in the graph, bodies precede their callers
            for row in graph.operations(function):
                if row["kind"] != "call" and any(_within(graph, body, inner) for body in row["functions"]):
                    found = chosen(result.data, row["name"])
                    return NamedKernels(
                        found.rows, f"it is part of the loop or branch '{row['name']}', which the answer covers"
                    )
        raise


def _within(graph: Graph, function: str, names: set[str]) -> bool:
    """Whether a function or one that it calls has an operation with one of these names."""
    return any(
        row["name"] in names or any(_within(graph, body, names) for body in row["functions"])
        for row in graph.operations(function)
    )


def _gain(before: int, after: int) -> float:
    return 1.0 if before == after else before / max(1, after)


@checked()
def why(result: Result, name: str, *, intervals: bool = True) -> Why:
    """Explains the time of an operation."""
    return Why(result, name, intervals=intervals)
