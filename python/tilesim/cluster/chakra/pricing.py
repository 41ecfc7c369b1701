"""Times communication of traces and programs on a cluster, equally in a step and in the replay of its trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import user_error
from ..cluster import Cluster
from ..communication import CollectiveResult, collective
from ..trace import Trace, TraceNode

__all__ = ["DTYPE", "INSIDE", "NETWORK", "PERMUTE", "SLOWED", "Communication", "learn"]

#: node attributes: the permute to which a message belongs (its messages share one time); the dtype of a collective
PERMUTE, DTYPE = "tilesim_permute", "tilesim_dtype"
#: attribute of a compute node: the slow-down factor that its time already includes
SLOWED = "tilesim_slowed"
#: attributes of communication simulated inside a device: picoseconds inside, and picoseconds on the network
INSIDE, NETWORK = "tilesim_inside_ps", "tilesim_network_ps"
#: operations without a network model
RECORDED = ("reduce", "gather", "scatter")


@dataclass
class Communication:
    """Computes standalone times of communication on a cluster, once for equal communications."""

    cluster: Cluster
    network: str
    library: Any
    symmetry: bool
    algorithm: Any = "auto"  # or a dict from operation to algorithm
    cached: dict[Any, int] = field(default_factory=dict)
    messages: dict[tuple[int, int, int], int] = field(default_factory=dict)
    dtypes: dict[tuple[str, int], str] = field(default_factory=dict)  # (operation, bytes) -> dtype of the elements
    ways: dict[Any, Any] = field(default_factory=dict)  # algorithms of collectives, with the keys of `cached`
    within: dict[Any, tuple[int, int]] = field(default_factory=dict)  # NETWORK and INSIDE, with the keys of `cached`

    def __call__(self, op: str, size: int, devices: tuple[int, ...], recorded: int, place: str) -> int:
        """Returns the picoseconds of a collective, or of a message between two devices."""
        if op in RECORDED:
            if not recorded and len(devices) > 1:
                raise user_error(f"operation '{op}' has no network model and no recorded time", place=place,
                                 allowed="a recorded duration, or price=")  # fmt: skip
            return recorded
        if op == "send" and (size, *devices) in self.messages:
            return self.messages[size, devices[0], devices[1]]
        key = (op, size, devices)
        if key not in self.cached:
            self.cached[key] = 0 if len(set(devices)) < 2 else self.standalone_time(op, size, devices)
        return self.cached[key]

    def standalone_time(self, op: str, size: int, devices: Sequence[int]) -> int:
        """Computes the picoseconds without other communication."""
        if op == "send":
            return collective("permute_devices", size, self.cluster, devices, network_model=self.network,
                              pairs=[(0, 1)], symmetry=self.symmetry).picoseconds  # fmt: skip
        dtype = self.dtypes.get((op, size), "bf16")
        algorithm = self.algorithm.get(op, "auto") if isinstance(self.algorithm, dict) else self.algorithm

        def priced(size: int) -> CollectiveResult:
            return collective(
                "all_reduce" if op == "barrier" else op, size, self.cluster, devices, dtype=dtype,
                network_model=self.network,
                algorithm="auto" if op == "broadcast_devices" else algorithm, library=self.library,
                symmetry=self.symmetry,
            )  # fmt: skip

        found = priced(size)
        named = isinstance(algorithm, str) and not algorithm.endswith((".json", ".xml"))
        self.ways[op, size, tuple(devices)] = (
            "auto" if found.model == "library" else found.algorithm if named else algorithm
        )
        return self.picoseconds((op, size, tuple(devices)), size, priced)

    def picoseconds(self, key: Any, size: int, priced: Callable[[int], CollectiveResult]) -> int:
        """Returns a collective's picoseconds: the network's time, or the time simulated inside a device if the network
        is at least as slow as it was then."""
        found = priced(size).picoseconds
        network, inside = self.within.get(key, (0, 0))
        return max(found, inside) if found >= network else found

    def permute(self, size: int, pairs: Sequence[Sequence[int]]) -> None:
        """Times all messages of a permute together; all end with the last one."""
        key = permute_key(size, pairs)
        if key not in self.cached:
            members = sorted({device for pair in pairs for device in pair})
            at = {device: number for number, device in enumerate(members)}

            def priced(size: int) -> CollectiveResult:
                return collective(
                    "permute_devices", size, self.cluster, members, network_model=self.network, library=self.library,
                    pairs=[(at[a], at[b]) for a, b in key[2]], symmetry=self.symmetry,
                )  # fmt: skip

            self.cached[key] = self.picoseconds(key, size, priced)
        for a, b in pairs:
            self.messages[size, a, b] = max(self.messages.get((size, a, b), 0), self.cached[key])


def permute_key(size: int, pairs: Iterable[Sequence[int]]) -> Any:
    """Returns the key of a permute in `Communication.cached`."""
    return "permute", size, tuple(sorted(map(tuple, pairs)))


def learn(trace: Trace, price: Communication) -> None:
    """Passes more data of a trace's nodes to a price: dtypes, the messages of a permute, and times simulated inside a
    device.
    """
    permutes: dict[tuple[int, int], set[tuple[int, int]]] = {}
    inside: dict[tuple[int, int], tuple[int, int]] = {}
    group_of = {kind: {device: tuple(group) for group in groups for device in group}
                for kind, groups in trace.groups.items()}  # fmt: skip
    every = tuple(range(trace.devices))
    for part in trace.classes:
        for node in part.nodes:
            if DTYPE in node.attributes and node.kind == "collective":
                price.dtypes.setdefault((node.op, node.bytes), str(_value(node.attributes[DTYPE])))
            within = _within(node)
            if within is not None and node.kind == "collective":
                groups = {group_of[node.group][device] for device in part.devices} if node.group else {every}
                for group in groups:
                    price.within[node.op, node.bytes, group] = within
            if PERMUTE in node.attributes and node.kind == "send":
                pairs = permutes.setdefault((node.bytes, node.tag), set())
                pairs.update(zip(part.devices, node.peers, strict=True))
                if within is not None:
                    inside[node.bytes, node.tag] = within
    for (size, tag), pairs in permutes.items():
        if (size, tag) in inside:
            price.within[permute_key(size, pairs)] = inside[size, tag]
        price.permute(size, sorted(pairs))


def _within(node: TraceNode) -> tuple[int, int] | None:
    """Returns a node's picoseconds on the network and inside a device; None without valid numbers."""
    found = tuple(_value(node.attributes.get(name)) for name in (NETWORK, INSIDE))
    if not all(type(one) is int and one >= 0 for one in found):
        return None
    return found[0], found[1]


def _value(attribute: Any) -> Any:
    return attribute[1] if isinstance(attribute, tuple) else attribute
