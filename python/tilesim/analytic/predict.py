"""Predictors of measured tables, one per kind: grouping of rows, free constants, and seconds per row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import unknown
from ..machine.device import Device
from . import attention, conv, gemm, vector
from .constants import standard
from .families import Entry, protocol
from .measured.tables import MeasuredRow
from .profile import Profile
from .schemes import scheme

__all__ = ["PREDICTORS", "Batch", "TablePredictor"]

Array = NDArray[np.float64]
Model = Callable[[dict[str, float] | None], Array]


@dataclass
class Batch:
    """Rows that share device, scheme, engine and source."""

    rows: list[MeasuredRow]
    profile: Profile | None = None

    def column(self, name: str, standard: float = 1.0) -> Array:
        """Returns a column as numbers, shape [rows]; absent cells get the value `standard`."""
        return np.array([row.numbers.get(name, standard) for row in self.rows])

    def text(self, name: str) -> str:
        """Returns the text of a column in which all rows agree."""
        return self.rows[0].text(name)


def _entry_of(operation: str, found: gemm.GemmEstimator, batch: Batch) -> Entry:
    """Returns an estimator's constants as an entry for the rows of a batch."""
    entry = found.entry
    rest = (found.device.name, entry.constants, entry.provenance, entry.kernels)
    return Entry(operation, found.scheme.name, batch.text("engine"), batch.text("source"), *rest)


class TablePredictor:
    """Base class: the parts of validation and calibration that depend on the kind of table."""

    infos: Mapping[str, Mapping[str, Any]]
    first: tuple[str, ...]  # constants that few rows can determine
    common: tuple[str, ...] = ("launch",)  # constants that the schemes of one source share

    def key(self, row: MeasuredRow) -> tuple[Any, ...]:
        """Returns a row's key; rows with equal keys share constants."""
        return tuple(row.text(name) for name in ("source", "engine", "device", "dtype"))

    def model(self, batch: Batch) -> Model:
        """Returns a function from replaced constants to seconds per row, shape [rows]."""
        raise NotImplementedError

    def entry(self, batch: Batch) -> Entry:
        """Returns the constants of `model` for the rows' device and scheme."""
        raise NotImplementedError

    def standard(self, batch: Batch) -> dict[str, float]:
        """Returns unfitted constants for the rows' device and scheme."""
        return _defaults(self.infos)

    def free(self, batch: Batch) -> list[str]:
        """Returns the names of the constants that a fit may change."""
        return list(self.infos)


def _defaults(infos: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    return {name: float(info["default"]) for name, info in infos.items()}


class GemmPredictor(TablePredictor):
    """Predicts rows of matrix products."""

    infos: Mapping[str, Mapping[str, Any]] = gemm.CONSTANTS
    first = ("launch", "efficiency", "energy", "epilogue", "vector_rate")

    def _estimator(self, batch: Batch) -> gemm.GemmEstimator:
        device, dtype, engine, source = (batch.text(name) for name in ("device", "dtype", "engine", "source"))
        return gemm.estimator(Device.named(device), dtype, engine=engine, source=source, profile=batch.profile)

    def model(self, batch: Batch) -> Model:
        found = self._estimator(batch)
        columns = [batch.column("batch"), *(batch.column(name) for name in "mnk")]
        return lambda constants: np.asarray(found.core(constants).seconds(*columns))

    def entry(self, batch: Batch) -> Entry:
        return _entry_of("gemm", self._estimator(batch), batch)

    def standard(self, batch: Batch) -> dict[str, float]:
        device = Device.named(batch.text("device"))
        how = protocol(batch.text("engine") or batch.text("source"))
        return standard(device, scheme(batch.text("dtype"), device), how.casts)

    def free(self, batch: Batch) -> list[str]:
        device = Device.named(batch.text("device"))
        how = scheme(batch.text("dtype"), device)
        menu = gemm.kernels(self._estimator(batch).entry.kernels)
        names = list(self.infos)
        if how.cast_bytes <= 0:
            names = [name for name in names if not name.startswith("cast")]
        if not self._estimator(batch).widens:
            names.remove("convert")
        if not self._estimator(batch).packs:
            names.remove("far")
        if not any(row[0] == 0 for row in menu):
            names = [name for name in names if not name.startswith("vector")]
        if all(row[3] < 2 for row in menu):
            names = [name for name in names if name != "split"]
        return names


class AttentionPredictor(TablePredictor):
    """Predicts rows of attention kernels: prefill (`context`) and decode (`generation`)."""

    infos: Mapping[str, Mapping[str, Any]] = attention.CONSTANTS
    first = ("launch", "efficiency", "memory_share", "tile")

    def key(self, row: MeasuredRow) -> tuple[Any, ...]:
        """Returns a row's key: source, engine, device, phase and dtypes."""
        names = ("source", "engine", "device", "phase", "attn_dtype", "kv_cache_dtype")
        return tuple(row.text(name) for name in names)

    def _phase(self, batch: Batch) -> str:
        phases = {"context": "prefill", "generation": "decode"}
        given = batch.text("phase")
        if given not in phases:
            raise unknown("phase", given, phases)
        return phases[given]

    def entry(self, batch: Batch) -> Entry:
        device = Device.named(batch.text("device"))
        names = batch.text("attn_dtype"), batch.text("kv_cache_dtype")
        return attention.constants_of(device, self._phase(batch), *names, batch.text("engine"), batch.profile)

    def model(self, batch: Batch) -> Model:
        device, entry = Device.named(batch.text("device")), self.entry(batch)
        queries = batch.column("isl")
        cases = attention.AttentionCases(
            batch.column("batch_size"),
            queries,
            queries + batch.column("step", 0.0),
            batch.column("num_heads"),
            batch.column("num_key_value_heads"),
            batch.column("head_dim"),
            batch.column("window_size", 0.0),
        )
        names = batch.text("attn_dtype"), batch.text("kv_cache_dtype")

        def seconds(constants: dict[str, float] | None) -> Array:
            if constants is None:
                return attention.call_terms(device, cases, *names, batch.text("engine"), batch.profile)["total"]
            return attention.attention_terms(device, cases, *names, {**entry.constants, **constants})["total"]

        return seconds


class ConvPredictor(TablePredictor):
    """Predicts rows of square 2-D convolutions."""

    infos: Mapping[str, Mapping[str, Any]] = conv.CONSTANTS
    first = ("launch", "efficiency", "taps_share", "winograd")

    def _estimator(self, batch: Batch) -> gemm.GemmEstimator:
        device, dtype, engine, source = (batch.text(name) for name in ("device", "dtype", "engine", "source"))
        return conv.estimator_of(Device.named(device), dtype, engine, source, batch.profile)

    def entry(self, batch: Batch) -> Entry:
        return _entry_of("conv", self._estimator(batch), batch)

    def model(self, batch: Batch) -> Model:
        found = self._estimator(batch)
        names = ("batch", "in_channels", "out_channels", "size", "kernel", "stride", "padding")
        cases = conv.ConvCases(*(batch.column(name, 0.0) for name in names))
        return lambda constants: conv.conv_terms(found, cases, constants)["total"]

    def standard(self, batch: Batch) -> dict[str, float]:
        device = Device.named(batch.text("device"))
        return {**_defaults(self.infos), **standard(device, scheme(batch.text("dtype"), device))}

    def free(self, batch: Batch) -> list[str]:
        return [name for name in self.infos if not name.startswith(("cast", "vector", "convert", "far"))]


class VectorPredictor(TablePredictor):
    """Predicts rows of elementwise operations, softmax and normalization."""

    infos: Mapping[str, Mapping[str, Any]] = vector.CONSTANTS
    first = ("launch", "memory_share", "row", "cache_share", "narrow")

    def key(self, row: MeasuredRow) -> tuple[Any, ...]:
        """Returns the usual key, followed by the operation's class."""
        return (*super().key(row), vector.OPERATIONS.get(row.text("op"), (row.text("op"),))[0])

    def entry(self, batch: Batch) -> Entry:
        device = Device.named(batch.text("device"))
        op, dtype, engine, source = (batch.text(name) for name in ("op", "dtype", "engine", "source"))
        return vector.constants_of(device, op, dtype, engine, source, batch.profile)

    def model(self, batch: Batch) -> Model:
        device, entry = Device.named(batch.text("device")), self.entry(batch)
        parts: dict[str, list[int]] = {}
        for index, row in enumerate(batch.rows):
            parts.setdefault(row.text("op"), []).append(index)
        rows, width = batch.column("rows"), batch.column("width")

        def seconds(constants: dict[str, float] | None) -> Array:
            values = {**entry.constants, **(constants or {})}
            out = np.empty(len(rows))
            for op, chosen in parts.items():
                terms = vector.vector_terms(device, op, rows[chosen], width[chosen], batch.text("dtype"), values)
                out[chosen] = terms["total"]
            return out

        return seconds

    def free(self, batch: Batch) -> list[str]:
        by_row = vector.OPERATIONS[vector.operation(batch.text("op"))][0] in ("softmax", "ln")
        return [name for name in self.infos if by_row or name not in ("row", "narrow")]


PREDICTORS: dict[str, TablePredictor] = {
    "gemm": GemmPredictor(),
    "attention": AttentionPredictor(),
    "conv": ConvPredictor(),
    "vector": VectorPredictor(),
}
