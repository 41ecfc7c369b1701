"""`tilesim cluster step` and `tilesim cluster search`: layered workloads under plans, programs of several devices."""

from __future__ import annotations

from typing import Annotated

import typer

from ..load import write
from ..options import MACHINE, OUTPUT, WORKLOAD
from ..screen import say, wrapped
from ..show import step as shown_step
from ..tables import layout, number, text

WorkloadFile = Annotated[
    str,
    typer.Argument(
        help="gpt3-175b, llama-3-70b, ..., or a JSON file, as ts.workloads.transformer_step(...).save writes it."
    ),
]
AnyWorkload = Annotated[
    str,
    typer.Argument(
        help="gpt3-175b, llama-3-70b, ..., a JSON file, as ts.workloads.transformer_step(...).save writes it, a "
        "StableHLO module for several devices (.mlir), what ts.Spmd.save wrote (.spmd.json), llama3-100m, resnet50, ..."
    ),
]
ClusterName = Annotated[str, typer.Option(help="A cluster and its devices, as dgx-a100:64.", rich_help_panel=MACHINE)]
FrameworkName = Annotated[
    str | None,
    typer.Option(help="megatron, fsdp, xla or unfitted; what trains so if none.", rich_help_panel=MACHINE),
]
Json = Annotated[
    str | None, typer.Option("--json", help="Write the result; - for standard output.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.", rich_help_panel=OUTPUT)]


def step(
    workload: AnyWorkload,
    cluster: ClusterName,
    plan: Annotated[
        str | None,
        typer.Option(help="tensor=8,pipeline=4,... or a JSON file; replicas if none.", rich_help_panel=WORKLOAD),
    ] = None,
    predictor: Annotated[
        str,
        typer.Option(
            help="closed; of modules also table:FILE.csv, table:FILE.csv:interpolate, engine.", rich_help_panel=MACHINE
        ),
    ] = "closed",
    network: Annotated[
        str, typer.Option(help="closed; of modules also flows, chunks.", rich_help_panel=MACHINE)
    ] = "closed",
    overlap: Annotated[str, typer.Option(help="none, ready or library.", rich_help_panel=MACHINE)] = "library",
    library: Annotated[
        str | None, typer.Option(help="Costs of a library: nccl, xla-tpu, plain.", rich_help_panel=MACHINE)
    ] = None,
    framework: FrameworkName = None,
    timeline: Annotated[
        str | None, typer.Option(help="Write trace events for Perfetto, JSON.", rich_help_panel=OUTPUT)
    ] = None,
    json_: Json = None,
    quiet: Quiet = False,
) -> None:
    """Time and memory of one step on many devices: a layered workload under a plan, or a module for several devices."""
    from ...cluster.plan import Plan
    from ...cluster.stepping import step as run

    parsed = Plan.parse(plan) if plan is not None else None
    result = run(workload, cluster, parsed, predictor, network, overlap, library, framework=framework)
    if timeline:
        result.timeline(timeline)
    if json_:
        write(result.json(), json_)
    if not quiet and json_ != "-":
        say([line for told in result.explain().split("\n") for line in wrapped(told, hang="    ")])


def search(
    workload: WorkloadFile,
    cluster: ClusterName,
    budget: Annotated[int | None, typer.Option(min=1, help="Plans at most; all if none.")] = None,
    framework: FrameworkName = None,
    best: Annotated[int, typer.Option(min=1, max=1000, help="How many plans to list.", rich_help_panel=OUTPUT)] = 10,
    json_: Json = None,
    quiet: Quiet = False,
) -> None:
    """Every plan that divides a workload, priced; the fastest that fit, and what the best one spends its time on."""
    from ...cluster.searching import search as run

    with shown_step("pricing plans"):
        study = run(workload, cluster, budget, framework=framework, keep=best)
    found = study.best
    if json_:
        write(study.json(), json_)
    if quiet or json_ == "-":
        return
    columns = [text("plan"), number("ms"), number("GiB")]
    rows = [
        [row["plan"], f"{row['seconds'] * 1e3:,.1f}", f"{row['peak_bytes'] / (1 << 30):.1f}"]
        for row in list(study.table())[:best]
    ]
    say(layout(columns, rows))
    say(wrapped(f"{study.evaluated:,} plans, {study.fits:,} fit", hang="  "))
    say([line for told in found.explain().split("\n") for line in wrapped(told, hang="    ")])
