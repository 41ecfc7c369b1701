"""Standalone DRAM simulation: parts, traces, channels and controllers.

result = ts.memory.run(part="HBM2-2000", trace="tile_256B_pitch_4096B")
result.cycles, result.hits, result.mean_latency, result.bandwidth
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from ..base.arguments import integer
from ..base.checked import checked, checked_class
from ..base.errors import user_error
from ..base.lazy import listed
from ..base.table import Tabled
from ..machine.dram_part import Part
from ..results.result import Table
from .dram_trace import Trace

__all__ = ["MemoryResult", "Part", "Trace", "run"]
__dir__ = listed(__all__)


_ENERGIES = {"activate": "ACT", "read": "RD", "write": "WR"}
_REFRESHES = {"refresh_all": "REFab", "refresh_bank": "REFpb"}


@checked_class()
class MemoryResult(Tabled):
    """Result of a run of DRAM channels."""

    def __init__(self, data: dict[str, Any], part: Part) -> None:
        """Wraps the statistics of the core; `run` calls it."""
        self.data, self.part = data, part

    @property
    def cycles(self) -> int:
        """Cycles until every read has returned and every write is accepted."""
        return int(self.data["cycles"])

    @property
    def seconds(self) -> float:
        """Duration of the run in seconds."""
        return self.cycles * self.part.clock_ps * 1e-12

    @property
    def reads(self) -> int:
        """Number of reads accepted."""
        return int(self.data["reads"])

    @property
    def writes(self) -> int:
        """Number of writes accepted."""
        return int(self.data["writes"])

    @property
    def hits(self) -> int:
        """Number of requests that found their row open."""
        return int(self.data["hits"])

    @property
    def misses(self) -> int:
        """Number of requests that found their bank closed."""
        return int(self.data["misses"])

    @property
    def conflicts(self) -> int:
        """Number of requests that found another row open."""
        return int(self.data["conflicts"])

    @property
    def forwarded(self) -> int:
        """Number of reads that take their data from a queued write."""
        return int(self.data["forwarded"])

    @property
    def merged(self) -> int:
        """Number of writes merged into a queued write to the same burst."""
        return int(self.data["merged"])

    @property
    def refreshes(self) -> int:
        """Number of refresh commands."""
        return int(self.data["commands"]["REFab"] + self.data["commands"]["REFpb"])

    @property
    def commands(self) -> dict[str, int]:
        """Number of commands issued, by name."""
        return dict(self.data["commands"])

    @property
    def mean_latency(self) -> float:
        """Mean cycles from the acceptance of a read to its data; 0 without reads."""
        return self.data["latency_sum"] / self.reads if self.reads else 0.0

    @property
    def max_latency(self) -> int:
        """Largest number of cycles from the acceptance of a read to its data."""
        return int(self.data["latency_max"])

    @property
    def bandwidth(self) -> float:
        """Bytes per second over the whole run."""
        return (self.reads + self.writes) * self.part.burst_bytes / self.seconds if self.cycles else 0.0

    @property
    def utilisation(self) -> float:
        """Fraction of the peak bandwidth of all channels."""
        return self.bandwidth / (self.part.peak_bandwidth * len(self.data["channels"]))

    @property
    def energy(self) -> dict[str, float] | None:
        """Energy in joules by kind (activate, read, write, refresh, background, where stated) and in total.

        None if the part states no energies. `Part.sources["energy"]` gives their source.
        """
        table = self.part.to_dict().get("energy")
        if table is None:
            return None
        joules = {key: float(value.split()[0]) * 1e-15 for key, value in table.items() if isinstance(value, str)}
        commands = self.commands
        parts = {kind: joules[kind] * commands[name] for kind, name in _ENERGIES.items() if kind in joules}
        refreshes = [joules[key] * commands[name] for key, name in _REFRESHES.items() if key in joules]
        if refreshes:
            parts["refresh"] = sum(refreshes)
        if "background_microwatts" in table:
            parts["background"] = table["background_microwatts"] * 1e-6 * self.seconds * len(self.data["channels"])
        return {**parts, "total": sum(parts.values())}

    @property
    def cache(self) -> dict[str, Any] | None:
        """Counts of the cache; None without a cache.

        Keys: reads, writes, hits, misses (requests), merged (hits on a sector in flight), bypassed,
        fetched_bytes and written_bytes (between cache and memory), stalled_cycles, mean_latency and latency_max
        (read latencies in cycles), dirty_bytes (at the end), tensors (hits, misses, bypassed by name; "" for
        all other addresses).
        """
        data = self.data.get("cache")
        if data is None:
            return None
        return {**data, "mean_latency": data["latency_sum"] / data["reads"] if data["reads"] else 0.0}

    def histogram(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Latencies of reads.

        Returns:
            Lower edges in cycles (width 1 below 8, then eight per octave) and counts, both of shape [bins]; empty bins
            are omitted.
        """
        return np.asarray(self.data["latency_bins"], np.int64), np.asarray(self.data["latency_counts"], np.int64)

    def bank_activates(self) -> NDArray[np.int64]:
        """Row activations of each bank.

        Returns:
            Counts of shape [channels, banks].
        """
        return np.asarray([channel["bank_activates"] for channel in self.data["channels"]], np.int64)

    def table(self) -> Table:
        """Tabulates the statistics by channel.

        Returns:
            Rows with channel, cycles, reads, writes, hits, misses, conflicts, mean and maximum latency (cycles).
        """
        rows = []
        for index, channel in enumerate(self.data["channels"]):
            one = MemoryResult({**channel, "channels": [channel]}, self.part)
            keys = ("cycles", "reads", "writes", "hits", "misses", "conflicts", "mean_latency", "max_latency")
            rows.append({"channel": index, **{key: getattr(one, key) for key in keys}})
        return Table(rows)

    def __repr__(self) -> str:
        """Name, cycles, bandwidth, row hits and read latency."""
        return (
            f"<{self.part.name}: {self.cycles:,} cycles, {self.bandwidth / 1e9:.2f} GB/s ({self.utilisation:.0%}), "
            f"{self.hits:,} hits, {self.misses:,} misses, {self.conflicts:,} conflicts, "
            f"read latency {self.mean_latency:.1f} cycles>"
        )


TraceLike = Trace | str | os.PathLike[str] | Sequence[int] | np.ndarray


def _trace(trace: TraceLike, requests: int, burst: int, span: int) -> tuple[Trace, bool]:
    """Returns the trace, and whether a generator produced it."""
    if isinstance(trace, Trace):
        return trace, False
    if isinstance(trace, (str, os.PathLike)):
        if isinstance(trace, os.PathLike) or "/" in trace or "." in trace or os.path.isfile(trace):
            return Trace.read(trace), False
        return Trace.generate(trace, requests, burst, span), True
    return Trace(trace), False


@checked("part")
def run(
    part: str | os.PathLike[str] | Mapping[str, Any] | Part = "HBM2-2000",
    trace: TraceLike = "sequential_read",
    *,
    requests: int = 20000,
    span: int = 1 << 28,
    inject_every: int = 1,
    channels: int = 1,
    interleave_bytes: int = 256,
    channel_hash: str | bool = False,
    mapping: str = "",
    hashes: Sequence[Mapping[str, str]] = (),
    controller: Mapping[str, Any] | None = None,
    wrap: bool | None = None,
    cache: Mapping[str, Any] | None = None,
    tensors: Mapping[str, tuple[int, int]] | None = None,
    resident: Sequence[str] = (),
) -> MemoryResult:
    """Runs a trace until every read has returned and every write is accepted.

    Args:
        part: shipped part, file, dict or Part.
        trace: generator's name (`Trace.generate`), trace file, Trace, or byte addresses of reads.
        requests: number of requests of a generated trace.
        span: bytes of the address range of a generated trace.
        inject_every: cycles between requests: request i of a channel arrives at cycle i * inject_every or later.
        channels: number of channels; addresses interleave over them.
        interleave_bytes: consecutive bytes on one channel.
        channel_hash: permutes the channels in each round of the interleaving, so that strides use all channels:
            "none", "skew" (the same as True) or "ipoly".
        mapping: fields from the most to the least significant bit, such as "row bank bank_group pseudo_channel column
            offset"; empty: the mapping of the part.
        hashes: hash address fields with the row: {"field": "bank", "kind": "xor" or "ipoly"}; field "all": all
            bank levels together.
        controller: settings of the controller to replace (`Part.replace`).
        wrap: whether addresses beyond the capacity wrap; by default only for generated traces.
        cache: a slice of a shared cache before each channel: sets, ways, line, sector (bytes), hit_cycles, ports
            (requests per cycle), mshrs (sectors in flight), mshr_targets (requests that wait per sector), write
            ("back" or "through"), write_allocate. Least recently used lines are evicted first. Defaults are in
             `cpp/tilesim/engine/cache/tags.hpp`.
        tensors: name to (address, bytes); hits and misses of the cache are counted for each.
        resident: tensors that use the cache; if any is named, all others bypass it.

    Returns:
        Cycles, row hits, latencies, bandwidth.

    Raises:
        UserError: for an unknown part or trace, a request outside the memory, a mapping that does not cover the part.
    """
    target = Part.load(part)
    requests, span = integer("requests", requests, 0), integer("span", span)
    inject_every = integer("inject_every", inject_every, most=1 << 20)
    channels, interleave_bytes = integer("channels", channels, most=4096), integer("interleave_bytes", interleave_bytes)
    if controller is not None:
        target = target.replace(controller)
    unknown = sorted(set(resident) - set(tensors or {}))
    if unknown:
        allowed = ", ".join(tensors or {}) or "tensors with addresses (tensors=)"
        raise user_error("a resident tensor without an address", place="resident", value=unknown[0], allowed=allowed)
    if cache is None and (tensors or resident):
        raise user_error("tensors are given without a cache", place="cache")
    regions = [
        {"name": name, "address": address, "bytes": size, "resident": name in resident}
        for name, (address, size) in (tensors or {}).items()
    ]
    stream, generated = _trace(trace, requests, target.burst_bytes, span)
    data = _core.dram_run(
        target.core,
        stream.addresses,
        stream.writes,
        stream.cycles,
        inject_every,
        channels,
        interleave_bytes,
        ("skew" if channel_hash else "none") if isinstance(channel_hash, bool) else channel_hash,
        mapping,
        json.dumps([dict(hash) for hash in hashes]),
        generated if wrap is None else wrap,
        "" if cache is None else json.dumps(dict(cache)),
        json.dumps(regions),
    )
    return MemoryResult(data, target)
