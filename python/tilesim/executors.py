"""Executors for `sweep` and `tune` in one line each: processes, Dask, Ray.

Each is a `concurrent.futures.Executor` that ends its workers at the end of the `with` block:

    with ts.executors.processes(4) as executor:
        ts.sweep("bert-base", "tpu-v3", {"core.array.count": [1, 2, 4]}, executor=executor)
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from .base.arguments import integer
from .base.checked import checked
from .base.executors import cores
from .base.extras import need
from .base.lazy import listed

__all__ = ["Workers", "dask", "processes", "ray"]
__dir__ = listed(__all__)

_START_SECONDS = 120.0


class Workers(concurrent.futures.Executor):
    """Workers of another library, behind the interface of `concurrent.futures`."""

    def __init__(
        self, start: Callable[[], tuple[Callable[..., Any], Callable[[], list[int]], Callable[[], None]]]
    ) -> None:
        """Starts the workers by calling `start`, which returns the functions submit, pids and end."""
        self._start = start
        self._end: Callable[[], None] | None = None
        self._given: set[Any] = set()  # a callback of weak references could swallow a Ctrl-C
        self._open()

    def __repr__(self) -> str:
        """Says whether the executor accepts tasks."""
        return f"<Workers, {'open' if self._end is not None else 'shut down'}>"

    def _open(self) -> None:
        self._submit, self._pids, self._end = self._start()

    def submit(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Submits a call to a worker.

        Args:
            function: a function of a module, or any function that the library can pickle.
            args: positional arguments of the function.
            named: keyword arguments of the function.

        Returns:
            The future.

        Raises:
            RuntimeError: after `shutdown`.
        """
        if self._end is None:
            raise RuntimeError("the executor was shut down")
        future = self._submit(function, *args, **named)
        self._given.add(future)
        future.add_done_callback(self._given.discard)
        return future

    def worker_pids(self) -> list[int]:
        """Lists the worker processes on this computer.

        Returns:
            Process ids; empty for workers on other computers.
        """
        return self._pids() if self._end is not None else []

    def restart(self) -> None:
        """Replaces all workers, including dead ones; running and queued tasks are lost."""
        self.shutdown(wait=False, cancel_futures=True)
        self._open()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers that this executor started; workers of an existing cluster remain.

        Args:
            wait: whether to wait until the running tasks end.
            cancel_futures: whether to cancel queued tasks.
        """
        end, self._end = self._end, None
        if end is None:
            return
        given = list(self._given)
        if cancel_futures:
            for future in given:
                future.cancel()
        if wait:
            concurrent.futures.wait(given)
        end()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Makes processes that start in this block ignore Ctrl-C; the parent handles it, and each would print a
    traceback."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _waited(seconds: float) -> int:
    """Keeps a worker busy so that the next task starts another one."""
    time.sleep(seconds)
    return os.getpid()


@checked()
def processes(n: int | None = None) -> Workers:
    """Starts processes on this computer with method "spawn"; scripts need `if __name__ == "__main__":`.

    Args:
        n: number of processes; one per processor by default.

    Returns:
        The executor.

    Raises:
        UserError: for a number below 1.
    """
    count = cores() if n is None else integer("n", n)

    def start() -> tuple[Callable[..., Any], Callable[[], list[int]], Callable[[], None]]:
        context = multiprocessing.get_context("spawn")
        pool = concurrent.futures.ProcessPoolExecutor(count, mp_context=context)

        def submit(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
            with _deaf():  # submit starts a process if all others are busy
                return pool.submit(function, *args, **named)

        def pids() -> list[int]:
            with contextlib.suppress(concurrent.futures.BrokenExecutor):
                if len(pool._processes or {}) < count:
                    concurrent.futures.wait([submit(_waited, 0.2) for _ in range(count)], timeout=_START_SECONDS)
            return sorted(pid for pid, one in (pool._processes or {}).items() if one.is_alive())

        def end() -> None:
            # A worker that died while waiting still holds the queue's lock, so other workers never see the end signal.
            for one in list((pool._processes or {}).values()):
                one.kill()
            pool.shutdown(wait=True, cancel_futures=True)

        return submit, pids, end

    return Workers(start)


def _local_cluster(distributed: Any) -> Any:
    """Returns a local Dask cluster that ignores the error of a worker that ends soon after a restart: `close`
    would raise it and leave threads behind."""

    class LocalCluster(distributed.LocalCluster):
        def _update_worker_status(self, op: str, msg: Any) -> None:
            with contextlib.suppress(KeyError):
                super()._update_worker_status(op, msg)

    return LocalCluster


@checked()
def dask(address: str | None = None, workers: int | None = None) -> Workers:
    """Uses the Dask workers of a running scheduler, or starts processes on this computer.

    Args:
        address: the scheduler's address, such as "tcp://host:8786"; by default starts one on this computer.
        workers: number of workers of a new scheduler; one per processor by default.

    Returns:
        The executor.

    Raises:
        UserError: if `distributed` is not installed, or for a number below 1.
    """
    distributed = need("distributed", "dask")
    count = cores() if workers is None else integer("workers", workers)

    def start() -> tuple[Callable[..., Any], Callable[[], list[int]], Callable[[], None]]:
        own = None
        if address is None:
            own = _local_cluster(distributed)(n_workers=count, threads_per_worker=1, dashboard_address=None)
        client = distributed.Client(address if own is None else own)
        executor = client.get_executor(pure=False)

        def end() -> None:
            client.close()
            if own is not None:
                own.close()

        def pids() -> list[int]:
            if own is None:
                return []
            client.wait_for_workers(count, timeout=_START_SECONDS)
            return sorted(client.run(os.getpid, on_error="ignore").values())  # omits a worker that has just died

        return executor.submit, pids, end

    return Workers(start)


@checked()
def ray(address: str | None = None, cpus: int | None = None) -> Workers:
    """Uses the Ray workers of a running cluster or an open Ray session, or starts processes on this computer.

    Args:
        address: the cluster's address, such as "ray://host:10001" or "auto"; by default starts one here.
        cpus: number of processors of a new cluster; all by default.

    Returns:
        The executor.

    Raises:
        UserError: if `ray` is not installed, or for a number below 1.
    """
    library = need("ray", "ray")
    count = cores() if cpus is None else integer("cpus", cpus)

    def start() -> tuple[Callable[..., Any], Callable[[], list[int]], Callable[[], None]]:
        ours = not library.is_initialized()
        if ours and address is None:
            library.init(num_cpus=count, include_dashboard=False, log_to_driver=False)
        elif ours:
            library.init(address=address)

        known: dict[Callable[..., Any], Any] = {}  # each function is sent once

        def submit(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
            if function not in known:
                known[function] = library.remote(function)
            return known[function].remote(*args, **named).future()

        def pids() -> list[int]:
            if not (ours and address is None):
                return []
            return sorted(
                {future.result(timeout=_START_SECONDS) for future in [submit(_waited, 0.2) for _ in range(count)]}
            )

        return submit, pids, library.shutdown if ours else lambda: None

    return Workers(start)
