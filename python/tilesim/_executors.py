"""Work spread over any `concurrent.futures` executor, in an order that does not depend on it."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ._errors import shown, user_error


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def opened(executor: Any, jobs: int | None) -> Iterator[Any]:
    """The user's executor as it is, or threads that end with the block."""
    if executor is not None:
        if not callable(getattr(executor, "submit", None)):
            allowed = "what has the interface of concurrent.futures.Executor; a number of threads is `jobs`"
            raise user_error("this is no executor", value=shown(executor), allowed=allowed)
        yield executor
        return
    own = concurrent.futures.ThreadPoolExecutor(max_workers=jobs or cores())
    try:
        yield own
    finally:
        own.shutdown(wait=True, cancel_futures=True)


def shares_memory(executor: Any) -> bool:
    """Whether tasks may be given objects of the core, which do not travel between processes."""
    return isinstance(executor, concurrent.futures.ThreadPoolExecutor)


def in_order(executor: Any, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
    """Results of all tasks in their order; what is left is cancelled when the caller stops or is interrupted."""
    futures = [executor.submit(function, *task) for task in tasks]
    try:
        for future in futures:
            yield future.result()
    finally:
        for future in futures:
            future.cancel()
