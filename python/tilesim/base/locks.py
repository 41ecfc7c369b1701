"""A lock as a part of an object that is copied, pickled and forked."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType


class Lock:
    """Re-entrant. A copy or pickle of it is a lock of its own, and after a fork the child's are free: the thread that
    held one is not there."""

    def __init__(self) -> None:
        """Free at first."""
        self._lock = threading.RLock()
        _all.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Lock], tuple[()]]:
        return Lock, ()

    def _renew(self) -> None:
        self._lock = threading.RLock()


_all: weakref.WeakSet[Lock] = weakref.WeakSet()


def _renew_all() -> None:
    for lock in list(_all):
        lock._renew()


#: held while the process's warnings and loggers are changed and put back: two threads would put back what the other set
QUIET = Lock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
