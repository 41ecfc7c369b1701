"""The command `run`: compile, simulate, explain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ..base.declared import Stage, option
from ..base.errors import nearest, user_error
from ..graph import Graph
from ..lowering.profile import LOWERINGS, has_profile
from ..machine.device import Device
from ..machine.machine import Machine
from ..program.program import Program
from ..results.perfetto import check_ending
from ..timing.accuracy import accuracy
from ..timing.estimated import only_simulated, quantized_estimate
from ..timing.execution import verify
from ..timing.options import CompileOptions, SimulateOptions, WorkloadOptions
from ..timing.quantize import sample
from ..timing.simulate import simulate
from .explained import asked_for, show_both, show_explained
from .load import compiled, narrowed, read, target_of
from .options import CHECK, Model, Target, Without
from .output import RunOutput
from .screen import say, wrapped
from .show import step, verified


@dataclass(frozen=True)
class Checks(Stage):
    """What is compared with the program."""

    panel = CHECK

    verify: bool = option(False, "Execute and compare with the reference.", "--verify")
    verify_against: str = option(
        "reference", "--verify compares with the reference, or also the source: the graph as read."
    )
    accuracy: str | None = option(None, "Errors of a quantized model against f32: itself, or a model's name or file.")


def run(
    model: Model,
    work: WorkloadOptions,
    on: Target,
    compiling: CompileOptions,
    simulating: SimulateOptions,
    checks: Checks,
    out: Annotated[RunOutput, Without("store", "csv")],
) -> None:
    if out.timeline:
        check_ending(out.timeline)
    out.check()
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
    """Estimates and prints; options that only a simulation has are an error."""
    if refused := [*asked, *(one for one in out.asked if one in ("--timeline", "--explain"))]:
        raise only_simulated(device, refused)
    if isinstance(loaded, Program):
        what = f"{device.name} is a device, which is estimated from a graph: this is a compiled program"
        raise user_error(what, value=device.name, suggestion="Take the graph, or a machine")
    with step(f"estimating {device.name}"):
        result = quantized_estimate(loaded, device, work.quantize)
    out.write({"": result}, out.baseline())
    if out.silent:
        return
    if not out.quiet:
        text = f"{device.name} is a device: estimated in closed form, not simulated (tilesim roofline tells more)."
        say(wrapped(text, hang="  "))
    out.show(result)
    out.advise(result)


def _ways(lowering: str | None, target: Machine, of_one: bool) -> dict[str, dict[str, str]]:
    """Options of the lowerings to look at, by name: one as it is, or both."""
    if lowering not in (None, "both", *LOWERINGS):
        hint, allowed = nearest(lowering, (*LOWERINGS, "both")), "native, best, both"
        raise user_error(
            "unknown lowering", place="--lowering", value=f"'{lowering}'", allowed=allowed, suggestion=hint
        )
    if lowering != "both":
        return {"": {}}
    if not has_profile(target):
        what = f"the file of {target.name} has no lowering profile: there is one lowering to look at"
        raise user_error(what, place="--lowering", value="'both'", allowed="best")
    if of_one:
        raise user_error(
            "of one program alone", place="--timeline, --html, --verify", allowed="--lowering native, best"
        )
    return {"native": {"lowering": "native"}, "best": {"lowering": "best"}}


def _verify(program: Program, checks: Checks, simulating: SimulateOptions, out: RunOutput) -> None:
    """Executes and compares where that is asked for; ends with exit code 1 where it differs."""
    if not checks.verify:
        if checks.verify_against != "reference":
            raise user_error("there is nothing to compare", place="--verify-against", value=checks.verify_against,
                             suggestion="Add --verify")  # fmt: skip
        return
    with step("executing and comparing"):
        outcome = verify(program, seed=simulating.seed, against=checks.verify_against, level=simulating.level)
    say(verified(outcome, out.all), err=out.silent)
    if not outcome.ok:
        raise typer.Exit(1)


def _errors(program: Program, wide: Graph | Program, work: WorkloadOptions, checks: Checks, seed: int) -> Any:
    """Errors of a quantized model, as the result keeps them; none where they are not asked for."""
    if checks.accuracy is None:
        return None
    with step("executing, and in f32"):
        against = (wide if work.quantize else None) if checks.accuracy == "f32" else read(checks.accuracy, work)
        return accuracy(program, against, seed=seed).data
