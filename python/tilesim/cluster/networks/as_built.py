"""Times a plan's communication on the actual network: meshes, rings, tori, trunks, more than two levels."""

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
from ..terms import distinct_rows
from .axis_groups import every_group, meeting_groups
from .contention import FEW

__all__ = ["AsBuilt", "as_built", "sized", "text_of", "two_levels", "with_rates"]

Array = NDArray[np.float64]
MOST = 2048  # largest number of devices whose sends are timed together
HUGE = 4096  # most devices that share links; above it, closed forms apply
LARGE = 1 << 30  # bytes with which sends of many devices are timed
#: constants of a framework: shares of rates inside and between nodes, seconds per step for both, seconds per call
_LINKS = ("link_share", "node_share", "link_step", "node_step", "call")


def two_levels(cluster: Cluster) -> bool:
    """Whether a network connects devices by a switch, and nodes by at most one switch or full-width tree. The
    closed forms of steps assume such a network.
    """
    if cluster.graph is not None or len(cluster.dimensions) > 2 or cluster.dimensions[0].kind != "switch":
        return False
    if len(cluster.dimensions) == 1:
        return cluster.per_node == cluster.devices and not cluster.dimensions[0].rails
    outer = cluster.network[1]
    wide = float(outer.get("oversubscription", 1)) <= 1 and outer.get("ways", "spread") == "spread"
    return cluster.per_node == cluster.dimensions[0].size and outer["kind"] in ("switch", "fat_tree") and wide


def text_of(cluster: Cluster, part: str = "") -> str:
    """Describes a network as text."""
    network = cluster.network if cluster.graph is None else cluster.graph
    faults = without_computing(cluster.faults)
    return json.dumps({"network": network, "per_node": cluster.per_node, "faults": faults, "part": part})


def sized(text: str, devices: int) -> dict[str, Any]:
    """Resizes a network to this number of devices."""
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
        raise user_error(
            "the network has another number of devices", place="cluster", value=f"{devices} devices", allowed=allowed
        )
    rest = (
        network[:-1] if devices == inner and len(network) > 1 else [*network[:-1], {**outer, "size": devices // inner}]
    )
    return data | {"network": rest, "per_node": min(data["per_node"], devices)}


class AsBuilt:
    """Times communication by `ts.cluster.collective` for all groups of an axis at the same time. Links have the
    framework's shares of their rates, and each call adds the framework's costs. Equal calls are simulated once.

    Inside a node with a switch, the closed form applies, with slow links as lower bound. Between nodes on switches, the
    time is the larger of the closed form, which models adapters, and the network's, which models trunks; on other
    networks it is at least the form's latencies. Sends that share a link get equal rates.

    The simulation omits dimensions that no group partially spans. One block represents all equal blocks with
    separate links, and only adjacent groups that share links are simulated. So the cost grows with a group, not the
    network. If more than 4,096 devices share links, the closed forms apply. Sends of more than 256 devices are
    interpolated between two sizes and simulated on the first 2,048 devices."""

    def __init__(self, cluster: Cluster, model: str, call: float) -> None:
        """Stores the cluster, network model and seconds per call."""
        self.cluster, self.model, self.call = cluster, model, call
        self._known: dict[tuple[str, int, int, int], float] = {}
        self._line: dict[tuple[str, int, int], tuple[float, float]] = {}
        kinds = [one.kind for one in cluster.dimensions]
        self._node = bool(kinds) and kinds[0] == "switch" and cluster.per_node == cluster.dimensions[0].size
        self._switched = self._node and all(kind in ("switch", "fat_tree") for kind in kinds)

    def seconds(self, op: str, data: Array, of: Any, form: Array, late: Array) -> Array:
        """Returns the seconds of a call that every group of an axis makes at the same time."""
        known = self._inside(of) & (not self.cluster.faults)
        return self._longer(of, form, self._times(op, np.where(known, 0.0, data), of), late)

    def _inside(self, of: Any) -> NDArray[np.bool_]:
        """Whether a group is inside one node with a switch."""
        return np.asarray(~of.crosses if self._node else np.zeros(len(of.size), dtype=np.bool_))

    def _longer(self, of: Any, form: Array, found: Array, late: Array | float = 0.0) -> Array:
        """Raises times to at least the closed form of a faultless network."""
        least = np.where(self._inside(of) | self._switched, form, late if self._node else 0.0)
        found = np.where(np.isnan(found), form, found)
        return np.where(of.size > 1, np.maximum(least, found), 0.0)

    def sends(self, data: Array, of: Any, wraps: NDArray[np.bool_], forms: tuple[Array, Array]) -> tuple[Array, Array]:
        """Returns the seconds of concurrent sends from each stage to the next, inside and between nodes."""
        known = self._inside(of) & (not self.cluster.faults)
        near = forms[0]
        if self.cluster.faults or not self._node:
            inside = self._times("near", data, of)
            near = np.where(np.isnan(inside), near, np.maximum(near if self._node else 0.0, inside))
        moved = np.where(known, 0.0, data)
        far = np.where(wraps, self._times("circle", np.where(wraps, moved, 0.0), of),
                       self._times("chain", np.where(wraps, 0.0, moved), of))  # fmt: skip
        return near, self._longer(of, np.where(self._inside(of), near, forms[1]), far)

    def _times(self, what: str, data: Array, of: Any) -> Array:
        arrays = np.broadcast_arrays(np.ceil(data), of.size, of.stride)
        bytes_, size = arrays[0], arrays[1]
        some = np.flatnonzero((bytes_ > 0) & (size > 1))
        found = np.zeros(len(size))
        if len(some):
            rows, back = distinct_rows(np.stack([one[some] for one in arrays], axis=1))
            found[some] = np.array([self._time(what, *map(int, row)) for row in rows.tolist()])[back]
        return found

    def _time(self, what: str, bytes_: int, size: int, stride: int) -> float:
        key = what, bytes_, size, stride
        if key not in self._known:
            what = "circle" if what == "permute_devices" else what
            priced = self._sent if what in ("near", "chain", "circle") else self._together
            self._known[key] = priced(what, bytes_, size, stride)
        return self._known[key]

    def _together(self, op: str, bytes_: int, size: int, stride: int) -> float:
        cluster, groups = self._groups(size, stride)
        if not groups or len(groups) * size > HUGE:
            return math.nan if groups else 0.0
        return self.call + collective(op, bytes_, cluster, devices=groups, network_model=self.model).seconds

    def _groups(self, size: int, stride: int, whole: bool = False) -> tuple[Cluster, list[list[int]]]:
        """Returns a network and the groups of an axis on it: all groups, or those that share links."""
        if whole:
            return self.cluster, every_group(self.cluster, size, stride)
        return meeting_groups(self.cluster, size, stride)

    def _sent(self, way: str, bytes_: int, size: int, stride: int) -> float:
        last = size if way == "circle" and size > 2 else size - 1
        cluster, groups = self._groups(size, stride, way == "near")
        if len(groups) * size > HUGE:
            return math.nan
        pairs = [(one[at], one[(at + 1) % size]) for one in groups for at in range(last)]
        if way == "near":
            node = self.cluster.per_node
            pairs = [(source, target) for source, target in pairs if source // node == target // node]
        if not pairs:
            return 0.0
        if len(groups) * size <= FEW:
            return self.call + _at_once(bytes_, cluster, pairs)
        key = way, size, stride
        if key not in self._line:  # fits latency and rate of concurrent sends
            pairs = [pair for pair in pairs if max(pair) < MOST] or pairs[:MOST]
            one, large = (_at_once(some, cluster, pairs) for some in (1 << 20, LARGE))
            slope = (large - one) / (LARGE - (1 << 20))
            self._line[key] = one - slope * (1 << 20), slope
        late, slope = self._line[key]
        return self.call + late + slope * bytes_


def _at_once(bytes_: int, cluster: Cluster, pairs: list[tuple[int, int]]) -> float:
    devices = sorted({device for pair in pairs for device in pair})
    place = {device: at for at, device in enumerate(devices)}
    placed = [(place[source], place[target]) for source, target in pairs]
    sent = collective("permute_devices", bytes_, cluster, devices=devices, pairs=placed, network_model="flows")
    return float(sent.seconds)


@dataclass(frozen=True)
class _LinkChange:
    """A change of links: factors on rates and added seconds per step (inside, between nodes), factor on latency."""

    rates: tuple[float, float] = (1.0, 1.0)
    steps: tuple[float, float] = (0.0, 0.0)
    latency: float = 1.0

    def of(self, link: Mapping[str, Any], far: bool, steps: float = 1.0) -> dict[str, Any]:
        """Applies the change to a dimension or link."""
        late = self.latency * float(link.get("latency_seconds", 0.0)) + steps * self.steps[far]
        rate = link["bandwidth_bytes_per_second"] * self.rates[far]
        return {**link, "bandwidth_bytes_per_second": rate, "latency_seconds": late}


def _changed(data: Mapping[str, Any], change: _LinkChange) -> Any:
    """Applies a change to the links of a network that `sized` describes."""
    network, inside = data["network"], 1
    if isinstance(network, dict):
        return _changed_graph(network, data["per_node"], change)
    found = []
    for one in network:
        found.append(change.of(one, inside >= data["per_node"]))
        inside *= math.prod(one.get("sizes") or [one["size"]])
    return found


def _changed_graph(network: Mapping[str, Any], per_node: int, change: _LinkChange) -> dict[str, Any]:
    """Links between devices of two nodes, or between two switches, are between nodes. Each end that is a device has
    half of a step's costs."""
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
    """Returns the description of a network with scaled links."""
    data = json.loads(text)
    return json.dumps({**data, "network": _changed(data, _LinkChange((near, far), latency=latency))})


@lru_cache(32)
def _network_of_text(text: str, devices: int, model: str, k: tuple[float, ...]) -> AsBuilt:
    data = sized(text, devices)
    network = _changed(data, _LinkChange(k[:2], k[2:4]))  # type: ignore[arg-type]
    return AsBuilt(Cluster(network=network, faults=data["faults"], per_node=data["per_node"]), model, k[4])


def as_built(text: str, devices: int, model: str, k: Mapping[str, float]) -> AsBuilt:
    """Returns the network with a framework's costs; it caches computed times."""
    return _network_of_text(text, devices, model, tuple(float(k[name]) for name in _LINKS))
