"""A lock for objects that are copied, pickled and forked."""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType


class Lock:
    """A re-entrant lock. A copy or pickle is a new lock; after a fork the child's locks are free, since the thread that
    held one does not exist there."""

    def __init__(self) -> None:
        """Creates a free lock."""
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


#: held while warnings and loggers are changed and restored, so that two threads do not restore each other's state
QUIET = Lock()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
