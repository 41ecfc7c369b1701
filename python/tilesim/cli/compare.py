"""The commands `compare`, `check` and `open`."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from ..base import figures
from ..base.errors import user_error
from ..base.screen import room, wrapped
from ..graph import Graph
from ..machine.machine import Machine
from ..results.compared import compare as side_by_side
from ..results.headlines import tolerance_of
from ..results.result import Result
from ..results.side_by_side import SideBySide
from ..timing.estimated import quantized_estimate
from ..timing.options import CompileOptions, SimulateOptions, WorkloadOptions
from ..timing.simulate import simulate
from .load import compiled, narrowed, read, target_of, write
from .options import SEVERAL, Only, Output, Target, combinations
from .screen import say
from .show import step

MAX_ROWS = 40  # operations that `check` lists


def _start(name: str) -> str:
    """Returns the first 2,000 characters of a JSON file; "" for other files."""
    if not name.lower().endswith(".json") or not os.path.isfile(name):
        return ""
    with open(name, encoding="utf-8", errors="replace") as file:
        return file.read(2000)


def _is_result(name: str) -> bool:
    """Whether a file is a result or step: JSON whose schema is not another one of Tilesim's."""
    start = _start(name)
    return bool(start) and ('"tilesim.' not in start or '"tilesim.result"' in start or _is_step(name))


def _is_step(name: str) -> bool:
    """Whether a file is a saved cluster step."""
    return '"tilesim.cluster_result"' in _start(name)


def _loaded(name: str) -> Any:
    """Loads a saved `Result` or cluster step."""
    if not _is_step(name):
        return Result.load(name)
    from ..cluster.result import StepResult

    return StepResult.load(name)


def _simulated(model: str, how: dict[str, Any]) -> Result:
    """Simulates one combination of options on a machine, or estimates it on a device."""
    work, on, compiling, simulating = _stages(how)
    loaded = read(model, work)
    target = target_of(on, loaded, simulating.network)
    if isinstance(target, Machine):
        program = compiled(narrowed(loaded, work), target, compiling)
        return simulate(program, target, **simulating.given())
    if given := [f"--{key}" for key in (*compiling.given(), *simulating.given())]:
        raise user_error(
            "a device is estimated in closed form and has no such option",
            place=target.name,
            value=", ".join(given),
            allowed="these options with a machine",
        )
    if not isinstance(loaded, Graph):
        raise user_error(
            "a compiled program runs only on its machine", place=model, value=target.name, allowed="a graph"
        )
    return quantized_estimate(loaded, target, work.quantize)


def _stages(how: dict[str, Any]) -> list[Any]:
    """Builds the option stages of a command from values by option name."""
    made = []
    for stage in (WorkloadOptions, Target, CompileOptions, SimulateOptions):
        own = {one.name: how[one.name] for one in fields(stage) if one.name in how}
        made.append(stage(**{**own, **({"quantize": None} if own.get("quantize") == "none" else {})}))
        object.__setattr__(made[-1], "asked", tuple(f"--{name}" for name in own))
    return made


def compare(
    what: Annotated[
        list[str],
        typer.Argument(help="Saved results or steps (.json), or workloads to simulate: mlp, matmul:M,N,K, a file."),
    ],
    work: Annotated[WorkloadOptions, SEVERAL],
    on: Annotated[Target, SEVERAL],
    compiling: Annotated[CompileOptions, SEVERAL],
    simulating: Annotated[SimulateOptions, SEVERAL],
    out: Annotated[Output, Only("json", "html")],
) -> None:
    given: dict[str, Any] = {**on, **compiling, **work, **simulating}  # type: ignore[dict-item]
    varied = {key: value if isinstance(value, list) else [value] for key, value in given.items()}
    if given and all(_is_result(one) for one in what):
        raise user_error("options do not apply to saved results", place=", ".join(f"--{one}" for one in given),
                         allowed="options with a workload to simulate")  # fmt: skip
    results: list[Any] = []
    files: list[str] = []
    names: list[str] = []
    for one in what:
        if _is_result(one):
            results.append(_loaded(one))
            files.append(one)
            names.append("")
            continue
        for how in combinations(varied):
            several = [
                value if isinstance(value := how[key], str) else f"{key} {value}"
                for key, values in varied.items()
                if len(values) > 1
            ]
            with step(f"simulating {' '.join([one, *several])}"):
                results.append(_simulated(one, how))
            files.append("")
            names.append(", ".join([*([] if several and len(what) == 1 else [one]), *several]))
    if len(results) < 2:
        raise user_error("compare needs at least two results", value=what[0],
                         suggestion="Name another result, or give --machine twice")  # fmt: skip
    found = side_by_side(results[0], results[1], *results[2:], names=_named(files, names))
    show(found, out.html, out.json)


def show(comparison: SideBySide, html: str | None, json: str | None) -> None:
    """Writes and prints a comparison."""
    if html:
        comparison.to_html(html)
    if json:
        write(comparison.to_dict(), json)
    if json != "-":
        say(comparison.text(room(160)).split("\n"))


def _named(files: list[str], names: list[str]) -> list[str] | None:
    """Returns the results' names: file names, or paths if file names repeat; None if paths repeat too."""
    stems = [os.path.basename(one).removesuffix(".json") for one in files]
    short = [stem if file else name for file, stem, name in zip(files, stems, names, strict=True)]
    long = [file or name for file, name in zip(files, names, strict=True)]
    return next((one for one in (short, long) if len(set(one)) == len(one)), None)


def _change(row: dict[str, Any]) -> str:
    if row["after"] == 0 or row["before"] == 0:
        return "removed" if row["before"] else "new"
    return figures.signed(row["change"], figures.percent)


def _value(row: dict[str, Any], key: str) -> str:
    if row["unit"] == "B":
        return figures.size(row[key])
    if row["unit"] == "J":
        return f"{row[key]:.4g} J"
    return figures.amount_of(row[key], row["unit"]) if row["unit"] == "s" else f"{figures.count(row[key])} cycles"


def check(
    result: Annotated[str, typer.Argument(help="A saved result.")],
    tolerance: Annotated[str, typer.Option(help="Largest allowed change in either direction: 2%, 0.02.")] = "2%",
    *,
    out: Annotated[Output, Only("json", "against")],
) -> None:
    if out.against is None:
        raise user_error("check needs a saved result to compare with", suggestion="Add --against before.json")
    most = tolerance_of(tolerance)
    found = side_by_side(_loaded(out.against), _loaded(result), names=[out.against, result])
    rows = found.check(most).rows
    if out.json:
        plain = [{**row, "change": row["change"] if row["before"] else None} for row in rows]
        write({"ok": not rows, "tolerance": most, "headline": found.headline(), "changed": plain, "notes": found.notes},
              out.json)  # fmt: skip
    if not out.silent:
        _say(found, rows, tolerance, result, out.against)
    if rows:
        raise typer.Exit(1)


def _say(comparison: SideBySide, rows: list[dict[str, Any]], tolerance: str, result: str, against: str) -> None:
    if not rows:
        say(wrapped(f"ok: no change exceeds {tolerance} ({result} against {against})", hang="  "))
    else:
        say(wrapped(comparison.headline(), hang="  "))
        typer.echo(f"{len(rows):,} {'change exceeds' if len(rows) == 1 else 'changes exceed'} {tolerance}:")
    for row in rows[:MAX_ROWS]:
        name = row["name"].replace("_", " ") if row["kind"] == "total" else row["name"]
        say(wrapped(f"{name}: {_value(row, 'before')} → {_value(row, 'after')} ({_change(row)})", "  ", "    "))
    if len(rows) > MAX_ROWS:
        typer.echo(f"  and {len(rows) - MAX_ROWS:,} more (--json lists all)")
    for note in comparison.notes:
        say(wrapped(f"Note: {note}", hang="  "))


def open_(
    result: Annotated[str, typer.Argument(help="A file written by --json or Result.save.")],
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
    output: Annotated[
        str | None, typer.Option("--output", "-o", help="File to write; default: a temporary file.")
    ] = None,
    *,
    out: Annotated[Output, Only("against")],
) -> None:
    with step(f"reading {result}"):
        found = _loaded(result)
        other = _loaded(out.against) if out.against is not None else None
    if other is not None and not (isinstance(found, Result) and isinstance(other, Result)):
        raise user_error("--against does not apply to cluster steps", place="--against", value=str(out.against),
                         suggestion=f"tilesim compare {result} {out.against} --html page.html")  # fmt: skip
    target = output or os.path.join(tempfile.mkdtemp(prefix="tilesim-"), f"{Path(result).stem}.html")
    with step("writing the page"):
        found.to_html(target, **({"baseline": other} if other is not None else {}))
    typer.echo(target)
    if browser and not webbrowser.open(Path(target).resolve().as_uri()):
        typer.echo("No browser found. Open the file in a browser.", err=True)
