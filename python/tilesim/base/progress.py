"""Reports progress of long calls to a listener, which shows it; by default nobody listens."""

from __future__ import annotations

import io
import math
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any, TypeVar

__all__ = ["Listener", "ProgressBar", "counter", "followed", "listening", "tell"]

Listener = Callable[[int, int, str], None]
"""Called with the number done, the total, and the current item."""

_Part = TypeVar("_Part")
_here = threading.local()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Passes progress of this thread's calls to a listener within the block."""
    before = getattr(_here, "listener", None)
    _here.listener = listener
    try:
        yield
    finally:
        _here.listener = before


def tell(done: int, total: int, name: str = "") -> None:
    """Reports progress to this thread's listener, if any."""
    listener: Listener | None = getattr(_here, "listener", None)
    if listener is not None:
        listener(done, total, name)


def counter(what: str) -> Callable[[int, int], None] | None:
    """Makes a callback for the core's progress (done, total), or returns None without a listener."""
    listener: Listener | None = getattr(_here, "listener", None)
    if listener is None or getattr(_here, "within", False):
        return None
    heard = listener
    return lambda done, total: heard(done, total, what)


def followed(parts: Sequence[_Part]) -> Iterator[_Part]:
    """Iterates over parts and reports progress."""
    for done, part in enumerate(parts):
        tell(done, len(parts))
        _here.within = True
        try:
            yield part
        finally:
            _here.within = False


class ProgressBar:
    """A progress line: redrawn on a terminal and in a notebook, repeated every few seconds in a file."""

    WIDTH = 30
    SECONDS = 0.1
    LINES = 10.0
    """Seconds between the lines of a file."""

    def __init__(self, stream: Any = None) -> None:
        """Creates a bar on `stream`; by default in the running notebook cell, else on standard error."""
        self.stream = stream if stream is not None else sys.stderr or io.StringIO()  # None: stderr is closed
        self.drawn, self.before, self.lines = -math.inf, 0, 0
        self.shown: Any = None
        self.display = _notebook() if stream is None else None
        self.is_terminal = self.display is None and bool(self.stream.isatty())
        if self.display is None and not self.is_terminal:
            self.drawn = time.monotonic()

    def __call__(self, done: int, total: int, name: str) -> None:
        """Draws `done` of `total` and `name`; the last call ends the line."""
        now = time.monotonic()
        last = done >= total
        quick = self.is_terminal or self.display is not None
        if not last and now - self.drawn < (self.SECONDS if quick else self.LINES):
            return
        self.drawn = now
        text = f"{done}/{total} {name[:40]}".rstrip()
        if self.display is not None:
            shown = _Line(done, total, text)
            if self.shown is None:
                self.shown = self.display(shown, display_id=True)
            else:
                self.shown.update(shown)
            return
        if not self.is_terminal:
            if last and not self.lines:  # the call ended before the first line
                return
            self.stream.write(f"{text}\n")
            self.lines += 1
        else:
            full = self.WIDTH * done // max(1, total)
            room = shutil.get_terminal_size().columns - 1
            line = f"[{'#' * full}{' ' * (self.WIDTH - full)}] {text}"[: max(1, room)]
            self.stream.write(f"\r{line.ljust(self.before)}" + ("\n" if last else ""))
            self.before = len(line)
        self.stream.flush()


class _Line:
    """The bar in a notebook."""

    def __init__(self, done: int, total: int, text: str) -> None:
        self.done, self.total, self.text = done, total, text

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f'<progress value="{self.done}" max="{max(1, self.total)}"></progress> {escape(self.text)}'


def _notebook() -> Any:
    """IPython's `display` in a notebook; None elsewhere."""
    shell = sys.modules.get("IPython")
    asked = shell.get_ipython() if shell is not None and hasattr(shell, "get_ipython") else None
    if asked is None or not hasattr(asked, "kernel"):  # IPython runs on a terminal
        return None
    from IPython.display import display

    return display
