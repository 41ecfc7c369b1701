"""Fixtures of pages in a browser."""

from support.browser import browser, opened

__all__ = ["browser", "opened"]
