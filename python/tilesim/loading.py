"""Loads workloads by name or file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _core, frontends, models, workloads
from .base.arguments import dtype_name, integer, is_size
from .base.checked import is_text, step
from .base.declared import Stage, option
from .base.errors import nearest, path_text, shown, user_error, workload_hint
from .base.files import YAML, check_regular
from .frontends.torch.entry import from_torch, from_transformers, is_module, is_pretrained
from .graph import Graph
from .graph.passes import chosen
from .program.program import Program

__all__ = ["GraphLike", "Sizes", "as_graph", "load", "load_graph", "product"]

MLIR = (".mlir", ".mlirbc", ".stablehlo")
UNTYPED = (".csv", *YAML)  # formats of SCALE-Sim and Timeloop, which state no dtypes
ENDINGS = (".json", ".tsim", ".onnx", *MLIR, *UNTYPED)
WEIGHTS = (".pt", ".pth", ".safetensors", ".npz", ".bin", ".gguf")
CONFIGURATION = 1 << 20  # largest config.json in bytes
PRODUCT = "matmul:M,N,K or matmul:M,N,K,dtype"
#: schema of a file other than a workload -> hint which command opens it
_ELSEWHERE = {
    "tilesim.result": "Open a result with tilesim open or ts.Result.load",
    "tilesim.machine": "Give a machine as machine=, --machine",
    "tilesim.device": "Give a device as machine=, --device",
    "tilesim.cluster": "Give a cluster to ts.cluster.step, --cluster",
}
GraphLike = Graph | Program | str | os.PathLike[str]

ACCEPTED = "a Graph, a torch.nn.Module, a network's name, matmul:M,N,K, a file"


@dataclass(frozen=True)
class Sizes(Stage):
    """Sizes of a named workload; None selects the workload's default."""

    panel = "Workload"

    batch: int | None = option(None, "Images, sequences, or products; 1 by default.", least=1)
    context: int | None = option(None, "Tokens, for networks that read text.", least=1)
    phase: str | None = option(None, "prefill or decode, for networks that write text.")
    dtype: str | None = option(None, "Of a network or product: f32, bf16, f16, ...")

    @classmethod
    def of(cls, batch: Any, context: Any, sequence: Any, phase: Any, dtype: Any) -> Sizes:
        """Checks the arguments and returns them as sizes."""
        if context is not None and sequence is not None:
            both = shown((context, sequence))
            raise user_error(
                "both context and sequence are given", place="context, sequence", value=both, allowed="one"
            )
        named = {"batch": batch, "context": context, "sequence": sequence}
        sizes = {name: integer(name, value, 1) for name, value in named.items() if value is not None}
        if phase is not None and not is_text(phase):
            raise user_error("unknown phase", place="phase", value=shown(phase), allowed="prefill, decode")
        narrow = None if dtype is None else dtype_name(dtype)
        return cls(sizes.get("batch"), sizes.get("context", sizes.get("sequence")), phase, narrow)


def as_graph(
    model: Any, args: Any = (), sizes: Sizes | None = None, passes: str | Sequence[str] | None = None
) -> Graph:
    """Returns a graph from a name, file, graph, program or torch module, after `passes` (None: the import's)."""
    given = sizes.given() if sizes else {}
    if isinstance(model, (str, os.PathLike)):
        return load_graph(path_text(model), **given, passes=passes)
    if passes is not None:
        chosen(passes)
    if given and not (is_pretrained(model) and not _any(args)):
        name, value = next(iter(given.items()))
        what = "the option applies to a name or a file only"
        hint = "A module has the sizes of its arguments" if is_module(model) else workload_hint(name, value)
        if is_module(model) and "dtype" in given:
            hint = "Convert module and inputs: module.to(torch.bfloat16), x.to(torch.bfloat16)"
        raise user_error(what, place=", ".join(given), value=f"{shown(value)} for a {type(model).__name__}",
                         suggestion=hint)  # fmt: skip
    if isinstance(model, (Graph, Program)):
        graph = (model if isinstance(model, Graph) else _graph_of(model, model.core.name)).copy()
        if passes is not None and not graph.changes:
            graph.optimize(passes)
        return graph
    nothing = not _any(args)
    if is_pretrained(model) and (nothing or not is_module(model)):
        return from_transformers(model, **given)
    if is_module(model):
        if isinstance(args, Mapping):
            return from_torch(model, (), {str(name): value for name, value in args.items()}, passes=passes)
        if nothing:
            name = type(model).__name__
            raise user_error("missing example inputs, which give the shapes", place=name,
                             suggestion=f"Write ts.run(module, (x,)), with a tensor x for {name}.forward")  # fmt: skip
        return from_torch(model, args, passes=passes)
    remedy = step(model, "Graph")
    if isinstance(model, type):
        remedy = f"Make an instance: {model.__name__}(...)"
    elif callable(model):
        remedy = "Import a JAX function with ts.from_jax(f, *args)"
    found = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
    raise user_error("not a model", value=found, allowed=ACCEPTED, suggestion=remedy)


def _any(args: Any) -> bool:
    return args is not None and not (isinstance(args, (tuple, list)) and not args)


def product(text: str, batch: int = 1, dtype: str | None = None) -> Graph:
    """Builds the matrix product of a text "matmul:M,N,K[,dtype]"."""
    kind, _, sizes = text.partition(":")
    parts = [part.strip() for part in sizes.split(",")]
    if kind != "matmul" or len(parts) not in (3, 4):
        similar = f"matmul:{sizes}" if kind != "matmul" and nearest(kind, ("matmul",)) else ""
        count = f"{len(parts)} sizes"
        what = "a product needs three sizes" if kind == "matmul" else "only a product is written with a colon"
        raise user_error(what, place=text, value=count if kind == "matmul" else kind, allowed=PRODUCT,
                         suggestion=similar)  # fmt: skip
    for name, part in zip("MNK", parts, strict=False):
        if not is_size(part) or not 0 < int(part) < 2**31:
            raise user_error(f"{name} is not a size", place=text, value=f"'{part}'",
                             allowed=f"a whole number from 1 to {2**31 - 1:,}")  # fmt: skip
    m, n, k = map(int, parts[:3])
    named = parts[3] if len(parts) == 4 else dtype or "f32"
    return workloads.matmul(m, n, k, dtype=named, batch=batch if batch > 1 else None)


def load(
    what: str,
    batch: int = 1,
    context: int | None = None,
    phase: str | None = None,
    dtype: str | None = None,
    passes: str | Sequence[str] | None = None,
) -> Graph | Program:
    """Loads a shipped model, a matrix product or a file as a graph or tile program."""
    if passes is None:
        return _load(what, batch, context, phase, dtype, None)
    names: Any = passes
    if isinstance(passes, str) and passes not in ("all", "none"):
        names = [name.strip() for name in passes.split(",")]
    if not isinstance(names, (str, Sequence)):
        raise user_error("not a list of passes", place="passes", value=shown(passes), allowed="all, none, names")
    chosen(names)
    loaded = _load(what, batch, context, phase, dtype, names)
    if isinstance(loaded, Program):
        raise user_error("passes do not apply to a compiled program", place=what, value=f"--passes {passes}")
    if not loaded.changes:  # a shipped model or a graph file, on which no pass has run
        loaded.optimize(names)
    return loaded


def _load(
    what: str, batch: int, context: int | None, phase: str | None, dtype: str | None, passes: Any
) -> Graph | Program:
    path = Path(what)
    if not what.strip():
        raise user_error("the name of the workload is empty", value=shown(what), allowed=ACCEPTED)
    if path.suffix.lower() not in ENDINGS:
        if ":" in what and not what.startswith("hf:") and not os.path.exists(path):
            _refuse("a product has a batch, but no tokens and phases", what, context=context, phase=phase)
            return product(what, batch, dtype)
        if path.suffix.lower() in WEIGHTS:
            remedy = "Read the module in Python (ts.run(module, args)), or export it with torch.onnx.export"
            raise user_error("a file of weights lacks operations", place=what, suggestion=remedy)
        if what.startswith("hf:") or os.path.isfile(path / "config.json"):
            return _pretrained(what.removeprefix("hf:"), batch, context, phase, dtype)
        if os.path.exists(path) or "/" in what:
            if os.path.isdir(path):
                raise user_error("a directory, not a model's file", place=what, allowed=", ".join(ENDINGS))
            hint = "A module is run from Python: ts.run(module, (x,))" if path.suffix == ".py" else ""
            raise user_error("unknown kind of file", place=what, value=path.suffix or "no ending",
                             allowed=", ".join(ENDINGS), suggestion=hint)  # fmt: skip
        return models.build(what, batch=batch, sequence=context, dtype=dtype, phase=phase)
    check_regular(path, missing=True)
    if path.suffix.lower() == ".json" and _describes_model(path):
        return _pretrained(what, batch, context, phase, dtype)
    _refuse("phase and dtype do not apply to a file, which has its own", what, phase=phase)
    if path.suffix.lower() in UNTYPED:
        _refuse_sizes(path, batch, context)
        read = frontends.from_scale_sim if path.suffix.lower() == ".csv" else frontends.from_timeloop_problem
        return read(path, dtype or "i8")
    _refuse("phase and dtype do not apply to a file, which has its own", what, dtype=dtype)
    return _file(path, batch, context, passes)


def _describes_model(path: Path) -> bool:
    """Whether a .json file is a model configuration of the library transformers."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.stat().st_size < CONFIGURATION else None
    except (OSError, ValueError, RecursionError):
        return False  # its reader raises the precise error
    return isinstance(found, dict) and "schema" not in found and isinstance(found.get("model_type"), str)


def _pretrained(what: str, batch: int, context: int | None, phase: str | None, dtype: str | None) -> Graph:
    return from_transformers(what, phase or "prefill", context, batch, dtype)


def _refuse(why: str, place: str, **given: Any) -> None:
    """Raises an error if any option in `given` is not None, because the workload does not accept it."""
    named = ", ".join(f"--{key} {value}" for key, value in given.items() if value is not None)
    if named:
        raise user_error(why, place=place, value=named)


def _file(path: Path, batch: int, context: int | None, passes: Any) -> Graph | Program:
    suffix = path.suffix.lower()
    if suffix == ".onnx":
        sizes = frontends.symbolic_sizes(path, batch, context)
        if (batch > 1 and batch not in sizes.values()) or (context is not None and context not in sizes.values()):
            _refuse_sizes(path, batch, context)
        graph = frontends.from_onnx(path, sizes=sizes, passes=passes)
        for name, size in sizes.items():
            option = "--context" if context is not None and size == context != batch else "--batch"
            graph.assumptions.append(f"dimension '{name}' of {path.name} is open: {size} ({option})")
        return graph
    _refuse_sizes(path, batch, context)
    if suffix in MLIR:
        return frontends.from_stablehlo(path, passes=passes)
    if suffix == ".json":
        if names_program(path):
            return Program.load(path)
        with path.open(encoding="utf-8", errors="replace") as file:
            start = file.read(2000)
        if frontends.is_pytorch_ir(start):
            return frontends.from_pytorch_ir(path)
        other = next((schema for schema in _ELSEWHERE if f'"{schema}"' in start), "")
        if other:
            raise user_error("not a graph", place=str(path), value=other, allowed="tilesim.graph",
                             suggestion=_ELSEWHERE[other])  # fmt: skip
    else:
        opened = _core.GraphFile(str(path))
        return Program._of_file(opened, str(path)) if opened.compiled else Graph(opened.graph())
    return Graph.load(path)


def names_program(path: str | os.PathLike[str]) -> bool:
    """Whether a .json file contains a tile program."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return '"tilesim.program"' in file.read(2000)
    except OSError:
        return False  # its reader raises the precise error


def _refuse_sizes(path: Path, batch: int, context: int | None) -> None:
    given = {"batch": batch if batch > 1 else None, "context": context}
    _refuse("the sizes of this file are fixed", str(path), **given)


def load_graph(
    what: str,
    batch: int = 1,
    context: int | None = None,
    phase: str | None = None,
    dtype: str | None = None,
    passes: str | Sequence[str] | None = None,
) -> Graph:
    """Loads like `load`; returns the graph of a tile program."""
    loaded = load(what, batch, context, phase, dtype, passes)
    return _graph_of(loaded, what) if isinstance(loaded, Program) else loaded


def _graph_of(program: Program, place: str) -> Graph:
    if program.workload is None:
        remedy = f"Simulate it: ts.simulate({place!r}), tilesim run {place}"
        raise user_error("a tile program without its graph lacks operations", place=place, allowed="a graph",
                         suggestion=remedy if place.endswith((".json", ".tsim")) else "")  # fmt: skip
    return program.workload
