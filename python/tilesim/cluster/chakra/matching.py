"""Matches communication nodes across devices and groups devices with equal timelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.errors import user_error
from ..trace import Trace, TraceClass, TraceNode
from .sharing import Demand, Sharing, Use

__all__ = ["DeviceGroup", "Price", "Quotient", "quotient"]

#: (operation, bytes, devices in order, recorded picoseconds, place for messages) -> picoseconds
Price = Callable[[str, int, "tuple[int, ...]", int, str], int]
_Group = tuple[str, int]


@dataclass(slots=True)
class DeviceGroup:
    """Devices of one trace class in equal groups; in a trace with sends or receives, a single device."""

    part: TraceClass
    devices: list[int]
    groups: dict[str, _Group]
    at: int = 0  # index of the first device within its class
    sequence: dict[_Group, list[int]] = field(default_factory=dict)  # group -> node indices of its collectives
    cost: dict[int, int] = field(default_factory=dict)  # node index -> picoseconds
    partner: dict[int, tuple[int, int]] = field(default_factory=dict)  # node index -> unit and node index of the peer
    use: dict[int, Use] = field(default_factory=dict)  # node index -> use of links
    within: dict[int, tuple[int, int]] = field(default_factory=dict)  # node index -> NETWORK and INSIDE


@dataclass(slots=True)
class Quotient:
    """One unit per class of devices with equal timelines. `joined` lists the (class, node index) of each collective."""

    units: list[DeviceGroup]
    devices: list[int]  # number of devices per class
    joined: dict[tuple[int, int], list[tuple[int, int]]]
    partner: dict[tuple[int, int], tuple[int, int]]
    members: list[list[int]] = field(default_factory=list)  # the devices of each class
    demands: dict[tuple[int, int], Demand] = field(default_factory=dict)  # (class, node index) -> use of links
    groups: dict[_Group, tuple[int, ...]] = field(default_factory=dict)  # devices of each group


def quotient(trace: Trace, price: Price, symmetry: bool, sharing: Sharing | None = None) -> Quotient:
    """Groups devices with equal timelines into classes."""
    groups: dict[_Group, tuple[int, ...]] = {("", 0): tuple(range(trace.devices))}
    for kind, several in trace.groups.items():
        groups.update({(kind, number): tuple(group) for number, group in enumerate(several)})
    units, unit_of = _units(trace, groups, symmetry)
    members = {group: Counter(unit_of[device] for device in devices) for group, devices in groups.items()}
    _match_collectives(trace, units, groups, members, price)
    _match_messages(trace, units, unit_of, price)
    if sharing is not None:
        _find_uses(units, sharing)
    if symmetry:
        colours, loads = _colours(units, members, sharing)
    else:
        colours, loads = list(range(len(units))), list(range(len(sharing.numbers) if sharing else 0))
    first: dict[int, int] = {}
    devices: dict[int, list[int]] = {}
    for number, colour in enumerate(colours):
        first.setdefault(colour, number)
        devices.setdefault(colour, []).extend(units[number].devices)
    place = {colour: at for at, colour in enumerate(first)}
    at_of = [place[colour] for colour in colours]
    joined: dict[tuple[int, int], list[tuple[int, int]]] = {}
    partner: dict[tuple[int, int], tuple[int, int]] = {}
    for colour, number in first.items():
        unit = units[number]
        for group, sequence in unit.sequence.items():
            others = [(at_of[one], units[one].sequence[group]) for one in members[group]]
            for turn, node in enumerate(sequence):
                joined[place[colour], node] = sorted({(one, row[turn]) for one, row in others})
        for node, (other, at) in unit.partner.items():
            partner[place[colour], node] = (at_of[other], at)
    of_each = [sorted(devices[one]) for one in first]
    stand = [units[one] for one in first.values()]
    demands = {} if sharing is None else _demands(stand, sharing, loads)
    return Quotient(stand, list(map(len, of_each)), joined, partner, of_each, demands, groups)


def _find_uses(units: list[DeviceGroup], sharing: Sharing) -> None:
    for unit in units:
        for at, node in enumerate(unit.part.nodes):
            use = None
            if node.kind == "collective":
                use = sharing.collective(node, unit.groups[node.group][1], unit.cost[at])
            elif node.kind == "send":
                use = sharing.message(node, unit.devices[0], node.peers[unit.at], unit.cost[at])
            if use is not None:
                unit.use[at] = use
    sharing.count_loads()
    for unit in units:
        for at, (load, scale) in list(unit.use.items()):
            most = float(sharing.most[load])
            if most > 0:  # a closed form below the busiest link's time uses the full link
                unit.use[at] = (load, min(scale, 1 / most))
            else:
                del unit.use[at]


def _demands(units: list[DeviceGroup], sharing: Sharing, loads: list[int]) -> dict[tuple[int, int], Demand]:
    """Returns the use of links by each communication, by class and node index."""
    links = sharing.demands(np.array(loads, np.int64))
    found: dict[tuple[int, int], Demand] = {}
    known: dict[Use, Demand] = {}
    for number, unit in enumerate(units):
        for at, use in unit.use.items():
            if use not in known:
                load, scale = use
                own = {link: seconds * scale for link, seconds in links[loads[load]].items()}
                known[use] = Demand(float(sharing.most[load]) * scale, own)
            found[number, at] = known[use]
    return found


def _units(trace: Trace, groups: dict[_Group, tuple[int, ...]], symmetry: bool) -> tuple[list[DeviceGroup], list[int]]:
    of_device: dict[str, dict[int, _Group]] = {}
    for group, devices in groups.items():
        of_device.setdefault(group[0], {}).update(dict.fromkeys(devices, group))
    units: list[DeviceGroup] = []
    unit_of = [0] * trace.devices
    for part in trace.classes:
        kinds = sorted({node.group for node in part.nodes if node.kind == "collective"})
        alone = not symmetry or any(node.peers for node in part.nodes)
        numbers: dict[tuple[Any, ...], int] = {}
        for at, device in enumerate(part.devices):
            own = {kind: of_device[kind][device] for kind in kinds}
            key = (device,) if alone else tuple(own.values())
            if key not in numbers:
                numbers[key] = len(units)
                units.append(DeviceGroup(part, [], own, at))
            units[numbers[key]].devices.append(device)
            unit_of[device] = numbers[key]
    return units, unit_of


def _match_collectives(
    trace: Trace,
    units: list[DeviceGroup],
    groups: dict[_Group, tuple[int, ...]],
    members: dict[_Group, Counter[int]],
    price: Price,
) -> None:
    for unit in units:
        for at, node in enumerate(unit.part.nodes):
            if node.kind == "collective":
                unit.sequence.setdefault(unit.groups[node.group], []).append(at)
    used = {group for unit in units for group in unit.sequence}
    for group in sorted(used):
        first = next(units[one] for one in members[group] if group in units[one].sequence)
        row = [first.part.nodes[at] for at in first.sequence[group]]
        asked: dict[tuple[str, int, int], int] = {}
        for one in members[group]:
            _alike(trace, first, row, units[one], group)
            for turn, at in enumerate(units[one].sequence[group]):
                node = row[turn]
                key = (node.op, node.bytes, node.duration_ps)
                if key not in asked:
                    where = trace.place(first.part, node)
                    asked[key] = price(node.op, node.bytes, groups[group], node.duration_ps, where)
                units[one].cost[at] = asked[key]


def _alike(trace: Trace, first: DeviceGroup, row: list[TraceNode], other: DeviceGroup, group: _Group) -> None:
    """Checks that two devices run the same collectives on a group, in the same order."""
    theirs = [other.part.nodes[at] for at in other.sequence.get(group, [])]
    named = f"group {group[0]!r}" if group[0] else "all devices"
    for mine, their in zip(row, theirs, strict=False):
        if (mine.op, mine.bytes) != (their.op, their.bytes):
            met = f"{trace.place(other.part, their)}, {their.op} of {their.bytes}"
            what = f"a collective of {named} differs between devices: {met}"
            raise user_error(what, place=trace.place(first.part, mine), value=f"{mine.op} of {mine.bytes} bytes")
    if len(row) != len(theirs):
        more, part, less = (row, first, other) if len(row) > len(theirs) else (theirs, other, first)
        node = more[min(len(row), len(theirs))]
        what = f"device {less.devices[0]} is missing in a collective of {named}"
        raise user_error(what, place=trace.place(part.part, node))


def _match_messages(trace: Trace, units: list[DeviceGroup], unit_of: list[int], price: Price) -> None:
    ends: dict[tuple[str, int, int, int], list[tuple[int, int]]] = {}
    for number, unit in enumerate(units):
        device = unit.devices[0]
        for at, node in enumerate(unit.part.nodes):
            if node.kind in ("send", "recv"):
                peer = node.peers[unit.at]
                pair = (device, peer) if node.kind == "send" else (peer, device)
                ends.setdefault((node.kind, *pair, node.tag), []).append((number, at))
    for (kind, source, target, tag), row in ends.items():
        others = ends.get(("recv" if kind == "send" else "send", source, target, tag), [])
        if len(others) < len(row):
            number, at = row[len(others)]
            node = units[number].part.nodes[at]
            word = "receives" if kind == "send" else "sends"
            what = f"device {target if kind == 'send' else source} {word} nothing with tag {tag} there"
            raise user_error(what, place=trace.place(units[number].part, node), value=f"{source} to {target}")
        for (number, at), other in zip(row, others, strict=False):
            node, end = units[number].part.nodes[at], units[other[0]].part.nodes[other[1]]
            if node.bytes != end.bytes:
                raise user_error(
                    "the send and its receive have different sizes",
                    place=trace.place(units[number].part, node),
                    value=f"{node.bytes} and {end.bytes} bytes",
                )
            units[number].partner[at] = other
            if kind == "send":
                where = trace.place(units[number].part, node)
                units[number].cost[at] = price("send", node.bytes, (source, target), node.duration_ps, where)


def _colours(
    units: list[DeviceGroup], members: dict[_Group, Counter[int]], sharing: Sharing | None
) -> tuple[list[int], list[int]]:
    """Partitions units into colours with equal nodes, times, partners and link loads; splits colours until
    they are stable. Returns the colours of units and of loads."""
    signatures: dict[int, tuple[Any, ...]] = {}
    rows: list[Any] = []
    for unit in units:
        if id(unit.part) not in signatures:
            signatures[id(unit.part)] = _signature(unit.part)
        scales = tuple((at, scale) for at, (_, scale) in sorted(unit.use.items()))
        rows.append((signatures[id(unit.part)], tuple(sorted(unit.cost.items())), scales))
    colours = _numbered(rows)
    users: list[dict[tuple[int, int], int]] = [{} for _ in range(len(sharing.numbers) if sharing else 0)]
    loads = [0] * len(users)
    while True:
        of_group = {group: tuple(sorted(_sum(colours, counts).items())) for group, counts in members.items()}
        for one in users:
            one.clear()
        rows = []
        for colour, unit in zip(colours, units, strict=True):
            joined = tuple((at[0], of_group[group]) for group, at in unit.sequence.items())
            met = tuple((at, colours[other], there) for at, (other, there) in unit.partner.items())
            rows.append((colour, joined, met, tuple(loads[load] for load, _ in unit.use.values())))
            for at, (load, _) in unit.use.items():
                users[load][colour, at] = users[load].get((colour, at), 0) + 1
        finer = _numbered(rows)
        told = _numbered([(colour, *sorted(one.items())) for colour, one in zip(loads, users, strict=True)])
        if sharing is not None and told:
            told = [int(one) for one in sharing.finer(np.array(told, np.int64))]
        if len(set(finer)) == len(set(colours)) and len(set(told)) == len(set(loads)):
            return finer, told
        colours, loads = finer, told


def _sum(colours: list[int], counts: Counter[int]) -> Counter[int]:
    total: Counter[int] = Counter()
    for unit, count in counts.items():
        total[colours[unit]] += count
    return total


def _signature(part: TraceClass) -> tuple[Any, ...]:
    at = {node.id: place for place, node in enumerate(part.nodes)}
    kinds: dict[str, int] = {}
    return tuple(
        (node.kind, tuple(sorted(at[dep] for dep in node.deps)), node.duration_ps, node.bytes, node.op, node.stream,
         kinds.setdefault(node.group, len(kinds)) if node.kind == "collective" else -1)
        for node in part.nodes
    )  # fmt: skip


def _numbered(rows: list[Any]) -> list[int]:
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(row, len(numbers)) for row in rows]
