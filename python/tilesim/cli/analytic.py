"""Commands of the closed-form side: device, calibrate, roofline, crossover, suite, measure."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..base.errors import user_error
from ..base.files import writing
from ..machine.device import Device
from ..machine.machine import Machine
from ..machine.target import load as load_target
from . import complete
from .analytic_tables import crossover_rows, device_lines, fitted_rows, placed, scheme_rows, shapes_of, suite_rows
from .complete import App
from .examples import epilog
from .load import load_graph, write
from .options import MACHINE, OUTPUT, WORKLOAD, All, AnyDevice, Batch, Context, Dtype, Html, Json, Model, Phase
from .screen import say, wrapped
from .show import step
from .tables import layout, name, text

WHICH = "A device, with a power state behind @ or without: t4, t4@base, t4@50W."

device_app = App(no_args_is_help=True, help="Devices: CPUs, GPUs and NPUs in closed form.")


@device_app.command("list", epilog=epilog("device list"))
def device_list() -> None:
    """The shipped devices; machine list has machines too."""
    columns = [name("name"), text("description")]
    say(layout(columns, [[one, Device.load(one).description] for one in Device.names()]))


@device_app.command("show", epilog=epilog("device show"))
def device_show(name: Annotated[str, typer.Argument(help=WHICH, autocompletion=complete.devices)]) -> None:
    """Every figure of a device and where it comes from."""
    say(device_lines(Device.load(name)))


DeviceName = Annotated[
    str,
    typer.Option(
        help="A device (with a power state: t4@base, t4@50W), or auto to follow the device column.",
        rich_help_panel=MACHINE,
        autocompletion=complete.devices,
    ),
]
ProfileFile = Annotated[str | None, typer.Option(help="A profile that calibrate saved.", rich_help_panel=MACHINE)]


def calibrate(
    measurements: Annotated[str, typer.Argument(help="CSV with measured times in latency_ms.")],
    device: DeviceName = "auto",
    save: Annotated[str | None, typer.Option(help="Write the profile.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Fail when the mean error of rows left out is above (0.15 is 15 %).")
    ] = None,
    holdout: Annotated[
        str, typer.Option(help="What is left out: rows, size, dtype, device, family, specification or none.")
    ] = "rows",
) -> None:
    """Fit the few constants of a device to measurements; state the error on rows left out."""
    from ..analytic.calibration import calibrate as fit_all

    with step("fitting, and once more without each part left out" if holdout != "none" else "fitting"):
        profile = fit_all(measurements, device, holdout=holdout)
    if save:
        profile.save(save)
    worst = max([0.0, *(row["mean"] for row in profile.held_out)])
    say(fitted_rows(profile))
    if threshold is not None and worst > threshold:
        typer.echo(f"the mean error of rows left out, {worst:.1%}, is above {threshold:.1%}", err=True)
        raise typer.Exit(1)


def roofline(
    model: Model,
    device: AnyDevice | None = None,
    machine: Annotated[
        str | None,
        typer.Option(help="Another word for --device.", rich_help_panel=MACHINE, autocompletion=complete.machines),
    ] = None,
    batch: Batch = 1,
    context: Context = None,
    phase: Phase = None,
    dtype: Dtype = None,
    quantize_: Annotated[
        str | None, typer.Option("--quantize", help="Products in i8, fp8 or w4a16.", rich_help_panel=WORKLOAD)
    ] = None,
    scheme: Annotated[str | None, typer.Option(help="Scheme of products with weights.")] = None,
    engine: Annotated[str, typer.Option(help="Whose kernels: vLLM, TensorRT-LLM, a library's.")] = "",
    profile: ProfileFile = None,
    compiler: Annotated[
        str | None, typer.Option(help="Kernels as eager torch, torch.compile or XLA makes them: eager, torch, xla.")
    ] = None,
    json_: Annotated[
        str | None, typer.Option("--json", help="Write the result; - for standard output.", rich_help_panel=OUTPUT)
    ] = None,
    html: Html = None,
    everything: All = False,
) -> None:
    """The bound of a network on a device, the predicted time, and what bounds each operation."""
    from ..analytic.lower_bound import roofline as bound_of
    from ..timing.estimated import quantized_estimate
    from ..timing.quantize import quantize

    target = _target(device, machine)
    with step(f"estimating {model}"):
        graph = load_graph(model, batch, context, phase, dtype)
        bound = bound_of(quantize(graph, quantize_) if quantize_ else graph, target)
        options = {"scheme": scheme, "engine": engine, "profile": profile, "compiler": compiler}
        result = quantized_estimate(graph, Device.load(target), quantize_, **options)
    if json_:
        write(result.data, json_)
    if html:
        from ..analytic.pages import html_report

        with writing(html) as file:
            file.write(html_report(result, bound))
    if json_ == "-":
        return
    say(placed(result, bound, everything))


def _target(device: str | None, machine: str | None) -> Device | Machine:
    """What either option names: a label under --device is a device's."""
    if device is not None and machine is not None:
        raise user_error("two names for one option", place="--device, --machine", value=f"{device}, {machine}",
                         allowed="one of them")  # fmt: skip
    return load_target(machine or "h100") if device is None else load_target(device, labels=True)


def crossover(
    device: Annotated[str, typer.Argument(help="A device, or a machine.", autocompletion=complete.machines)],
    dtype: Annotated[str | None, typer.Argument(help="A scheme; none: every one.")] = None,
    against: Annotated[str | None, typer.Option(help="The baseline; none: bf16, fp16 or fp32.")] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="m,n,k or m,n,k,batch (repeat), each a number or a range (1:4096); none: squares."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="A network: the best scheme per product and of the whole.")] = None,
    errors: Annotated[bool, typer.Option(help="The numeric error of every scheme beside its time, per shape.")] = False,
    engine: Annotated[str, typer.Option(help="Whose kernels.")] = "",
    profile: ProfileFile = None,
    json_: Json = None,
    html: Html = None,
    everything: All = False,
) -> None:
    """Does another dtype help, from which intensity on, and how sure is that?"""
    from ..analytic.crossover import Crossover
    from ..analytic.crossover import crossover as ask

    shapes = shapes_of(shape)
    if model or errors:
        with step(f"pricing schemes on {device}"):
            rows = _network(model, device, dtype, engine, profile) if model else _errors(device, dtype, shapes)
        if json_:
            write(rows, json_)
        if json_ != "-":
            say(scheme_rows(rows, everything))
        return
    with step(f"pricing shapes on {device}"):
        answer = ask(device, dtype=dtype, against=against, shapes=shapes, engine=engine, profile=profile)
    if html:
        from ..analytic.pages import crossover_page

        with writing(html) as file:
            file.write(crossover_page(answer))
    if json_:
        write(answer.table().rows, json_)
    if json_ == "-":
        return
    lines = crossover_rows(answer.rows) if isinstance(answer, Crossover) else []
    say([*lines, *(part for line in answer.summary().splitlines() for part in wrapped(line, hang="  "))])


def _network(model: str, device: str, dtype: str | None, engine: str, profile: str | None) -> list[dict[str, Any]]:
    """The best scheme of every product of a network, and of the whole."""
    from ..analytic.best import SCHEMES, best_schemes

    chosen = SCHEMES if dtype is None else (SCHEMES[0], dtype)
    graph = load_graph(model, 1, None, None, "bf16")
    return best_schemes(graph, device, chosen, engine=engine, profile=profile).rows


def _errors(device: str, dtype: str | None, shapes: list[tuple[float, ...]] | None) -> list[dict[str, Any]]:
    """Numeric error and time of every scheme, or of one and the baseline."""
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
            help="Devices to compare (repeat).",
            rich_help_panel=MACHINE,
            autocompletion=complete.machines,
        ),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Of the operands.")] = None,
    json_: Json = None,
    html: Html = None,
) -> None:
    """A suite of workloads across devices."""
    from ..analytic.suites import compare_suite

    with step(f"estimating the suite {name}"):
        table = compare_suite(name, device or ["desktop-avx512", "npu-systolic", "phone-neon", "t4", "h100"], dtype)
    if json_:
        write(table.rows, json_)
    if html:
        from ..analytic.pages import suite_page

        with writing(html) as file:
            file.write(suite_page(table))
    if json_ == "-":
        return
    say(suite_rows(table.rows))


measure_app = App(no_args_is_help=True, help="Measure this machine for calibrate.")


@measure_app.command("cpu", epilog=epilog("measure cpu"))
def measure_cpu(
    save: Annotated[str, typer.Option(help="CSV to write.")],
    device: Annotated[
        str, typer.Option(help="The device file that describes this machine; auto: written beside the CSV.")
    ] = "auto",
    seconds: Annotated[float, typer.Option(min=1, help="For all measurements together.")] = 60.0,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the libraries; none: every core.")] = None,
) -> None:
    """Matrix products through numpy and torch, plain and packed: about a minute."""
    import os

    from ..analytic.measured.measure import measure_cpu as run

    cores = os.cpu_count() or 1
    if hasattr(os, "getloadavg") and os.getloadavg()[0] > cores / 2 and threads != 1:
        typer.echo(f"this machine is busy (load {os.getloadavg()[0]:.1f} on {cores} cores): --threads 1 repeats better")
    typer.echo(f"{run(save, device, seconds, threads)} rows in {save}")


@measure_app.command("cuda", epilog=epilog("measure cuda"))
def measure_cuda(
    save: Annotated[str, typer.Option(help="CSV to write.")],
    device: Annotated[
        str, typer.Option(help="The device file that describes the GPU; auto: by the driver's name of it.")
    ] = "auto",
    seconds: Annotated[float, typer.Option(min=1, help="For all measurements together.")] = 60.0,
) -> None:
    """Matrix products through torch on a CUDA device."""
    from ..analytic.measured.measure import measure_cuda as run

    typer.echo(f"{run(save, device, seconds)} rows in {save}")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(device_app, name="device")
    app.add_typer(measure_app, name="measure")
    for command in (calibrate, roofline, crossover, suite):
        app.command(command.__name__, epilog=epilog(command.__name__))(command)
