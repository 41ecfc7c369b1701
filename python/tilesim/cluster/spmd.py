"""Programs for several devices, with their communication."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _core
from ..base.checked import checked_class
from ..base.errors import path_text, placed, shown, user_error
from ..base.files import Saved, read_json
from ..base.table import Table
from ..graph.devices import collectives, mesh_devices
from ..graph.graph import Graph

__all__ = ["Spmd"]

SCHEMA = "tilesim.spmd"
VERSION = 1
MAX_BYTES = 1 << 30  # largest size of a file
BORDERS = ("full_to_shard", "shard_to_full")
VIEWS = ("divided", "whole", "own")
PRINTED_GROUPS = 4  # number of groups that a printed row shows

Border = dict[str, Any]  # name, dtype, shape (of the full tensor), view: "divided", "whole" or "own"; sharding


@checked_class()
class Spmd(Saved):
    """A program of several devices: a graph per device class with collective operations and local shapes.

    Inputs and outputs each have a `view`. "divided": one global tensor, sharded over devices. "whole": all devices have
    the same tensor. "own": each device has a different tensor. An input with a `weight` is a sharded constant of the
    graph; `range` is the range of a random integer input.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        devices: int,
        *,
        classes: Sequence[Sequence[int]] | None = None,
        mesh: str = "",
        inputs: Sequence[Border] | None = None,
        outputs: Sequence[Border] | None = None,
        records: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Stores the program."""
        self.graphs, self.devices, self.mesh = list(graphs), int(devices), mesh
        self.classes = [list(part) for part in classes] if classes is not None else [list(range(self.devices))]
        self.records = [dict(record) for record in records]
        #: the global graph and the partitioner, or None if unknown
        self.source: tuple[Graph, str] | None = None
        if sorted(device for part in self.classes for device in part) != list(range(self.devices)):
            raise user_error(
                "the classes do not cover all devices", value=str(self.classes)[:200], allowed=f"0 .. {devices - 1}"
            )
        if len(self.classes) != len(self.graphs):
            raise user_error(
                "each device class needs one graph", value=f"{len(self.graphs)} graphs for {len(self.classes)}"
            )
        own = [[{**row, "view": "own"} for row in rows] for rows in (self.graphs[0].inputs, self.graphs[0].outputs)]
        self.inputs = [dict(row) for row in (own[0] if inputs is None else inputs)]
        self.outputs = [dict(row) for row in (own[1] if outputs is None else outputs)]
        for what, given, rows in (("inputs", self.inputs, own[0]), ("outputs", self.outputs, own[1])):
            if len(given) != len(rows):
                raise user_error(f"a wrong number of {what}", value=str(len(given)), allowed=str(len(rows)))

    @property
    def graph(self) -> Graph:
        """The graph of device 0's class."""
        return self.graphs[next(i for i, part in enumerate(self.classes) if 0 in part)]

    @property
    def name(self) -> str:
        """Name of the graph."""
        return self.graph.name

    def __repr__(self) -> str:
        """Number of devices and of collectives."""
        return f'<Spmd "{self.name}": {self.devices} devices, {len(self.collectives())} collectives>'

    @classmethod
    def from_partitioned(cls, graph: Graph) -> Spmd:
        """Builds a program from a module that is already partitioned, or has manual regions of local tensors.

        Args:
            graph: for several devices, with collectives. With a `shard_map`, inputs and outputs are global on every
                device; otherwise shapes are local, and an input or output with a sharding is a shard of a global
                tensor.

        Returns:
            The program.

        Raises:
            UserError: for a graph of one device.
        """
        devices = max(graph.devices, 1)
        if devices == 1:
            raise user_error(
                "the graph is for one device", place=f"graph '{graph.name}'", allowed="collectives, a mesh"
            )
        whole = any(name.startswith(BORDERS) for name in graph.functions) or (
            bool(graph.shardings) and not communicates(graph)
        )
        said = {} if whole else graph.shardings
        borders = [
            [_border(row, graph.mesh or "", said.get(row["name"], ""), whole) for row in rows]
            for rows in (graph.inputs, graph.outputs)
        ]
        return cls([graph], devices, mesh=graph.mesh or "", inputs=borders[0], outputs=borders[1])

    def collectives(self) -> Table:
        """Tabulates the communication between devices.

        Returns:
            Rows with operation, kind, count (calls, including loop trips, function calls, the costliest branch),
            devices (of a group), groups (of a permute: pairs of source and target), bytes_in, bytes_out and wire_bytes
            (per device and call: 2(n−1)/n of all_reduce's tensor, (n−1)/n of the larger one of a gather, scatter or
            all_to_all, all bytes of a permute).
        """
        rows = [row for graph in self.graphs for row in collectives(graph.core)]
        return Table(rows, _printed, empty="no communication between devices")

    def to_dict(self) -> dict[str, Any]:
        """Graphs by device class, with inputs and outputs.

        Returns:
            A dict for JSON, schema "tilesim.spmd".
        """
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "devices": self.devices,
            "mesh": self.mesh,
            "classes": self.classes,
            "inputs": [_border_row(row) for row in self.inputs],
            "outputs": [_border_row(row) for row in self.outputs],
            "records": self.records,
            "graphs": [graph.to_dict() for graph in self.graphs],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Spmd:
        """Reads the dict of `to_dict`.

        Args:
            value: a dict of schema "tilesim.spmd".

        Returns:
            The program.

        Raises:
            UserError: for a value with another schema.
        """
        if not isinstance(value, Mapping) or value.get("schema") != SCHEMA:
            raise user_error("not a program of several devices", allowed=f'"schema": "{SCHEMA}"')
        if value.get("version") != VERSION:
            raise user_error("unknown version", place="version", value=str(value.get("version")), allowed=str(VERSION))
        known = {"schema", "version", "devices", "mesh", "classes", "inputs", "outputs", "records", "graphs"}
        if unknown := set(value) - known:
            raise user_error("unknown members", value=", ".join(sorted(unknown)), allowed=", ".join(sorted(known)))
        if missing := known - set(value):
            raise user_error("members are missing", value=", ".join(sorted(missing)))
        _check_parts(value)
        graphs = [Graph.from_dict(graph) for graph in value["graphs"]]
        names = ("classes", "mesh", "inputs", "outputs", "records")
        return cls(graphs, value["devices"], **{name: value[name] for name in names})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Spmd:
        """Reads a file of `save`.

        Args:
            path: path of the file.

        Returns:
            The program.

        Raises:
            UserError: for an invalid file.
        """
        with placed(path_text(path)):
            return cls.from_dict(read_json(path, limit=MAX_BYTES))


def communicates(graph: Graph) -> bool:
    """Whether devices can have different values: the graph has collectives or reads the device's index."""
    return any(entry["kind"] == "device_index" or not entry["functions"] for name in graph.functions
               for entry in graph.core.communications(name))  # fmt: skip


def needs_partitioning(graph: Graph) -> bool:
    """Whether a graph needs partitioning: it has shardings besides those of inputs and outputs of a partitioned one."""
    if not graph.shardings or mesh_devices(graph.core) == 1:
        return False
    if not communicates(graph):
        return True
    border = {row["name"] for row in [*graph.inputs, *graph.outputs]}
    return any(name not in border for name in graph.shardings)


def drawn_as(graph: Graph, rows: list[Border]) -> list[Border]:
    """Adds the global graph's ranges of random integers to rows of inputs."""
    spans = dict(enumerate(_core.random_ranges(graph.core)))
    return [
        {**row, "range": list(spans[i])} if i in spans and row["dtype"][0] in "iu" else row
        for i, row in enumerate(rows)
    ]


def _border(row: dict[str, Any], mesh: str, sharding: str, whole: bool) -> Border:
    made: Border = {**row, "shape": list(row["shape"]), "view": "whole" if whole else "own"}
    if sharding:
        counts, _ = _core.sharding_division(sharding, mesh)
        made |= {"view": "divided", "sharding": sharding}
        made["shape"] = [extent * count for extent, count in zip(row["shape"], counts, strict=True)]
    return made


def _check_parts(data: Mapping[str, Any]) -> None:
    """Checks the lists of a file, and its rows of inputs and outputs."""
    for key in ("graphs", "classes", "inputs", "outputs", "records"):
        if not isinstance(data[key], list):
            raise user_error("not a list", place=key, value=shown(data[key]), allowed="a list")
    for key in ("inputs", "outputs"):
        for number, row in enumerate(data[key]):
            for name, good, allowed in _ROW:
                if not isinstance(row, dict) or not good(row.get(name)):
                    value = shown(row.get(name) if isinstance(row, dict) else row)
                    raise user_error("invalid value in a row", place=f"{key}[{number}].{name}", value=value,
                                     allowed=allowed)  # fmt: skip
            if row["view"] == "divided" and not isinstance(row.get("sharding"), str):
                raise user_error("missing sharding of a sharded tensor", place=f"{key}[{number}].sharding",
                                 value=shown(row.get("sharding")), allowed="a string")  # fmt: skip


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


#: columns of a row in a file: name, test, allowed values
_ROW: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("name", _is_text, "a string"),
    ("dtype", _is_text, "a string"),
    ("shape", lambda value: isinstance(value, list) and all(type(n) is int and n >= 0 for n in value), "extents"),
    ("view", lambda value: isinstance(value, str) and value in VIEWS, '"divided", "whole", "own"'),
)


def _border_row(row: Border) -> Border:
    return {**row, "shape": list(row["shape"])}


def _printed(rows: list[dict[str, Any]]) -> Any:
    from ..base.table import keyed

    def text(groups: list[list[int]]) -> str:
        parts = [",".join(map(str, group[:8])) + (",.." if len(group) > 8 else "") for group in groups[:PRINTED_GROUPS]]
        return " ".join(f"[{part}]" for part in parts) + (f" .. {len(groups)}" if len(groups) > PRINTED_GROUPS else "")

    return keyed([{**row, "groups": text(row["groups"])} for row in rows])
