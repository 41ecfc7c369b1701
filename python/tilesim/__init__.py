"""Tilesim: a tile-level simulator of machine-learning accelerators."""

from . import memory, models, network, workloads
from ._core import __version__
from .api import Program, compile, estimate, execute, reference, run, simulate, sweep, verify
from .errors import Error, InternalError, Unsupported, UserError
from .frontends import from_jax, from_onnx, from_pytorch_ir, from_stablehlo, from_torch, to_pytorch_ir
from .graph import Graph, GraphBuilder
from .machine import Machine
from .result import Result, compare

__all__ = [
    "Error",
    "Graph",
    "GraphBuilder",
    "InternalError",
    "Machine",
    "Program",
    "Result",
    "Unsupported",
    "UserError",
    "__version__",
    "compare",
    "compile",
    "estimate",
    "execute",
    "from_jax",
    "from_onnx",
    "from_pytorch_ir",
    "from_stablehlo",
    "from_torch",
    "memory",
    "models",
    "network",
    "reference",
    "run",
    "simulate",
    "sweep",
    "to_pytorch_ir",
    "verify",
    "workloads",
]
