"""Fuses nodes into kernels, in time proportional to the number of nodes and reads."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from .nodes import KernelNode

__all__ = ["KernelGroup", "grouped"]

EPILOGUES = ("relu", "gelu_tanh")


class KernelGroup:
    """Nodes that run as one kernel: `first` node, `level` (above those of all groups that it reads), `nodes`; `kind`,
    `elements` and `rows` of its loop; `again`: recomputed nodes by written storage."""

    def __init__(self, first: KernelNode, level: int, number: int = 0) -> None:
        """Creates a group of one node."""
        self.first, self.level, self.number = first, level, number
        self.nodes: deque[KernelNode] = deque()
        self.again: dict[str, KernelNode] = {}
        self.kind, self.elements, self.rows = first.kind, first.elements, first.rows
        self.made: dict[str, KernelNode] = {}  # written storage -> node
        self.into: KernelGroup | None = None  # the group into which this group was merged
        self.readers: list[KernelGroup] = []  # other groups that read its results
        self.add(first)

    def add(self, node: KernelNode) -> None:
        """Adds a node."""
        self.nodes.append(node)
        if node.writes is not None:
            self.made[node.writes.base] = node
        if node.kind == "reduction":
            self.kind, self.rows = "library" if self.first.kind == "library" else "reduction", node.rows

    def now(self) -> KernelGroup:
        """Returns the group into which this group was merged, or itself."""
        group = self
        while group.into is not None:
            group = group.into
        while self is not group and self.into is not group:  # shortens the path for later searches
            assert self.into is not None
            self.into, self = group, self.into
        return group

    def unread(self) -> bool:
        """Whether no other group reads this group's results."""
        while self.readers and self.readers[-1].now() is self:
            self.readers.pop()
        return not self.readers


def grouped(nodes: Sequence[KernelNode], xla: bool, around: bool = False) -> list[KernelGroup]:
    """Groups nodes like compilers, which fuse loops over the same elements."""
    groups: list[KernelGroup] = []
    maker: dict[str, KernelGroup] = {}
    readers: dict[str, list[KernelGroup]] = {}
    uses: dict[str, int] = {}
    for node in nodes:
        for view in node.reads:
            uses[view.base] = uses.get(view.base, 0) + 1
    for node in nodes:
        sources = list(dict.fromkeys(maker[view.base].now() for view in node.reads if view.base in maker))
        group = _behind_product(node, sources) if around else None
        group = group or _join(node, sources, readers, xla, uses)
        if group is None:
            group = KernelGroup(node, 1 + max((g.level for g in sources), default=-1), len(groups))
            groups.append(group)
        else:
            # merges the groups that the node reads; groups of one level are independent
            for other in sources:
                if other is not group.now() and other.level == group.level:
                    _merge(group.now(), other)
            group = group.now()
            group.add(node)
        if node.writes is not None:
            maker[node.writes.base] = group
            group.readers += readers.get(node.writes.base, [])
        for view in node.reads:
            readers.setdefault(view.base, []).append(group)
            if view.base in maker and (source := maker[view.base].now()) is not group:
                source.readers.append(group)
    alone = [group for group in groups if group.into is None]
    return sorted(alone, key=lambda group: (group.level, group.number))


def _merge(group: KernelGroup, other: KernelGroup) -> None:
    """Merges two groups of one level, with the nodes of `other` last; moves the smaller group's nodes,
    so that the total cost is nearly linear."""
    small, large = (group, other) if len(group.nodes) < len(other.nodes) else (other, group)
    if small is group:
        large.nodes.extendleft(reversed(group.nodes))
        for base, node in group.made.items():
            large.made.setdefault(base, node)
        large.first, large.number, large.rows = group.first, group.number, group.rows
    else:
        large.nodes.extend(other.nodes)
        large.made.update(other.made)
    large.readers += small.readers
    small.into = large


def _behind_product(node: KernelNode, sources: list[KernelGroup]) -> KernelGroup | None:
    """Finds a product whose epilogue can run the node; the product then waits for all values that the node reads."""
    for group in sources:
        alike = node.elements == group.elements and (node.kind != "reduction" or group.rows in (0, node.rows))
        takes = group.first.activates and node.kind != "library" and alike and group.unread()
        if takes and not _behind_reduction(node, group):
            group.level = max(group.level, *(other.level + 1 for other in sources if other is not group), 0)
            return group
    return None


def _join(
    node: KernelNode,
    sources: list[KernelGroup],
    readers: Mapping[str, list[KernelGroup]],
    xla: bool,
    uses: Mapping[str, int],
) -> KernelGroup | None:
    """Returns the group that the node joins: that of its last producer, else of a reader of the same values."""
    if node.kind == "library":
        return None
    beside = [group.now() for view in node.reads for group in readers.get(view.base, [])[-4:]]
    highest = max((other.level for other in sources), default=-1)
    for group in dict.fromkeys([*sorted(sources, key=lambda g: -g.level), *beside]):
        if group.level < highest:
            continue
        rest = [other for other in sources if other is not group and other.level >= group.level]
        unlike = [other for other in rest if other.level > group.level or not _alike(node, group, other)]
        if unlike and not (xla and all(other.level == group.level for other in unlike) and group.unread()):
            continue
        if group.kind == "library":
            if xla and group in sources and _in_epilogue(node, group, uses):
                return group
        elif _same_elements(node, group) and not (xla and _behind_reduction(node, group)):
            group.level += bool(unlike)  # a group without readers may move above its level
            return group
    return None


def _behind_reduction(node: KernelNode, group: KernelGroup) -> bool:
    """Whether a loop over all elements would read a reduction of the same kernel; in XLA reductions come last."""
    if not group.rows or (node.kind != "reduction" and node.elements == group.rows):
        return False
    sources = [group.made[view.base] for view in node.reads if view.base in group.made]
    return any(part.kind == "reduction" or part.elements != group.elements for part in sources)


def _alike(node: KernelNode, group: KernelGroup, other: KernelGroup) -> bool:
    """Whether two groups of one level are loops over the same elements as the node."""
    return group.kind == other.kind == "pointwise" and group.elements == other.elements == node.elements


def _in_epilogue(node: KernelNode, group: KernelGroup, uses: Mapping[str, int]) -> bool:
    return (
        len(group.nodes) == 1
        and group.first.activates
        and node.function in EPILOGUES
        and len(node.reads) == 1
        and not node.reads[0].turned
        and uses[node.reads[0].base] == 1
    )


def _same_elements(node: KernelNode, group: KernelGroup) -> bool:
    """Whether one loop can run node and group; a reduction's result needs a loop in its order."""
    for view in node.reads:
        if view.base in group.made and group.kind == "reduction" and view.turned:
            return False
    if node.kind == "reduction":
        return node.elements == group.elements and (group.kind != "reduction" or group.rows == node.rows)
    if group.kind == "reduction" and node.elements == group.rows:
        return all(view.base in group.made or math.isclose(view.elements, group.rows) for view in node.reads)
    return node.elements == group.elements
