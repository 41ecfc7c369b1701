"""Collectives that a switch takes part in: it sums what devices send, and sends one message to many.

NVLS (switches of a node): a device's part of the sum is asked for by that device, for which all send it to the switch,
and is written once, for which the switch sends it to all; the two overlap, and a port carries S (1 + 1/n) each way.
SHARP (trees of switches): the vectors stream up, are summed at each switch, and the sum streams down: S each way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from ...base.errors import user_error

__all__ = ["NAME", "OPERATIONS", "SWITCH", "Port", "check", "picoseconds", "sent", "transfers"]

NAME = "in-network"
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast_devices")
SWITCH = -1  # the number of the switch in transfers

Transfer = tuple[int, int, int, int, str]


@dataclass(frozen=True)
class Port:
    """Of a device: bytes per second each way, picoseconds from device to device, whether switches form a tree."""

    rate: int
    latency: int
    tree: bool


def sent(op: str, devices: int, tree: bool) -> Fraction:
    """Bytes that the busier direction of a port carries, over the bytes of the call.

    Args:
        op: of `OPERATIONS`.
        devices: that take part.
        tree: whether switches form a tree.

    Returns:
        The share.
    """
    return 1 + Fraction(1, devices) if op == "all_reduce" and not tree else Fraction(1)


def picoseconds(op: str, bytes_: int, devices: int, port: Port) -> int:
    """When all is done: a port's bytes over its rate, and the way there and back.

    Args:
        op: of `OPERATIONS`.
        bytes_: the larger of what a device puts in and takes out.
        devices: that take part.
        port: of each.

    Returns:
        Picoseconds; 0 where one device is alone.
    """
    if devices == 1:
        return 0
    share = sent(op, devices, port.tree)
    trips = 2 if op == "all_reduce" and not port.tree else 1
    wire = -(-bytes_ * share.numerator * 10**12 // (share.denominator * port.rate))
    return wire + trips * port.latency


def transfers(op: str, devices: int, root: int = 0) -> list[Transfer]:
    """What passes between devices and the switch: (step, source, target, chunk, "combine" or "copy").

    Chunk c of as many as there are devices belongs to device c; the switch is `SWITCH`.

    Args:
        op: of `OPERATIONS`.
        devices: that take part.
        root: that broadcasts.

    Returns:
        The transfers.
    """
    every = range(devices)
    if op == "broadcast_devices":
        found: list[Transfer] = [(0, root, SWITCH, chunk, "copy") for chunk in every]
        return found + [(1, SWITCH, one, chunk, "copy") for one in every if one != root for chunk in every]
    if op == "all_gather":
        found = [(0, one, SWITCH, one, "copy") for one in every]
        return found + [(1, SWITCH, one, chunk, "copy") for one in every for chunk in every]
    found = [(0, one, SWITCH, chunk, "combine") for one in every for chunk in every]
    if op == "reduce_scatter":
        return found + [(1, SWITCH, one, one, "copy") for one in every]
    return found + [(1, SWITCH, one, chunk, "copy") for one in every for chunk in every]


def check(op: str, devices: int, rows: Iterable[Transfer], root: int = 0) -> None:
    """Executes transfers on sets of contributions; the switch holds nothing before.

    Args:
        op: of `OPERATIONS`.
        devices: that take part.
        rows: transfers.
        root: that broadcasts.

    Raises:
        UserError: where a contribution is counted twice, a chunk is sent that is not there, or a part never arrives.
    """
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
                raise user_error("a chunk is sent that is not there", place=place, value=f"chunk {chunk}")
            own = held.get((target, chunk), frozenset()) if how == "combine" else frozenset()
            if own & names:
                raise user_error("a contribution is counted twice", place=place, value=f"chunk {chunk}")
            held[target, chunk] = own | names
    for one in every:
        for chunk in every if op != "reduce_scatter" else (one,):
            wanted = {"all_gather": {chunk}, "broadcast_devices": {root}}.get(op, set(every))
            if held.get((one, chunk)) != wanted:
                raise user_error("a part never arrives", place=f"device {one}", value=f"chunk {chunk}")
