"""The command `run`: compile, simulate, explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ..base.declared import Stage, option
from ..base.errors import nearest, user_error
from ..base.screen import wrapped
from ..graph import Graph
from ..lowering.profile import LOWERINGS, has_profile
from ..machine.device import Device
from ..machine.machine import Machine
from ..program.program import Program
from ..timing.accuracy import accuracy
from ..timing.estimated import only_simulated, quantized_estimate
from ..timing.execution import verify
from ..timing.options import CompileOptions, SimulateOptions, WorkloadOptions
from ..timing.quantize import sample
from ..timing.simulate import simulate
from .explain import asked_for, show_both, show_explained
from .load import compiled, narrowed, read, target_of
from .options import CHECK, ExcludedOptions, Model, Target
from .output import RunOutput
from .screen import say
from .show import step, verified


@dataclass(frozen=True)
class Checks(Stage):
    """Checks of a program."""

    panel = CHECK

    verify: bool = option(False, "Execute the program and compare with the reference.", "--verify")
    verify_against: str = option(
        "reference", "Baseline of --verify: reference, or source (the graph before patterns were replaced)."
    )
    accuracy: str | None = option(
        None, "Report errors of a quantized model against f32 (the same model), or against a model's name or file."
    )


def run(
    model: Model,
    work: WorkloadOptions,
    on: Target,
    compiling: CompileOptions,
    simulating: SimulateOptions,
    checks: Checks,
    out: Annotated[RunOutput, ExcludedOptions("store", "csv")],
) -> None:
    baseline, topics = out.baseline(), asked_for(out.explain)
    with step(f"reading {model}"):
        wide = read(model, work)
        target = target_of(on, wide, simulating.network)
        loaded = wide
        if work.quantize and isinstance(target, Machine):
            loaded = narrowed(wide, work, sample(wide, seed=simulating.seed) if checks.accuracy else None)
    if isinstance(target, Device):
        return _estimate(wide, target, work, out, [*compiling.asked, *simulating.asked, *checks.asked])
    ways = _ways(compiling.lowering, target, bool(out.timeline or out.html or checks.verify))
    with step(f"compiling for {target.name}"):
        programs = {way: compiled(loaded, target, compiling, **changed) for way, changed in ways.items()}
    program = next(iter(programs.values()))
    _verify(program, checks, simulating, out)
    errors = _errors(program, wide, work, checks, simulating.seed)
    with step(f"simulating {target.name}"):
        results = {
            way: simulate(one, target, timeline=out.timeline is not None, **simulating.given())
            for way, one in programs.items()
        }
    result = next(iter(results.values()))
    if errors is not None:
        result.data["accuracy"] = errors
    if out.timeline:
        result.timeline(out.timeline)
    out.write(results, baseline)
    if out.silent:
        return
    if len(results) > 1:
        show_both(*results.values())
    else:
        out.show(result)
    for way, one in results.items():
        show_explained(one, topics, programs[way], out.all)
    if len(results) == 1:
        out.advise(result)


def _estimate(loaded: Graph | Program, device: Device, work: WorkloadOptions, out: RunOutput, asked: list[str]) -> None:
    """Estimates on a device and prints; an option of the simulator is an error."""
    if refused := [*asked, *(one for one in out.asked if one in ("--timeline", "--explain"))]:
        raise only_simulated(device, refused)
    if isinstance(loaded, Program):
        what = "a device needs a graph, not a compiled program"
        raise user_error(what, value=device.name, suggestion="Give the graph, or name a machine")
    with step(f"estimating {device.name}"):
        result = quantized_estimate(loaded, device, work.quantize)
    out.write({"": result}, out.baseline())
    if out.silent:
        return
    if not out.quiet:
        text = f"{device.name} is a device: estimated in closed form (details: tilesim roofline)."
        say(wrapped(text, hang="  "))
    out.show(result)
    out.advise(result)


def _ways(lowering: str | None, target: Machine, of_one: bool) -> dict[str, dict[str, str]]:
    """Returns the compile options of each requested lowering, by lowering name."""
    if lowering not in (None, "both", *LOWERINGS):
        hint, allowed = nearest(lowering, (*LOWERINGS, "both")), "native, best, both"
        raise user_error(
            "unknown lowering", place="--lowering", value=f"'{lowering}'", allowed=allowed, suggestion=hint
        )
    if lowering != "both":
        return {"": {}}
    if not has_profile(target):
        what = f"{target.name} has no lowering profile, so it has only one lowering"
        raise user_error(what, place="--lowering", value="'both'", allowed="best")
    if of_one:
        raise user_error(
            "these options need a single lowering",
            place="--timeline, --html, --verify",
            allowed="--lowering native, best",
        )
    return {"native": {"lowering": "native"}, "best": {"lowering": "best"}}


def _verify(program: Program, checks: Checks, simulating: SimulateOptions, out: RunOutput) -> None:
    """With --verify, executes the program and compares the outputs; exits with code 1 on a difference."""
    if not checks.verify:
        if checks.verify_against != "reference":
            raise user_error("--verify-against needs --verify", place="--verify-against", value=checks.verify_against,
                             suggestion="Add --verify")  # fmt: skip
        return
    with step("executing and comparing"):
        outcome = verify(program, seed=simulating.seed, against=checks.verify_against, level=simulating.level)
    say(verified(outcome, out.all), err=out.silent)
    if not outcome.ok:
        raise typer.Exit(1)


def _errors(program: Program, wide: Graph | Program, work: WorkloadOptions, checks: Checks, seed: int) -> Any:
    """Returns a quantized model's errors, in the form that a result stores; None without --accuracy."""
    if checks.accuracy is None:
        return None
    with step("executing the model and its baseline"):
        against = (wide if work.quantize else None) if checks.accuracy == "f32" else read(checks.accuracy, work)
        return accuracy(program, against, seed=seed).data
