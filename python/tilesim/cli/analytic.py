"""Commands of the closed-form model: device, calibrate, roofline, crossover, suite, measure."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from ..base.columns import layout, name, text
from ..base.errors import user_error
from ..base.files import writing
from ..base.screen import wrapped
from ..machine.device import Device
from ..timing.options import WorkloadOptions
from . import complete
from .analytic_tables import crossover_rows, device_lines, fitted_rows, placed, scheme_rows, shapes_of, suite_rows
from .load import graph_of, target_of, write
from .options import MACHINE, Model, Only, Output, Target
from .screen import say
from .show import step

WHICH = "A device, optionally with a power state: t4, t4@base, t4@50W."


def devices() -> None:
    columns = [name("name"), text("description")]
    say(layout(columns, [[one, Device.load(one).description] for one in Device.names()]))


def device(name: Annotated[str, typer.Argument(help=WHICH, autocompletion=complete.devices)]) -> None:
    say(device_lines(Device.load(name)))


DeviceName = Annotated[
    str,
    typer.Option(
        help="A device (t4, t4@base, t4@50W), or auto for the device column.",
        rich_help_panel=MACHINE,
        autocompletion=complete.devices,
    ),
]
ProfileFile = Annotated[
    str | None, typer.Option(help="A calibration file that calibrate saved.", rich_help_panel=MACHINE)
]


def calibrate(
    measurements: Annotated[str, typer.Argument(help="CSV with measured times in latency_ms.")],
    device: DeviceName = "auto",
    save: Annotated[str | None, typer.Option(help="Write the calibration.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Fail when the mean error of held-out rows exceeds this share (0.15 is 15 %).")
    ] = None,
    holdout: Annotated[
        str, typer.Option(help="Held-out groups: rows, size, dtype, device, family, specification or none.")
    ] = "rows",
) -> None:
    from ..analytic.calibration import calibrate as fit_all

    with step("fitting, and cross-validating on held-out groups" if holdout != "none" else "fitting"):
        profile = fit_all(measurements, device, holdout=holdout)
    if save:
        profile.save(save)
    worst = max([0.0, *(row["mean"] for row in profile.held_out)])
    say(fitted_rows(profile))
    if threshold is not None and worst > threshold:
        typer.echo(f"the mean error of held-out rows, {worst:.1%}, exceeds the threshold of {threshold:.1%}", err=True)
        raise typer.Exit(1)


def roofline(
    model: Model,
    work: WorkloadOptions,
    on: Target,
    scheme: Annotated[
        str | None, typer.Option(help="Quantization scheme of weight matrices: int8, fp8, int4_wo, ...")
    ] = None,
    engine: Annotated[str, typer.Option(help="Kernel library: vLLM, TensorRT-LLM, ...")] = "",
    profile: ProfileFile = None,
    compiler: Annotated[
        str | None, typer.Option(help="Compiler whose kernels are modelled: eager, torch or xla.")
    ] = None,
    *,
    out: Annotated[Output, Only("json", "html", "all")],
) -> None:
    from ..analytic.lower_bound import roofline as bound_of
    from ..timing.estimated import quantized_estimate

    target = target_of(on if on.machine else replace(on, machine="h100"), labels="--device" in on.asked)
    with step(f"estimating {model}"):
        graph = graph_of(model, replace(work, quantize=None))
        bound = bound_of(graph_of(model, work) if work.quantize else graph, target)
        options = {"scheme": scheme, "engine": engine, "profile": profile, "compiler": compiler}
        result = quantized_estimate(graph, Device.load(target), work.quantize, **options)
    if out.json:
        write(result.data, out.json)
    if out.html:
        from ..analytic.pages import html_report

        with writing(out.html) as file:
            file.write(html_report(result, bound))
    if not out.silent:
        say(placed(result, bound, out.all))


def crossover(
    device: Annotated[str, typer.Argument(help="A device, or a machine.", autocompletion=complete.machines)],
    dtype: Annotated[str | None, typer.Argument(help="A scheme; default: all.")] = None,
    base: Annotated[str | None, typer.Option(help="The scheme to compare with; default: bf16, fp16 or fp32.")] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="m,n,k or m,n,k,batch, each a number or a range (1:4096); repeatable; default: squares."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="A network: find the best scheme per product and overall.")] = None,
    errors: Annotated[bool, typer.Option(help="Also report the numeric error of every scheme, per shape.")] = False,
    engine: Annotated[str, typer.Option(help="Kernel library.")] = "",
    profile: ProfileFile = None,
    *,
    work: Annotated[WorkloadOptions, Only("batch", "context", "phase")],
    out: Annotated[Output, Only("json", "html", "all")],
) -> None:
    shapes = shapes_of(shape)
    if work.asked and not model:
        raise user_error("these options need --model", place=", ".join(work.asked), allowed="only with --model")
    if model or errors:
        with step(f"pricing schemes on {device}"):
            rows = _network(model, work, device, dtype, engine, profile) if model else _errors(device, dtype, shapes)
        if out.json:
            write(rows, out.json)
        if not out.silent:
            say(scheme_rows(rows, out.all))
        return
    _priced(device, {"dtype": dtype, "against": base, "shapes": shapes, "engine": engine, "profile": profile}, out)


def _priced(device: str, options: dict[str, Any], out: Output) -> None:
    """Estimates and prints the times of shapes with and without a scheme."""
    from ..analytic.crossover import Crossover
    from ..analytic.crossover import crossover as ask

    with step(f"pricing shapes on {device}"):
        answer = ask(device, **options)
    if out.html:
        from ..analytic.pages import crossover_page

        with writing(out.html) as file:
            file.write(crossover_page(answer))
    if out.json:
        write(answer.table().rows, out.json)
    if out.silent:
        return
    lines = crossover_rows(answer.rows) if isinstance(answer, Crossover) else []
    say([*lines, *(part for line in answer.summary().splitlines() for part in wrapped(line, hang="  "))])


def _network(
    model: str, work: WorkloadOptions, device: str, dtype: str | None, engine: str, profile: str | None
) -> list[dict[str, Any]]:
    """Returns one row per matrix product with its fastest scheme, and one for the fastest scheme of the model."""
    from ..analytic.best import SCHEMES, best_schemes

    chosen = SCHEMES if dtype is None else (SCHEMES[0], dtype)
    graph = graph_of(model, replace(work, dtype="bf16"))
    return best_schemes(graph, device, chosen, engine=engine, profile=profile).rows


def _errors(device: str, dtype: str | None, shapes: list[tuple[float, ...]] | None) -> list[dict[str, Any]]:
    """Returns numeric error and time of all schemes, or of `dtype` and the baseline only."""
    from ..analytic.crossover import baseline
    from ..analytic.estimate import device_of
    from ..analytic.quantize import quantization_table
    from ..analytic.schemes import scheme

    target = device_of(device)
    wanted = None if dtype is None else {scheme(dtype, target).name, baseline(target, dtype)}
    rows = []
    for m, n, k, *_ in shapes or [(512.0, 4096.0, 4096.0)]:
        for row in quantization_table(int(m), int(n), int(k), target).rows:
            if wanted is None or row["scheme"] in wanted:
                rows.append({"m": m, "n": n, "k": k, **row})
    return rows


def suite(
    name: Annotated[str, typer.Argument(help="llm, vision, scaling or all.")],
    device: Annotated[
        list[str] | None,
        typer.Option(
            "--device",
            "--machine",
            help="Devices to compare; repeatable.",
            rich_help_panel=MACHINE,
            autocompletion=complete.machines,
        ),
    ] = None,
    *,
    work: Annotated[WorkloadOptions, Only("dtype")],
    out: Annotated[Output, Only("json", "html")],
) -> None:
    from ..analytic.suites import compare_suite

    with step(f"estimating the suite {name}"):
        named = device or ["desktop-avx512", "npu-systolic", "phone-neon", "t4", "h100"]
        table = compare_suite(name, named, work.dtype)
    if out.json:
        write(table.rows, out.json)
    if out.html:
        from ..analytic.pages import suite_page

        with writing(out.html) as file:
            file.write(suite_page(table))
    if not out.silent:
        say(suite_rows(table.rows))


def measure_cpu(
    save: Annotated[str, typer.Option(help="CSV to write.")],
    device: Annotated[str, typer.Option(help="Device file of this computer; auto writes one beside the CSV.")] = "auto",
    seconds: Annotated[float, typer.Option(min=1, help="Time budget for all measurements.")] = 60.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of the libraries; default: all cores.")] = None,
) -> None:
    import os

    from ..analytic.measured.measure import measure_cpu as run

    cores = os.cpu_count() or 1
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > cores / 2 and threads != 1:
        typer.echo(
            f"warning: this computer is busy (load {os.getloadavg()[0]:.1f} on {cores} cores); --threads 1 varies less"
        )
    typer.echo(f"{save}: {run(save, device, seconds, threads)} rows")


def measure_cuda(
    save: Annotated[str, typer.Option(help="CSV to write.")],
    device: Annotated[str, typer.Option(help="Device file of the GPU; auto detects it by its driver name.")] = "auto",
    seconds: Annotated[float, typer.Option(min=1, help="Time budget for all measurements.")] = 60.0,
) -> None:
    from ..analytic.measured.measure import measure_cuda as run

    typer.echo(f"{save}: {run(save, device, seconds)} rows")
