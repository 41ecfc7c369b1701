"""Partitions a sharded graph over devices."""

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
    """Partitions a graph into a program per device.

    Shardings propagate along shared axes of operations; if an operand's sharding differs from its use, a resharding
    with the fewest bytes is inserted. `records` of the program states the reason of each.

    Args:
        graph: a graph of global tensors, or of a partitioned module.
        mesh: devices in named axes, {"x": 2, "y": 4} or "x=2, y=4"; by default the graph's mesh.
        shardings: additional shardings by value name in the entry function ("function:value" elsewhere): mesh
            axes that shard each axis, ("x", None, ("y", "z")), with further axes unsharded; or Shardy's text,
            '[{"x"}, {}, {"y", "z", ?}]'. Other values get propagated shardings.
        by: the partitioner. "own": Tilesim's. "shardy": Shardy's propagation (of jaxlib) with Tilesim's rules and
            resharding. "xla": XLA's SPMD partitioner (of jaxlib) on the module that the graph was read from, with the
            module's shardings and the given ones of inputs and outputs.

    Returns:
        The program, with its collectives.

    Raises:
        UserError: for a graph of one device, an invalid mesh or sharding (unknown value or axis, wrong rank, an axis
            used twice), or missing jaxlib; by="xla" for a graph without its module, or with `shardings` of inner
            values.
        Unsupported: if Shardy or XLA rejects the graph, with its message.
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
        unused("the graph is partitioned already", "by='own', or with mesh= and shardings=", by=(by, "own"))
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
        inputs=drawn_as(graph, [_sharded_row(row) for row in inputs]),
        outputs=[_sharded_row(row) for row in outputs],
        records=records,
    )
    found.source = whole, by
    return found


def partition_rules(graph: Graph) -> dict[str, tuple[str, list[str]]]:
    """Returns the sharding rule of each operation of a graph."""
    return dict(_core.partition_rules(graph.core))


def spread_shardings(graph: Graph, by: str = "own") -> dict[str, str]:
    """Returns the shardings of all values after propagation, by name."""
    if by not in BY[:2]:
        raise user_error("unknown propagation", value=f"'{by}'", allowed=", ".join(BY[:2]))
    if by == "own":
        return dict(_core.spread_graph(graph.core).shardings)
    from .partitioners.shardy import spread_by_shardy

    return dict(spread_by_shardy(graph.core).shardings)


def _sharded_row(row: dict[str, Any]) -> dict[str, Any]:
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
    """Writes a sharding as Shardy's text; axes that are not named are unsharded."""
    if given is None or isinstance(given, str):
        return given or ""
    allowed = "('x', None, ('y', 'z')) or '[{\"x\"}, {}, {\"y\", \"z\"}]'"
    if not isinstance(given, Sequence):
        raise user_error("not a sharding", place=f"shardings['{name}']", value=repr(given), allowed=allowed)
    parts = []
    for axis in [*given, *[None] * (rank - len(given))]:
        names = [] if axis is None else [axis] if isinstance(axis, str) else axis
        if not isinstance(names, Sequence) or not all(isinstance(part, str) for part in names):
            raise user_error("not an axis of the mesh", place=f"shardings['{name}']", value=shown(axis),
                             allowed=allowed)  # fmt: skip
        parts.append("{" + ", ".join(f'"{part}"' for part in names) + "}")
    return "[" + ", ".join(parts) + "]"
