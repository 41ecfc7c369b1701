"""Tilesim: a tile-level simulator of machine-learning accelerators."""

from ._core import __version__

__all__ = ["__version__"]
