"""Tilesim: a tile-level simulator of machine-learning accelerators."""

from typing import TYPE_CHECKING

from . import executors, isa, mapping, memory, models, network, views, workloads
from ._core import __version__
from .analytic.estimate import Estimate, Roofline, estimate, roofline
from .analytic.lower_bound import lower_bound
from .analytic.profile import Profile
from .base.errors import Error, InternalError, Unsupported, UserError
from .base.lazy import lazy
from .base.store import Store
from .graph import Graph, GraphBuilder, optimize
from .graph.gradient import gradient
from .machine.device import Device, Level, Rate
from .machine.machine import Machine
from .machine.target import machines
from .mapping import MappingTable
from .program.fusion import fusion_rules
from .program.jobs import Job
from .program.program import Program
from .results.comparison import compare
from .results.result import Result
from .study.coverage import Coverage, coverage
from .study.profiler import OperationTimes, profile
from .study.sweep import sweep
from .study.tune import Study, tune
from .study.why import Why
from .timing.accuracy import accuracy
from .timing.execution import execute, reference, verify
from .timing.latencies import TileLatencies
from .timing.quantize import quantize
from .timing.residency import Residency, residency
from .timing.simulate import compile, run, simulate

if TYPE_CHECKING:
    from .analytic.best import best_schemes
    from .analytic.calibrate import calibrate
    from .analytic.crossover import crossover
    from .frontends import (
        from_jax,
        from_onnx,
        from_pytorch_ir,
        from_stablehlo,
        from_torch,
        from_transformers,
        to_pytorch_ir,
    )
    from .study.play import play

__all__ = [
    "Coverage",
    "Device",
    "Error",
    "Estimate",
    "Graph",
    "GraphBuilder",
    "InternalError",
    "Job",
    "Level",
    "Machine",
    "MappingTable",
    "OperationTimes",
    "Profile",
    "Program",
    "Rate",
    "Residency",
    "Result",
    "Roofline",
    "Store",
    "Study",
    "TileLatencies",
    "Unsupported",
    "UserError",
    "Why",
    "__version__",
    "accuracy",
    "best_schemes",
    "calibrate",
    "compare",
    "compile",
    "coverage",
    "crossover",
    "estimate",
    "execute",
    "executors",
    "from_jax",
    "from_onnx",
    "from_pytorch_ir",
    "from_stablehlo",
    "from_torch",
    "from_transformers",
    "fusion_rules",
    "gradient",
    "isa",
    "lower_bound",
    "machines",
    "mapping",
    "memory",
    "models",
    "network",
    "optimize",
    "play",
    "profile",
    "quantize",
    "reference",
    "residency",
    "roofline",
    "run",
    "simulate",
    "sweep",
    "to_pytorch_ir",
    "tune",
    "verify",
    "views",
    "workloads",
]

_FRONT_ENDS = (
    "from_jax",
    "from_onnx",
    "from_pytorch_ir",
    "from_stablehlo",
    "from_torch",
    "from_transformers",
    "to_pytorch_ir",
)
__getattr__ = lazy(
    __name__,
    {
        **dict.fromkeys(_FRONT_ENDS, ".frontends"),
        "calibrate": ".analytic.calibrate",
        "best_schemes": ".analytic.best",
        "crossover": ".analytic.crossover",
        "play": ".study.play",
    },
)
