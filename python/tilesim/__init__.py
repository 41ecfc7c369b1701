"""Tilesim: a tile-level simulator of machine-learning accelerators."""

from . import memory, models, network, workloads
from ._core import __version__
from .analytic.calibrate import calibrate
from .analytic.crossover import crossover
from .analytic.estimate import Estimate, Roofline, estimate, roofline
from .analytic.profile import Profile
from .api import Program, compile, execute, reference, run, simulate, sweep, verify
from .device import Device, Level, Rate
from .errors import Error, InternalError, Unsupported, UserError
from .frontends import from_jax, from_onnx, from_pytorch_ir, from_stablehlo, from_torch, to_pytorch_ir
from .graph import Graph, GraphBuilder
from .machine import Machine
from .result import Result, compare

__all__ = [
    "Device",
    "Error",
    "Estimate",
    "Graph",
    "GraphBuilder",
    "InternalError",
    "Level",
    "Machine",
    "Profile",
    "Program",
    "Rate",
    "Result",
    "Roofline",
    "Unsupported",
    "UserError",
    "__version__",
    "calibrate",
    "compare",
    "compile",
    "crossover",
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
    "roofline",
    "run",
    "simulate",
    "sweep",
    "to_pytorch_ir",
    "verify",
    "workloads",
]
