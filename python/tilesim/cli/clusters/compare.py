"""`tilesim cluster compare`: steps of several plans, clusters or predictors side by side."""

from __future__ import annotations

from itertools import product
from typing import Annotated

import typer

from ...base.errors import user_error
from ...base.files import check_writable
from ..compare import shown
from ..options import MACHINE, OUTPUT, WORKLOAD
from ..show import step as shown_step
from .step import AnyWorkload, Batch, Context, Json, Phase, sized


def compare(
    workload: AnyWorkload,
    cluster: Annotated[
        list[str],
        typer.Option(help="NAME, NAME:devices as dgx-a100:64, or a file; several are compared.",
                     rich_help_panel=MACHINE),
    ],
    plan: Annotated[
        list[str] | None,
        typer.Option(help="tensor=8,pipeline=4,... or a JSON file; several are compared.", rich_help_panel=WORKLOAD),
    ] = None,
    batch: Batch = None,
    context: Context = None,
    phase: Phase = None,
    predictor: Annotated[
        list[str] | None, typer.Option(help="As of step; several are compared.", rich_help_panel=MACHINE)
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(help="closed, flows; of modules also chunks; several are compared.", rich_help_panel=MACHINE),
    ] = None,
    overlap: Annotated[
        list[str] | None, typer.Option(help="none, ready, library; several are compared.", rich_help_panel=MACHINE)
    ] = None,
    html: Annotated[str | None, typer.Option(help="Write a page of tables and bars.", rich_help_panel=OUTPUT)] = None,
    json_: Json = None,
) -> None:  # fmt: skip
    """Steps side by side: which parts the difference lies in. The first one is what others are compared with."""
    from ...cluster.plan import Plan
    from ...cluster.stepping import step as run
    from ...results.compared import compare as beside

    for path in (html, json_):
        if path and path != "-":
            check_writable(path)
    plans = [Plan.load(one) for one in plan] if plan else [None]
    hows = list(product(cluster, plans, predictor or ["closed"], network or ["closed"], overlap or ["library"]))
    if len(hows) < 2:
        raise user_error("one step has nothing to be compared with", value=workload,
                         suggestion="Give --plan, --cluster, --predictor, --network or --overlap twice")  # fmt: skip
    results, work = [], sized(workload, batch, context, phase)
    for on, how, predicted, wires, hidden in hows:
        with shown_step(f"pricing {workload} on {on}"):
            results.append(run(work, on, how, predicted, wires, hidden))
    shown(beside(results[0], results[1], *results[2:]), html, json_)
