"""What the command line takes as a workload, and how it writes files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from . import _core, frontends, models
from .graph import Graph, user_error
from .program import Program
from .tune import graph_of

__all__ = ["WHAT", "load", "load_graph", "write"]

WHAT = "A network's name, matmul:M,N,K[,dtype], or a file (.json, .tsim, .onnx, .mlir)."
MLIR = (".mlir", ".mlirbc", ".stablehlo")
ENDINGS = (".json", ".tsim", ".onnx", *MLIR)


def load(
    what: str, batch: int = 1, context: int | None = None, phase: str | None = None, dtype: str | None = None
) -> Graph | Program:
    """A workload: a network of the zoo, a product, or a file.

    Args:
        what: its name, "matmul:M,N,K[,dtype]", or a path.
        batch: images or sequences.
        context: tokens.
        phase: prefill or decode.
        dtype: of networks and products.

    Returns:
        The graph; the program where the file holds one.

    Raises:
        UserError: for an unknown name or ending, or a damaged file.
    """
    path = Path(what)
    if path.suffix not in ENDINGS:
        if ":" in what:
            return graph_of(f"{what},{dtype}" if dtype and what.count(",") < 3 else what)
        if path.exists() or "/" in what:
            found = path.suffix or "no ending" if path.is_file() else "no such file"
            raise user_error("the file is of no known kind", place=what, value=found, allowed=", ".join(ENDINGS))
        return models.build(what, batch=batch, sequence=context, dtype=dtype, phase=phase)
    if not path.is_file():
        raise user_error(
            "the file cannot be read", place=what, value="a directory" if path.is_dir() else "no such file"
        )
    return _file(path, batch, context)


def _file(path: Path, batch: int, context: int | None) -> Graph | Program:
    if path.suffix in MLIR:
        return frontends.from_stablehlo(path)
    if path.suffix == ".onnx":
        return frontends.from_onnx(path, sizes=frontends.symbolic_sizes(path, batch, context))
    if path.suffix == ".json":
        with path.open(encoding="utf-8", errors="replace") as file:
            start = file.read(2000)
        if '"tilesim.program"' in start:
            return Program.load(path)
        if frontends.is_pytorch_ir(start):
            return frontends.from_pytorch_ir(path)
    elif _core.Graph.compiled_header(str(path)):
        return Program.load(path)
    return Graph.load(path)


def load_graph(
    what: str, batch: int = 1, context: int | None = None, phase: str | None = None, dtype: str | None = None
) -> Graph:
    """As `load`, for commands that need a graph.

    Args:
        what: as `load`.
        batch: as `load`.
        context: as `load`.
        phase: as `load`.
        dtype: as `load`.

    Returns:
        The graph; of a compiled program the one that it came from.

    Raises:
        UserError: as `load`, and for a tile program without its graph.
    """
    loaded = load(what, batch, context, phase, dtype)
    graph = loaded.graph if isinstance(loaded, Program) else loaded
    if graph is None:
        raise user_error("a tile program without its graph has no operations", place=what, allowed="a graph")
    return graph


def write(data: Any, target: str) -> None:
    """Writes JSON.

    Args:
        data: what to write.
        target: a path; - for standard output.

    Raises:
        UserError: when the file cannot be written.
    """
    text = json.dumps(data, indent=1)
    if target == "-":
        sys.stdout.write(text + "\n")
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise user_error("the file cannot be written", place=target, value=error.strerror or "") from None
