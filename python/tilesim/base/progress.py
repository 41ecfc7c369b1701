"""A progress bar for terminals."""

from __future__ import annotations

import sys
import time
from typing import Any


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
