"""Many chips: networks, collectives, and what runs on them."""

from ..base.lazy import lazy, listed

TYPE_CHECKING = False  # as of typing, which takes time to import

if TYPE_CHECKING:
    from .algorithms import algorithm
    from .cluster import Cluster, Dimension
    from .communication import CollectiveResult, collective, collectives

__all__ = ["Cluster", "CollectiveResult", "Dimension", "algorithm", "collective", "collectives"]

_NAMES = {
    ".algorithms": ("algorithm",),
    ".cluster": ("Cluster", "Dimension"),
    ".communication": ("CollectiveResult", "collective", "collectives"),
}
__getattr__ = lazy(__name__, {name: module for module, names in _NAMES.items() for name in names})
__dir__ = listed(__name__, __all__)
