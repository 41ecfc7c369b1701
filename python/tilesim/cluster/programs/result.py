"""Result of a step of a program for several devices."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...base import figures
from ...base.errors import user_error
from ...base.table import Table
from ..advice import LEAST, NOT_AGAIN
from ..chakra.replayed import Replay, recorded
from ..memory import GIB
from ..result import StepResult
from ..trace import Trace
from ..views.breakdown import Breakdown
from ..views.parts import PROGRAM_PARTS, parts_table
from ..views.text import headline

__all__ = ["ProgramResult"]


@dataclass(frozen=True, repr=False)
class ProgramResult(StepResult):
    """Time and memory of one step of a program for several devices.

    `parts` sum to `seconds` of the class of devices that ends last: compute, exposed communication of each dimension of
    the network, waiting. `segments` has the predictions, `notes` the assumptions; the first `devices` of
    `cluster_devices` run the program; `exchanges` (predictor engine) has each distinct communication, simulated inside
    a device.
    """

    replayed: Replay | None = field(default=None, repr=False, compare=False)
    segments: Table = field(default_factory=lambda: Table([]), repr=False, compare=False)
    exchanges: Table = field(default_factory=lambda: Table([]), repr=False)
    segments_distinct: int = 0
    segments_count: int = 0
    kernels: int = 0
    kernel_bytes: float = 0.0
    notes: list[str] = field(default_factory=list)
    cluster_devices: int = 0
    others: Callable[[], dict[str, float]] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for pickling, without the function that repeats the step with other overlaps."""
        return {**super().__getstate__(), "others": None}

    @property
    def exposed_seconds(self) -> float:
        """Seconds of exposed communication."""
        return sum(value for name, value in self.parts.items() if name.startswith("network"))

    @property
    def bubble_seconds(self) -> float:
        """Seconds in which devices wait for each other."""
        return self.parts["wait"]

    def table(self) -> Table:
        """Parts of the step, the largest first."""
        return parts_table(self)

    @property
    def breakdown(self) -> Breakdown:
        """Parts of the step's time: segments, launches, waiting, and exposed communication of each dimension of the
        network; rows sum to `seconds`. It prints as bars; `.plot()` draws it."""
        rows = []
        for row in self.table():
            passes = row["part"] not in PROGRAM_PARTS  # communication parts have the name of their dimension's stream
            rows.append({**row, "part": "exposed" if passes else row["part"],
                         "dimension": row["part"] if passes else ""})  # fmt: skip
        return Breakdown(rows, f"{self.workload.name} on {self.devices:,} × {self.device}: "
                         f"{figures.duration(self.seconds)}")  # fmt: skip

    def advice(self) -> Table:
        """Lists faster alternatives; runs the step with each other overlap."""
        if self.others is None:
            return Table([], empty=NOT_AGAIN)
        rows = []
        for overlap, seconds in self.others().items():
            if self.seconds and (gain := 1 - seconds / self.seconds) >= LEAST:
                fits = not self.memory_bytes or self.peak_bytes <= self.memory_bytes
                rows.append({"kind": "overlap", "change": f"overlap={overlap}", "seconds": seconds, "gain": gain,
                             "peak_bytes": self.peak_bytes, "fits": fits})  # fmt: skip
        return Table(sorted(rows, key=lambda row: -row["gain"]), empty="no other overlap gains half a percent")

    def to_trace(self) -> Trace:
        """Returns a trace of each device class, for `ts.cluster.to_chakra` and `ts.cluster.replay`."""
        return recorded(self._replay())

    def explain(self) -> str:
        """Describes parts of the time, predictions, and the computed times of other overlaps."""
        lines = [
            headline(self),
            f"predictor {self.predictor}, network {self.network}, overlap {self.overlap}",
            f"{self.segments_distinct} distinct of {self.segments_count} segments predicted; {self.kernels:,} kernels "
            f"move {self.kernel_bytes / 1e9:,.2f} GB on a device",
        ]
        lines += [
            f"  {row['share']:6.1%}  {row['part']}: {row['seconds'] * 1e3:,.3f} ms, {row['what']}"
            for row in self.table()
        ]
        lines += [_inside(row) for row in self.exchanges]
        kept = ", ".join(f"{name} {value / GIB:.2f}" for name, value in self.memory.items() if value)
        room = "" if self.fits else f", which exceed the memory of {self.memory_bytes / GIB:.2f}"
        lines.append(f"  {self.peak_bytes / GIB:.2f} GiB on the fullest device{room}: {kept}")
        for overlap, seconds in (self.others() if self.others else {}).items():
            lines.append(f"  overlap {overlap}: {seconds * 1e3:,.3f} ms")
        return "\n".join(lines + [f"  {note}" for note in self.notes])

    def timeline(self, path: str | os.PathLike[str]) -> None:
        """Writes trace events for Perfetto: a process per class of devices, a track per stream."""
        self._replay().timeline(path)

    def _replay(self) -> Replay:
        if self.replayed is None:
            raise user_error(NOT_AGAIN, suggestion="ts.cluster.step(...) computes one with its timeline")
        return self.replayed

    def to_dict(self) -> dict[str, Any]:
        """Converts all figures to the schema `tilesim.cluster_result`."""
        names = ("cluster_devices", "segments_distinct", "segments_count", "kernels", "kernel_bytes", "notes")
        return {
            **super().to_dict(),
            **{name: getattr(self, name) for name in names},
            "segments": self.segments.rows,
            "exchanges": self.exchanges.rows,
        }


def _inside(row: dict[str, Any]) -> str:
    busy = ", ".join(f"{name} {figures.duration(row[f'{name}_seconds'])}" for name in ("link", "memory", "compute"))
    return (f"  {row['op']} of {row['bytes']:,} bytes: {figures.duration(row['seconds'])} inside the device, "
            f"{figures.duration(row['network_seconds'])} on the network; busy: {busy}")  # fmt: skip
