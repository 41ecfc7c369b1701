"""Starts the command line: shows a message during imports, and lets Ctrl-C end them at once.

At the top it imports only modules that the handler of Ctrl-C needs.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]

PATIENCE = 0.25
"""Seconds before the message about imports appears."""

TEXT = "starting ..."


class _Sign:
    """A message on a terminal during long imports."""

    def __init__(self) -> None:
        self.drawn = 0.0

    def start(self) -> None:
        """Starts the thread that waits and then shows the message."""
        import threading

        self.over, self.lock = threading.Event(), threading.Lock()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        import time

        # the wait includes the time since the process started
        if self.over.wait(max(0.0, PATIENCE - time.process_time())):
            return
        with self.lock:
            if not self.over.is_set() and _write(f"{TEXT}\r"):
                self.drawn = time.monotonic()

    def wipe(self) -> float:
        """Removes or cancels the message; returns when it was drawn, 0 if never."""
        self.over.set()
        with self.lock:
            if self.drawn:
                _write(" " * len(TEXT) + "\r")
            return self.drawn


def _write(text: str) -> bool:
    try:
        return os.write(2, text.encode()) > 0
    except OSError:  # the terminal is gone
        return False


def _is_wanted() -> bool:
    dumb = os.environ.get("TERM", "") in ("dumb", "unknown")
    return not dumb and "_TILESIM_COMPLETE" not in os.environ and os.isatty(2)


def _catch(action: Any) -> bool:
    """Sets the handler of Ctrl-C, unless the parent process ignores the signal."""
    try:
        if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):
            return False
        signal.signal(signal.SIGINT, action)
    except ValueError:  # not the main thread
        return False
    return True


def _leave(*_: Any) -> None:
    """Exits at once with code 130, because imports leave no state to clean up."""
    _write("tilesim: interrupted\n")
    os._exit(130)


def main() -> None:
    """Entry point of `tilesim` and of `python -m tilesim`."""
    caught = _catch(_leave)
    sign = _Sign() if _is_wanted() else None
    if sign is not None:
        sign.start()
    from . import main as command_line
    from .progress import record_output

    command_line.prepare()
    if sign is not None and (drawn := sign.wipe()):
        record_output(drawn)
    if caught:
        _catch(signal.default_int_handler)
    try:
        command_line.main()
    except KeyboardInterrupt:  # a second Ctrl-C during the message
        _leave()
    finally:
        if caught:
            _catch(_leave)
        _flush()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # `main` already found the stream closed
            continue
