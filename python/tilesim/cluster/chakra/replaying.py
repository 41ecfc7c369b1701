"""`ts.cluster.replay`: traces of devices on the network of a cluster."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

from ...base.checked import checked
from ...base.errors import user_error
from ..cluster import Cluster
from ..communication import collective
from ..trace import Trace
from .matching import Price, quotient
from .reading import from_chakra
from .replayed import Replay
from .running import ordered, run

__all__ = ["replay"]

#: operations of traces that a network model times under another name
_AS = {"barrier": "all_reduce", "send": "permute_devices"}
_RECORDED = ("reduce", "gather", "scatter")


@checked()
def replay(
    folder: str | os.PathLike[str] | Trace,
    cluster: Any = None,
    library: Any = None,
    algorithm: Any = "auto",
    network: str = "closed",
    symmetry: bool = True,
    *,
    price: Callable[[str, int, tuple[int, ...]], float] | None = None,
) -> Replay:
    """Replays a trace: recorded computes, and communication timed on a cluster.

    A device has one compute stream, one stream per kind of groups, one for sends and one for memory. A node begins when
    what it waits for is done and its stream is free, the first in program order before others; collectives of a group
    go in program order, and begin when all its devices are there.

    Args:
        folder: of Chakra traces (see `from_chakra`), or a `Trace`.
        cluster: a Cluster, or what `ts.Cluster.load` takes; with as many devices as the trace.
        library: whose costs collectives have, as for `ts.cluster.collective`; none: the network alone.
        algorithm: of collectives.
        network: model of the network: closed, chunks, flows; each communication as if it were alone. Of sends alone,
            where a library prices collectives.
        symmetry: devices that nothing tells apart are simulated once; the same to the picosecond.
        price: operation, bytes and devices to seconds, in place of a cluster; operation "send" has two devices.

    Returns:
        Times and classes of devices.

    Raises:
        UserError: for files that are no traces, nodes that wait for each other, a peer that is missing, an operation
            that no model has and no time was recorded for; it names file and node.
    """
    trace = folder if isinstance(folder, Trace) else from_chakra(folder)
    if isinstance(folder, Trace):
        trace.check()
    name = ""
    if price is None:
        if cluster is None:
            raise user_error("communication is timed on a cluster", place="cluster", allowed="a name, or price=")
        cluster = Cluster.load(cluster)
        name = cluster.name
        if cluster.devices != trace.devices:
            raise user_error("trace and cluster have different numbers of devices", place="cluster",
                             value=f"{cluster.devices} of {cluster.name}", allowed=str(trace.devices),
                             suggestion=f"Take {cluster.name}:{trace.devices} where it comes so")  # fmt: skip
    trace = ordered(trace)
    found = quotient(trace, _price(cluster, library, algorithm, network, price), symmetry)
    return Replay.of(trace, found, run(trace, found), name, network if price is None else "price")


def _price(cluster: Any, library: Any, algorithm: Any, network: str, own: Any) -> Price:
    def price(op: str, size: int, devices: tuple[int, ...], recorded: int, place: str) -> int:
        if op in _RECORDED and own is None:
            if not recorded and len(devices) > 1:
                raise user_error(f"no model of a network has '{op}', and no time was recorded", place=place,
                                 allowed="a duration, or price=")  # fmt: skip
            return recorded
        if own is not None:
            seconds = own(op, size, devices)
            if not 0 <= seconds < math.inf:
                raise user_error("no time", place="price", value=f"{op} of {size} bytes: {seconds}")
            return math.ceil(round(seconds * 1e12, 3))
        if len(set(devices)) < 2:
            return 0
        if op == "send":
            return collective("permute_devices", size, cluster, devices, model=network, pairs=[(0, 1)]).picoseconds
        chosen = algorithm if op != "broadcast_devices" else "auto"
        model = network if library is None else "closed"  # a library has a form of its own
        return collective(_AS.get(op, op), size, cluster, devices, algorithm=chosen, model=model, library=library
                          ).picoseconds  # fmt: skip

    return price
