"""The commands `compare` and `check`: results side by side, and one version against another."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base import figures
from ..base.errors import user_error
from ..base.files import check_writable
from ..graph import Graph
from ..loading import load
from ..machine.device import Device
from ..machine.machine import Machine
from ..results.compared import compare
from ..results.headlines import tolerance_of
from ..results.result import Result
from ..results.side_by_side import SideBySide
from ..timing.estimated import quantized_estimate
from ..timing.quantize import quantize
from ..timing.simulate import compile, simulate
from .examples import epilog
from .load import write
from .run import settings_of
from .screen import room, say, wrapped
from .show import step

__all__ = ["register", "shown"]

SHOWN = 40  # operations that a check lists


def _start(name: str) -> str:
    """The start of a JSON file; nothing of anything else."""
    if not name.lower().endswith(".json") or not os.path.isfile(name):
        return ""
    with open(name, encoding="utf-8", errors="replace") as file:
        return file.read(2000)


def _is_result(name: str) -> bool:
    """Whether a file is to be read as a result: by its schema; what names no other schema is refused as one."""
    start = _start(name)
    return bool(start) and ('"tilesim.' not in start or '"tilesim.result"' in start or _is_step(name))


def _is_step(name: str) -> bool:
    """Whether a file is a saved step of many devices."""
    return '"tilesim.cluster_result"' in _start(name)


def _loaded(name: str) -> Any:
    """A saved result: of one device, or a step of many."""
    if not _is_step(name):
        return Result.load(name)
    from ..cluster.result import StepResult

    return StepResult.load(name)


def _simulated(model: str, how: dict[str, str | None], common: dict[str, Any]) -> Result:
    """One combination: simulated on a machine, or in closed form on a device."""
    loaded = load(model, common["batch"], common["context"], common["phase"], how["dtype"])
    narrow = None if how["quantize"] in (None, "none") else str(how["quantize"])
    name = how["machine"] or "tpu-v3"
    if name not in Machine.names() and name in Device.names():
        given = {key: how[key] or common[key] for key in ("mapping", "lowering", "memory") if how.get(key) or
                 common.get(key)}  # fmt: skip
        if given or common["set"]:
            named = ", ".join(f"--{key}" for key in (*given, *(["set"] if common["set"] else [])))
            raise user_error("a device is estimated in closed form, without", place=name, value=named,
                             allowed="these with a machine alone")  # fmt: skip
        if not isinstance(loaded, Graph):
            raise user_error("a compiled program is of its machine", place=model, value=name, allowed="a graph")
        return quantized_estimate(loaded, Device.load(name), narrow)
    if narrow is not None:
        loaded = quantize(loaded, narrow)
    target = Machine.load(name).replace(settings_of(common["set"] or []))
    options: dict[str, Any] = {key: how[key] for key in ("mapping", "lowering") if how[key] is not None}
    if isinstance(loaded, Graph):
        return simulate(compile(loaded, target, **options), target, memory=common["memory"])
    if options:
        raise user_error("a compiled program was compiled with its options already", place=model,
                         value=", ".join(f"--{key}" for key in options), allowed="those with a graph")  # fmt: skip
    return simulate(loaded, Machine.load(how["machine"]) if how["machine"] else None, memory=common["memory"])


def compare_command(
    what: Annotated[
        list[str],
        typer.Argument(help="Saved results or steps (.json), or what to simulate: mlp, matmul:M,N,K, a file."),
    ],
    machine: Annotated[
        list[str] | None, typer.Option("--machine", "--device", help="Preset, file or device; several are compared.")
    ] = None,
    mapping: Annotated[list[str] | None, typer.Option(help="As of run; several are compared.")] = None,
    lowering: Annotated[list[str] | None, typer.Option(help="native, best; several are compared.")] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="Of a network or product; several are compared.")] = None,
    quantize_: Annotated[
        list[str] | None, typer.Option("--quantize", help="none, i8, fp8, w4a16, bf16, f16; several are compared.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images, sequences, or products.")] = 1,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens, for networks that read text.")] = None,
    phase: Annotated[str | None, typer.Option(help="prefill or decode, for networks that write text.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change a setting of all: path=value.")] = None,
    memory: Annotated[str | None, typer.Option(help="ideal, simple or bank; each machine's if none is given.")] = None,
    html: Annotated[str | None, typer.Option(help="Write a page of tables and bars.")] = None,
    json_: Annotated[str | None, typer.Option("--json", help="Write the comparison; - for standard output.")] = None,
) -> None:
    """Results side by side: which operations the difference lies in. The first one is what others are compared with."""
    for path in (html, json_):
        if path and path != "-":
            check_writable(path)
    varied = {"machine": machine, "mapping": mapping, "lowering": lowering, "dtype": dtype, "quantize": quantize_}
    common = {"batch": batch, "context": context, "phase": phase, "set": set_, "memory": memory}
    nothing: list[Any] = [None]
    combinations: list[dict[str, str | None]] = [{}]
    for key, values in varied.items():
        combinations = [{**one, key: value} for one in combinations for value in values or nothing]
    results: list[Any] = []
    files: list[str] = []
    names: list[str] = []
    for one in what:
        if _is_result(one):
            results.append(_loaded(one))
            files.append(one)
            names.append("")
            continue
        for how in combinations:
            several = [str(how[key] or "default") for key, values in varied.items() if len(values or []) > 1]
            with step(f"simulating {' '.join([one, *several])}"):
                results.append(_simulated(one, how, common))
            files.append("")
            names.append(", ".join([*([] if several and len(what) == 1 else [one]), *several]))
    given = [f"--{key}" for key, values in varied.items() if values]
    given += [f"--{key}" for key, value in common.items() if value not in (None, 1)]
    if given and all(_is_result(one) for one in what):
        raise user_error("saved results are as they are", place=", ".join(given), allowed="with something to simulate")
    if len(results) < 2:
        raise user_error("one result has nothing to be compared with", value=what[0],
                         suggestion="Name another result, or give --machine twice")  # fmt: skip
    shown(compare(results[0], results[1], *results[2:], names=_named(files, names)), html, json_)


def shown(found: SideBySide, html: str | None, json_: str | None) -> None:
    """Writes and prints a comparison.

    Args:
        found: what to show.
        html: file of its page; none: no page.
        json_: file of its values, "-" for standard output, which is then all that is printed; none: no file.
    """
    if html:
        found.to_html(html)
    if json_:
        write(found.to_dict(), json_)
    if json_ != "-":
        say(found.text(room(160)).split("\n"))


def _named(files: list[str], names: list[str]) -> list[str] | None:
    """What each result is: a file by its name, by its path where two have one name; none where that tells nothing."""
    stems = [os.path.basename(one).removesuffix(".json") for one in files]
    short = [stem if file else name for file, stem, name in zip(files, stems, names, strict=True)]
    long = [file or name for file, name in zip(files, names, strict=True)]
    return next((one for one in (short, long) if len(set(one)) == len(one)), None)


def _change(row: dict[str, Any]) -> str:
    if row["after"] == 0 or row["before"] == 0:
        return "gone" if row["before"] else "new"
    return figures.signed(row["change"], figures.percent)


def _value(row: dict[str, Any], key: str) -> str:
    if row["unit"] == "B":
        return figures.size(row[key])
    if row["unit"] == "J":
        return f"{row[key]:.4g} J"
    return figures.amount_of(row[key], row["unit"]) if row["unit"] == "s" else f"{figures.count(row[key])} cycles"


def check_command(
    result: Annotated[str, typer.Argument(help="A saved result.")],
    against: Annotated[str, typer.Option(help="The saved result that it is held to.")],
    tolerance: Annotated[str, typer.Option(help="Change that is allowed, up or down: 2%, 0.02.")] = "2%",
    json_: Annotated[str | None, typer.Option("--json", help="Write what changed; - for standard output.")] = None,
) -> None:
    """Whether a result is that of before: totals and each operation; exit code 1 where one changed by more."""
    most = tolerance_of(tolerance)
    found = compare(_loaded(against), _loaded(result), names=[against, result])
    rows = found.check(most).rows
    if json_:
        plain = [{**row, "change": row["change"] if row["before"] else None} for row in rows]
        write({"ok": not rows, "tolerance": most, "headline": found.headline(), "changed": plain, "notes": found.notes},
              json_)  # fmt: skip
    if json_ != "-":
        _say(found, rows, tolerance, result, against)
    if rows:
        raise typer.Exit(1)


def _say(found: SideBySide, rows: list[dict[str, Any]], tolerance: str, result: str, against: str) -> None:
    if not rows:
        say(wrapped(f"ok: nothing changed by more than {tolerance} ({result} against {against})", hang="  "))
    else:
        say(wrapped(found.headline(), hang="  "))
        typer.echo(f"{len(rows):,} {'figure' if len(rows) == 1 else 'figures'} changed by more than {tolerance}:")
    for row in rows[:SHOWN]:
        name = row["name"].replace("_", " ") if row["kind"] == "total" else row["name"]
        say(wrapped(f"{name}: {_value(row, 'before')} → {_value(row, 'after')} ({_change(row)})", "  ", "    "))
    if len(rows) > SHOWN:
        typer.echo(f"  and {len(rows) - SHOWN:,} more (--json has all)")
    for note in found.notes:
        say(wrapped(f"Note: {note}", hang="  "))


def open_command(
    result: Annotated[str, typer.Argument(help="File that --json wrote, or Result.save.")],
    browser: Annotated[bool, typer.Option(help="Open the page; else only write it.")] = True,
    baseline: Annotated[str | None, typer.Option(help="Another saved result to compare with.")] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="Where the page is written; a temporary file if not given.")
    ] = None,
) -> None:
    """Make the page of a saved result, and open it."""
    if output is not None:
        check_writable(output)
    with step(f"reading {result}"):
        found = Result.load(result)
        other = Result.load(baseline) if baseline is not None else None
    target = output or os.path.join(tempfile.mkdtemp(prefix="tilesim-"), f"{Path(result).stem}.html")
    with step("writing the page"):
        found.to_html(target, baseline=other)
    typer.echo(target)
    if browser and not webbrowser.open(Path(target).resolve().as_uri()):
        typer.echo("No browser was found: open that file in one.", err=True)


def register(app: typer.Typer) -> None:
    """Adds the commands.

    Args:
        app: of the command line.
    """
    app.command("compare", epilog=epilog("compare"))(compare_command)
    app.command("check", epilog=epilog("check"))(check_command)
    app.command("open", epilog=epilog("open"))(open_command)
