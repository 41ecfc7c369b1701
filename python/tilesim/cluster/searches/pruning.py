"""Evaluates plans in order of lower bounds; skips those that can be neither among the fastest, nor the best of
their axes, nor on the Pareto front."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...machine.device import Device
from ..columns import Columns
from ..plan import OFFLOAD, RECOMPUTE
from ..terms import Pricer

__all__ = ["EvaluatedPlans", "Peak", "rises", "rounds"]

Array = NDArray[np.float64]
#: tolerance of bounds for rounding errors
SLACK = 1.0 - 1e-9
FIRST, LAST = 1 << 11, 1 << 16


class Peak:
    """Prices that give lower bounds: products at the device's peak, free attention.

    Step times are monotonic in both, so these prices give a lower bound, except if one computation overlaps with two
    transfers: see `rises`.
    """

    def __init__(self, price: Pricer) -> None:
        """Prepares bounds for the device of a pricer."""
        self.device: Device = price.device
        self.dtype = price.dtype
        self.peak = max(rate.flops_per_second for rate in self.device.matrix.values())
        name = {"fp16": "f16", "fp32": "f32"}.get(self.dtype, self.dtype)
        if name in ("bf16", "f16") and name in self.device.matrix:
            self.peak = self.device.rate(name).flops_per_second

    def product(self, m: Array, n: Array, k: Array, batch: Array | float = 1.0) -> Array:
        """Returns the seconds of products at the peak rate."""
        return np.asarray(m * n * k * batch * (2.0 / self.peak))

    def flash(self, batch: Array, *others: Array) -> Array:
        """Returns zero seconds, a lower bound of attention."""
        return np.zeros(np.shape(batch))


def rises(c: Columns) -> NDArray[np.bool_]:
    """Whether a plan's time is monotonic in its prices. Attention overlaps with the ring of keys and with launches, a
    layer with its parameters and with offload; each overlap is counted independently."""
    away = (c.offload == OFFLOAD.index("activations")) | (c.recompute == RECOMPUTE.index("offload"))
    return np.asarray(((c.context == 1) | c.by_heads) & ~away)


class EvaluatedPlans:
    """Stores the evaluated plans of a search, and decides which others can still enter its result."""

    def __init__(
        self, peak: Array, cell: NDArray[np.int64], keep: int, kind: NDArray[np.int64], all_: bool = True
    ) -> None:
        """Starts with no evaluated plan."""
        self.peak, self.cell, self.keep, self.kind, self.all = peak, cell, keep, kind, all_
        self.seconds = np.full(len(peak), np.inf)
        self.priced = np.zeros(len(peak), dtype=bool)
        self._best = np.full(int(cell.max(initial=-1)) + 1, np.inf)
        self._of_kind = np.full(int(kind.max(initial=-1)) + 1, np.inf)
        self._fastest = np.empty(0)
        self._front = np.empty(0), np.empty(0)  # Pareto front: bytes in ascending order, and the least seconds

    def put(self, which: NDArray[np.int64], seconds: Array) -> None:
        """Records evaluated plans."""
        self.seconds[which], self.priced[which] = seconds, True
        np.minimum.at(self._best, self.cell[which], seconds)
        np.minimum.at(self._of_kind, self.kind[which], seconds)
        self._fastest = np.sort(np.concatenate([self._fastest, seconds]))[: self.keep]
        bytes_ = np.concatenate([self._front[0], self.peak[which]])
        times = np.concatenate([self._front[1], seconds])
        order = np.lexsort((times, bytes_))
        bytes_, times = bytes_[order], np.minimum.accumulate(times[order])
        first = np.ones(len(times), dtype=bool)
        first[1:] = times[1:] < times[:-1]
        self._front = bytes_[first], times[first]

    def matters(self, which: NDArray[np.int64], bound: Array) -> NDArray[np.bool_]:
        """Whether plans can still enter the result, by the lower bounds of their times."""
        last = self._fastest[-1] if len(self._fastest) == self.keep else np.inf
        bound = bound * SLACK
        if not self.all:
            return np.asarray(bound <= last)
        at = np.searchsorted(self._front[0], self.peak[which], side="right") - 1
        beaten = np.where(at >= 0, self._front[1][at], np.inf) if len(self._front[1]) else np.full(len(which), np.inf)
        best = np.maximum(self._best[self.cell[which]], self._of_kind[self.kind[which]])
        return np.asarray((bound <= last) | (bound <= best) | (bound < beaten))


def rounds(
    plans: EvaluatedPlans, which: NDArray[np.int64], bound: Array, first: int, price: Callable[[NDArray[np.int64]], Any]
) -> Iterator[Any]:
    """Evaluates plans by ascending bound in growing batches, except those that cannot enter the result."""
    order = np.lexsort((which, bound))
    at, count = 0, first
    while at < len(order):
        own = order[at : at + count]
        at, count = at + count, min(LAST, 2 * count)
        asked = which[own][plans.matters(which[own], bound[own])]
        if len(asked):
            yield price(asked)
