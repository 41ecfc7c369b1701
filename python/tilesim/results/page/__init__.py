"""Shows a result as an HTML page and in notebooks."""

from .sections import page, picture

__all__ = ["page", "picture"]
