"""Replays device traces on the network of a cluster (`ts.cluster.replay`)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...base.arguments import unused
from ...base.checked import checked
from ...base.errors import user_error
from ..cluster import Cluster
from ..hosts.faults import computing
from ..networks.astra import AstraSystem, computed, system_of
from ..trace import Trace, TraceClass
from .matching import Price, quotient
from .pricing import SLOWED, Communication, learn
from .reading import from_chakra
from .replayed import Replay
from .running import ordered, run
from .sharing import Sharing

__all__ = ["replay", "slowed"]


@checked()
def replay(
    folder: str | os.PathLike[str] | Trace,
    cluster: Any = None,
    library: Any = None,
    algorithm: Any = "auto",
    network_model: str = "closed",
    symmetry: bool = True,
    *,
    price: Callable[[str, int, tuple[int, ...]], float] | None = None,
    system: str | os.PathLike[str] | None = None,
) -> Replay:
    """Replays a trace with recorded compute times, and with communication timed on a cluster.

    A device has a compute stream, a memory stream, and the trace's communication streams (a step has one per
    dimension). Communication without a stream uses one per kind of groups and one for sends. A node begins when its
    dependencies have ended and its stream is free, in program order. Collectives of a group run in program order, when
    all its devices are ready. Concurrent communications share links. `compute` faults slow recorded times down.

    Args:
        folder: directory of Chakra traces (see `from_chakra`), or a `Trace`.
        cluster: a Cluster, or a name or path for `ts.Cluster.load`; with as many devices as the trace.
        library: communication library (see `ts.cluster.collective`); by default only the network.
        algorithm: algorithm of collectives.
        network_model: closed, chunks or flows, for each communication separately. A library needs "closed".
        symmetry: whether to simulate equal devices once, which gives the same picoseconds.
        price: function of operation, bytes and devices that returns seconds, instead of a cluster; operation "send" has
            two devices.
        system: a system file of ASTRA-sim (`.json`): an algorithm for each collective, and if it enables the
            roofline, the times of compute nodes with num_ops and tensor_size.

    Returns:
        Times and classes of devices; `notes` list the assumptions.

    Raises:
        UserError: for files of another format, a deadlock, a missing peer, or an operation without model and recorded
            time; the message has the file and the node.
    """
    trace = folder if isinstance(folder, Trace) else from_chakra(folder)
    if isinstance(folder, Trace):
        trace.check()
    name = ""
    if price is not None:
        unused("price= replaces the cluster's times", "remove it, or remove price=", cluster=(cluster, None),
               library=(library, None), algorithm=(algorithm, "auto"),
               network_model=(network_model, "closed"))  # fmt: skip
    else:
        if library is not None:
            unused(
                "a library has its own network model",
                "network_model='closed', or remove library=",
                network_model=(network_model, "closed"),
            )
        if cluster is None:
            raise user_error("communication needs a cluster", place="cluster", allowed="a name, or price=")
        cluster = Cluster.load(cluster)
        name = cluster.name
        if cluster.devices != trace.devices:
            raise user_error("the trace and the cluster have different numbers of devices", place="cluster",
                             value=f"{cluster.devices} of {cluster.name}", allowed=str(trace.devices),
                             suggestion=f"Use {cluster.name}:{trace.devices} if the cluster has this size")  # fmt: skip
    notes, layer = list(trace.notes), None if system is None else system_of(system)
    if isinstance(cluster, Cluster) and cluster.device is None:
        notes += cluster.sources.values()
    if layer is not None:
        unused(
            "the system file already has algorithms",
            "algorithm='auto', or remove system=",
            algorithm=(algorithm, "auto"),
        )
        trace, algorithm = rooflined(trace, layer), layer.algorithms
        notes += layer.notes
    if timeless := sum(
        node.kind == "compute" and not node.duration_ps for part in trace.classes for node in part.nodes
    ):
        notes.append(f"{timeless} compute nodes have no recorded time and take no time")
    trace = ordered(trace)
    if price is not None:
        found = quotient(trace, _custom_price(price), symmetry)
        return Replay.of(trace, found, run(trace, found), name, "price", notes)
    trace = slowed(trace, {device: 1 / share for device, share in computing(cluster.faults, cluster.devices)})
    known = Communication(cluster, network_model, library, symmetry, algorithm)
    learn(trace, known)
    found = quotient(trace, known, symmetry, Sharing(cluster, trace, known))
    return Replay.of(trace, found, run(trace, found), name, network_model, notes)


def _custom_price(own: Callable[[str, int, tuple[int, ...]], float]) -> Price:
    def price(op: str, size: int, devices: tuple[int, ...], recorded: int, place: str) -> int:
        seconds = own(op, size, devices)
        if not 0 <= seconds < math.inf:
            raise user_error("no time", place="price", value=f"{op} of {size} bytes: {seconds}")
        return math.ceil(round(seconds * 1e12, 3))

    return price


def rooflined(trace: Trace, system: AstraSystem) -> Trace:
    """Returns the trace with computing times from a system's roofline."""
    classes = []
    for part in trace.classes:
        times = [computed(node.attributes, system) if node.kind == "compute" else None for node in part.nodes]
        nodes = [
            node if time is None else replace(node, duration_ps=time)
            for node, time in zip(part.nodes, times, strict=True)
        ]
        classes.append(TraceClass(part.devices, nodes, part.source))
    return replace(trace, classes=classes)


def slowed(trace: Trace, slow: Mapping[int, float]) -> Trace:
    """Returns the trace with computing times multiplied by the factors of slow devices."""
    if not slow:
        return trace
    classes = []
    for part in trace.classes:
        apart: dict[float, list[int]] = {}
        for at, device in enumerate(part.devices):
            apart.setdefault(slow.get(device, 1.0), []).append(at)
        for factor, places in apart.items():
            nodes = [
                replace(
                    node,
                    peers=[node.peers[at] for at in places] if node.peers else node.peers,
                    duration_ps=math.ceil(round(node.duration_ps * factor, 3))
                    if node.kind == "compute" and SLOWED not in node.attributes
                    else node.duration_ps,
                )
                for node in part.nodes
            ]
            classes.append(TraceClass([part.devices[at] for at in places], nodes, part.source))
    return Trace(trace.name, trace.devices, classes, trace.groups)
