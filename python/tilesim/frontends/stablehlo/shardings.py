"""Reads meshes and shardings of StableHLO modules, in Shardy's dialect and GSPMD's strings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ... import _core
from ..._core import Unsupported
from ...base.errors import user_error

MESH_SHARDING = re.compile(r"<(@[\w.$\"-]+|mesh<\[[^\]]*\](?:, device_ids=\[[^\]]*\])?>), ([^<>]*)>")
AXES = re.compile(r"\{([^{}]*)\}")
GSPMD = "mhlo.sharding"


def operations(operation: Any) -> Iterator[Any]:
    """Yields all operations inside an operation, outer ones first."""
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                yield from operations(op.operation)


def frontend(attributes: Any, name: str) -> str:
    """Reads a text among `mhlo.frontend_attributes`; "" if it is missing."""
    if "mhlo.frontend_attributes" not in attributes:
        return ""
    held = attributes["mhlo.frontend_attributes"]
    return str(held[name].value) if name in held else ""


class Devices:
    """Replicas, partitions, mesh and shardings of a module."""

    def __init__(self, module: Any) -> None:
        """Reads devices, meshes and shardings of a module."""
        attributes = module.operation.attributes
        counts = [
            int(attributes[name].value) if name in attributes else 0
            for name in ("mhlo.num_replicas", "mhlo.num_partitions")
        ]
        self.stated = any(counts)
        self.replicas, self.partitions = (max(1, count) for count in counts)
        self.meshes: dict[str, str] = {}
        gspmd: list[str] = []
        shardy = False
        for op in operations(module.operation):
            if op.name == "sdy.mesh":
                self.meshes[str(op.attributes["sym_name"].value)] = mesh_text(str(op.attributes["mesh"]))
            shardy |= op.name.startswith("sdy.") and op.name != "sdy.mesh"
            shardy |= any("sdy.sharding" in held or frontend(held, "xla.sdy.sharding") for held in annotated(op))
            gspmd += [str(held[GSPMD].value) for held in annotated(op) if GSPMD in held]
        for name, text in re.findall(
            r"(\w+) = #sdy\.mesh(<\[.*?\](?:, device_ids=\[[^\]]*\])?>)", frontend(attributes, "xla.sdy.meshes")
        ):
            self.meshes[name] = mesh_text(text)
        tiled = any("devices=[" in text for text in gspmd)
        self.mesh = self._of_gspmd(gspmd) if tiled and not shardy else self._of_shardy()
        self.devices = self.replicas * self.partitions

    def _of_shardy(self) -> str:
        """The text of the largest mesh."""
        sizes = {text: devices_of(text) for text in self.meshes.values()}
        largest = max(sizes, key=lambda text: sizes[text], default="")
        if not largest or sizes[largest] <= 1:
            return ""
        if self.stated and self.partitions not in (1, sizes[largest]):
            raise user_error(
                "the mesh and the module differ in their number of devices",
                value=largest,
                allowed=f"{self.partitions} devices (mhlo.num_partitions)",
            )
        return largest

    @staticmethod
    def _of_gspmd(texts: list[str]) -> str:
        """Returns a mesh whose axes can express all of these shardings."""
        devices = max(_devices(text) for text in texts if "devices=[" in text)
        return str(_core.gspmd_mesh(list(dict.fromkeys(texts)), devices)) if devices > 1 else ""

    # --- shardings ---

    def shardy(self, text: str) -> list[str]:
        """Converts the shardings in Shardy's attribute text, one per tensor; "" for a mesh of one device."""
        found = []
        for mesh, sharding in MESH_SHARDING.findall(text):
            name = mesh[1:].strip('"')
            own = self.meshes.get(name, "") if mesh[0] == "@" else mesh_text(mesh[4:])
            found.append(self._in_mesh(own, sharding) if self.mesh else "")
        return found

    def _in_mesh(self, own: str, sharding: str) -> str:
        if own == self.mesh or not re.search(r'"', sharding):
            return sharding
        if devices_of(own) <= 1:
            return ""
        if dict(_core.mesh_axes(own)[0]) == dict(_core.mesh_axes(self.mesh)[0]) and not _core.mesh_axes(own)[1]:
            return sharding
        raise Unsupported(f"shardings over two different meshes: <{own}> and <{self.mesh}>")

    def gspmd(self, text: str, ranks: Sequence[int], note: str = "") -> list[tuple[str, str]]:
        """Converts shardings in GSPMD's text; returns each with the text of its manual axes."""
        if not self.mesh:
            return [("", "")] * len(ranks)
        dims = re.search(r"unspecified_dims=\[[\d,]*\]", note)
        if dims and not text.startswith("{{"):
            text = f"{text[:-1]} {dims[0]}}}"
        return [(sharding or "", manual) for sharding, manual in _core.gspmd_shardings(text, self.mesh, list(ranks))]

    def shardings_of(self, attributes: Any, ranks: Sequence[int]) -> list[str]:
        """Returns the shardings in attributes, one per tensor rank in `ranks`; "" without annotation."""
        found: list[str] = []
        if "sdy.sharding" in attributes:
            found = self.shardy(str(attributes["sdy.sharding"]))
        elif text := frontend(attributes, "xla.sdy.sharding"):
            found = self.shardy(text)
        elif GSPMD in attributes:
            note = str(attributes["backend_config"]) if "backend_config" in attributes else ""
            found = [sharding for sharding, _ in self.gspmd(str(attributes[GSPMD].value), ranks, note)]
        return [*found, *[""] * (len(ranks) - len(found))]


def annotated(op: Any) -> list[Any]:
    """Returns the attribute dicts of an operation, its arguments and its results, which may state shardings."""
    held = [op.attributes]
    for name in ("arg_attrs", "res_attrs"):
        if op.name == "func.func" and name in op.attributes:
            held += list(op.attributes[name])
    return held


def mesh_text(text: str) -> str:
    """Converts a mesh from Shardy's text to Tilesim's."""
    return str(_core.mesh_text(text.removeprefix("#sdy.mesh")))


def devices_of(mesh: str) -> int:
    """Number of devices of a mesh."""
    count = 1
    for _, size in _core.mesh_axes(mesh)[0] if mesh else []:
        count *= size
    return count


def _devices(text: str) -> int:
    """Number of devices in the first tiled sharding of a text."""
    return math.prod(int(size) for size in re.findall(r"devices=\[([\d,]+)\]", text)[0].split(","))


def names_in(text: str) -> list[str]:
    """Returns the names in quotes."""
    return re.findall(r'"([^"]*)"', text)


def parts(sharding: str) -> list[list[str]]:
    """Returns, for each tensor axis, the mesh axes or sub-axes that shard it."""
    body = sharding[sharding.index("[") + 1 : sharding.index("]")]
    return [[part.strip() for part in axis.split(",") if part.strip() not in ("", "?")] for axis in AXES.findall(body)]


def over(sharding: str, axes: Sequence[str]) -> list[list[str]]:
    """Returns `parts(sharding)`, restricted to these mesh axes or sub-axes."""
    return [[part for part in axis if part in axes or names_in(part)[0] in axes] for axis in parts(sharding)]
