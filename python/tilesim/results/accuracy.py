"""Measures the errors of a quantized graph's outputs against its f32 form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..base.table import Table, Tabled

__all__ = ["Accuracy", "row_of"]


class Accuracy(Tabled):
    """Errors of a graph's outputs against those of a baseline graph (`Result.accuracy`)."""

    def __init__(self, data: dict[str, Any]) -> None:
        """Stores the JSON form."""
        self.data = data

    @property
    def against(self) -> str:
        """The baseline's name."""
        return str(self.data["against"])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows with output, elements, max_error and mean_error (absolute), largest (magnitude in the baseline),
        relative_error (root mean square of the errors over that of the values), snr_db (its inverse in dB; None for
        equal outputs), different (number of elements where one value is NaN or infinite and the other differs).
        """
        return list(self.data["rows"])

    @property
    def relative_error(self) -> float:
        """Largest relative error of all outputs, a ratio: root mean square of the error over that of the values."""
        return max((float(row["relative_error"]) for row in self.rows), default=0.0)

    @property
    def max_error(self) -> float:
        """The largest difference of an element of any output, in the output's own unit."""
        return max((float(row["max_error"]) for row in self.rows), default=0.0)

    @property
    def snr_db(self) -> float:
        """The lowest signal-to-noise ratio of all outputs, in decibels; infinite for equal outputs."""
        return min((math.inf if row["snr_db"] is None else float(row["snr_db"]) for row in self.rows), default=math.inf)

    def table(self) -> Table:
        """The rows as a table.

        Returns:
            A row per output.
        """
        return Table(self.rows)

    def __repr__(self) -> str:
        """The baseline and the worst error."""
        worst = "equal" if math.isinf(self.snr_db) else f"{100 * self.relative_error:.3g} % of the root mean square"
        signal = "" if math.isinf(self.snr_db) else f", {self.snr_db:.1f} dB"
        return f"against {self.against}: {worst}{signal}"


def row_of(name: str, values: ArrayLike, wanted: ArrayLike) -> dict[str, Any]:
    """Computes the errors of one output."""
    a, b = np.asarray(values).astype(np.float64), np.asarray(wanted).astype(np.float64)
    good = np.isfinite(a) & np.isfinite(b)
    other = int((~good & ~((a == b) | (np.isnan(a) & np.isnan(b)))).sum())
    off, values = np.abs(a[good] - b[good]), b[good]
    noise, signal = (float(np.sqrt(np.mean(x**2))) if x.size else 0.0 for x in (off, values))
    relative = 0.0 if noise == 0 else noise / signal if signal else 1.0
    return {
        "output": name,
        "elements": int(a.size),
        "max_error": float(off.max(initial=0.0)),
        "mean_error": float(off.mean()) if off.size else 0.0,
        "largest": float(np.abs(values).max(initial=0.0)),
        "relative_error": relative,
        "snr_db": -20 * math.log10(relative) if relative else None,
        "different": other,
    }
