"""Finds predictors by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ...base.checked import is_number
from ...base.errors import nearest, shown, user_error
from ...machine.machine import Machine
from ...machine.target import load as target
from ..cluster import Cluster
from .measured import MeasuredTimes
from .predicting import ClosedForms, Engine, Predicted

__all__ = ["check_machine", "checked_prediction", "predictor_of"]

_ALLOWED = ("closed", "table:FILE.csv", "table:FILE.csv:interpolate", "engine")


def predictor_of(source: Any) -> Any:
    """Finds a predictor by name."""
    if not isinstance(source, str):
        if callable(getattr(source, "seconds", None)) and isinstance(getattr(source, "name", None), str):
            return source
        allowed = ", ".join((*_ALLOWED, "an object with `name` and seconds(segment, device)"))
        raise user_error("not a predictor", place="predictor", value=shown(source), allowed=allowed)
    if source == "closed":
        return ClosedForms()
    if source == "engine":
        return Engine()
    if source.startswith("table:"):
        path, colon, word = source[len("table:") :].rpartition(":")
        if colon and word == "interpolate":
            return MeasuredTimes(path, True)
        return MeasuredTimes(source[len("table:") :])
    raise user_error(
        "unknown predictor", place="predictor", value=f"'{source}'", allowed=", ".join(_ALLOWED),
        suggestion=nearest(source.partition(":")[0], ["closed", "table", "engine"]),
    )  # fmt: skip


def check_machine(cluster: Cluster) -> None:
    """Checks that the engine can run a cluster's devices."""
    if isinstance(target(cluster.device), Machine):
        return
    others = [name for name in Cluster.names() if isinstance(target(Cluster.load(name).device), Machine)]
    name = cluster.device if isinstance(cluster.device, str) else cluster.device.name
    raise user_error(
        "predictor 'engine' needs a cluster with a Machine as device", place="predictor",
        value=f"{cluster.name}, with device {name}",
        allowed=f"ts.Cluster(device=...) with {', '.join(Machine.names())}, or a machine file; shipped "
        f"clusters {', '.join(others) or 'none'}",
    )  # fmt: skip


def checked_prediction(found: Any, predictor: Any) -> Predicted:
    """Checks the result of a predictor for a segment."""
    if isinstance(found, Mapping) and "seconds" in found:
        terms = found.get("terms") or {}
        if not isinstance(terms, Mapping) or not all(map(is_number, terms.values())):
            raise user_error(
                "the predictor's terms are not seconds by name",
                place=_named(predictor),
                value=shown(terms),
                allowed='{"memory": 1e-3}',
            )
        found = Predicted(found["seconds"], dict(terms), str(found.get("provenance", "")))
    seconds: Any = found.seconds if isinstance(found, Predicted) else None
    if not is_number(seconds) or not 0 <= seconds < math.inf:
        raise user_error(
            "the predictor returned no time for a segment",
            place=_named(predictor),
            value=shown(found if seconds is None else seconds),
            allowed='{"seconds": a number of at least 0}, optionally "terms" and "provenance"',
        )
    return Predicted(**{**vars(found), "seconds": float(seconds)})


def _named(predictor: Any) -> str:
    return f"predictor {getattr(predictor, 'name', type(predictor).__name__)}"
