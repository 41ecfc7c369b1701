"""The links of a cluster as the closed forms need them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from ..base.errors import nearest, shown, user_error
from ..base.files import read_json
from ..base.paths import configs_dir
from ..machine.device import Device
from .hosts.faults import computing, links

__all__ = ["Fabric", "fabric_of", "systems", "with_library"]


@dataclass(frozen=True)
class Fabric:
    """Devices, nodes and links.

    `link`: bytes per second and direction of one device to others of its node; `node_link`: of a whole node to others;
    latencies in seconds. `slices`: nodes are slices of a pod, joined by the data-centre network. `host_link`: bytes per
    second and direction of one device to its host's memory, 0 where nobody says. `slow`: devices that compute at a
    share of their rate. `ports`: adapters of a node, 0 for one of each device. `flows` prices what passes as messages
    that share links, in place of the forms.
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
    flows: Any = None
    ports: int = 0


@cache
def systems() -> dict[str, dict[str, Any]]:
    """Systems of measured steps, `configs/systems.json`.

    Returns:
        Name to device, devices of a node, and links, with sources.
    """
    table = read_json(configs_dir() / "systems.json")
    return {str(key): value for key, value in table["systems"].items()}


@cache
def _named(name: str) -> Fabric | None:
    for pattern, data in systems().items():
        found = re.fullmatch(pattern.replace("N", "([0-9]+)"), name, re.IGNORECASE)
        if not found:
            continue
        count = int(found.group(1)) if found.groups() else 0
        per_node = max(1, count // data.get("cores_per_device", 1)) if count else int(data["per_node"])
        node_link = data["node_link"] if not count else data["device_node_link"] * per_node
        return Fabric(
            Device.load(data["device"]), per_node, data["link"], node_link,
            data.get("latency", 1e-6), data.get("node_latency", 5e-6), 0, name, bool(count),
            host_link=float(data.get("host_link", 0.0)),
        )  # fmt: skip
    return None


def _shipped(name: str) -> Any:
    """A shipped `ts.Cluster` of that name, or that of a file; none where there is none."""
    from importlib.util import find_spec

    if find_spec(".cluster", __package__) is None:
        return None
    from importlib import import_module

    kind = import_module(".cluster", __package__).Cluster
    known = name.partition(":")[0] in kind.names() or name.endswith(".json") or os.path.isfile(name)
    return kind.load(name) if known else None


def _names() -> list[str]:
    """Systems of measured steps, and shipped clusters."""
    from importlib import import_module

    return sorted({*systems(), *import_module(".cluster", __package__).Cluster.names()}, key=str.lower)


def fabric_of(cluster: Any, devices: int | None = None) -> Fabric:
    """The fabric of a cluster.

    Args:
        cluster: a `ts.Cluster`, a Fabric, or a name as `dgx-a100:64` (devices behind the colon) of `systems`
            or a shipped cluster, or a file.
        devices: how many; none: as the cluster says, 0 for as many as a plan wants.

    Returns:
        The fabric.

    Raises:
        UserError: for an unknown name or a count that is none.
    """
    if isinstance(cluster, Fabric):
        return replace(cluster, devices=devices or cluster.devices)
    if not isinstance(cluster, str):
        return _of_dimensions(cluster, devices)
    name, colon, count = cluster.partition(":")
    if colon and not (count.isascii() and count.isdigit() and 0 < int(count) < 1 << 31):
        raise user_error("no number of devices", place="cluster", value=f"'{count}'", allowed="NAME:devices")
    found = _named(name)
    if found is None and (shipped := _shipped(cluster)) is not None:
        return _of_dimensions(shipped, devices)
    if found is None:
        known = _names()
        raise user_error(
            "unknown cluster", place="cluster", value=f"'{name}'", allowed=f"{', '.join(known)}, a .json file",
            suggestion=nearest(name, known),
        )  # fmt: skip
    return replace(found, devices=devices or (int(count) if colon else 0))


def with_library(fabric: Fabric, library: Any) -> Fabric:
    """A fabric whose collectives a communication library prices.

    Args:
        fabric: links.
        library: a library or what prices calls as it does (`system`, `seconds_many`), its name, or none for shares of
            link rates.

    Returns:
        The fabric.

    Raises:
        UserError: for an unknown name.
    """
    if library is None:
        return fabric
    from importlib import import_module

    library = import_module(".library", __package__).load(library)
    found = library.system(fabric.device.name) if hasattr(library, "system") else None
    return replace(fabric, library=library, generation=found.generation if found else "unknown")


def _of_dimensions(cluster: Any, devices: int | None) -> Fabric:
    """A ts.Cluster: its inner dimension is the node, what lies outside joins nodes."""
    dimensions = list(getattr(cluster, "dimensions", ()))
    if getattr(cluster, "graph", None) is not None:
        raise user_error("the network of a layered step has dimensions, and this one is a graph", place="cluster",
                         value=shown(cluster), allowed="a cluster with dimensions",
                         suggestion="Write node and nodes as dimensions of their rates, as ts.Cluster(device, [...]); "
                         "ts.cluster.collective, replay, and step of a program (ts.partition) take graphs")  # fmt: skip
    if dimensions and getattr(cluster, "device", None) is None:
        raise user_error("the cluster has no devices that compute", place="cluster", value=shown(cluster),
                         allowed="ts.Cluster(device=...), a shipped one")  # fmt: skip
    if not dimensions or getattr(cluster, "device", None) is None:
        raise user_error("no cluster with devices", place="cluster", value=shown(cluster), allowed="a ts.Cluster, NAME")
    per_node = int(cluster.per_node)
    inner, outer = dimensions[0], dimensions[-1]

    def rate(one: Any) -> float:
        return float(one.bandwidth_bytes_per_second)

    ports = int(getattr(outer, "rails", 0)) or per_node

    torus = inner.kind in ("torus", "ring")
    axes = len(getattr(inner, "sizes", None) or [1])
    link = rate(inner) * (2 * axes if torus else 1)
    node_link = rate(outer) * ports if len(dimensions) > 1 else link
    latencies = float(inner.latency_seconds), float(outer.latency_seconds)
    total = devices or int(cluster.devices)
    device = Device.load(cluster.device)
    host = float(getattr(cluster, "host_bytes_per_second", 0.0) or 0.0)
    name = str(getattr(cluster, "name", ""))
    faults = list(getattr(cluster, "faults", ()))
    share, slow = links(faults), computing(faults, total)
    rates = link * share, node_link * share
    return Fabric(device, per_node, *rates, *latencies, total, name, torus, host_link=host, slow=slow, ports=ports)
