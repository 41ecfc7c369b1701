"""The result of `tune`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base.checked import checked_class
from ..base.drawing import no_math
from ..base.errors import user_error
from ..base.table import Tabled
from ..graph import Graph
from ..machine.machine import Machine
from ..mapping import MappingTable
from ..results.result import Result, Table


@checked_class()
class Study(Tabled):
    """The result of tuning: `best` (a mapping table for `compile`), `result`, and every candidate in `rows`.

    After Ctrl-C, the first use of `best`, `result`, `baseline` or `gain` simulates the complete graph.
    """

    def __init__(self, graph: Graph, machine: Machine, fidelity: str) -> None:
        """Creates an empty study; use `tune`."""
        self.graph, self.machine, self.fidelity = graph, machine, fidelity
        self._best = MappingTable(source="study")
        self._result: Result | None = None
        self._baseline: Result | None = None
        self._rest: Callable[[], None] | None = None
        self.rows: list[dict[str, Any]] = []
        self.operations: list[dict[str, Any]] = []
        self.interrupted = False
        self.notes: list[str] = []

    def leave(self, rest: Callable[[], None]) -> None:
        """Defers the end of an interrupted tuning to first use.

        Args:
            rest: function that simulates the complete graph.
        """
        self.interrupted, self._rest = True, rest

    def _finish(self) -> None:
        if self._rest is None:
            return
        rest, self._rest = self._rest, None
        entries, notes = dict(self._best.entries), list(self.notes)
        try:
            rest()
        except BaseException:  # restores the state after an interruption
            self._best.entries, self.notes, self._rest = entries, notes, rest
            raise

    @property
    def best(self) -> MappingTable:
        """The fastest mappings, by operation."""
        self._finish()
        return self._best

    @property
    def result(self) -> Result | None:
        """The result of the complete graph with the best mappings."""
        self._finish()
        return self._result

    @result.setter
    def result(self, value: Result) -> None:
        self._result = value

    @property
    def baseline(self) -> Result | None:
        """The result of the complete graph with the default mappings."""
        self._finish()
        return self._baseline

    @baseline.setter
    def baseline(self, value: Result) -> None:
        self._baseline = value

    @property
    def gain(self) -> float:
        """Ratio of the default mapping's cycles to the best mapping's cycles; 1.0 until both are known."""
        if self.result is None or self.baseline is None:
            return 1.0
        return self.baseline.cycles / max(1, self.result.cycles)

    def table(self) -> Table:
        """Tabulates the candidates: operation, rank by the cost model, modelled and simulated cycles, mapping.

        Returns:
            The rows; `cycles` is None for a candidate pruned by its bound.
        """
        return Table(self.rows)

    def summary(self) -> Table:
        """Tabulates the distinct operations: count, cycles of the default and of the best mapping.

        Returns:
            The rows; `gap` is the best mapping's distance from the model's lower bound, as a ratio.
        """
        return Table(self.operations)

    def history(self) -> Table:
        """Tabulates how each operation's best mapping improves with the candidates.

        Returns:
            One row per simulated candidate in order: operation, candidate number, cycles, least cycles so far.
        """
        rows: list[dict[str, Any]] = []
        best: dict[str, int] = {}
        for row in self.rows:
            if row["cycles"] is None:
                continue
            name = row["operation"]
            best[name] = min(best.get(name, row["cycles"]), row["cycles"])
            rows.append({"operation": name, "candidate": row["rank"], "cycles": row["cycles"], "best": best[name]})
        return Table(rows)

    def _repr_html_(self) -> str:
        from .pictures import picture

        return picture(self)

    def plot(self, what: str = "model") -> Any:
        """Draws the candidates.

        Args:
            what: "model" (modelled against simulated cycles) or "history" (least cycles so far, over candidates, as a
                ratio to the default mapping's).

        Returns:
            A matplotlib figure.

        Raises:
            UserError: for an unknown plot, or without matplotlib (`pip install 'tilesim[notebook]'`).
        """
        if what not in ("model", "history"):
            raise user_error("unknown plot of a study", value=f"'{what}'", allowed="model, history")
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise user_error(
                "matplotlib is not installed", suggestion="Install it: pip install 'tilesim[notebook]'"
            ) from None
        if what == "history":
            return self._plot_history(plt)
        figure, axes = plt.subplots(figsize=(5, 4))
        for operation in dict.fromkeys(row["operation"] for row in self.rows):
            rows = [row for row in self.rows if row["operation"] == operation and row["cycles"] is not None]
            modelled = [row["modelled"] for row in rows]
            axes.loglog([row["cycles"] for row in rows], modelled, "o", label=no_math(operation), ms=4)
        axes.set_xlabel("simulated cycles")
        axes.set_ylabel("modelled cycles")
        if len(self.operations) <= 8:
            axes.legend(fontsize=7)
        figure.tight_layout()
        return figure

    def _plot_history(self, plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(5, 4))
        rows = self.history().rows
        for name in dict.fromkeys(row["operation"] for row in rows):
            own = [row for row in rows if row["operation"] == name]
            first = max(1, own[0]["cycles"])
            best = [row["best"] / first for row in own]
            axes.step([row["candidate"] for row in own], best, where="post", label=no_math(name))
        axes.set_xlabel("candidate")
        axes.set_ylabel("least cycles so far / default mapping")
        if len(self.operations) <= 8:
            axes.legend(fontsize=7)
        figure.tight_layout()
        return figure

    def __repr__(self) -> str:
        """The gain and the counts."""
        simulated = sum(row["cycles"] is not None for row in self.rows)
        state = ", interrupted" if self.interrupted else ""
        of = f"{simulated:,}" if self.interrupted else f"{simulated} of {len(self.rows)}"  # more were planned
        known = self._rest is None
        gain = f"{self.gain:.3f} times as fast as the default" if known else "whole graph not yet simulated"
        return (
            f"<Study {self.graph.core.name} on {self.machine.name}: {gain}, "
            f"{of} candidates simulated ({self.fidelity} memory){state}>"
        )
