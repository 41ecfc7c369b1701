"""Models with published shapes and parameter counts, and random weights.

Weights have the names of the usual PyTorch implementation (torchvision, Hugging Face), so that a trained state loads by
name. Weights are created when something reads them; timing does not read them.
"""

from ..base.lazy import lazy, listed
from .registry import NETWORKS

TYPE_CHECKING = False  # importing typing is slow

if TYPE_CHECKING:
    from .building import build as build
    from .building import names as names
    from .building import table as table

_NAMES = {name: f".{module}" for module, _, name in (one.function.partition(".") for one in NETWORKS.values())}
_NAMES |= dict.fromkeys(("build", "names", "table"), ".building")
__all__ = sorted(_NAMES)
__getattr__ = lazy(__name__, _NAMES)
__dir__ = listed(__all__)
