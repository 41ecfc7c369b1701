"""Tile latencies from several sources, stored in memory or on disk."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .. import _core
from ..base.checked import checked_class, is_text
from ..base.errors import nearest, shown, user_error
from ..base.locks import Lock
from ..base.store import Store
from ..machine.machine import Machine, MachineLike
from ..results.result import Table
from .scale_sim import scale_sim_latency

__all__ = ["TileLatencies", "scale_sim_latency"]

CLOSED_FORM = "closed form"
INSTRUCTION = "instruction"
FORMAT = 2  # version of texts and rows, so that custom latencies stay valid across versions of Tilesim
UNITS = ("array", "vector", "cross_lane")
CYCLES = ("busy", "weights_consumed", "consumed", "first", "done")


def _check(key: str, row: Mapping[str, Any]) -> str:
    """Computes the checksum of a row on disk."""
    return Store.key_of({"key": key, "row": {name: row[name] for name in (*CYCLES, "limit", "why") if name in row}})[
        :16
    ]


def _checked_row(row: Any, compute: str, place: str = "") -> dict[str, Any]:
    """Checks the fields of a latency."""
    where = f"{place}, '{compute}'" if place else f"'{compute}'"
    suggestion = "Delete the file; it only saves time" if place else ""

    def wrong(what: str, value: Any, allowed: str) -> Exception:
        return user_error(what, place=where, value=value, allowed=allowed, suggestion=suggestion)

    if not isinstance(row, Mapping):
        raise wrong("a tile latency is not an object", shown(row)[:60], ", ".join((*CYCLES, "limit")))
    found: dict[str, Any] = {}
    for name in CYCLES:
        value = row.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 1 << 62:
            what = f"'{name}' of a tile latency is not a number of cycles"
            raise wrong(what, shown(value)[:60], "a whole number from 0 on")
        found[name] = int(value)
    if not is_text(row.get("limit")):
        raise wrong(
            "'limit' of a tile latency is not a string", shown(row.get("limit"))[:60], "a description of the limit"
        )
    found["limit"] = str(row["limit"])
    if "why" in row:
        if not is_text(row["why"]):
            raise wrong("'why' of a tile latency is not a string", shown(row["why"])[:60], "a description of the wait")
        found["why"] = str(row["why"])
    return found


@checked_class()
class TileLatencies:
    """Latencies of tile operations on a core's units, from one source.

    `tilesim.simulate(program, latencies=...)` uses them instead of closed forms. Missing latencies of the sources
    "closed form" and "instruction" (kernels on the machine's core, at any level) are computed; other sources ("rtl",
    "measured", ...) have only the given latencies, and results count the operations that fell back to closed forms. The
    key has all dependencies: units of the core, source, and version (of Tilesim for closed forms, of kernels and
    instructions, or of the format). On disk they are in a `Store`, which several processes may share, with a checksum
    per row; an edited row raises an error.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, source: str = CLOSED_FORM) -> None:
        """Opens a store on disk or in memory."""
        self.source = source
        self._store = Store(path) if path is not None else None
        self._books: dict[str, dict[str, dict[str, Any]]] = {}  # replaced atomically, so that readers need no lock
        self._lock = Lock()
        self.hits = self.misses = self.memory_hits = self.memory_misses = 0
        #: of the last run at instruction level: execution counts, and reasons for missing kernels
        self.last_counts: dict[str, int] = {}
        self.refused: dict[str, str] = {}

    def _prefix(self, machine: Machine) -> str:
        core = json.loads(machine.core.to_json())["core"]
        units = {unit: core.get(unit) for unit in UNITS}
        version = _core.__version__ if self.source == CLOSED_FORM else f"format {FORMAT}"
        if self.source in (CLOSED_FORM, INSTRUCTION):  # key of ports, and of the accumulating unit
            units["isa"] = core.get("isa")
            units["accumulator"] = machine.get("core.scratchpad.accumulator_bytes") != "0 B"
        if self.source == INSTRUCTION:
            version = f"{version}, kernels {_core.isa_version()}"
        return "latency:" + Store.key_of({"units": units, "source": self.source, "version": version}) + ":"

    def _book(self, machine: Machine) -> dict[str, dict[str, Any]]:
        prefix = self._prefix(machine)
        with self._lock:
            if prefix not in self._books:
                found = self._store.scan(prefix) if self._store is not None else {}
                self._books[prefix] = {
                    key[len(prefix) :]: self._verified_row(key, prefix, row) for key, row in found.items()
                }
            return self._books[prefix]

    def _verified_row(self, key: str, prefix: str, row: Any) -> dict[str, Any]:
        """Verifies a row of the file."""
        place = self._store.path if self._store is not None else ""
        found = _checked_row(row, key[len(prefix) :], place)
        if row.get("check") != _check(key, found):
            raise user_error(
                "a tile latency was edited",
                place=f"{place}, '{key[len(prefix) :]}'",
                value=", ".join(f"{name} {found[name]}" for name in CYCLES),
                allowed="rows of `add` and `update`",
                suggestion="Delete the file; it only saves time",
            )
        return found

    def add(self, machine: MachineLike, compute: str, cycles: int, **parts: int) -> None:
        """Adds the latency of one tile operation.

        Args:
            machine: the machine that has the units.
            compute: text as in `table`, such as "mma bf16 bf16 b1 m128 n128 k256 ko1 pipelined".
            cycles: cycles of the core's clock for which the unit is reserved.
            parts: weights_consumed, consumed, first, done, in cycles; default: `cycles`.

        Raises:
            UserError: for an invalid text, negative cycles, or an unknown part.
        """
        for name in parts:
            if name not in CYCLES[1:]:
                raise user_error(
                    "unknown part of a latency",
                    value=f"'{name}'",
                    allowed=", ".join(CYCLES[1:]),
                    suggestion=nearest(name, CYCLES),
                )
        row = {"busy": cycles, **{name: parts.get(name, cycles) for name in CYCLES[1:]}, "limit": self.source}
        self.update(machine, {compute: row})

    def update(self, machine: MachineLike, rows: Mapping[str, Mapping[str, Any]]) -> None:
        """Adds many latencies atomically.

        Args:
            machine: the machine that has the units.
            rows: compute to busy, weights_consumed, consumed, first, done (cycles) and limit.

        Raises:
            UserError: as `add`.
        """
        target = Machine.load(machine)
        book = _core.LatencyBook(self.source)
        for compute, row in rows.items():
            book.put(compute, _checked_row(row, compute))
        checked = dict(book.entries())
        prefix = self._prefix(target)
        with self._lock:
            self._books[prefix] = {**self._book(target), **checked}
            if self._store is not None:
                keyed = {prefix + compute: row for compute, row in checked.items()}
                self._store.put({key: {**row, "check": _check(key, row)} for key, row in keyed.items()})

    def opened(self, machine: MachineLike) -> _core.LatencyBook:
        """Returns the latencies of a machine for the engine.

        Args:
            machine: the machine that has the units.

        Returns:
            A book for `closed` after the run.
        """
        book = _core.LatencyBook(self.source)
        for compute, row in self._book(Machine.load(machine)).items():
            book.put(compute, row)
        return book

    def closed(self, machine: MachineLike, book: _core.LatencyBook) -> dict[str, Any]:
        """Adds the new latencies of a run, and its hit counts.

        Args:
            machine: as for `opened`.
            book: a book that `opened` returned.

        Returns:
            Numbers of hits and misses in this store and in the engine's table.
        """
        counts = {name: getattr(book, name) for name in ("hits", "misses", "memory_hits", "memory_misses")}
        with self._lock:
            known = self._book(Machine.load(machine))
            fresh = {compute: row for compute, row in book.entries().items() if compute not in known}
            if fresh:
                self.update(machine, fresh)
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)
            self.last_counts = dict(book.counts)
            self.refused = dict(book.refused)
        return {"source": self.source, **counts, "added": len(fresh)}

    def books(self, machine: MachineLike) -> dict[str, _core.LatencyBook]:
        """Returns the latencies for a simulation.

        Args:
            machine: the machine that has the units.

        Returns:
            A book per core type, or one under "" for equal cores, for `close_books` after the run.
        """
        target = Machine.load(machine)
        if not target.sorts:
            return {"": self.opened(target)}
        return {sort: self.opened(target.only(sort)) for sort in target.sorts}

    def close_books(self, machine: MachineLike, books: Mapping[str, _core.LatencyBook]) -> dict[str, Any]:
        """Adds the new latencies of a run, for all core types.

        Args:
            machine: as for `books`.
            books: the dict that `books` returned.

        Returns:
            The sums of `closed` over core types.

        Raises:
            UserError: without a book.
        """
        target = Machine.load(machine)
        if not books:
            raise user_error("missing books", place="books", value="{}", allowed="the dict that `books` returned")
        counts = [self.closed(target.only(sort) if sort else target, book) for sort, book in books.items()]
        keys = [key for key in counts[0] if key != "source"]
        return {"source": self.source, **{key: sum(count[key] for count in counts) for key in keys}}

    def table(self, machine: MachineLike) -> Table:
        """Tabulates all latencies of a machine.

        Args:
            machine: the machine that has the units.

        Returns:
            One row per operation: text, latencies in cycles, limit.
        """
        book = self._book(Machine.load(machine))
        return Table([{"compute": compute, **book[compute]} for compute in sorted(book)])

    def compare(self, other: TileLatencies, machine: MachineLike) -> Table:
        """Compares two sources.

        Args:
            other: store of another source.
            machine: the machine that has the units.

        Returns:
            One row per common operation, largest ratio first: cycles of each, and the ratio other / this.

        Raises:
            UserError: if they share no operation.
        """
        target = Machine.load(machine)
        own, theirs = self._book(target), other._book(target)
        names = (self.source, other.source if other.source != self.source else f"{other.source} (other)")
        rows = [
            {
                "compute": compute,
                names[0]: own[compute]["busy"],
                names[1]: theirs[compute]["busy"],
                "ratio": theirs[compute]["busy"] / max(1, own[compute]["busy"]),
            }
            for compute in sorted(set(own) & set(theirs))
        ]
        if not rows:
            raise user_error(
                "the two stores have no common tile operation",
                value=f"{len(own)} and {len(theirs)} latencies",
                place=target.name,
            )
        return Table(sorted(rows, key=lambda row: -abs(math.log(max(row["ratio"], 1e-9)))))

    def fill(self, machine: MachineLike, computes: Iterable[str]) -> int:
        """Computes latencies with this store's source.

        Args:
            machine: the machine that has the units.
            computes: texts of tile operations, such as those in another store's `table`.

        Returns:
            Number of covered operations.

        Raises:
            UserError: for a source that cannot be computed, or an invalid text.
        """
        target = Machine.load(machine)
        computes = list(computes)
        for index, compute in enumerate(computes):
            if not is_text(compute):
                allowed = '"mma bf16 bf16 b1 m128 n128 k256 ko1 pipelined"'
                raise user_error(
                    "not a tile operation",
                    place=f"computes[{index}]",
                    value=shown(compute),
                    allowed=f"strings such as {allowed}",
                )
        if self.source == CLOSED_FORM:
            rows = {compute: dict(_core.closed_form_latency(target.core, compute)) for compute in computes}
        elif self.source == "scale-sim":
            found = {compute: scale_sim_latency(target, compute) for compute in computes}
            rows = {
                compute: dict.fromkeys(CYCLES, cycles) | {"limit": "folds"}
                for compute, cycles in found.items()
                if cycles is not None
            }
        else:
            raise user_error(
                "this source cannot be computed", value=f"'{self.source}'", allowed=f"{CLOSED_FORM}, scale-sim"
            )
        self.update(target, rows)
        return len(rows)

    def __len__(self) -> int:
        """Number of loaded latencies of all machines."""
        return sum(map(len, list(self._books.values())))

    def __repr__(self) -> str:
        """Source, number of latencies, hits and misses."""
        return f"<TileLatencies of {self.source}: {len(self)} computes, {self.hits} hits, {self.misses} misses>"

    def close(self) -> None:
        """Closes the file."""
        if self._store is not None:
            self._store.close()
