"""Sweeps on executors: threads, processes, Dask, Ray; progress, Ctrl-C, stores, workers that die."""

from __future__ import annotations

import concurrent.futures
import importlib
import itertools
import math
import os
import random
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.study import work

PRODUCT = ts.workloads.matmul(96, 64, 80)
sweeping = importlib.import_module("tilesim.study.sweep")


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
    real, done = work._point, []

    def stopped(*task: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(task)
        return real(*task)

    monkeypatch.setattr(work, "_point", stopped)
    table = ts.sweep(PRODUCT, "edge-8", {"core.array.count": [1, 2, 4, 8]}, jobs=1)
    assert table.interrupted and [row["status"].split(":")[0] for row in table.rows] == ["ok", "ok", "failed", "failed"]
    assert "interrupted" in table.rows[3]["status"] and table.summary().endswith("interrupted")
    assert [row["cycles"] for row in table.rows[:2]] == [
        single(PRODUCT, "edge-8", {"core.array.count": n}).cycles for n in (1, 2)
    ]


# --- tasks --------------------------------------------------------------------------------------------------------


def test_tasks_have_every_point_once_and_equal_programs_together() -> None:
    random_ = random.Random(3)
    for count in (0, 1, 63, 64, 200, 2000, 5000):
        points = [
            (i, random_.choice("ab"), {"core.array.count": random_.randint(1, 4), "energy.mac": f"{i} pJ"})
            for i in range(count)
        ]
        assert work.grouped_points(points, together=False) == [(common, [i]) for i, common, _ in points]
        tasks = work.grouped_points(points, together=True)
        assert sorted(i for _, own in tasks for i in own) == list(range(count))
        assert all(0 < len(own) <= max(1, min(32, count // 64)) for _, own in tasks)
        order = [(common, points[i][2]["core.array.count"]) for common, own in tasks for i in own]
        assert all(points[i][1] == common for common, own in tasks for i in own)
        assert len([key for key, _ in itertools.groupby(order)]) == len(set(order))


@pytest.mark.parametrize("together", [False, True])
def test_points_with_one_program_compile_it_once(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What events cost is counted after them; joules differ, and are those of a run of its own."""
    real, compiled = work.compile, []
    monkeypatch.setattr(work, "compile", lambda *given, **named: (compiled.append(1), real(*given, **named))[1])
    if together:  # as in a process of its own, within this one
        monkeypatch.setattr(sweeping, "shares_memory", lambda pool: False)
    changes = {
        "energy.mac": ["1 pJ", "2 pJ", "5 pJ"],
        "core.array.count": [1, 2],
        "energy.memory_byte": ["0 pJ", "9 pJ"],
    }
    table = ts.sweep(PRODUCT, "edge-8", changes, metrics=["cycles", "joules"])
    assert len(compiled) == 2 and len(table) == 12
    for row, values in zip(table.rows, itertools.product(*changes.values()), strict=True):
        alone = single(PRODUCT, "edge-8", dict(zip(changes, values, strict=True)))
        assert (row["cycles"], row["joules"]) == (alone.cycles, pytest.approx(math.fsum(alone.energy.values())))


def test_what_is_kept_is_made_once() -> None:
    kept, made = work.LruCache(2), []

    def make(name: str) -> Any:
        return lambda: (time.sleep(0.01), made.append(name), name.upper())[2]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: kept.get(name, make(name)), ["a", "b"] * 16))
    assert sorted(made) == ["a", "b"] and found == ["A", "B"] * 16
    assert kept.get("c", make("c")) == "C" and kept.get("b", make("b")) == "B" and made.count("b") == 1
    assert kept.get("a", make("a")) == "A" and made.count("a") == 2  # there was room for two
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            kept.get("d", lambda: 1 // 0)


@pytest.mark.parametrize("most", [256, 255])
def test_a_graph_travels_with_its_weights(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its hash: equal graphs are one. Given weights of more bytes lie in a file; the bits are the same."""
    monkeypatch.setattr(work, "SENT", most)  # the weight has 8 x 8 x 4 bytes
    heavy = ts.GraphBuilder("heavy")
    heavy.output(heavy.matmul(heavy.input("x", [4, 8]), heavy.weight("w", [8, 8]), name="y"), "z")
    graph = heavy.build()
    plain, text = work.sent(graph, str(tmp_path)), graph.core.to_json()
    assert plain == work.sent(graph.copy(), str(tmp_path)) and isinstance(plain[1], bytes)
    values = np.random.default_rng(1).standard_normal((8, 8)).astype(np.float32)
    values[0] = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-45, 3.4e38, 1 / 3]
    graph.set_weight("w", values)
    name, contents = work.sent(graph, str(tmp_path))
    assert name != plain[0] and isinstance(contents, bytes if most == 256 else str)
    assert work._received(contents).weight("w").tobytes() == values.tobytes()
    assert work._received(plain[1]).core.to_json() == text


SCRIPT = """
import os, signal, tilesim as ts
if __name__ == "__main__":
    told = []
    def stop(done, count, left):
        if not told:
            told.append(done)
            os.killpg(0, signal.SIGINT)
    with ts.executors.processes(2) as executor:
        pids = executor.worker_pids()
        changes = {"core.array.count": [1, 2, 4, 8], "memory.bandwidth": [f"{i} GB/s" for i in range(1, 51)]}
        table = ts.sweep("matmul:96,64,80", "edge-8", changes, executor=executor, progress=stop)
    done = [row for row in table.rows if row["status"] == "ok"]
    print(table.interrupted, len(done) >= told[0] > 0, len(done) < len(table), *pids)
"""


def test_ctrl_c_reaches_all_and_one_says_so(tmp_path: Path) -> None:
    """As a terminal sends it, to every process: rows so far, not a line of the workers, none of them left."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    outcome = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300,
                             start_new_session=True, check=False,
                             env={**os.environ, "PYTHONPATH": str(Path(ts.__file__).parents[1])})  # fmt: skip
    assert outcome.returncode == 0 and outcome.stderr == "", outcome.stderr
    *said, first, second = outcome.stdout.split()
    assert said == ["True", "True", "True"] and gone([int(first), int(second)])


def test_a_store_knows_metrics_apart(tmp_path: Path) -> None:
    changes = {"core.array.count": [1, 2, 99]}
    first = ts.sweep(PRODUCT, "edge-8", changes, store=tmp_path / "s", metrics=["cycles", "bytes", kernels])
    assert len(ts.Store(tmp_path / "s")) == 2
    again = ts.sweep(PRODUCT, "edge-8", changes, store=tmp_path / "s", metrics=["cycles", "bytes", kernels])
    assert again.rows == first.rows and len(ts.Store(tmp_path / "s")) == 2
    other = ts.sweep(PRODUCT, "edge-8", changes, store=tmp_path / "s", metrics=["bytes"])
    assert [row["bytes"] for row in other.rows] == [row["bytes"] for row in first.rows]
    assert len(ts.Store(tmp_path / "s")) == 4
    with pytest.raises(ts.UserError, match="named metric function"):
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
        compared(executor)
        pids += executor.worker_pids()
        wanted = ts.sweep(PRODUCT, "edge-8", CHANGES, metrics=["cycles"]).rows
    assert gone(pids)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        with ts.executors.dask(cluster.scheduler_address) as executor:
            assert executor.worker_pids() == []
            assert ts.sweep(PRODUCT, "edge-8", CHANGES, metrics=["cycles"], executor=executor).rows == wanted
        with distributed.Client(cluster) as client:  # a client's own executor
            study = ts.tune("matmul:96,64,80", "edge-8", budget=4, executor=client.get_executor())
            assert study.gain == ts.tune("matmul:96,64,80", "edge-8", budget=4).gain
        assert cluster.workers  # what was there before goes on


@pytest.mark.filterwarnings("ignore")
def test_dask_closes_though_it_lost_count_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install distributed")
    lost = []

    def look_up(self: Any, op: str, msg: Any) -> None:
        if op == "remove":
            lost.append(msg)
            raise KeyError(msg)

    monkeypatch.setattr(distributed.SpecCluster, "_update_worker_status", look_up)
    with ts.executors.dask(workers=1) as executor:
        pids = executor.worker_pids()
        os.kill(pids[0], signal.SIGKILL)
        deadline = time.monotonic() + 60
        while not lost and time.monotonic() < deadline:
            time.sleep(0.05)
    assert lost and gone(pids)


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_ray() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")
    with ts.executors.ray(cpus=2) as executor:
        assert os.getpid() not in executor.worker_pids()
        compared(executor)
        pids = executor.worker_pids()
    assert gone(pids) and executor.worker_pids() == []


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
