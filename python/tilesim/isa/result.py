"""Results of instruction-level runs."""

from __future__ import annotations

import os
from typing import Any

from ..base.checked import checked_class
from ..base.errors import user_error
from ..base.table import Table, Tabled
from .views import marks_table, table_of, write_pipeline

__all__ = ["IsaResult", "trap_text"]


@checked_class()
class IsaResult(Tabled):
    """The result of an instruction-level run."""

    def __init__(
        self,
        data: dict[str, Any],
        value: Any = None,
        output: bytes = b"",
        errors: bytes = b"",
        recorded: dict[str, Any] | None = None,
    ) -> None:
        """Called by `run` and `call` with a run's data."""
        self.data, self.value, self.output, self.errors = data, value, output, errors
        self._recorded = recorded or {}

    @property
    def exit_status(self) -> int | None:
        """The program's exit code, 0 to 255; None if it trapped or reached the limit."""
        return self.data["exit_status"]

    @property
    def trap(self) -> dict[str, Any] | None:
        """Cause, detail, pc, address, instruction, symbol and line; None after a normal end."""
        return self.data["trap"]

    @property
    def instructions(self) -> int:
        """Number of executed instructions."""
        return int(self.data["instructions"])

    @property
    def vector_instructions(self) -> int:
        """Number of executed instructions that work on vector registers."""
        return int(self.data["vector_instructions"])

    @property
    def element_operations(self) -> int:
        """Number of elements (vl) of all vector instructions."""
        return int(self.data["element_operations"])

    @property
    def cycles(self) -> int | None:
        """Cycles of a timed run; None after a functional run."""
        return self.data["cycles"]

    @property
    def stalls(self) -> dict[str, dict[str, float]]:
        """Cycles of each unit by state in a timed run; a unit's states add up to `cycles`."""
        return {unit: dict(states) for unit, states in self.data["units"].items()}

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Function, instructions, cycles and lines of a timed run, most cycles first; cycles add up to `cycles`.

        An instruction is charged the cycles by which it moves the end of all before it.
        """
        return list(self.data["functions"])

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Function, line, instructions and cycles, most cycles first; empty where the program has no line numbers."""
        rows = [{"function": function["function"], **line} for function in self.functions for line in function["lines"]]
        return sorted(rows, key=lambda row: -row["cycles"])

    @property
    def marks(self) -> list[dict[str, Any]]:
        """Regions between `ts.mark n` and `ts.mark -n`, in the order of their beginnings; nested ones are listed
        separately.

        Region, path ("1/2": 2 within 1), times, open (it had not ended), instructions, vector_instructions,
        element_operations, bytes_moved (by DMA); of timed runs cycles, operations, bytes_loaded, bytes_stored, as
        `functions` and `roofline` count them, else None. Regions include those nested in them.
        """
        return [dict(row) for row in self.data["marks"]]

    def table(self, by: str = "function") -> Table:
        """The cycles of a timed run by function, line or region.

        Args:
            by: "function", "line", or "mark": regions that the program marked, of functional runs too.

        Returns:
            A row each, most cycles first, with its share of the cycles; of regions the columns of `marks`.

        Raises:
            UserError: for an unknown word.
        """
        if by not in ("function", "line", "mark"):
            raise user_error("unknown rows", place="by", value=by, allowed="function, line, mark")
        if by == "mark":
            return marks_table(self.marks)
        return table_of(self.functions if by == "function" else self.lines, self.cycles or 0)

    def roofline(self) -> dict[str, Any]:
        """Compares a timed run with the roofline of the core.

        Returns:
            operations (arithmetic on vector elements and scalar floats; a multiply-add is two, a moved element is
            zero, masked-off ones count), bytes_loaded, bytes_stored, operations_per_byte (none without bytes),
            operations_per_cycle, bytes_per_cycle, peak_operations_per_cycle (on elements of the run's width),
            peak_bytes_per_cycle, roof_operations_per_cycle, bound ("arithmetic" or "memory").

        Raises:
            UserError: for a functional run.
        """
        found = self.data.get("roofline")
        if found is None:
            raise user_error("a functional run has no cycles", suggestion="Run with timed=True")
        return dict(found)

    @property
    def pipeline(self) -> Table:
        """The first instructions of a run with `pipeline=`: cycles of issue, dispatch, start and end of each.

        Times in cycles; its result is available at `result`; it waited longest for `waited_for`, `waited` cycles.
        """
        return Table(list(self._record("log", "pipeline=10_000")))

    def write_pipeline(self, path: str | os.PathLike[str]) -> int:
        """Writes the rows of `pipeline` to a file.

        Args:
            path: file to write: .kanata or .konata for the viewer Konata, else text.

        Returns:
            The number of omitted instructions.

        Raises:
            UserError: when none were kept (`run(..., pipeline=10_000)`), or the file cannot be written.
        """
        log = self._record("log", "pipeline=10_000")
        write_pipeline(log, f"{self.data['core']}, VLEN {self.data['vlen']:,}", path)
        left: int = log.left_out
        return left

    def timeline(self, path: str | os.PathLike[str]) -> int:
        """Writes a trace for Perfetto: a track for the functions, one for each unit; a nanosecond is a cycle.

        Args:
            path: file to write: .pftrace, .perfetto-trace, .perfetto, .trace, .pb, no ending, or .json (trace events).

        Returns:
            The number of omitted instructions: a trace holds about a million intervals.

        Raises:
            UserError: when none were kept (`run(..., timeline=True)`), for another ending.
        """
        from ..results.perfetto import write_trace

        trace = self._record("trace", "timeline=True")
        write_trace(trace, path)
        return int(trace["left_out"])

    def _record(self, what: str, how: str) -> Any:
        if what not in self._recorded:
            raise user_error("the run did not record this", suggestion=f"Run with timed=True, {how}")
        return self._recorded[what]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form, `tilesim.isa_run` version 1.

        Returns:
            A dict of plain values.
        """
        return dict(self.data)

    def __repr__(self) -> str:
        """Describes the result in one line."""
        if self.trap is not None:
            return f"<{trap_text(self.trap)}, after {self.instructions:,} instructions>"
        ended = f"exit {self.exit_status}" if self.value is None else f"value {self.value!r}"
        return f"<{ended}, {self.instructions:,} instructions, {self.vector_instructions:,} of them vector>"


def trap_text(trap: dict[str, Any]) -> str:
    """Describes a trap in one line: cause, detail, address, instruction, place."""
    text = trap["cause"] + (f": {trap['detail']}" if trap["detail"] else "")
    if trap["address"] is not None:
        text += f", address {trap['address']:#x}"
    text += f" at {trap['pc']:#x}"
    place = ", ".join(part for part in (trap["symbol"], trap["line"]) if part)
    text += f" ({place})" if place else ""
    return text + (f", in '{trap['instruction']}'" if trap["instruction"] else "")
