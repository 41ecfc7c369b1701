"""A result as HTML page and as notebook view."""

from .sections import page, picture

__all__ = ["page", "picture"]
