"""Architectures of Timeloop (versions 0.2 to 0.4) as machines.

Levels go from off-chip memory to the multipliers. In version 0.4 they are a list (`nodes`, with the tags !Container,
!Component, !Parallel), and a `spatial` mesh multiplies all nodes behind it; older files nest `subtree` and
`local`, a range in a name counts instances ("PE[0..167]") and `meshX` gives their number along x (Timeloop's
pages on architectures of versions 3 and 4).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ..base.errors import listed, nearest, shown, unknown, user_error
from ..base.files import read_yaml
from .foreign import RATES, Description

__all__ = ["timeloop"]

_KEYS = ("!", "name", "class", "subclass", "attributes", "spatial", "constraints", "nodes", "local", "subtree",
         "required_actions", "enabled", "version", "sparse_optimizations")  # fmt: skip
_MESH = ("meshX", "meshY")
#: attributes of Timeloop that concern neither time nor size, and are not misspellings
_IGNORED = ("technology", "n_banks", "n_ports", "n_rdports", "n_wrports", "n_rdwr_ports", "num_ports", "num-ports",
          "energy", "cluster_size", "cluster-size", "network_word_bits", "network-word-bits", "leak", "area",
          "multicast", "latency", "adder_width", "multiple_buffering", "multiple-buffering", "min_utilization",
          "min-utilization", "reads", "writes", "instances", "vector_access_energy", "buffer_energy",
          "fill_latency", "drain_latency", "mesh-x", "mesh-y", "tech")  # fmt: skip
_TAGS = ("Container", "Component", "Parallel", "Pipelined", "Hierarchical")
_WIDTHS = (
    "datawidth",
    "word-bits",
    "word_bits",
    "width",
    "memory_width",
    "multiplier_width",
    "block-size",
    "block_size",
)
_OFF_CHIP = re.compile("dram|hbm|off.?chip|main.?memory", re.IGNORECASE)
_MULTIPLIERS = re.compile("mac|multiplier|compute", re.IGNORECASE)
_DEEPEST, _MOST_NODES = 32, 4096
_MOST = 1 << 40


@dataclass(eq=False)
class _Level:
    """A component or container (without type), with its numbers of instances: on the chip, and along x."""

    name: str
    sort: str
    place: str
    attributes: Mapping[str, Any]
    instances: int = 1
    along_x: int = 1
    parallel: int = 0  # number of the group of parallel components; 0 if none
    used: set[str] = field(default_factory=lambda: {"meshX", "meshY"})
    asked: set[str] = field(default_factory=set)

    def unread(self) -> list[str]:
        """The attributes that were not read. UserError for one whose name resembles a known one."""
        rest = [key for key in self.attributes if key not in self.used]
        absent = sorted(self.asked - self.attributes.keys())
        for key in rest:
            if key not in (*_IGNORED, *_WIDTHS) and (meant := nearest(str(key), (*_IGNORED, *absent))) in absent:
                raise user_error("unknown attribute", place=self.place, value=shown(key), suggestion=meant)
        return [f"{self.name}.{key}" for key in rest]

    def number(self, *keys: str) -> float | None:
        """The number of the first of these attributes that the node has."""
        self.asked.update(keys)
        for key in keys:
            if self.attributes.get(key) is not None:
                self.used.add(key)
                return _number(self.attributes[key], f"{self.place}: {key}")
        return None

    @property
    def word_bytes(self) -> float:
        return (self.number("datawidth", "word-bits", "word_bits") or 8) / 8

    @property
    def bytes(self) -> float | None:
        """Bytes of one instance, or None."""
        if (kibibytes := self.number("sizeKB")) is not None:
            return kibibytes * 1024
        depth, width = self.number("depth", "memory_depth", "entries"), self.number("width", "memory_width")
        across = width / 8 if width else self.word_bytes * (self.number("block-size", "block_size") or 1)
        return None if depth is None else depth * across


def _number(value: Any, place: str) -> float:
    try:
        number = 0.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < _MOST:
        raise user_error("not a number above 0", place=place, value=shown(value), allowed=f"up to {_MOST}")
    return number


def _part(node: Mapping[str, Any], key: str, sort: type, place: str) -> Any:
    """Returns the value of a node's key, or an empty value."""
    found = node.get(key)
    if found is not None and not isinstance(found, sort):
        raise user_error("a value has the wrong type", place=f"{place}: {key}", value=shown(found),
                         allowed="a list" if sort is list else "a mapping")  # fmt: skip
    return found if found is not None else sort()


def _nodes(node: Mapping[str, Any], key: str, place: str) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    """Yields the nodes in a list, each with its name and place."""
    if place.count(": ") > _DEEPEST:
        raise user_error("too deeply nested nodes", place=place[:100], allowed=str(_DEEPEST))
    for number, child in enumerate(_part(node, key, list, place)):
        where = f"{place}: {key}[{number}]"
        if not isinstance(child, Mapping):
            raise user_error("not a node", place=where, value=shown(child), allowed="a mapping")
        for one in child:
            if one not in _KEYS:
                raise user_error("unknown key of a node", place=where, value=shown(one), allowed=", ".join(_KEYS[1:]),
                                 suggestion=nearest(str(one), _KEYS))  # fmt: skip
        if child.get("!", "Container") not in _TAGS:
            raise user_error("unknown tag of a node", place=where, value=f"!{child['!']}", allowed=", ".join(_TAGS),
                             suggestion=nearest(child["!"], _TAGS))  # fmt: skip
        yield child, str(child.get("name", "")), where


def _level(node: Mapping[str, Any], name: str, place: str, instances: int, along_x: int, parallel: int = 0) -> _Level:
    sort = f"{node['class']} {node.get('subclass', '')}".strip() if "class" in node else ""
    return _Level(name, sort, place, _part(node, "attributes", dict, place), instances, along_x, parallel)


def _listed(node: Mapping[str, Any], place: str, fan: list[int], parallel: int = 0) -> Iterator[_Level]:
    """Yields levels of version 0.4: `fan` counts instances and those along x, and grows with each mesh."""
    for child, name, where in _nodes(node, "nodes", place):
        mesh = _part(child, "spatial", dict, where)
        if wrong := [one for one in mesh if one not in _MESH]:
            raise unknown("key of a mesh", wrong[0], _MESH, place=f"{where}: spatial")
        x, y = (_count(mesh.get(key, 1), f"{where}: spatial: {key}") for key in _MESH)
        beside = child.get("!") == "Parallel"
        own = list(fan) if parallel else fan  # parallel components have separate counts
        own[:] = own[0] * x * y, own[1] * x
        yield _level(child, name, where, own[0], own[1], parallel)
        yield from _listed(child, where, list(own) if beside else own, id(child) if beside else parallel)


def _nested(node: Mapping[str, Any], place: str, instances: int) -> Iterator[_Level]:
    """Yields levels of versions before 0.4, and of files of pytimeloop."""
    for child, name, where in _nodes(node, "local", place):
        name, count = _range(name, where)
        across = _part(child, "attributes", dict, where).get("meshX", instances * count)
        yield _level(child, name, where, instances * count, _count(across, f"{where}: meshX"))
    for child, name, where in _nodes(node, "subtree", place):
        name, count = _range(name, where)
        yield _level(child, name, where, instances * count, 1)
        yield from _nested(child, where, instances * count)


def _count(value: Any, place: str) -> int:
    number = _number(value, place)
    if number != int(number) or number > 1 << 20:
        raise user_error("not a count", place=place, value=shown(value), allowed=f"1 to {1 << 20}")
    return int(number)


def _range(name: str, place: str) -> tuple[str, int]:
    """Splits a name into the part before its range of instances, and their number."""
    found = re.fullmatch(r"(.*)\[(\d{1,9})\.\.(\d{1,9})\]", name)
    return (found[1], _count(int(found[3]) - int(found[2]) + 1, place)) if found else (name, 1)


def timeloop(path: str) -> dict[str, Any]:
    """Reads an architecture of Timeloop (`.yaml`) as the content of a machine's file."""
    data = read_yaml(path)
    top = data.get("architecture") if isinstance(data, Mapping) else None
    if not isinstance(top, Mapping):
        hint = "A machine of Tilesim is a .json or .toml file: tilesim machine new writes one"
        raise user_error("not an architecture of Timeloop: missing architecture", place=path,
                         allowed="architecture: {version, nodes}", suggestion=hint)  # fmt: skip
    place = f"{path}: architecture"
    walk = _listed(top, place, [1, 1]) if "nodes" in top else _nested(top, place, 1)
    levels = list(islice(walk, _MOST_NODES + 1))
    if len(levels) > _MOST_NODES:
        raise user_error("the architecture has too many nodes", place=path, allowed=f"{_MOST_NODES}")
    parts = [one for one in levels if one.sort]
    off_chip = next((one for one in parts if _OFF_CHIP.search(f"{one.sort} {one.name}")), None)
    computes = [one for one in parts if _MULTIPLIERS.search(f"{one.sort} {one.name}") and one.bytes is None]
    stores = [one for one in parts if one is not off_chip and "dummy" not in one.sort and one.bytes is not None]
    for what, there in (("off-chip memory (class DRAM)", off_chip), ("memory on the chip (with a depth)", stores),
                        ("multiplier (class intmac, fpmac, ...)", computes)):  # fmt: skip
        if not there:
            names = listed(f"{one.name} ({one.sort})" for one in parts)
            raise user_error(f"missing {what} in the architecture", place=path, value=names)
    assert off_chip is not None
    outer, cell = stores[0], computes[-1]
    pads = [one for one in stores if one is outer or (outer.parallel and one.parallel == outer.parallel)]
    found = Description(path, "Timeloop architecture")
    _memory(found, off_chip, _clock(found, levels))
    _core(found, pads, cell)
    for one in levels:
        if one.sort and one not in (off_chip, cell, *pads):
            found.unread.append(one.name)
        else:
            found.unread += one.unread()
    return found.entries(
        next((one.name for one in levels if not one.sort and one.name), os.path.splitext(found.file)[0])
    )


def _clock(description: Description, levels: list[_Level]) -> float:
    """The clock of the chip in hertz."""
    seconds = [number for one in levels if (number := one.number("global_cycle_seconds")) is not None]
    if not seconds:
        description.open("core.clock", "1 GHz", "no global_cycle_seconds")
        return 1e9
    description.state("core.clock", f"{round(1 / seconds[0])} Hz", "global_cycle_seconds")
    return 1 / seconds[0]


def _memory(description: Description, off_chip: _Level, hertz: float) -> None:
    rates = [off_chip.number("shared_bandwidth")]
    if "shared_bandwidth" not in off_chip.attributes:
        rates = [off_chip.number("read_bandwidth"), off_chip.number("write_bandwidth")]
    words, key = sum(rate or 0 for rate in rates), f"{off_chip.name}, "
    if words:
        rate = round(words * off_chip.word_bytes * hertz)
        description.state("memory.kind", "simple", f"{key}bandwidth")
        description.state("memory.bandwidth", f"{rate} B/s", f"{key}words per cycle x datawidth")
    else:
        description.open("memory.kind", "ideal", f"no bandwidth of {off_chip.name}: Timeloop sets no limit")
        description.open("memory.bandwidth", "1000000 GB/s", "as memory.kind")
    if width := off_chip.number("width"):
        description.state("memory.burst_bytes", f"{max(1, round(width / 8))} B", f"{key}width")
    description.open("memory.latency", "0 ns", "Timeloop has no latency")
    description.open("network.latency_cycles", 0, "Timeloop has no latency")


def _core(description: Description, pads: list[_Level], cell: _Level) -> None:
    """Sets the cores: they are the instances of the scratchpad, and the multipliers behind one are its array."""
    outer, names = pads[0], " + ".join(one.name for one in pads)
    cells, columns = cell.instances // outer.instances, max(1, cell.along_x // outer.along_x)
    if cell.instances % outer.instances or cells % columns:
        raise user_error("the multipliers do not divide over the memories in front of them", place=cell.place,
                         value=f"{cell.instances} of {cell.name}, {outer.instances} of {outer.name}")  # fmt: skip
    description.state("core.count", outer.instances, f"instances of {outer.name}")
    description.state("core.array.rows", cells // columns, f"instances of {cell.name} along y")
    description.state("core.array.columns", columns, f"instances of {cell.name} along x")
    description.state(
        "core.scratchpad.bytes", f"{round(sum(one.bytes or 0 for one in pads))} B", f"{names}, depth x width"
    )
    description.open("core.array.dataflow", "weight_stationary", "it follows from a mapping")
    description.open("core.array.rates", RATES, "one product per multiplier and cycle, of any dtype")
    description.open("core.vector.lanes", columns, "Timeloop has no vector unit")
    description.open("core.vector.sublanes", 1, "Timeloop has no vector unit")
