"""The smallest cut of a graph whose edges have integer capacities (Dinic 1970: shortest augmenting paths in phases)."""

from __future__ import annotations

from collections import deque

__all__ = ["MinCut"]


class MinCut:
    """Nodes are numbers; edges have capacities; the cut separates a source from a sink."""

    def __init__(self, nodes: int) -> None:
        """A graph without edges.

        Args:
            nodes: number of nodes.
        """
        self._from: list[list[int]] = [[] for _ in range(nodes)]
        self._to: list[int] = []
        self._left: list[int] = []

    def edge(self, a: int, b: int, capacity: int) -> None:
        """Adds an edge.

        Args:
            a: where it starts.
            b: where it ends.
            capacity: what cutting it costs, when `a` lies on the source's side and `b` on the sink's.
        """
        for start, end, left in ((a, b, capacity), (b, a, 0)):
            self._from[start].append(len(self._to))
            self._to.append(end)
            self._left.append(left)

    def source_side(self, source: int, sink: int) -> set[int]:
        """The source's side of a smallest cut; of several the one with the most nodes.

        Args:
            source: a node.
            sink: another.

        Returns:
            Its nodes: those from which the sink can no longer be reached.
        """
        while (level := self._levels(source, sink)) is not None:
            following = [0] * len(self._from)
            while self._augment(source, sink, level, following):
                pass
        return self._not_reaching(sink)

    def _levels(self, source: int, sink: int) -> list[int] | None:
        level = [-1] * len(self._from)
        level[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self._from[node]:
                if self._left[edge] and level[self._to[edge]] < 0:
                    level[self._to[edge]] = level[node] + 1
                    queue.append(self._to[edge])
        return level if level[sink] >= 0 else None

    def _augment(self, source: int, sink: int, level: list[int], following: list[int]) -> int:
        """Sends what one path of the level graph takes; 0 when none is left."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self._from[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                if self._left[edge] and level[self._to[edge]] == level[node] + 1:
                    break
                following[node] += 1
            if following[node] < len(edges):
                path.append(edge)
                node = self._to[edge]
            elif not path:
                return 0
            else:  # a dead end: one step back
                node = self._to[path.pop() ^ 1]
                following[node] += 1
        sent = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= sent
            self._left[edge ^ 1] += sent
        return sent

    def _not_reaching(self, sink: int) -> set[int]:
        reaching = {sink}
        queue = deque([sink])
        while queue:
            node = queue.popleft()
            for edge in self._from[node]:
                if self._left[edge ^ 1] and self._to[edge] not in reaching:
                    reaching.add(self._to[edge])
                    queue.append(self._to[edge])
        return set(range(len(self._from))) - reaching
