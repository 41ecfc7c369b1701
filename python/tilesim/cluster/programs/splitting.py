"""Segments: maximal convex sets of a device's operations between communications."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from ... import _core
from ...graph.devices import bytes_of, groups_of
from ...graph.graph import Graph
from .combining import Reach, bytes_moved, combined, reach
from .flat import COMMUNICATION, FREE, POINTWISE, Flat, Op, flatten, in_place

__all__ = ["ProgramPart", "Split", "content_key", "graph_of", "split"]


@dataclass(slots=True)
class ProgramPart:
    """A segment or a communication of one class of devices.

    `deps` are numbers of other parts. A segment has `operations` (numbers, including views), `inputs` and `outputs`
    (values at its border), `key` (of its content), `aliases` (outputs by place, with the update that writes them into
    its first operand, an input). A communication has `op`, `bytes` (the larger of input and output), `groups` (pairs
    for a permute), `dtype`.
    """

    name: str
    deps: list[int] = field(default_factory=list)
    place: int = 0  # position in program order
    operations: list[int] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    key: str = ""
    aliases: list[tuple[int, int]] = field(default_factory=list)
    scope: int = 0
    op: str = ""
    bytes: int = 0
    groups: list[list[int]] = field(default_factory=list)
    dtype: str = ""


@dataclass(slots=True)
class Split:
    """Parts of a graph in program order, with its operations."""

    flat: Flat
    parts: list[ProgramPart]
    devices: int

    @property
    def segments(self) -> list[ProgramPart]:
        """The parts that compute."""
        return [part for part in self.parts if not part.op]

    @property
    def distinct(self) -> dict[str, ProgramPart]:
        """The first segment of each distinct content."""
        found: dict[str, ProgramPart] = {}
        for part in self.segments:
            found.setdefault(part.key, part)
        return found


def split(graph: Any, devices: int, combine: bool = False) -> Split:
    """Splits a graph of one class of devices at its communications.

    Two operations are in one segment if the same communications come before and after them. Such sets are convex and
    maximal, and a segment waits only for its own inputs. An elementwise operation joins its readers if they are in one
    segment, like fusion in compilers, and this delays no communication.
    """
    flat = flatten(graph)
    found = reach(flat)
    if combine:
        found = combined(flat, found, devices)
    parts, owner = _parts(flat, found, devices)
    for part in parts:
        if not part.op:
            _close(flat, part, owner)
    _narrow(flat, parts, owner)
    _connect(flat, parts, owner)
    written = in_place(flat)
    for part in parts:
        if not part.op:
            part.aliases = _aliases(flat, part, written)
            part.key = _key(flat, part)
    return Split(flat, parts, devices)


def _parts(flat: Flat, found: Reach, devices: int) -> tuple[list[ProgramPart], list[int]]:
    """Parts without dependencies yet, and the part of each operation (−1: a view)."""
    parts: list[ProgramPart] = []
    owner = [-1] * len(flat.operations)
    for group in found.groups:
        for i in group:
            owner[i] = len(parts)
        parts.append(_communication(flat, group, devices))
    known: dict[Any, int] = {}
    keys = _keys(flat, found)
    for i, op in enumerate(flat.operations):
        if op.kind in FREE or op.kind in COMMUNICATION:
            continue
        if keys[i] not in known:
            known[keys[i]] = len(parts)
            parts.append(ProgramPart(_label(flat, op), place=i, scope=op.scope))
        owner[i] = known[keys[i]]
        parts[owner[i]].operations.append(i)
    return parts, owner


def _keys(flat: Flat, found: Reach) -> list[Any]:
    """Returns each operation's segment key; operations with equal keys share a segment."""
    crossed = _crossed(flat)
    keys: list[Any] = [(found.before[i], found.after[i], op.scope, crossed[i]) for i, op in enumerate(flat.operations)]
    read_in: list[set[Any]] = [set() for _ in flat.operations]
    ends = {flat.makers[value] for value in flat.outputs}
    for i in range(len(flat.operations) - 1, -1, -1):
        op = flat.operations[i]
        if op.kind in POINTWISE and len(read_in[i]) == 1 and i not in ends:
            (key,) = read_in[i]
            if key is not None and key[2] == op.scope:
                keys[i] = key
        for value in op.reads:
            if (maker := flat.makers[value]) >= 0:
                if len(read_in[maker]) > 1:  # more readers make no difference
                    continue
                if op.kind in FREE:
                    read_in[maker] |= read_in[i] | ({None} if i in ends else set())
                else:
                    read_in[maker].add(None if op.kind in COMMUNICATION else keys[i])
    return keys


def _crossed(flat: Flat) -> list[int]:
    """Counts the function changes before each operation, because a segment lies within one run of a function."""
    crossed = [0] * len(flat.operations)
    for i, op in enumerate(flat.operations):
        for value in op.reads:
            if (maker := flat.makers[value]) >= 0:
                other = flat.operations[maker].scope != op.scope
                crossed[i] = max(crossed[i], crossed[maker] + other)
    return crossed


def _label(flat: Flat, op: Op) -> str:
    label = flat.scopes[op.scope].label
    return f"{label}/{op.entry['name']}" if label else str(op.entry["name"])


def _communication(flat: Flat, group: list[int], devices: int) -> ProgramPart:
    first = flat.operations[group[0]]
    name = _label(flat, first) + (f" and {len(group) - 1} more" if len(group) > 1 else "")
    return ProgramPart(name, place=min(group), scope=first.scope, op=first.kind,
                bytes=sum(bytes_moved(flat.operations[i].entry) for i in group), operations=list(group),
                dtype=str(first.entry["operands"][0]["dtype"]), groups=groups_of(first.entry, devices))  # fmt: skip


MOST_AGAIN = 32  # most operations recomputed per value


def _close(flat: Flat, part: ProgramPart, owner: list[int]) -> None:
    """Adds views, and operations that are cheaper to recompute than to read, to a segment; sets inputs and outputs."""
    inside = set(part.operations)
    known = {value for i in part.operations for value in flat.operations[i].reads}
    waiting = list(part.operations)
    while waiting:
        for value in flat.operations[waiting.pop()].reads:
            maker = flat.makers[value]
            if maker < 0 or maker in inside or flat.operations[maker].scope != part.scope:
                continue
            op = flat.operations[maker]
            if op.kind in FREE and op.kind != "device_index":
                inside.add(maker)
                known.update(op.reads)
                waiting.append(maker)
            elif op.kind in POINTWISE and owner[maker] != owner[part.operations[0]]:
                again = _recomputed(flat, value, part.scope, known)
                waiting += again - inside
                inside |= again
                known.update(one for i in again for one in flat.operations[i].reads)
    part.operations = sorted(inside)
    made = {value for i in part.operations for value in flat.operations[i].writes}
    read = [value for i in part.operations for value in flat.operations[i].reads]
    part.inputs = list(dict.fromkeys(value for value in read if value not in made))
    part.outputs = sorted(made)


def _recomputed(flat: Flat, value: int, scope: int, computed: set[int]) -> set[int]:
    """Returns elementwise operations that recompute a value from fewer new bytes than it has; else an empty set."""
    found: set[int] = set()
    leaves: set[int] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        maker = flat.makers[one]
        op = flat.operations[maker] if maker >= 0 else None
        if op is None or op.scope != scope or op.kind not in (*POINTWISE, *FREE) or op.kind == "device_index":
            leaves.add(one)
        elif maker not in found:
            found.add(maker)
            waiting += op.reads
        if len(found) > MOST_AGAIN:
            return set()
    read = sum(bytes_of(flat.values[leaf]) for leaf in leaves if leaf not in computed)
    return found if read < bytes_of(flat.values[value]) else set()


def _narrow(flat: Flat, parts: list[ProgramPart], owner: list[int]) -> None:
    """Removes each segment's outputs without readers, and the operations that no output needs."""
    wanted = {*flat.outputs}
    wanted.update(value for part in parts for value in part.inputs)
    wanted.update(value for part in parts if part.op for i in part.operations for value in flat.operations[i].reads)
    read = {value for op in flat.operations for value in op.reads}
    waiting = list(wanted)
    while waiting:  # marks values that are read through views
        maker = flat.makers[waiting.pop()]
        if maker >= 0 and flat.operations[maker].kind in FREE:
            more = [value for value in flat.operations[maker].reads if value not in wanted]
            wanted.update(more)
            waiting += more
    for number, part in enumerate(parts):
        if part.op:
            continue
        own = [i for i in part.operations if owner[i] == number]
        part.outputs = [
            value for i in own for value in flat.operations[i].writes if value in wanted or value not in read
        ]
        needed = set(part.outputs)
        kept = []
        for i in reversed(part.operations):
            if needed.intersection(flat.operations[i].writes):
                needed.update(flat.operations[i].reads)
                kept.append(i)
        part.operations = kept[::-1]
        part.inputs = [value for value in part.inputs if value in needed]


def _connect(flat: Flat, parts: list[ProgramPart], owner: list[int]) -> None:
    """Sets the dependencies of each part: the parts that compute its inputs, seen through views."""
    sources: list[frozenset[int]] = []
    none: frozenset[int] = frozenset()
    for i, op in enumerate(flat.operations):
        if owner[i] >= 0:
            sources.append(frozenset((owner[i],)))
            continue
        found = [sources[flat.makers[value]] for value in op.reads if flat.makers[value] >= 0]
        sources.append(found[0] if len(found) == 1 else none.union(*found))
    for number, part in enumerate(parts):
        reads = [value for i in part.operations for value in flat.operations[i].reads] if part.op else part.inputs
        part.deps = sorted(none.union(*[sources[flat.makers[v]] for v in reads if flat.makers[v] >= 0]) - {number})


def _aliases(flat: Flat, part: ProgramPart, written: set[int]) -> list[tuple[int, int]]:
    """Returns (output, input) pairs in which a chain of updates writes an output into an input."""
    found, inside = [], written.intersection(part.operations)
    for number, value in enumerate(part.outputs):
        first = -1
        while (maker := flat.makers[value]) in inside:
            first, value = maker, flat.operations[maker].reads[0]
        if first >= 0 and value in part.inputs:
            found.append((number, first))
    return found


def _key(flat: Flat, part: ProgramPart) -> str:
    inputs = [flat.values[value] for value in part.inputs]
    rows = [flat.operations[i] for i in part.operations]
    ties = [(output, part.inputs.index(flat.operations[i].reads[0])) for output, i in part.aliases]
    return _hash([op.entry for op in rows], [op.reads for op in rows], [op.writes for op in rows],
                 dict(zip(part.inputs, inputs, strict=True)), part.outputs, ties)  # fmt: skip


def content_key(segment: Graph) -> str:
    """Returns a segment's content key in results and tables."""
    core = segment.core
    entries = core.operations()
    made = {one["name"] for entry in entries for one in entry["results"] if one is not None}
    read = [one for entry in entries for one in entry["operands"] if one is not None and one["name"]]
    inputs = {one["name"]: one for one in read if one["name"] not in made}
    reads = [[one["name"] for one in entry["operands"] if one is not None and one["name"]] for entry in entries]
    writes = [[one["name"] for one in entry["results"] if one is not None and one["name"]] for entry in entries]
    return _hash(entries, reads, writes, inputs, [one["name"] for one in core.outputs], core.aliases)


def _hash(entries: Any, reads: Any, writes: Any, inputs: dict[Any, Any], outputs: Any, aliases: Any) -> str:
    names: dict[Any, str] = {}
    for number, (value, tensor) in enumerate(inputs.items()):
        names[value] = f"in{number}:{tensor['dtype']}{list(tensor['shape'])}"
    rows: list[Any] = []
    for number, (entry, read, write) in enumerate(zip(entries, reads, writes, strict=True)):
        attributes = {} if entry["kind"] == "constant" else entry["attributes"]
        results = [(one["dtype"], list(one["shape"])) for one in entry["results"] if one is not None]
        rows.append((entry["kind"], attributes, entry["functions"], [names[value] for value in read], results))
        names.update({value: f"{number}.{at}" for at, value in enumerate(write)})
    ties = [[list(pair) for pair in aliases]] if aliases else []
    text = json.dumps([rows, [names[value] for value in outputs], *ties], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def graph_of(split: Split, part: ProgramPart) -> Graph:
    """Extracts a segment as a separate graph."""
    flat = split.flat
    entries = [flat.operations[i].entry for i in part.operations]
    made = {one["name"] for entry in entries for one in entry["results"] if one is not None}
    read = [one["name"] for entry in entries for one in entry["operands"] if one is not None and one["name"]]
    inputs = list(dict.fromkeys(name for name in read if name not in made))
    outputs = [flat.values[value]["name"] for value in part.outputs]
    core = flat.scopes[part.scope].parts.extract([entry["name"] for entry in entries], inputs, outputs)
    if part.aliases:
        data = json.loads(core.to_json())
        entry = next(function for function in data["functions"] if function["name"] == core.main)
        names = [(output, flat.operations[i].entry["operands"][0]["name"]) for output, i in part.aliases]
        entry["aliases"] = [{"output": output, "input": inputs.index(name)} for output, name in names]
        core = _core.Graph.from_json(json.dumps(data))
    return Graph(core)
