"""Commands of the closed-form side: device, calibrate, roofline, crossover, suite, measure, and validate's tables."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..device import Device

device_app = typer.Typer(no_args_is_help=True, help="Devices: CPUs, GPUs and NPUs in closed form.")


def write(data: Any, target: str) -> None:
    """Writes JSON to a file, or to standard output for "-"."""
    text = json.dumps(data, indent=1)
    if target == "-":
        sys.stdout.write(text + "\n")
    else:
        Path(target).write_text(text, encoding="utf-8")


@device_app.command("list")
def device_list() -> None:
    """The shipped devices."""
    for name in Device.names():
        typer.echo(f"{name:<16} {Device.load(name).description}")


@device_app.command("show")
def device_show(name: str) -> None:
    """Every figure of a device and where it comes from."""
    device = Device.load(name)
    typer.echo(f"{device.name}: {device.description} ({device.units} x {device.unit}, {device.clock_hz / 1e9:g} GHz)")
    for dtype, rate in device.matrix.items():
        value = f"{rate.flops_per_second / 1e12:g} TFLOP/s {rate.how}" if rate.how != "absent" else "absent"
        typer.echo(f"  matrix {dtype:<10} {value}{': ' + rate.reason if rate.reason else ''}")
    for level in device.levels:
        typer.echo(
            f"  {level.name:<17} {level.bytes / 2**20:,.6g} MiB, {level.bytes_per_second / 1e9:,.6g} GB/s, line "
            f"{level.line_bytes} B, {level.ways} ways, {level.latency_seconds * 1e9:,.4g} ns"
        )
    for key, source in device.sources.items():
        typer.echo(f"  {key:<17} {source}")


def _validate(table: str, cases: str, device: str, profile: str | None, json_: str | None) -> None:
    from .validation import decisions, validate

    report = validate(table, cases, device, profile)
    if table == "gemm":
        report["decisions"] = decisions(report)
    if json_:
        write(report, json_)
    if json_ == "-":
        return
    width = max([len("group"), *map(len, report["groups"])])
    typer.echo(f"{'group':<{width}}  {'rows':>6} {'mean':>7} {'median':>7} {'worst':>7}  not predicted")
    for key, row in {**report["groups"], "all": report}.items():
        typer.echo(
            f"{key:<{width}}  {row['n']:>6} {row['mean_abs_error']:>7.1%} {row['median_abs_error']:>7.1%} "
            f"{row['max_abs_error']:>7.1%}  {row['n_unsupported']}"
        )
    for key, row in report.get("decisions", {}).items():
        typer.echo(
            f"does it help? {key}: right {row['right']:.1%} of {row['n']:,}, clear ones {row['right_clear']:.1%}; "
            f"always the majority {row['majority']:.1%}"
        )
    reasons = {row["reason"] for row in report["rows"] if row["status"] != "ok"}
    for reason in sorted(reasons)[:10]:
        typer.echo(f"not predicted: {reason}")


_Cases = Annotated[str, typer.Option(help="CSV with measured times in latency_ms.")]
_Device = Annotated[str, typer.Option(help="A device, or auto to follow the device column.")]
_Profile = Annotated[str | None, typer.Option(help="A profile that calibrate saved.")]
_Json = Annotated[str | None, typer.Option("--json", help="Write the validation file; - for standard output.")]


def validate_gemm(cases: _Cases, device: _Device = "auto", profile: _Profile = None, json_: _Json = None) -> None:
    """Compare predicted with measured matrix products."""
    _validate("gemm", cases, device, profile, json_)


def validate_attention(cases: _Cases, device: _Device = "auto", profile: _Profile = None, json_: _Json = None) -> None:
    """Compare predicted with measured attention kernels."""
    _validate("attention", cases, device, profile, json_)


def validate_conv(cases: _Cases, device: _Device = "auto", profile: _Profile = None, json_: _Json = None) -> None:
    """Compare predicted with measured convolutions."""
    _validate("conv", cases, device, profile, json_)


def validate_vector(cases: _Cases, device: _Device = "auto", profile: _Profile = None, json_: _Json = None) -> None:
    """Compare predicted with measured elementwise operations, softmax and normalization."""
    _validate("vector", cases, device, profile, json_)


def calibrate(
    measurements: Annotated[str, typer.Argument(help="CSV with measured times in latency_ms.")],
    device: _Device = "auto",
    save: Annotated[str | None, typer.Option(help="Write the profile.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Fail when the mean error of rows left out is above (0.15 is 15 %).")
    ] = None,
    holdout: Annotated[str, typer.Option(help="What is left out: rows, size, dtype, family or none.")] = "rows",
) -> None:
    """Fit the few constants of a device to measurements; state the error on rows left out."""
    from .calibrate import calibrate as fit_all

    profile = fit_all(measurements, device, holdout=holdout)
    if save:
        profile.save(save)
    worst = 0.0
    for row in profile.held_out:
        worst = max(worst, row["mean"])
        typer.echo(
            f"{row['group']}: left out by {row['holdout']}, {row['n']} rows: mean {row['mean']:.1%}, "
            f"median {row['median']:.1%}, worst {row['max']:.1%}"
        )
    for entry in profile.entries:
        error = entry.fit_error
        label = "|".join(part for part in (entry.source, entry.engine, entry.device, entry.scheme) if part)
        typer.echo(f"{label}: fitted on {entry.rows} rows: mean {error['mean']:.1%}, median {error['median']:.1%}")
    for text in profile.refused:
        typer.echo(f"not fitted: {text}")
    if threshold is not None and worst > threshold:
        typer.echo(f"the mean error of rows left out, {worst:.1%}, is above {threshold:.1%}", err=True)
        raise typer.Exit(1)


def register(app: typer.Typer, validate_app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(device_app, name="device")
    app.command("calibrate")(calibrate)
    for name, command in {
        "gemm": validate_gemm,
        "attention": validate_attention,
        "conv": validate_conv,
        "vector": validate_vector,
    }.items():
        validate_app.command(name)(command)
