"""Results: what happened, as an object, a table, a file, a timeline."""

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
from .advice import Advice, Advices, Stored, changes_to_try
from .asked import ASKED
from .measured import Measured

__all__ = ["Advice", "Result", "Table"]

_COMPILED = {"serving": "framework serving (captured graphs, fused kernels)"}
_KERNELS_ADVISED = 1000  # of results whose report simulates changes by itself


@checked_class()
class Result(Measured):
    """Cycles, bytes, utilisation, energy and what bounds each operation; the same type from engine and closed form."""

    def __init__(self, data: dict[str, Any], again: Callable[[dict[str, Any]], Result] | None = None) -> None:
        """Wraps the JSON form; made by `simulate` and `estimate`."""
        self.data = data
        self._again = again
        self._held: dict[str, Any] = {}  # what a file told for its page
        self._advised: list[Advice] = []

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: the figures, not the workload that `explain` simulates again."""
        return {**self.__dict__, "_again": None}

    def advice(self) -> Iterator[Advice]:
        """Changes that were simulated again, each as its simulation ends, with all options and data of this one.

        First other lowerings and mappings of the same graph on the same machine, of those the ones that gain 1.01 or
        more; then changes to the machine, whatever they gain; last, mappings of the longest kernels that were tuned.
        A program that was compiled for this machine is compiled again for the changed one, in the same way; others
        stay as they are.

        Yields:
            Each change with the gain of its own run.

        Raises:
            UserError: for a result read from a file or a pickle, which cannot be simulated again.
        """
        if self._again is None:
            what = "a result that was stored cannot be simulated again"
            raise user_error(what, suggestion="Simulate the program first")
        otherwise, tuned = ASKED["advice"](self)
        yield from otherwise
        for change in followed(changes_to_try(self.data["configuration"], self.host_share > 0)):
            yield Advice(change, self._again(change).cycles, self.cycles)
        yield from tuned

    def explain(self) -> list[Advice]:
        """All of `advice`, the fastest first.

        Returns:
            Each change with the gain of its own run; printed, the list has those that gain 1.01 or more
            (`worth_telling`) alone.

        Raises:
            UserError: for a result read from a file or a pickle, which cannot be simulated again.
        """
        self._advised = Advices(sorted(self.advice(), key=lambda item: item.cycles))
        return self._advised

    def why(self, name: str, *, intervals: bool = True) -> Any:
        """Why an operation takes as long as it does: bound, terms between bound and time, tiles, alternatives.

        Args:
            name: of a kernel (a row of any table); of an operation of the graph, that is one or several kernels, or a
                part of one; with a number in brackets behind it for one of these kernels; with "*" for the numbers of
                repeated layers; or what several names begin with.
            intervals: simulate once more with intervals where the result has none, to tell waits apart.

        Returns:
            A `Why`: `terms`, `alternatives`, `tiles`, `roofline`, `table()`; printed, the answer as text.

        Raises:
            UserError: for a name that no operation has, with the nearest.
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
        """Writes the JSON form, and under "page" what a page shows of the program: memory plan, graph, advice if made.

        Args:
            path: file to write.

        Raises:
            UserError: when the file cannot be written.
        """
        from .page.held import held

        check_writable(path)
        more = held(self)
        with writing(path) as file:
            json.dump({**self.data, "page": more} if more else self.data, file, indent=1)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Result:
        """Reads a saved result.

        Args:
            path: file written by `save`.

        Returns:
            The result.

        Raises:
            UserError: for a file that is no result, with line and path: keys, types or ranges that the schema excludes,
                or sums that do not agree.
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
            if isinstance(row["operation"], str):  # version 1
                row["operation"] = [name for name in row["operation"].split("+") if name]
        found = Result(data)
        if stored:
            from .page.held import checked_held

            found._held = checked_held(stored, len(data["operations"]), path_text(path))
            advice = found._held.get("advice", ())
            found._advised = Advices(Stored(row["change"], row["cycles"], row["before"], row["kind"]) for row in advice)
        return found

    def timing_hash(self) -> str:
        """Hash over everything that timing decides.

        Returns:
            16 hex digits, equal on every machine and build.
        """
        timed = {key: value for key, value in self.data.items() if key != "accuracy"}  # which the core does not have
        return _core.Result.from_json(json.dumps(timed)).timing_hash()

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes a trace for Perfetto (open it at ui.perfetto.dev).

        Args:
            path: file to write: Perfetto's own form (.pftrace, .perfetto-trace, .perfetto, .trace, .pb, no ending), or
                trace events as JSON (.json).

        Raises:
            UserError: when the simulation recorded no timeline (`simulate(..., timeline=True)`); for another ending.
        """
        from .perfetto import write_trace

        write_trace(self.data, path)

    def summary(self) -> str:
        """The headline.

        Returns:
            Cycles, time, bottleneck and bytes in one line; with a host, its share of the time. Of closed forms
            "estimated" stands before the cycles.
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
        """The headline."""
        return f"<{type(self).__name__} {self.summary()}>"

    def _repr_html_(self) -> str:
        from .page import picture

        return picture(self)

    def to_pandas(self) -> Any:
        """All operations as a pandas DataFrame, the longest first.

        Returns:
            The rows of `table()`, with time in seconds, bytes loaded and stored, FLOPs, intensity (FLOP per byte) and
            the rate that was attained (FLOP per second).

        Raises:
            UserError: without pandas, naming what to install.
        """
        from .plots import frame

        return frame(self)

    def plot(self, what: str = "operations", axes: Any = None) -> Any:
        """Draws one picture of the result.

        Args:
            what: "operations" (the longest), "roofline", "timeline" (needs `simulate(timeline=True)`), "memory" (the
                plan over time; not of a result from a file) or "bytes" (by level).
            axes: matplotlib axes; none: new ones.

        Returns:
            The axes.

        Raises:
            UserError: for another picture, a result that lacks what it shows, or without matplotlib.
        """
        from .plots import plot

        return plot(self, what, axes)

    def to_html(self, path: str | os.PathLike[str], advice: bool | None = None, baseline: Result | None = None) -> None:
        """Writes one HTML page that opens in any browser and loads nothing: headline, where the time goes, all
        operations, timeline, roofline, bytes, memory plan, graph, what would help, what was modelled and how. A click
        on an operation tells why it takes its time, as `why` does.

        A program of up to 300,000 tile operations that recorded no timeline is simulated once more for it. Charts zoom
        where the package bokeh is installed (extra "notebook"), whose script the page then holds.

        Args:
            path: file to write.
            advice: whether to simulate changes again, as `explain` does, some ten times what compiling and simulating
                took; by default for results of up to 1,000 kernels. A result read from a file has what it was saved
                with.
            baseline: a result that each operation is compared with: its time there, the difference and the change
                stand in the table.

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
            why = "Not asked for" if advice is False else f"Not simulated by itself for {kernels:,} kernels"
            left_out = f"{why}: Result.explain(), or report(path, advice=True)."
        told = self.explain() if known and wanted else self._advised if not known and advice is not False else None
        text = page(self, told or None, left_out, baseline)
        with writing(path) as file:
            file.write(text)


def _no_result(name: str) -> Exception:
    remedy = "Other kinds: ts.Graph.load, ts.Program.load, ts.Machine.load, ts.cluster.StepResult.load"
    allowed = "a .json that Result.save wrote, of schema tilesim.result"
    return user_error("not a result", place=name, allowed=allowed, suggestion=remedy)
