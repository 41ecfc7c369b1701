"""From shardings to a program of several devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from ..base.arguments import unused
from ..base.checked import checked
from ..base.collecting import heard
from ..base.errors import nearest, shown, user_error
from ..graph.graph import Graph
from .spmd import Spmd, drawn_as, needs_partitioning

__all__ = ["partition", "partition_rules", "spread_shardings"]

BY = ("own", "shardy", "xla")


@checked()
@heard
def partition(
    graph: Graph,
    mesh: str | Mapping[str, int] | None = None,
    shardings: Mapping[str, Any] | None = None,
    by: str = "own",
) -> Spmd:
    """The program of each device of a graph for several.

    Shardings spread along the axes that operations share; where an operand is divided otherwise than its operation uses
    it, the moves that send the fewest bytes are put in. `records` of the program says why each is there.

    Args:
        graph: of whole tensors, or of a module that is partitioned already.
        mesh: devices in named axes, {"x": 2, "y": 4} or "x=2, y=4"; the graph's own by default.
        shardings: by name of a value of the entry function ("function:value" elsewhere), beside those of the graph: per
            axis the mesh axes that divide it, ("x", None, ("y", "z")), further axes whole; or Shardy's text,
            '[{"x"}, {}, {"y", "z", ?}]'.
            Values that are named by nobody are divided as the others suggest.
        by: who divides. "own": this library. "shardy": Shardy's propagation (of jaxlib) over the rules of our kinds,
            then our own moves. "xla": XLA's SPMD partitioner (of jaxlib), which compiles the module that the graph was
            read from, with the shardings of that module, and those given here of inputs and outputs.

    Returns:
        The program, with its collectives.

    Raises:
        UserError: for a graph of one device, a mesh or shardings that do not fit (unknown value or axis, another rank,
            an axis used twice); naming what to install where jaxlib is missing; by="xla" for a graph that no module is
            known of, or with `shardings` of values inside.
        Unsupported: where Shardy or XLA refuses, with its words.
    """
    if by not in BY:
        raise user_error(
            "unknown partitioner", value=f"'{by}'", allowed=", ".join(BY), suggestion=nearest(by, list(BY))
        )
    ranks = _ranks(graph) if shardings else {}
    named = {name: _text(name, given, ranks.get(name, 0)) for name, given in (shardings or {}).items()}
    if by == "xla":
        from .partitioners.xla import partition_by_xla

        return partition_by_xla(graph, None if mesh is None else _mesh_text(mesh), named)
    if mesh is None and not named and not needs_partitioning(graph):
        unused("nothing of the graph is left to divide", "own, or a mesh and shardings", by=(by, "own"))
        return Spmd.from_partitioned(graph)
    core = graph.core.copy()
    if mesh is not None or named:
        core.annotate(None if mesh is None else _mesh_text(mesh), named)
    if core.mesh is None:
        raise user_error("shardings need a mesh", place=f"graph '{graph.name}'", allowed='mesh={"x": 2, "y": 4}')
    if by == "shardy":
        from .partitioners.shardy import spread_by_shardy

        core = spread_by_shardy(core)
    whole = Graph(core)
    local, inputs, outputs, records = _core.partition_graph(core)
    made = Graph(local)
    made.defaults.update(graph.defaults)
    found = Spmd(
        [made],
        local.devices,
        mesh=local.mesh or "",
        inputs=drawn_as(graph, [_divided(row) for row in inputs]),
        outputs=[_divided(row) for row in outputs],
        records=records,
    )
    found.source = whole, by
    return found


def partition_rules(graph: Graph) -> dict[str, tuple[str, list[str]]]:
    """How each operation of a graph may be divided."""
    return dict(_core.partition_rules(graph.core))


def spread_shardings(graph: Graph, by: str = "own") -> dict[str, str]:
    """How each value of a graph is divided once the given shardings have spread."""
    if by not in BY[:2]:
        raise user_error("unknown propagation", value=f"'{by}'", allowed=", ".join(BY[:2]))
    if by == "own":
        return dict(_core.spread_graph(graph.core).shardings)
    from .partitioners.shardy import spread_by_shardy

    return dict(spread_by_shardy(graph.core).shardings)


def _divided(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "shape": list(row["shape"]), "view": "divided" if row["shape"] else "whole"}


def _mesh_text(mesh: str | Mapping[str, int]) -> str:
    if isinstance(mesh, str):
        return mesh
    return ", ".join(f"{name}={size}" for name, size in mesh.items())


def _ranks(graph: Graph) -> dict[str, int]:
    rows = [*graph.inputs, *graph.outputs]
    for entry in graph.core.operations(""):
        rows += entry["results"]
    return {row["name"]: len(row["shape"]) for row in rows}


def _text(name: str, given: Any, rank: int) -> str:
    """A sharding as Shardy's text; axes that it does not name are whole."""
    if given is None or isinstance(given, str):
        return given or ""
    allowed = "('x', None, ('y', 'z')) or '[{\"x\"}, {}, {\"y\", \"z\"}]'"
    if not isinstance(given, Sequence):
        raise user_error("this is no sharding", place=f"shardings['{name}']", value=repr(given), allowed=allowed)
    parts = []
    for axis in [*given, *[None] * (rank - len(given))]:
        names = [] if axis is None else [axis] if isinstance(axis, str) else axis
        if not isinstance(names, Sequence) or not all(isinstance(part, str) for part in names):
            raise user_error("this is no axis of a mesh", place=f"shardings['{name}']", value=shown(axis),
                             allowed=allowed)  # fmt: skip
        parts.append("{" + ", ".join(f'"{part}"' for part in names) + "}")
    return "[" + ", ".join(parts) + "]"
