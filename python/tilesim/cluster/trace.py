"""Traces: compute, communication and dependences of each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..base.arguments import integer
from ..base.checked import checked
from ..base.errors import listed, nearest, shown, user_error

__all__ = ["COLLECTIVES", "KINDS", "Trace", "TraceClass", "TraceNode", "fsdp_trace"]

KINDS = ("compute", "collective", "send", "recv", "memory", "none")
#: operations that a collective node may have
COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast_devices"),
    *("reduce", "gather", "scatter", "barrier"),
)


@dataclass(slots=True)
class TraceNode:
    """One node of a device's trace.

    `deps` are ids of nodes of the same device. `duration_ps` is the time of a compute or memory node; for a
    collective the recorded one, used only for operations without a network model. `bytes` of a collective is the larger
    of a device's input and output; of a send or receive, the message size. `group` names a kind of groups (see
    `Trace.groups`); "" is all devices. `peers` are the communication partners of each device of the class.
    `attributes` (numbers, strings, flags, bytes or lists) are written to files. `stream` serializes collectives and
    messages; "": one stream per kind of groups, one for messages.
    """

    id: int
    name: str
    kind: str
    deps: Sequence[int] = ()
    duration_ps: int = 0
    bytes: int = 0
    group: str = ""
    op: str = ""
    peers: Sequence[int] = ()
    tag: int = 0
    attributes: dict[str, Any] = field(default_factory=dict)
    stream: str = ""


@dataclass(slots=True)
class TraceClass:
    """Devices with equal traces; `source` names the file."""

    devices: list[int]
    nodes: list[TraceNode]
    source: str = ""


@dataclass(slots=True)
class Trace:
    """The trace of all devices.

    `groups` has lists of devices by kind; a device is in at most one list per kind. `notes` are assumptions of the
    reader.
    """

    name: str
    devices: int
    classes: list[TraceClass]
    groups: dict[str, list[list[int]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def place(self, part: TraceClass, node: TraceNode | None = None) -> str:
        """Describes the place of a node for messages.

        Args:
            part: device class.
            node: a node of the class.

        Returns:
            The text.
        """
        where = part.source or f"trace {self.name}, device {part.devices[0] if part.devices else '?'}"
        return where if node is None else f"{where}: node {node.id} ({node.name})"

    def check(self) -> None:
        """Checks that every device occurs once and every node is complete.

        Raises:
            UserError: naming class and node.
        """
        of_device = [device for part in self.classes for device in part.devices]
        if sorted(of_device) != list(range(self.devices)):
            missing = sorted(set(range(self.devices)) - set(of_device))
            value = f"without {listed(map(str, missing), 8)}" if missing else listed(map(str, of_device), 8)
            raise user_error("each device must occur once in a trace", place=f"trace {self.name}", value=value,
                             allowed=f"0 to {self.devices - 1}")  # fmt: skip
        for kind, groups in self.groups.items():
            members = [device for group in groups for device in group]
            if len(set(members)) != len(members) or not set(members) <= set(range(self.devices)):
                raise user_error("groups of a kind overlap or have unknown devices",
                                 place=f"trace {self.name}, group {kind!r}", value=shown(groups))  # fmt: skip
        for part in self.classes:
            self._check_class(part)

    def _check_class(self, part: TraceClass) -> None:
        known = {node.id for node in part.nodes}
        if len(known) != len(part.nodes):
            raise user_error("two nodes have the same number", place=self.place(part))
        for node in part.nodes:
            place = self.place(part, node)
            if node.kind not in KINDS:
                raise user_error("unknown type of node", place=place, value=shown(node.kind), allowed=", ".join(KINDS),
                                 suggestion=nearest(str(node.kind), KINDS))  # fmt: skip
            if missing := [dep for dep in node.deps if dep not in known]:
                raise user_error("a node depends on an unknown node", place=place, value=str(missing[0]))
            if node.duration_ps < 0 or node.bytes < 0:
                value = f"{node.duration_ps} ps, {node.bytes} bytes"
                raise user_error("negative time or size", place=place, value=value)
            if node.kind == "collective":
                self._check_collective(part, node)
            if node.kind in ("send", "recv"):
                if len(node.peers) != len(part.devices):
                    raise user_error("a send or receive needs one peer per device of its class", place=place,
                                     value=str(len(node.peers)), allowed=str(len(part.devices)))  # fmt: skip
                if away := [peer for peer in node.peers if not 0 <= peer < self.devices]:
                    raise user_error("unknown peer", place=place, value=f"device {away[0]}",
                                     allowed=f"0 to {self.devices - 1}")  # fmt: skip

    def _check_collective(self, part: TraceClass, node: TraceNode) -> None:
        place = self.place(part, node)
        if node.op not in COLLECTIVES:
            raise user_error("unknown collective", place=place, value=shown(node.op), allowed=", ".join(COLLECTIVES),
                             suggestion=nearest(str(node.op), COLLECTIVES))  # fmt: skip
        if not node.group:
            return
        if node.group not in self.groups:
            allowed, near = listed(self.groups) or "no groups", nearest(node.group, self.groups)
            raise user_error("unknown group", place=place, value=node.group, allowed=allowed, suggestion=near)
        members = {device for group in self.groups[node.group] for device in group}
        if away := [device for device in part.devices if device not in members]:
            raise user_error("a device is outside the group of its collective", place=place,
                             value=f"device {away[0]}")  # fmt: skip


@checked()
def fsdp_trace(
    devices: int,
    layers: int,
    *,
    layer_bytes: int,
    forward_ps: int,
    backward_ps: int,
    groups: Sequence[Sequence[int]] | None = None,
) -> Trace:
    """Builds the trace of a step that gathers sharded weights before use and reduce-scatters their gradients.

    Args:
        devices: number of equal devices.
        layers: number of layers, with four nodes each: gather, forward, backward, scatter of gradients.
        layer_bytes: bytes of the weights of a layer.
        forward_ps: picoseconds of a layer's forward pass.
        backward_ps: picoseconds of a layer's backward pass.
        groups: groups of devices that share weights; default: all devices.

    Returns:
        A trace of one device class; gathered weights are kept until the backward pass.
    """
    devices, layers = integer("devices", devices), integer("layers", layers)
    layer_bytes = integer("layer_bytes", layer_bytes, 0)
    forward_ps, backward_ps = integer("forward_ps", forward_ps, 0), integer("backward_ps", backward_ps, 0)
    nodes: list[TraceNode] = []

    def add(name: str, kind: str, deps: list[int], **rest: Any) -> int:
        nodes.append(TraceNode(len(nodes), name, kind, deps, **rest))
        return len(nodes) - 1

    kind = "" if groups is None else "shard"
    last = -1
    for layer in range(layers):
        got = add(f"gather {layer}", "collective", [], op="all_gather", bytes=layer_bytes, group=kind)
        before = [got] if last < 0 else [last, got]
        last = add(f"forward {layer}", "compute", before, duration_ps=forward_ps)
    for layer in reversed(range(layers)):
        last = add(f"backward {layer}", "compute", [last], duration_ps=backward_ps)
        add(f"scatter {layer}", "collective", [last], op="reduce_scatter", bytes=layer_bytes, group=kind)
    named = {} if groups is None else {kind: [list(group) for group in groups]}
    return Trace("fsdp", devices, [TraceClass(list(range(devices)), nodes)], named)
