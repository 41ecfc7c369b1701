"""`tilesim cluster search`: searches all parallel plans of a workload."""

from __future__ import annotations

from typing import Annotated

import typer

from ...base.columns import layout, number, text
from ...base.screen import wrapped
from ..load import write
from ..options import OUTPUT, Only, Output
from ..screen import say
from ..show import step as shown_step
from .options import ClusterOption, LayeredSizes, StepOptions, WorkloadFile
from .step import explained


def search(
    workload: WorkloadFile,
    on: ClusterOption,
    sizes: LayeredSizes,
    how: Annotated[StepOptions, Only("framework")],
    budget: Annotated[int | None, typer.Option(min=1, help="Largest number of plans; default: all.")] = None,
    best: Annotated[int, typer.Option(min=1, max=1000, help="Number of plans to list.", rich_help_panel=OUTPUT)] = 10,
    map_: Annotated[
        bool,
        typer.Option("--map", help="Show the best time for each tensor and pipeline size.", rich_help_panel=OUTPUT),
    ] = False,
    *,
    out: Annotated[Output, Only("json", "store", "quiet")],
) -> None:
    from ...cluster.searches.frameworks import summary_lines
    from ...cluster.searching import search as run

    with shown_step("pricing plans"):
        study = run(sizes.of(workload), on.cluster, budget, store=out.store, framework=how.framework, keep=best)
    if out.json:
        write(study.to_dict(), out.json)
    if out.silent:
        return
    if out.quiet:
        explained(study.best, quiet=True)
        return
    columns = [text("plan"), number("ms"), number("GiB"), text("framework")]
    table = list(study.table())
    rows = [
        [row["plan"], f"{row['seconds'] * 1e3:,.1f}", f"{row['peak_bytes'] / (1 << 30):.1f}", row["framework"]]
        for row in table[:best]
    ]
    say(layout(columns, rows))
    say(wrapped(f"{study.counted}, {study.priced:,} estimated; bounds exclude the others", hang="  "))
    for row in study.confirmed:
        say(wrapped(f"{row['plan']}: {row['seconds'] * 1e3:,.1f} ms closed, {row['flows_seconds'] * 1e3:,.1f} ms where "
                    "messages share links (flows)", hang="  "))  # fmt: skip
    say([line for words in summary_lines(table) for line in wrapped(words, hang="  ")])
    if map_:
        from ...cluster.views.plan_map import lines

        say(lines(study.cells))
    explained(study.best)
