"""Tilesim: a tile-level simulator of machine-learning accelerators."""

from .base import late_calls as _late_calls
from .base import lazy as _lazy

TYPE_CHECKING = False  # same meaning as typing.TYPE_CHECKING; typing is slow to import

if TYPE_CHECKING:
    from . import analytic, cluster, executors, frontends, isa, mapping, memory, models, network, workloads
    from ._core import __version__ as __version__
    from .analytic.crossover import crossover
    from .analytic.estimate import Estimate, estimate
    from .analytic.lower_bound import lower_bound, roofline
    from .base.errors import Error, InternalError, Unsupported, UserError
    from .base.store import Store
    from .cluster.cluster import Cluster
    from .cluster.partition import partition
    from .cluster.plan import Plan
    from .frontends import from_jax, from_onnx, from_stablehlo, from_torch, from_transformers
    from .graph import Graph, GraphBuilder, optimize
    from .graph.gradient import gradient
    from .machine.device import Device
    from .machine.machine import Machine
    from .machine.target import devices, machines
    from .program.jobs import Job
    from .program.program import Program
    from .results.compared import compare
    from .results.result import Result
    from .study.coverage import coverage
    from .study.sweep import sweep
    from .study.tune import tune
    from .timing.execution import execute, reference, verify
    from .timing.latencies import TileLatencies
    from .timing.levels import levels
    from .timing.quantize import quantize
    from .timing.simulate import compile, run, simulate

__all__ = [
    "Cluster",
    "Device",
    "Error",
    "Estimate",
    "Graph",
    "GraphBuilder",
    "InternalError",
    "Job",
    "Machine",
    "Plan",
    "Program",
    "Result",
    "Store",
    "TileLatencies",
    "Unsupported",
    "UserError",
    "analytic",
    "cluster",
    "compare",
    "compile",
    "coverage",
    "crossover",
    "devices",
    "estimate",
    "execute",
    "executors",
    "from_jax",
    "from_onnx",
    "from_stablehlo",
    "from_torch",
    "from_transformers",
    "frontends",
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
    "quantize",
    "reference",
    "roofline",
    "run",
    "simulate",
    "sweep",
    "tune",
    "verify",
    "workloads",
]

_NAMES = {
    "._core": ("__version__",),
    ".analytic.crossover": ("crossover",),
    ".analytic.estimate": ("Estimate", "estimate"),
    ".analytic.lower_bound": ("lower_bound", "roofline"),
    ".base.errors": ("Error", "InternalError", "Unsupported", "UserError"),
    ".base.store": ("Store",),
    ".cluster.cluster": ("Cluster",),
    ".cluster.partition": ("partition",),
    ".cluster.plan": ("Plan",),
    ".frontends": ("from_jax", "from_onnx", "from_stablehlo", "from_torch", "from_transformers"),
    ".graph": ("Graph", "GraphBuilder", "optimize"),
    ".graph.gradient": ("gradient",),
    ".machine.device": ("Device",),
    ".machine.machine": ("Machine",),
    ".machine.target": ("devices", "machines"),
    ".program.jobs": ("Job",),
    ".program.program": ("Program",),
    ".results.compared": ("compare",),
    ".results.result": ("Result",),
    ".study.coverage": ("coverage",),
    ".study.sweep": ("sweep",),
    ".study.tune": ("tune",),
    ".timing.execution": ("execute", "reference", "verify"),
    ".timing.latencies": ("TileLatencies",),
    ".timing.levels": ("levels",),
    ".timing.quantize": ("quantize",),
    ".timing.simulate": ("compile", "run", "simulate"),
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
_late_calls.enter(
    {
        "advice": "tilesim.study.alternatives:advice",
        "compare": "tilesim.results.compared:compare",
        "estimated": "tilesim.analytic.estimate:estimated",
        "loaded_step": "tilesim.cluster.saved:load",
        "mixed": "tilesim.program.mixed:from_document",
        "quantize": "tilesim.timing.quantize:quantize",
        "reasons": "tilesim.study.page.reasons:reasons",
        "tuned": "tilesim.study.tune:tuned_nests",
        "why": "tilesim.study.why:why",
    }
)
__getattr__ = _lazy.lazy(__name__, {name: module for module, names in _NAMES.items() for name in names}, _PACKAGES)
__dir__ = _lazy.listed(__all__)
