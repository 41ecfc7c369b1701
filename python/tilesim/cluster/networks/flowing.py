"""Times a plan's communication by the flow model, in which messages of an axis's groups share links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cluster import Cluster
from ..communication import collective, collectives, schedule
from ..exchange import slowest

__all__ = ["FlowTimes", "flowing"]

Array = NDArray[np.float64]


class FlowTimes:
    """Times communication by `ts.cluster.collective(network_model="flows")`. Links have the framework's shares of
    their rates, and each call adds the framework's costs. Equal calls are simulated once.

    Gathers use flat rings, like the closed form; their number is the fewest adapters of a group in any node. Sums use
    the same rings, or a hierarchical algorithm if faster (for few bytes, when libraries use trees)."""

    def __init__(self, cluster: Cluster, per_node: int, call: float) -> None:
        """Stores the network, devices per node and seconds per call."""
        self.cluster, self.per_node, self.call = cluster, per_node, call
        self._known: dict[tuple[str, int, int, int], float] = {}
        self._own_ports = all(not one.rails for one in cluster.dimensions)

    def nodes(self, size: int, stride: int) -> list[int]:
        """Returns the nodes whose groups are timed: the node with the smallest part of a group."""
        return [slowest(size, stride, self.per_node, self.cluster.devices)[0]]

    def groups(self, size: int, stride: int, node: int) -> list[list[int]]:
        """Returns the groups of an axis with a member in a node; one represents all groups that share no port."""
        found: dict[int, list[int]] = {}
        begin = node * self.per_node
        for device in range(begin, min(begin + self.per_node, self.cluster.devices)):
            first = device // (stride * size) * stride * size + device % stride
            if first + (size - 1) * stride < self.cluster.devices:
                found[first] = [first + at * stride for at in range(size)]
        groups = list(found.values())
        return groups[:1] if self._own_ports and all(map(self._alike, groups)) else groups

    def _alike(self, group: list[int]) -> bool:
        """Whether a group has the same device positions in each node, so that it shares no port."""
        nodes = {device // self.per_node for device in group}
        return len(nodes) * len({device % self.per_node for device in group}) == len(group)

    def seconds(self, op: str, data: Array, of: Any, form: Array | None = None, late: Array | None = None) -> Array:
        """Returns the seconds of a call that every group makes at the same time."""
        arrays = np.broadcast_arrays(np.ceil(data), of.size, of.stride)
        return np.array([self._time(op, *map(int, row)) for row in zip(*arrays, strict=True)])

    def sends(self, data: Array, of: Any, wraps: NDArray[np.bool_], forms: tuple[Array, Array]) -> tuple[Array, Array]:
        """Returns the seconds of concurrent sends to the next member, inside and between nodes."""
        pair = replace(of, size=np.minimum(of.size, 2.0))
        return self.seconds("permute_devices", data, pair), self.seconds("permute_devices", data, of)

    def _time(self, op: str, bytes_: int, size: int, stride: int) -> float:
        if size == 1 or bytes_ == 0:
            return 0.0
        key = op, bytes_, size, stride
        if key not in self._known:
            nodes = self.nodes(size, stride)
            self._known[key] = self.call + max(self._together(op, bytes_, self.groups(size, stride, n)) for n in nodes)
        return self._known[key]

    def _together(self, op: str, bytes_: int, groups: list[list[int]]) -> float:
        if not groups:
            return 0.0
        if not all(map(self._alike, groups)):
            return self._cut(op, bytes_, groups)
        return min(
            collective(op, bytes_, self.cluster, devices=groups, algorithm=one, network_model="flows").seconds
            for one in self._algorithms(op, groups)
        )

    def _cut(self, op: str, bytes_: int, groups: list[list[int]]) -> float:
        """Returns the seconds of groups with unequal positions in nodes, whose members each use their own
        adapter."""
        (algorithm,) = self._algorithms(op, groups)
        nodes = sorted({device // self.per_node for group in groups for device in group})
        first = {node: at * self.per_node for at, node in enumerate(nodes)}
        requests = []
        for group in groups:
            own = algorithm if algorithm == "auto" else schedule(op, bytes_, group, self.cluster, algorithm)
            places = [first[device // self.per_node] + device % self.per_node for device in group]
            requests.append({"op": op, "bytes": bytes_, "devices": places, "algorithm": own})
        found = collectives(requests, Cluster(network=self._graph(len(nodes))), network_model="flows")
        return max(one.seconds for one in found)

    def _graph(self, nodes: int) -> dict[str, Any]:
        """Describes this number of nodes, each with a switch, whose adapters connect to one common switch."""
        inside, outside = self.cluster.dimensions
        ports = outside.rails or self.per_node
        devices, adapters = nodes * self.per_node, nodes * ports
        middle = devices + nodes + adapters
        # a shorter path inside keeps transfers in the node
        reach = max(outside.latency_seconds, inside.latency_seconds + 2e-12) / 2
        links = []
        for device in range(devices):
            node, place = divmod(device, self.per_node)
            adapter = devices + nodes + node * ports + place * ports // self.per_node
            for target, latency in ((devices + node, inside.latency_seconds / 2), (adapter, reach)):
                links.append((device, target, latency, inside.bandwidth_bytes_per_second))
        for adapter in range(devices + nodes, middle):
            links.append((adapter, middle, 0.0, outside.bandwidth_bytes_per_second))
        names = ("source", "target", "latency_seconds", "bandwidth_bytes_per_second")
        return {"devices": devices, "switches": nodes + adapters + 1,
                "links": [dict(zip(names, link, strict=True)) for link in links]}  # fmt: skip

    def _algorithms(self, op: str, groups: list[list[int]]) -> tuple[str, ...]:
        """Returns the algorithms that a library may use for a call."""
        if op not in ("all_gather", "all_reduce"):
            return ("auto",)
        several = any(group[-1] // self.per_node > group[0] // self.per_node for group in groups)
        if several and op == "all_reduce" and all(map(self._alike, groups)):
            return "ring", "hierarchical"  # `hierarchical` needs equal positions in all nodes
        return ("ring",)


def flowing(fabric: Any, k: Mapping[str, float]) -> FlowTimes:
    """Builds the flow network of a fabric with a framework's costs."""
    near, far = k["link_share"], k["node_share"]
    inside = min(fabric.per_node, fabric.devices)
    network = [{"kind": "switch", "size": inside, "bandwidth_bytes_per_second": fabric.link * near,
                "latency_seconds": fabric.latency + k["link_step"]}]  # fmt: skip
    if fabric.devices > inside:
        ports = min(fabric.ports or inside, inside)
        network.append({"kind": "switch", "size": fabric.devices // inside, "rails": ports if ports < inside else 0,
                        "bandwidth_bytes_per_second": fabric.node_link * far / ports,
                        "latency_seconds": fabric.node_latency + k["node_step"]})  # fmt: skip
    return FlowTimes(Cluster(network=network), inside, k["call"])
