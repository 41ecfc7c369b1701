"""Crossover: compares the predicted times of a scheme and a baseline, with a probability and a reason."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..base.checked import checked, is_iterable
from ..base.errors import Unsupported, shown
from ..base.table import Tabled
from ..graph import user_error
from ..machine.device import Device
from ..results.result import Table
from . import gemm
from .estimate import DeviceLike, device_of
from .profile import Profile, engine_named
from .schemes import scheme

__all__ = ["Crossover", "CrossoverSummary", "crossover"]

EVEN = 0.02  # relative difference of times up to which the verdict is "even"
SQUARES = [(size, size, size) for size in (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)]
SPREAD = 0.15  # relative error of a model without constants fitted on this device


def spread_of(entry: Any) -> float:
    """Returns the standard deviation of log(predicted / measured time), 1.25 times the mean absolute error."""
    mean = entry.fit_error.get("mean") if entry.fit_error else None
    return 1.25 * float(mean if mean else SPREAD)


def normal(x: float) -> float:
    """Returns the share of a standard normal distribution below x."""
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def _intensity(how: Any, m: float, n: float, k: float, batch: float) -> float:
    moved = m * k * how.activation_bytes + n * k * how.weight_bytes + m * n * how.output_bytes
    return 2 * m * n * k * batch / (moved * batch)


class Crossover(Tabled):
    """Predicted times of a scheme and a baseline over shapes."""

    def __init__(
        self,
        device: Device,
        name: str,
        against: str,
        rows: list[dict[str, Any]],
        reason: str,
        spread: float = SPREAD,
    ) -> None:
        """Stores the rows."""
        self.spread = spread
        self.device, self.scheme, self.against, self.rows, self.reason = device, name, against, rows, reason

    @property
    def possible(self) -> bool:
        """Whether the device can run the scheme."""
        return bool(self.rows)

    def table(self) -> Table:
        """Tabulates the comparison by shape.

        Returns:
            Rows with m, n, k, batch, intensity of the baseline, milliseconds of both schemes, speedup, helps, verdict,
            probability that the scheme helps, and the bound of each scheme.
        """
        return Table(self.rows)

    def threshold(self) -> float | None:
        """Returns the arithmetic intensity above which the scheme helps.

        Returns:
            FLOPs per byte of the baseline if the scheme helps all shapes above it and no shape below; else None.
        """
        ordered = sorted(self.rows, key=lambda row: row["intensity"])
        helps = [row["helps"] for row in ordered]
        if not helps or all(helps) or not any(helps):
            return None
        first = helps.index(True)
        if first == 0 or not all(helps[first:]):
            return None
        return math.sqrt(ordered[first - 1]["intensity"] * ordered[first]["intensity"])

    def summary(self) -> str:
        """Describes the result in a sentence.

        Returns:
            The number of shapes that the scheme helps and the threshold, or the reason why the device cannot run it.
        """
        if not self.possible:
            return f"{self.scheme} on {self.device.name}: no. {self.reason}"
        helped = sum(row["helps"] for row in self.rows)
        text = f"{self.scheme} against {self.against} on {self.device.name}: helps {helped} of {len(self.rows)} shapes"
        edge = self.threshold()
        if edge is not None:
            text += f", those above {edge:.3g} FLOP/B"
        best = max(self.rows, key=lambda row: row["speedup"])
        text += f"; at best {best['speedup']:.2f}x (m {best['m']:g}, n {best['n']:g}, k {best['k']:g})"
        return text + (f". {self.reason}" if self.reason else "")

    def plot(self, axes: Any = None) -> Any:
        """Plots the speed-up over the intensity, with a band of the model's error.

        Args:
            axes: matplotlib axes; new ones by default.

        Returns:
            The axes.

        Raises:
            UserError: without matplotlib; names the package to install.
        """
        from .views import plot_crossover

        return plot_crossover(self, axes)

    def __repr__(self) -> str:
        """The summary."""
        return f"<Crossover {self.summary()}>"


class CrossoverSummary(Tabled):
    """Every scheme against a baseline on one device."""

    def __init__(self, device: Device, against: str, parts: Sequence[Crossover]) -> None:
        """Stores one crossover per scheme."""
        self.device, self.against, self.parts = device, against, list(parts)

    def table(self) -> Table:
        """Tabulates the crossovers, one row per scheme.

        Returns:
            Rows with scheme, possible, number of helped shapes, threshold in FLOPs per byte, best speed-up and reason.
        """
        return Table(
            [
                {
                    "scheme": part.scheme,
                    "possible": part.possible,
                    "helps": sum(row["helps"] for row in part.rows),
                    "shapes": len(part.rows),
                    "threshold": part.threshold(),
                    "best": max((row["speedup"] for row in part.rows), default=None),
                    "reason": part.reason,
                }
                for part in self.parts
            ]
        )

    def best(self) -> Table:
        """Returns the fastest scheme of every shape.

        Returns:
            Rows with m, n, k, batch, scheme, milliseconds and speed-up over the baseline.
        """
        rows: dict[tuple[float, ...], dict[str, Any]] = {}
        for part in self.parts:
            for row in part.rows:
                key = (row["m"], row["n"], row["k"], row["batch"])
                base = {"scheme": self.against, "ms": row["baseline_ms"], "speedup": 1.0}
                found = rows.setdefault(key, {**dict(zip(("m", "n", "k", "batch"), key, strict=True)), **base})
                if row["ms"] < found["ms"]:
                    found.update(scheme=part.scheme, ms=row["ms"], speedup=row["speedup"])
        return Table(list(rows.values()))

    def summary(self) -> str:
        """Describes each scheme in one line.

        Returns:
            The text.
        """
        return "\n".join(part.summary() for part in self.parts)

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()


def _shapes(shapes: Iterable[Sequence[float]] | None) -> np.ndarray:
    rows = []
    given: Any = SQUARES if shapes is None else shapes if is_iterable(shapes) else (shapes,)
    for shape in given:
        try:
            values = tuple(float(x) for x in shape)
        except Exception:  # also catches an error in the object's own method
            values = ()
        if len(values) not in (3, 4) or not all(x > 0 for x in values):
            raise user_error(
                "not a shape of three or four positive extents", place="crossover: shapes", value=shown(shape),
                allowed="a list of (m, n, k) or (m, n, k, batch)",
            )  # fmt: skip
        rows.append(values if len(values) == 4 else (*values, 1.0))
    if not rows:
        raise user_error("no shapes to compare")
    return np.array(rows)


def sweep(m: str, n: str, k: str, batch: str = "1") -> list[tuple[float, ...]]:
    """Returns all shapes of extents, each a number or a range such as "1:4096" with its powers of two."""
    every = itertools.product(_extents(m), _extents(n), _extents(k), _extents(batch))
    return [shape[:3] if batch.strip() == "1" else shape for shape in every]


def _extents(text: str) -> list[float]:
    try:
        ends = [float(part) for part in text.split(":")]
    except ValueError:
        ends = []
    if not 1 <= len(ends) <= 2 or not all(0 < end < 2**40 for end in ends) or ends[0] > ends[-1]:
        raise user_error("not a number or a range of extents", value=shown(text),
                         allowed=f"m,n,k, each as 4096 or 1:4096, above 0 and below {2**40:,}")  # fmt: skip
    if len(ends) == 1:
        return ends
    values = [ends[0]]
    while values[-1] * 2 <= ends[1]:
        values.append(values[-1] * 2)
    return values


def _crossover_of(device: Device, name: str, against: str, shapes: np.ndarray, options: dict[str, Any]) -> Crossover:
    base = gemm.estimator(device, against, **options)
    how = scheme(name, device)
    rate = device.rate(how.arithmetic)
    if rate.how == "absent":
        return Crossover(device, how.name, base.scheme.name, [], rate.reason)
    found = gemm.estimator(device, name, **options)
    m, n, k, batch = shapes.T
    times, standard = found.terms(m, n, k, batch), base.terms(m, n, k, batch)
    spread = math.hypot(spread_of(found.entry), spread_of(base.entry))
    rows = []
    names = [key for key in gemm.TERMS[1:7]]
    for i in range(len(shapes)):
        ratio = float(standard["total"][i] / times["total"][i])
        rows.append(
            {
                "m": m[i],
                "n": n[i],
                "k": k[i],
                "batch": batch[i],
                "intensity": _intensity(base.scheme, m[i], n[i], k[i], batch[i]),
                "baseline_ms": float(standard["total"][i]) * 1e3,
                "ms": float(times["total"][i]) * 1e3,
                "speedup": ratio,
                "helps": bool(times["total"][i] < standard["total"][i]),
                "verdict": "even" if abs(ratio - 1) < EVEN else "helps" if ratio > 1 else "hurts",
                "probability": normal(math.log(ratio) / spread),
                "bound": max(names, key=lambda key: times[key][i]),
                "baseline_bound": max(names, key=lambda key: standard[key][i]),
            }
        )
    warning = f"{how.arithmetic} is emulated here: {rate.reason}" if rate.how == "emulated" else ""
    return Crossover(device, how.name, base.scheme.name, rows, warning, spread)


def baseline(device: Device, asked: str | None = None) -> str:
    """Returns the default baseline: the first of bf16, fp16 and fp32 that runs natively and is not `asked`."""
    for name in ("bf16", "fp16", "fp32"):
        if name != asked and device.rate(scheme(name).arithmetic).how == "native":
            return name
    return "fp32"


@checked("shapes")
def crossover(
    device: DeviceLike,
    dtype: str | None = None,
    *,
    against: str | None = None,
    shapes: Iterable[Sequence[float]] | None = None,
    engine: str = "",
    profile: Profile | str | None = None,
) -> Crossover | CrossoverSummary:
    """Compares the predicted times of matrix products under a dtype or scheme with those under a baseline.

    Args:
        device: a device, its name, label or file; or a machine or its name.
        dtype: scheme to compare; all schemes by default.
        against: baseline; by default the first of bf16, fp16 and fp32 that runs natively and is not `dtype`.
        shapes: (m, n, k) or (m, n, k, batch); squares from 32 to 8192 by default.
        engine: serving engine whose kernels run; "" for kernels of a library.
        profile: constants fitted by `calibrate`; by default those of the device's family.

    Returns:
        The crossover; without `dtype`, a summary of the crossovers of all schemes.

    Raises:
        UserError: for an unknown device, scheme or engine, or an invalid shape.
        Unsupported: for a baseline that the device cannot run.
    """
    target = device_of(device, labels=True)
    engine_named(engine, profile)
    asked = None if dtype is None else scheme(dtype, target).name
    base = scheme(against or baseline(target, asked), target).name
    points = _shapes(shapes)
    options = {"engine": engine, "profile": Profile.open(profile)}
    if dtype is not None:
        return _crossover_of(target, dtype, base, points, options)
    names = ["fp32", "tf32", "fp16", "bf16", "fp8", "nvfp4", "int8", "sq", "int8_wo", "int4_wo"]
    parts = []
    for name in names:
        if name != base:
            try:
                parts.append(_crossover_of(target, name, base, points, options))
            except Unsupported as error:
                parts.append(Crossover(target, name, base, [], str(error)))
    return CrossoverSummary(target, base, parts)
