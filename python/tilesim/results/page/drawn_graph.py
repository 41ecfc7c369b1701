"""Draws the graph of kernels with repeated layers folded, coloured by share of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from ...base import figures
from ...base.errors import Error
from ...base.folding import pattern
from ...base.palette import BLUE
from ...base.view import Notes, Picture, Section
from ...base.view.elements import picks

__all__ = ["graph_data", "graph_section"]

NODES = 160
NO_GRAPH = "This result has no graph. Write the page where the result is simulated."
_FOCUS = ' tabindex="0" role="button"'
_WIDE, _HIGH, _ACROSS, _DOWN = 190, 38, 16, 30


class _Cluster:
    """The folded kernels of one function: nodes in program order, and dependences as arrows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cycles: dict[str, int] = {}
        self.members: dict[str, list[int]] = {}  # node -> indices of the result's operations
        self.arrows: set[tuple[str, str]] = set()

    def add(self, node: str, cycles: int, places: Sequence[int] = ()) -> None:
        self.cycles[node] = self.cycles.get(node, 0) + cycles
        self.members.setdefault(node, []).extend(places)

    def ranks(self) -> dict[str, int]:
        """Returns each node's longest path in arrows; ignores backward arrows, which close a loop of layers."""
        order = {node: i for i, node in enumerate(self.cycles)}
        rank = dict.fromkeys(order, 0)
        into: dict[str, list[str]] = {}
        for a, b in self.arrows:
            if order[a] < order[b]:
                into.setdefault(b, []).append(a)
        for node in order:
            rank[node] = max((rank[a] + 1 for a in into.get(node, ())), default=0)
        return rank


def _kernels(result: Any, program: Any) -> Iterable[tuple[str, int, tuple[str, ...]]]:
    """Yields function, index in the result's operations, and operations of every executed kernel."""
    rows: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    for place, row in enumerate(result.data["operations"]):
        rows.setdefault((row["name"], tuple(row["operation"])), []).append(place)
    for found in rows.values():
        found.reverse()
    for function, name, operations in program.kernels:
        if left := rows.get((name, tuple(operations))):
            yield function, left.pop(), tuple(operations)


def _clusters(result: Any, program: Any) -> list[_Cluster]:
    prepared = program.prepared
    clusters: dict[str, _Cluster] = {}
    owners: dict[str, dict[str, str]] = {}
    for function, place, operations in _kernels(result, program):
        row = result.data["operations"][place]
        cluster = clusters.setdefault(function, _Cluster(function))
        node = pattern(row["name"])
        cluster.add(node, row["exclusive"], [place])
        own = owners.setdefault(function, {})
        for operation in operations:
            own.setdefault(operation, node)
        own[operations[-1] if operations else row["name"]] = node
    total = {name: sum(cluster.cycles.values()) for name, cluster in clusters.items()}
    main = prepared.main if isinstance(prepared.main, str) else "main"
    for function in prepared.functions:
        text = "" if function == main else function
        if text and text not in clusters:
            continue
        cluster = clusters.setdefault(text, _Cluster(text))
        makers: dict[str, set[str]] = {}
        own = owners.get(text, {})
        for row in prepared.operations(function):
            called = [name for name in row["functions"] if name in total]
            node = own.get(row["name"], "")
            if called and not node:
                node = f"{pattern(row['name'] + '.')[:-1]} → {', '.join(called)}"
                cluster.add(node, 0)
            before = {maker for one in row["operands"] for maker in makers.get(one["name"], ())}
            if node:
                cluster.arrows |= {(maker, node) for maker in before if maker != node}
                before = {node}
            for one in row["results"]:
                makers[one["name"]] = before
        for node in cluster.cycles:
            if "→" in node:
                cluster.cycles[node] = sum(total[name] for name in node.rpartition("→ ")[2].split(", "))
    return [cluster for cluster in clusters.values() if cluster.cycles]


def _read(functions: Sequence[Mapping[str, Any]]) -> list[_Cluster]:
    """Reads clusters from the data of `graph_data`."""
    found = []
    for function in functions:
        cluster = _Cluster(function["name"])
        names = [box["name"] for box in function["boxes"]]
        for box in function["boxes"]:
            cluster.add(box["name"], box["cycles"], box["kernels"])
        cluster.arrows = {(names[a], names[b]) for a, b in function["arrows"]}
        found.append(cluster)
    return found


def graph_data(result: Any, program: Any) -> dict[str, Any]:
    """Collects the data of the drawn graph; repeated layers are one box."""
    if program is None or getattr(program, "graph", None) is None:
        return {"why": NO_GRAPH}
    if program.placement.rows:
        return {"why": "The graph is not drawn because the host runs a part of the program."}
    try:
        clusters = _clusters(result, program)
    except Error as error:
        return {"why": f"The graph is not drawn: {error}"}
    nodes = sum(len(cluster.cycles) for cluster in clusters)
    if not nodes:
        return {"why": "No kernel ran."}
    if nodes > NODES:
        return {"why": f"The graph is not drawn: {nodes:,} boxes after folding, more than {NODES}."}
    functions = []
    for cluster in clusters:
        at = {node: i for i, node in enumerate(cluster.cycles)}
        boxes = [{"name": node, "cycles": cycles, "kernels": cluster.members[node]}
                 for node, cycles in cluster.cycles.items()]  # fmt: skip
        arrows = sorted([at[a], at[b]] for a, b in cluster.arrows)
        functions.append({"name": cluster.name, "boxes": boxes, "arrows": arrows})
    return {"functions": functions}


def _boxes(cluster: _Cluster, whole: int, left: float, places_of: Sequence[int]) -> tuple[list[str], float, float]:
    """Draws the boxes and arrows of a cluster; returns its width and height."""
    rows: dict[int, list[str]] = {}
    for node, rank in cluster.ranks().items():
        rows.setdefault(rank, []).append(node)
    wide = max(len(row) for row in rows.values()) * (_WIDE + _ACROSS) + _ACROSS
    places: dict[str, tuple[float, float]] = {}
    for rank, row in rows.items():
        start = left + (wide - len(row) * (_WIDE + _ACROSS) + _ACROSS) / 2
        for i, node in enumerate(row):
            places[node] = (start + i * (_WIDE + _ACROSS), 30 + rank * (_HIGH + _DOWN))
    parts = [f'<text x="{left + wide / 2:.0f}" y="16" text-anchor="middle">{escape(cluster.name or "main")}</text>']
    for a, b in sorted(cluster.arrows):
        (xa, ya), (xb, yb) = places[a], places[b]
        if yb > ya:
            x0, y0, x1, y1 = xa + _WIDE / 2, ya + _HIGH, xb + _WIDE / 2, yb
            bend = (y1 - y0) / 2
            way = f"M{x0:.0f} {y0:.0f}C{x0:.0f} {y0 + bend:.0f} {x1:.0f} {y1 - bend:.0f} {x1:.0f} {y1:.0f}"
            parts.append(f'<path class="edge" marker-end="url(#arrow)" d="{way}"/>')
    for node, (x, y) in places.items():
        share = cluster.cycles[node] / whole
        members = [places_of[place] for place in cluster.members[node]]
        times = f" ({len(members)})" if len(members) > 1 else ""
        tip = f"{node}{times}: {figures.count(cluster.cycles[node])} cycles, {figures.percent(share)}"
        place = f'x="{x:.0f}" y="{y}" width="{_WIDE}" height="{_HIGH}"'
        fill = f'fill="{BLUE}" fill-opacity="{0.06 + 0.8 * min(1.0, share * 2.5):.2f}"'
        words = escape(figures.short(node, 26) + times)
        parts.append(
            f"<g{picks('operations', members, node)}{_FOCUS if members else ''}><title>{escape(tip)}</title>"
            f'<rect class="node" {place} rx="4" {fill} stroke="currentColor" stroke-opacity=".35"/>'
            f'<text x="{x + _WIDE / 2:.0f}" y="{y + 16}" text-anchor="middle">{words}</text>'
            f'<text x="{x + _WIDE / 2:.0f}" y="{y + 31}" text-anchor="middle">{figures.percent(share)}</text></g>'
        )
    return parts, wide, 30 + (max(rows) + 1) * (_HIGH + _DOWN)


def graph_section(result: Any, data: Mapping[str, Any], places: Sequence[int]) -> Section:
    """Draws the graph of kernels."""
    if result.data["source"] != "engine":
        return Section("", [])
    if "why" in data:
        return Section("Graph", [Notes([data["why"]])], "graph")
    clusters = _read(data["functions"])
    nodes = sum(len(cluster.cycles) for cluster in clusters)
    parts, left, high = [], 0.0, 0.0
    for cluster in clusters:
        drawn, wide, tall = _boxes(cluster, max(1, result.cycles), left, places)
        parts += drawn
        left, high = left + wide + 24, max(high, tall)
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    )
    arrow += '<path d="M0 0L8 4L0 8z" fill="currentColor" fill-opacity=".5"/></marker></defs>'
    head = f'<svg class="own" width="{left:.0f}" height="{high:.0f}" role="group" aria-label="graph">'
    said = f"Kernels: {len(result.data['operations']):,}, boxes: {nodes:,}; repeated layers are folded, a function is "
    said += "drawn once. Darker boxes take more time. Click a box for an explanation."
    return Section("Graph", [Picture(f"{head}{arrow}{''.join(parts)}</svg>", said)], "graph")
