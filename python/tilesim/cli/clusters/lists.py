"""The commands `tilesim cluster list` and `tilesim cluster show`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from ...base import figures
from ...base.columns import layout, name, number, text
from ...base.screen import wrapped
from ...cluster.cluster import Cluster
from ...cluster.fabric import Fabric, fabric_of
from ...cluster.systems import system_of, systems
from ..load import write
from ..options import Json, Output, Quiet
from ..screen import say


def list_(out: Json) -> None:
    rows = []
    for known in Cluster.names():
        cluster = Cluster.load(known)
        kinds = " x ".join(f"{one.kind} {'x'.join(map(str, one.sizes))}" for one in cluster.dimensions)
        rows.append({"name": known, "devices": cluster.devices, "network": kinds, "description": cluster.description})
    if out.json is not None:
        write(rows, out.json)
    if not out.silent:
        columns = [name("name", least=10), number("devices", 1), text("network"), text("description")]
        cells = [[row["name"], f"{row['devices']:,}", row["network"], row["description"]] for row in rows]
        say(layout(columns, cells))
        known = ", ".join(systems())
        say(wrapped(f"systems of measured steps, for layered workloads (N is a number): {known}", hang="  "))


def show(
    cluster: Annotated[str, typer.Argument(help="NAME, NAME:devices, a file, or a system such as v5e-256.")],
    out: Quiet,
) -> None:
    if (
        cluster.partition(":")[0] not in Cluster.names()
        and not cluster.endswith(".json")
        and not os.path.exists(cluster)
    ):
        fabric = fabric_of(cluster) if cluster not in systems() else None  # raises for an unknown name
        _show_system(cluster, fabric, out)
        return
    found = Cluster.load(cluster)
    if out.json is not None:
        write(found.to_dict(), out.json)
    if out.silent:
        return
    say(wrapped(f"{found.name}: {found.description}" if found.description else found.name, hang="  "))
    if out.quiet:
        return
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
        say(wrapped(f"{rate} GB/s between a device and its host's memory, per direction", hang="  "))
    for key, source in found.sources.items():
        say(wrapped(f"{key}: {source}", hang="  "))


def _show_system(name: str, fabric: Fabric | None, out: Output) -> None:
    """Prints the constants of a system with measured steps, with their sources."""
    system, _ = system_of(name) or (name, 0)
    data = systems()[system]
    if out.json is not None:
        write({"name": name, **data}, out.json)
    if out.silent:
        return
    each = f", {fabric.per_node:,} in each" if fabric is not None else ""
    say(wrapped(f"{name}: nodes or slices of {data['device']}{each}, the system of measured steps", hang="  "))
    for key, source in () if out.quiet else data["sources"].items():
        say(wrapped(f"{key} {data[key]:g}: {source}", hang="  "))
