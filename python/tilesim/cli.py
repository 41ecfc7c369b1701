"""The command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from . import __version__, _core, cli_mapping, frontends, models, validate_noc
from . import validate as validation
from ._core import Error
from .analytic import cli as analytic_cli
from .api import compile, simulate
from .execution import verify
from .graph import Graph, user_error
from .machine import Machine
from .program import Program
from .result import Result

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
machine_app = typer.Typer(no_args_is_help=True, help="Machines: presets and files.")
model_app = typer.Typer(no_args_is_help=True, help="Networks that Tilesim builds itself.")
validate_app = typer.Typer(no_args_is_help=True, help="Comparison with measured tables.")
app.add_typer(machine_app, name="machine")
app.add_typer(model_app, name="model")
app.add_typer(validate_app, name="validate")
cli_mapping.register(app)
analytic_cli.register(app, validate_app)


def _load(model: str, batch: int, context: int | None, phase: str | None) -> Graph | Program:
    path = Path(model)
    if path.suffix in (".mlir", ".mlirbc", ".stablehlo"):
        return frontends.from_stablehlo(path)
    if path.suffix == ".onnx":
        return frontends.from_onnx(path, sizes=frontends.symbolic_sizes(path, batch, context))
    if path.suffix not in (".json", ".tsim"):
        return models.build(model, batch=batch, sequence=context, phase=phase)
    if path.suffix == ".json" and path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            start = file.read(2000)
        if '"tilesim.program"' in start:
            return Program.load(path)
        if frontends.is_pytorch_ir(start):
            return frontends.from_pytorch_ir(path)
    if path.suffix == ".tsim" and path.is_file() and _core.Graph.compiled_header(str(path)):
        return Program.load(path)
    return Graph.load(path)


def _changes(settings: list[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals:
            raise user_error("a setting needs a value", value=f"'{setting}'", allowed="path=value")
        try:
            changes[path] = json.loads(value)
        except json.JSONDecodeError:
            changes[path] = value
    return changes


def _compiled(loaded: Graph | Program, target: Machine, fallback: str, place: list[str], cores: int | None) -> Program:
    places = {}
    for text in place:
        name, equals, side = text.rpartition("=")
        if not equals:
            raise user_error("an operation needs a place", value=f"'{text}'", allowed="name=host, name=machine")
        places[name] = side
    if isinstance(loaded, Graph):
        return compile(loaded, target, fallback=fallback, place=places, cores=cores)
    if cores is not None:
        raise user_error("a compiled program has its cores already", place="--cores", value=str(loaded.cores))
    if places or fallback != "error":
        raise user_error("a compiled program is placed already", allowed="--fallback and --place with a graph")
    return loaded


def _write(data: dict[str, Any], target: str) -> None:
    text = json.dumps(data, indent=1)
    if target == "-":
        sys.stdout.write(text + "\n")
    else:
        Path(target).write_text(text, encoding="utf-8")


def _show(result: Result) -> None:
    typer.echo(result.summary())
    rows = result.table().rows
    width = max([len("operation"), *(len(str(row["operation"])) for row in rows[:20])])
    typer.echo(f"{'operation':<{width}}  {'cycles':>12}  {'share':>6}  {'bound by':<8}  {'busy':>5}  {'MB':>9}")
    for row in rows[:20]:
        typer.echo(
            f"{row['operation']:<{width}}  {row['cycles']:>12,}  {row['share']:>6.1%}  {row['bound']:<8}  "
            f"{row['busy']:>5.0%}  {row['bytes'] / 1e6:>9,.2f}"
        )
    if len(rows) > 20:
        typer.echo(f"... and {len(rows) - 20} more operations")
    best = result.explain()[0]
    if best.gain > 1.005:
        typer.echo(f"What would help most, simulated again: {best!r}")
    typer.echo("Modelled: " + "; ".join(result.approximations))


@app.command()
def run(
    model: Annotated[str, typer.Argument(help="A network's name, or a file (.json, .tsim, .onnx, .mlir).")],
    machine: Annotated[
        str | None, typer.Option(help="Preset or file; a compiled program's own if none is given, otherwise tpu-v3.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images or sequences.")] = 1,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens, for networks that read text.")] = None,
    phase: Annotated[str | None, typer.Option(help="prefill or decode, for networks that write text.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: path=value.")] = None,
    cores: Annotated[int | None, typer.Option(help="Cores of the machine that share the work; all by default.")] = None,
    verify_: Annotated[bool, typer.Option("--verify", help="Execute and compare with the reference.")] = False,
    json_: Annotated[str | None, typer.Option("--json", help="Write the result; - for standard output.")] = None,
    timeline: Annotated[str | None, typer.Option(help="Write a Perfetto trace.")] = None,
    report: Annotated[str | None, typer.Option(help="Write a page of pictures and tables (HTML).")] = None,
    seed: Annotated[int, typer.Option(help="Of random inputs.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the headline only.")] = False,
    fallback: Annotated[
        str, typer.Option(help="What the machine cannot run: 'error', or on the 'host', at its cost.")
    ] = "error",
    place: Annotated[list[str] | None, typer.Option(help="Run an operation there: name=host or name=machine.")] = None,
) -> None:
    """Compile, simulate and explain a workload."""
    loaded = _load(model, batch, context, phase)
    own = loaded.machine if isinstance(loaded, Program) else None
    target = Machine.load(machine or own or "tpu-v3").replace(_changes(set_ or []))
    program = _compiled(loaded, target, fallback, place or [], cores)
    if verify_:
        outcome = verify(program, seed=seed)
        typer.echo(str(outcome), err=json_ == "-")
        if not outcome.ok:
            raise typer.Exit(1)
    result = simulate(program, target, timeline=timeline is not None)
    if timeline:
        result.timeline(timeline)
    if report:
        result.report(report)
    if json_:
        _write(result.data, json_)
    if json_ == "-":
        return
    if quiet:
        typer.echo(result.summary())
    else:
        _show(result)


@machine_app.command("list")
def machine_list() -> None:
    """The shipped machines."""
    for name in Machine.names():
        typer.echo(f"{name:<12} {Machine.load(name).description}")


@machine_app.command("show")
def machine_show(name: str) -> None:
    """Every setting of a machine and where its number comes from."""
    machine = Machine.load(name)
    sources = machine.sources

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict) and path != "core.array.rates":
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else key)
        else:
            typer.echo(f"{path:<36} {json.dumps(value):<20} {sources.get(path, '')}")

    walk({key: value for key, value in machine.to_dict().items() if key != "sources"}, "")


@model_app.command("list")
def model_list() -> None:
    """The networks."""
    for name in models.names():
        typer.echo(name)


@model_app.command("show")
def model_show(name: str, batch: int = 1) -> None:
    """Size of a network."""
    graph = models.build(name, batch=batch)
    flops = graph.core.flops()
    typer.echo(f"{name}: {graph.core.parameter_count():,} parameters, {flops['matrix'] / 1e9:,.3f} GFLOP in products")


@validate_app.command("tpu-v3")
def validate_tpu_v3(
    cases: Annotated[str, typer.Option(help="CSV: workload, measured_cycles_at_940MHz.")],
    machine: Annotated[str, typer.Option(help="Preset or file.")] = "tpu-v3",
    json_: Annotated[
        str | None, typer.Option("--json", help="Write the validation file; - for standard output.")
    ] = None,
) -> None:
    """Compare with measured cycles of one TPU v3 core."""
    report = validation.tpu_v3(cases, machine)
    if json_:
        _write(report, json_)
    if json_ == "-":
        return
    for row in report["rows"]:
        outcome = f"{row['predicted_cycles']:>12,} {row['error']:>+8.1%}" if row["status"] == "ok" else row["reason"]
        typer.echo(f"{row['workload']:<34} {row['measured_cycles'] or 0:>12,.0f} {outcome}")
    typer.echo(
        f"{report['n']} rows: mean {report['mean_abs_error']:.1%}, median {report['median_abs_error']:.1%}, "
        f"worst {report['max_abs_error']:.1%}; {report['n_unsupported']} not simulated"
    )
    for family, left in report["leave_one_family_out"].items():
        typer.echo(
            f"leave {family} out: memory.efficiency {left['memory_efficiency']:.3f}, mean {left['mean_abs_error']:.1%}"
        )


@validate_app.command("noc")
def validate_noc_(
    cases: Annotated[str, typer.Option(help="CSV: network, traffic, packet_flits, offered load, latency, state.")],
    seeds: Annotated[int, typer.Option(min=1, help="Runs per row, averaged.")] = 3,
    json_: Annotated[
        str | None, typer.Option("--json", help="Write the validation file; - for standard output.")
    ] = None,
) -> None:
    """Compare with measured latencies and accepted loads of on-chip networks."""
    report = validate_noc.noc(cases, seeds)
    if json_:
        _write(report, json_)
    if json_ != "-":
        typer.echo("\n".join(validate_noc.lines(report)))


@validate_app.command("dram")
def validate_dram(
    cases: Annotated[str, typer.Option(help="CSV: part, pattern, inject_every_cycles, requests, cycles, ...")],
    parts: Annotated[str | None, typer.Option(help="Parts, reference form; else dram_parts.json beside.")] = None,
    json_: Annotated[
        str | None, typer.Option("--json", help="Write the validation file; - for standard output.")
    ] = None,
) -> None:
    """Compare with cycles of DRAM channels."""
    report = validation.dram(cases, parts)
    if json_:
        _write(report, json_)
    if json_ == "-":
        return
    for row in report["rows"]:
        name = f"{row['part']:<14} {row['pattern']:<24} {row['inject_every_cycles']:>2}"
        outcome = f"{row['predicted_cycles']:>10,} {row['error']:>+8.2%}" if row["status"] == "ok" else row["reason"]
        typer.echo(f"{name} {row['measured_cycles'] or 0:>10,.0f} {outcome}")
    _summary(report)


def _summary(report: dict[str, Any]) -> None:
    typer.echo(
        f"{report['n']} rows: mean {report['mean_abs_error']:.2%}, median {report['median_abs_error']:.2%}, "
        f"worst {report['max_abs_error']:.2%}; {report['n_unsupported']} not simulated"
    )


@app.command()
def doctor() -> None:
    """Versions and where things lie."""
    import numpy

    typer.echo(f"tilesim {__version__}, numpy {numpy.__version__}, Python {sys.version.split()[0]}")
    typer.echo(f"machines: {', '.join(Machine.names())}")


def main() -> None:
    """Entry point: one clear message for the user's mistakes, no traceback; exit code 2."""
    try:
        app()
    except Error as error:
        typer.echo(f"tilesim: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("tilesim: interrupted", err=True)
        sys.exit(130)
