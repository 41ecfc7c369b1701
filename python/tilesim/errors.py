"""Errors that Tilesim raises."""

from ._core import Error, InternalError, Unsupported, UserError

__all__ = ["Error", "InternalError", "Unsupported", "UserError"]
