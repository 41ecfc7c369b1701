"""Pauses Python's cycle collector, and delivers a Ctrl-C that its callbacks would discard."""

from __future__ import annotations

import _thread
import functools
import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar, cast

__all__ = ["heard", "uncollected"]

_LOCK = threading.Lock()
_inside = 0
_enabled = False


@contextmanager
def uncollected() -> Iterator[None]:
    """Turns the cycle collector off while a call creates many long-lived objects.

    Calls may nest, also in several threads; the last to leave restores the collector. After Ctrl-C all objects move
    to the oldest generation, so that no full collection delays the exit.
    """
    global _inside, _enabled
    stopped = False
    with _LOCK:
        if _inside == 0:
            _enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    except BaseException as error:
        stopped = not isinstance(error, Exception)
        raise
    finally:
        with _LOCK:
            _inside -= 1
            if _inside == 0 and _enabled:
                if stopped and not gc.get_freeze_count():  # keeps objects that the user froze
                    gc.freeze()
                    gc.unfreeze()  # moves objects to the oldest generation, which only a full collection examines
                gc.enable()


F = TypeVar("F", bound=Callable[..., Any])
LATER_SECONDS = 0.02


def heard(function: F) -> F:
    """Marks a long call that Ctrl-C must end. Python swallows an exception in the collector's callbacks (jax has one):
    the signal is sent again a moment later. One that a finalizer swallows is raised when the call returns. A
    custom handler stays."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        main = threading.current_thread() is threading.main_thread()
        if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return function(*args, **named)
        asked = False

        def interrupted(number: int, frame: FrameType | None) -> None:
            nonlocal asked
            asked = True
            _interrupted(number, frame)
            asked = False  # runs only if the signal is sent again

        signal.signal(signal.SIGINT, interrupted)
        try:
            result = function(*args, **named)
            if asked:
                raise KeyboardInterrupt
            return result
        finally:
            if signal.getsignal(signal.SIGINT) is interrupted:
                signal.signal(signal.SIGINT, signal.default_int_handler)

    return cast(F, call)


def _interrupted(number: int, frame: FrameType | None) -> None:
    callbacks = {getattr(one, "__code__", None) for one in gc.callbacks}
    at = frame
    while at is not None:
        if at.f_code in callbacks:
            _thread.start_new_thread(_later, (number,))  # not a Timer, which takes locks that the main thread may hold
            return
        at = at.f_back
    signal.default_int_handler(number, frame)


def _later(number: int) -> None:
    time.sleep(LATER_SECONDS)
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)  # also interrupts a sleep
    else:
        signal.raise_signal(number)
