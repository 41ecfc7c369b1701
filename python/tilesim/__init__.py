"""Tilesim: a tile-level simulator of machine-learning accelerators."""

from . import mapping, models, network, workloads
from ._core import __version__
from .api import Program, compile, estimate, execute, reference, run, simulate, verify
from .errors import Error, InternalError, Unsupported, UserError
from .graph import Graph, GraphBuilder
from .machine import Machine
from .mapping import MappingTable
from .result import Result, compare
from .store import Store
from .sweep import sweep
from .tune import Study, tune

__all__ = [
    "Error",
    "Graph",
    "GraphBuilder",
    "InternalError",
    "Machine",
    "MappingTable",
    "Program",
    "Result",
    "Store",
    "Study",
    "Unsupported",
    "UserError",
    "__version__",
    "compare",
    "compile",
    "estimate",
    "execute",
    "mapping",
    "models",
    "network",
    "reference",
    "run",
    "simulate",
    "sweep",
    "tune",
    "verify",
    "workloads",
]
