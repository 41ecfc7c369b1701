"""Tilesim: a tile-level simulator of machine-learning accelerators."""

from .base.above import enter
from .base.lazy import lazy, listed

TYPE_CHECKING = False  # as of typing, which takes time to import

if TYPE_CHECKING:
    from . import cluster, executors, isa, mapping, memory, models, network, views, workloads
    from ._core import __version__
    from .analytic.best import best_schemes
    from .analytic.calibrate import calibrate
    from .analytic.crossover import crossover
    from .analytic.estimate import Estimate, estimate
    from .analytic.lower_bound import Roofline, lower_bound, roofline
    from .analytic.profile import Profile
    from .base.errors import Error, InternalError, Unsupported, UserError
    from .base.store import Store
    from .cluster.cluster import Cluster
    from .cluster.partition import partition
    from .cluster.plan import Plan
    from .cluster.spmd import Spmd
    from .frontends import (
        from_jax,
        from_onnx,
        from_pytorch_ir,
        from_scale_sim,
        from_stablehlo,
        from_timeloop_problem,
        from_torch,
        from_transformers,
        to_pytorch_ir,
    )
    from .graph import Graph, GraphBuilder, optimize
    from .graph.gradient import gradient
    from .machine.device import Device, Level, Rate
    from .machine.machine import Machine
    from .machine.target import machines
    from .mapping import MappingTable
    from .program.fusion import fusion_rules
    from .program.jobs import Job
    from .program.program import Program
    from .results.compared import compare
    from .results.result import Result
    from .study.coverage import Coverage, coverage
    from .study.play import play
    from .study.profiler import OperationTimes, profile
    from .study.sweep import sweep
    from .study.tune import Study, tune
    from .study.why import Why
    from .timing.accuracy import accuracy
    from .timing.execution import execute, reference, verify
    from .timing.latencies import TileLatencies
    from .timing.levels import Levels, levels
    from .timing.quantize import quantize
    from .timing.residency import Residency, residency
    from .timing.simulate import compile, run, simulate

__all__ = [
    "Cluster",
    "Coverage",
    "Device",
    "Error",
    "Estimate",
    "Graph",
    "GraphBuilder",
    "InternalError",
    "Job",
    "Level",
    "Levels",
    "Machine",
    "MappingTable",
    "OperationTimes",
    "Plan",
    "Profile",
    "Program",
    "Rate",
    "Residency",
    "Result",
    "Roofline",
    "Spmd",
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
    "cluster",
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
    "from_scale_sim",
    "from_stablehlo",
    "from_timeloop_problem",
    "from_torch",
    "from_transformers",
    "fusion_rules",
    "gradient",
    "isa",
    "levels",
    "lower_bound",
    "machines",
    "mapping",
    "memory",
    "models",
    "network",
    "optimize",
    "partition",
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

_NAMES = {
    "._core": ("__version__",),
    ".analytic.estimate": ("Estimate", "estimate"),
    ".analytic.lower_bound": ("Roofline", "lower_bound", "roofline"),
    ".analytic.profile": ("Profile",),
    ".base.errors": ("Error", "InternalError", "Unsupported", "UserError"),
    ".base.store": ("Store",),
    ".cluster.cluster": ("Cluster",),
    ".cluster.plan": ("Plan",),
    ".cluster.partition": ("partition",),
    ".cluster.spmd": ("Spmd",),
    ".graph": ("Graph", "GraphBuilder", "optimize"),
    ".graph.gradient": ("gradient",),
    ".machine.device": ("Device", "Level", "Rate"),
    ".machine.machine": ("Machine",),
    ".machine.target": ("machines",),
    ".mapping": ("MappingTable",),
    ".program.fusion": ("fusion_rules",),
    ".program.jobs": ("Job",),
    ".program.program": ("Program",),
    ".results.compared": ("compare",),
    ".results.result": ("Result",),
    ".study.coverage": ("Coverage", "coverage"),
    ".study.profiler": ("OperationTimes", "profile"),
    ".study.sweep": ("sweep",),
    ".study.tune": ("Study", "tune"),
    ".study.why": ("Why",),
    ".timing.accuracy": ("accuracy",),
    ".timing.execution": ("execute", "reference", "verify"),
    ".timing.latencies": ("TileLatencies",),
    ".timing.levels": ("Levels", "levels"),
    ".timing.quantize": ("quantize",),
    ".timing.residency": ("Residency", "residency"),
    ".timing.simulate": ("compile", "run", "simulate"),
    ".analytic.best": ("best_schemes",),
    ".analytic.calibrate": ("calibrate",),
    ".analytic.crossover": ("crossover",),
    ".frontends": (
        "from_jax",
        "from_onnx",
        "from_pytorch_ir",
        "from_scale_sim",
        "from_stablehlo",
        "from_timeloop_problem",
        "from_torch",
        "from_transformers",
        "to_pytorch_ir",
    ),
    ".study.play": ("play",),
}
_PACKAGES = (
    "analytic",
    "base",
    "cluster",
    "executors",
    "frontends",
    "graph",
    "isa",
    "loading",
    "lowering",
    "machine",
    "mapping",
    "memory",
    "models",
    "network",
    "program",
    "results",
    "study",
    "timing",
    "views",
    "workloads",
)
enter(
    {
        "advice": "tilesim.study.alternatives:advice",
        "compare": "tilesim.results.compared:compare",
        "mixed": "tilesim.program.mixed:from_document",
        "quantize": "tilesim.timing.quantize:quantize",
        "reasons": "tilesim.study.page.reasons:reasons",
        "tuned": "tilesim.study.tune:tuned_nests",
        "why": "tilesim.study.why:why",
    }
)
__getattr__ = lazy(__name__, {name: module for module, names in _NAMES.items() for name in names}, _PACKAGES)
__dir__ = listed(__name__, __all__)
