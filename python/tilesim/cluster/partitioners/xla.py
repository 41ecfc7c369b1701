"""The program that XLA's SPMD partitioner makes of a module, for CPU devices that are not there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ... import _core
from ...base.errors import user_error
from ...base.extras import need
from ...frontends.stablehlo.entry import from_stablehlo
from ...graph.devices import mesh_devices
from ...graph.graph import Graph
from ..spmd import Spmd, drawn_as

__all__ = ["partition_by_xla"]

MAX_SECONDS = 1800  # of wall time
FLAGS = (
    "--xla_force_host_platform_device_count={} --xla_dump_to={} --xla_dump_hlo_pass_re=spmd-partitioning "
    "--xla_dump_hlo_as_text --xla_backend_optimization_level=0"
)
# The converter from HLO loses the order of groups that are written along axes of a mesh: they become lists before.
CHILD = r"""
import glob, json, os, pathlib, re, sys
import numpy as np
import jax
from jax._src.lib import _jax, xla_client
from jax.interpreters import mlir
from jaxlib import _hlo
from jaxlib.mlir import ir

folder, devices = sys.argv[1], int(sys.argv[2])
text = pathlib.Path(folder, "module").read_bytes()
axes = re.compile(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{([^}]*)\}")


def listed(found):
    names = re.findall(r"'([^']+)'=", found[1])
    sizes = [int(size) for size in re.findall(r"=(\d+)", found[1])]
    order = np.arange(np.prod(sizes))
    if found[2]:
        order = order.reshape([int(dim) for dim in found[2].split(",")])
        order = order.transpose([int(dim) for dim in found[3].split(",")] if found[3] else None)
    chosen = [names.index(name) for name in re.findall(r"'([^']+)'", found[4])]
    rest = [axis for axis in range(len(names)) if axis not in chosen]
    rows = order.reshape(sizes).transpose(rest + chosen).reshape(-1, np.prod([sizes[axis] for axis in chosen]))
    return "replica_groups={" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + "}"


with mlir.make_ir_context(), ir.Location.unknown():
    module = ir.Module.parse(text)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, devices
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, devices
    build.device_assignment = options.device_assignment
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = b"sdy." in text
    client = jax.devices()[0].client
    made = client.compile_and_load(module, _jax.DeviceList(tuple(jax.devices())), options)


def said(shardings):
    return [str(xla_client.HloSharding.from_proto(sharding)) for sharding in shardings or []]


borders = {"inputs": said(made.get_parameter_shardings()), "outputs": said(made.get_output_shardings())}
(dumped,) = glob.glob(os.path.join(folder, "*after_spmd-partitioning*.txt"))
parsed = _hlo.hlo_module_from_text(axes.sub(listed, pathlib.Path(dumped).read_text()))
proto = parsed.as_serialized_hlo_module_proto()
pathlib.Path(folder, "partitioned").write_bytes(_jax.mlir.hlo_to_stablehlo(proto))
pathlib.Path(folder, "borders.json").write_text(json.dumps(borders))
"""


def partition_by_xla(graph: Graph) -> Spmd:
    """Compiles a graph's module for so many virtual devices, and reads what XLA's partitioner left.

    Args:
        graph: read from a module for several devices; its shardings are the module's.

    Returns:
        The program, with XLA's collectives.

    Raises:
        UserError: for a graph that no module is known of; naming what to install where jax is missing.
        Unsupported: where XLA refuses the module, or stops; with its last words.
    """
    need("jax", "jax")
    if not graph.module:
        raise user_error(
            "XLA partitions modules, and none is known of this graph",
            place=f"graph '{graph.name}'",
            allowed="a graph as from_stablehlo or from_jax gives it, of a module for several devices",
            suggestion='by="own", or by="shardy" for Shardy\'s propagation over the same rules',
        )
    devices = max(graph.devices, mesh_devices(graph.core))
    with tempfile.TemporaryDirectory(prefix="tilesim-xla-") as folder:
        text = graph.module if isinstance(graph.module, bytes) else graph.module.encode("utf-8")
        Path(folder, "module").write_bytes(text)
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
    return Spmd([partitioned], devices, mesh=mesh, inputs=inputs, outputs=rows["outputs"])


def _run(folder: str, devices: int) -> None:
    """In a process of its own: the number of devices is fixed when jax starts, and XLA can end the whole process."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} {FLAGS.format(devices, folder)}".strip()
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"}
    command = [sys.executable, "-c", CHILD, folder, str(devices)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise _core.Unsupported(f"XLA takes longer than {MAX_SECONDS} seconds over the module") from None
    if done.returncode == 0:
        return
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
    how = f"ended by signal {signal.Signals(-done.returncode).name}" if done.returncode < 0 else "an error"
    raise _core.Unsupported(f"XLA does not partition the module ({how}): {lines[-1][:300]}")


def _rows(whole: Any, own: Any, texts: list[str], mesh: str) -> list[dict[str, Any]]:
    """Inputs or outputs: names and shapes of the whole graph's, divided as XLA says."""
    if len(whole) != len(own):
        raise _core.Unsupported(f"XLA's program has {len(own)} inputs or outputs, the module {len(whole)}")
    texts = texts or ["{replicated}"] * len(whole)
    rows = []
    for row, text in zip(whole, texts, strict=True):
        sharding = _core.gspmd_shardings(text, mesh, [len(row["shape"])])[0][0]
        made = {**row, "shape": list(row["shape"]), "view": "whole"}
        if sharding and row["shape"]:
            made |= {"view": "divided", "sharding": sharding}
        rows.append(made)
    return rows
