"""Custom collective algorithms: lists of transfers as JSON, and MSCCL XML files."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Any

from .. import _core
from ..base.arguments import integer, one_of
from ..base.errors import path_text, shown, user_error
from ..base.files import read_json

__all__ = ["algorithm", "check_name"]

#: names of algorithms; "in-network" reduces data in switches
NAMES = ("auto", "ring", "tree", "halving-doubling", "bruck", "direct", "torus", "hierarchical", "in-network")

OPERATIONS = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all", "broadcast": "broadcast_devices",
}  # fmt: skip
KEYS = ("schema", "version", "name", "operation", "devices", "chunks", "root", "transfers")


def algorithm(source: Mapping[str, Any] | str | os.PathLike[str]) -> dict[str, Any]:
    """Reads an algorithm and checks it by executing it on sets of contributions.

    Args:
        source: a dict, its `.json` file, or an MSCCL `.xml` file. A dict has name, operation, devices, chunks (number
            of parts; for gather and scatter the first chunks / devices belong to device 0, for all_to_all chunk
            s * devices + t goes from s to t) and transfers (step, source, target, chunk, "combine" or "copy").
            Transfers between two devices in one step form one message.

    Returns:
        A value for `algorithm` of `collective`.

    Raises:
        UserError: if the algorithm counts a contribution twice, sends a chunk that has not arrived, or omits a part.
    """
    if isinstance(source, Mapping) and "slots" in source:
        return dict(source)
    if isinstance(source, Mapping):
        made = _check_json(source)
    else:
        text = path_text(source)
        made = _algorithm_of_xml(text) if text.endswith(".xml") else _check_json(read_json(text))
    _core.cluster_check_schedule(made)
    return made


def _check_json(data: Mapping[str, Any]) -> dict[str, Any]:
    for key in data:
        one_of("unknown key of an algorithm", "algorithm", key, *KEYS)
    for key in ("operation", "devices", "chunks", "transfers"):
        if key not in data:
            raise user_error("missing key of an algorithm", place="algorithm", value=key, allowed=", ".join(KEYS))
    one_of("unknown collective operation", "algorithm", data["operation"], *dict.fromkeys(OPERATIONS.values()))
    n = integer("devices", data["devices"], 1, 1 << 16)
    chunks = integer("chunks", data["chunks"], 1, 1 << 20)
    operation = data["operation"]
    blocks = operation in ("all_gather", "reduce_scatter")
    if (blocks and chunks % n) or (operation == "all_to_all" and chunks != n * n):
        allowed = f"{n * n}" if operation == "all_to_all" else f"a multiple of {n}"
        raise user_error("the number of chunks is not divisible", place="chunks", value=str(chunks), allowed=allowed)
    rows = []
    for number, row in enumerate(data["transfers"]):
        place = f"transfers[{number}]"
        if not isinstance(row, (list, tuple)) or len(row) != 5 or row[4] not in ("combine", "copy"):
            allowed = "(step, source, target, chunk, 'combine' or 'copy')"
            raise user_error("not a transfer", place=place, value=shown(row), allowed=allowed)
        chunk = integer(f"{place}: chunk", row[3], 0, chunks - 1)
        devices = [integer(f"{place}: device", row[i], 0, n - 1) for i in (1, 2)]
        if devices[0] == devices[1]:
            raise user_error("a device sends to itself", place=place, value=shown(row),
                             allowed="two different devices")  # fmt: skip
        rows.append((integer(f"{place}: step", row[0], 0, 1 << 24), *devices, chunk, chunk, row[4] == "combine"))
    pieces = n if operation == "all_to_all" else chunks
    root = integer("root", data.get("root", 0), 0, n - 1)
    made = {"name": str(data.get("name", "own")), "operation": operation, "devices": n, "slots": chunks}
    return made | {"pieces": pieces, "transfers": rows, "blocks": blocks, "root": root}


def _number(node: ElementTree.Element, key: str, fallback: str | None = None) -> int:
    text = node.get(key, fallback)
    try:
        return int(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise user_error("not a whole number", place=f"<{node.tag}> {key}", value=shown(text)) from None


class _Steps:
    """The steps of an MSCCL file; matches sends and receives of thread blocks in order per channel."""

    def __init__(self, root: ElementTree.Element) -> None:
        self.local: list[tuple[str, ElementTree.Element, int, int, int]] = []  # type, step, device, send to, from
        self.after: dict[int, list[int]] = defaultdict(list)  # dependencies of a step
        self.sends: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
        self.receives: dict[tuple[int, int, int], deque[int]] = defaultdict(deque)
        numbers: dict[tuple[int, int, int], int] = {}
        waits: list[tuple[int, tuple[int, int, int]]] = []
        for gpu in root.iter("gpu"):
            device = _number(gpu, "id")
            for block in gpu.iter("tb"):
                to, source, channel = (_number(block, key, "0") for key in ("send", "recv", "chan"))
                last = None
                for step in block.iter("step"):
                    number, kind = len(self.local), step.get("type", "")
                    self.local.append((kind, step, device, to, source))
                    numbers[device, _number(block, "id"), _number(step, "s")] = number
                    if last is not None:
                        self.after[number].append(last)
                    if _number(step, "depid", "-1") >= 0:
                        waits.append((number, (device, _number(step, "depid"), _number(step, "deps", "0"))))
                    if kind in ("r", "rrc", "rcs", "rrs", "rrcs"):
                        self.receives[source, device, channel].append(number)
                    if kind in ("s", "rcs", "rrs", "rrcs"):
                        self.sends[device, to, channel].append(number)
                    last = number
        for number, place in waits:
            if place in numbers:
                self.after[number].append(numbers[place])
        self.peer: dict[int, int] = {}
        for key, sent in self.sends.items():
            got = self.receives.get(key, deque())
            if len(got) != len(sent):
                value = f"{len(sent)} sent, {len(got)} received"
                raise user_error("sends and receives do not match", place=f"gpu {key[0]} to {key[1]}", value=value)
            for one, other in zip(sent, got, strict=True):
                self.peer[other] = one
                self.after[other].append(one)
        self.levels = self._levels()

    def _levels(self) -> list[int]:
        left = {number: set(before) for number, before in self.after.items()}
        levels, done = [0] * len(self.local), 0
        follow = defaultdict(list)
        for number, before in left.items():
            for one in before:
                follow[one].append(number)
        ready = deque(number for number in range(len(self.local)) if not left.get(number))
        while ready:
            number = ready.popleft()
            done += 1
            for later in follow[number]:
                levels[later] = max(levels[later], levels[number] + 1)
                left[later].discard(number)
                if not left[later]:
                    ready.append(later)
        if done < len(self.local):
            raise user_error("cyclic dependency of steps", place="MSCCL", value=f"{len(self.local) - done} steps")
        return levels


def _header(root: ElementTree.Element, path: str) -> tuple[str, int, int]:
    """Reads operation, devices and chunks from a file."""
    if root.tag != "algo":
        raise user_error("the file is not MSCCL XML", place=path, value=f"<{root.tag}>", allowed="<algo>")
    operation = OPERATIONS.get(root.get("coll", "").lower())
    if operation is None or operation == "broadcast_devices":
        raise user_error("unknown collective", place=path, value=shown(root.get("coll")), allowed=", ".join(OPERATIONS))
    n, chunks = _number(root, "ngpus"), _number(root, "nchunksperloop")
    if not 1 <= n <= 1 << 12 or not 1 <= chunks <= 1 << 16:
        raise user_error("out of range", place=path, value=f"{n} devices, {chunks} chunks")
    if operation != "all_reduce" and chunks % n:
        raise user_error(
            "the number of chunks is not divisible", place=path, value=str(chunks), allowed=f"multiples of {n}"
        )
    return operation, n, chunks


def _algorithm_of_xml(path: str) -> dict[str, Any]:
    """Reads an MSCCL file; a transfer's step number is the longest chain of steps before its receive."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise user_error("the file is not MSCCL XML", place=path, value=str(error)) from None
    operation, n, chunks = _header(root, path)
    counts = (_number(gpu, key, "0") for gpu in root.iter("gpu") for key in ("i_chunks", "o_chunks", "s_chunks"))
    size = max(chunks, *counts)
    offsets = {"i": 0, "o": 0 if operation == "all_reduce" else size, "s": 2 * size}
    slots, steps, rows = 3 * size, _Steps(root), []

    def slot(step: ElementTree.Element, side: str, shift: int) -> int:
        buffer, offset = step.get(f"{side}buf", ""), _number(step, f"{side}off") + shift
        if buffer not in offsets or not 0 <= offset < size:
            raise user_error("unknown chunk", place=f"{path}: step", value=f"{buffer}[{offset}]", allowed="i, o, s")
        return offsets[buffer] + offset

    for number, (kind, step, device, _, _) in enumerate(steps.local):
        for shift in range(_number(step, "cnt", "1")):
            level = steps.levels[number]
            if number in steps.peer:
                _, sent, source, _, _ = steps.local[steps.peer[number]]
                if source == device:
                    raise user_error(
                        "a device sends to itself",
                        place=f"{path}: gpu {device}",
                        value=f"step {step.get('s')}",
                        allowed="another device, or cpy",
                    )
                taken = slot(sent, "src" if sent.get("type") == "s" else "dst", shift)
                rows.append((level, source, device, taken, slot(step, "dst", shift), kind in ("rrc", "rrs", "rrcs")))
            elif kind in ("cpy", "re"):
                taken = slot(step, "src", shift)
                rows.append((level, device, device, taken, slot(step, "dst", shift), kind == "re"))
    made = {"name": root.get("name") or "msccl", "operation": operation, "devices": n, "slots": slots}
    initial, wanted = _meaning(operation, n, chunks, slots, offsets["o"])
    return made | {"pieces": chunks, "transfers": rows, "initial": initial, "wanted": wanted}


def _meaning(operation: str, n: int, chunks: int, slots: int, out: int) -> tuple[list[int], list[int]]:
    """Returns the initial content of the input buffers and the required content of the output buffers."""
    initial, wanted = [-1] * (n * slots), [-1] * (n * slots)
    share = chunks // n
    for device in range(n):
        start = device * slots
        for c in range(share if operation == "all_gather" else chunks):
            first = {"all_gather": device * share, "all_to_all": device * chunks}.get(operation, 0)
            initial[start + c] = first + c
        for c in range(share if operation == "reduce_scatter" else chunks):
            value = device * share + c if operation == "reduce_scatter" else c
            if operation == "all_to_all":
                value = c // share * chunks + device * share + c % share
            wanted[start + out + c] = value
    return initial, wanted


def check_name(source: Any) -> None:
    """Raises an error for an unknown algorithm name."""
    if isinstance(source, str) and not source.endswith((".json", ".xml")):
        one_of("unknown algorithm", "algorithm", source, *NAMES)
