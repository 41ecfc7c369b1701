"""Clusters: equal devices and the network between them, from a name, file or constructor."""

from __future__ import annotations

import copy
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from .. import _core
from ..base.arguments import is_size
from ..base.checked import checked_class, is_number
from ..base.errors import nearest, path_text, placed, shown, user_error
from ..base.files import YAML, Saved, read_json
from ..base.paths import configs_dir
from ..base.presets import is_shipped
from .hosts.faults import without_computing
from .networks.astra import network_of
from .slices import scaled
from .systems import system_of

__all__ = ["Cluster", "Dimension"]

SCHEMA, VERSION = "tilesim.cluster", 1
KEYS = (
    "name",
    "description",
    "device",
    "network",
    "faults",
    "per_node",
    "generation",
    "library",
    "slices",
    "host_bytes_per_second",
    "sources",
)
MOST_DEVICES = 1 << 24
DEEPEST = 8  # nesting depth to which invalid values are searched
FINITE = {
    "bandwidth_bytes_per_second": "a number from 1 to 1e18",
    "latency_seconds": "a number from 0 to 1000",
    "trunk_latency_seconds": "a number from 0 to 1000",
    "share": "a number from 0 to 1",
}


@dataclass(frozen=True)
class Dimension:
    """One dimension of a network: equal links between devices that differ only in this coordinate.

    Rates are bytes per second and direction of a link or of a device's port; `latency_seconds`: over a link, or from
    device to device through a switch; `rails`: number of ports that a node's devices share (0: one port per device);
    `reduces`: whether its switches reduce data (NVLS, SHARP).
    """

    kind: str
    sizes: tuple[int, ...]
    bandwidth_bytes_per_second: float
    latency_seconds: float
    rails: int = 0
    name: str = ""
    reduces: bool = False

    @property
    def size(self) -> int:
        """Number of devices along the dimension."""
        return math.prod(self.sizes)


def _dimension(data: Mapping[str, Any]) -> Dimension:
    sizes = data["sizes"] if "sizes" in data else [data["size"]]
    return Dimension(
        data["kind"],
        tuple(int(size) for size in sizes),
        float(data["bandwidth_bytes_per_second"]),
        float(data.get("latency_seconds", 0)),
        int(data.get("rails", 0)),
        str(data.get("name", "")),
        bool(data.get("reduces", False)),
    )


def _without_sums(data: Any, number: int) -> Any:
    """Checks `reduces` and returns the dimension without it, because the core does not read it."""
    if not isinstance(data, Mapping) or "reduces" not in data:
        return data
    if not isinstance(data["reduces"], bool) or (data["reduces"] and data.get("kind") not in ("switch", "fat_tree")):
        raise user_error("only switches can reduce", place=f"network[{number}].reduces",
                         value=shown(data["reduces"]), allowed="true for switch and fat_tree, else false")  # fmt: skip
    return {key: value for key, value in data.items() if key != "reduces"}


def _device(given: Any) -> Any:
    """Loads a device; an unknown name is an error."""
    if isinstance(given, os.PathLike):
        given = path_text(given)
    if isinstance(given, str):
        shipped = any(is_shipped(given, folder, ()) for folder in ("devices", "machines"))
        if shipped or given.endswith((".json", ".toml")) or os.path.isfile(given):
            return given
    from ..machine.target import load  # slow import that shipped devices do not need

    with placed("device"):
        found = load(given, labels=True)
    return given if isinstance(given, str) else found


def _odd(value: Any, place: str, depth: int = 0) -> tuple[str, Any] | None:
    """Returns path and value of the first entry that is neither a finite number nor a string; None without one."""
    if isinstance(value, (Mapping, list, tuple)) and depth < DEEPEST:
        parts = value.items() if isinstance(value, Mapping) else enumerate(value)
        inside = (_odd(one, f"{place}.{key}" if isinstance(value, Mapping) else f"{place}[{key}]", depth + 1)
                  for key, one in parts)  # fmt: skip
        return next((one for one in inside if one is not None), None)
    plain = value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value))
    return None if plain else (place, value)


@checked_class("others", "source", "axis", "value")
class Cluster(Saved):
    """Equal devices and the links between them. Devices are numbered with the innermost dimension first."""

    def __init__(
        self,
        device: Any = None,
        network: Sequence[Mapping[str, Any]] | Mapping[str, Any] | str | os.PathLike[str] = (),
        *,
        name: str = "custom",
        description: str = "",
        faults: Sequence[Mapping[str, Any]] = (),
        per_node: int | None = None,
        devices: int | None = None,
        generation: str = "",
        library: str = "",
        sources: Mapping[str, str] | None = None,
        host_bytes_per_second: float | None = None,
        **others: Any,
    ) -> None:
        """Builds a custom cluster."""
        for key in others:
            allowed = ", ".join(("device", "network", *KEYS[:2], *KEYS[4:]))
            raise user_error("unknown key of a cluster", value=key, allowed=allowed, suggestion=nearest(key, KEYS))
        self.device: Any = None if device is None else _device(device)
        self.name, self.description = name, description
        self.generation, self.library, self.sources = generation, library, dict(sources or {})
        self.host_bytes_per_second = host_bytes_per_second
        if host_bytes_per_second is not None and not (
            is_number(host_bytes_per_second) and 0 < host_bytes_per_second < math.inf
        ):
            raise user_error("not a link rate", place="host_bytes_per_second", value=shown(host_bytes_per_second),
                             allowed="bytes per second above 0")  # fmt: skip
        self.faults = [dict(fault) for fault in faults]
        self.graph: dict[str, Any] | None = None
        self.network: list[dict[str, Any]] = []
        if isinstance(network, (str, os.PathLike)):
            network = read_json(network)
        if isinstance(network, Mapping):
            self.graph = {key: value for key, value in network.items() if key not in ("schema", "version")}
        elif isinstance(network, Sequence):
            entries: list[Any] = [dict(one) if isinstance(one, Mapping) else one for one in network]
            self.network = entries
        else:
            raise user_error("not a network", place="network", value=shown(network), allowed="a list or a dict")
        self.core: Any = _core_network(self._network_text())
        self.devices: int = self.core.devices
        if devices is not None and devices != self.devices:
            what = "the product of the network's sizes differs from the number of devices"
            raise user_error(what, place="devices", value=shown(devices), allowed=str(self.devices))
        self.dimensions = tuple(_dimension(one) for one in self.network)
        inner = self.dimensions[0].size if len(self.dimensions) > 1 else self.devices
        self.per_node: int = inner if per_node is None else per_node
        if self.per_node < 1 or self.devices % self.per_node:
            allowed = f"a divisor of {self.devices}"
            raise user_error(
                "nodes must have equal numbers of devices", place="per_node", value=shown(per_node), allowed=allowed
            )

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state for pickling, without the core's network."""
        return {name: value for name, value in self.__dict__.items() if name != "core"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores a state, and rebuilds the core's network."""
        self.__dict__.update(state)
        self.core = _core_network(self._network_text())

    def _network_text(self) -> str:
        dimensions = [_without_sums(one, number) for number, one in enumerate(self.network)]
        network: dict[str, Any] = {"dimensions": dimensions} if self.graph is None else {"graph": self.graph}
        if faults := without_computing(self.faults):
            network["faults"] = faults
        try:
            return json.dumps(network, allow_nan=False)
        except (TypeError, ValueError):
            pass
        parts = (("network", dimensions if self.graph is None else self.graph), ("faults", faults))
        found = next((odd for place, one in parts if (odd := _odd(one, place)) is not None), None)
        place, value = found or ("network", network)
        what = "not a finite number" if isinstance(value, float) else "not a plain number or string"
        allowed = FINITE.get(place.rpartition(".")[2], "finite Python numbers")
        raise user_error(what, place=place, value=shown(value), allowed=allowed)

    @classmethod
    def names(cls) -> list[str]:
        """Lists the shipped clusters.

        Returns:
            Sorted names.
        """
        return sorted(path.stem for path in (configs_dir() / "clusters").glob("*.json"))

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Cluster) -> Cluster:
        """Loads a cluster by name, or from a file or dict.

        Args:
            source: name ("dgx-h100"); name with a number of devices ("dgx-h100:64"), which scales the outer dimension
                or uses part of one node; path of a `.json` file; its content; a Cluster; path of an ASTRA-sim network
                (`.yml`), which has no device.

        Returns:
            The checked cluster.

        Raises:
            UserError: for an unknown name, or an unsupported number of devices.
        """
        if isinstance(source, Cluster):
            return source
        if isinstance(source, Mapping):
            return cls._from_data(source, None)
        text = path_text(source)
        if text.endswith(YAML):
            return cls._from_data(network_of(text), None)
        if text.endswith(".json") or os.path.isfile(text):
            with placed(text):
                return cls._from_data(read_json(text), None)
        name, colon, count = text.partition(":")
        devices = None
        if colon:
            devices = devices_of(count, text)
        return copy.deepcopy(_shipped(name, devices))  # the caller gets a private copy

    @classmethod
    def _from_data(cls, data: Mapping[str, Any], devices: int | None) -> Cluster:
        if not isinstance(data, Mapping):
            raise user_error("not a cluster", value=shown(data), allowed="an object")
        if data.get("schema", SCHEMA) != SCHEMA:
            raise user_error("not a cluster", value=shown(data.get("schema")), allowed=SCHEMA)
        if data.get("version", VERSION) != VERSION:
            raise user_error("unknown version of a cluster", value=shown(data.get("version")), allowed=str(VERSION))
        fields = {key: value for key, value in data.items() if key not in ("schema", "version", "slices")}
        if devices is not None:
            fields["network"], part = scaled(data, devices)
            if "per_node" in fields:
                fields["per_node"] = min(int(fields["per_node"]), devices) if part else fields["per_node"]
        return cls(**fields)

    def to_dict(self) -> dict[str, Any]:
        """Converts the cluster to the content of its file.

        Returns:
            A dict of schema `tilesim.cluster`.
        """
        device = self.device if self.device is None or isinstance(self.device, str) else self.device.to_dict()
        data: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "name": self.name}
        data |= {"description": self.description, "device": device, "per_node": self.per_node}
        data |= {
            "generation": self.generation,
            "library": self.library,
            "network": self.network if self.graph is None else self.graph,
        }
        data |= {"faults": self.faults, "sources": self.sources, "host_bytes_per_second": self.host_bytes_per_second}
        kept = {key: value for key, value in data.items() if value not in ("", [], {})}
        if self.host_bytes_per_second is None:
            kept.pop("host_bytes_per_second")
        return kept

    def dimension_of(self, axis: str | int) -> int:
        """Returns the index of a dimension.

        Args:
            axis: name or index of the dimension; negative indices count from the outermost.

        Returns:
            The index; 0 is the innermost dimension.

        Raises:
            UserError: for an unknown dimension.
        """
        names = [one.name or str(number) for number, one in enumerate(self.dimensions)]
        if isinstance(axis, str) and axis in names:
            return names.index(axis)
        if isinstance(axis, int) and -len(names) <= axis < len(names):
            return axis % len(names)
        allowed = ", ".join(names) or "none, because the network is a graph"
        raise user_error("unknown dimension of the network", value=shown(axis), allowed=allowed)

    def groups(self, axis: str | int) -> list[list[int]]:
        """Returns the groups of devices that differ only in one dimension.

        Args:
            axis: name or index of the dimension.

        Returns:
            Lists of device numbers that partition all devices.
        """
        number = self.dimension_of(axis)
        stride = math.prod(one.size for one in self.dimensions[:number])
        size = self.dimensions[number].size
        starts = (block + inner for block in range(0, self.devices, stride * size) for inner in range(stride))
        return [list(range(start, start + stride * size, stride)) for start in starts]

    @cached_property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.devices // self.per_node

    def __repr__(self) -> str:
        """Name, devices and dimensions."""
        kinds = " x ".join(f"{one.kind} {'x'.join(map(str, one.sizes))}" for one in self.dimensions) or "a graph"
        return f"Cluster({self.name}: {self.devices} devices, {kinds})"


@lru_cache(maxsize=64)
def _core_network(text: str) -> Any:
    return _core.ClusterNetwork(text, "network")


def devices_of(count: str, place: str) -> int:
    """The number of devices after a cluster's name."""
    if not is_size(count) or not 0 < int(count) <= MOST_DEVICES:
        raise user_error("not a number of devices", place=place, value=f"'{count}'",
                         allowed=f"NAME:devices, devices a whole number from 1 to {MOST_DEVICES:,}")  # fmt: skip
    return int(count)


def cluster_of(name: str) -> str:
    """Returns the hint for a device name in place of a cluster: the clusters of this device."""
    if not is_shipped(name, "devices", ()):
        return ""
    names = [one for one in Cluster.names() if read_json(configs_dir() / "clusters" / f"{one}.json")["device"] == name]
    return f"{name} is a device. Clusters of it: {', '.join(names) or 'none'}"


@lru_cache(maxsize=64)
def _shipped(name: str, devices: int | None) -> Cluster:
    path = configs_dir() / "clusters" / f"{name}.json"
    names = Cluster.names()
    if name not in names:
        if os.path.isdir(name):
            raise user_error(
                "a cluster must be a file", place=name, value="a directory", allowed="a name, or a .json file"
            )
        hint = cluster_of(name) or nearest(name, names)
        if system_of(name):
            hint = f"{name} is a system of measured steps, which only steps and searches of layered workloads accept"
        raise user_error("unknown cluster", value=f"'{name}'", allowed=", ".join(names), suggestion=hint)
    return Cluster._from_data(read_json(path), devices)
