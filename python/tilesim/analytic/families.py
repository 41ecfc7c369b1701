"""Device families: kernels of their libraries and fitted constants, each with its provenance."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..base.errors import unknown, user_error
from ..base.files import read_json
from ..base.kinds import as_kind
from ..base.paths import configs_dir

__all__ = ["Entry", "Family", "Protocol", "family", "pack_keys", "protocol", "row_key", "unpack_keys"]

MAX_ROWS = 1 << 22  # most keys of fitted rows, because a small compressed text could expand to gigabytes


@dataclass(frozen=True)
class Protocol:
    """Measurement protocol of a source: cache state, kernel launches, clock, statistic.

    `weight_sets`: number of distinct weights of repeated calls; -n means as many as fill the cache, at most
    n.
    """

    name: str
    weight_sets: float = 1.0
    cache: str = "warm"
    launch: str = "stream"
    clock: str = "boost"
    statistic: str = "mean"
    source: str = ""
    single: tuple[str, ...] = ()  # schemes measured on one set of weights
    casts: int = 1  # kernels per cast: one with a known scale, three with a computed scale
    packs: bool = False  # whether each call rearranges the weights
    packs_beyond: float = 0.0  # multiply-adds up to which products do not rearrange the weights
    # (family, scheme, seconds): host time per call without a captured graph, overlapped with earlier calls
    eager: tuple[tuple[str, str, float], ...] = ()
    calls: float = 1000.0  # consecutive calls including warm-up; they determine the power limit

    def sets_of(self, scheme: str) -> float:
        """Returns the number of distinct weights that repeated calls of a scheme read."""
        return 1.0 if scheme in self.single else self.weight_sets

    def host_of(self, family: str, scheme: str) -> float:
        """Returns the host's seconds per call of a scheme on a family's devices; 0 with a captured graph."""
        return next((seconds for of, name, seconds in self.eager if (of, name) == (family, scheme)), 0.0)


_GRAPH, _STREAM = ("warm", "graph", "unknown"), ("warm", "stream", "boost")
_CALL, _QUARTILE = ("warm", "call", "sustained"), ("lower quartile", "tilesim measure cpu")
_PROTOCOLS = [
    Protocol("TensorRT-LLM", -5, *_GRAPH, "mean of 6 after 3", "AIConfigurator collector, trtllm", casts=3, calls=9),
    Protocol(
        "vLLM", 6, *_GRAPH, "mean of 6 after 3", "AIConfigurator collector, vllm", ("nvfp4",),
        # Assumption, no measurement: 25 us for vLLM's layer and PyTorch's dispatch to XPU. A bf16 product builds its
        # primitive again on each call (PyTorch PR 180209: 6 us); fp8 weights find it in a cache.
        eager=(("xe2", "bf16", 31e-6), ("xe2", "fp8", 25e-6)), calls=9,
    ),
    Protocol("DeepBench", 1, *_STREAM, "mean", "DeepBench, CUDA 10.1"),
    *(Protocol(f"NeuSight{part}", 1, *_STREAM, "5 fastest of 25", "NeuSight artifact", calls=25)
      for part in ("-linear", "-bmm", "")),
    Protocol("mlsim", 1, "warm", "stream", "capped", "mean of 100 after 20", "mlsim results table"),
    # OpenBLAS multiplies up to 100 cubed without packing where it has AVX-512 (its small-matrix kernels)
    Protocol("numpy", 1, *_CALL, *_QUARTILE, packs=True, packs_beyond=1e6),
    Protocol("torch-plain", 1, *_CALL, *_QUARTILE, packs=True),
    Protocol("torch-packed", 1, *_CALL, *_QUARTILE),
    Protocol("library", 6, "warm", "graph", "sustained", "mean", "layers of a model: each call has other weights",
             calls=9),
]  # fmt: skip


def protocol(name: str) -> Protocol:
    """Returns the protocol of an engine or source; the default protocol for unknown names."""
    for row in _PROTOCOLS:
        if row.name.lower() == name.strip().lower():
            return row
    return _PROTOCOLS[-1]


def protocol_names() -> list[str]:
    """Returns the names of the known engines and sources."""
    return [row.name for row in _PROTOCOLS]


@dataclass(frozen=True)
class Entry:
    """Constants and kernels of one operation with one scheme, and the provenance of each constant."""

    operation: str
    scheme: str
    engine: str = ""
    source: str = ""
    device: str = ""
    constants: Mapping[str, float] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    kernels: str = "library"
    rows: int = 0
    fit_error: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    unit_flops_per_cycle: float = 0.0  # unit rate of the measured device; 0 if constants hold for the family

    def to_dict(self) -> dict[str, Any]:
        """Converts to the JSON form.

        Returns:
            A dict with operation, scheme and all nonempty fields.
        """
        data = {key: value for key, value in self.__dict__.items() if value or key in ("operation", "scheme")}
        return {key: dict(value) if isinstance(value, Mapping) else value for key, value in data.items()}


@dataclass(frozen=True)
class Family:
    """Properties that the devices of one family share."""

    name: str
    like: str
    entries: tuple[Entry, ...]
    fitted_rows: frozenset[int]
    note: str = ""

    def find(self, operation: str, scheme: str, engine: str = "") -> Entry | None:
        """Finds the entry of an operation and scheme; prefers an entry of the given engine."""
        found = [entry for entry in self.entries if entry.operation == operation and entry.scheme == scheme]
        same = [entry for entry in found if entry.engine.lower() == engine.strip().lower()]
        return next(iter(same or found), None)


@cache
def _shipped() -> dict[str, Path]:
    """Returns the shipped family files by name; device files refer to these names."""
    return {path.stem: path for path in (configs_dir() / "families").glob("*.json")}


@cache
def family(name: str) -> Family:
    """Loads a family by name."""
    path = _shipped().get(name)
    if path is None:
        return Family(name, "", (), frozenset())
    data = read_json(path, "tilesim.family")
    entries = tuple(entry_from(row, f"{path}: entries[{i}]") for i, row in enumerate(data.get("entries", [])))
    rows = unpack_keys(data.get("fitted_rows", ""), str(path))
    return Family(name, data.get("like", ""), entries, rows, data.get("note", ""))


_KINDS: dict[str, Any] = {"constants": {str: float}, "provenance": {str: str}, "fit_error": {str: float}, "rows": int,
                          "unit_flops_per_cycle": float}  # fmt: skip


def entry_from(row: Mapping[str, Any], place: str) -> Entry:
    """Reads an entry from its JSON form; raises UserError for an unknown or missing key or a value of a wrong type."""
    keys = list(Entry.__dataclass_fields__)
    for key, value in as_kind(row, dict, place).items():
        if key not in keys:
            raise unknown("key", key, keys, place=place)
        as_kind(value, _KINDS.get(key, str), f"{place}.{key}")
    for key in ("operation", "scheme"):
        if key not in row:
            raise user_error("missing key", place=place, value=repr(key))
    return Entry(**row)


def row_key(values: Iterable[Any]) -> int:
    """Computes a 32-bit key of a measured row; rows with equal cells have equal keys."""
    text = "|".join(_cell(value) for value in values)
    return zlib.crc32(text.encode())


def _cell(value: Any) -> str:
    try:
        return f"{float(value):.9g}"
    except (TypeError, ValueError, OverflowError):
        return str(value or "").strip().lower()


def pack_keys(keys: Iterable[int]) -> str:
    """Encodes sorted 32-bit keys as text."""
    ordered = sorted(set(keys))
    return base64.b64encode(zlib.compress(struct.pack(f"<{len(ordered)}I", *ordered), 9)).decode()


def unpack_keys(text: str, place: str = "fitted_rows") -> frozenset[int]:
    """Decodes the text of `pack_keys`; raises UserError for other texts and for more than MAX_ROWS keys."""
    if not text:
        return frozenset()
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), 4 * MAX_ROWS)
        if not reader.eof or len(data) % 4:
            raise ValueError(f"cut off, or more than {MAX_ROWS} rows")
    except (TypeError, ValueError, zlib.error) as error:
        raise user_error("the keys of fitted rows are damaged", place=place, value=str(error)[:100]) from None
    return frozenset(struct.unpack(f"<{len(data) // 4}I", data))
