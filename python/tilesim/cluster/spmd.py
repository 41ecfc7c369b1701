"""One program for several devices, with what passes between them."""

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
MAX_BYTES = 1 << 30  # of a file
BORDERS = ("full_to_shard", "shard_to_full")
VIEWS = ("divided", "whole", "own")
SHOWN = 4  # groups in a printed row

Border = dict[str, Any]  # name, dtype, shape (of the whole tensor), view: "divided", "whole", "own"; sharding


@checked_class()
class Spmd(Saved):
    """A program of several devices: per class of devices a graph whose collectives are operations, shapes local.

    Inputs and outputs each have a `view`. "divided": one global tensor, each device has the part its sharding says.
    "whole": all devices have the same tensor. "own": each device has a tensor of its own. An input with a `weight` is
    a divided constant of the graph; `range` are the integers that a random one is drawn from.
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
        """Holds the program."""
        self.graphs, self.devices, self.mesh = list(graphs), int(devices), mesh
        self.classes = [list(part) for part in classes] if classes is not None else [list(range(self.devices))]
        self.records = [dict(record) for record in records]
        #: the graph of whole tensors that this was partitioned from, and by whom; none: nobody knows
        self.source: tuple[Graph, str] | None = None
        if sorted(device for part in self.classes for device in part) != list(range(self.devices)):
            raise user_error(
                "the classes are not all devices", value=str(self.classes)[:200], allowed=f"0 .. {devices - 1}"
            )
        if len(self.classes) != len(self.graphs):
            raise user_error(
                "each class of devices has a graph", value=f"{len(self.graphs)} graphs for {len(self.classes)}"
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
        """Of the graph."""
        return self.graph.name

    def __repr__(self) -> str:
        """How many devices, and operations between them."""
        return f'<Spmd "{self.name}": {self.devices} devices, {len(self.collectives())} operations between them>'

    @classmethod
    def from_partitioned(cls, graph: Graph) -> Spmd:
        """A module that was partitioned already, or whose regions of a device's own tensors are written by hand.

        Args:
            graph: for several devices, with its collectives. Where it has borders between whole tensors and parts (a
                `shard_map`), inputs and outputs are whole on every device; else shapes are those of one device, and an
                input or output with a sharding is a part of a global tensor.

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
        """What passes between devices.

        Returns:
            Per operation: operation, kind, count (calls: trips of loops, calls of functions, the dearest branch),
            devices (of a group), groups (of a permute: pairs of source and target), bytes_in, bytes_out and wire_bytes
            (per device and call: 2(n−1)/n of all_reduce's tensor, (n−1)/n of the larger one of a gather, scatter or
            all_to_all, all of a permute's).
        """
        rows = [row for graph in self.graphs for row in collectives(graph.core)]
        return Table(rows, _shown, empty="nothing passes between devices")

    def to_dict(self) -> dict[str, Any]:
        """Graphs by class of device, and what enters and leaves each device.

        Returns:
            A dict for JSON, schema "tilesim.spmd".
        """
        return {
            "schema": SCHEMA,
            "version": VERSION,
            "devices": self.devices,
            "mesh": self.mesh,
            "classes": self.classes,
            "inputs": [_plain(row) for row in self.inputs],
            "outputs": [_plain(row) for row in self.outputs],
            "records": self.records,
            "graphs": [graph.to_dict() for graph in self.graphs],
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Spmd:
        """Reads what `to_dict` gives.

        Args:
            value: of schema "tilesim.spmd".

        Returns:
            The program.

        Raises:
            UserError: for a value of another kind.
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
        """Reads a file that `save` wrote.

        Args:
            path: of the file.

        Returns:
            The program.

        Raises:
            UserError: for a file that cannot be read or is no such program.
        """
        with placed(path_text(path)):
            return cls.from_dict(read_json(path, limit=MAX_BYTES))


def communicates(graph: Graph) -> bool:
    """Whether devices have values of their own anywhere: operations between devices, or their number."""
    return any(entry["kind"] == "device_index" or not entry["functions"] for name in graph.functions
               for entry in graph.core.communications(name))  # fmt: skip


def needs_partitioning(graph: Graph) -> bool:
    """Whether shardings of a graph are still to be carried out: it has some, and not only at a partitioned border."""
    if not graph.shardings or mesh_devices(graph.core) == 1:
        return False
    if not communicates(graph):
        return True
    border = {row["name"] for row in [*graph.inputs, *graph.outputs]}
    return any(name not in border for name in graph.shardings)


def drawn_as(graph: Graph, rows: list[Border]) -> list[Border]:
    """Inputs with what the integers among random ones of the whole graph lie in."""
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
    """Whether lists of a file are lists, and rows of inputs and outputs have what they need."""
    for key in ("graphs", "classes", "inputs", "outputs", "records"):
        if not isinstance(data[key], list):
            raise user_error("this is no list", place=key, value=shown(data[key]), allowed="a list")
    for key in ("inputs", "outputs"):
        for number, row in enumerate(data[key]):
            for name, good, allowed in _ROW:
                if not isinstance(row, dict) or not good(row.get(name)):
                    value = shown(row.get(name) if isinstance(row, dict) else row)
                    raise user_error("a row is not as it has to be", place=f"{key}[{number}].{name}", value=value,
                                     allowed=allowed)  # fmt: skip
            if row["view"] == "divided" and not isinstance(row.get("sharding"), str):
                raise user_error("what is divided has a sharding", place=f"{key}[{number}].sharding",
                                 value=shown(row.get("sharding")), allowed="a text")  # fmt: skip


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


#: of a row of a file: name, what is good, in words
_ROW: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("name", _is_text, "a text"),
    ("dtype", _is_text, "a text"),
    ("shape", lambda value: isinstance(value, list) and all(type(n) is int and n >= 0 for n in value), "extents"),
    ("view", lambda value: isinstance(value, str) and value in VIEWS, '"divided", "whole", "own"'),
)


def _plain(row: Border) -> Border:
    return {**row, "shape": list(row["shape"])}


def _shown(rows: list[dict[str, Any]]) -> Any:
    from ..base.table import keyed

    def text(groups: list[list[int]]) -> str:
        parts = [",".join(map(str, group[:8])) + (",.." if len(group) > 8 else "") for group in groups[:SHOWN]]
        return " ".join(f"[{part}]" for part in parts) + (f" .. {len(groups)}" if len(groups) > SHOWN else "")

    return keyed([{**row, "groups": text(row["groups"])} for row in rows])
