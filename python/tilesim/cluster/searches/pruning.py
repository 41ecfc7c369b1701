"""Plans by rising lower bounds, those that cannot matter left out: not among the fastest, not the best of their tensor
and pipeline axes, and beaten in both time and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...machine.device import Device
from ..columns import Columns
from ..plan import OFFLOAD, RECOMPUTE
from ..terms import Pricer

__all__ = ["Found", "Peak", "rises", "rounds"]

Array = NDArray[np.float64]
#: of a bound, so that the last digits of sums in another order rule nothing out
SLACK = 1.0 - 1e-9
FIRST, LAST = 1 << 11, 1 << 16


class Peak:
    """Prices that nothing beats: products at the device's peak, attention in no time.

    The forms of a step rise with both, so a step of these prices is a lower bound of that with `Pricer`'s, except where
    one computing hides two things: see `rises`.
    """

    def __init__(self, price: Pricer) -> None:
        """Takes the place of prices."""
        self.device: Device = price.device
        self.dtype = price.dtype
        self.peak = max(rate.flops_per_second for rate in self.device.matrix.values())
        name = {"fp16": "f16", "fp32": "f32"}.get(self.dtype, self.dtype)
        if name in ("bf16", "f16") and name in self.device.matrix:
            self.peak = self.device.rate(name).flops_per_second

    def product(self, m: Array, n: Array, k: Array, batch: Array | float = 1.0) -> Array:
        """Seconds of products at the peak."""
        return np.asarray(m * n * k * batch * (2.0 / self.peak))

    def flash(self, batch: Array, *others: Array) -> Array:
        """Nothing."""
        return np.zeros(np.shape(batch))


def rises(c: Columns) -> NDArray[np.bool_]:
    """Whether the time of a plan rises with its prices. Attention hides the keys that go round, and launches by the
    host; a layer hides its parameters and what goes to the host, each as if the other were not.
    """
    away = (c.offload == OFFLOAD.index("activations")) | (c.recompute == RECOMPUTE.index("offload"))
    return np.asarray(((c.context == 1) | c.by_heads) & ~away)


class Found:
    """What is known of the plans of a search: which are priced, and which of the others may still matter."""

    def __init__(
        self, peak: Array, cell: NDArray[np.int64], keep: int, kind: NDArray[np.int64], all_: bool = True
    ) -> None:
        """Nothing is priced."""
        self.peak, self.cell, self.keep, self.kind, self.all = peak, cell, keep, kind, all_
        self.seconds = np.full(len(peak), np.inf)
        self.priced = np.zeros(len(peak), dtype=bool)
        self._best = np.full(int(cell.max(initial=-1)) + 1, np.inf)
        self._of_kind = np.full(int(kind.max(initial=-1)) + 1, np.inf)
        self._fastest = np.empty(0)
        self._front = np.empty(0), np.empty(0)  # bytes that rise, the least seconds with no more

    def put(self, which: NDArray[np.int64], seconds: Array) -> None:
        """Plans have been priced."""
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
        """Whether plans may still be wanted."""
        last = self._fastest[-1] if len(self._fastest) == self.keep else np.inf
        bound = bound * SLACK
        if not self.all:
            return np.asarray(bound <= last)
        at = np.searchsorted(self._front[0], self.peak[which], side="right") - 1
        beaten = np.where(at >= 0, self._front[1][at], np.inf) if len(self._front[1]) else np.full(len(which), np.inf)
        best = np.maximum(self._best[self.cell[which]], self._of_kind[self.kind[which]])
        return np.asarray((bound <= last) | (bound <= best) | (bound < beaten))


def rounds(
    found: Found, which: NDArray[np.int64], bound: Array, first: int, price: Callable[[NDArray[np.int64]], Any]
) -> Iterator[Any]:
    """Prices plans by rising bound, more of them each time, and asks before each time which still matter."""
    order = np.lexsort((which, bound))
    at, count = 0, first
    while at < len(order):
        own = order[at : at + count]
        at, count = at + count, min(LAST, 2 * count)
        asked = which[own][found.matters(which[own], bound[own])]
        if len(asked):
            yield price(asked)
