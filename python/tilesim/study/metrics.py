"""Computes the metrics of a sweep."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any

from ..base.checked import is_number, is_text
from ..base.errors import nearest, shown, user_error
from ..machine.machine import Machine
from ..results.result import Result

__all__ = ["DEFAULT", "LARGER_IS_BETTER", "UNITS", "Metric", "check_portable", "metric_name", "metrics_of", "value_of"]

Metric = str | Callable[[Result], Any]
DEFAULT = ("cycles", "seconds", "bottleneck")
LARGER_IS_BETTER = ("tops_per_watt", "utilisation")
UNITS = {
    **{"seconds": "s", "milliseconds": "ms", "joules": "J", "watts": "W", "mm2": "mm²", "bytes": "B"},
    **{"memory_bytes": "B", "padded_bytes": "B", "local_bytes": "B", "remote_bytes": "B", "tops_per_watt": "TOP/s/W"},
}
_FIELDS = ("cycles", "seconds", "milliseconds", "bottleneck", "lowering", "memory_bytes", "padded_bytes", "local_bytes",
          "remote_bytes", "host_share")  # fmt: skip


def _joules(result: Result) -> float | None:
    """Joules of all parts of the machine; None without energy settings."""
    own = getattr(result, "joules", None)
    if own is not None:
        return float(own)
    return math.fsum(result.energy.values()) if result.energy else None


def _watts(result: Result) -> float | None:
    joules = _joules(result)
    return joules / result.seconds if joules is not None and result.seconds else None


def _tops_per_watt(result: Result) -> float | None:
    joules = _joules(result)
    return 2 * float(result.data["multiply_adds"]) / joules / 1e12 if joules else None


_MADE: dict[str, Callable[[Result], Any]] = {
    "bytes": lambda result: result.memory_bytes,
    "joules": _joules,
    "watts": _watts,
    "tops_per_watt": _tops_per_watt,
    "utilisation": lambda result: result.utilisation.get("arrays", 0.0),
}
_PARTS = ("arrays", "vector unit", "memory", "cache", "host", "link")
METRICS = (*_FIELDS, *_MADE, "mm2", *(f"utilisation.{part}" for part in _PARTS))


def metric_name(metric: Metric) -> str:
    """The name of a metric's column."""
    return metric if isinstance(metric, str) else str(getattr(metric, "__name__", type(metric).__name__))


def metrics_of(metrics: Any) -> tuple[Metric, ...]:
    """Reads the metrics of a call."""
    several = metrics if isinstance(metrics, Sequence) and not isinstance(metrics, str) else [metrics]
    found: list[Metric] = []
    for metric in several:
        if not (is_text(metric) or callable(metric)):
            raise user_error("not a metric", place="metrics", value=shown(metric),
                             allowed=f"{', '.join(METRICS)}, a function of the Result")  # fmt: skip
        if isinstance(metric, str) and metric not in METRICS:
            raise user_error("unknown metric", place="metrics", value=f"'{metric}'", allowed=", ".join(METRICS),
                             suggestion=nearest(metric, METRICS))  # fmt: skip
        found.append(metric)
    names = [metric_name(metric) for metric in found]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if not found or twice is not None:
        what = "a metric is given twice" if found else "missing metric"
        raise user_error(what, place="metrics", value=shown(twice or metrics), allowed="names and functions, each once")
    return tuple(found)


def check_portable(metrics: Sequence[Metric]) -> None:
    """Raises an error for metrics that cannot be pickled for other processes."""
    for metric in metrics:
        try:
            pickle.dumps(metric)
        except Exception:  # pickling may raise errors of any type
            what = "the function cannot be pickled for other processes"
            raise user_error(
                what, place="metrics", value=metric_name(metric), allowed="a function defined at module level"
            ) from None


def value_of(metric: Metric, result: Result, machine: Machine) -> Any:
    """Computes a metric of one result."""
    if callable(metric):
        try:
            found = metric(result)
        except Exception as error:
            raise user_error("a metric raised an error", place=metric_name(metric),
                             value=f"{type(error).__name__}: {error}") from error  # fmt: skip
        if found is None or isinstance(found, (bool, str)):
            return found
        if not is_number(found):
            allowed = "a number, a string, True, False, None"
            raise user_error(
                "a metric must return one value", place=metric_name(metric), value=shown(found), allowed=allowed
            )
        return found.item() if hasattr(found, "item") else found
    if metric == "mm2":
        area = getattr(machine, "area", None)
        return float(area().mm2) if callable(area) else None
    if metric.startswith("utilisation."):
        return result.utilisation.get(metric.partition(".")[2], 0.0)
    return _MADE[metric](result) if metric in _MADE else getattr(result, metric)
