"""`tilesim validate`: compares predictions with measured tables or their shipped samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..base.columns import TextColumn, layout, name, number, text
from ..base.figures import count
from ..base.files import writing
from ..base.paths import rows_of_full_table, sample
from ..base.screen import Lines, wrapped
from ..timing.options import SimulateOptions
from ..validation import tables
from .analytic import DeviceName, ProfileFile
from .load import write
from .options import WORKLOAD, Json, Only, Output, Target
from .screen import say
from .show import step

Report = dict[str, Any]


def _cases(columns: str) -> Any:
    """Returns the option `--cases` for a table with `columns`."""
    told = f"CSV: {columns}; default: the shipped sample."
    return typer.Option("--cases", help=told, rich_help_panel=WORKLOAD)


def _report(
    table: str, cases: str | None, out: Output, doing: str, predict: Callable[[str], Report],
    show: Callable[[Report], None],
) -> Report:  # fmt: skip
    """Predicts a table's rows, writes the report as JSON if requested, and prints it."""
    with step(doing):
        report = predict(cases if cases is not None else str(sample(table)))
    if out.json:
        write(report, out.json)
    if not out.silent:
        _print_source(table, cases, report["n"])
        show(report)
    return report


def tpu_v3(
    cases: Annotated[str | None, _cases("workload, measured_cycles_at_940MHz")] = None,
    *,
    on: Annotated[Target, Only("machine")],
    simulating: Annotated[SimulateOptions, Only("memory", "level")],
    out: Json,
) -> None:
    def predict(path: str) -> Report:
        return tables.tpu_v3(path, on.machine or "tpu-v3", simulating.memory, simulating.level)

    def show(report: Report) -> None:
        say(_compared(report, [name("workload")], lambda row: [row["workload"]]))
        _summary(report, 1)
        for family, left in report["leave_one_family_out"].items():
            share = left["memory_efficiency"]
            told = "no fitted constant" if share is None else f"memory.efficiency {share:.3f}"
            say(wrapped(f"held out {family}: {told}, mean {left['mean_abs_error']:.1%}", hang="  "))

    _report("tpu-v3", cases, out, "simulating and comparing", predict, show)


def noc(
    cases: Annotated[str | None, _cases("network, traffic, packet_flits, offered load, latency, state")] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Simulations per row, averaged.")] = 3,
    *,
    out: Json,
) -> None:
    from ..validation import noc as table

    _report("noc", cases, out, f"simulating every row {seeds} times", lambda path: table.noc(path, seeds), _noc)


def dram(
    cases: Annotated[str | None, _cases("part, pattern, inject_every_cycles, ...")] = None,
    parts: Annotated[
        str | None, typer.Option(help="Parts in the reference format; default: dram_parts.json beside the cases.")
    ] = None,
    *,
    out: Json,
) -> None:
    def show(report: Report) -> None:
        columns = [name("part", least=10), name("pattern", 0, 10), number("every", 2)]
        say(_compared(report, columns, lambda row: [row["part"], row["pattern"], row["inject_every_cycles"]]))
        _summary(report)

    _report("dram", cases, out, "simulating and comparing", lambda path: tables.dram(path, parts), show)


def sparse(
    cases: Annotated[str | None, _cases("source, unit, m, n, k, a_density, b_density, cycles, ...")] = None,
    *,
    out: Json,
) -> None:
    from ..validation import sparse as table

    def show(report: Report) -> None:
        _groups(report, 2)
        _summary(report)
        _reasons(report)

    _report("sparse", cases, out, "predicting and comparing", table.sparse, show)


def rvv(
    cases: Annotated[str | None, _cases("core, instruction, sew, lmul, vl, cycles")] = None,
    *,
    out: Json,
) -> None:
    from ..validation import rvv as table

    if _report("rvv", cases, out, "running every row's loop", table.rvv, _rvv)["n_unsupported"]:
        raise typer.Exit(1)


def network(
    cases: Annotated[str | None, _cases("device, family, sizes, batch, sequence, engine, total_ms")] = None,
    profile: ProfileFile = None,
    *,
    out: Json,
) -> None:
    from ..validation import network as table

    _report("network", cases, out, "counting kernels and comparing", lambda path: table.network(path, profile),
            _grouped)  # fmt: skip


def collective(
    cases: Annotated[str | None, _cases("device, library, op, dtype, devices, nodes, bytes, measured_ms")] = None,
    *,
    out: Json,
) -> None:
    from ..validation import collective as table

    if _report("collective", cases, out, "comparing", table.collective, _grouped)["n_unsupported"]:
        raise typer.Exit(1)


def step_(
    cases: Annotated[str | None, _cases("system, workload, plan, measured_ms of training steps, or system, devices, "
                                        "model (llama3-100m, resnet50, ...), measured_seconds")] = None,
    framework: Annotated[
        str | None, typer.Option(help="Constants of one framework for all rows; unfitted uses none.")
    ] = None,
    *,
    out: Json,
) -> None:  # fmt: skip
    from ..validation import step as table

    def show(report: Report) -> None:
        _groups(report)
        _summary(report)
        _reasons(report)

    _report("step", cases, out, "predicting and comparing", lambda path: table.step(path, framework), show)


def _analytic(table: str) -> Callable[..., None]:
    """Returns the command that validates a table of measured kernels."""

    def command(
        cases: Annotated[str | None, _cases("measured times in latency_ms")] = None,
        device: DeviceName = "auto",
        profile: ProfileFile = None,
        *,
        out: Annotated[Output, Only("json", "html")],
    ) -> None:
        from ..validation.analytic import decisions, validate

        def show(report: Report) -> None:
            _groups(report)
            for key, row in (decisions(report) if table == "gemm" else {}).items():
                told = f"{row['right']:.1%} of {row['n']:,} right, {row['right_clear']:.1%} of clear cases"
                say(wrapped(f"decision {key}: {told}; majority vote {row['majority']:.1%}", hang="  "))
            _reasons(report)

        def predict(path: str) -> Report:
            report = validate(table, path, device, profile)
            if out.html:
                from ..analytic.pages import validation_page

                with writing(out.html) as file:
                    file.write(validation_page(report))
            return report

        _report(table, cases, out, "predicting and comparing", predict, show)

    return command


gemm, attention, conv, vector = map(_analytic, ("gemm", "attention", "conv", "vector"))


def _grouped(report: Report) -> None:
    _groups(report)
    _reasons(report)


def _rvv(report: Report) -> None:
    columns = [name("core"), number("rows"), number("within 10 %, %"), number("mean, capped at 50 %, %", 1)]
    cells = [
        [key, f"{row['n']:,}", f"{100 * row['within_10_percent']:.1f}", f"{100 * row['mean_capped_error']:.2f}"]
        for key, row in {**report["groups"], "all": report}.items()
    ]
    say(layout(columns, cells))
    _summary(report)
    _reasons(report)


def _print_source(table: str, cases: str | None, rows: int) -> None:
    if cases is None:
        whole = rows_of_full_table(table)
        part = f"all {count(whole)} rows" if rows == whole else f"{count(rows)} of {count(whole)} rows"
        say(wrapped(f"{table}: the shipped sample, {part}; --cases FILE reads another table", hang="  "))


def _number(row: Report, key: str, form: str) -> str:
    return format(row[key], form) if row.get(key) is not None else "–"


def _compared(report: Report, columns: list[TextColumn], cells: Callable[[Report], list[Any]]) -> Lines:
    """Returns a table of measured and predicted cycles; failed rows show the reason."""
    rows = [
        [
            *cells(row),
            _number(row, "measured_cycles", ",.0f"),
            _number(row, "predicted_cycles", ",.0f") if row["status"] == "ok" else "–",
            f"{100 * row['error']:+.2f}" if row["status"] == "ok" else "–",
            "" if row["status"] == "ok" else row["reason"],
        ]
        for row in report["rows"]
    ]
    columns = [*columns, number("measured, cycles", 1), number("predicted, cycles"), number("error, %")]
    if any(row[-1] for row in rows):
        return layout([*columns, text("reason", 0, 16)], rows)
    return layout(columns, [row[:-1] for row in rows])


def _noc(report: Report) -> None:
    rows = []
    for row in report["rows"]:
        measure = "latency" if row["state"] == "stable" else "accepted"
        done = row["status"] == "ok"
        cells = [row["network"], row["traffic"], row["packet_flits"], row["offered_flits_per_node_per_cycle"], measure]
        cells += [_number(row, f"{sort}_{measure}", ".4g") if done else "–" for sort in ("measured", "predicted")]
        rows.append([*cells, f"{100 * row['error']:+.1f}" if done else "–", row["group"] if done else row["reason"]])
    columns = [name("network", least=8), name("traffic", least=8), number("flits", 2), number("load", 1)]
    columns += [name("of", 3, 8), number("measured"), number("predicted"), number("error, %"), text("group", 0, 10)]
    say(layout(columns, rows))
    _groups(report, 2)


def _groups(report: Report, digits: int = 1) -> None:
    def cell(row: Report, key: str) -> str:
        return f"{100 * row[key]:,.{digits}f}"

    columns = [name("group"), number("rows"), number("mean, %"), number("median, %", 2), number("worst, %", 1)]
    cells = [
        [
            key,
            f"{row['n']:,}",
            *(cell(row, f"{one}_abs_error") for one in ("mean", "median", "max")),
            row["n_unsupported"],
        ]
        for key, row in {**report["groups"], "all": report}.items()
    ]
    say(layout([*columns, number("not predicted")], cells))


def _summary(report: Report, digits: int = 2) -> None:
    mean, median, worst = (report[f"{one}_abs_error"] for one in ("mean", "median", "max"))
    told = f"{report['n']} rows: mean {mean:.{digits}%}, median {median:.{digits}%}, worst {worst:.{digits}%}"
    say(wrapped(f"{told}; {report['n_unsupported']} not simulated", hang="  "))


def _reasons(report: Report) -> None:
    found: dict[str, list[int]] = {}
    for line, row in enumerate(report["rows"], 2):
        if row["status"] != "ok":
            found.setdefault(row["reason"], []).append(line)
    for reason, lines in sorted(found.items())[:10]:
        where = f"line {lines[0]}" + (f" and {len(lines) - 1:,} more" if len(lines) > 1 else "")
        say(wrapped(f"not predicted, {where}: {reason}", hang="  "))
