"""`tilesim validate`: predictions beside measured tables, whole or the shipped samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..base.figures import count
from ..base.files import writing
from ..base.paths import sample, whole_rows
from ..validation import noc as noc_table
from ..validation import sparse as sparse_table
from ..validation import tables
from .analytic import DeviceName, Json, ProfileFile
from .load import write
from .show import step

_Cases = Annotated[str | None, typer.Option(help="CSV with measured times in latency_ms; the shipped sample if none.")]
_Html = Annotated[str | None, typer.Option(help="Write a page.")]


def register(app: typer.Typer) -> None:
    """Enters the commands.

    Args:
        app: of `tilesim validate`.
    """
    for name, command in _COMMANDS.items():
        app.command(name)(command)


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
        typer.echo(f"{table}: the shipped sample of the table, {part}; --cases FILE takes another")


def validate_tpu_v3(
    cases: Annotated[
        str | None, typer.Option(help="CSV: workload, measured_cycles_at_940MHz; the shipped sample if none.")
    ] = None,
    machine: Annotated[str, typer.Option(help="Preset or file.")] = "tpu-v3",
    memory: Annotated[str | None, typer.Option(help="ideal, simple or bank instead of the machine's own.")] = None,
    json_: Json = None,
) -> None:
    """Compare with measured cycles of one TPU v3 core."""
    with step("simulating and comparing"):
        report = tables.tpu_v3(cases_of("tpu-v3", cases), machine, memory)
    if json_:
        write(report, json_)
    if json_ == "-":
        return
    _said("tpu-v3", cases, report["n"])
    for row in report["rows"]:
        outcome = f"{row['predicted_cycles']:>12,} {row['error']:>+8.1%}" if row["status"] == "ok" else row["reason"]
        typer.echo(f"{row['workload']:<34} {row['measured_cycles'] or 0:>12,.0f} {outcome}")
    typer.echo(
        f"{report['n']} rows: mean {report['mean_abs_error']:.1%}, median {report['median_abs_error']:.1%}, "
        f"worst {report['max_abs_error']:.1%}; {report['n_unsupported']} not simulated"
    )
    for family, left in report["leave_one_family_out"].items():
        share = left["memory_efficiency"]
        said = "nothing fitted" if share is None else f"memory.efficiency {share:.3f}"
        typer.echo(f"leave {family} out: {said}, mean {left['mean_abs_error']:.1%}")


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
        typer.echo("\n".join(noc_table.lines(report)))


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
    for row in report["rows"]:
        name = f"{row['part']:<14} {row['pattern']:<24} {row['inject_every_cycles']:>2}"
        outcome = f"{row['predicted_cycles']:>10,} {row['error']:>+8.2%}" if row["status"] == "ok" else row["reason"]
        typer.echo(f"{name} {row['measured_cycles'] or 0:>10,.0f} {outcome}")
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


def _groups(report: dict[str, Any], digits: int = 1) -> None:
    width = max([len("group"), *map(len, report["groups"])])
    typer.echo(f"{'group':<{width}}  {'rows':>6} {'mean':>7} {'median':>7} {'worst':>7}  not predicted")
    for key, row in {**report["groups"], "all": report}.items():
        typer.echo(
            f"{key:<{width}}  {row['n']:>6} {row['mean_abs_error']:>7.{digits}%} "
            f"{row['median_abs_error']:>7.{digits}%} {row['max_abs_error']:>7.{digits}%}  {row['n_unsupported']}"
        )


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


def _summary(report: dict[str, Any]) -> None:
    typer.echo(
        f"{report['n']} rows: mean {report['mean_abs_error']:.2%}, median {report['median_abs_error']:.2%}, "
        f"worst {report['max_abs_error']:.2%}; {report['n_unsupported']} not simulated"
    )


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
        typer.echo(
            f"does it help? {key}: right {row['right']:.1%} of {row['n']:,}, clear ones {row['right_clear']:.1%}; "
            f"always the majority {row['majority']:.1%}"
        )
    _reasons(report)


def _reasons(report: dict[str, Any]) -> None:
    reasons = {row["reason"] for row in report["rows"] if row["status"] != "ok"}
    for reason in sorted(reasons)[:10]:
        typer.echo(f"not predicted: {reason}")


def validate_gemm(
    cases: _Cases = None,
    device: DeviceName = "auto",
    profile: ProfileFile = None,
    json_: Json = None,
    html: _Html = None,
) -> None:
    """Compare predicted with measured matrix products."""
    _validate("gemm", cases, device, profile, json_, html)


def validate_attention(
    cases: _Cases = None,
    device: DeviceName = "auto",
    profile: ProfileFile = None,
    json_: Json = None,
    html: _Html = None,
) -> None:
    """Compare predicted with measured attention kernels."""
    _validate("attention", cases, device, profile, json_, html)


def validate_conv(
    cases: _Cases = None,
    device: DeviceName = "auto",
    profile: ProfileFile = None,
    json_: Json = None,
    html: _Html = None,
) -> None:
    """Compare predicted with measured convolutions."""
    _validate("conv", cases, device, profile, json_, html)


def validate_vector(
    cases: _Cases = None,
    device: DeviceName = "auto",
    profile: ProfileFile = None,
    json_: Json = None,
    html: _Html = None,
) -> None:
    """Compare predicted with measured elementwise operations, softmax and normalization."""
    _validate("vector", cases, device, profile, json_, html)


_COMMANDS: dict[str, Callable[..., None]] = {
    "tpu-v3": validate_tpu_v3,
    "noc": validate_noc,
    "dram": validate_dram,
    "gemm": validate_gemm,
    "attention": validate_attention,
    "conv": validate_conv,
    "vector": validate_vector,
    "sparse": validate_sparse,
    "network": validate_network,
}
