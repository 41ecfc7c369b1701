"""Describes the links of a cluster for the closed forms."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..base.errors import nearest, shown, user_error
from ..machine.device import Device
from .cluster import Cluster, cluster_of, devices_of
from .frameworks import Framework
from .hosts.faults import computing, links
from .libraries.on_cluster import port_rate
from .networks.as_built import as_built, sized, text_of, two_levels, with_rates
from .systems import system_of, systems

__all__ = [
    "Fabric",
    "as_run",
    "communication_of",
    "fabric_of",
    "faster",
    "sized_fabric",
    "with_library",
    "with_prices"
]  # fmt: skip


@dataclass(frozen=True)
class Fabric:
    """Devices, nodes and links.

    `link`: bytes per second and direction of one device inside its node; `node_link`: of a full node to others;
    latencies in seconds. `slices`: nodes are slices of a pod, joined by the data-centre network. `host_link`: bytes per
    second and direction of one device to its host's memory, 0 if unknown. `slow`: devices with a share of their compute
    rate. `ports`: adapters of a node, 0 for one per device. `built`: the network, unless it is two levels of switches.
    `prices`: times of single calls instead of closed forms. `most`: largest number of devices, 0 without a limit.
    `usual`: the cluster's default library, or "".
    """

    device: Device
    per_node: int
    link: float
    node_link: float
    latency: float = 1e-6
    node_latency: float = 5e-6
    devices: int = 0
    name: str = ""
    slices: bool = False
    library: Any = None
    generation: str = ""
    host_link: float = 0.0
    slow: tuple[tuple[int, float], ...] = ()
    ports: int = 0
    built: Any = None
    prices: Any = None
    most: int = 0
    usual: str = ""


@cache
def _named(name: str) -> Fabric | None:
    found = system_of(name)
    if found is None:
        return None
    key, count = found
    data = systems()[key]
    if "cluster" in data and not count:  # "v5e" without a number of chips
        return None
    per_node = max(1, count // data.get("cores_per_device", 1)) if count else int(data["per_node"])
    node_link = data["node_link"] if not count else data["device_node_link"] * per_node
    late = data.get("latency", 1e-6), data.get("node_latency", 5e-6)
    built = _slice(data["cluster"], per_node, data["device_node_link"], late[1]) if count else None
    return Fabric(
        Device.load(data["device"]), per_node, data["link"], node_link, *late, 0, name, bool(count),
        host_link=float(data.get("host_link", 0.0)), built=built, most=int(data.get("most_devices", 0)),
    )  # fmt: skip


def _shipped(name: str) -> Cluster | None:
    """Loads a shipped cluster or a file; returns None for other names."""
    known = name.partition(":")[0] in Cluster.names() or name.endswith(".json") or os.path.exists(name)
    return Cluster.load(name) if known else None


def _slice(name: str, chips: int, rate: float, latency: float) -> str:
    """Describes slices of this many chips, joined by switches with one port per chip (bytes per second)."""
    inner = Cluster.load(f"{name}:{chips}")
    outer = {"kind": "switch", "size": 1, "bandwidth_bytes_per_second": rate, "latency_seconds": latency}
    return text_of(Cluster(network=[*inner.network, outer], per_node=chips), name)


def fabric_of(cluster: Any, devices: int | None = None) -> Fabric:
    """Converts a cluster to its fabric."""
    if isinstance(cluster, Fabric):
        return replace(cluster, devices=devices or cluster.devices)
    if not isinstance(cluster, str):
        return _nested_fabric(cluster, devices)
    name, colon, count = cluster.partition(":")
    own = devices_of(count, "cluster") if colon else 0
    found = _named(name)
    if found is None and devices and not colon and name in Cluster.names():
        return _nested_fabric(Cluster.load(f"{name}:{devices}"), None)
    if found is None and (shipped := _shipped(cluster)) is not None:
        return _nested_fabric(shipped, devices)
    if found is None:
        known = sorted({*systems(), *Cluster.names()}, key=str.lower)
        raise user_error(
            "unknown cluster", place="cluster", value=f"'{name}'", allowed=f"{', '.join(known)}, a .json file",
            suggestion=cluster_of(name) or nearest(name, known),
        )  # fmt: skip
    return replace(found, devices=devices or own)


def with_library(fabric: Fabric, library: Any) -> Fabric:
    """Adds a communication library to a fabric."""
    if library is None:
        return fabric
    from importlib import import_module

    library = import_module(".library", __package__).load(library)
    if fabric.built is not None and isinstance(json.loads(fabric.built)["network"], dict):
        raise user_error("a library needs a network of dimensions", place="library", value=fabric.name)
    found = library.system(fabric.device.name) if hasattr(library, "system") else None
    return replace(fabric, library=library, generation=found.generation if found else "unknown")


def as_run(fabric: Fabric, framework: Framework, network: str = "closed") -> Fabric:
    """Adds the cluster's default library if the framework uses it; otherwise the framework's link shares apply."""
    named = fabric.library is None and framework.takes_library and network == "closed"
    return with_library(fabric, fabric.usual) if named and fabric.usual else fabric


def communication_of(fabric: Fabric, framework: Framework) -> str:
    """Describes the cost model of communication in words."""
    if fabric.library is not None:
        return f"library {getattr(fabric.library, 'name', fabric.library)}"
    fitted = any(text.startswith("fitted") for text in framework.provenance.values())
    what = "compared with measured steps" if fitted else "assumed"
    return f"shares of link rates and seconds per call of framework {framework.name}, {what}"


def with_prices(fabric: Fabric, constants: Mapping[str, float], devices: int, model: str = "closed") -> Fabric:
    """Adds prices on the actual network to a fabric, unless the network is two levels of switches."""
    if fabric.built is None or fabric.prices is not None or fabric.library is not None:
        return fabric
    return replace(fabric, prices=as_built(fabric.built, devices, model, constants))


def sized_fabric(fabric: Fabric, devices: int) -> Fabric:
    """Resizes a fabric to this number of devices."""
    if 0 < fabric.most < devices:
        raise user_error("the system has fewer devices", place=fabric.name, value=f"{devices} devices",
                         allowed=f"up to {fabric.most}")  # fmt: skip
    if fabric.built is None:
        return fabric
    data = sized(fabric.built, devices)
    return replace(fabric, built=json.dumps(data), devices=devices, per_node=data["per_node"])


def faster(fabric: Fabric, near: float = 1.0, far: float = 1.0, latency: float = 1.0) -> Fabric:
    """Scales the link rates and latencies of a fabric."""
    built = None if fabric.built is None else with_rates(fabric.built, near, far, latency)
    return replace(fabric, link=near * fabric.link, node_link=far * fabric.node_link, latency=latency * fabric.latency,
                   node_latency=latency * fabric.node_latency, built=built)  # fmt: skip


def _nested_fabric(cluster: Any, devices: int | None) -> Fabric:
    """Returns a Cluster's fabric: the inner dimension forms nodes, outer ones join nodes; else sets `built`."""
    if isinstance(cluster, Cluster) and cluster.device is None:
        raise user_error("the cluster has no device", place="cluster", value=shown(cluster),
                         allowed="ts.Cluster(device=...), or a shipped cluster")  # fmt: skip
    if not isinstance(cluster, Cluster):
        raise user_error(
            "not a cluster", place="cluster", value=shown(cluster), allowed="a ts.Cluster, a name as dgx-h100:64"
        )
    total = devices or cluster.devices
    fields: dict[str, Any] = {"devices": total, "name": cluster.name, "slow": computing(cluster.faults, total)}
    fields["usual"] = cluster.library
    fields["host_link"] = float(cluster.host_bytes_per_second or 0.0)
    if not two_levels(cluster):
        fields["built"] = text_of(cluster)
        fields["slices"] = cluster.graph is None and cluster.dimensions[0].kind in ("torus", "ring")
    device = Device.load(cluster.device)
    if cluster.graph is not None:
        least = min(float(link["bandwidth_bytes_per_second"]) for link in cluster.graph["links"])
        return Fabric(device, cluster.per_node, least, least * cluster.per_node, **fields)
    share = links(cluster.faults) if two_levels(cluster) else 1.0
    inner, outer = cluster.dimensions[0], cluster.dimensions[-1]
    ports = outer.rails or cluster.per_node
    link = port_rate(cluster) * share
    node_link = outer.bandwidth_bytes_per_second * ports * share if len(cluster.dimensions) > 1 else link
    latencies = inner.latency_seconds, outer.latency_seconds
    return Fabric(device, cluster.per_node, link, node_link, *latencies, ports=ports, **fields)
