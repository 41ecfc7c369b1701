"""Work spread over any `concurrent.futures` executor, in an order that does not depend on it."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import _core
from .arguments import whole
from .errors import shown, user_error


class Threads(concurrent.futures.ThreadPoolExecutor):
    """Threads whose calls of the core can be ended from outside: Ctrl-C reaches the main thread alone."""

    def __init__(self, count: int) -> None:
        """Threads that wait for work."""
        self.begun: list[threading.Thread] = []
        super().__init__(max_workers=count, initializer=lambda: self.begun.append(threading.current_thread()))
        self.stopped = _core.Stop()

    def __repr__(self) -> str:
        """How many there are at most."""
        return f"<Threads: {self._max_workers} at most>"

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Also waits for a thread whose start Ctrl-C interrupted, which the base class does not know."""
        super().shutdown(wait=wait, cancel_futures=cancel_futures)
        for thread in self.begun if wait else ():
            thread.join()


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def opened(executor: Any, jobs: int | None) -> Iterator[Any]:
    """The user's executor as it is, or threads that end with the block; at once where it is left by an exception."""
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            allowed = "what has the interface of concurrent.futures.Executor; a number of threads is `jobs`"
            raise user_error("this is no executor", value=shown(executor), allowed=allowed)
        yield executor
        return
    own = Threads(cores() if jobs is None else whole("jobs", jobs, none="one per processor"))
    try:
        yield own
    except BaseException:
        stop(own)
        raise
    finally:
        own.shutdown(wait=True, cancel_futures=True)


def stop(executor: Any) -> None:
    """Ends what threads of our own are at. An executor of the user's goes on with what it has begun."""
    if isinstance(executor, Threads):
        executor.stopped.request()


def shares_memory(executor: Any) -> bool:
    """Whether tasks may be given objects of the core, which do not travel between processes."""
    return isinstance(executor, concurrent.futures.ThreadPoolExecutor)


def _stoppable(stopped: _core.Stop, function: Callable[..., Any], *task: Any) -> Any:
    with stopped:
        return function(*task)


def _awaited(future: Any) -> Any:
    """The result of a future. A signal that arrives just before a thread begins to wait does not wake it: so no wait is
    longer than a moment."""
    if isinstance(future, concurrent.futures.Future):
        while not future.done():
            concurrent.futures.wait([future], timeout=0.1)
    return future.result()


def in_order(executor: Any, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of all tasks in their order; where the caller stops or is interrupted, what waits is cancelled and what
    runs in threads ends at its next poll."""
    stopped, call = None, function
    if shares_memory(executor):
        stopped = executor.stopped if isinstance(executor, Threads) else _core.Stop()
        call = functools.partial(_stoppable, stopped, function)
    futures: list[Any] = []
    try:
        for task in tasks:
            futures.append(executor.submit(call, *task))
        for future in futures:
            yield _awaited(future)
    except BaseException:
        if stopped is not None:
            stopped.request()
        raise
    finally:
        for future in futures:
            future.cancel()
