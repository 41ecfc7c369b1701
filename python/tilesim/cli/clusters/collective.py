"""`tilesim cluster collective`: the time of one collective."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from ...base.errors import user_error
from ...base.screen import wrapped
from ...cluster.communication import OPERATIONS, collective
from ..load import write
from ..options import Only, Quiet
from ..screen import say
from .options import ClusterOption, StepOptions


def _devices(texts: str | None) -> list[int] | list[list[int]] | int | None:
    """Parses --devices: a count `8`, device indices `0,2,4`, or groups `0,1;2,3`."""
    if texts is None:
        return None
    try:
        groups = [[int(one) for one in group.split(",")] for group in texts.split(";")]
    except ValueError:
        raise user_error(
            "not a list of devices", place="--devices", value=texts, allowed="8, or 0,2,4, or 0,1;2,3"
        ) from None
    if len(groups) > 1:
        return groups
    return groups[0] if "," in texts else groups[0][0]


def _device_counts(given: list[int] | list[list[int]] | int | None, devices: int) -> str:
    """Describes the participants: "8 devices", or "2 groups of 4 devices"."""
    sizes = sorted(len(group) for group in given if isinstance(group, list)) if isinstance(given, list) else []
    most = sizes[-1] if sizes else devices
    several = f"{len(sizes):,} groups of " + (f"{sizes[0]:,} to " if sizes[0] < most else "") if sizes else ""
    return f"{several}{most:,} device{'s' if most > 1 else ''}"


def collective_(
    op: Annotated[str, typer.Argument(help=", ".join(OPERATIONS))],
    size: Annotated[
        str, typer.Argument(metavar="BYTES", help="Size of the larger of a device's input and output: 1GiB.")
    ],
    on: ClusterOption,
    how: Annotated[StepOptions, Only("library", "network_model", "symmetry")],
    devices: Annotated[
        str | None, typer.Option(help="Number of devices (8), their indices (0,2,4) or groups (0,1;2,3).")
    ] = None,
    dtype: Annotated[str, typer.Option(help="Element type.")] = "bf16",
    algorithm: Annotated[
        str,
        typer.Option(
            help="auto, ring, tree, halving-doubling, bruck, direct, torus, hierarchical, in-network, or a file."
        ),
    ] = "auto",
    *,
    out: Quiet,
) -> None:
    own = None
    if algorithm.endswith((".json", ".xml")):
        from ...cluster.algorithms import algorithm as read

        own = read(algorithm)
    amount = int(size) if re.fullmatch("-?[0-9]{1,99}", size) else size
    given = _devices(devices)
    found = collective(op, amount, on.cluster, given, dtype, own or algorithm, **how.given())
    if out.json is not None:
        write(found.to_dict(), out.json)
    if out.silent:
        return
    line = found.headline(_device_counts(given, found.devices))
    wire = f"each device sends {found.wire_bytes:,.0f} bytes, {found.bus_bytes_per_second / 1e9:.1f} GB/s"
    say([*wrapped(line, hang="  "), *([] if out.quiet else wrapped(wire, hang="  "))])
