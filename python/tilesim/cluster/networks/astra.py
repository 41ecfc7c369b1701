"""Reads ASTRA-sim files: networks of its analytical back end, and systems.

Sources: comments in the project's inputs (bandwidth in GB/s and latency in ns, of a link and direction) and the keys
that astra-sim/system/Sys.cc reads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import listed, nearest, path_text, shown, user_error
from ...base.files import read_json, read_yaml

__all__ = ["AstraSystem", "computed", "network_of", "system_of"]

_NETWORK = ("topology", "npus_count", "bandwidth", "latency")
_KINDS = {"Ring": "ring", "FullyConnected": "full", "Switch": "switch"}
_OPERATIONS = {"all-reduce": "all_reduce", "all-gather": "all_gather", "reduce-scatter": "reduce_scatter",
               "all-to-all": "all_to_all"}  # fmt: skip
_ALGORITHMS = {"ring": "ring", "direct": "direct", "halvingDoubling": "halving-doubling", "doubleBinaryTree": "tree"}
_UNSPLIT = {"oneRing": "ring", "oneDirect": "direct", "oneHalvingDoubling": "halving-doubling"}
_ROOFLINE = ("roofline-enabled", "peak-perf", "local-mem-bw")
_READ = (*(f"{name}-implementation" for name in _OPERATIONS), *_ROOFLINE)
_UNREAD = ("scheduling-policy", "collective-optimization", "endpoint-delay", "active-chunks-per-dimension",
           "preferred-dataset-splits", "local-reduction-delay", "model-shared-bus", "replay-only", "trace-enabled",
           "boost-mode", "track-local-mem", "local-mem-trace-filename", "L", "o", "g", "G")  # fmt: skip


def network_of(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a network file of the analytical back end (`.yml`); returns the content of a cluster file."""
    name = path_text(path)
    data = read_yaml(name)
    if not isinstance(data, Mapping) or "topology" not in data:
        raise user_error("not a network file of ASTRA-sim", place=name, allowed=", ".join(_NETWORK))
    for key in data:
        if key not in _NETWORK:
            raise user_error("unknown key", place=name, value=shown(key), allowed=", ".join(_NETWORK),
                             suggestion=nearest(str(key), _NETWORK))  # fmt: skip
    rows: dict[str, list[Any]] = {}
    for key in _NETWORK:
        given = data.get(key)
        rows[key] = given if isinstance(given, list) else [given]
    if len({len(row) for row in rows.values()}) != 1 or not rows["topology"]:
        value = ", ".join(f"{key} {len(row)}" for key, row in rows.items())
        raise user_error(
            "lists have different lengths or are empty", place=name, value=value, allowed="one entry per dimension"
        )
    network = []
    for number, (kind, size, rate, latency) in enumerate(zip(*rows.values(), strict=True)):
        if not isinstance(kind, str) or kind not in _KINDS:
            raise user_error("unknown topology", place=f"{name}: topology[{number}]", value=shown(kind),
                             allowed=", ".join(_KINDS), suggestion=nearest(str(kind), _KINDS))  # fmt: skip
        size = _number(size, 1, 1 << 24, f"{name}: npus_count[{number}]", whole=True)
        rate = _number(rate, 1e-6, 1e9, f"{name}: bandwidth[{number}]")
        latency = _number(latency, 0, 1e12, f"{name}: latency[{number}]") * (2 if kind == "Switch" else 1)
        network.append({"kind": _KINDS[kind], "size": int(size), "bandwidth_bytes_per_second": rate * 1e9,
                        "latency_seconds": latency * 1e-9})  # fmt: skip
    file = os.path.basename(name)
    sources = {"network": f"{file}; a GB is 10^9 bytes here and 2^30 bytes in ASTRA-sim"}
    return {"name": os.path.splitext(file)[0], "description": f"ASTRA-sim network, {file}", "network": network,
            "sources": sources}  # fmt: skip


def _number(value: Any, least: float, most: float, place: str, whole: bool = False) -> float:
    good = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not good or not least <= value <= most or not math.isfinite(value):
        raise user_error("not a number in the range", place=place, value=shown(value), allowed=f"{least} to {most}")
    return float(value)


@dataclass(frozen=True)
class AstraSystem:
    """Content of a system file: an algorithm for each collective, a device's rates if compute follows a roofline
    (operations and bytes per second; None: recorded times), and keys that Tilesim does not read."""

    algorithms: dict[str, str]
    flops_per_second: float | None = None
    bytes_per_second: float | None = None
    notes: list[str] = field(default_factory=list)


def system_of(path: str | os.PathLike[str]) -> AstraSystem:
    """Reads a system file (`.json`)."""
    name = path_text(path)
    data = read_json(name)
    if not isinstance(data, Mapping):
        raise user_error("not a system file of ASTRA-sim", place=name, value=shown(data), allowed="an object")
    absent = [key for key in _READ if key not in data]
    for key in data:
        if key not in _READ and key not in _UNREAD and (near := nearest(key, (*_UNREAD, *absent))):
            raise user_error("unknown key", place=name, value=shown(key), suggestion=near)
    notes = [f"{os.path.basename(name)}: ignored keys: {listed([key for key in data if key not in _READ], 40)}"]
    found = {}
    for word, op in _OPERATIONS.items():
        key = f"{word}-implementation"
        if key in data:
            found[op] = _algorithm(data[key], f"{name}: {key}", notes)
    notes = notes if any(key not in _READ for key in data) else notes[1:]
    if not data.get("roofline-enabled"):
        return AstraSystem(found, notes=notes)
    peak, memory = (_number(data.get(key), 1e-6, 1e9, f"{name}: {key}") for key in ("peak-perf", "local-mem-bw"))
    return AstraSystem(found, peak * 1e12, memory * 1e9, notes)


def _algorithm(given: Any, place: str, notes: list[str]) -> str:
    """Returns Tilesim's name for a collective's algorithms, one per dimension in the file."""
    known = {**_ALGORITHMS, **_UNSPLIT}
    words = given if isinstance(given, list) and given else [given]
    plain = [word.rstrip("0123456789") if isinstance(word, str) else word for word in words]  # direct4: a window of 4
    for word in plain:
        if not isinstance(word, str) or word not in known:
            raise user_error("unknown algorithm", place=place, value=shown(word), allowed=", ".join(known),
                             suggestion=nearest(str(word), known))  # fmt: skip
    if plain != words:
        notes.append(f"{place}: ignored windows of direct")
    if len(words) == 1 or plain[0] in _UNSPLIT:
        return known[plain[0]]
    notes.append(f"{place}: {listed(plain)}: algorithm 'hierarchical' selects one per dimension")
    return "hierarchical"


def computed(attributes: Mapping[str, Any], system: AstraSystem) -> int | None:
    """Returns a compute node's picoseconds by a system's roofline; None if its recorded time counts."""
    if system.flops_per_second is None or system.bytes_per_second is None or "num_ops" not in attributes:
        return None
    ops, size = (_value(attributes.get(key, 0)) for key in ("num_ops", "tensor_size"))
    return math.ceil(1e12 * max(ops / system.flops_per_second, size / system.bytes_per_second))


def _value(attribute: Any) -> float:
    found = attribute[1] if isinstance(attribute, tuple) else attribute
    return float(found) if isinstance(found, (int, float)) else 0.0
