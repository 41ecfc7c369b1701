"""What passes over an axis of a plan, by the network as built: meshes, rings, tori, trunks, more than two levels."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.errors import user_error
from ..cluster import Cluster
from ..communication import collective
from ..hosts.faults import without_computing

__all__ = ["AsBuilt", "as_built", "sized", "text_of", "two_levels", "with_rates"]

Array = NDArray[np.float64]
#: of a framework: shares of rates inside and between nodes, seconds of a step each, and of a call
_LINKS = ("link_share", "node_share", "link_step", "node_step", "call")


def two_levels(cluster: Cluster) -> bool:
    """Whether a network is devices on a switch, and at most nodes on a switch or a tree that is as wide everywhere, as
    closed forms of steps take for granted.

    Args:
        cluster: with its network.

    Returns:
        Whether it is.
    """
    if cluster.graph is not None or len(cluster.dimensions) > 2 or cluster.dimensions[0].kind != "switch":
        return False
    if len(cluster.dimensions) == 1:
        return cluster.per_node == cluster.devices and not cluster.dimensions[0].rails
    outer = cluster.network[1]
    wide = float(outer.get("oversubscription", 1)) <= 1 and outer.get("ways", "spread") == "spread"
    return cluster.per_node == cluster.dimensions[0].size and outer["kind"] in ("switch", "fat_tree") and wide


def text_of(cluster: Cluster, part: str = "") -> str:
    """A network as text.

    Args:
        cluster: with its network.
        part: shipped cluster that has the shape of fewer devices than a node has.

    Returns:
        JSON of the network, the devices of a node and the faults of links.
    """
    network = cluster.network if cluster.graph is None else cluster.graph
    faults = without_computing(cluster.faults)
    return json.dumps({"network": network, "per_node": cluster.per_node, "faults": faults, "part": part})


def sized(text: str, devices: int) -> dict[str, Any]:
    """A network with so many devices.

    Args:
        text: of `text_of`.
        devices: how many; the outer dimension takes what there is more.

    Returns:
        Its content.

    Raises:
        UserError: where it has others, and its outer dimension does not scale.
    """
    data = dict(json.loads(text))
    network = data["network"]
    found = Cluster(network=network).devices
    if found == devices:
        return data
    if data["part"] and devices < data["per_node"]:
        return dict(json.loads(text_of(Cluster.load(f"{data['part']}:{devices}"))))
    outer = network[-1] if isinstance(network, list) else {}
    inner = found // int(outer["size"]) if "size" in outer else found
    if "size" not in outer or devices % inner:
        allowed = f"{found}" if "size" not in outer else f"multiples of {inner}"
        raise user_error("the network has other devices", place="cluster", value=f"{devices} devices", allowed=allowed)
    rest = (
        network[:-1] if devices == inner and len(network) > 1 else [*network[:-1], {**outer, "size": devices // inner}]
    )
    return data | {"network": rest, "per_node": min(data["per_node"], devices)}


class AsBuilt:
    """Prices of what passes, by `ts.cluster.collective` of all groups of an axis at the same time, on links at the
    framework's shares of their rates, behind its costs of a call; each distinct call once.

    Where a node is a switch, what stays inside has the closed form. Where nodes are joined by switches alone, what goes
    between them takes the longer of the closed form, which knows adapters, and the network, which knows trunks. Sends
    that meet on a link share it fairly."""

    def __init__(self, cluster: Cluster, model: str, call: float) -> None:
        """Takes a network.

        Args:
            cluster: whose rates are what the framework gets of them, and whose latencies have its costs of a step.
            model: of the network: closed, flows.
            call: seconds of each call besides.
        """
        self.cluster, self.model, self.call = cluster, model, call
        self._known: dict[tuple[str, int, int, int], float] = {}
        kinds = [one.kind for one in cluster.dimensions]
        healthy = bool(kinds) and not cluster.faults
        self._node = healthy and kinds[0] == "switch" and cluster.per_node == cluster.dimensions[0].size
        self._switched = self._node and all(kind in ("switch", "fat_tree") for kind in kinds)

    def seconds(self, op: str, data: Array, of: Any, form: Array) -> Array:
        """Seconds of a call in every group at the same time.

        Args:
            op: of `ts.cluster.collective`.
            data: bytes of the call, per plan.
            of: the group.
            form: seconds on two levels of switches.

        Returns:
            Seconds; 0 for groups of one.
        """
        known = ~of.crosses if self._node else np.zeros(len(of.size), dtype=np.bool_)
        return self._longer(known, form, self._each(op, np.where(known, 0.0, data), of))

    def _longer(self, known: NDArray[np.bool_], form: Array, found: Array) -> Array:
        return np.where(known, form, np.maximum(form, found) if self._switched else found)

    def sends(self, data: Array, of: Any, wraps: NDArray[np.bool_], forms: tuple[Array, Array]) -> tuple[Array, Array]:
        """Seconds of sends from each stage to the next, all at the same time.

        Args:
            data: bytes of a message, per plan.
            of: the group of stages.
            wraps: whether the last stage sends to the first.
            forms: seconds of both on two levels of switches.

        Returns:
            Seconds inside a node, and of the slowest between nodes.
        """
        inside = ~of.crosses if self._node else np.zeros(len(of.size), dtype=np.bool_)
        near = forms[0] if self._node else self._each("near", data, of)
        moved = np.where(inside, 0.0, data)
        far = np.where(wraps, self._each("circle", np.where(wraps, moved, 0.0), of),
                       self._each("chain", np.where(wraps, 0.0, moved), of))  # fmt: skip
        return near, self._longer(inside, forms[1], far)

    def _each(self, what: str, data: Array, of: Any) -> Array:
        arrays = np.broadcast_arrays(np.ceil(data), of.size, of.stride)
        rows, back = np.unique(np.stack([np.ravel(one) for one in arrays], axis=1), axis=0, return_inverse=True)
        found = np.array([self._one(what, *map(int, row)) for row in rows.tolist()])
        return found[back.ravel()].reshape(arrays[0].shape)

    def _one(self, what: str, bytes_: int, size: int, stride: int) -> float:
        if size == 1 or bytes_ == 0:
            return 0.0
        key = what, bytes_, size, stride
        if key not in self._known:
            priced = self._sent if what in ("near", "chain", "circle") else self._together
            self._known[key] = priced(what, bytes_, size, stride)
        return self._known[key]

    def _groups(self, size: int, stride: int) -> list[list[int]]:
        """All groups of an axis."""
        blocks = range(0, self.cluster.devices, size * stride)
        firsts = (block + place for block in blocks for place in range(stride))
        every = (range(first, first + size * stride, stride) for first in firsts)
        return [list(one) for one in every if one[-1] < self.cluster.devices]

    def _together(self, op: str, bytes_: int, size: int, stride: int) -> float:
        groups = self._groups(size, stride)
        if not groups:
            return 0.0
        model = "flows" if op == "permute_devices" else self.model
        return self.call + collective(op, bytes_, self.cluster, devices=groups, model=model).seconds

    def _sent(self, way: str, bytes_: int, size: int, stride: int) -> float:
        last = size if way == "circle" and size > 2 else size - 1
        pairs = [(one[at], one[(at + 1) % size]) for one in self._groups(size, stride) for at in range(last)]
        if way == "near":
            node = self.cluster.per_node
            pairs = [(source, target) for source, target in pairs if source // node == target // node]
        if not pairs:
            return 0.0
        sent = collective("permute_devices", bytes_, self.cluster, pairs=pairs, model="flows")
        return self.call + sent.seconds


@dataclass(frozen=True)
class _Change:
    """Of links inside nodes and between them: factors on rates, seconds that a step takes longer; factor on latency."""

    rates: tuple[float, float] = (1.0, 1.0)
    steps: tuple[float, float] = (0.0, 0.0)
    latency: float = 1.0

    def of(self, link: Mapping[str, Any], far: bool, steps: float = 1.0) -> dict[str, Any]:
        """A dimension or link changed."""
        late = self.latency * float(link.get("latency_seconds", 0.0)) + steps * self.steps[far]
        rate = link["bandwidth_bytes_per_second"] * self.rates[far]
        return {**link, "bandwidth_bytes_per_second": rate, "latency_seconds": late}


def _changed(data: Mapping[str, Any], change: _Change) -> Any:
    """The network of `sized`, its links changed."""
    network, inside = data["network"], 1
    if isinstance(network, dict):
        return _changed_graph(network, data["per_node"], change)
    found = []
    for one in network:
        found.append(change.of(one, inside >= data["per_node"]))
        inside *= math.prod(one.get("sizes") or [one["size"]])
    return found


def _changed_graph(network: Mapping[str, Any], per_node: int, change: _Change) -> dict[str, Any]:
    """What devices of two nodes, or switches alone, have between them is between nodes. Half a step's costs lie on each
    end of a way that is a device."""
    devices = int(network["devices"])
    owners: dict[int, set[int]] = {}
    for link in network["links"]:
        for one, other in ((link["source"], link["target"]), (link["target"], link["source"])):
            if one < devices:
                owners.setdefault(other, set()).add(one // per_node)

    def crosses(link: Mapping[str, Any]) -> bool:
        ends = (link["source"], link["target"])
        if min(ends) >= devices:
            return devices > per_node
        near = set[int]().union(*({end // per_node} if end < devices else owners[end] for end in ends))
        return len(near) > 1

    links = []
    for link in network["links"]:
        ends = sum(link[end] < devices for end in ("source", "target"))
        links.append(change.of(link, crosses(link), ends / 2))
    return {**network, "links": links}


def with_rates(text: str, near: float, far: float, latency: float) -> str:
    """Another network of the same shape.

    Args:
        text: of `text_of`.
        near: factor on the rates of links inside nodes.
        far: the same of those between them.
        latency: factor on the latency of all.

    Returns:
        As `text_of`.
    """
    data = json.loads(text)
    return json.dumps({**data, "network": _changed(data, _Change((near, far), latency=latency))})


@lru_cache(32)
def _made(text: str, devices: int, model: str, k: tuple[float, ...]) -> AsBuilt:
    data = sized(text, devices)
    network = _changed(data, _Change(k[:2], k[2:4]))  # type: ignore[arg-type]
    return AsBuilt(Cluster(network=network, faults=data["faults"], per_node=data["per_node"]), model, k[4])


def as_built(text: str, devices: int, model: str, k: Mapping[str, float]) -> AsBuilt:
    """The network as a framework sees it; what was priced on it is kept.

    Args:
        text: of `text_of`.
        devices: how many.
        model: of the network: closed, flows.
        k: constants of the framework: link_share, node_share, link_step, node_step, call.

    Returns:
        Prices.
    """
    return _made(text, devices, model, tuple(float(k[name]) for name in _LINKS))
