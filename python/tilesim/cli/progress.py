"""Shows progress on a terminal after half a second: phase, spinner, count, remaining time.

A thread draws while the core computes, because calls into the core release the interpreter's lock.
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

from ..base import screen
from ..base.progress import listening

__all__ = ["Phase", "delay", "phase", "quiet_since"]

PATIENCE = 0.4
"""Seconds of silence before the first output."""

FIRST = 0.05
"""Shortest delay, so that a quick phase draws nothing."""

_TENTH = 0.1

_last = {"sign": time.monotonic() - time.process_time()}  # start of this process


def quiet_since() -> float:
    """Returns the seconds since the last output."""
    return time.monotonic() - _last["sign"]


def delay(quiet: float) -> float:
    """Returns the seconds to wait before the first output, given `quiet` seconds without output."""
    return max(FIRST, PATIENCE - quiet)


def record_output(at: float = 0.0) -> None:
    """Records the time of an output."""
    _last["sign"] = at or time.monotonic()


class Phase:
    """A phase of a command."""

    def __init__(self, text: str, total: int = 0) -> None:
        """Starts a phase."""
        self.text, self.total, self.done, self.part = text, total, 0, ""
        self.began = self.since = time.monotonic()

    def at(self, done: int, total: int = 0, part: str = "") -> None:
        """Updates the progress."""
        if total and total != self.total:  # a new count begins
            self.since = time.monotonic()
        self.done, self.total, self.part = done, total or self.total, part

    def describe(self, room: int) -> str:
        """Returns one line with text, count, elapsed and remaining time, at most `room` characters."""
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


class _SpinnerThread(threading.Thread):
    """Waits for `delay` seconds, then draws the phase until stopped."""

    def __init__(self, phase: Phase, delay: float) -> None:
        super().__init__(daemon=True)
        self.phase, self.delay, self.over = phase, delay, threading.Event()

    def run(self) -> None:
        if self.over.wait(self.delay):
            return
        record_output()
        try:
            if os.environ.get("TERM", "") in ("dumb", "unknown"):
                text = screen.spelled(screen.clean(self.phase.text), sys.stderr.encoding)
                sys.stderr.write(f"{text} ...\n")
                sys.stderr.flush()
            else:
                self._draw()
        except (OSError, ValueError):  # the terminal is closed
            pass
        finally:
            record_output()

    def _draw(self) -> None:
        width = shutil.get_terminal_size().columns
        text = screen.fitted(screen.clean(self.phase.text), max(1, width - 12))
        sys.stderr.write(screen.spelled(text, sys.stderr.encoding) + "\r")  # before rich is imported
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
    """Shows a phase on a terminal while it runs."""
    one = Phase(text, total)
    if sys.stderr is None or not sys.stderr.isatty():
        yield one
        return
    drawing = _SpinnerThread(one, delay(quiet_since()))
    drawing.start()
    try:
        with listening(one.at):
            yield one
    finally:
        drawing.over.set()
        drawing.join()
