"""Many chips: networks, communication libraries, collectives, plans and steps."""

from ..base.lazy import lazy, listed

TYPE_CHECKING = False  # as of typing, which takes time to import

if TYPE_CHECKING:
    from .plan import Plan
    from .result import StepResult
    from .searching import search
    from .stepping import step

__all__ = ["Plan", "StepResult", "search", "step"]

_NAMES = {".plan": ("Plan",), ".result": ("StepResult",), ".searching": ("search",), ".stepping": ("step",)}
__getattr__ = lazy(__name__, {name: module for module, names in _NAMES.items() for name in names})
__dir__ = listed(__name__, __all__)
