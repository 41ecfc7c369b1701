"""
The compiled core of Tilesim (private; use the package tilesim).
"""
from __future__ import annotations
__all__: list[str] = list()
__version__: str = '0.1.0'
