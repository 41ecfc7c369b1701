"""`tilesim validate`: predictions beside measured tables, whole or the shipped samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..base.figures import count
from ..base.files import writing
from ..base.paths import sample, whole_rows
from ..validation import noc as noc_table
from ..validation import rvv as rvv_table
from ..validation import sparse as sparse_table
from ..validation import tables
from .analytic import DeviceName, ProfileFile
from .examples import epilog
from .load import write
from .options import OUTPUT, WORKLOAD, Html, Preset
from .screen import Lines, say, wrapped
from .show import step
from .tables import Column, layout, name, number, text

Json = Annotated[
    str | None,
    typer.Option("--json", help="Write the validation file; - for standard output.", rich_help_panel=OUTPUT),
]
_Cases = Annotated[
    str | None,
    typer.Option(help="CSV with measured times in latency_ms; the shipped sample if none.", rich_help_panel=WORKLOAD),
]


def register(app: typer.Typer) -> None:
    """Enters the commands.

    Args:
        app: of `tilesim validate`.
    """
    for table, command in _COMMANDS.items():
        app.command(table, epilog=epilog(f"validate {table}"))(command)


def cases_of(table: str, cases: str | None) -> str:
    """The file with the cases.

    Args:
        table: its name.
        cases: what was asked for; none: the shipped sample.

    Returns:
        A path.
    """
    return cases if cases is not None else str(sample(table))


def _said(table: str, cases: str | None, rows: int) -> None:
    if cases is None:
        whole = whole_rows(table)
        part = f"all {count(whole)} rows" if rows == whole else f"{count(rows)} of {count(whole)} rows"
        say(wrapped(f"{table}: the shipped sample of the table, {part}; --cases FILE takes another", hang="  "))


def validate_tpu_v3(
    cases: Annotated[
        str | None, typer.Option(help="CSV: workload, measured_cycles_at_940MHz; the shipped sample if none.")
    ] = None,
    machine: Preset = "tpu-v3",
    memory: Annotated[str | None, typer.Option(help="ideal, simple or bank instead of the machine's own.")] = None,
    level: Annotated[str, typer.Option(help="instruction: computes take as long as kernels on the core.")] = "tile",
    json_: Json = None,
) -> None:
    """Compare with measured cycles of one TPU v3 core."""
    with step("simulating and comparing"):
        report = tables.tpu_v3(cases_of("tpu-v3", cases), machine, memory, level)
    if json_:
        write(report, json_)
    if json_ == "-":
        return
    _said("tpu-v3", cases, report["n"])
    say(_compared(report, [name("workload")], lambda row: [row["workload"]]))
    _summary(report, 1)
    lines = []
    for family, left in report["leave_one_family_out"].items():
        share = left["memory_efficiency"]
        told = "nothing fitted" if share is None else f"memory.efficiency {share:.3f}"
        lines += wrapped(f"leave {family} out: {told}, mean {left['mean_abs_error']:.1%}", hang="  ")
    if lines:
        say(lines)


def validate_noc(
    cases: Annotated[
        str | None,
        typer.Option(
            help="CSV: network, traffic, packet_flits, offered load, latency, state; the shipped sample if none."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Runs per row, averaged.")] = 3,
    json_: Json = None,
) -> None:
    """Compare with measured latencies and accepted loads of on-chip networks."""
    with step(f"simulating every row {seeds} times"):
        report = noc_table.noc(cases_of("noc", cases), seeds)
    if json_:
        write(report, json_)
    if json_ != "-":
        _said("noc", cases, report["n"])
        _noc(report)


def validate_dram(
    cases: Annotated[
        str | None,
        typer.Option(help="CSV: part, pattern, inject_every_cycles, ...; the shipped sample if none."),
    ] = None,
    parts: Annotated[str | None, typer.Option(help="Parts, reference form; else dram_parts.json beside.")] = None,
    json_: Json = None,
) -> None:
    """Compare with cycles of DRAM channels."""
    with step("simulating and comparing"):
        report = tables.dram(cases_of("dram", cases), parts)
    if json_:
        write(report, json_)
    if json_ == "-":
        return
    _said("dram", cases, report["n"])
    columns = [name("part", least=10), name("pattern", 0, 10), number("every", 2)]
    say(_compared(report, columns, lambda row: [row["part"], row["pattern"], row["inject_every_cycles"]]))
    _summary(report)


def validate_sparse(
    cases: Annotated[
        str | None,
        typer.Option(help="CSV: source, unit, m, n, k, a_density, b_density, cycles, ...; the shipped sample if none."),
    ] = None,
    json_: Json = None,
) -> None:
    """Compare with measured cycles of units that skip zeros."""
    with step("predicting and comparing"):
        report = sparse_table.sparse(cases_of("sparse", cases))
    if json_:
        write(report, json_)
    if json_ == "-":
        return
    _said("sparse", cases, report["n"])
    _groups(report, 2)
    _summary(report)
    _reasons(report)


def validate_rvv(
    cases: Annotated[
        str | None,
        typer.Option(help="CSV: core, instruction, sew, lmul, vl, cycles; the shipped sample if none."),
    ] = None,
    json_: Json = None,
) -> None:
    """Compare with measured cycles of vector instructions on four RISC-V cores.

    Exit codes: 0; 1, rows could not be simulated; 2, a mistake in the command.
    """
    with step("running every row's loop"):
        report = rvv_table.rvv(cases_of("rvv", cases))
    if json_:
        write(report, json_)
    if json_ != "-":
        _rvv(report, cases)
    if report["n_unsupported"]:
        raise typer.Exit(1)


def _rvv(report: dict[str, Any], cases: str | None) -> None:
    _said("rvv", cases, report["n"])
    columns = [name("core"), number("rows"), number("within 10 %, %"), number("mean, capped at 50 %, %", 1)]
    cells = [
        [key, f"{row['n']:,}", f"{100 * row['within_10_percent']:.1f}", f"{100 * row['mean_capped_error']:.2f}"]
        for key, row in {**report["groups"], "all": report}.items()
    ]
    say(layout(columns, cells))
    _summary(report)
    _reasons(report)


def _number(row: dict[str, Any], key: str, form: str) -> str:
    return format(row[key], form) if row.get(key) is not None else "–"


def _compared(report: dict[str, Any], columns: list[Column], cells: Callable[[dict[str, Any]], list[Any]]) -> Lines:
    """Rows with measured and predicted cycles; a reason where nothing was predicted."""
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


def _noc(report: dict[str, Any]) -> None:
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


def _groups(report: dict[str, Any], digits: int = 1) -> None:
    def cell(row: dict[str, Any], key: str) -> str:
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


def validate_network(
    cases: Annotated[
        str | None,
        typer.Option(help="CSV: device, family, sizes, batch, sequence, engine, total_ms; the shipped sample if none."),
    ] = None,
    profile: ProfileFile = None,
    json_: Json = None,
) -> None:
    """Compare estimates of whole networks with measured ones: eager torch and torch.compile."""
    from ..validation.network import network

    with step("counting kernels and comparing"):
        report = network(cases_of("network", cases), profile)
    if json_:
        write(report, json_)
    if json_ != "-":
        _said("network", cases, report["n"])
        _groups(report)
        _reasons(report)


def validate_collective(
    cases: Annotated[
        str | None,
        typer.Option(help="CSV: device, library, op, dtype, devices, nodes, bytes, measured_ms; the shipped sample."),
    ] = None,
    json_: Json = None,
) -> None:
    """Compare collectives of several devices with measured ones.

    Exit codes: 0; 1, rows could not be predicted; 2, a mistake in the command.
    """
    from ..validation.collective import collective

    with step("comparing"):
        report = collective(cases_of("collective", cases))
    if json_:
        write(report, json_)
    if json_ != "-":
        _said("collective", cases, report["n"])
        _groups(report)
        _reasons(report)
    if report["n_unsupported"]:
        raise typer.Exit(1)


def _summary(report: dict[str, Any], digits: int = 2) -> None:
    mean, median, worst = (report[f"{one}_abs_error"] for one in ("mean", "median", "max"))
    told = f"{report['n']} rows: mean {mean:.{digits}%}, median {median:.{digits}%}, worst {worst:.{digits}%}"
    say(wrapped(f"{told}; {report['n_unsupported']} not simulated", hang="  "))


def _validate(
    table: str, cases: str | None, device: str, profile: str | None, json_: str | None, html: str | None = None
) -> None:
    from ..validation.analytic import decisions, validate

    with step("predicting and comparing"):
        report = validate(table, cases_of(table, cases), device, profile)
    if json_:
        write(report, json_)
    if html:
        from ..analytic.pages import validation_page

        with writing(html) as file:
            file.write(validation_page(report))
    if json_ == "-":
        return
    _said(table, cases, report["n"])
    _groups(report)
    for key, row in (decisions(report) if table == "gemm" else {}).items():
        told = f"right {row['right']:.1%} of {row['n']:,}, clear ones {row['right_clear']:.1%}"
        say(wrapped(f"does it help? {key}: {told}; always the majority {row['majority']:.1%}", hang="  "))
    _reasons(report)


def _reasons(report: dict[str, Any]) -> None:
    found: dict[str, list[int]] = {}
    for line, row in enumerate(report["rows"], 2):
        if row["status"] != "ok":
            found.setdefault(row["reason"], []).append(line)
    for reason, lines in sorted(found.items())[:10]:
        where = f"line {lines[0]}" + (f" and {len(lines) - 1:,} more" if len(lines) > 1 else "")
        say(wrapped(f"not predicted, {where}: {reason}", hang="  "))


def validate_gemm(
    cases: _Cases = None,
    device: DeviceName = "auto",
    profile: ProfileFile = None,
    json_: Json = None,
    html: Html = None,
) -> None:
    """Compare predicted with measured matrix products."""
    _validate("gemm", cases, device, profile, json_, html)


def validate_attention(
    cases: _Cases = None,
    device: DeviceName = "auto",
    profile: ProfileFile = None,
    json_: Json = None,
    html: Html = None,
) -> None:
    """Compare predicted with measured attention kernels."""
    _validate("attention", cases, device, profile, json_, html)


def validate_conv(
    cases: _Cases = None,
    device: DeviceName = "auto",
    profile: ProfileFile = None,
    json_: Json = None,
    html: Html = None,
) -> None:
    """Compare predicted with measured convolutions."""
    _validate("conv", cases, device, profile, json_, html)


def validate_vector(
    cases: _Cases = None,
    device: DeviceName = "auto",
    profile: ProfileFile = None,
    json_: Json = None,
    html: Html = None,
) -> None:
    """Compare predicted with measured elementwise operations, softmax and normalization."""
    _validate("vector", cases, device, profile, json_, html)


def validate_step(
    cases: Annotated[
        str | None,
        typer.Option(
            help="CSV: system, workload, plan, measured_ms of training steps, or system, devices, model "
            "(llama3-100m, resnet50, ...), measured_seconds; the shipped sample if none."
        ),
    ] = None,
    framework: Annotated[
        str | None, typer.Option(help="Constants of one framework for all rows; unfitted has none from steps.")
    ] = None,
    json_: Json = None,
) -> None:
    """Compare predicted with measured training steps on many devices."""
    from ..validation.step import step as compared

    with step("predicting and comparing"):
        report = compared(cases_of("step", cases), framework)
    if json_:
        write(report, json_)
    if json_ == "-":
        return
    _said("step", cases, report["n"])
    _groups(report)
    _summary(report)
    _reasons(report)


_COMMANDS: dict[str, Callable[..., None]] = {
    "tpu-v3": validate_tpu_v3,
    "noc": validate_noc,
    "dram": validate_dram,
    "gemm": validate_gemm,
    "attention": validate_attention,
    "conv": validate_conv,
    "vector": validate_vector,
    "sparse": validate_sparse,
    "rvv": validate_rvv,
    "network": validate_network,
    "collective": validate_collective,
    "step": validate_step,
}
