"""The command that replays traces on a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from ...base import figures
from ..complete import App
from ..examples import epilog
from ..load import write
from ..options import Json
from ..screen import notes, say, wrapped
from ..tables import layout, number

__all__ = ["register"]


def replay(
    folder: Annotated[str, typer.Argument(help="Of Chakra traces: NAME.<device>.et, comm_group.json.")],
    cluster: Annotated[str, typer.Option("--cluster", help="NAME, NAME:devices, or a file.")],
    library: Annotated[str | None, typer.Option(help="Costs of a library: nccl, xla-tpu, plain; a file.")] = None,
    algorithm: Annotated[str, typer.Option(help="As of `cluster collective`; auto: the quickest.")] = "auto",
    network: Annotated[str, typer.Option(help="closed, chunks, flows.")] = "closed",
    system: Annotated[str | None, typer.Option(help="A system file of ASTRA-sim: algorithms, roofline.")] = None,
    timeline: Annotated[str | None, typer.Option(help="Write trace events, .json.")] = None,
    symmetry: Annotated[bool, typer.Option(help="One device per class is simulated.")] = True,
    json: Json = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """The time of recorded traces on a cluster: computes as recorded, communication by the network."""
    from ...cluster.chakra.replaying import replay as run

    found = run(folder, cluster, library, algorithm, network, symmetry, system=system)
    if timeline is not None:
        found.timeline(timeline)
    if json is not None:
        write(found.to_dict(), json)
    if quiet or json == "-":
        return
    line = f"{found.name} on {found.devices:,} devices of {found.cluster} ({found.network}): "
    line += f"{figures.duration(found.seconds)}; the last device computes {figures.duration(found.compute_seconds)}, "
    line += f"communicates uncovered {figures.duration(found.exposed_seconds)}, "
    say(wrapped(f"{line}waits {figures.duration(found.idle_seconds)}", hang="  "))
    columns = [number("class"), number("devices"), number("first"), *(number(f"{one} ms") for one in _COLUMNS)]
    rows = sorted(found.classes, key=lambda row: -row["seconds"])
    cells = [
        [str(row["class"]), f"{row['devices']:,}", str(row["first_device"])]
        + [figures.digits(row[key] * 1e3) for key in _COLUMNS.values()]
        for row in rows[:MOST]
    ]
    say(layout(columns, cells))
    if len(rows) > MOST:
        say(wrapped(f"and {len(rows) - MOST:,} more classes: --json has all", hang="  "))
    say(notes(found.notes))


MOST = 20
_COLUMNS = {
    "time": "seconds",
    "compute": "compute_seconds",
    "exposed": "exposed_seconds",
    "idle": "idle_seconds",
}


def register(app: App) -> None:
    """Adds the command.

    Args:
        app: the group of clusters.
    """
    app.command("replay", epilog=epilog("cluster replay"))(replay)
