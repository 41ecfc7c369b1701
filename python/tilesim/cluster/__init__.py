"""Clusters of devices: networks, communication libraries, collectives, parallel plans and steps."""

from ..base.lazy import lazy, listed

TYPE_CHECKING = False  # importing typing is slow

if TYPE_CHECKING:
    from .algorithms import algorithm
    from .chakra.reading import from_chakra
    from .chakra.replayed import Replay
    from .chakra.replaying import replay
    from .chakra.writing import to_chakra
    from .cluster import Cluster, Dimension
    from .communication import CollectiveResult, collective, collectives
    from .pipelines.calling import pipeline
    from .pipelines.result import Pipeline
    from .plan import Plan
    from .result import StepResult
    from .searching import search
    from .spmd import Spmd
    from .stepping import step
    from .trace import Trace, TraceClass, TraceNode, fsdp_trace
    from .views.scaling import scaling

__all__ = [
    "Cluster",
    "CollectiveResult",
    "Dimension",
    "Pipeline",
    "Plan",
    "Replay",
    "Spmd",
    "StepResult",
    "Trace",
    "TraceClass",
    "TraceNode",
    "algorithm",
    "collective",
    "collectives",
    "from_chakra",
    "fsdp_trace",
    "pipeline",
    "replay",
    "scaling",
    "search",
    "step",
    "to_chakra",
]

_NAMES = {
    ".algorithms": ("algorithm",),
    ".chakra.reading": ("from_chakra",),
    ".chakra.replayed": ("Replay",),
    ".chakra.replaying": ("replay",),
    ".chakra.writing": ("to_chakra",),
    ".cluster": ("Cluster", "Dimension"),
    ".communication": ("CollectiveResult", "collective", "collectives"),
    ".pipelines.calling": ("pipeline",),
    ".pipelines.result": ("Pipeline",),
    ".plan": ("Plan",),
    ".result": ("StepResult",),
    ".searching": ("search",),
    ".spmd": ("Spmd",),
    ".stepping": ("step",),
    ".trace": ("Trace", "TraceClass", "TraceNode", "fsdp_trace"),
    ".views.scaling": ("scaling",),
}
__getattr__ = lazy(__name__, {name: module for module, names in _NAMES.items() for name in names})
__dir__ = listed(__all__)
