"""`tilesim cluster replay`: replays traces on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from ...base import figures
from ...base.columns import layout, number
from ...base.screen import notes, wrapped
from ..load import write
from ..options import Only, Output
from ..screen import say
from .options import ClusterOption, StepOptions


def replay(
    folder: Annotated[str, typer.Argument(help="Folder of Chakra traces: NAME.<device>.et, comm_group.json.")],
    on: ClusterOption,
    how: Annotated[StepOptions, Only("library", "network_model", "symmetry")],
    algorithm: Annotated[
        str, typer.Option(help="Algorithm, as in `cluster collective`; auto is the fastest.")
    ] = "auto",
    system: Annotated[str | None, typer.Option(help="System file of ASTRA-sim with algorithms and roofline.")] = None,
    *,
    out: Annotated[Output, Only("json", "timeline", "quiet")],
) -> None:
    from ...cluster.chakra.replaying import replay as run

    found = run(folder, on.cluster, algorithm=algorithm, system=system, **how.given())
    if out.timeline is not None:
        found.timeline(out.timeline)
    if out.json is not None:
        write(found.to_dict(), out.json)
    if out.silent:
        return
    line = f"{found.name} on {found.devices:,} devices of {found.cluster} ({found.network}): "
    line += f"{figures.duration(found.seconds)}; the last device computes {figures.duration(found.compute_seconds)}, "
    line += f"has {figures.duration(found.exposed_seconds)} of exposed communication, "
    say(wrapped(f"{line}waits {figures.duration(found.idle_seconds)}", hang="  "))
    if out.quiet:
        return
    columns = [number("class"), number("devices"), number("first"), *(number(f"{one} ms") for one in _COLUMNS)]
    rows = sorted(found.classes, key=lambda row: -row["seconds"])
    cells = [
        [str(row["class"]), f"{row['devices']:,}", str(row["first_device"])]
        + [figures.digits(row[key] * 1e3) for key in _COLUMNS.values()]
        for row in rows[:MOST]
    ]
    say(layout(columns, cells))
    if len(rows) > MOST:
        say(wrapped(f"and {len(rows) - MOST:,} more classes (--json lists all)", hang="  "))
    say(notes(found.notes))


MOST = 20
_COLUMNS = {
    "time": "seconds",
    "compute": "compute_seconds",
    "exposed": "exposed_seconds",
    "idle": "idle_seconds",
}
