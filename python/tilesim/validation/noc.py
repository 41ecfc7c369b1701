"""Compares simulated with reference latencies and accepted loads of on-chip networks."""

from __future__ import annotations

import os
from typing import Any

from .. import network
from .._core import UserError
from ..base.errors import shown
from ..base.progress import followed
from ..base.validation import envelope, positive, read_cases
from ..graph import user_error
from ..network import NetworkResult

__all__ = ["noc"]

_LOAD = "offered_flits_per_node_per_cycle"
_LATENCY, _ACCEPTED = "packet_latency_cycles", "accepted_flits_per_node_per_cycle"
_COLUMNS = ("network", "traffic", "packet_flits", _LOAD, _LATENCY, _ACCEPTED, "state")
_PREDICTED = ("latency", "network_latency", "accepted", "hops", "state")
_SATURATING = 0.9  # share of the saturation load; above it, runs of the reference differ by tens of percent


def _runs(row: dict[str, Any], load: float, seeds: int, **options: Any) -> list[NetworkResult]:
    try:
        packet = int(row["packet_flits"])
    except (TypeError, ValueError):
        raise user_error("packet_flits is not a number", value=shown(row["packet_flits"])) from None
    name, traffic = row["network"], row["traffic"]
    return [network.run(name, None, traffic, load, packet, seed=seed + 1, **options) for seed in range(seeds)]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _predict(row: dict[str, Any], seeds: int) -> dict[str, Any]:
    runs = _runs(row, float(row[_LOAD]), seeds)
    stable = [result for result in runs if result.stable]
    settled = stable if 2 * len(stable) >= len(runs) else runs
    return {
        "predicted_latency": _mean([result.packet_latency for result in settled]),
        "predicted_network_latency": _mean([result.network_latency for result in settled]),
        "predicted_accepted": _mean([result.accepted for result in settled]),
        "predicted_hops": _mean([result.hops for result in settled]),
        "predicted_state": settled[0].state,
    }


def _compare(row: dict[str, Any], seeds: int) -> None:
    if row["state"] not in ("stable", "saturated"):
        raise user_error("unknown state", value=shown(row["state"]), allowed="stable, saturated")
    positive(row, _LOAD)
    stable = row["state"] == "stable"
    # Only the compared figure is required: the latency of a saturated network depends on its stopping rule.
    row["measured_latency"] = positive(row, _LATENCY) if stable or row[_LATENCY] else None
    row["measured_accepted"] = positive(row, _ACCEPTED) if not stable or row[_ACCEPTED] else None
    row.update(_predict(row, seeds))
    measure = "latency" if stable else "accepted"
    row["error"] = row[f"predicted_{measure}"] / row[f"measured_{measure}"] - 1
    row["group"] = row["state"]


def _find_near(rows: list[dict[str, Any]]) -> None:
    """Puts stable rows that would saturate at a slightly higher load into the group "stable near saturation"."""
    settled = set()
    for row in sorted((row for row in rows if row["group"] == "stable"), key=lambda row: -float(row[_LOAD])):
        key = (row["network"], row["traffic"], row["packet_flits"])
        load = float(row[_LOAD]) / _SATURATING
        if key not in settled and (load > 1 or not _carries(row, load)):
            row["group"] = "stable near saturation"
        else:
            settled.add(key)


def _carries(row: dict[str, Any], load: float) -> bool:
    """Whether a short run delivers the offered load within statistical noise."""
    short = _runs(row, load, 1, period=3000, periods=8)[0]
    return short.stable and short.accepted > 0.97 * load


def noc(cases: str | os.PathLike[str], seeds: int = 3) -> dict[str, Any]:
    """Simulates every row of a table of measured networks."""
    if seeds < 1:
        raise user_error("missing run", value=str(seeds), allowed="seeds of at least 1")
    rows = []
    for given in followed(read_cases(cases, _COLUMNS)):
        row: dict[str, Any] = {**given, "status": "ok", "reason": "", "measured_latency": None}
        row.update({"measured_accepted": None, "error": None, "fitted": False, "group": "invalid"})
        row.update({f"predicted_{name}": None for name in _PREDICTED})
        try:
            _compare(row, seeds)
        except UserError as error:
            row.update({f"predicted_{name}": None for name in _PREDICTED})
            row.update(status="invalid", reason=str(error), measured_latency=None, measured_accepted=None, error=None)
        rows.append(row)
    _find_near(rows)
    settings = {"seeds": seeds, "virtual_channels": 4, "buffer_flits": 8, "near_saturation": _SATURATING}
    return envelope("noc", settings, rows, lambda row: str(row["group"]))
