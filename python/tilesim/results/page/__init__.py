"""Shows a result as HTML page and in notebooks."""

from .sections import page, picture

__all__ = ["page", "picture"]
