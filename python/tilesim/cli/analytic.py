"""Commands of the closed-form side: device, calibrate, roofline, crossover, suite, measure."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..base.files import writing
from ..machine.device import Device
from .load import WHAT, load_graph, write
from .show import step

device_app = typer.Typer(no_args_is_help=True, help="Devices: CPUs, GPUs and NPUs in closed form.")


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
    if device.clocks:
        typer.echo(f"  clocks {', '.join(f'{key} {value / 1e9:g} GHz' for key, value in device.clocks.items())}")
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


DeviceName = Annotated[
    str, typer.Option(help="A device (with a power state: t4@base, t4@50W), or auto to follow the device column.")
]
ProfileFile = Annotated[str | None, typer.Option(help="A profile that calibrate saved.")]
Json = Annotated[str | None, typer.Option("--json", help="Write the validation file; - for standard output.")]


_Html = Annotated[str | None, typer.Option(help="Write a page.")]


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
    from ..analytic.calibrate import calibrate as fit_all

    with step("fitting, and once more without each part left out" if holdout != "none" else "fitting"):
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


_Model = Annotated[str, typer.Argument(help=WHAT)]


def roofline(
    model: _Model,
    device: Annotated[str, typer.Option(help="A device, or a machine.")] = "h100",
    batch: Annotated[int, typer.Option(min=1, help="Images, sequences, or products.")] = 1,
    context: Annotated[int | None, typer.Option(min=1, help="Tokens, for networks that read text.")] = None,
    phase: Annotated[str | None, typer.Option(help="prefill or decode, for networks that write text.")] = None,
    dtype: Annotated[str | None, typer.Option(help="Of a network or product: f32, bf16, f16, ...")] = None,
    scheme: Annotated[str | None, typer.Option(help="Scheme of products with weights.")] = None,
    engine: Annotated[str, typer.Option(help="Whose kernels: vLLM, TensorRT-LLM, a library's.")] = "",
    profile: ProfileFile = None,
    compiler: Annotated[
        str | None, typer.Option(help="Kernels as eager torch, torch.compile or XLA makes them: eager, torch, xla.")
    ] = None,
    json_: Annotated[str | None, typer.Option("--json", help="Write the result; - for standard output.")] = None,
    html: _Html = None,
) -> None:
    """The bound of a network on a device, the predicted time, and what bounds each operation."""
    from ..analytic.estimate import estimate
    from ..analytic.estimate import roofline as bound_of

    graph = load_graph(model, batch, context, phase, dtype)
    bound = bound_of(graph, device)
    result = estimate(graph, device, scheme=scheme, engine=engine, profile=profile, compiler=compiler)
    if json_:
        write(result.data, json_)
    if html:
        from ..analytic.pages import html_report

        with writing(html) as file:
            file.write(html_report(result, bound))
    if json_ == "-":
        return
    typer.echo(result.summary())
    typer.echo(repr(bound)[1:-1])
    rows = result.terms().rows
    for row in rows[:20]:
        typer.echo(
            f"{row['operation'][-44:]:<44} {row['ms']:>10.4g} ms  {row['bound']:<8} {row['scheme']:<6} {row['model']}"
        )
    if len(rows) > 20:
        typer.echo(f"... and {len(rows) - 20} more operations")
    typer.echo("Modelled: " + "; ".join(result.approximations))


def crossover(
    device: Annotated[str, typer.Argument(help="A device, or a machine.")],
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
    json_: Annotated[str | None, typer.Option("--json", help="Write the rows; - for standard output.")] = None,
    html: _Html = None,
) -> None:
    """Does another dtype help, from which intensity on, and how sure is that?"""
    from ..analytic.crossover import Crossover
    from ..analytic.crossover import crossover as ask

    shapes = _shapes_of(shape)
    if model or errors:
        rows = _network(model, device, dtype, engine, profile) if model else _errors(device, dtype, shapes)
        if json_:
            write(rows, json_)
        if json_ != "-":
            typer.echo("\n".join(_columns(rows)))
        return
    answer = ask(device, dtype=dtype, against=against, shapes=shapes, engine=engine, profile=profile)
    if html:
        from ..analytic.pages import crossover_page

        with writing(html) as file:
            file.write(crossover_page(answer))
    if json_:
        write(answer.table().rows, json_)
    if json_ == "-":
        return
    if isinstance(answer, Crossover):
        for row in answer.rows:
            batch = f" batch {row['batch']:g}" if row["batch"] != 1 else ""
            typer.echo(
                f"m {row['m']:>6g} n {row['n']:>6g} k {row['k']:>6g}{batch}  {row['intensity']:>8.4g} FLOP/B  "
                f"{row['ms']:>9.4g} ms against {row['baseline_ms']:>9.4g} ms  "
                f"{row['verdict']:<5} {row['speedup']:.2f}x  {_sure(row)}"
            )
    typer.echo(answer.summary())


def _shapes_of(texts: list[str] | None) -> list[tuple[float, ...]] | None:
    from ..analytic.crossover import sweep
    from ..graph import user_error

    shapes: list[tuple[float, ...]] | None = None
    for text in texts or []:
        parts = text.replace("x", ",").split(",")
        if len(parts) not in (3, 4):
            raise user_error("a shape is m,n,k or m,n,k,batch", value=text)
        shapes = [*(shapes or []), *sweep(*parts)]
    return shapes


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


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    """A table as text, columns as wide as their cells."""

    def cell(value: Any) -> str:
        return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)[-60:]

    keys = list(dict.fromkeys(key for row in rows for key in row))
    cells = [keys, *([cell(row.get(key)) for key in keys] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(keys))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _sure(row: dict[str, Any]) -> str:
    """How sure the verdict is; of an even one, how likely the scheme is the faster."""
    if row["verdict"] == "even":
        return f"(faster with probability {row['probability']:.0%})"
    sure = row["probability"] if row["helps"] else 1 - row["probability"]
    return f"({sure:.0%} sure)"


def suite(
    name: Annotated[str, typer.Argument(help="llm, vision, scaling or all.")],
    device: Annotated[list[str] | None, typer.Option(help="Devices to compare (repeat).")] = None,
    dtype: Annotated[str | None, typer.Option(help="Of the operands.")] = None,
    json_: Annotated[str | None, typer.Option("--json", help="Write the rows; - for standard output.")] = None,
    html: _Html = None,
) -> None:
    """A suite of workloads across devices."""
    from ..analytic.suites import compare_suite

    table = compare_suite(name, device or ["desktop-avx512", "npu-systolic", "phone-neon", "t4", "h100"], dtype)
    if json_:
        write(table.rows, json_)
    if html:
        from ..analytic.pages import suite_page

        with writing(html) as file:
            file.write(suite_page(table))
    if json_ == "-":
        return
    for row in table.rows:
        outcome = f"{row['ms']:>10.4g} ms {row['speedup']:>8.2f}x  {row['bound']:<8}" if row["ms"] else row["reason"]
        typer.echo(f"{row['workload']:<28} {row['device']:<16} {outcome} pressure {row['pressure']}")


measure_app = typer.Typer(no_args_is_help=True, help="Measure this machine for calibrate.")


@measure_app.command("cpu")
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


@measure_app.command("cuda")
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
        app.command(command.__name__)(command)
