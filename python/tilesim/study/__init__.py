"""Studies many simulations (tuning, sweeps, coverage, profiles) and explains a single one."""

from typing import TYPE_CHECKING

from ..base.lazy import lazy, listed

if TYPE_CHECKING:
    from ..timing.levels import Levels
    from .coverage import Coverage
    from .playing import play
    from .profiler import OperationTimes, profile
    from .tune import Study
    from .why import Why

__all__ = ["Coverage", "Levels", "OperationTimes", "Study", "Why", "play", "profile"]

_NAMES = {
    "..timing.levels": ("Levels",),
    ".coverage": ("Coverage",),
    ".playing": ("play",),
    ".profiler": ("OperationTimes", "profile"),
    ".tune": ("Study",),
    ".why": ("Why",),
}
__getattr__ = lazy(__name__, {name: module for module, names in _NAMES.items() for name in names})
__dir__ = listed(__all__)
