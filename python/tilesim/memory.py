"""DRAM by itself: parts, traces, and channels with their controller.

result = ts.memory.run(part="HBM2-2000", trace="tile_256B_pitch_4096B")
result.cycles, result.hits, result.mean_latency, result.bandwidth
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._dram_reference import is_reference_form, part_from_reference
from ._errors import user_error
from ._paths import configs_dir
from ._presets import preset_file
from .result import Table

__all__ = ["MemoryResult", "Part", "Trace", "run"]


class Part:
    """A DRAM part: organisation, timing, constraints and controller of one channel, with sources."""

    def __init__(self, core: _core.DramPart) -> None:
        """Wraps a part of the core; use `load`.

        Args:
            core: the compiled description.
        """
        self.core = core

    @classmethod
    def names(cls) -> list[str]:
        """The shipped parts.

        Returns:
            Their names, sorted.
        """
        return sorted(path.stem for path in (configs_dir() / "dram").glob("*.json"))

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] | Part) -> Part:
        """A part from a shipped name, a file, or a dict.

        Args:
            source: name, path of a `.json` file, or the file's content as a dict.

        Returns:
            The part, checked.

        Raises:
            UserError: for an unknown name or key, a missing or contradictory constraint, with its place.
        """
        if isinstance(source, Part):
            return source
        if isinstance(source, Mapping):
            content = part_from_reference(source) if is_reference_form(source) else dict(source)
            return cls(_core.DramPart.from_json(json.dumps(content), "dict"))
        return cls(_core.DramPart.read_file(preset_file(source, "dram", "DRAM part", cls.names())))

    @property
    def name(self) -> str:
        """Name of the part."""
        return self.core.name

    @property
    def standard(self) -> str:
        """The standard's short name."""
        return self.core.standard

    @property
    def description(self) -> str:
        """One line."""
        return self.core.description

    @property
    def burst_bytes(self) -> int:
        """Bytes of a burst, the smallest transfer."""
        return self.core.burst_bytes

    @property
    def clock_ps(self) -> int:
        """Picoseconds of a controller cycle."""
        return self.core.clock_ps

    @property
    def capacity_bytes(self) -> int:
        """Bytes of one channel."""
        return self.core.capacity_bytes

    @property
    def peak_bandwidth(self) -> float:
        """Bytes per second of one channel's data bus."""
        return self.core.bytes_per_second

    @property
    def sources(self) -> dict[str, str]:
        """Section of the file to where its numbers come from."""
        return dict(self.core.sources)

    def replace(self, controller: Mapping[str, Any]) -> Part:
        """A copy with another controller.

        Args:
            controller: settings as in a part's file: read_queue, write_queue (entries), write_high_watermark,
                write_low_watermark, page ("open", "closed", "timeout"), page_timeout (cycles), refresh ("all_bank",
                "per_bank", "none").

        Returns:
            The changed part.

        Raises:
            UserError: for an unknown setting or a value out of range.
        """
        return Part(self.core.with_controller(json.dumps(dict(controller))))

    def to_dict(self) -> dict[str, Any]:
        """The resolved part.

        Returns:
            The JSON form, which `load` reads back; every time is a number of cycles.
        """
        result: dict[str, Any] = json.loads(self.core.to_json())
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and copies by the JSON form."""
        return Part.load, (self.to_dict(),)

    def __repr__(self) -> str:
        """Name and description."""
        return f"<Part {self.name}: {self.description}>"


class Trace:
    """Requests of one burst each, in order."""

    def __init__(self, addresses: ArrayLike, writes: ArrayLike | None = None, cycles: ArrayLike | None = None) -> None:
        """Holds a trace.

        Args:
            addresses: byte addresses, shape [n], integers.
            writes: whether each is a write, shape [n]; none: all are reads.
            cycles: first cycle at which each may be offered, shape [n], not decreasing; none: by the run's period.

        Raises:
            UserError: for negative or fractional values, or shapes that differ.
        """
        self.addresses = _integers(addresses, "addresses", np.uint64)
        n = self.addresses.size
        self.writes = np.zeros(n, np.uint8) if writes is None else np.asarray(writes, dtype=bool).astype(np.uint8)
        self.cycles = _integers([] if cycles is None else cycles, "cycles", np.int64)
        for what, array in (("writes", self.writes), ("cycles", self.cycles)):
            if array.shape != (n,) and not (what == "cycles" and cycles is None):
                raise user_error("the arrays of a trace differ in shape", place=what, value=str(array.shape))
        if np.any(np.diff(self.cycles) < 0):
            raise user_error("the cycles of a trace run backwards", place="cycles")

    @classmethod
    def generate(cls, name: str, requests: int = 20000, burst_bytes: int = 32, span: int = 1 << 28) -> Trace:
        """A stream by its name.

        Args:
            name: sequential_read, sequential_write, copy_blocks_64KiB, tile_256B_pitch_4096B, stride_4KiB,
                two_streams_far, two_streams_1MiB, random_read, random_write, mixed_rand, mixed_small, mixed_seq, with
                any size in place of these.
            requests: how many.
            burst_bytes: bytes of each.
            span: bytes of the range that random streams and strides stay in.

        Returns:
            The trace.

        Raises:
            UserError: for an unknown name or a size that does not fit.
        """
        addresses, writes = _core.dram_trace(name, requests, burst_bytes, span)
        return cls(addresses, writes)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Trace:
        """A trace file: lines "R address [cycle]" or "W address [cycle]".

        Args:
            path: text file; addresses decimal or with 0x, # starts a comment.

        Returns:
            The trace.

        Raises:
            UserError: for a bad line, with its number, or a file that cannot be read.
        """
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise user_error("the trace cannot be read", place=os.fspath(path), value=str(error)) from None
        addresses, writes, cycles = _core.dram_parse_trace(text, os.fspath(path))
        return cls(addresses, writes, cycles if cycles.size else None)

    def __len__(self) -> int:
        """Number of requests."""
        return int(self.addresses.size)


def _integers(values: ArrayLike, what: str, dtype: type) -> NDArray[Any]:
    array = np.atleast_1d(np.asarray(values))
    if array.size and (array.dtype.kind not in "iu" or array.ndim != 1):
        raise user_error("a trace needs integers in one dimension", place=what, value=f"{array.dtype} {array.shape}")
    if array.size and array.dtype.kind == "i" and int(array.min()) < 0:
        index = int(np.argmax(array < 0))
        raise user_error("a negative number in a trace", place=f"{what}[{index}]", value=str(array[index]))
    return array.astype(dtype)


_ENERGIES = {"activate": "ACT", "read": "RD", "write": "WR"}
_REFRESHES = {"refresh_all": "REFab", "refresh_bank": "REFpb"}


class MemoryResult:
    """What a run of DRAM channels did."""

    def __init__(self, data: dict[str, Any], part: Part) -> None:
        """Wraps the outcome; made by `run`.

        Args:
            data: counters of the core.
            part: what was run.
        """
        self.data, self.part = data, part

    @property
    def cycles(self) -> int:
        """Cycles until every read has returned and every write is accepted."""
        return int(self.data["cycles"])

    @property
    def seconds(self) -> float:
        """The same in seconds."""
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
        """Number of reads answered by a waiting write."""
        return int(self.data["forwarded"])

    @property
    def merged(self) -> int:
        """Number of writes merged into a waiting one."""
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
        """Largest such number of cycles."""
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
        """Joules per kind (activate, read, write, refresh, background where the part states them) and their total.

        None where the part states no energies; `Part.sources["energy"]` says where they come from.
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
        """What the cache did; none: there was none.

        reads, writes, hits, misses (requests), merged (hits on a sector that was on its way), bypassed,
        fetched_bytes and written_bytes (between cache and memory), stalled_cycles, mean_latency and latency_max
        (cycles, of reads), dirty_bytes (left at the end), tensors (hits, misses and bypassed of each; "" is
        everything else).
        """
        data = self.data.get("cache")
        if data is None:
            return None
        return {**data, "mean_latency": data["latency_sum"] / data["reads"] if data["reads"] else 0.0}

    def histogram(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Latencies of reads.

        Returns:
            Lower edges in cycles (exact below 8, then eight to an octave) and counts, both of shape [bins]; empty bins
            are left out.
        """
        return np.asarray(self.data["latency_bins"], np.int64), np.asarray(self.data["latency_counts"], np.int64)

    def bank_activates(self) -> NDArray[np.int64]:
        """Row activations of each bank.

        Returns:
            Counts of shape [channels, banks].
        """
        return np.asarray([channel["bank_activates"] for channel in self.data["channels"]], np.int64)

    def table(self) -> Table:
        """Per channel.

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
        """The headline."""
        return (
            f"<{self.part.name}: {self.cycles:,} cycles, {self.bandwidth / 1e9:.2f} GB/s ({self.utilisation:.0%}), "
            f"{self.hits:,} hits, {self.misses:,} misses, {self.conflicts:,} conflicts, "
            f"read latency {self.mean_latency:.1f} cycles>"
        )


TraceLike = Trace | str | os.PathLike[str] | Sequence[int] | np.ndarray


def _trace(trace: TraceLike, requests: int, burst: int, span: int) -> tuple[Trace, bool]:
    """The trace, and whether it comes from a generator."""
    if isinstance(trace, Trace):
        return trace, False
    if isinstance(trace, (str, os.PathLike)):
        if isinstance(trace, os.PathLike) or "/" in trace or "." in trace or Path(trace).is_file():
            return Trace.read(trace), False
        return Trace.generate(trace, requests, burst, span), True
    return Trace(trace), False


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
        requests: of a generator, in all.
        span: of a generator, bytes.
        inject_every: request i of a channel is offered at cycle i times this at the earliest.
        channels: how many; addresses are spread over them.
        interleave_bytes: consecutive bytes on one channel.
        channel_hash: rotates the order of channels from round to round of the interleaving, so that strides spread:
            "none", "skew" (the same as True) or "ipoly".
        mapping: fields from the most to the least significant bit, such as "row bank bank_group pseudo_channel column
            offset"; empty: the part's.
        hashes: changes of fields by the row: {"field": "bank", "kind": "xor" or "ipoly"}; field "all": every
            level of banks together.
        controller: settings of the controller to replace (`Part.replace`).
        wrap: whether addresses beyond the capacity wrap; none: those of generators do.
        cache: a slice of a shared cache before each channel: sets, ways, line, sector (bytes), hit_cycles, ports
            (requests per cycle), mshrs (sectors being fetched), mshr_targets (requests that wait for one), write
            ("back" or "through"), write_allocate. Least recently used lines go first. What is left out has the default
            of `cpp/tilesim/engine/cache/tags.hpp`.
        tensors: name to (address, bytes); hits and misses of the cache are counted for each.
        resident: tensors that the cache keeps: if any is named, everything else passes by.

    Returns:
        Cycles, row hits, latencies, bandwidth.

    Raises:
        UserError: for an unknown part or trace, a request outside the memory, a mapping that does not cover the part.
    """
    target = Part.load(part)
    if controller is not None:
        target = target.replace(controller)
    unknown = sorted(set(resident) - set(tensors or {}))
    if unknown:
        allowed = ", ".join(tensors or {}) or "tensors given by their addresses"
        raise user_error("a resident tensor has no address", place="resident", value=unknown[0], allowed=allowed)
    if cache is None and (tensors or resident):
        raise user_error("tensors are counted by a cache", place="cache")
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
