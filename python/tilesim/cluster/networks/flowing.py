"""What passes over an axis of a plan, as messages that share links: all groups of the axis that meet in a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cluster import Cluster
from ..communication import collective
from ..exchange import slowest

__all__ = ["Flowing", "flowing"]

Array = NDArray[np.float64]


class Flowing:
    """Prices of what passes, by `ts.cluster.collective(model="flows")` on links at the framework's shares of their
    rates, behind its costs of a call; each distinct call once."""

    def __init__(self, cluster: Cluster, per_node: int, call: float) -> None:
        """Takes a network.

        Args:
            cluster: whose rates are what the framework gets of them, and whose latencies have its costs of a step.
            per_node: devices of a node.
            call: seconds of each call besides.
        """
        self.cluster, self.per_node, self.call = cluster, per_node, call
        self._known: dict[tuple[str, int, int, int], float] = {}

    def groups(self, size: int, stride: int) -> list[list[int]]:
        """Groups of an axis with a member in the first node; where nodes cut groups, in the node with the smallest part
        of one.

        Args:
            size: of a group.
            stride: between its members.

        Returns:
            Numbers of devices.
        """
        found: dict[int, list[int]] = {}
        begin = slowest(size, stride, self.per_node, self.cluster.devices)[0] * self.per_node
        for device in range(begin, min(begin + self.per_node, self.cluster.devices)):
            first = device // (stride * size) * stride * size + device % stride
            if first + (size - 1) * stride < self.cluster.devices:
                found[first] = [first + at * stride for at in range(size)]
        return list(found.values())

    def seconds(self, op: str, data: Array, of: Any) -> Array:
        """Seconds of a call in every group at the same time.

        Args:
            op: of `ts.cluster.collective`.
            data: bytes of the call, per plan.
            of: the group.

        Returns:
            Seconds; 0 for groups of one.
        """
        arrays = np.broadcast_arrays(np.ceil(data), of.size, of.stride)
        return np.array([self._one(op, *map(int, row)) for row in zip(*arrays, strict=True)])

    def _one(self, op: str, bytes_: int, size: int, stride: int) -> float:
        if size == 1 or bytes_ == 0:
            return 0.0
        key = op, bytes_, size, stride
        if key not in self._known:
            groups = self.groups(size, stride)
            found = collective(op, bytes_, self.cluster, devices=groups, model="flows")
            self._known[key] = self.call + found.seconds
        return self._known[key]


def flowing(fabric: Any, cluster: Any, k: Mapping[str, float]) -> Flowing:
    """The network of a fabric as a framework sees it.

    Args:
        fabric: links, of so many devices.
        cluster: as it was given; tori are taken from it.
        k: constants of the framework: link_share, node_share, link_step, node_step, call.

    Returns:
        Prices by flows.
    """
    near, far = k["link_share"], k["node_share"]
    if fabric.slices:
        given = Cluster.load(cluster)
        network = [
            {"kind": one.kind, "sizes": list(one.sizes), "latency_seconds": one.latency_seconds + k["link_step"],
             "bandwidth_bytes_per_second": one.bandwidth_bytes_per_second * (near if number == 0 else far)}
            for number, one in enumerate(given.dimensions)
        ]  # fmt: skip
        return Flowing(Cluster(network=network), fabric.per_node, k["call"])
    inside = min(fabric.per_node, fabric.devices)
    network = [{"kind": "switch", "size": inside, "bandwidth_bytes_per_second": fabric.link * near,
                "latency_seconds": fabric.latency + k["link_step"]}]  # fmt: skip
    if fabric.devices > inside:
        network.append({"kind": "switch", "size": fabric.devices // inside,
                        "bandwidth_bytes_per_second": fabric.node_link * far / inside,
                        "latency_seconds": fabric.node_latency + k["node_step"]})  # fmt: skip
    return Flowing(Cluster(network=network), inside, k["call"])
