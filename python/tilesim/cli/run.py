"""The command `run`: compile, simulate, explain."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

import typer

from ..base.arguments import is_size
from ..base.errors import nearest, shown
from ..graph import Graph, user_error
from ..lowering.profile import LOWERINGS, has_profile
from ..machine.machine import Machine
from ..program.data_sources import opened
from ..program.mixed import MixedProgram
from ..program.program import Program
from ..timing.accuracy import accuracy
from ..timing.execution import verify
from ..timing.quantize import quantize, sample
from ..timing.simulate import compile, simulate
from .explained import asked_for, show_both, show_explained
from .load import WHAT, load, write
from .show import show, step

__all__ = ["register"]

LONG_WITH_BANKS = 4_000_000_000
"""Bytes moved beyond which changed machines are not simulated unless asked for: some ten seconds each."""
LONG_IN_TILES = 200_000_000
"""Tile operations beyond which they are not either: the same."""


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


def _changes(settings: list[str]) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for setting in settings:
        path, equals, value = setting.partition("=")
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
    model: Annotated[str, typer.Argument(help=WHAT)],
    machine: Annotated[
        str | None, typer.Option(help="Preset or file; a compiled program's own if none is given, otherwise tpu-v3.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Images, sequences, or products.")] = 1,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens, for networks that read text.")] = None,
    phase: Annotated[str | None, typer.Option(help="prefill or decode, for networks that write text.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: path=value.")] = None,
    memory: Annotated[str | None, typer.Option(help="ideal, simple or bank; the machine's if none is given.")] = None,
    network: Annotated[
        str | None, typer.Option(help="simple, crossbar, mesh, mesh_4x8, ..., a .json file; the machine's if none.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Of a network or product: f32, bf16, f16, ...")] = None,
    quantize_: Annotated[
        str | None,
        typer.Option("--quantize", help="Products in i8, fp8 or w4a16; scales are 1, or calibrated with --accuracy."),
    ] = None,
    cores: Annotated[int | None, typer.Option(help="Cores of the machine that share the work; all by default.")] = None,
    sort: Annotated[str | None, typer.Option(help="Of cores of several sorts the one that runs it.")] = None,
    verify_: Annotated[bool, typer.Option("--verify", help="Execute and compare with the reference.")] = False,
    accuracy_: Annotated[
        str | None,
        typer.Option(
            "--accuracy", help="Errors of a quantized model against 'f32': itself, or a model's name or file."
        ),
    ] = None,
    against: Annotated[
        str, typer.Option(help="--verify compares with the 'reference', or also the 'source': the graph as imported.")
    ] = "reference",
    json_: Annotated[str | None, typer.Option("--json", help="Write the result; - for standard output.")] = None,
    timeline: Annotated[str | None, typer.Option(help="Write a Perfetto trace.")] = None,
    report: Annotated[str | None, typer.Option(help="Write a page of pictures and tables (HTML).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of random inputs, and of distributions.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the headline only.")] = False,
    advice: Annotated[
        bool | None,
        typer.Option(help="Simulate changed machines, and say which change helps most: done unless it takes minutes."),
    ] = None,
    fallback: Annotated[
        str | None, typer.Option(help="What the machine cannot run: 'error' (default), or on the 'host', at its cost.")
    ] = None,
    place: Annotated[list[str] | None, typer.Option(help="Run an operation there: name=host or name=machine.")] = None,
    mapping: Annotated[
        str | None,
        typer.Option(help="profile (default), cost, heuristic, tuned, gemmini, pytorchsim; a .json file."),
    ] = None,
    explain: Annotated[
        list[str] | None,
        typer.Option(
            help="bounds: the least bytes and time, by operation; memory: addresses by lifetime; fusion: every group."
        ),
    ] = None,
    lowering: Annotated[
        str | None,
        typer.Option(help="native: as the chip's own compiler, where the machine's file says how; best; or both."),
    ] = None,
    fuse: Annotated[
        str | None, typer.Option(help="all (default), none, or rules with commas between: --fuse list.")
    ] = None,
    residency: Annotated[
        list[str] | None,
        typer.Option(help="What stays in scratchpads: auto, none; or tensor=scratchpad, tensor=memory."),
    ] = None,
    contexts: Annotated[int | None, typer.Option(min=1, help="Of a core, that share every kernel.")] = None,
    tensors: Annotated[
        list[str] | None,
        typer.Option(help="What timing reads: a .npz file of arrays by name, or name=uniform, balanced, zipf:1.1."),
    ] = None,
    zero_tiles: Annotated[
        str | None, typer.Option(help="skip: tiles of weights that are all zero; test: of activations too; off: none.")
    ] = None,
    passes: Annotated[
        str | None, typer.Option(help="What is recognised in a model: all, none, or passes' names with commas between.")
    ] = None,
    resident: Annotated[
        list[str] | None, typer.Option(help="A tensor that stays in the machine's cache; 'auto': what is used most.")
    ] = None,
    trips: Annotated[list[str] | None, typer.Option(help="How often a loop runs that data end: name=number.")] = None,
    collectives: Annotated[
        str | None,
        typer.Option(help="Operations between devices: 'error' (default), or 'untimed' as on one of alike devices."),
    ] = None,
) -> None:
    """Compile, simulate and explain a workload."""
    with step(f"reading {model}"):
        loaded = load(model, batch, context, phase, dtype, passes)
        wide = loaded
        if quantize_:
            loaded = quantize(loaded, quantize_, sample(loaded, seed=seed) if accuracy_ else None)
    own = loaded.machine if isinstance(loaded, Program) else None
    target = Machine.load(machine or own or "tpu-v3").replace(_changes(set_ or []))
    if network is not None and isinstance(loaded, Graph):
        target = target.replace({"network.kind": network})
    explained = asked_for(explain)
    both = lowering == "both"
    if lowering not in (None, "both", *LOWERINGS):
        hint, allowed = nearest(lowering, (*LOWERINGS, "both")), "native, best, both"
        raise user_error(
            "unknown lowering", place="--lowering", value=f"'{lowering}'", allowed=allowed, suggestion=hint
        )
    if both and not has_profile(target):
        what = f"the file of {target.name} has no lowering profile: there is one lowering to look at"
        raise user_error(what, place="--lowering", value="'both'", allowed="best")
    if both and (timeline or report or verify_):
        raise user_error(
            "of one program alone", place="--timeline, --report, --verify", allowed="--lowering native, best"
        )
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
            outcome = verify(program, seed=seed, against=against)
        typer.echo(str(outcome), err=json_ == "-")
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
    with step("simulating"):
        stays = "auto" if resident == ["auto"] else resident or []
        with_options: dict[str, Any] = {"memory": memory, "network": network, "timeline": timeline is not None}
        with_options |= {"resident": stays, "tensors": _arrays(tensors or []), "seed": seed}
        result = simulate(program, target, **with_options)
        second = simulate(other, target, **with_options) if other is not None else None
        if errors is not None:
            result.data["accuracy"] = errors.data
    if timeline:
        result.timeline(timeline)
    if report:
        result.report(report)
    if json_:
        write(result.data if second is None else {"native": result.data, "best": second.data}, json_)
    if json_ == "-":
        return
    if second is not None:
        show_both(result, second)
    elif quiet:
        typer.echo(result.summary())
    else:
        long = result.data["fidelity"].get("memory") == "bank" and result.memory_bytes > LONG_WITH_BANKS
        long = long or (not isinstance(program, MixedProgram) and program.core.contents()[0] > LONG_IN_TILES)
        with step("simulating changed machines"):
            best = result.explain()[0] if (not long if advice is None else advice) else None
        show(result, best)
        if long and advice is None:
            typer.echo("Changed machines were not simulated, which takes long: --advice does it.")
    show_explained(result, explained, program)
    if second is not None and other is not None:
        show_explained(second, explained, other)


def register(app: typer.Typer) -> None:
    """Adds the command.

    Args:
        app: of the command line.
    """
    app.command()(run)
