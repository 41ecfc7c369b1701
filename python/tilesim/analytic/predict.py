"""One predictor per kind of measured table: which rows share constants, what is free, and their seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..device import Device
from . import gemm
from .families import Entry
from .profile import Profile
from .schemes import scheme
from .tables import Measured

__all__ = ["PREDICTORS", "Batch", "Predictor"]

Array = NDArray[np.float64]
Model = Callable[[dict[str, float] | None], Array]


@dataclass
class Batch:
    """Rows that share device, scheme, engine and source."""

    rows: list[Measured]
    profile: Profile | None = None

    def column(self, name: str, standard: float = 1.0) -> Array:
        """A column as numbers, shape [rows]."""
        return np.array([row.numbers.get(name, standard) for row in self.rows])

    def text(self, name: str) -> str:
        """A text that all rows share."""
        return self.rows[0].text(name)


class Predictor(Protocol):
    """What validation and calibration need of a kind of table."""

    infos: Mapping[str, Mapping[str, Any]]
    first: tuple[str, ...]
    common: tuple[str, ...]

    def key(self, row: Measured) -> tuple[Any, ...]:
        """Rows of equal keys share constants."""

    def model(self, batch: Batch) -> Model:
        """Seconds per row, shape [rows], from constants that replace those of the entry."""

    def entry(self, batch: Batch) -> Entry:
        """The constants that `seconds` starts from."""

    def free(self, batch: Batch) -> list[str]:
        """Names of constants that could be fitted."""


class GemmPredictor:
    """Matrix products."""

    infos: Mapping[str, Mapping[str, Any]] = gemm.CONSTANTS
    # what few rows could tell apart, and what schemes of one source share
    first = ("launch", "efficiency", "droop")
    common = ("launch",)

    def key(self, row: Measured) -> tuple[Any, ...]:
        """source, engine, device, scheme."""
        return (row.text("source"), row.text("engine"), row.text("device"), row.text("dtype"))

    def _estimator(self, batch: Batch) -> gemm.GemmEstimator:
        return gemm.estimator(
            batch.text("device"),
            batch.text("dtype"),
            engine=batch.text("engine"),
            source=batch.text("source"),
            profile=batch.profile,
        )

    def model(self, batch: Batch) -> Model:
        """Seconds per row from constants that replace those of the entry."""
        found = self._estimator(batch)
        columns = [batch.column("batch"), *(batch.column(name) for name in "mnk")]
        return lambda constants: np.asarray(found.core(constants).seconds(*columns))

    def entry(self, batch: Batch) -> Entry:
        """The constants that `seconds` starts from, for the rows' device and scheme."""
        found = self._estimator(batch)
        return Entry(
            "gemm",
            found.scheme.name,
            batch.text("engine"),
            batch.text("source"),
            found.device.name,
            found.entry.constants,
            found.entry.provenance,
            found.entry.kernels,
        )

    def free(self, batch: Batch) -> list[str]:
        """Names of constants that could be fitted."""
        device = Device.load(batch.text("device"))
        how = scheme(batch.text("dtype"), device)
        menu = gemm.kernels(self._estimator(batch).entry.kernels)
        names = list(self.infos)
        if how.cast_bytes <= 0:
            names = [name for name in names if not name.startswith("cast")]
        if not any(row[0] == 0 for row in menu):
            names = [name for name in names if not name.startswith("vector")]
        if all(row[3] < 2 for row in menu):
            names = [name for name in names if name != "split"]
        return names


PREDICTORS: dict[str, Any] = {"gemm": GemmPredictor()}
