"""Computes peak rates of a result's machine, per cycle of its core clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _core

__all__ = ["Rates"]


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merges a core type's settings into the base settings."""
    found = dict(base)
    for key, value in changes.items():
        own = found.get(key)
        found[key] = _merged(own, value) if isinstance(value, Mapping) and isinstance(own, Mapping) else value
    return found


class Rates:
    """Peaks of all cores together: `multiply_adds` by dtype, `vector` operations, and bytes per cycle.

    Byte rates: `memory`, `port` (sum of the core ports, each the narrower of DMA and network) and `links` between
    memory regions (0 with one region).

    Arrays count all their cells at the dtype's rate, twice with 2:4 sparsity; vector units count all lanes at the cost
    of their cheapest function class. Memory counts its attainable bandwidth: the peak times `memory.efficiency`, or the
    peak where banks are simulated; 0 if ideal.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        """Reads the configuration of a result."""
        settings = data["configuration"]
        self.hertz = int(data["hertz"])
        self.by_dtype: dict[str, float] = {}
        if "device" in settings:  # the result is an estimate
            self._device(settings["device"])
            return
        core = settings["core"]
        self.kinds = [
            (int(sort["count"]), _merged(core, sort.get("core", {}))) for sort in settings.get("cores", ())
        ] or [(int(core["count"]), core)]
        self.cores = sum(count for count, _ in self.kinds)
        self.arrays = max(int(one["array"]["count"]) for _, one in self.kinds)
        names = {name for _, one in self.kinds for name in one["array"]["rates"]}
        self.by_dtype = {name: sum(count * _cells(one, name) for count, one in self.kinds) for name in names}
        self.vector = sum(count * _lanes(one["vector"]) for count, one in self.kinds)
        self.memory = self._memory(data, settings)
        network, dma = settings["network"], core["dma"]
        clock = _core.parse_frequency(str(network["clock"])) / self.hertz
        queues = max(int(dma["load_queues"]), int(dma["store_queues"]))
        self.port = self.cores * float(min(dma["bytes_per_cycle"] * queues, network["port_bytes_per_cycle"] * clock))
        regions = int(settings["memory"]["regions"])
        self.links = float(regions * network["region_bytes_per_cycle"]) * clock if regions > 1 else 0.0

    def _device(self, device: Mapping[str, Any]) -> None:
        self.cores = self.arrays = 1
        self.port = self.links = 0.0
        per_cycle = 1 / self.hertz
        matrix = {name: rate["flops_per_second"] for name, rate in device["matrix"].items()}
        self.by_dtype = {name: flops / 2 * per_cycle for name, flops in matrix.items()}
        vector = [rate["flops_per_second"] for rate in device["vector"].values()]
        self.vector = max(vector, default=0.0) * per_cycle
        self.memory = device["levels"][-1]["bytes_per_second"] * per_cycle

    def _memory(self, data: Mapping[str, Any], settings: Mapping[str, Any]) -> float:
        kind = str(data.get("fidelity", {}).get("memory") or settings["memory"]["kind"])
        if kind == "ideal":
            return 0.0
        bounds = data.get("bounds") or {}
        if bounds.get("memory_seconds", 0) > 0 and bounds.get("bytes", 0) > 0:
            return float(bounds["bytes"] / bounds["memory_seconds"] / self.hertz)
        peak = float(_core.parse_bandwidth(str(settings["memory"]["bandwidth"])) or 0) / self.hertz
        return peak if kind == "bank" else peak * float(settings["memory"]["efficiency"])

    def multiply_adds(self, dtype: str = "") -> float:
        """Returns multiply-adds per cycle in this dtype, or in the fastest dtype if it is unknown."""
        return float(self.by_dtype.get(dtype) or max(self.by_dtype.values(), default=0.0))


def _cells(core: Mapping[str, Any], dtype: str) -> float:
    """Returns multiply-adds per cycle of the arrays of one core."""
    array = core["array"]
    cells = array["sparse"]["multipliers"] or array["rows"] * array["columns"]
    pattern = 2 if array.get("pattern", "none") != "none" else 1
    return float(array["count"] * cells * pattern * array["rates"].get(dtype, 0.0))


def _lanes(vector: Mapping[str, Any]) -> float:
    """Operations per cycle of the vector unit of one core."""
    cheapest = min(float(vector[name]) for name in ("simple", "multiply", "divide", "transcendental"))
    packed = 4 if vector["packs_narrow"] else 1
    return float(vector["lanes"] * vector["sublanes"] * vector["issue"] * packed / max(1e-3, cheapest))
