"""Fits a model's constants robustly; constants that the rows do not determine keep their start values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graph import user_error

__all__ = ["Fit", "fit", "label", "statistics"]

Array = NDArray[np.float64]
# A residual is log(predicted / measured). Beyond SCALE it counts linearly, which limits the effect of outliers.
SCALE = 0.1
# Moving a constant by a factor e from its start costs as much as one row with residual PRIOR.
PRIOR = 0.2
# The rows determine a constant if moving it by MOVE (in its logarithm) costs more than SHOWN times the mean cost of a
# row (two standard deviations), and more than one row with an error of 3 %.
SHOWN, LEAST, MOVE = 4.0, 1e-3, 0.3
# An inactive limit has zero gradient; additional starts (in logarithms) therefore make these limits active.
BINDING = {"energy": 0.75, "vector_rate": -3.0}
# A constant that no row determines takes the value of a related one, because kernels of one protocol launch equally.
FOLLOWS = {"vector_launch": "launch"}


@dataclass(frozen=True)
class Fit:
    """Constants after a fit, whether the rows determine them (`shown`), and their starts.

    `loose`: fitted although a change by a third does not raise the cost, because a return to the start does.
    `follows`: constants that are not determined, and the constants whose values they take.
    """

    constants: dict[str, float]
    determined: dict[str, bool]
    error: dict[str, float]
    start: dict[str, float] = field(default_factory=dict)
    loose: dict[str, bool] = field(default_factory=dict)
    follows: dict[str, str] = field(default_factory=dict)


def label(found: Fit, name: str, rows: str, origin: str = "default") -> str:
    """Describes the provenance of a constant in words."""
    if name in found.follows:
        return f"as {found.follows[name]}: the rows do not show it"
    if found.loose.get(name) and origin.startswith("fitted"):
        return f"fitted on {rows}, loosely"
    if found.loose.get(name):
        return f"fitted on {rows}, loosely, from {found.start[name]:.4g} ({origin})"
    if found.determined.get(name):
        return f"fitted on {rows}"
    return origin if origin.startswith(("fitted", "as ")) else f"{origin}: the rows do not show it"


def statistics(predicted: Array, measured: Array) -> dict[str, float]:
    """Returns statistics of the absolute relative errors by name."""
    error = np.abs(predicted / measured - 1)
    if not len(error):
        return {"mean": 0.0, "median": 0.0, "max": 0.0, "n": 0}
    return {
        "mean": float(error.mean()),
        "median": float(np.median(error)),
        "max": float(error.max()),
        "n": len(error),
    }


ALIKE = 40  # rows of similar time that share one estimate of scatter
ENOUGH = 600  # least number of rows for weights by scatter
MOST = 10.0  # largest weight relative to the median row


def evenness(predicted: Array, measured: Array) -> Array:
    """Returns row weights from the scatter of rows of similar time: long kernels vary by 1 %, short ones by 10 %."""
    residual = np.log(predicted / measured)
    scatter = np.empty(len(measured))
    for part in np.array_split(np.argsort(measured), max(1, len(measured) // ALIKE)):
        scatter[part] = np.median(np.abs(residual[part] - np.median(residual[part])))
    return np.asarray(np.clip(np.median(scatter) / np.maximum(scatter, 3e-3), 0.5, MOST))


def _bounds(names: Sequence[str], infos: Mapping[str, Mapping[str, Any]]) -> tuple[Array, Array]:
    low = [np.log(max(infos[name]["low"], 1e-3 * max(infos[name]["default"], 1e-12))) for name in names]
    return np.array(low), np.array([np.log(infos[name]["high"]) for name in names])


def fit(
    predict: Callable[[dict[str, float]], Array],
    measured: Array,
    start: Mapping[str, float],
    free: Sequence[str],
    infos: Mapping[str, Mapping[str, Any]],
    *,
    tries: int = 2,
    evaluations: int = 40,
) -> Fit:
    """Fits constants to measured times."""
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise user_error("scipy is needed to fit", suggestion="pip install 'tilesim[calibrate]'") from None

    names = list(free)
    low, high = _bounds(names, infos)
    origin = np.clip(np.log([max(float(start[name]), 1e-30) for name in names]), low + 1e-9, high - 1e-9)

    def constants(x: Array) -> dict[str, float]:
        values = np.exp(x).tolist()  # exp(log(high)) may exceed high by a rounding error
        fitted = {name: min(value, infos[name]["high"]) for name, value in zip(names, values, strict=True)}
        return {**start, **fitted}

    weights = np.ones(len(measured))

    def residuals(x: Array) -> Array:
        return np.asarray(weights * np.clip(np.log(predict(constants(x)) / measured), -5, 5))

    def with_prior(x: Array) -> Array:
        return np.concatenate([residuals(x), PRIOR * (x - origin)])

    def descend(at: Array) -> Any:
        return least_squares(
            with_prior, at, bounds=(low, high), loss="soft_l1", f_scale=SCALE, diff_step=1e-2, max_nfev=evaluations
        )

    best = descend(origin)
    others = [shift for shift in (_shifted(names, part, by) for part, by in BINDING.items()) if shift.any()]
    random = np.random.default_rng(0)
    for index in range(max(tries - 1, len(others) if tries > 1 else 0)):
        by_chance = random.normal(scale=0.2, size=len(best.x))
        moved = origin + others[index] if index < len(others) else best.x + by_chance
        found = descend(np.clip(moved, low + 1e-9, high - 1e-9))
        if found.cost < best.cost:
            best = found
    if len(measured) >= ENOUGH:
        weights = evenness(predict(constants(best.x)), measured)
        best = descend(np.clip(best.x, low + 1e-9, high - 1e-9))

    def cost(at: Array) -> float:
        return float(np.sum(2 * SCALE**2 * (np.sqrt(1 + (residuals(at) / SCALE) ** 2) - 1)))

    x, unseen, unsure = _unseen(cost, best.x, origin, (low, high), len(measured))
    shown = {name: index not in unseen for index, name in enumerate(names)}
    loose = {names[index]: True for index in unsure}
    final = constants(x)
    # exact values, which exp(log(x)) would round
    final.update({name: float(start[name]) for name in names if not shown[name]})
    follows = {name: of for name, of in FOLLOWS.items() if shown.get(name) is False and shown.get(of)}
    final.update({name: final[of] for name, of in follows.items()})
    began = {name: float(start[name]) for name in names}
    return Fit(final, shown, statistics(predict(final), measured), began, loose, follows)


def _unseen(
    cost: Callable[[Array], float], best: Array, origin: Array, bounds: tuple[Array, Array], rows: int
) -> tuple[Array, list[int], list[int]]:
    """Resets constants that the rows do not determine; returns the constants, the reset ones, and the
    weakly determined ones whose reset would raise the cost."""
    x = best.copy()
    reached = cost(x)
    noticed = max(SHOWN * reached / rows, LEAST)
    unseen: list[int] = []
    unsure: list[int] = []
    for index in np.argsort(np.abs(x - origin)):  # starts with the constant that moved least
        beside = [_stepped(x, index, by, *bounds) for by in (-MOVE, MOVE)]
        if max(map(cost, beside)) > reached + noticed:
            continue
        back = x.copy()
        back[index] = origin[index]
        if cost(back) <= reached + noticed:
            x = back
            unseen.append(int(index))
        else:
            unsure.append(int(index))
    return x, unseen, unsure


def _shifted(names: Sequence[str], part: str, by: float) -> Array:
    return np.array([by if name.endswith(part) else 0.0 for name in names])


def _stepped(x: Array, index: int, by: float, low: Array, high: Array) -> Array:
    moved = x.copy()
    moved[index] = np.clip(moved[index] + by, low[index], high[index])
    return moved
