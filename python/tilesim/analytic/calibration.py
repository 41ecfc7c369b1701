"""Calibrates a device: fits its constants to measured rows, and states the error on held-out rows."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..base.checked import checked
from ..base.errors import path_text, unknown
from ..graph import user_error
from ..machine.device import Device
from . import gemm
from .families import Entry, family, row_key
from .fit import Fit, fit, statistics
from .measured.tables import COLUMNS, MeasuredRow, cells_of, check_header, kinds_of, read
from .predict import PREDICTORS, Batch
from .profile import Profile

__all__ = ["calibrate", "left_out"]

HOLDOUTS = ("rows", "size", "dtype", "device", "family", "specification", "none")
FOLDS = 8  # largest number of folds
SMALL = 10  # a scheme with fewer rows shares a fit with other schemes of its source
FEWEST = 4  # a scheme with fewer rows is not fitted


def _table_of(path: str | os.PathLike[str]) -> str:
    kinds, header = kinds_of(path)
    if kinds:  # the file has a public format
        return kinds[0]
    for table in ("attention", "conv", "vector", "gemm"):
        own = {"attention": "num_heads", "conv": "in_channels", "vector": "op", "gemm": "m"}[table]
        if own in header:
            return table
    check_header(path_text(path), header)
    raise user_error(
        "no table with these columns can be fitted",
        place=path_text(path),
        value=", ".join(header),
        allowed="; ".join(", ".join(columns[0]) for columns in COLUMNS.values()),
    )


def _check(table: str, rows: Sequence[MeasuredRow], path: str) -> None:
    seen: dict[tuple[Any, ...], int] = {}
    for row in rows:
        if row.status != "ok":
            raise user_error("invalid row", place=f"{path}:{row.line}", value=row.reason.partition(": ")[2])
        key = tuple(str(row.cells.get(name)) for part in COLUMNS[table] for name in part if name != "latency_ms")
        if key in seen:
            raise user_error(
                "duplicate measurement",
                place=f"{path}:{row.line}",
                value=", ".join(key[:8]),
                suggestion=f"Line {seen[key]} has the same columns: keep one, or their mean",
            )
        seen[key] = row.line


def _unit_is_plausible(predicted: Any, measured: Any, path: str) -> None:
    ratio = float(np.median(predicted / measured))
    if not 1 / 300 < ratio < 300:
        raise user_error(
            "the times seem to have another unit",
            place=path,
            value=f"the median is {1 / ratio:.3g} times what the specification suggests",
            allowed="latency_ms in milliseconds",
        )


def _label(table: str, group: Sequence[MeasuredRow]) -> str:
    return "|".join(part for part in map(str, PREDICTORS[table].key(group[0])) if part)


def _groups(table: str, rows: Sequence[MeasuredRow]) -> list[list[MeasuredRow]]:
    return [[rows[i] for i in members] for members in _members(table, rows, range(len(rows))).values()]


def _members(table: str, rows: Sequence[MeasuredRow], chosen: Iterable[int]) -> dict[tuple[Any, ...], list[int]]:
    """Groups the indices of the chosen rows by the key whose constants they share."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for index in chosen:
        found.setdefault(PREDICTORS[table].key(rows[index]), []).append(index)
    return found


def _start(table: str, rows: list[MeasuredRow], blind: bool) -> Entry:
    """Returns the start of a fit; if `blind`, standard constants if the family's were fitted on any of these rows."""
    entry: Entry = PREDICTORS[table].entry(Batch(rows))
    known = family(Device.named(rows[0].text("device")).family).fitted_rows
    if not blind or not any(row_key(cells_of(table, row)) in known for row in rows):
        return entry
    return replace(entry, constants=PREDICTORS[table].standard(Batch(rows)), provenance={})


def _fit_group(table: str, rows: list[MeasuredRow], blind: bool = False) -> tuple[Entry, Fit]:
    predictor = PREDICTORS[table]
    batch = Batch(rows)
    entry = _start(table, rows, blind)
    measured = np.array([row.seconds for row in rows])
    free = predictor.free(batch)
    if 3 * len(rows) < 4 * len(free):  # too few rows to determine all constants
        free = [name for name in free if name in predictor.first][: max(1, len(rows) // 2)]
    result = fit(
        predictor.model(batch),
        measured,
        entry.constants,
        free,
        predictor.infos,
        tries=5 if len(rows) < 200 else 2 if blind else 1,
        evaluations=80 if len(rows) < 200 else 60,
    )
    provenance = {
        name: f"fitted on {len(rows)} rows" if result.determined.get(name) else entry.provenance.get(name, "default")
        for name in result.constants
    }
    return replace(
        entry, constants=result.constants, provenance=provenance, rows=len(rows), fit_error=result.error
    ), result


def _fit_together(table: str, groups: list[list[MeasuredRow]], blind: bool = False) -> list[tuple[Entry, Fit]]:
    """Fits schemes of one source with few rows each: they share the launch constant, others are per scheme."""
    predictor = PREDICTORS[table]
    entries = [_start(table, rows, blind) for rows in groups]
    models = [predictor.model(Batch(rows)) for rows in groups]
    own = [
        [name for name in predictor.first if name not in predictor.common and name in predictor.free(Batch(rows))]
        for rows in groups
    ]
    start, infos = {}, {}
    for name in predictor.common:
        start[name] = float(np.median([entry.constants[name] for entry in entries]))
        infos[name] = predictor.infos[name]
    for index, entry in enumerate(entries):
        for name in own[index]:
            start[f"{index}.{name}"], infos[f"{index}.{name}"] = entry.constants[name], predictor.infos[name]

    def constants_of(index: int, values: dict[str, float]) -> dict[str, float]:
        mine = {name: values[f"{index}.{name}"] for name in own[index]}
        return {**entries[index].constants, **{name: values[name] for name in predictor.common}, **mine}

    measured = np.array([row.seconds for rows in groups for row in rows])
    found = fit(
        lambda values: np.concatenate([model(constants_of(i, values)) for i, model in enumerate(models)]),
        measured,
        start,
        list(start),
        infos,
    )
    out = []
    for index, (entry, rows) in enumerate(zip(entries, groups, strict=True)):
        values = constants_of(index, found.constants)
        shown = {name: found.determined[name] for name in predictor.common}
        shown.update({name: found.determined[f"{index}.{name}"] for name in own[index]})
        error = statistics(models[index](values), np.array([row.seconds for row in rows]))
        count = len(measured)
        origin = {
            name: f"fitted on {count if name in predictor.common else len(rows)} rows"
            if shown.get(name)
            else entry.provenance.get(name, "default")
            for name in values
        }
        made = replace(entry, constants=values, provenance=origin, rows=len(rows), fit_error=error)
        out.append((made, Fit(values, shown, error)))
    return out


def _fit_all(table: str, groups: list[list[MeasuredRow]], blind: bool = False) -> list[tuple[Entry, Fit]]:
    small: dict[tuple[str, ...], list[int]] = {}
    out: list[Any] = [None] * len(groups)
    for index, rows in enumerate(groups):
        if len(rows) < SMALL:
            small.setdefault(tuple(rows[0].text(name) for name in ("source", "engine", "device")), []).append(index)
        else:
            out[index] = _fit_group(table, rows, blind)
    for members in small.values():
        for index, made in zip(members, _fit_together(table, [groups[i] for i in members], blind), strict=True):
            out[index] = made
    return out


def _size(row: MeasuredRow) -> int:
    volume = 1.0
    for name, value in row.numbers.items():
        if name not in ("latency_ms", "ta", "tb", "padding", "stride", "window_size") and value > 0:
            volume *= value
    return round(math.log2(volume))


def _fold_of(holdout: str, table: str) -> Callable[[MeasuredRow], Any]:
    if holdout == "size":
        return _size
    if holdout == "dtype":
        return lambda row: row.text("dtype") or row.text("attn_dtype")
    if holdout in ("device", "specification"):
        return lambda row: Device.named(row.text("device")).name
    if holdout == "family":
        return lambda row: Device.named(row.text("device")).family
    return lambda row: row_key(cells_of(table, row)) % 2


def _folds(rows: Sequence[MeasuredRow], part: Callable[[MeasuredRow], Any]) -> list[list[int]]:
    parts: dict[Any, list[int]] = {}
    for index, row in enumerate(rows):
        parts.setdefault(part(row), []).append(index)
    ordered = [parts[key] for key in sorted(parts, key=str)]
    if len(ordered) > FOLDS:
        ordered = [[index for part in ordered[i::FOLDS] for index in part] for i in range(FOLDS)]
    return ordered


def _carried(table: str, batch: list[MeasuredRow], rest: list[MeasuredRow], holdout: str) -> Profile:
    """Returns a profile for held-out rows, fitted on other rows of the most similar scheme."""
    predictor = PREDICTORS[table]
    own = replace(predictor.entry(Batch(batch)), constants=predictor.standard(Batch(batch)))
    groups = [] if holdout == "specification" else [g for g in _groups(table, rest) if len(g) >= FEWEST]
    schemes = [predictor.entry(Batch(group)).scheme for group in groups]
    for name in (own.scheme, *gemm.nearest_schemes(own.scheme), *schemes):
        near = [group for group, of in zip(groups, schemes, strict=True) if of == name]
        if near:
            found = _shared(table, near, own.constants)
            if own.engine not in {group[0].text("engine") for group in near}:  # keeps cast costs of the engine
                found.update({key: value for key, value in own.constants.items() if key.startswith("cast")})
            return Profile("carried", [replace(own, constants=found)])
    return Profile("specification", [own])


def _shared(table: str, groups: list[list[MeasuredRow]], start: Mapping[str, float]) -> dict[str, float]:
    """Fits one set of constants to several groups of rows."""
    predictor = PREDICTORS[table]
    models = [predictor.model(Batch(rows)) for rows in groups]
    free = [set(predictor.free(Batch(rows))) for rows in groups]
    names = [name for name in predictor.infos if name in set.intersection(*free)]
    measured = np.array([row.seconds for rows in groups for row in rows])
    if len(measured) < 2 * len(names):
        names = [name for name in names if name in predictor.first]

    def predict(values: dict[str, float]) -> np.ndarray:
        return np.concatenate([model(values) for model in models])

    return fit(predict, measured, start, names, predictor.infos, evaluations=30).constants


def left_out(table: str, rows: list[MeasuredRow], holdout: str) -> tuple[list[dict[str, Any]], np.ndarray]:
    """Predicts each row with constants fitted without it; returns error statistics and seconds [rows]."""
    predictor = PREDICTORS[table]
    predicted = np.full(len(rows), np.nan)
    folds = _folds(rows, _fold_of(holdout, table))
    if len(folds) < 2 and holdout != "specification":
        raise user_error(
            f"rows cannot be held out by {holdout}",
            value="all rows are alike",
            allowed=", ".join(HOLDOUTS),
            suggestion="Give rows of several kinds, or another holdout",
        )
    for fold in folds:
        away = set(fold)
        rest = [row for index, row in enumerate(rows) if index not in away]
        entries = []
        if holdout in ("rows", "size"):
            groups = [group for group in _groups(table, rest) if len(group) >= FEWEST]
            entries = [entry for entry, _ in _fit_all(table, groups, blind=True)]
        for members in _members(table, rows, fold).values():
            batch = [rows[i] for i in members]
            profile = Profile("fold", entries) if entries else _carried(table, batch, rest, holdout)
            predicted[members] = predictor.model(Batch(batch, profile))(None)
    return _by_group(table, rows, predicted, holdout), predicted


def _by_group(table: str, rows: list[MeasuredRow], predicted: np.ndarray, holdout: str) -> list[dict[str, Any]]:
    out = _members(table, rows, range(len(rows)))
    measured = np.array([row.seconds for row in rows])
    return [
        {
            "group": "|".join(part for part in map(str, key) if part),
            "holdout": holdout,
            **statistics(predicted[index], measured[index]),
        }
        for key, index in out.items()
    ]


@checked()
def calibrate(
    measurements: str | os.PathLike[str],
    device: str = "auto",
    *,
    table: str | None = None,
    holdout: str = "rows",
    name: str | None = None,
) -> Profile:
    """Fits the constants of a device to measured times.

    Args:
        measurements: CSV file with the columns of the reference tables, or a file of a public set.
        device: name of the device; "auto" reads the column "device".
        table: "gemm", "attention", "conv" or "vector"; by default inferred from the columns.
        holdout: rows to hold out for the stated error, by "rows" (halves), "size", "dtype", "device" (constants fitted
            on all other devices together), "family", "specification" (without fitting) or "none".
        name: name of the profile; by default the file's name.

    Returns:
        The profile: constants per source, engine, device and scheme with provenance, the error on held-out rows, and
        the rejected rows.

    Raises:
        UserError: for an invalid number, a missing column, a wrong unit, duplicate rows, an unknown device or scheme,
            or rows that cannot be held out this way.
    """
    path = path_text(measurements)
    if holdout not in HOLDOUTS:
        raise unknown("holdout", holdout, HOLDOUTS)
    kind = table or _table_of(path)
    every = read(kind, path, device)
    rows = [row for row in every if row.status != "unsupported"]
    _check(kind, rows, path)
    entries, used = [], []
    reasons = Counter(row.reason for row in every if row.status == "unsupported")
    refused = [f"{count} rows: {reason}" for reason, count in reasons.items()]
    groups = []
    for group in _groups(kind, rows):
        start = PREDICTORS[kind].model(Batch(group))(None)
        _unit_is_plausible(start, np.array([row.seconds for row in group]), path)
        if len(group) < FEWEST:
            refused.append(f"{_label(kind, group)}: {len(group)} rows; a scheme needs at least {FEWEST}")
        else:
            groups.append(group)
    for group, (entry, result) in zip(groups, _fit_all(kind, groups), strict=True):
        entries.append(entry)
        used += [row_key(cells_of(kind, row)) for row in group]
        hidden = [key for key, seen in result.determined.items() if not seen]
        if hidden:
            refused.append(f"{_label(kind, group)}: the rows do not show {', '.join(hidden)}; unchanged")
    if not entries:
        raise user_error("too few rows to fit", place=path, value="; ".join(refused))
    held_out = [] if holdout == "none" else left_out(kind, rows, holdout)[0]
    stem = os.path.splitext(os.path.basename(path))[0]
    return Profile(name or stem, entries, used, held_out, refused)
