"""Attributes time windows to operations from a simulation's recorded intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Spans", "busy", "covered"]

Cycles = npt.NDArray[np.int64]


def covered(intervals: Cycles, grid: Cycles) -> npt.NDArray[np.bool_]:
    """Whether each step of a grid lies inside an interval."""
    edges = np.zeros(len(grid), np.int64)
    np.add.at(edges, np.searchsorted(grid, intervals[:, 0]), 1)
    np.add.at(edges, np.searchsorted(grid, intervals[:, 1]), -1)
    return np.asarray(np.cumsum(edges)[:-1] > 0)


def busy(intervals: Cycles) -> int:
    """Returns the number of cycles in the union of intervals."""
    if not len(intervals):
        return 0
    grid = np.unique(intervals)
    return int(np.diff(grid)[covered(intervals, grid)].sum())


def _by_label(labels: Cycles, number: int) -> list[Cycles]:
    """Groups indices by label, in ascending order."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.searchsorted(labels[order], np.arange(1, number))) if number else []


def _blocks(one: Cycles, other: Cycles) -> list[tuple[Cycles, slice]]:
    """Returns the shortest blocks in which two orders contain the same runs: runs in the first order, and slice."""
    rank = np.empty(len(other), np.int64)
    rank[other] = np.arange(len(other))
    ends = np.flatnonzero(np.maximum.accumulate(rank[one]) == np.arange(len(one))) + 1
    return [
        (one[start:end], slice(start, end)) for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    ]


def _as_named(block: Cycles, runs: Cycles) -> Cycles:
    """Sorts runs by the program's order of operations."""
    return block[np.argsort(runs[block, 0], kind="stable")]


def _off(laid: Cycles, wanted: Cycles) -> int:
    """Returns the sum of deviations between windows and the cycles that the engine attributed."""
    own = np.bincount(laid[:, 0], laid[:, 2] - laid[:, 1], len(wanted))
    return int(np.abs(own - wanted).sum())


class Spans:
    """The runs of every operation with their attributed time windows.

    A run's window begins when all earlier runs of the program have finished, and ends when the run finishes, as in the
    engine. The order of operations in the queues separates runs.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        """Finds the runs of all operations."""
        self.cycles = int(data["cycles"])
        self.units: Sequence[Mapping[str, Any]] = data["units"]
        self.labels = {name: at for at, name in enumerate(data["labels"])}
        self.intervals: Cycles = np.asarray(data["intervals"], np.int64).reshape(-1, 4)
        order = np.lexsort((self.intervals[:, 3], self.intervals[:, 2], self.intervals[:, 0]))
        self.intervals = self.intervals[order]
        runs, cycles = [0] * len(self.labels), dict.fromkeys(self.labels.values(), 0)
        for row in data["operations"]:
            if (label := self.labels.get(row["name"])) is not None:
                runs[label] += int(row["count"])
                cycles[label] += int(row["exclusive"])
        self._windows = self._stretches(runs, cycles)
        self._own = _by_label(self.intervals[:, 1], len(self.labels))
        self._stretch = _by_label(self._windows[:, 0], len(self.labels))

    def _stretches(self, counts: Sequence[int], exclusive: Mapping[int, int]) -> Cycles:
        """[runs, 3]: label, start and finish of each run's window, in the order that reproduces the engine's counts.

        Overlapping runs are in program order by their starts or by their finishes; equal blocks of overlapping
        runs use the same order.
        """
        found = self._runs(np.asarray(counts, np.int64))
        if not len(found):
            return found
        wanted = np.zeros(len(counts), np.int64)
        for label, cycles in exclusive.items():
            wanted[label] = cycles
        orders = [np.lexsort((found[:, 2], found[:, 1])), np.lexsort((found[:, 1], found[:, 2]))]
        orders.append(np.concatenate([_as_named(block, found) for block, _ in _blocks(*orders)]))
        tried = [self._laid(found[order]) for order in orders]
        off = [_off(one, wanted) for one in tried]
        at = int(np.argmin(off))
        best, least = orders[at], off[at]
        alike: dict[tuple[int, ...], list[slice]] = {}
        for block, place in _blocks(orders[0], orders[1]):
            if least and len(block) > 1:
                alike.setdefault(tuple(found[block, 0].tolist()), []).append(place)
        for places in alike.values():
            for order in orders:
                changed = best.copy()
                for place in places:
                    changed[place] = order[place]
                now = _off(self._laid(found[changed]), wanted) if least else least
                if now < least:
                    best, least = changed, now
        laid = self._laid(found[best])
        return laid[laid[:, 2] > laid[:, 1]]

    def _laid(self, runs: Cycles) -> Cycles:
        """Assigns consecutive windows to runs."""
        ends = np.maximum.accumulate(runs[:, 2])
        starts = np.concatenate([[0], ends[:-1]])
        ends[-1] = self.cycles
        return np.stack([runs[:, 0], starts, ends], axis=1)

    def _runs(self, counts: Cycles) -> Cycles:
        """Returns [runs, 3]: label, first start and last finish of each run over all units."""
        unit, label, start, finish = self.intervals.T
        if not len(unit):
            return np.zeros((0, 3), np.int64)
        fresh = np.ones(len(unit), np.bool_)
        fresh[1:] = (unit[1:] != unit[:-1]) | (label[1:] != label[:-1])
        begins = np.flatnonzero(fresh)
        number = np.cumsum(fresh) - 1  # numbers the stretches of one label in one unit; each interval gets its stretch
        ends = np.append(begins[1:], len(unit))
        by_label: dict[int, dict[int, list[int]]] = {}  # label -> unit -> stretches
        for at, (own, place) in enumerate(zip(label[begins].tolist(), unit[begins].tolist(), strict=True)):
            by_label.setdefault(own, {}).setdefault(place, []).append(at)
        result = [np.zeros((0, 3), np.int64)]
        for own, by_unit in by_label.items():
            off = [(abs(len(found) - int(counts[own])), place) for place, found in by_unit.items()]
            places = by_unit[min(off)[1]]  # this unit separates the runs best
            opened = start[begins[places]]
            low, high = opened.copy(), np.zeros_like(opened)
            for stretches in by_unit.values():
                mine = np.concatenate([np.arange(begins[at], ends[at]) for at in stretches])
                if len(stretches) == len(places):
                    at = np.searchsorted(stretches, number[mine])
                else:  # each interval belongs to the run that began last
                    at = np.maximum(0, np.searchsorted(opened, start[mine], side="right") - 1)
                np.minimum.at(low, at, start[mine])
                np.maximum.at(high, at, finish[mine])
            result.append(np.stack([np.full_like(low, own), low, high], axis=1))
        return np.concatenate(result)

    def of(self, names: Sequence[str]) -> Cycles:
        """Returns the time windows of operations, [windows, 2]."""
        return np.asarray(self._windows[self._chosen(self._stretch, names)][:, 1:])

    def _chosen(self, places: Sequence[Cycles], names: Sequence[str]) -> Cycles:
        """Returns the row indices of operations in ascending order."""
        found = [places[self.labels[name]] for name in dict.fromkeys(names) if name in self.labels]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)

    def work(self, names: Sequence[str]) -> dict[tuple[int, str], list[Cycles]]:
        """Returns the intervals in which each unit works on operations."""
        own = self.intervals[self._chosen(self._own, names)]
        found: dict[tuple[int, str], list[Cycles]] = {}
        for unit in np.unique(own[:, 0]).tolist():
            row = self.units[unit]
            key = (int(row["core"]), str(row["kind"]))
            found.setdefault(key, []).append(own[own[:, 0] == unit][:, 2:])
        return found
