"""Terminal tables of the closed-form commands: devices, roofline, crossover, suites, calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..analytic.estimate import Estimate
from ..analytic.lower_bound import Roofline
from ..base import figures
from ..base.columns import ROWS, bar, bound, cut, folded, layout, name, number, percent, text
from ..base.errors import user_error
from ..base.figures import digits
from ..base.screen import Line, Lines, notes, wrapped
from ..machine.device import Device

__all__ = [
    "crossover_rows",
    "device_lines",
    "fitted_rows",
    "placed",
    "scheme_rows",
    "shapes_of",
    "suite_rows",
]


def device_lines(device: Device) -> Lines:
    """Returns a table of all parameters of a device with their sources."""
    head = f"{device.name}: {device.description} ({device.units} x {device.unit}, {device.clock_hz / 1e9:g} GHz)"
    lines: list[Line | str] = [*wrapped(head, hang="  ")]
    if device.clocks:
        clocks = ", ".join(f"{key} {value / 1e9:g} GHz" for key, value in device.clocks.items())
        lines += wrapped(f"clocks {clocks}", hang="  ")
    rows = [
        [dtype, f"{rate.flops_per_second / 1e12:g}" if rate.how != "absent" else "–", rate.how, rate.reason]
        for dtype, rate in device.matrix.items()
    ]
    columns = [name("matrix", least=8), number("TFLOP/s"), name("how", least=8), text("why", 1, 16)]
    shown = 4 if any(row[3] for row in rows) else 3  # omits the fourth column if it is empty
    lines += ["", *layout(columns[:shown], [row[:shown] for row in rows])]
    columns = [name("level", least=8), number("MiB"), number("GB/s"), number("line, B", 2), number("ways", 3)]
    cells = [
        [
            level.name,
            f"{level.bytes / 2**20:,.6g}",
            f"{level.bytes_per_second / 1e9:,.6g}",
            str(level.line_bytes),
            str(level.ways),
            f"{level.latency_seconds * 1e9:,.4g}",
        ]
        for level in device.levels
    ]
    lines += ["", *layout([*columns, number("latency, ns", 1)], cells)]
    if device.sources:
        sources = [[key, source] for key, source in device.sources.items()]
        lines += ["", *layout([name("figure", least=12), text("from")], sources)]
    return lines


def placed(result: Estimate, least: Roofline, everything: bool) -> Lines:
    """Returns an estimate with its lower bound and its operations, longest first; repeated layers are folded."""
    lines: list[Line | str] = [*wrapped(result.summary(), hang="  "), *wrapped(repr(least)[1:-1], hang="  ")]
    own = [line for line in result.approximations if line.startswith("bytes count weights as scheme")]
    lines += [*(one for line in own for one in wrapped(line, hang="  ")), ""]
    rows = result.terms().rows
    total = sum(row["ms"] for row in rows) or 1.0
    if not everything:
        rows = folded(rows, ("ms",), alike=("bound", "scheme", "model"))
    columns = [name("operation"), number("time, ms"), number("share, %", 3), bar(), bound(drop=1)]
    columns += [name("scheme", 2, 6), text("model", 4, 16)]
    cells = [
        [
            row["operation"],
            digits(row["ms"]),
            percent(row["ms"] / total),
            row["ms"] / total,
            row["bound"],
            row["scheme"],
            row["model"],
        ]
        for row in rows[: None if everything else ROWS]
    ]
    rest = cut(rows, everything, lambda left: f"{percent(sum(row['ms'] for row in left) / total)}% of the time")
    lines += [*layout(columns, cells), *rest, ""] if rows else []
    return [*lines, "How it was modelled:", *notes(result.approximations)]


def shapes_of(texts: Sequence[str] | None) -> list[tuple[float, ...]] | None:
    """Parses the texts of --shape into (m, n, k) or (m, n, k, batch)."""
    from ..analytic.crossover import sweep

    shapes: list[tuple[float, ...]] | None = None
    for given in texts or []:
        parts = given.replace("x", ",").split(",")
        if len(parts) not in (3, 4):
            raise user_error("not a shape", place="--shape", value=given, allowed="m,n,k or m,n,k,batch")
        shapes = [*(shapes or []), *sweep(*parts)]
    return shapes


def crossover_rows(rows: Sequence[dict[str, Any]]) -> Lines:
    """Returns a table of shapes with their times under the scheme and under the baseline."""
    columns = [number("m"), number("n"), number("k"), number("batch", 5), number("FLOP/B", 2), number("time, ms", 1)]
    columns += [number("baseline, ms", 1), number("speedup, ×"), name("verdict", least=7), number("confidence, %", 3)]
    cells = [
        [
            *(f"{row[key]:g}" for key in ("m", "n", "k", "batch")),
            digits(row["intensity"]),
            digits(row["ms"]),
            digits(row["baseline_ms"]),
            f"{row['speedup']:.2f}",
            row["verdict"],
            _sure(row),
        ]
        for row in rows
    ]
    return layout(columns, cells)


def _sure(row: dict[str, Any]) -> str:
    """Returns the verdict's probability in percent; for "even", the probability that the scheme is faster."""
    if row["verdict"] == "even":
        return percent(row["probability"])
    return percent(row["probability"] if row["helps"] else 1 - row["probability"])


_HEADS = {"speedup": "speedup, ×", "probability": "confidence, %", "ms": "time, ms"}


def scheme_rows(rows: list[dict[str, Any]], everything: bool) -> Lines:
    """Returns a table of the best scheme per product, or of all schemes' errors and times; folds repeated layers."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    network = "operation" in keys
    times = [key for key in keys if network and key not in ("operation", "best", "speedup", "probability")]
    if network and not everything:
        whole = [{key: row.get(key) for key in keys} for row in rows]
        sums = folded(whole, times, alike=[key for key in keys if key != "operation"])
        ends = [row for row in sums if row["operation"] in ("all", "mixed")]
        rows = [row for row in sums if row not in ends] + ends
    heads = [f"{key if key != 'ms' else 'mixed'}, ms" if key in times else _HEADS.get(key, key) for key in keys]
    columns = [_scheme_column(rows, key, head, at) for at, (key, head) in enumerate(zip(keys, heads, strict=True))]
    return layout(columns, [[_scheme_cell(key, row.get(key)) for key in keys] for row in rows])


def _scheme_column(rows: Sequence[dict[str, Any]], key: str, head: str, at: int) -> Any:
    words = any(isinstance(row.get(key), str) for row in rows)
    drop = 0 if at < 2 or key in ("scheme", "speedup", "ms") else 2 if key == "probability" else 3
    if key == "reason":
        return text(head, 9, 16)
    return name(head, drop, 10) if words else number(head, drop)


def _scheme_cell(key: str, value: Any) -> str:
    if value is None:
        return "–"
    if key == "probability":
        return percent(value)
    if key in ("m", "n", "k"):
        return f"{value:g}"
    return digits(value) if isinstance(value, float) else str(value)


def suite_rows(rows: Sequence[dict[str, Any]]) -> Lines:
    """Returns a table with the time of each workload of a suite on each device."""
    columns = [name("workload"), name("device", least=12), number("time, ms"), number("speedup, ×")]
    columns += [bound(drop=1), name("pressure", 2, 8), text("reason", 3, 16)]
    cells = [
        [
            row["workload"],
            row["device"],
            digits(row["ms"]) if row["ms"] else "–",
            f"{row['speedup']:,.2f}" if row["ms"] else "–",
            row["bound"] if row["ms"] else "–",
            row["pressure"],
            "" if row["ms"] else row["reason"],
        ]
        for row in rows
    ]
    said = any(row[-1] for row in cells)
    return layout(columns if said else columns[:-1], cells if said else [row[:-1] for row in cells])


def fitted_rows(profile: Any) -> Lines:
    """Returns tables of a calibration's errors on held-out and on fitted rows."""
    lines: list[Line | str] = []
    errors = [number("mean, %"), number("median, %", 1)]
    for holdout in dict.fromkeys(row["holdout"] for row in profile.held_out):
        columns = [name(f"held out by {holdout}"), number("rows", 3), *errors, number("worst, %", 2)]
        cells = [
            [row["group"], figures.count(row["n"]), *(percent(row[key]) for key in ("mean", "median", "max"))]
            for row in profile.held_out
            if row["holdout"] == holdout
        ]
        lines += layout(columns, cells)
    if profile.entries:
        cells = [
            [
                "|".join(part for part in (entry.source, entry.engine, entry.device, entry.scheme) if part),
                figures.count(entry.rows),
                percent(entry.fit_error["mean"]),
                percent(entry.fit_error["median"]),
            ]
            for entry in profile.entries
        ]
        lines += [*([""] if lines else []), *layout([name("fitted on"), number("rows"), *errors], cells)]
    return [*lines, *(part for one in profile.refused for part in wrapped(f"not fitted: {one}", hang="  "))]
