"""Results: what happened, as an object, a table, a file, a timeline."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.errors import path_text, user_error
from ..base.files import check_writable, loads, read_json, read_text, writing
from ..base.paths import configs_dir
from ..base.progress import followed
from ..base.table import Table, amount
from .accuracy import Accuracy
from .advice import Advice, Advices, changes_to_try
from .bounds import Bound
from .checks import checks_of
from .names import Names

__all__ = ["Advice", "Result", "Table"]

#: What a result is asked that needs compiling and simulating, by name; packages above enter their calls here.
ASKED: dict[str, Callable[..., Any]] = {}

#: What is said of a result beside its times: the core's form does not have it.
_BESIDE = ("setting", "accuracy")

_MOVED = ("padding", "merged", "forwarded")

_KERNELS_ADVISED = 1000  # of results whose report simulates changes by itself


@checked_class()
class Result:
    """Cycles, bytes, utilisation, energy and what bounds each operation; the same type from engine and closed form."""

    def __init__(self, data: dict[str, Any], again: Callable[[dict[str, Any]], Result] | None = None) -> None:
        """Wraps the JSON form; made by `simulate` and `estimate`.

        Args:
            data: JSON form, schema "tilesim.result".
            again: simulates the same workload with settings changed (for `explain`).
        """
        self.data = data
        self._again = again

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: the figures, not the workload that `explain` simulates again."""
        return {**self.__dict__, "_again": None}

    @property
    def cycles(self) -> int:
        """Cycles of the core clock."""
        return int(self.data["cycles"])

    @property
    def seconds(self) -> float:
        """Seconds."""
        return float(self.data["cycles"] / self.data["hertz"])

    @property
    def milliseconds(self) -> float:
        """Milliseconds."""
        return self.seconds * 1e3

    @property
    def bottleneck(self) -> str:
        """The part busy longest: compute, vector, memory, cache, network (a core's port, a link), launch, host, link.

        "latency" if none is for half the time.
        """
        return str(self.data["bottleneck"])

    @property
    def approximations(self) -> list[str]:
        """What was modelled how, and what was left out."""
        return list(self.data["approximations"])

    @property
    def checks(self) -> list[dict[str, Any]]:
        """Operations whose time lies below their bound, or far above the closed form of their mapping.

        Rows with operation, what ("below its bound", "far above its closed form"), cycles, against (cycles of the bound
        or closed form), ratio; most results have none. A line of `approximations` names the first.
        """
        return checks_of(self.data)

    @property
    def memory_bytes(self) -> int:
        """Bytes read from and written to off-chip memory, in whole bursts."""
        return int(self.data["memory_read_bytes"] + self.data["memory_written_bytes"])

    @property
    def padded_bytes(self) -> int:
        """Of `memory_bytes`, what layouts and bursts bring beyond the elements; the rows "padded ..." of `counts()`."""
        rows = self.data.get("counts", [])
        padded = [row for row in rows if row["part"] == "memory" and str(row["item"]).startswith("padded ")]
        return round(sum(row["rest"] + sum(number for _, number in row["operations"]) for row in padded))

    @property
    def lowering(self) -> str:
        """How the program was lowered: "native" (by the machine's lowering profile) or "best"; "" where not known."""
        return str(self.data.get("lowering", ""))

    @property
    def bounds(self) -> Bound | None:
        """The least bytes and seconds of the workload.

        None where no graph is known, memory is "ideal" or the host runs a part; of an estimate `ts.lower_bound(graph,
        device)` gives them (caches of a device may hold what the bound loads).
        """
        found = self.data.get("bounds")
        return Bound(found) if found else None

    @property
    def accuracy(self) -> Accuracy | None:
        """Errors of the outputs against f32, where they were asked for (`ts.run(..., accuracy=...)`)."""
        found = self.data.get("accuracy")
        return Accuracy(found) if found else None

    @property
    def energy(self) -> dict[str, float]:
        """Joules by part, for parts whose energy the machine states (settings energy.*); empty where it states none."""
        return {row["part"]: row["femtojoules"] * 1e-15 for row in self.data["energy"] if row["known"]}

    @property
    def host_share(self) -> float:
        """Fraction of the time, from 0 to 1, in which the host computes or its link transfers; the machine waits."""
        busy = sum(row["cycles"]["busy"] for row in self.data["units"] if row["kind"] in ("host", "link"))
        return busy / max(1, self.cycles)

    @property
    def utilisation(self) -> dict[str, float]:
        """Fraction of the time, from 0 to 1, for which each sort of unit is busy, averaged over its units."""
        names = {"array": "arrays", "vector": "vector unit", "channel": "memory", "cache": "cache"}
        names |= {"host": "host", "link": "link"}
        found: dict[str, list[float]] = {}
        for row in self.data["units"]:
            if row["kind"] in names:
                found.setdefault(names[row["kind"]], []).append(row["cycles"]["busy"] / max(1, self.cycles))
        return {name: sum(found[name]) / len(found[name]) for name in names.values() if name in found}

    def table(self) -> Table:
        """Per operation, longest first.

        Returns:
            Rows with operation, cycles attributed to it (they add up to the total), share, bound, bytes. `why` of the
            name in "operation" gives this very row: "attention.self[3]" is the third kernel of "attention.self".
        """
        total = max(1, self.cycles)
        rows = [
            {
                "operation": name,
                "count": row["count"],
                "cycles": row["exclusive"],
                "share": row["exclusive"] / total,
                "bound": row["bound"],
                "busy": row["bound_share"],
                "bytes": row["load_bytes"] + row["store_bytes"],
                "multiply_adds": row["multiply_adds"],
            }
            for name, row in zip(Names(self.data).own, self.data["operations"], strict=True)
        ]
        return Table(sorted(rows, key=lambda row: -row["cycles"]))

    def units(self) -> Table:
        """Per unit: cycles in each state, which add up to the total.

        Returns:
            Rows with unit, states, operations, bytes.
        """
        return Table(
            [
                {"unit": row["unit"], **row["cycles"], "operations": row["operations"], "bytes": row["bytes"]}
                for row in self.data["units"]
            ]
        )

    def counts(self) -> Table:
        """What takes energy, and what was moved or computed in vain; energy is counts times the machine's table.

        Padded multiply-adds are those of an array's ragged rows, columns and depths, padded bytes those of bursts and
        layouts beyond the elements; the items of their names count what is useful. Closed forms count no padding. With
        a host its operations and the link have rows of their own.

        Returns:
            Rows with part, item, level (of a memory), operation (empty: what none of them caused), number; none of a
            result that an older version wrote.
        """
        rows = []
        for row in self.data.get("counts", []):
            rest = [["", row["rest"]]] if row["rest"] else []
            head = {key: row[key] for key in ("part", "item", "level")}
            rows += [{**head, "operation": name, "number": number} for name, number in [*row["operations"], *rest]]
        return Table(rows)

    def cores(self) -> Table:
        """Per core: how busy its arrays, vector unit and queues are, and what it moves.

        Returns:
            Rows with core, (where the machine has several) sort, array, vector, load, store (busy share of the total
            time, of several units their mean), multiply_adds, load_bytes, store_bytes, send_bytes.
        """
        sorts = [entry["sort"] for entry in self.data["configuration"].get("cores", []) for _ in range(entry["count"])]
        kinds = ("array", "vector", "load", "store", "send")
        by_core: dict[int, dict[str, list[dict[str, Any]]]] = {}
        for row in self.data["units"]:
            if row["kind"] in kinds:
                by_core.setdefault(row["core"], {kind: [] for kind in kinds})[row["kind"]].append(row)
        total = max(1, self.cycles)
        rows = []
        for core, units in sorted(by_core.items()):
            busy = {
                kind: sum(row["cycles"]["busy"] for row in units[kind]) / total / max(1, len(units[kind]))
                for kind in kinds[:4]
            }
            moved = {f"{kind}_bytes": sum(row["bytes"] for row in units[kind]) for kind in kinds[2:]}
            named = {"core": core} | ({"sort": sorts[core]} if sorts else {})
            rows.append({**named, **busy, "multiply_adds": sum(row["work"] for row in units["array"]), **moved})
        return Table(rows)

    def jobs(self) -> Table:
        """Several programs at once: when each of them ran.

        Returns:
            Rows with program, cores, arrival, start, finish (cycles); none where one program ran alone.
        """
        return Table(self.data.get("jobs", []))

    @property
    def cache(self) -> dict[str, Any] | None:
        """What the cache before the memory channels did; none: there was none, or nothing was to stay in it.

        slices, capacity_bytes, managed ("hardware", "software"), hits, misses (requests of a sector or less; a hit may
        wait for its sector), merged (hits on a sector on its way), fetched_bytes (from memory), returned_bytes (to it),
        bypassed_bytes (both ways, past the cache), dirty_bytes (left at the end), stalled_cycles (network clock),
        tensors (`cache_table`).
        """
        found = self.data.get("cache")
        return dict(found) if found else None

    def cache_table(self) -> Table:
        """Per tensor: what the cache did, the most moved first.

        Returns:
            Rows with tensor, resident, bytes (its own, whole pages), read_bytes and written_bytes (asked by the cores),
            hits, misses (requests), hit_rate, fetched_bytes, returned_bytes, bypassed_bytes; no rows without a cache.
        """
        rows = []
        for use in (self.cache or {"tensors": []})["tensors"]:
            looked = use["hits"] + use["misses"]
            rows.append({**use, "hit_rate": use["hits"] / looked if looked else 0.0})
        return Table(sorted(rows, key=lambda row: -(row["read_bytes"] + row["written_bytes"])))

    @property
    def local_bytes(self) -> int:
        """Memory of several regions: bytes from and to the core's own region; 0 where there is one."""
        return int(self.data.get("memory_local_bytes", 0))

    @property
    def remote_bytes(self) -> int:
        """Memory of several regions: bytes that pass a link between regions; 0 where there is one."""
        return int(self.data.get("memory_remote_bytes", 0))

    @property
    def data_sources(self) -> dict[str, str]:
        """Tensors whose values timing read: "given", a trace, a distribution, "computed from ...", "default: ..."."""
        return dict(self.data.get("data_sources", {}))

    @property
    def channel_bytes(self) -> dict[str, int]:
        """From the bytes asked for to those that the memory channels moved.

        asked (`memory_bytes`), padding (whole bursts beyond what was asked for), merged (writes to a burst that waited
        to be written already), forwarded (reads answered from a waiting write), moved: asked + padding - merged -
        forwarded, the sum over the channels, with the writes that wait at the end. Runs that were replayed are exact up
        to rounding.
        """
        parts = {key: int(self.data.get(f"memory_{key}_bytes", 0)) for key in _MOVED}
        moved = sum(int(row["bytes"]) for row in self.data["units"] if row["kind"] == "channel")
        return {"asked": self.memory_bytes, **parts, "moved": moved}

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
        return Advices(sorted(self.advice(), key=lambda item: item.cycles))

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
        """Writes the JSON form.

        Args:
            path: file to write.

        Raises:
            UserError: when the file cannot be written.
        """
        with writing(path) as file:
            json.dump(self.data, file, indent=1)

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
        text = read_text(path)
        _core.Result.check(text, path_text(path), json.dumps(Result.schema()))
        data = loads(text)
        for row in data["operations"]:
            if isinstance(row["operation"], str):  # version 1
                row["operation"] = [name for name in row["operation"].split("+") if name]
        return Result(data)

    def timing_hash(self) -> str:
        """Hash over everything that timing decides.

        Returns:
            16 hex digits, equal on every machine and build.
        """
        timed = {key: value for key, value in self.data.items() if key not in _BESIDE}
        return _core.Result.from_json(json.dumps(timed)).timing_hash()

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes a Perfetto trace (open it at ui.perfetto.dev).

        Args:
            path: file to write.

        Raises:
            ValueError: when the simulation recorded no timeline (`simulate(..., timeline=True)`).
        """
        from .perfetto import write_trace

        write_trace(self.data, path)

    def summary(self) -> str:
        """The headline.

        Returns:
            Cycles, time, bottleneck and bytes in one line; with a host, its share of the time.
        """
        host = f", {self.host_share:.0%} of the time on the host and its link" if self.host_share > 0 else ""
        setting = f", {self.data['setting']}," if self.data.get("setting") else ""
        where = f"{self.data['program']}{setting} on {self.data['machine']}"
        return (
            f"{where}: {self.cycles:,} cycles, {self.milliseconds:.4g} ms, "
            f"bound by {self.bottleneck} ({self.data['bottleneck_share']:.0%} busy), "
            f"{amount(self.memory_bytes)} moved{host}"
            + (f", {amount(self.remote_bytes)} between regions" if self.local_bytes else "")
            + (f"; error {self.accuracy!r}" if self.accuracy else "")
        )

    def __repr__(self) -> str:
        """The headline."""
        return f"<Result {self.summary()}>"

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

    def report(self, path: str | os.PathLike[str], advice: bool | None = None) -> None:
        """Writes one HTML page that opens in any browser and loads nothing: headline, where the time goes, all
        operations, timeline, roofline, bytes, memory plan, graph, what would help, what was modelled and how.

        A program of up to 300,000 tile operations that recorded no timeline is simulated once more for it. Charts zoom
        where the package bokeh is installed (extra "notebook"), whose script the page then holds.

        Args:
            path: file to write.
            advice: whether to simulate changes again, as `explain` does, some ten times what compiling and simulating
                took; by default for results of up to 1,000 kernels. Never for a result read from a file.

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
        text = page(self, self.explain() if known and wanted else None, left_out)
        with writing(path) as file:
            file.write(text)
