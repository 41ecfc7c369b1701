"""Commands about clusters: lists, one of them, the time of a collective."""

from __future__ import annotations

import os
import re
from typing import Annotated

import typer

from ..base import figures
from ..base.errors import user_error
from ..cluster.cluster import Cluster
from ..cluster.communication import OPERATIONS, collective
from ..cluster.fabric import Fabric, fabric_of
from ..cluster.systems import system_of, systems
from .clusters import replay as cluster_replay
from .clusters.compare import compare
from .clusters.partition import partition
from .clusters.step import search, step
from .complete import App
from .examples import epilog
from .load import write
from .options import Json
from .screen import say, wrapped
from .tables import layout, name, number, text

__all__ = ["cluster_app"]

cluster_app = App(no_args_is_help=True, help="Many chips: networks, collectives, steps.")
cluster_app.command("partition", epilog=epilog("cluster partition"))(partition)
cluster_app.command("step", epilog=epilog("cluster step"))(step)
cluster_app.command("compare", epilog=epilog("cluster compare"))(compare)
cluster_app.command("search", epilog=epilog("cluster search"))(search)
cluster_replay.register(cluster_app)

Named = Annotated[str, typer.Option("--cluster", help="NAME, NAME:devices, or a file.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing.")]


@cluster_app.command("list", epilog=epilog("cluster list"))
def cluster_list(json: Json = None, quiet: Quiet = False) -> None:
    """The shipped clusters; NAME:devices scales the outer dimension."""
    rows = []
    for known in Cluster.names():
        cluster = Cluster.load(known)
        kinds = " x ".join(f"{one.kind} {'x'.join(map(str, one.sizes))}" for one in cluster.dimensions)
        rows.append({"name": known, "devices": cluster.devices, "network": kinds, "description": cluster.description})
    if json is not None:
        write(rows, json)
    if not quiet and json != "-":
        columns = [name("name", least=10), number("devices", 1), text("network"), text("description")]
        cells = [[row["name"], f"{row['devices']:,}", row["network"], row["description"]] for row in rows]
        say(layout(columns, cells))
        known = ", ".join(systems())
        say(wrapped(f"systems of measured steps, for layered workloads, N a number: {known}", hang="  "))


@cluster_app.command("show", epilog=epilog("cluster show"))
def cluster_show(
    cluster: Annotated[str, typer.Argument(help="NAME, NAME:devices, or a file; a system, as v5e-256.")],
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """A cluster: its dimensions, the rates and latencies of its links, and where the numbers come from."""
    if (
        cluster.partition(":")[0] not in Cluster.names()
        and not cluster.endswith(".json")
        and not os.path.exists(cluster)
    ):
        fabric = fabric_of(cluster) if cluster not in systems() else None  # it knows the names of both kinds
        _show_system(cluster, fabric, json, quiet)
        return
    found = Cluster.load(cluster)
    if json is not None:
        write(found.to_dict(), json)
    if quiet or json == "-":
        return
    say(wrapped(f"{found.name}: {found.description}" if found.description else found.name, hang="  "))
    say(wrapped(f"{found.devices:,} devices ({found.device or 'none named'}), {found.per_node:,} a node", hang="  "))
    columns = [name("dimension", least=6), name("kind", least=6), text("sizes"), number("GB/s", 1), number("us", 2)]
    cells = [
        [
            one.name or str(i),
            one.kind,
            "x".join(map(str, one.sizes)),
            figures.digits(one.bandwidth_bytes_per_second / 1e9),
            figures.digits(one.latency_seconds * 1e6),
        ]
        for i, one in enumerate(found.dimensions)
    ]
    if cells:
        say(layout(columns, cells))
    if found.host_bytes_per_second is not None:
        rate = figures.digits(found.host_bytes_per_second / 1e9)
        say(wrapped(f"{rate} GB/s from a device to its host's memory, each direction", hang="  "))
    for key, source in found.sources.items():
        say(wrapped(f"{key}: {source}", hang="  "))


def _show_system(name: str, fabric: Fabric | None, json: str | None, quiet: bool) -> None:
    """A system of measured steps: its numbers, each with its source; of a slice with a size its chips, too."""
    system, _ = system_of(name) or (name, 0)
    data = systems()[system]
    if json is not None:
        write({"name": name, **data}, json)
    if quiet or json == "-":
        return
    each = f", {fabric.per_node:,} in each" if fabric is not None else ""
    say(wrapped(f"{name}: nodes or slices of {data['device']}{each}, as measured steps were taken on", hang="  "))
    for key, source in data["sources"].items():
        say(wrapped(f"{key} {data[key]:g}: {source}", hang="  "))


def _devices(words: str | None) -> list[int] | list[list[int]] | int | None:
    """`8`, `0,2,4` or groups `0,1;2,3`."""
    if words is None:
        return None
    try:
        groups = [[int(one) for one in group.split(",")] for group in words.split(";")]
    except ValueError:
        raise user_error("no devices", place="--devices", value=words, allowed="8, or 0,2,4, or 0,1;2,3") from None
    if len(groups) > 1:
        return groups
    return groups[0] if "," in words else groups[0][0]


def _each(given: list[int] | list[list[int]] | int | None, devices: int) -> str:
    """How many devices, or groups of how many."""
    sizes = sorted(len(group) for group in given if isinstance(group, list)) if isinstance(given, list) else []
    most = sizes[-1] if sizes else devices
    several = f"{len(sizes):,} groups of " + (f"{sizes[0]:,} to " if sizes[0] < most else "") if sizes else ""
    return f"{several}{most:,} device{'s' if most > 1 else ''}"


@cluster_app.command("collective", epilog=epilog("cluster collective"))
def cluster_collective(
    op: Annotated[str, typer.Argument(help=", ".join(OPERATIONS))],
    size: Annotated[
        str, typer.Argument(metavar="BYTES", help="The larger of what a device puts in and takes out: 1GiB.")
    ],
    cluster: Named,
    devices: Annotated[str | None, typer.Option(help="8 (the first), 0,2,4, or groups 0,1;2,3.")] = None,
    dtype: Annotated[str, typer.Option(help="Of the elements.")] = "bf16",
    algorithm: Annotated[
        str,
        typer.Option(
            help="auto, ring, tree, halving-doubling, bruck, direct, torus, hierarchical, in-network; a file."
        ),
    ] = "auto",
    model: Annotated[str, typer.Option(help="closed, chunks, flows.")] = "closed",
    library: Annotated[str | None, typer.Option(help="Costs of a library: nccl, xla-tpu, plain; a file.")] = None,
    symmetry: Annotated[bool, typer.Option(help="One device per class is simulated.")] = True,
    json: Json = None,
    quiet: Quiet = False,
) -> None:
    """The time of one collective on a cluster's network."""
    own = None
    if algorithm.endswith((".json", ".xml")):
        from ..cluster.algorithms import algorithm as read

        own = read(algorithm)
    amount = int(size) if re.fullmatch("-?[0-9]{1,99}", size) else size
    given = _devices(devices)
    found = collective(op, amount, cluster, given, dtype, own or algorithm, model, library, symmetry)
    if json is not None:
        write(found.to_dict(), json)
    if quiet or json == "-":
        return
    line = found.headline(_each(given, found.devices))
    wire = f"each device sends {found.wire_bytes:,.0f} bytes, {found.bus_bytes_per_second / 1e9:.1f} GB/s"
    say([*wrapped(line, hang="  "), *wrapped(wire, hang="  ")])
