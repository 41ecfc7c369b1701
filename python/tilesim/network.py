"""Standalone simulation of on-chip networks: latency and throughput of a mesh, torus, crossbar or any graph."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import _core
from .base.arguments import integer, one_of
from .base.checked import checked, checked_class, is_number
from .base.errors import as_number, nearest, path_text, shown
from .base.files import MAX_JSON_BYTES, read_text
from .base.lazy import listed
from .graph import user_error
from .machine.machine import Machine

__all__ = ["NetworkResult", "for_endpoints", "run", "topology", "topology_of", "traffic_names"]
__dir__ = listed(__all__)

MOST = 4096  # largest number of routers or nodes, and largest link latency in cycles
MOST_ENDPOINTS = 2**20  # largest number of endpoints
_KINDS = ("mesh", "torus", "ring", "crossbar", "cmesh", "tree")


@checked_class()
@dataclass(frozen=True)
class NetworkResult:
    """Result of a network under synthetic traffic.

    Attributes:
        topology: name, such as "mesh_8x8".
        traffic: name of the traffic.
        load: offered flits per node and cycle.
        packet: flits of a packet.
        stable: False if the network is saturated; its latencies then depend on the end of the run.
        reply_latency: mean packet latency of replies, 0 without replies; other means include packets and replies.
        packet_latency: mean cycles from a packet's creation to the arrival of its last flit.
        network_latency: mean cycles from the departure of a packet's first flit to the arrival of its last flit.
        longest_latency: cycles of the slowest packet.
        accepted: flits delivered per node and cycle.
        hops: mean number of routers of a packet's path.
        packets: measured packets.
        cycles: simulated cycles, warm-up and drain included.
        flit_hops: flits times routers over all cycles.
        seconds: wall-clock time of the simulation.
        links: (from router, to router, flits per cycle) of each link, over all cycles; empty at fidelity simple.
        settings: all other settings.
    """

    topology: str
    traffic: str
    load: float
    packet: int
    stable: bool
    packet_latency: float
    network_latency: float
    longest_latency: int
    reply_latency: float
    accepted: float
    hops: float
    packets: int
    cycles: int
    flit_hops: int
    seconds: float = field(compare=False)
    links: tuple[tuple[int, int, float], ...] = field(repr=False)
    settings: dict[str, Any] = field(repr=False)

    @property
    def state(self) -> str:
        """ "stable" or "saturated"."""
        return "stable" if self.stable else "saturated"


def traffic_names() -> list[str]:
    """Lists the synthetic traffic patterns.

    Returns:
        Their names. "hotspot(3,12)" sends all packets to nodes 3 and 12, "hotspot" to node 0.
    """
    return list(_core.network_traffic_names())


def _split(name: str) -> tuple[str, list[int]]:
    kind, _, sizes = name.partition("_")
    if kind not in _KINDS or not re.fullmatch(r"[0-9]{1,5}(x[0-9]{1,5})*", sizes):
        allowed = f"simple (in a simulation), {', '.join(_KINDS)}, each also with sizes as mesh_4x4, a .json file"
        joined = re.fullmatch(r"([a-z]+)[ _:-]*(\d[\dx]*)", name)
        near = "" if kind in _KINDS else nearest(kind, (*_KINDS, "simple"))
        near = f"{joined[1]}_{joined[2]}" if joined and joined[1] in _KINDS else near
        raise user_error("unknown network", value=f"'{name}'", allowed=allowed, suggestion=near)
    return kind, [int(size) for size in sizes.split("x")]


def _extents(kind: str, sizes: list[int], dimensions: int) -> list[int]:
    """Repeats a single extent for every dimension; a ring or crossbar has one extent."""
    if len(sizes) > 1 or kind in ("ring", "crossbar"):
        return sizes
    return sizes * dimensions


@checked("name")
def topology(
    name: str | os.PathLike[str] | _core.NetworkTopology,
    k: int | list[int] | tuple[int, ...] | None = None,
    *,
    dimensions: int = 2,
    concentration: int = 4,
    levels: int = 2,
    link_latency: int | None = None,
) -> _core.NetworkTopology:
    """Makes a network's routers, links, nodes and routes.

    Args:
        name: "mesh", "torus", "ring", "crossbar", "cmesh" (several nodes at each router), "tree"; the same with sizes
            ("mesh_8x8", "crossbar_16", "cmesh_4x4x4": the last number is the concentration, "tree_2x3": arity, levels);
            or the path of a .json file of schema tilesim.network.
        k: routers per dimension (one number for all, or one each), nodes of a ring or crossbar, arity of a tree.
        dimensions: number of dimensions of a mesh, torus or cmesh if `k` is one number.
        concentration: nodes at each router of a cmesh.
        levels: number of levels of a tree.
        link_latency: cycles; by default 1, and 2 on rings and tori.

    Returns:
        The topology.

    Raises:
        UserError: for an unknown name, a size out of range, or a file that is not a connected network.
    """
    if isinstance(name, _core.NetworkTopology):
        return name
    if not isinstance(name, (str, os.PathLike)):
        raise user_error(
            "not a network", value=shown(name), allowed="a name such as mesh_8x8, a .json file, a topology"
        )
    text = path_text(name)
    if text.endswith(".json"):
        return _core.NetworkTopology.from_json(read_text(text, MAX_JSON_BYTES), text)
    if "_" in text or text not in _KINDS:
        kind, sizes = _split(text)
        if k is not None:
            raise user_error(
                "both sizes in the name and k are given", value=f"'{text}', k={k}", allowed="one of the two"
            )
        if kind == "cmesh":
            *sizes, concentration = sizes if len(sizes) > 1 else [sizes[0], sizes[0], concentration]
        if kind == "tree":
            levels = sizes[1] if len(sizes) == 2 else levels
            sizes = sizes[:1]
    else:
        kind = text
        given = (8 if kind != "tree" else 2) if k is None else k
        sizes = [int(size) for size in np.atleast_1d(np.asarray(given, dtype=object))]
    latency = 2 if kind in ("torus", "ring") else 1
    if link_latency is not None:
        latency = integer("link_latency", link_latency, most=MOST)
    for name_of, given in (("concentration", concentration), ("levels", levels), ("dimensions", dimensions)):
        integer(name_of, given, most=MOST)
    extents = [integer("k", extent, most=MOST) for extent in _extents(kind, sizes, dimensions)]
    if kind in ("ring", "crossbar", "tree") and len(extents) != (1 if kind != "tree" else dimensions):
        raise user_error(f"a {kind} takes one size", value=str(sizes), allowed="one number")
    if kind == "crossbar":
        return _core.NetworkTopology.crossbar(extents[0])
    if kind == "tree":
        return _core.NetworkTopology.tree(extents[0], levels, latency)
    if kind in ("torus", "ring"):
        return _core.NetworkTopology.torus(extents, latency)
    return _core.NetworkTopology.mesh(extents, concentration if kind == "cmesh" else 1, latency)


def _grid(count: int) -> list[int]:
    """Returns the extents of the smallest grid with at least `count` places that is nearly square."""
    rows = max(1, math.isqrt(count))
    candidates = [(a, -(-count // a)) for a in range(max(1, (rows + 1) // 2), rows + 1)]
    a, b = min(candidates, key=lambda pair: (pair[0] * pair[1], pair[1] - pair[0]))
    return [b, a]


@checked()
def for_endpoints(name: str | os.PathLike[str], count: int) -> _core.NetworkTopology:
    """Makes a network with a node for each of a machine's core ports and memory channels.

    Args:
        name: as for `topology`; a name without sizes gets the smallest ones (mesh, torus and cmesh as square as
            possible, cmesh with four nodes at each router, tree binary).
        count: number of nodes that the network must have.

    Returns:
        The topology.

    Raises:
        UserError: as `topology`, for a count outside 1 to 2^20, and for a network with too few nodes.
    """
    text = path_text(name)
    count = integer("count", count, 1, MOST_ENDPOINTS)
    if text in ("ring", "crossbar"):
        net = topology(text, max(count, 2 if text == "ring" else 1))
    elif text in ("mesh", "torus"):
        net = topology(text, [max(2, extent) for extent in _grid(count)] if text == "torus" else _grid(count))
    elif text == "cmesh":
        net = topology(text, _grid(-(-count // 4)), concentration=4)
    elif text == "tree":
        net = topology(text, 2, levels=max(1, (count - 1).bit_length()))
    else:
        net = topology(name)
    if net.nodes < count:
        raise user_error(
            "the network has too few nodes for the machine",
            value=f"{net.name}: {net.nodes} nodes",
            place="network.kind",
            allowed=f"at least {count}: core ports and memory channels",
        )
    return net


@checked()
def topology_of(machine: Machine, name: str | os.PathLike[str] | None = None) -> _core.NetworkTopology | None:
    """Makes the routers between a machine's core ports and memory channels.

    Args:
        machine: has `core.count` times `network.ports_per_core` ports and `memory.channels` channels.
        name: as for `for_endpoints`, or "simple"; by default the machine's `network.kind`. On a machine of several
            regions (`memory.regions`) a name selects the network of each region; the links between regions have
            `network.region_bytes_per_cycle` and `network.region_latency_cycles`. A file has all routers and links, the
            nodes of region 0 first.

    Returns:
        The topology; None for the simple network.

    Raises:
        UserError: as `for_endpoints`.
    """
    text = path_text(name) if name is not None else str(machine.get("network.kind"))
    if text == "simple":
        return None
    ports = int(machine.get("core.count")) * int(machine.get("network.ports_per_core"))
    endpoints = ports + int(machine.get("memory.channels"))
    regions = int(machine.get("memory.regions"))
    if regions == 1 or text.endswith(".json"):
        return for_endpoints(text, endpoints)
    return _in_regions(machine, for_endpoints(text, endpoints // regions), regions)


def _in_regions(machine: Machine, region: _core.NetworkTopology, regions: int) -> _core.NetworkTopology:
    """Copies a region's network once per region; enough parallel links join regions to carry their bandwidth."""
    flit, rate = int(machine.get("network.flit_bytes")), int(machine.get("network.region_bytes_per_cycle"))
    links = -(-rate // flit)
    if links > region.nodes:
        raise user_error(
            "the bandwidth between regions exceeds that of a region's routers",
            place="network.region_bytes_per_cycle",
            value=str(rate),
            allowed=f"at most {region.nodes * flit}: {region.nodes} nodes of a region, flits of {flit} B",
        )
    # Each of `links` links moves rate / links bytes per cycle; a flit arrives with its last byte.
    per_flit, per_cycle = flit * links, rate
    further = int(machine.get("network.region_latency_cycles"))
    latency = further + -(-per_flit // per_cycle)
    if latency > 4096:
        raise user_error(
            "too high latency of a link between routers",
            place="network.region_latency_cycles",
            value=str(further),
            allowed="up to 4000 with routers",
        )
    # A link's buffer lets every virtual channel keep it busy until the first credit returns.
    pipeline = 2 * latency + int(machine.get("network.switch_cycles")) + int(machine.get("network.credit_cycles")) + 4
    buffer = max(int(machine.get("network.virtual_channel_flits")), -(-pipeline * per_cycle // per_flit))
    return _core.NetworkTopology.in_regions(region, regions, links, latency, per_flit, per_cycle, min(buffer, 4096))


@checked("topology", "load")
def run(
    topology: str | os.PathLike[str] | _core.NetworkTopology = "mesh",
    k: int | list[int] | tuple[int, ...] | None = None,
    traffic: str = "uniform",
    load: float = 0.1,
    packet: int = 1,
    *,
    reply: int | None = None,
    fidelity: str = "flit",
    seed: int = 1,
    virtual_channels: int = 4,
    buffer_flits: int = 8,
    switch_cycles: int = 1,
    credit_cycles: int = 1,
    period: int = 10_000,
    warmup_periods: int = 3,
    periods: int = 15,
    **shape: Any,
) -> NetworkResult:
    """Measures a network under synthetic traffic: warm-up, sample periods until latency and throughput settle, drain.

    Every node draws each cycle whether a packet is created (Bernoulli). Routers have virtual channels with private
    buffers, credits, and one-iteration iSLIP allocation of channels and switch; routing is by dimension order
    (crossbar and tree: destination tag; files: table).

    Args:
        topology: a name, file or topology; see `topology`.
        k: routers per dimension, or nodes; see `topology`.
        traffic: one of `traffic_names()`.
        load: offered flits per node and cycle.
        packet: flits of a packet.
        reply: flits of the reply that is sent one cycle after each packet's arrival; None: no replies. Replies use
            the upper half of the virtual channels, packets the lower half, so that neither blocks the other.
        fidelity: "flit" (simulates every flit in every router), or "simple" (latencies of an idle network, ports of one
            flit per cycle, 64 flits of buffer per destination, no contention between routers).
        seed: seed of all random numbers; equal seeds give equal results on every computer.
        virtual_channels: number per router port, 1 to 32.
        buffer_flits: buffer size of a virtual channel in flits.
        switch_cycles: cycles from switch allocation to the link.
        credit_cycles: cycles in which a router processes a credit.
        period: cycles of a sample period.
        warmup_periods: periods before measurement.
        periods: largest number of periods, warm-up included.
        **shape: dimensions, concentration, levels, link_latency as for `topology`.

    Returns:
        Latencies in cycles, accepted load, hops, link loads.

    Raises:
        UserError: for a setting out of range or traffic that does not fit the number of nodes.
    """
    net = _named(topology, k, shape)
    one_of("unknown fidelity", "fidelity", fidelity, "flit", "simple")
    seed, packet = integer("seed", seed, 0, (1 << 64) - 1), integer("packet", packet, 1, (1 << 16) - 1)
    reply = None if reply is None else integer("reply", reply, 1, (1 << 16) - 1)
    if not is_number(load) or not 0 <= float(load) <= packet:
        what = "out of range" if is_number(load) else "not a number"
        raise user_error(what, place="load", value=shown(load), allowed=f"0 to {packet}", suggestion=as_number(load))
    try:
        half = virtual_channels // 2
        classes = [] if reply is None else [("packet", 0, half), ("reply", half, virtual_channels - half)]
        if reply is not None and half == 0:
            raise user_error("answers need a second virtual channel", value=str(virtual_channels), allowed="2 or more")
        router = _core.NetworkRouter(virtual_channels, buffer_flits, switch_cycles, credit_cycles, classes)
        simple = _core.SimpleNetwork() if fidelity == "simple" else None
        measured = _core.measure_network(
            net, router, traffic, load, packet, seed, period, warmup_periods, periods, reply or 0, simple
        )
    except TypeError as error:
        raise user_error(
            "a setting has the wrong type or is out of range", value=str(error).split("Invoked")[-1]
        ) from None
    return NetworkResult(
        topology=net.name,
        traffic=traffic,
        load=float(load),
        packet=packet,
        stable=measured.stable,
        packet_latency=measured.packet_latency,
        network_latency=measured.network_latency,
        longest_latency=measured.longest_latency,
        reply_latency=measured.reply_latency,
        accepted=measured.accepted,
        hops=measured.hops,
        packets=measured.packets,
        cycles=measured.cycles,
        flit_hops=measured.flit_hops,
        seconds=measured.seconds,
        links=tuple(
            (begin, end, flits / measured.cycles)
            for (begin, end, _), flits in zip(net.links, measured.link_flits, strict=False)
        ),
        settings={
            "routing": net.routing,
            "fidelity": fidelity,
            "reply": reply,
            "seed": seed,
            "virtual_channels": virtual_channels,
            "buffer_flits": buffer_flits,
            "switch_cycles": switch_cycles,
            "credit_cycles": credit_cycles,
            "period_cycles": period,
            "warmup_periods": warmup_periods,
            "periods": periods,
        },
    )


def _named(name: Any, k: Any, shape: dict[str, Any]) -> _core.NetworkTopology:
    known = ("dimensions", "concentration", "levels", "link_latency")
    for key in shape:
        if key not in known:
            raise user_error("unknown setting of a network", value=f"'{key}'", allowed=", ".join(known))
    return topology(name, k, **shape)
