"""Estimates collectives on the network of a cluster."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from .. import _core
from ..base.arguments import dtype_name, integer, one_of, unused
from ..base.checked import checked, is_iterable
from ..base.errors import path_text, placed, shown, user_error
from .algorithms import algorithm as own_algorithm
from .algorithms import check_name
from .cluster import Cluster
from .networks import forms, in_network
from .networks.contention import chosen, met
from .views.text import collective_text

__all__ = ["OPERATIONS", "CollectiveResult", "collective", "collectives"]

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_devices", "broadcast_devices")
MODELS = ("closed", "chunks", "flows")
MOST_BYTES = 1 << 46


@dataclass(frozen=True)
class CollectiveResult:
    """One collective: its completion time and traffic.

    `bytes` is the larger of a device's input and output; `bytes_in`, `bytes_out` and `wire_bytes` are per device.
    `model` is the network model: closed, chunks, flows, library (chunks if no formula exists). `exact`: no link is
    shared and the closed form equals chunks; otherwise `messages` were simulated as in chunks, or the time is an
    estimate (0 messages). `classes`: simulated devices per group. `pieces`: given, or chosen by auto for levels; 0:
    the algorithm's default.
    """

    op: str
    seconds: float
    picoseconds: int
    algorithm: str
    model: str
    bytes: int
    bytes_in: float
    bytes_out: float
    wire_bytes: float
    devices: int
    groups: int = 1
    classes: int = 1
    messages: int = 0
    exact: bool = True
    dtype: str = "bf16"
    library: str | None = None
    pieces: int = 0

    def headline(self, each: str = "") -> str:
        """Describes operation, time, model, library costs and exactness.

        Args:
            each: the number of devices in words.

        Returns:
            One line of text.
        """
        return collective_text(self, each)

    def __repr__(self) -> str:
        return f"<CollectiveResult {self.headline()}>"

    @property
    def bus_bytes_per_second(self) -> float:
        """Bytes sent per device and second, to compare with its link rate."""
        return self.wire_bytes / self.seconds if self.seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields and `bus_bytes_per_second` to JSON values.

        Returns:
            A dict for JSON.
        """
        return {**asdict(self), "bus_bytes_per_second": self.bus_bytes_per_second}


@checked("bytes")
def collective(
    op: str,
    bytes: int | str,
    cluster: Cluster | str,
    devices: Any = None,
    dtype: str = "bf16",
    algorithm: Any = "auto",
    network_model: str = "closed",
    library: Any = None,
    symmetry: bool = True,
    *,
    root: int = 0,
    pairs: Sequence[tuple[int, int]] | None = None,
    rings: int | None = None,
    pieces: int | None = None,
) -> CollectiveResult:
    """Estimates the time of one collective.

    Args:
        op: all_reduce, all_gather, reduce_scatter, all_to_all, permute_devices, broadcast_devices.
        bytes: the larger of a device's input and output (the result of a gather, the input of a scatter): a number or a
            string ("1 GiB").
        cluster: a Cluster, or a source for `Cluster.load`.
        devices: a number (the first devices), a list of devices, or a list of concurrent groups; all by default.
        dtype: element type, which a library may use.
        algorithm: auto (the fastest under `closed` among algorithms that are quick to evaluate), ring, tree,
            halving-doubling, bruck, direct, torus, hierarchical, in-network (reduction in switches with `reduces`; only
            closed); or a custom one of `ts.cluster.algorithm`.
        network_model: closed (formulas), chunks (message by message), flows (max-min fair sharing of links).
        library: a communication library or its name ("nccl"), which selects the algorithm and has its own cost model
            (algorithm "auto", model "closed"); default: only the network, a lower bound for every library.
        symmetry: whether to simulate one device per class of equal devices, which gives the same picoseconds.
        root: position of the broadcasting device.
        pairs: (source, target) positions of permute_devices; default: to the next position.
        rings: number of directed rings; default: both directions on bidirectional links; for a group in several nodes
            the smallest number of members in a node, so that each ring enters a node at another member.
        pieces: pipelined parts of a tree, a broadcast, or the levels of `hierarchical` and `torus`; default: by bytes
            and latency, but 1 for levels (1 to 64 with auto).

    Returns:
        The result.

    Raises:
        UserError: for an unknown name, bytes or devices out of range, overlapping groups, or an algorithm that is
            incorrect (checked on sets) or does not support the number of devices.
    """
    target = Cluster.load(cluster)
    groups = _groups(devices, target)
    size = _bytes(bytes)
    one_of("unknown collective operation", "op", op, *OPERATIONS)
    check_name(algorithm)
    dtype = dtype_name(dtype)
    if library is not None:
        for name, given, only in (("network_model", network_model, "closed"), ("algorithm", algorithm, "auto")):
            if given != only:
                raise user_error("a library selects the algorithm and has its own cost model", place=name,
                                 value=shown(given), allowed=f"'{only}', or no library")  # fmt: skip
        unused(
            "a library selects its rings and pieces", "none, or no library", rings=(rings, None), pieces=(pieces, None)
        )
    options = {"root": root, "pairs": pairs, "rings": rings, "pieces": pieces}
    if library is not None:
        return _library_time([request(op, size, group, "auto", options) for group in groups], target, dtype, library)
    if isinstance(algorithm, str) and algorithm == in_network.NAME:
        _unused(op, algorithm, options)
        return _by_switch(op, size, target, groups, dtype, network_model, root)
    requests = [request(op, size, group, algorithm, options) for group in groups]
    one_of("unknown network model", "network_model", network_model, *MODELS)
    if network_model != "closed":  # all groups share links, so they use the algorithm that is fastest for all
        requests = list(chosen(target, requests))
    answers = _priced(target, requests, network_model, symmetry)
    if network_model == "closed":
        answers = met(target, requests, answers)
    slowest = max(answers, key=lambda answer: answer["picoseconds"])
    found = _result(op, size, groups, dtype, slowest, _sent_pairs(requests[0]))
    automatic = isinstance(algorithm, str) and algorithm == "auto" and network_model == "closed"
    if automatic and _sums_sooner(found, target, groups, root):
        return _by_switch(op, size, target, groups, dtype, network_model, root)
    return found


def _bytes_of(dtype: str) -> int:
    return -(-_core.dtype_bits(dtype_name(dtype)) // 8)


def _sums_sooner(result: CollectiveResult, cluster: Cluster, groups: list[list[int]], root: int) -> bool:
    """Whether in-network reduction is faster than the closed form `result`."""
    if not any(one.reduces for one in cluster.dimensions):
        return False
    asked = (result.op, result.bytes, cluster)
    others = [forms.priced_by_switch(*asked, group, _bytes_of(result.dtype), root) for group in groups]
    times = [one["picoseconds"] for one in others if one is not None]
    return len(times) == len(groups) and max(times) < result.picoseconds


def _by_switch(
    op: str, size: int, cluster: Cluster, groups: list[list[int]], dtype: str, network_model: str, root: int
) -> CollectiveResult:
    """Times in-network reduction of groups that use separate ports."""
    one_of("unknown network model", "network_model", network_model, *MODELS)
    if network_model != "closed":
        raise user_error(
            "in-network reduction has only a closed form", place="network_model", value=network_model, allowed="closed"
        )
    answers = []
    for group in groups:
        integer("root", root, 0, len(group) - 1)
        answer = forms.priced_by_switch(op, size, cluster, group, _bytes_of(dtype), root)
        if answer is None and len(group) > 1:
            raise forms.unsupported(op, cluster, dtype)
        answers.append(answer or {"picoseconds": 0, "algorithm": in_network.NAME, "model": "closed", "exact": True,
                                  "classes": 1, "messages": 0, "share": 0.0})  # fmt: skip
    slowest = max(answers, key=lambda one: one["picoseconds"])
    found = _result(op, size, groups, dtype, slowest, False)
    # each device sends its part once, and the switch replicates it
    return replace(found, wire_bytes=slowest["share"] * size)


@checked()
def collectives(
    requests: Iterable[Any],
    cluster: Cluster | str,
    devices: Any = None,
    dtype: str = "bf16",
    algorithm: Any = "auto",
    network_model: str = "flows",
    symmetry: bool = True,
) -> list[CollectiveResult]:
    """Estimates concurrent collectives that share links.

    Args:
        requests: (op, bytes) or (op, bytes, devices) each, or dicts with the arguments of `collective`.
        cluster: a Cluster, or a source for `Cluster.load`.
        devices: devices of requests without devices.
        dtype: element type.
        algorithm: algorithm of requests without an algorithm.
        network_model: flows, or chunks (messages in order of readiness); closed estimates each separately.
        symmetry: whether to simulate one device per class of equal devices if all requests allow it.

    Returns:
        One result per request.

    Raises:
        UserError: as for `collective`.
    """
    target, dtype = Cluster.load(cluster), dtype_name(dtype)
    built: list[dict[str, Any]] = []
    spans: list[tuple[str, int, list[list[int]], slice]] = []
    for item in requests:
        asked = _request(item)
        groups = _groups(asked.get("devices", devices), target)
        size = _bytes(asked["bytes"])
        one_of("unknown collective operation", "op", asked["op"], *OPERATIONS)
        chosen = asked.get("algorithm", algorithm)
        start = len(built)
        built += [request(asked["op"], size, group, chosen, asked) for group in groups]
        spans.append((asked["op"], size, groups, slice(start, len(built))))
    answers = _priced(target, built, network_model, symmetry) if built else []
    results = []
    for op, size, groups, part in spans:
        slowest = max(answers[part], key=lambda answer: answer["picoseconds"])
        results.append(_result(op, size, groups, dtype, slowest, _sent_pairs(built[part.start])))
    return results


def _request(item: Any) -> dict[str, Any]:
    known = ("op", "bytes", "devices", "algorithm", "root", "pairs", "rings", "pieces")
    if isinstance(item, Mapping):
        for key in item:
            one_of("unknown key of a request", "requests", key, *known)
        if "op" in item and "bytes" in item:
            return dict(item)
    elif isinstance(item, Sequence) and not isinstance(item, str) and len(item) in (2, 3):
        return dict(zip(known, item, strict=False))
    allowed = "(op, bytes), (op, bytes, devices), or a dict of " + ", ".join(known)
    raise user_error("not a request", place="requests", value=shown(item), allowed=allowed)


def _bytes(value: int | str) -> int:
    if isinstance(value, str):
        if re.match(r"\s*0*[1-9][0-9]{15}", value):  # the size exceeds 2^46 in any unit
            raise user_error("out of range", place="bytes", value=shown(value), allowed=f"0 to {MOST_BYTES}")
        with placed("bytes"):
            value = _core.parse_bytes(value)
    return integer("bytes", value, 0, MOST_BYTES)


def _groups(devices: Any, cluster: Cluster) -> list[list[int]]:
    if devices is None:
        return [list(range(cluster.devices))]
    if not is_iterable(devices):
        return [list(range(integer("devices", devices, 1, cluster.devices)))]
    listed = list(devices)
    several = bool(listed) and all(isinstance(one, Iterable) for one in listed)
    groups = [
        [integer("devices", one, 0, cluster.devices - 1) for one in group]
        for group in (listed if several else [listed])
    ]
    seen: set[int] = set()
    for group in groups:
        for device in group:
            if device in seen:
                what = "groups overlap" if several else "a device occurs twice in a group"
                raise user_error(what, place="devices", value=f"device {device}", allowed="each device once")
            seen.add(device)
        if not group:
            raise user_error("an empty group", place="devices", value=shown(devices), allowed="one or more")
    return groups


def request(op: str, size: int, group: list[int], chosen: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Builds a request for the core."""
    own = None
    if isinstance(chosen, str):
        chosen = path_text(chosen, "algorithm")
    if not isinstance(chosen, str) or chosen.endswith((".json", ".xml")):
        own = own_algorithm(chosen)
        if own["operation"] != op:
            raise user_error(
                "the algorithm is for another operation", place="algorithm", value=own["operation"], allowed=op
            )
    _unused(op, chosen if own is None else "a custom algorithm", options)
    pairs = options.get("pairs")
    if op == "permute_devices":
        count = len(group)
        pairs = [(i, (i + 1) % count) for i in range(count)] if pairs is None else pairs
        pairs = [(integer("pairs", a, 0, count - 1), integer("pairs", b, 0, count - 1)) for a, b in pairs]
    rings, pieces = options.get("rings"), options.get("pieces")
    return {
        "operation": op,
        "bytes": size,
        "devices": group,
        "algorithm": chosen if own is None else own["name"],
        "rings": 0 if rings is None else integer("rings", rings, 1, 1 << 16),
        "pieces": 0 if pieces is None else integer("pieces", pieces, 1, 1 << 16),
        "root": integer("root", options.get("root") or 0, 0, len(group) - 1),
        "pairs": pairs or [],
        "start": 0,
        "own": own,
    }


def _unused(op: str, algorithm: str, options: Mapping[str, Any]) -> None:
    """Raises an error for options that the algorithm or operation does not use."""
    given = {name: (options.get(name), None) for name in ("root", "pairs", "rings", "pieces")}
    if op != "broadcast_devices":
        unused("a root belongs to broadcast_devices", f"none in {op}", root=(options.get("root") or None, None))
    if op != "permute_devices":
        unused("pairs belong to permute_devices", f"none in {op}", pairs=given["pairs"])
    if algorithm not in ("auto", "ring") or op not in ("all_reduce", "all_gather", "reduce_scatter"):
        unused("rings belong to the algorithm ring", f"none in {op} by {algorithm}", rings=given["rings"])
    cut = algorithm in ("auto", "tree", "hierarchical", "torus") or (op == "broadcast_devices" and algorithm == "ring")
    if not cut or op in ("permute_devices", "all_to_all"):
        unused("pieces belong to trees, broadcasts and levels", f"none in {op} by {algorithm}", pieces=given["pieces"])


def schedule(op: str, size: int, group: list[int], cluster: Cluster, algorithm: str) -> dict[str, Any]:
    """Writes a group's algorithm as transfers, which `collective` accepts as a custom algorithm."""
    return dict(cluster.core.schedule(request(op, size, group, algorithm, {})))


def _priced(
    cluster: Cluster, requests: list[dict[str, Any]], network_model: str, symmetry: bool
) -> list[dict[str, Any]]:
    one_of("unknown network model", "network_model", network_model, *MODELS)
    answers = cluster.core.price(requests, network_model, bool(symmetry))
    if network_model != "closed":
        return list(answers)
    pairs = zip(answers, requests, strict=True)
    return [forms.better(one["operation"], answer, one, cluster) for answer, one in pairs]


def _sent_pairs(request: Mapping[str, Any]) -> bool:
    return any(a != b for a, b in request["pairs"])


def _wire_bytes(op: str, size: int, n: int, sends: bool) -> tuple[float, float, float]:
    """Returns input bytes, output bytes and sent bytes per device."""
    share = (n - 1) / n
    return {
        "all_reduce": (size, size, 2 * share * size),
        "all_gather": (size / n, size, share * size),
        "reduce_scatter": (size, size / n, share * size),
        "all_to_all": (size, size, share * size),
        "permute_devices": (size, size, size if sends else 0),
        "broadcast_devices": (size, size, size if n > 1 else 0),
    }[op]


def _result(
    op: str, size: int, groups: list[list[int]], dtype: str, answer: Mapping[str, Any], sends: bool
) -> CollectiveResult:
    put, taken, wire = _wire_bytes(op, size, max(map(len, groups)), sends)
    time = int(answer["picoseconds"])
    return CollectiveResult(
        op, time * 1e-12, time, answer["algorithm"], answer["model"], size, put, taken, wire,
        sum(map(len, groups)), len(groups), answer["classes"], answer["messages"], answer["exact"], dtype,
        pieces=answer.get("pieces", 0),
    )  # fmt: skip


def _library_time(requests: list[dict[str, Any]], cluster: Cluster, dtype: str, library: Any) -> CollectiveResult:
    """Returns the time by a library's cost model, for groups with equal placement in nodes."""
    from .libraries import on_cluster

    found, name = on_cluster.loaded(library)
    op, size = requests[0]["operation"], requests[0]["bytes"]
    moves = op != "permute_devices" or any(map(_sent_pairs, requests))
    seconds = on_cluster.seconds(found, dtype, cluster, requests) if moves else 0.0
    answer = {"picoseconds": math.ceil(seconds * 1e12), "algorithm": "library", "model": "library"}
    answer |= {"classes": 1, "messages": 0, "exact": True}
    told = _result(op, size, [one["devices"] for one in requests], dtype, answer, moves)
    return replace(told, seconds=seconds, library=name)
