"""Runs tasks on any `concurrent.futures` executor, with results in order."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import _core
from .arguments import integer
from .errors import shown, user_error


class Threads(concurrent.futures.ThreadPoolExecutor):
    """A thread pool whose calls of the core can be stopped, because Ctrl-C reaches only the main thread."""

    def __init__(self, count: int) -> None:
        """Creates threads that wait for tasks."""
        self.begun: list[threading.Thread] = []
        super().__init__(max_workers=count, initializer=lambda: self.begun.append(threading.current_thread()))
        self.stopped = _core.Stop()

    def __repr__(self) -> str:
        """The largest number of threads."""
        return f"<Threads: {self._max_workers} at most>"

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Shuts down; also waits for a thread whose start Ctrl-C interrupted."""
        super().shutdown(wait=wait, cancel_futures=cancel_futures)
        for thread in self.begun if wait else ():
            thread.join()


def cores() -> int:
    """Returns the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def opened(executor: Any, jobs: int | None) -> Iterator[Any]:
    """Yields the user's executor, or threads that end with the block (at once after an exception)."""
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            allowed = "a concurrent.futures.Executor; set the number of threads with `jobs`"
            raise user_error("not an executor", value=shown(executor), allowed=allowed)
        yield executor
        return
    own = Threads(cores() if jobs is None else integer("jobs", jobs, none="one per processor"))
    try:
        yield own
    except BaseException:
        stop(own)
        raise
    finally:
        own.shutdown(wait=True, cancel_futures=True)


def stop(executor: Any) -> None:
    """Stops running tasks of `Threads`; a user's executor finishes its running tasks."""
    if isinstance(executor, Threads):
        executor.stopped.request()


def shares_memory(executor: Any) -> bool:
    """Whether tasks may hold core objects, which cannot be pickled."""
    return isinstance(executor, concurrent.futures.ThreadPoolExecutor)


def _stoppable(stopped: _core.Stop, function: Callable[..., Any], *task: Any) -> Any:
    with stopped:
        return function(*task)


def _awaited(future: Any) -> Any:
    """Polls a future for its result, because a signal just before a wait would not wake it."""
    if isinstance(future, concurrent.futures.Future):
        while not future.done():
            concurrent.futures.wait([future], timeout=0.1)
    return future.result()


def in_order(executor: Any, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of all tasks in order. When the caller stops, waiting tasks are cancelled and running ones in threads end
    at their next poll."""
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
