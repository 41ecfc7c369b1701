"""Times a communication library on a cluster, including faulty links."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ...base.errors import user_error
from ..cluster import Cluster
from ..hosts.faults import without_computing
from ..library import Library, load

__all__ = ["loaded", "port_rate", "seconds"]

#: a request of `communication.request`
Request = Mapping[str, Any]


def seconds(library: Any, dtype: str, cluster: Cluster, requests: Sequence[Request]) -> float:
    """Returns the seconds of equally placed groups: those of the largest group on the slowest link.

    A library chooses algorithms by the rates of faultless links. A slower link extends its transfers; traffic
    around a failed link loads other links.
    """
    if not cluster.dimensions:
        raise user_error("a library needs a network of dimensions", place="library", value=cluster.name)
    largest = max(requests, key=lambda one: len(one["devices"]))
    op, size, group = largest["operation"], largest["bytes"], largest["devices"]
    inside, outer = _inside(cluster, requests, op, group), cluster.dimensions[-1]
    system = library.system(cluster.device) if isinstance(cluster.device, str) and hasattr(library, "system") else None
    ports = outer.rails / cluster.per_node if outer.rails else 1.0
    rates = [port_rate(cluster), outer.bandwidth_bytes_per_second * ports]
    shares, late = [1.0, 1.0], 0.0
    permutes, faulty = op == "permute_devices", bool(without_computing(cluster.faults))
    if permutes or faulty:
        whole = Cluster(network=cluster.network) if faulty else cluster
        full, left = _busiest(whole, requests), _busiest(cluster, requests)
        if permutes:  # a message has the remaining rate of its path
            rates = [1 / most if most > 0 else rate for rate, most in zip(rates, full, strict=True)]
            late = max(_further(cluster, one) for one in requests)
        shares = [min(1.0, a / b) if b > 0 else 1.0 for a, b in zip(full, left, strict=True)]
    several = len(cluster.dimensions) > 1
    more: dict[str, float] = {}
    if isinstance(library, Library):
        more = {"share": shares[0], "node_share": shares[1] if several else 1.0}
    else:
        rates = [rate * share for rate, share in zip(rates, shares, strict=True)]
    found = library.seconds(
        op, size, dtype, len(group), inside, link=rates[0], node_link=rates[1] if several else None,
        generation=system.generation if system is not None else cluster.generation or "unknown", **more,
    )  # fmt: skip
    return float(found) + late


def _inside(cluster: Cluster, requests: Sequence[Request], op: str, group: Sequence[int]) -> int:
    """Returns the number of the group's devices in one node; all of them for a permute inside nodes."""
    if op == "permute_devices" and not any(
        one["devices"][a] // cluster.per_node != one["devices"][b] // cluster.per_node
        for one in requests
        for a, b in one["pairs"]
    ):
        return len(group)
    return math.ceil(len(group) / len({device // cluster.per_node for device in group}))


def port_rate(cluster: Cluster) -> float:
    """Returns the bytes per second of a device inside its node; of a single device, those of a link."""
    inner = cluster.dimensions[0]
    ways = 2 * len(inner.sizes) if inner.kind in ("ring", "torus") else 1
    return inner.bandwidth_bytes_per_second * (max(1, inner.size - 1) if inner.kind == "full" else ways)


def _busiest(cluster: Cluster, requests: Sequence[Request]) -> list[float]:
    """Returns the seconds per byte on the busiest inner link and on the busiest link of the outermost dimension."""
    most, last = [0.0, 0.0], len(cluster.dimensions) - 1
    for links, each in cluster.core.loads(list(requests)):
        for link, one in zip(links.tolist(), each.tolist(), strict=True):
            outer = int(last > 0 and cluster.core.dimension_of_link(link) == last)
            most[outer] = max(most[outer], one)
    return most


def _further(cluster: Cluster, request: Request) -> float:
    """Returns the latency of all hops after the first along rings and meshes, which a library does not model."""
    if not any(one.kind in ("ring", "torus", "mesh") for one in cluster.dimensions):
        return 0.0
    devices, most = request["devices"], 0
    for a, b in request["pairs"]:
        hops = [int(link[3]) for link in cluster.core.route(devices[a], devices[b])]
        most = max(most, sum(hops) - max(hops, default=0))
    return most * 1e-12


def loaded(library: Any) -> tuple[Any, str]:
    """Loads a library and returns it with its name."""
    found = load(library)
    return found, str(getattr(found, "name", found))
