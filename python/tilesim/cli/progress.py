"""What is being done, on a terminal, once it takes longer than half a second: phase, spinner, how much, time left.

It is drawn by a thread of its own while the call computes: calls into the core release the interpreter's lock.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..base.progress import listening
from . import screen

__all__ = ["Phase", "delay", "phase", "quiet_since"]

PATIENCE = 0.4
"""Seconds of silence before the first sign: half a second with what drawing takes to begin."""

FIRST = 0.05
"""The shortest delay, so that what is over at once draws nothing."""

_TENTH = 0.1

_last = {"sign": time.monotonic() - time.process_time()}  # when this process began, by the work that it has done


def quiet_since() -> float:
    """Seconds since the user saw anything."""
    return time.monotonic() - _last["sign"]


def delay(quiet: float) -> float:
    """Seconds to wait before the first sign."""
    return max(FIRST, PATIENCE - quiet)


def seen(at: float = 0.0) -> None:
    """The user sees something."""
    _last["sign"] = at or time.monotonic()


class Phase:
    """One thing that is being done."""

    def __init__(self, text: str, total: int = 0) -> None:
        """Describes it."""
        self.text, self.total, self.done, self.part = text, total, 0, ""
        self.began = self.since = time.monotonic()

    def at(self, done: int, total: int = 0, part: str = "") -> None:
        """How far it is."""
        if total and total != self.total:  # something else is counted from here on
            self.since = time.monotonic()
        self.done, self.total, self.part = done, total or self.total, part

    def describe(self, room: int) -> str:
        """One line: what, how many of how many, how long still."""
        now = time.monotonic()
        spent = now - self.began
        counted = f" {self.done:,}/{self.total:,}" if self.done <= self.total and self.total else ""
        left = ""
        if self.total and 0 < self.done < self.total:
            left = f", {math.ceil((now - self.since) / self.done * (self.total - self.done)):,} s left"
        end = f"{counted}, {spent:,.0f} s{left}"
        part = f": {screen.clean(self.part)}" if self.part else ""
        line = screen.fitted(screen.clean(self.text) + part, max(1, room - len(end))) + end
        return screen.spelled(line, getattr(sys.stderr, "encoding", None))


class _Drawing(threading.Thread):
    """Waits, then draws until it is told to stop."""

    def __init__(self, phase: Phase, delay: float) -> None:
        super().__init__(daemon=True)
        self.phase, self.delay, self.over = phase, delay, threading.Event()

    def run(self) -> None:
        if self.over.wait(self.delay):
            return
        seen()
        try:
            if os.environ.get("TERM", "") in ("dumb", "unknown"):
                text = screen.spelled(screen.clean(self.phase.text), sys.stderr.encoding)
                sys.stderr.write(f"{text} ...\n")
                sys.stderr.flush()
            else:
                self._draw()
        except (OSError, ValueError):  # the terminal is gone
            pass
        finally:
            seen()

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns
        text = screen.fitted(screen.clean(self.phase.text), max(1, width - 12))
        sys.stderr.write(screen.spelled(text, sys.stderr.encoding) + "\r")  # before rich is read
        sys.stderr.flush()
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        console = Console(stderr=True, highlight=False)
        spinner: Any = Spinner("dots" if (console.encoding or "").startswith("utf") else "line")

        def now() -> Any:
            spinner.update(text=Text(self.phase.describe(console.width - 4)))
            return spinner

        with Live(now(), console=console, transient=True, auto_refresh=False, redirect_stdout=False) as live:
            while not self.over.wait(_TENTH):
                live.update(now(), refresh=True)


@contextmanager
def phase(text: str, total: int = 0) -> Iterator[Phase]:
    """Says on a terminal what takes time while it does; elsewhere nothing."""
    one = Phase(text, total)
    if sys.stderr is None or not sys.stderr.isatty():
        yield one
        return
    drawing = _Drawing(one, delay(quiet_since()))
    drawing.start()
    try:
        with listening(one.at):
            yield one
    finally:
        drawing.over.set()
        drawing.join()
