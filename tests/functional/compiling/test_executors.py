"""Sweeps on executors: threads, processes, Dask, Ray; progress, Ctrl-C, stores, workers that die."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts

PRODUCT = ts.workloads.matmul(96, 64, 80)
MODULE = importlib.import_module("tilesim.study.work")


def kernels(result: ts.Result) -> int:
    """A metric of one's own, which workers find by its name."""
    return len(result.data["operations"])


def single(graph: ts.Graph, machine: str, change: dict[str, Any]) -> ts.Result:
    return ts.simulate(graph, ts.Machine.load(machine).replace(change))


def test_progress() -> None:
    told: list[tuple[int, int, str]] = []
    changes = {"core.array.count": [1, 2, 4, 99]}
    ts.sweep(PRODUCT, "edge-8", changes, progress=lambda *one: told.append(one), jobs=1)
    assert [(done, count) for done, count, _ in told] == [(1, 3), (2, 3), (3, 3)]
    assert all(text.endswith(" left") for *_, text in told[:-1]) and told[-1][2] == "done"


def test_an_interrupted_sweep_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    real, done = MODULE._point, []

    def stopped(*task: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(task)
        return real(*task)

    monkeypatch.setattr(MODULE, "_point", stopped)
    table = ts.sweep(PRODUCT, "edge-8", {"core.array.count": [1, 2, 4, 8]}, jobs=1)
    assert table.interrupted and [row["status"].split(":")[0] for row in table.rows] == ["ok", "ok", "failed", "failed"]
    assert "interrupted" in table.rows[3]["status"] and table.summary().endswith("interrupted")
    assert [row["cycles"] for row in table.rows[:2]] == [
        single(PRODUCT, "edge-8", {"core.array.count": n}).cycles for n in (1, 2)
    ]


def test_a_store_knows_metrics_apart(tmp_path: Path) -> None:
    changes = {"core.array.count": [1, 2, 99]}
    first = ts.sweep(PRODUCT, "edge-8", changes, store=tmp_path / "s", metrics=["cycles", "bytes", kernels])
    assert len(ts.Store(tmp_path / "s")) == 2
    again = ts.sweep(PRODUCT, "edge-8", changes, store=tmp_path / "s", metrics=["cycles", "bytes", kernels])
    assert again.rows == first.rows and len(ts.Store(tmp_path / "s")) == 2
    other = ts.sweep(PRODUCT, "edge-8", changes, store=tmp_path / "s", metrics=["bytes"])
    assert [row["bytes"] for row in other.rows] == [row["bytes"] for row in first.rows]
    assert len(ts.Store(tmp_path / "s")) == 4
    with pytest.raises(ts.UserError, match="name of its function"):
        ts.sweep(PRODUCT, "edge-8", changes, store=tmp_path / "s", metrics=[lambda result: 1])


CHANGES = {"core.array.count": [1, 2, 4, 99], "memory.bandwidth": ["8 GB/s", "16 GB/s"]}


def compared(executor: Any) -> None:
    """The same rows as of threads, also after a worker was killed."""
    metrics = ["cycles", "bytes", "utilisation"]
    wanted = ts.sweep([PRODUCT, ts.models.build("mlp")], ["edge-8"], CHANGES, metrics=metrics).rows
    for _ in range(2):
        found = ts.sweep([PRODUCT, ts.models.build("mlp")], ["edge-8"], CHANGES, metrics=metrics, executor=executor)
        assert found.rows == wanted
        os.kill(executor.worker_pids()[0], signal.SIGKILL)


def gone(pids: list[int]) -> bool:
    for pid in pids:
        try:
            os.kill(pid, 0)
        except OSError:
            continue
        status = Path(f"/proc/{pid}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z":
            return False
    return True


def test_processes() -> None:
    with ts.executors.processes(2) as executor:
        pids = executor.worker_pids()
        assert len(pids) == 2 and os.getpid() not in pids
        compared(executor)
        executor.restart()
        pids += executor.worker_pids()
        study = ts.tune("matmul:96,64,80", "edge-8", budget=4, executor=executor)
        assert study.gain == ts.tune("matmul:96,64,80", "edge-8", budget=4).gain
    assert gone(pids) and executor.worker_pids() == []
    with pytest.raises(RuntimeError, match="shut down"):
        executor.submit(os.getpid)


@pytest.mark.filterwarnings("ignore")
def test_dask() -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")
    with ts.executors.dask(workers=2) as executor:
        pids = executor.worker_pids()
        assert len(pids) == 2 and os.getpid() not in pids
        metrics = ["cycles", kernels]
        wanted = ts.sweep(PRODUCT, "edge-8", CHANGES, metrics=["cycles"]).rows
        found = ts.sweep(PRODUCT, "edge-8", CHANGES, metrics=metrics[:1], executor=executor).rows
        assert found == wanted
    assert gone(pids)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        with ts.executors.dask(cluster.scheduler_address) as executor:
            assert executor.worker_pids() == []
            assert ts.sweep(PRODUCT, "edge-8", CHANGES, metrics=["cycles"], executor=executor).rows == wanted
        assert cluster.workers  # what was there before goes on


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_ray() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    with ts.executors.ray(cpus=2) as executor:
        assert os.getpid() not in executor.worker_pids()
        wanted = ts.sweep(PRODUCT, "edge-8", CHANGES).rows
        assert ts.sweep(PRODUCT, "edge-8", CHANGES, executor=executor).rows == wanted


def test_ray_as_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Ray: a module of its interface that computes at once. A session that was open stays open."""
    from concurrent.futures import Future

    calls: list[Any] = []

    def remote(function: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            future: Future[Any] = Future()
            try:
                future.set_result(function(*args, **named))
            except Exception as error:
                future.set_exception(error)
            return types.SimpleNamespace(future=lambda: future)

        return types.SimpleNamespace(remote=call)

    library = types.ModuleType("ray")
    open_: list[bool] = []
    vars(library).update(
        remote=remote,
        is_initialized=lambda: bool(open_),
        init=lambda **named: (calls.append(named), open_.append(True)),
        shutdown=lambda: (calls.append("end"), open_.clear()),
    )
    monkeypatch.setitem(sys.modules, "ray", library)
    wanted = ts.sweep(PRODUCT, "edge-8", CHANGES).rows
    with ts.executors.ray(cpus=3) as executor:
        assert ts.sweep(PRODUCT, "edge-8", CHANGES, executor=executor).rows == wanted
    assert calls[0]["num_cpus"] == 3 and calls[-1] == "end" and not open_
    open_.append(True)
    with ts.executors.ray("auto"):
        pass
    assert calls[-1] == "end" and len(calls) == 2 and open_


@pytest.mark.parametrize("name", ["dask", "ray"])
def test_without_the_library(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, {"dask": "distributed", "ray": "ray"}[name], None)
    with pytest.raises(ts.UserError, match=rf"pip install 'tilesim\[{name}\]'"):
        getattr(ts.executors, name)()
