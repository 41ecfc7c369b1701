"""Partitions a module with XLA's SPMD partitioner, for virtual CPU devices."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ... import _core
from ...base.errors import listed, user_error
from ...base.extras import need
from ...frontends.stablehlo.entry import from_stablehlo
from ...graph.devices import mesh_devices
from ...graph.graph import Graph
from ..spmd import Spmd, drawn_as

__all__ = ["partition_by_xla"]

MAX_SECONDS = 1800  # limit of wall-clock time
FLAGS = (
    "--xla_force_host_platform_device_count={} --xla_dump_to={} --xla_dump_hlo_pass_re=spmd-partitioning "
    "--xla_dump_hlo_as_text --xla_dump_large_constants=true --xla_backend_optimization_level=0"
)
WORKS = "0.10"  # jax version whose interfaces the child process uses
CHILD = Path(__file__).with_name("xla_child.py")
AXIS = re.compile(r'"([^"]+)"(:\(\d+\)\d+)?')


def partition_by_xla(graph: Graph, mesh: str | None = None, shardings: Mapping[str, str] | None = None) -> Spmd:
    """Compiles a graph's module for virtual devices, and reads the program of XLA's partitioner."""
    need("jax", "jax")
    if not graph.module:
        raise user_error(
            "XLA partitions only modules, and this graph has none",
            place=f"graph '{graph.name}'",
            allowed="a graph from from_stablehlo or from_jax, with a module of at most 64 MiB if it is for one device",
            suggestion='by="own", or by="shardy" for Shardy\'s propagation with the same rules',
        )
    given = {**dict.fromkeys(graph.annotated, ""), **(shardings or {})}
    changed = mesh is not None or graph.remeshed
    if given or changed:
        graph = graph.copy()
        graph.annotate(shardings, mesh)
    if graph.mesh is None and graph.devices < 2:
        raise user_error("shardings without a mesh", place=f"graph '{graph.name}'", allowed='mesh={"x": 2, "y": 4}')
    devices = max(1 if changed else graph.devices, mesh_devices(graph.core))
    with tempfile.TemporaryDirectory(prefix="tilesim-xla-") as folder:
        text = graph.module if isinstance(graph.module, bytes) else graph.module.encode("utf-8")
        Path(folder, "module").write_bytes(text)
        Path(folder, "given.json").write_text(json.dumps(_shardings(graph, text, given, changed)), encoding="utf-8")
        _run(folder, devices)
        partitioned = from_stablehlo(Path(folder, "partitioned").read_bytes(), name=graph.name)
        borders = json.loads(Path(folder, "borders.json").read_text(encoding="utf-8"))
    partitioned.annotate(devices=devices)
    texts = [*borders["inputs"], *borders["outputs"]]
    mesh = _core.gspmd_mesh(texts, devices) if texts else f"devices={devices}"
    rows = {
        "inputs": _rows(graph.inputs, partitioned.inputs, borders["inputs"], mesh),
        "outputs": _rows(graph.outputs, partitioned.outputs, borders["outputs"], mesh),
    }
    inputs = drawn_as(graph, rows["inputs"])
    records = [*_unapplied(graph, rows["inputs"], mesh, devices), *_unapplied(graph, rows["outputs"], mesh, devices)]
    return Spmd([partitioned], devices, mesh=mesh, inputs=inputs, outputs=rows["outputs"], records=records)


def _unapplied(graph: Graph, rows: list[dict[str, Any]], mesh: str, devices: int) -> list[dict[str, Any]]:
    """Returns records of requested shardings that XLA did not apply: axes with fewer parts, uneven axes."""
    found = []
    for row in rows:
        said = graph.shardings.get(row["name"], "")
        if not said or not row["shape"]:
            continue
        asked, _ = _core.sharding_division(said, str(graph.mesh))
        got = _core.sharding_division(row["sharding"], mesh)[0] if "sharding" in row else [1] * len(asked)
        for axis, (extent, parts, made) in enumerate(zip(row["shape"], asked, got, strict=True)):
            if made < parts:
                why = f", which do not divide {extent:,}" if extent % parts else ""
                reason = f"XLA splits axis {axis} into {made:,} instead of {parts:,} parts{why}"
                found.append({"function": "main", "operation": "", "inserted": "", "kind": "left whole",
                              "value": row["name"], "reason": reason, "devices": devices, "wire_bytes": 0})  # fmt: skip
    return found


def _shardings(graph: Graph, text: bytes, names: Iterable[str], changed: bool) -> dict[str, Any]:
    """Returns the shardings for the child process to write into the module, by position of input or output."""
    by_name = graph.shardings
    lists = b"mhlo.sharding" in text and b"sdy." not in text  # GSPMD writes shardings as lists of devices
    if lists and changed:
        raise user_error("the module has shardings by devices, without a mesh", place=f"graph '{graph.name}'",
                         value="mesh=", allowed="shardings= over the graph's mesh")  # fmt: skip
    found: dict[str, Any] = {"mesh": "" if lists or not graph.mesh else _mesh(graph.mesh), "changed": changed}
    places = {"inputs": list(graph.inputs), "outputs": list(graph.outputs)}
    known = {row["name"] for rows in places.values() for row in rows}
    for name in names:
        if name not in known:
            raise user_error(
                "XLA accepts shardings only of inputs and outputs", place=f"graph '{graph.name}'", value=name,
                allowed=listed(sorted(known)), suggestion='by="own" or by="shardy" for other values',
            )  # fmt: skip
    for key, rows in places.items():
        texts = {}
        for index, row in enumerate(rows):
            if row["name"] in names:
                said = by_name.get(row["name"], "")
                texts[str(index)] = _lists(said, str(graph.mesh), row["name"]) if lists and said else said
        found[key] = texts
    return found


def _mesh(text: str) -> str:
    """Writes a mesh in Shardy's syntax."""
    axes, order, ids = text.partition(", device_ids=")
    named = ", ".join(f'"{name.strip()}"={size}' for name, _, size in (one.partition("=") for one in axes.split(",")))
    return f"[{named}]{order}{ids}"


def _lists(sharding: str, mesh: str, name: str) -> str:
    """Writes a sharding in GSPMD's syntax: a grid of devices in the order of the mesh, with the named axes first."""
    axes, _, ids = mesh.partition(", device_ids=")
    sizes = {key.strip(): int(size) for key, _, size in (one.partition("=") for one in axes.split(","))}
    dims = [AXIS.findall(part) for part in re.findall(r"\{([^}]*)\}", sharding.partition("]")[0])]
    used = [axis for dim in dims for axis, _ in dim]
    if ids or any(part for dim in dims for _, part in dim):
        raise user_error("the module has shardings as lists of devices, which cannot hold such parts", place=name,
                         value=sharding, allowed="whole axes of a mesh in the order of devices")  # fmt: skip
    if not used:
        return "{replicated}"
    order = [*used, *(axis for axis in sizes if axis not in used)]
    grid = [math.prod(sizes[axis] for axis, _ in dim) for dim in dims]
    rest = math.prod(sizes.values()) // math.prod(grid)
    extents, places = ",".join(map(str, sizes.values())), ",".join(str(list(sizes).index(axis)) for axis in order)
    last = " last_tile_dim_replicate" if rest > 1 else ""
    return f"{{devices=[{','.join(map(str, grid + [rest] * (rest > 1)))}]<=[{extents}]T({places}){last}}}"


def _run(folder: str, devices: int) -> None:
    """Compiles in a child process, because jax fixes the device count at its start, and XLA can abort."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS.format(devices, folder)}".strip()
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-c", CHILD.read_text(encoding="utf-8"), folder, str(devices)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise _core.Unsupported(f"XLA needs more than {MAX_SECONDS} seconds for the module") from None
    if done.returncode == 0:
        return
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
    lines = [line for line in lines if "Error: " in line] or lines
    if lines[-1].startswith(("ImportError", "ModuleNotFoundError", "AttributeError", "TypeError")):
        import jax

        raise _core.Unsupported(f"jax {jax.__version__} has no interface that partitioning needs; jax {WORKS} has it: "
                                f"{lines[-1][:300]}")  # fmt: skip
    how = f"ended by signal {signal.Signals(-done.returncode).name}" if done.returncode < 0 else "an error"
    raise _core.Unsupported(f"XLA cannot partition the module ({how}): {lines[-1][:300]}")


def _rows(whole: Any, own: Any, texts: list[str], mesh: str) -> list[dict[str, Any]]:
    """Returns rows of inputs or outputs with the graph's names and shapes and XLA's shardings."""
    if len(whole) != len(own):
        raise _core.Unsupported(f"XLA's program has {len(own)} inputs or outputs; the module has {len(whole)}")
    texts = texts or ["{replicated}"] * len(whole)
    rows = []
    for row, text in zip(whole, texts, strict=True):
        sharding = _core.gspmd_shardings(text, mesh, [len(row["shape"])])[0][0]
        made = {**row, "shape": list(row["shape"]), "view": "whole"}
        if sharding and row["shape"]:
            made |= {"view": "divided", "sharding": sharding}
        rows.append(made)
    return rows
