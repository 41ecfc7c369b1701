"""Compares estimated with measured times of complete models on GPUs, eager or compiled."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

from .. import _core
from ..analytic.families import family, row_key
from ..analytic.gpu.backward import backward_seconds
from ..analytic.gpu.compiled import CompiledKernels, count, price_kernels
from ..analytic.profile import Profile
from ..base.errors import UserError, nearest
from ..base.progress import followed
from ..base.validation import MeasuredCase, envelope, graded, integer, positive, read_cases
from ..graph import user_error
from ..machine.device import Device
from ..models._published import TextSizes, spelled_out

__all__ = ["ROW_COLUMNS", "cases_of", "network", "seconds_of"]

_SIZES = ("layers", "width", "heads", "ffn", "vocabulary", "positions")
_ENGINES = {"eager": "eager", "compiled": "torch", "torch": "torch", "xla": "xla"}
_DTYPES = {
    **dict.fromkeys(("fp32", "f32", "float32"), "f32"),
    **dict.fromkeys(("fp16", "f16", "float16"), "f16"),
    **dict.fromkeys(("bf16", "bfloat16"), "bf16"),
}
ROW_COLUMNS = ("device", "model", "family", *_SIZES, "batch", "sequence", "dtype", "mode", "engine", "total_ms")
_MOST = 1 << 20  # largest extent; larger graphs exceed the memory of every device
_MOST_LAYERS = 1024


def _integer(row: Mapping[str, Any], column: str) -> int:
    return integer(dict(row), column, _MOST_LAYERS if column == "layers" else _MOST)


def _choice(row: Mapping[str, Any], column: str, allowed: Mapping[str, str]) -> str:
    text = str(row[column] or "").strip().lower()
    if text not in allowed:
        close = nearest(text, allowed)
        raise user_error(f"unknown {column}", value=f"'{text}'", allowed=", ".join(allowed), suggestion=close)
    return allowed[text]


def _trains(row: Mapping[str, Any]) -> bool:
    return str(row["mode"] or "").strip().lower() == "training"


@functools.lru_cache(maxsize=32)  # devices share networks
def _counted(sizes: TextSizes, batch: int, sequence: int, dtype: str, compiler: str, training: bool) -> CompiledKernels:
    return count(spelled_out(sizes, batch, sequence, dtype, training), compiler)


def _kernels_of(row: Mapping[str, Any]) -> CompiledKernels:
    sizes = TextSizes(str(row["family"] or "").strip().lower(), *(_integer(row, name) for name in _SIZES))
    compiler, dtype = _choice(row, "engine", _ENGINES), _choice(row, "dtype", _DTYPES)
    return _counted(sizes, _integer(row, "batch"), _integer(row, "sequence"), dtype, compiler, _trains(row))


def seconds_of(
    case: MeasuredCase, constants: Mapping[str, float] | None = None, profile: Profile | None = None
) -> float:
    """Returns the predicted seconds of a row's forward pass."""
    device = Device.named(str(case.row["device"] or ""))
    found = price_kernels(_kernels_of(case.row), device, constants=constants, profile=profile)
    return sum(cost.seconds for cost in found.costs)


def cases_of(path: str | os.PathLike[str]) -> list[MeasuredCase]:
    """Reads a table; a row that cannot be predicted gets its reason."""
    found = []
    for row in read_cases(path, ROW_COLUMNS):
        case = MeasuredCase(row)
        with graded(vars(case)):
            case.measured_ms = positive(row, "total_ms")
            if str(row["mode"] or "").strip().lower() not in ("inference", "training"):
                raise user_error("unknown mode", value=f"'{row['mode']}'", allowed="inference, training")
        found.append(case)
    return found


def _fitted(row: Mapping[str, Any]) -> bool:
    try:
        known = family(Device.named(str(row["device"] or "")).family).fitted_rows
    except UserError:
        return False
    return row_key(row[key] for key in ROW_COLUMNS) in known


def _predict(case: MeasuredCase, profile: Profile | None) -> dict[str, float]:
    device = Device.named(str(case.row["device"] or ""))
    counted = _kernels_of(case.row)
    priced = price_kernels(counted, device, profile=profile)
    forward = sum(cost.seconds for cost in priced.costs) * 1e3
    if not _trains(case.row):
        return {"predicted_ms": forward, "predicted_forward_ms": forward}
    backward = backward_seconds(counted, priced) * 1e3
    return {
        "predicted_ms": forward + backward,
        "predicted_forward_ms": forward,
        "predicted_backward_ms": backward,
    }


def network(cases: str | os.PathLike[str], profile: Profile | str | None = None) -> dict[str, Any]:
    """Estimates every row of a table of complete models."""
    opened = Profile.open(profile)
    rows = []
    for case in followed(cases_of(cases)):
        row: dict[str, Any] = {**case.row, "status": case.status, "reason": case.reason}
        row.update(measured_ms=case.measured_ms or None, predicted_ms=None, error=None, fitted=_fitted(case.row))
        row.update(predicted_forward_ms=None, predicted_backward_ms=None)
        for part in ("forward", "backward"):
            text = str(case.row.get(f"{part}_ms") or "").strip()
            row[f"measured_{part}_ms"] = positive(case.row, f"{part}_ms") if case.status == "ok" and text else None
        if case.status == "ok":
            with graded(row):
                row.update(_predict(case, opened))
                row["error"] = row["predicted_ms"] / case.measured_ms - 1
        rows.append(row)
    settings = {"profile": opened.name if opened else None, "tilesim": _core.__version__}
    return envelope("network", settings, rows, _group)


def _group(row: dict[str, Any]) -> str:
    return "|".join(str(row[key] or "") for key in ("source", "engine", "device", "dtype") if row.get(key) is not None)
