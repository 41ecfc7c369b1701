"""Public module for importing loop nests of other tools; see `tilesim.mapping.foreign`."""

from .base.lazy import listed
from .mapping.foreign import from_timeloop, from_zigzag

__all__ = ["from_timeloop", "from_zigzag"]
__dir__ = listed(__all__)
