"""Compares closed-form models with measured tables, in the common format of validation reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..analytic.families import family, row_key
from ..analytic.measured.tables import MeasuredRow, cells_of, group_key, read
from ..analytic.predict import PREDICTORS, Batch
from ..analytic.profile import Profile
from ..base.errors import Unsupported, UserError
from ..base.validation import envelope
from ..machine.device import Device

__all__ = ["validate"]


def predictions(table: str, rows: Sequence[MeasuredRow], profile: Profile | None) -> list[float | None]:
    """Returns predicted seconds per row; sets status and reason of rows without a prediction (None)."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    predictor = PREDICTORS[table]
    for index, row in enumerate(rows):
        if row.status == "ok":
            groups.setdefault(predictor.key(row), []).append(index)
    seconds: list[float | None] = [None] * len(rows)
    for members in groups.values():
        try:
            values = predictor.model(Batch([rows[i] for i in members], profile))(None)
        except UserError as error:
            kind = "unsupported" if isinstance(error, Unsupported) else "invalid"
            for i in members:
                rows[i].status, rows[i].reason = kind, str(error)
            continue
        for i, value in zip(members, values, strict=True):
            if np.isfinite(value) and value > 0:
                seconds[i] = float(value)
            else:
                rows[i].status, rows[i].reason = "unsupported", "no kernel supports this shape"
    return seconds


def validate(
    table: str,
    cases: str | os.PathLike[str],
    device: str = "auto",
    profile: Profile | str | os.PathLike[str] | None = None,
) -> dict[str, Any]:
    """Predicts every row of a measured table."""
    constants = Profile.open(profile)
    rows = read(table, cases, device)
    seconds = predictions(table, rows, constants)
    out = []
    fitted = _fitted(table, constants)
    for row, value in zip(rows, seconds, strict=True):
        measured = row.numbers.get("latency_ms")
        ok = row.status == "ok" and value is not None and measured is not None
        predicted = value * 1e3 if ok and value is not None else None
        out.append(
            {
                **row.cells,
                "status": row.status,
                "reason": row.reason,
                "measured_ms": measured,
                "predicted_ms": predicted,
                "error": predicted / measured - 1 if predicted is not None and measured else None,
                "fitted": fitted(row),
            }
        )
    settings = {"device": device, "profile": constants.name if constants else None, "tilesim": _core.__version__}
    return envelope(table, settings, out, group_key)


def judged(rows: Sequence[MeasuredRow], predicted: Sequence[float]) -> list[dict[str, Any]]:
    """Returns the rows of a validation report from predicted seconds."""
    return [
        {
            **row.cells,
            "status": row.status,
            "measured_ms": row.numbers["latency_ms"],
            "predicted_ms": float(value) * 1e3,
        }
        for row, value in zip(rows, predicted, strict=True)
    ]


def _fitted(table: str, profile: Profile | None) -> Callable[[MeasuredRow], bool]:
    families: dict[str, frozenset[int]] = {}

    def known(row: MeasuredRow) -> bool:
        key = row_key(cells_of(table, row))
        if profile is not None and key in profile.fitted_rows:
            return True
        name = row.text("device")
        if name not in families:
            try:
                families[name] = family(Device.named(name).family).fitted_rows
            except UserError:
                families[name] = frozenset()
        return key in families[name]

    return known


def decisions(report: dict[str, Any], baseline: str = "bfloat16", clear: float = 1.1) -> dict[str, dict[str, float]]:
    """Returns, by scheme, the share of shapes where the predicted faster one of scheme and baseline is right."""
    shape = ("source", "engine", "device", "batch", "m", "n", "k", "ta", "tb")
    base: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in report["rows"]:
        if row["dtype"] == baseline and row["status"] == "ok":
            base[tuple(row.get(key) for key in shape)] = row
    asked: dict[str, list[tuple[bool, bool, bool]]] = {}
    for row in report["rows"]:
        against = base.get(tuple(row.get(key) for key in shape))
        if row["dtype"] == baseline or against is None or row["measured_ms"] in (None, against["measured_ms"]):
            continue
        ratio = against["measured_ms"] / row["measured_ms"]
        helps = ratio > 1
        said = row["status"] == "ok" and row["predicted_ms"] < against["predicted_ms"]
        asked.setdefault(group_key(row), []).append((helps, said == helps, max(ratio, 1 / ratio) >= clear))
    result = {}
    for key, answers in asked.items():
        helped = [answer[0] for answer in answers]
        certain = [answer[1] for answer in answers if answer[2]]
        result[key] = {
            "n": len(answers),
            "right": sum(answer[1] for answer in answers) / len(answers),
            "n_clear": len(certain),
            "right_clear": sum(certain) / len(certain) if certain else 0.0,
            "majority": max(sum(helped), len(helped) - sum(helped)) / len(helped),
            "helps": sum(helped) / len(helped),
        }
    return result
