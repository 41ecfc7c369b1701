"""`tilesim cluster step` and `tilesim cluster search`: layered workloads under plans, programs of several devices."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...base.errors import user_error
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
        "StableHLO module for several devices (.mlir, .stablehlo), what ts.cluster.Spmd.save wrote (.spmd.json), "
        "llama3-100m, resnet50, ..."
    ),
]
ClusterName = Annotated[
    str, typer.Option(help="NAME, NAME:devices as dgx-a100:64, or a file.", rich_help_panel=MACHINE)
]
FrameworkName = Annotated[
    str | None,
    typer.Option(
        help="megatron, fsdp, xla, serving or unfitted; what trains, or serves, so if none. Modules have none.",
        rich_help_panel=MACHINE,
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        min=1, help="Sequences over all devices; as trained if none, 1 in prefill, decode.", rich_help_panel=WORKLOAD
    ),
]
Context = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Tokens of a sequence, of decode in the cache; as trained if none, or 2048.",
        rich_help_panel=WORKLOAD,
    ),
]
Phase = Annotated[str | None, typer.Option(help="train, prefill or decode; train if none.", rich_help_panel=WORKLOAD)]
Json = Annotated[
    str | None, typer.Option("--json", help="Write the result; - for standard output.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.", rich_help_panel=OUTPUT)]


def sized(workload: str, batch: int | None, context: int | None, phase: str | None) -> Any:
    """A workload, of other sizes than its own where they are given.

    Args:
        workload: as the command line has it.
        batch: sequences.
        context: tokens of each.
        phase: of the step.

    Returns:
        It, or a layered workload.

    Raises:
        UserError: for sizes of a program, which has its own.
    """
    if batch is context is phase is None:
        return workload
    from ...models.layered_presets import layered

    return layered(workload, batch, context, phase)


def step(
    workload: AnyWorkload,
    cluster: ClusterName,
    plan: Annotated[
        str | None,
        typer.Option(
            help="tensor=8,pipeline=4,... or a JSON file; replicas if none. Modules have none.",
            rich_help_panel=WORKLOAD,
        ),
    ] = None,
    batch: Batch = None,
    context: Context = None,
    phase: Phase = None,
    predictor: Annotated[
        str,
        typer.Option(
            help="closed; of modules also table:FILE.csv, table:FILE.csv:interpolate, engine.", rich_help_panel=MACHINE
        ),
    ] = "closed",
    network: Annotated[
        str, typer.Option(help="closed, flows; of modules also chunks.", rich_help_panel=MACHINE)
    ] = "closed",
    overlap: Annotated[str, typer.Option(help="none, ready or library.", rich_help_panel=MACHINE)] = "library",
    library: Annotated[
        str | None, typer.Option(help="Costs of a library: nccl, xla-tpu, plain; a file.", rich_help_panel=MACHINE)
    ] = None,
    framework: FrameworkName = None,
    devices: Annotated[
        str | None,
        typer.Option(
            help="8,64,512: a row for each of these numbers; the plan's data axis grows, or the best plan is searched; "
            "a module is divided again, its mesh's first axis grows.",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(help="Of modules: a file that keeps predictions of segments.", rich_help_panel=MACHINE),
    ] = None,
    timeline: Annotated[
        str | None, typer.Option(help="Write trace events for Perfetto, .json.", rich_help_panel=OUTPUT)
    ] = None,
    json_: Json = None,
    quiet: Quiet = False,
) -> None:
    """Time and memory of one step on many devices: training, prefill or decode under a plan, or a module for them."""
    from ...cluster.plan import Plan
    from ...cluster.stepping import step as run

    parsed, work = Plan.load(plan) if plan is not None else None, sized(workload, batch, context, phase)
    if devices is not None:
        for name, value, standard in (("predictor", predictor, "closed"), ("timeline", timeline, None),
                                      ("store", store, None)):  # fmt: skip
            if value != standard:
                raise user_error(
                    "steps on several numbers of devices take no such option", place=f"--{name}", value=str(value),
                    allowed="--plan, --network, --overlap, --library, --framework, --json",
                )  # fmt: skip
        _scaled(work, cluster, devices, parsed, (overlap, library, framework, network), json_, quiet)
        return
    result = run(work, cluster, parsed, predictor, network, overlap, library, framework=framework, store=store)
    if timeline:
        result.timeline(timeline)
    if json_:
        write(result.to_dict(), json_)
    if quiet or json_ == "-":
        return
    _explained(result)


def _explained(result: Any) -> None:
    """The text of `explain`, with a table and its bars in place of the lines of a plan."""
    if result.plan is None:
        say([line for words in result.explain().split("\n") for line in wrapped(words, hang="    ")])
        return
    from ...cluster.advice import told
    from ...cluster.views.breakdown import lines
    from ...cluster.views.text import filled, heading

    say([line for words in heading(result) for line in wrapped(words, hang="  ")])
    say(lines(result.breakdown.rows))
    advice = told(result.advice(), result.memory_bytes)
    say([line for words in (*filled(result), *advice) for line in wrapped(words, hang="    ")])


def _scaled(
    workload: Any, cluster: str, devices: str, plan: Any, how: tuple[str, str | None, str | None, str],
    json_: str | None, quiet: bool,
) -> None:  # fmt: skip
    from ...cluster.views.scaling import lines, scaling

    counts = [one.strip() for one in devices.split(",")]
    if not all(one.isascii() and one.isdigit() for one in counts):
        raise user_error("no numbers of devices", place="--devices", value=devices, allowed="as 8,64,512")
    overlap, library, framework, network = how
    with shown_step("pricing plans"):
        found = scaling(workload, cluster, [int(one) for one in counts], plan, overlap=overlap, library=library,
                        framework=framework, network_model=network)  # fmt: skip
    if json_:
        write(found.to_dict(), json_)
    if not quiet and json_ != "-":
        batch = "a batch that grows with the devices" if found.grows else "the same batch on each number of devices"
        say(wrapped(f"{found.title}, {batch}", hang="  "))
        say(lines(found.rows))


def search(
    workload: WorkloadFile,
    cluster: ClusterName,
    batch: Batch = None,
    context: Context = None,
    phase: Phase = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Plans at most; all if none.")] = None,
    framework: FrameworkName = None,
    store: Annotated[
        str | None, typer.Option(help="A file of priced plans; an interrupted search goes on from it.")
    ] = None,
    best: Annotated[int, typer.Option(min=1, max=1000, help="How many plans to list.", rich_help_panel=OUTPUT)] = 10,
    map_: Annotated[
        bool, typer.Option("--map", help="The best time of each tensor and pipeline axis.", rich_help_panel=OUTPUT)
    ] = False,
    json_: Json = None,
    quiet: Quiet = False,
) -> None:
    """Every plan that divides a workload, priced; the fastest that fit, and what the best one spends its time on."""
    from ...cluster.searches.frameworks import said
    from ...cluster.searching import search as run

    with shown_step("pricing plans"):
        study = run(
            sized(workload, batch, context, phase), cluster, budget, store=store, framework=framework, keep=best
        )
    found = study.best
    if json_:
        write(study.to_dict(), json_)
    if quiet or json_ == "-":
        return
    columns = [text("plan"), number("ms"), number("GiB"), text("framework")]
    table = list(study.table())
    rows = [
        [row["plan"], f"{row['seconds'] * 1e3:,.1f}", f"{row['peak_bytes'] / (1 << 30):.1f}", row["framework"]]
        for row in table[:best]
    ]
    say(layout(columns, rows))
    say(wrapped(f"{study.evaluated:,} plans, {study.fits:,} fit, {study.priced:,} priced: bounds rule out the others",
                hang="  "))  # fmt: skip
    for row in study.confirmed:
        say(wrapped(f"{row['plan']}: {row['seconds'] * 1e3:,.1f} ms closed, {row['flows_seconds'] * 1e3:,.1f} ms where "
                    "messages share links (flows)", hang="  "))  # fmt: skip
    say([line for words in said(table) for line in wrapped(words, hang="  ")])
    if map_:
        from ...cluster.views.plan_map import lines

        say(lines(study.cells))
    _explained(found)
