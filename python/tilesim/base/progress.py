"""Progress of what takes long: a call tells how far it is, whoever listens shows it; nobody listens by default."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

__all__ = ["Bar", "Listener", "followed", "listening", "tell"]

Listener = Callable[[int, int, str], None]
"""Called with done, total and what is being worked on."""

_Part = TypeVar("_Part")
_here = threading.local()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Hears what calls of this thread tell, while it is open.

    Args:
        listener: gets done, total and a name.
    """
    before = getattr(_here, "listener", None)
    _here.listener = listener
    try:
        yield
    finally:
        _here.listener = before


def tell(done: int, total: int, name: str = "") -> None:
    """Tells how far a call is; nothing happens where nobody of this thread listens.

    Args:
        done: parts that are finished.
        total: parts in all.
        name: of the part that is next.
    """
    listener: Listener | None = getattr(_here, "listener", None)
    if listener is not None:
        listener(done, total, name)


def followed(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Parts one after the other, telling how many are done.

    Args:
        parts: of a long call.

    Yields:
        Each of them.
    """
    for done, part in enumerate(parts):
        tell(done, len(parts))
        yield part


class Bar:
    """Redraws one line on standard error, at most ten times a second; nothing at all where that is no terminal."""

    WIDTH = 30
    SECONDS = 0.1

    def __init__(self, stream: Any = None) -> None:
        """A bar on `stream`; none: standard error."""
        self.stream = stream if stream is not None else sys.stderr
        self.drawn = 0.0

    def __call__(self, done: int, total: int, name: str) -> None:
        """Draws: `done` of `total`, working on `name`; the last call ends the line."""
        if not self.stream.isatty():
            return
        now = time.monotonic()
        last = done >= total
        if not last and now - self.drawn < self.SECONDS:
            return
        self.drawn = now
        full = self.WIDTH * done // max(1, total)
        end = "\n" if last else ""
        self.stream.write(f"\r[{'#' * full}{' ' * (self.WIDTH - full)}] {done}/{total} {name[:40]:<40}{end}")
        self.stream.flush()
