"""Partitions a program for another number of devices by changing one axis of its mesh."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...base.arguments import unused
from ...base.errors import nearest, path_text, user_error
from ...graph.graph import Graph
from ...models.llama_training import LLAMA3, llama3
from ...models.resnet_training import RESNETS, resnet_training_step
from ..partition import partition
from ..spmd import Spmd

__all__ = ["SizedProgram", "sized"]


@dataclass(frozen=True)
class SizedProgram:
    """A program by number of devices: `make` returns it or the reason against it; `grows`: the batch is per device."""

    make: Callable[[int], tuple[Spmd | None, str]]
    grows: bool = False


def sized(workload: Any, axis: str | None = None) -> SizedProgram | None:
    """Returns a maker of a program by number of devices, if the workload is a program."""
    if isinstance(workload, (str, os.PathLike)):
        path = path_text(workload, "workload")
        if path in LLAMA3 or path in RESNETS:
            unused("a training graph by name has one axis", "none", axis=(axis, None))
        if path in LLAMA3:
            return SizedProgram(lambda count: (_partitioned(llama3(path, count)), ""), True)
        if path in RESNETS:
            return SizedProgram(lambda count: (_partitioned(resnet_training_step(path, count)), ""), True)
        if path.endswith(".spmd.json"):
            workload = Spmd.load(path)
        elif path.endswith((".mlir", ".stablehlo")):
            from ...loading import as_graph

            workload = as_graph(path)
        else:
            return None
    by = "own"
    if isinstance(workload, Spmd):
        if workload.source is None:
            raise _fixed(workload.name, workload.devices)
        workload, by = workload.source
    if not isinstance(workload, Graph):
        return None
    if workload.mesh is None:
        raise _fixed(workload.name, workload.devices)
    return _sized_graph(workload, by, axis)


def _partitioned(graph: Graph) -> Spmd:
    return partition(graph) if graph.mesh is not None or graph.devices > 1 else Spmd([graph], 1)


def _fixed(name: str, devices: int) -> Exception:
    return user_error(
        "a partitioned program has a fixed number of devices", place=f"program '{name}'",
        value=f"{devices} devices", allowed="a Graph or module with a mesh and shardings, or a result of ts.partition",
    )  # fmt: skip


def _sized_graph(graph: Graph, by: str, axis: str | None) -> SizedProgram:
    sizes = {name: int(size) for name, size in re.findall(r"([^\s,=]+)=(\d+)", str(graph.mesh))}
    grows = next(iter(sizes)) if axis is None else axis
    if grows not in sizes:
        raise user_error("the mesh does not have this axis", place="axis", value=f"'{grows}'", allowed=", ".join(sizes),
                         suggestion=nearest(grows, list(sizes)))  # fmt: skip
    others = 1
    for name, size in sizes.items():
        others *= 1 if name == grows else size

    def made(count: int) -> tuple[Spmd | None, str]:
        if count % others:
            kept = " × ".join(f"{name} {size}" for name, size in sizes.items() if name != grows)
            return None, f"{count:,} devices are not a multiple of the mesh's other axes, {kept}"
        return partition(graph, {**sizes, grows: count // others}, by=by), ""

    return SizedProgram(made)
