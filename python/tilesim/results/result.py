"""The result of a simulation or an estimate."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from .. import _core
from ..base.checked import checked_class, is_number
from ..base.errors import path_text, user_error
from ..base.figures import percent, size
from ..base.files import check_writable, loads, read_json, read_text, writing
from ..base.paths import configs_dir
from ..base.progress import followed
from ..base.table import Table
from .advice import Advice, Advices, StoredAdvice, changes_to_try
from .measured import MeasuredResult
from .result_calls import ASKED

__all__ = ["Advice", "Result", "Table"]

_COMPILED = {"serving": "framework serving (captured graphs, fused kernels)"}
_KERNELS_ADVISED = 1000  # a page of a result with more kernels does not simulate advice by default


@checked_class()
class Result(MeasuredResult):
    """Cycles, bytes, utilisation, energy and bounds of each operation, from a simulation or an estimate."""

    def __init__(self, data: dict[str, Any], again: Callable[[dict[str, Any]], Result] | None = None) -> None:
        """Stores the JSON form; `simulate` and `estimate` call this."""
        self.data = data
        self._again = again
        self._held: dict[str, Any] = {}  # page data from a file
        self._advised: list[Advice] = []

    def __getstate__(self) -> dict[str, Any]:
        """Pickles the figures without the workload, so `explain` of the copy raises an error."""
        return {**self.__dict__, "_again": None}

    def advice(self) -> Iterator[Advice]:
        """Simulates changes with the options and data of this result, and yields each one when it ends.

        The order is: other lowerings and mappings of the graph on the same machine (those that gain 1.01 or more), then
        changes to the machine with any gain, then tuned mappings of the longest kernels. A program compiled for this
        machine is compiled again for the changed one in the same way; other programs stay unchanged.

        Yields:
            Each change with its gain.

        Raises:
            UserError: for a result read from a file or a pickle.
        """
        if self._again is None:
            what = "a result from a file or a pickle lacks its program, which advice simulates again"
            raise user_error(what, suggestion="Simulate the program first: ts.simulate or ts.run")
        otherwise, tuned = ASKED["advice"](self)
        yield from otherwise
        for change in followed(changes_to_try(self.data["configuration"], self.host_share > 0)):
            yield Advice(change, self._again(change).cycles, self.cycles)
        yield from tuned

    def explain(self) -> list[Advice]:
        """All changes of `advice`, fastest first.

        Returns:
            The changes with their gains; printing shows those that gain 1.01 or more (`worth_telling`).

        Raises:
            UserError: for a result read from a file or a pickle.
        """
        self._advised = Advices(sorted(self.advice(), key=lambda item: item.cycles))
        return self._advised

    def why(self, name: str, *, intervals: bool = True) -> Any:
        """Explains the time of an operation: lower bound, delays above the bound, tiles, alternatives.

        Args:
            name: a kernel (a row of any table), a graph operation (several kernels, or part of one), one of its kernels
                by "[number]", a pattern with "*" for layer numbers, or a common prefix.
            intervals: whether to simulate again if the result has no timeline, which the causes of waits need.

        Returns:
            A `Why` with `terms`, `alternatives`, `tiles`, `roofline`, `table()`; it prints as text.

        Raises:
            UserError: for an unknown name.
        """
        return ASKED["why"](self, name, intervals=intervals)

    @staticmethod
    def schema() -> dict[str, Any]:
        """The JSON schema (draft 2020-12) of the JSON form.

        Returns:
            The schema as a dict; the file is `configs/schemas/result.json`.
        """
        return dict(read_json(configs_dir() / "schemas" / "result.json"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON form, with data for its page under "page": memory plan, graph, advice.

        Args:
            path: file to write.

        Raises:
            UserError: when the file cannot be written.
        """
        from .page.stored_data import stored_page_data

        check_writable(path)
        more = stored_page_data(self)
        with writing(path) as file:
            json.dump({**self.data, "page": more} if more else self.data, file, indent=1)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Result:
        """Reads a saved result.

        Args:
            path: file written by `save`.

        Returns:
            The result without graph and program, so `explain` raises an error; for a saved estimate, an `Estimate`.

        Raises:
            UserError: for a file that violates the schema or whose sums disagree, with line and path.
        """
        name = path_text(path)
        if name.endswith(".tsim") and os.path.isfile(name):
            raise _no_result(name)
        text = read_text(path)
        if any(f'"tilesim.{kind}"' in text[:200] for kind in ("program", "graph", "machine", "cluster_result")):
            raise _no_result(name)
        _core.Result.check(text, path_text(path), json.dumps(Result.schema()))
        data = loads(text)
        stored = data.pop("page", {})
        for row in data["operations"]:
            if isinstance(row["operation"], str):  # version 1 stores a text
                row["operation"] = [name for name in row["operation"].split("+") if name]
        costs = stored.pop("estimate", {"costs": [], "kernels": []})
        found: Result = ASKED["estimated"](data, **costs) if data["source"] == "closed form" else Result(data)
        if stored:
            from .page.stored_data import checked_held

            found._held = checked_held(stored, len(data["operations"]), path_text(path))
            advice = found._held.get("advice", ())
            found._advised = Advices(
                StoredAdvice(row["change"], row["cycles"], row["before"], row["kind"]) for row in advice
            )
        return found

    def _more(self) -> dict[str, Any]:
        """Returns figures that `save` stores in addition to the JSON form."""
        return {}

    def timing_hash(self) -> str:
        """A hash of all figures of timing.

        Returns:
            16 hex digits, equal on every machine and build.
        """
        timed = {key: value for key, value in self.data.items() if key != "accuracy"}  # the core does not know accuracy
        return _core.Result.from_json(json.dumps(timed)).timing_hash()

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for Perfetto (open it at ui.perfetto.dev).

        Args:
            path: file to write: Perfetto's format (.pftrace, .perfetto-trace, .perfetto, .trace, .pb, no extension), or
                JSON trace events (.json).

        Raises:
            UserError: without a recorded timeline (`simulate(..., timeline=True)`), or for another extension.
        """
        from .perfetto import write_trace

        write_trace(self.data, path)

    def summary(self) -> str:
        """The headline.

        Returns:
            Cycles, time, bottleneck and bytes in one line; with a host, its share of the time. Estimates have
            "estimated" before the cycles.
        """
        host = f", {percent(self.host_share)} of the time on the host and its link" if self.host_share > 0 else ""
        setting = f", {self.data['setting']}," if self.data.get("setting") else ""
        where = f"{self.data['program']}{setting} on {self.data['machine']}"
        configured = self.data.get("configuration", {})
        if isinstance(compiler := configured.get("compiler"), str):
            where += f", {_COMPILED.get(compiler, f'compiler {compiler}')}"
        held, room = (configured.get(name) for name in ("held_bytes", "memory_bytes"))
        fits = not (is_number(held) and is_number(room) and held > room > 0)
        beyond = "" if fits else f"; does not fit: {size(held)} of {size(room)}"
        return (
            f"{where}: {'estimated ' if self.estimated else ''}{self.cycles:,} cycles, {self.milliseconds:.4g} ms, "
            f"bound by {self.bottleneck} ({percent(self.data['bottleneck_share'])} busy), "
            f"{size(self.memory_bytes)} moved{host}{beyond}"
            + (f", {size(self.remote_bytes)} between regions" if self.local_bytes else "")
            + (f"; error {self.accuracy!r}" if self.accuracy else "")
        )

    def __repr__(self) -> str:
        """Describes the result in one line."""
        return f"<{type(self).__name__} {self.summary()}>"

    def _repr_html_(self) -> str:
        from .page import picture

        return picture(self)

    def to_pandas(self) -> Any:
        """All operations as a pandas DataFrame, longest first.

        Returns:
            The rows of `table()` with seconds, loaded and stored bytes, FLOPs, intensity (FLOP per byte) and attained
            rate (FLOP per second).

        Raises:
            UserError: when pandas is not installed.
        """
        from .plots import frame

        return frame(self)

    def plot(self, what: str = "operations", axes: Any = None) -> Any:
        """Draws one chart of the result.

        Args:
            what: "operations" (the longest), "roofline", "timeline" (needs `simulate(timeline=True)`), "memory" (the
                plan over time; not for a result from a file) or "bytes" (by level).
            axes: matplotlib axes; default: new ones.

        Returns:
            The axes.

        Raises:
            UserError: for an unknown chart, a result without its data, or without matplotlib.
        """
        from .plots import plot

        return plot(self, what, axes)

    def to_html(self, path: str | os.PathLike[str], advice: bool | None = None, baseline: Result | None = None) -> None:
        """Writes a self-contained HTML page: headline, time by operation, timeline, roofline, bytes, memory plan,
        graph, advice and approximations. A click on an operation explains its time, as `why` does.

        A program of up to 300,000 tile operations without a timeline is simulated again to record one. Charts zoom if
        bokeh is installed (extra "notebook"); the page embeds its script.

        Args:
            path: file to write.
            advice: whether to simulate changes as `explain` does, which takes some ten times as long as compiling and
                simulating; default: up to 1,000 kernels. A result read from a file shows its stored advice.
            baseline: a result to compare each operation with; the table shows its time, the difference and the change.

        Raises:
            UserError: for a file that cannot be written.
        """
        from .page import page

        check_writable(path)
        kernels = len(self.data["operations"])
        wanted = kernels <= _KERNELS_ADVISED if advice is None else advice
        left_out = ""
        known = self._again is not None or getattr(self, "_redo", None) is not None
        if known and not wanted:
            why = "Not requested" if advice is False else f"Not simulated by default for {kernels:,} kernels"
            left_out = f"{why}: use Result.explain() or to_html(path, advice=True)."
        told = self.explain() if known and wanted else self._advised if not known and advice is not False else None
        text = page(self, told or None, left_out, baseline)
        with writing(path) as file:
            file.write(text)


def _no_result(name: str) -> Exception:
    remedy = "For other kinds use ts.Graph.load, ts.Program.load, ts.Machine.load, ts.cluster.StepResult.load"
    allowed = "a .json file of Result.save (schema tilesim.result)"
    return user_error("not a result", place=name, allowed=allowed, suggestion=remedy)
