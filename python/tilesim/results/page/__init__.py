"""A result as one HTML page, and as what a notebook shows of it."""

from .sections import page, picture

__all__ = ["page", "picture"]
