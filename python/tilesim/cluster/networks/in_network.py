"""Times in-network collectives: a switch sums the devices' data and sends one message to many devices.

NVLS (switches of a node): each device requests its part of the sum, and all devices send that part to the switch. The
device writes the sum once, and the switch sends it to all. Both overlap, and a port carries S (1 + 1/n) each way.
SHARP (trees of switches): the vectors stream up, are summed at each switch, and the sum streams down: S each way.
Several dimensions run in sequence: scatter inside, sum across, gather inside.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ...base.errors import user_error

__all__ = ["NAME", "OPERATIONS", "SWITCH", "Port", "check", "picoseconds", "sent", "stages", "transfers"]

NAME = "in-network"
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast_devices")
SWITCH = -1  # number of the switch in transfers

Transfer = tuple[int, int, int, int, str]


@dataclass(frozen=True)
class Port:
    """A device's port: bytes per second and direction, picoseconds between devices, whether switches form a tree."""

    rate: int
    latency: int
    tree: bool


def sent(op: str, devices: int, tree: bool) -> Fraction:
    """Returns the bytes in a port's busier direction, relative to the bytes of the call."""
    return 1 + Fraction(1, devices) if op == "all_reduce" and not tree else Fraction(1)


def picoseconds(op: str, bytes_: int, devices: int, port: Port) -> int:
    """Returns the duration: a port's bytes over its rate, plus the latency to the switch and back."""
    if devices == 1:
        return 0
    share = sent(op, devices, port.tree)
    trips = 2 if op == "all_reduce" and not port.tree else 1
    wire = -(-bytes_ * share.numerator * 10**12 // (share.denominator * port.rate))
    return wire + trips * port.latency


def stages(op: str, sizes: Sequence[int]) -> list[tuple[int, str, int]]:
    """Returns the sequence of (dimension, operation, devices in inner dimensions)."""
    inside = [math.prod(sizes[:at]) for at in range(len(sizes))]
    down = [(at, "reduce_scatter", inside[at]) for at in range(len(sizes))]
    up = [(at, "all_gather", inside[at]) for at in reversed(range(len(sizes)))]
    if op == "broadcast_devices":
        return [(at, op, 1) for at in reversed(range(len(sizes)))]
    if op != "all_reduce":
        return down if op == "reduce_scatter" else up
    return [*down[:-1], (len(sizes) - 1, op, inside[-1]), *up[1:]]


def transfers(op: str, sizes: Sequence[int], root: int = 0) -> list[Transfer]:
    """Returns transfers between devices and switches: (step, source, target, chunk, "combine" or "copy").

    Each device has one chunk. Switches have the numbers `SWITCH` and below, which differ between stages.
    """
    every, found, switch = range(math.prod(sizes)), [], SWITCH
    place = [[one // math.prod(sizes[:at]) % sizes[at] for at in range(len(sizes))] for one in every]
    holders = {root}
    for number, (at, what, _) in enumerate(stages(op, sizes)):
        lines: dict[tuple[int, ...], list[int]] = {}
        for one in every:
            lines.setdefault((*place[one][:at], *place[one][at + 1 :]), []).append(one)
        for line in lines.values():
            if what == "broadcast_devices" and holders.isdisjoint(line):
                continue
            for one in line:
                shared = [chunk for chunk in every if place[chunk][:at] == place[one][:at]]
                mine = [chunk for chunk in shared if place[chunk][at] == place[one][at]]
                up, down = {
                    "broadcast_devices": (list(every) if one in holders else [],
                                          [] if one in holders else list(every)),
                    "all_gather": (mine, shared),
                    "reduce_scatter": (shared, mine),
                    "all_reduce": (shared, shared),
                }[what]  # fmt: skip
                how = "combine" if what in ("all_reduce", "reduce_scatter") else "copy"
                found += [(2 * number, one, switch, chunk, how) for chunk in up]
                found += [(2 * number + 1, switch, one, chunk, "copy") for chunk in down]
            switch -= 1
        if what == "broadcast_devices":
            holders |= {one for line in lines.values() if not holders.isdisjoint(line) for one in line}
    return found


def check(op: str, devices: int, rows: Iterable[Transfer], root: int = 0) -> None:
    """Executes transfers on sets of contributions; the switch starts without contributions."""
    every = range(devices)
    held: dict[tuple[int, int], frozenset[int]] = {}
    for one in every:
        for chunk in every:
            has = {"all_gather": chunk == one, "broadcast_devices": one == root}.get(op, True)
            if has:
                held[one, chunk] = frozenset({one})
    steps: dict[int, list[Transfer]] = defaultdict(list)
    for row in rows:
        steps[row[0]].append(row)
    for step in sorted(steps):
        read = [(row, held.get((row[1], row[3]))) for row in steps[step]]
        for (_, source, target, chunk, how), names in read:
            place = f"step {step}, {source} to {target}"
            if names is None:
                raise user_error("a device sends a chunk that it does not have", place=place, value=f"chunk {chunk}")
            own = held.get((target, chunk), frozenset()) if how == "combine" else frozenset()
            if own & names:
                raise user_error("a contribution is counted twice", place=place, value=f"chunk {chunk}")
            held[target, chunk] = own | names
    for one in every:
        for chunk in every if op != "reduce_scatter" else (one,):
            wanted = {"all_gather": {chunk}, "broadcast_devices": {root}}.get(op, set(every))
            if held.get((one, chunk)) != wanted:
                raise user_error("a part never arrives", place=f"device {one}", value=f"chunk {chunk}")
