"""The command `run`: compile, simulate, explain."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from ..base.arguments import is_size
from ..base.errors import nearest, shown
from ..base.files import check_writable
from ..graph import Graph, user_error
from ..lowering.profile import LOWERINGS, has_profile
from ..machine.device import Device
from ..machine.machine import Machine
from ..machine.target import load as load_target
from ..program.data_sources import opened
from ..program.program import Program
from ..results.perfetto import check_ending
from ..timing.accuracy import accuracy
from ..timing.execution import verify
from ..timing.quantize import quantize, sample
from ..timing.simulate import compile, simulate
from . import complete
from .examples import epilog
from .explained import asked_for, show_both, show_explained
from .load import load
from .options import CHECK, COMPILE, MACHINE, OUTPUT, WORKLOAD, All, Batch, Context, Dtype, Level, Model, Phase
from .output import Output, baseline_of, run_estimate
from .screen import say
from .show import step, verified

__all__ = ["register", "settings_of"]

_Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Change a setting: path=value.", rich_help_panel=MACHINE, autocompletion=complete.settings
    ),
]


def _residency(words: list[str] | None) -> str | dict[str, str] | None:
    """The option of `compile`: a word, or levels by tensor."""
    if not words:
        return None
    if len(words) == 1 and "=" not in words[0]:
        return words[0]
    wrong = [word for word in words if "=" not in word]
    if wrong:
        allowed = "auto or none alone, or any number of tensor=level"
        raise user_error("a residency has no level", place="--residency", value=f"'{wrong[0]}'", allowed=allowed)
    pairs = (word.rpartition("=") for word in words)
    return {tensor: level for tensor, _, level in pairs}


def settings_of(settings: list[str]) -> dict[str, Any]:
    """What `--set` says, by setting path.

    Args:
        settings: texts as "core.arrays=4".

    Returns:
        Values as in a file.

    Raises:
        UserError: for a setting without a value, or given twice.
    """
    changes: dict[str, Any] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
        if path in changes:
            raise user_error("one setting is given twice", place=path, value=f"'{setting}'", allowed="one value")
        if not equals:
            raise user_error("a setting needs a value", value=f"'{setting}'", allowed="path=value")
        try:
            changes[path] = json.loads(value)
        except (ValueError, RecursionError):  # no JSON, or more digits or brackets than Python reads
            changes[path] = value
    return changes


def _trips(texts: list[str]) -> dict[str, int]:
    trips: dict[str, int] = {}
    for text in texts:
        name, equals, count = text.rpartition("=")
        if not equals or not is_size(count):
            raise user_error("a loop needs its number of trips", value=f"'{text}'", allowed="name=number")
        trips[name] = int(count)
    return trips


def _compiled(
    loaded: Graph | Program, target: Machine, place: list[str], trips: list[str], options: dict[str, Any]
) -> Program:
    places = {}
    for text in place:
        name, equals, side = text.rpartition("=")
        if not equals:
            raise user_error("an operation needs a place", value=f"'{text}'", allowed="name=host, name=machine")
        places[name] = side
    given = {name: value for name, value in options.items() if value is not None}
    if isinstance(loaded, Graph):
        return compile(loaded, target, place=places, trips=_trips(trips), **given)
    if places or trips or given:
        named = [*(["place"] if places else []), *(["trips"] if trips else []), *given]
        raise user_error(
            "a compiled program was compiled with its options already",
            place=", ".join(f"--{name}" for name in named),
            allowed="those with a graph",
        )
    return loaded


def _check_lowering(lowering: str | None, target: Machine, of_one: bool) -> None:
    """Refuses an unknown lowering, and both where there is one, or where what is asked for is of one program."""
    if lowering not in (None, "both", *LOWERINGS):
        hint, allowed = nearest(lowering, (*LOWERINGS, "both")), "native, best, both"
        raise user_error(
            "unknown lowering", place="--lowering", value=f"'{lowering}'", allowed=allowed, suggestion=hint
        )
    if lowering == "both" and not has_profile(target):
        what = f"the file of {target.name} has no lowering profile: there is one lowering to look at"
        raise user_error(what, place="--lowering", value="'both'", allowed="best")
    if lowering == "both" and of_one:
        raise user_error(
            "of one program alone", place="--timeline, --report, --verify", allowed="--lowering native, best"
        )


def _arrays(given: list[str]) -> dict[str, Any]:
    """Of .npz files and `name=distribution`."""
    files = [one for one in given if "=" not in one or os.path.exists(one)]
    if len(files) > 1:
        raise user_error("one file has all arrays", place="--tensors", value=shown(files), allowed="one .npz file")
    found = opened(files[0]) if files else {}
    for text in given:
        if text not in files:
            name, _, distribution = text.partition("=")
            found[name] = distribution
    return found


def run(
    given: typer.Context,
    model: Model,
    batch: Batch = 1,
    context: Context = None,
    phase: Phase = None,
    dtype: Dtype = None,
    quantize_: Annotated[
        str | None,
        typer.Option(
            "--quantize",
            help="Products in i8, fp8 or w4a16 (scales are 1, or calibrated with --accuracy); or all in bf16, f16.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    passes: Annotated[
        str | None,
        typer.Option(
            help="What is recognised in a model: all, none, or passes' names with commas between.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    trips: Annotated[
        list[str] | None,
        typer.Option(help="How often a loop runs that data end: name=number.", rich_help_panel=WORKLOAD),
    ] = None,
    tensors: Annotated[
        list[str] | None,
        typer.Option(
            help="What timing reads: a .npz file of arrays by name, or name=uniform, balanced, zipf:1.1.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of random inputs, and of distributions.", rich_help_panel=WORKLOAD)
    ] = 0,
    machine: Annotated[
        str | None,
        typer.Option(
            "--machine",
            "--device",
            help="Machine (simulated) or device (estimated), by name or file; a program's own if none, or tpu-v3.",
            rich_help_panel=MACHINE,
            autocompletion=complete.machines,
        ),
    ] = None,
    set_: _Settings = None,
    memory: Annotated[
        str | None, typer.Option(help="ideal, simple or bank; the machine's if none is given.", rich_help_panel=MACHINE)
    ] = None,
    level: Level = "tile",
    network: Annotated[
        str | None,
        typer.Option(
            help="simple, crossbar, mesh, mesh_4x8, ..., a .json file; the machine's if none.", rich_help_panel=MACHINE
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(help="Cores of the machine that share the work; all by default.", rich_help_panel=MACHINE),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="Of cores of several sorts the one that runs it.", rich_help_panel=MACHINE)
    ] = None,
    resident: Annotated[
        list[str] | None,
        typer.Option(
            help="A tensor that stays in the machine's cache; 'auto': what is used most.", rich_help_panel=MACHINE
        ),
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            help="profile (default), cost, heuristic, tuned, gemmini, pytorchsim; a .json file.",
            rich_help_panel=COMPILE,
        ),
    ] = None,
    lowering: Annotated[
        str | None,
        typer.Option(
            help="native: as the chip's own compiler, where the machine's file says how; best; or both.",
            rich_help_panel=COMPILE,
        ),
    ] = None,
    fuse: Annotated[
        str | None,
        typer.Option(help="all (default), none, or rules with commas between: --fuse list.", rich_help_panel=COMPILE),
    ] = None,
    residency: Annotated[
        list[str] | None,
        typer.Option(
            help="What stays in scratchpads: auto, none; or tensor=scratchpad, tensor=memory.", rich_help_panel=COMPILE
        ),
    ] = None,
    contexts: Annotated[
        int | None, typer.Option(min=1, help="Of a core, that share every kernel.", rich_help_panel=COMPILE)
    ] = None,
    zero_tiles: Annotated[
        str | None,
        typer.Option(
            help="skip: tiles of weights that are all zero; test: of activations too; off: none.",
            rich_help_panel=COMPILE,
        ),
    ] = None,
    fallback: Annotated[
        str | None,
        typer.Option(
            help="What the machine cannot run: 'error' (default), or on the 'host', at its cost.",
            rich_help_panel=COMPILE,
        ),
    ] = None,
    place: Annotated[
        list[str] | None,
        typer.Option(help="Run an operation there: name=host or name=machine.", rich_help_panel=COMPILE),
    ] = None,
    collectives: Annotated[
        str | None,
        typer.Option(
            help="Operations between devices: 'error' (default), or 'untimed' as on one of alike devices.",
            rich_help_panel=COMPILE,
        ),
    ] = None,
    verify_: Annotated[
        bool, typer.Option("--verify", help="Execute and compare with the reference.", rich_help_panel=CHECK)
    ] = False,
    accuracy_: Annotated[
        str | None,
        typer.Option(
            "--accuracy",
            help="Errors of a quantized model against 'f32': itself, or a model's name or file.",
            rich_help_panel=CHECK,
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help="--verify compares with the 'reference', or also the 'source': the graph as imported.",
            rich_help_panel=CHECK,
        ),
    ] = "reference",
    json_: Annotated[
        str | None, typer.Option("--json", help="Write the result; - for standard output.", rich_help_panel=OUTPUT)
    ] = None,
    timeline: Annotated[
        str | None, typer.Option(help="Write a trace for Perfetto: .pftrace or .json.", rich_help_panel=OUTPUT)
    ] = None,
    report: Annotated[
        str | None, typer.Option(help="Write a page of pictures and tables (HTML).", rich_help_panel=OUTPUT)
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="--report compares with this saved result.", rich_help_panel=OUTPUT)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the headline only.", rich_help_panel=OUTPUT)] = False,
    everything: All = False,
    advice: Annotated[
        bool | None,
        typer.Option(
            help="Simulate changed machines, and say which change helps most: done unless it takes minutes.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    explain: Annotated[
        list[str] | None,
        typer.Option(
            help="bounds: the least bytes and time, by operation; memory: addresses by lifetime; fusion: every group.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Compile, simulate and explain a workload; on a device, estimate it."""
    if report:
        check_writable(report)  # before any work
    if timeline:
        check_ending(timeline)
    written = [path for path in (report, json_, timeline) if path and path != "-"]
    if len({os.path.realpath(path) for path in written}) < len(written):
        allowed = "a file for each"
        raise user_error("one file is to be written twice", place="--report, --json, --timeline",
                         value=", ".join(written), allowed=allowed)  # fmt: skip
    with step(f"reading {model}"):
        loaded = load(model, batch, context, phase, dtype, passes)
        wide = loaded
        if quantize_ and not isinstance(load_target(machine or "tpu-v3"), Device):
            loaded = quantize(loaded, quantize_, sample(loaded, seed=seed) if accuracy_ else None)
    own = loaded.machine if isinstance(loaded, Program) else None
    named = load_target(machine or own or "tpu-v3")
    out = Output(json_, report, quiet, advice, everything, baseline_of(baseline, report))
    if isinstance(named, Device) and level != "tile":
        raise user_error("a device has closed forms alone", place="--level", value=level, allowed="tile")
    if isinstance(named, Device):
        run_estimate(given, wide, named, out, quantize_)
        return
    target = named.replace(settings_of(set_ or []))
    if network is not None and isinstance(loaded, Graph):
        target = target.replace({"network.kind": network})
    explained = asked_for(explain)
    both = lowering == "both"
    _check_lowering(lowering, target, bool(timeline or report or verify_))
    options: dict[str, Any] = {"fallback": fallback, "cores": cores, "sort": sort, "mapping": mapping, "fuse": fuse}
    options |= {"residency": _residency(residency), "contexts": contexts, "collectives": collectives}
    options |= {"zero_tiles": zero_tiles, "lowering": "native" if both else lowering}
    with step(f"compiling for {target.name}"):
        program = _compiled(loaded, target, place or [], trips or [], options)
        other = _compiled(loaded, target, place or [], trips or [], {**options, "lowering": "best"}) if both else None
    if against != "reference" and not verify_:
        raise user_error("there is nothing to compare", place="--against", value=against, suggestion="Add --verify")
    if verify_:
        with step("executing and comparing"):
            outcome = verify(program, seed=seed, against=against, level=level)
        say(verified(outcome, everything), err=json_ == "-")
        if not outcome.ok:
            raise typer.Exit(1)
    errors = None
    if accuracy_:
        with step("executing, and in f32"):
            errors = accuracy(
                program,
                (wide if quantize_ else None)
                if accuracy_ == "f32"
                else load(accuracy_, batch, context, phase, dtype, passes),
                seed=seed,
            )
    with step(f"simulating {target.name}"):
        stays = "auto" if resident == ["auto"] else resident or []
        with_options: dict[str, Any] = {"memory": memory, "network": network, "timeline": timeline is not None}
        with_options |= {"level": level, "resident": stays, "tensors": _arrays(tensors or []), "seed": seed}
        result = simulate(program, target, **with_options)
        second = simulate(other, target, **with_options) if other is not None else None
        if errors is not None:
            result.data["accuracy"] = errors.data
    if timeline:
        result.timeline(timeline)
    out.write(result if second is None else None, {"native": result, "best": second} if second is not None else {})
    if json_ == "-":
        return
    if second is not None:
        show_both(result, second)
    else:
        out.show(result)
    show_explained(result, explained, program, everything)
    if second is not None and other is not None:
        show_explained(second, explained, other, everything)
    if second is None:
        out.advise(result)


def register(app: typer.Typer) -> None:
    """Adds the command.

    Args:
        app: of the command line.
    """
    app.command(epilog=epilog("run"))(run)
