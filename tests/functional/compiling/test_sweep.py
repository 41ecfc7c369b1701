"""Sweeps: numbers against single simulations, units by hand, points that are refused, flags, fronts, pictures."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import os
import random
import re
import signal
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from tilesim.study import points
from tilesim.study.flags import flagged
from tilesim.study.sweep_table import Sweep

PRODUCT = ts.workloads.matmul(96, 64, 80)
MODULE = importlib.import_module("tilesim.study.sweep")


def kernels(result: ts.Result) -> int:
    """A metric of one's own, which workers find by its name."""
    return len(result.data["operations"])


def single(graph: ts.Graph, machine: str, change: dict[str, Any]) -> ts.Result:
    return ts.simulate(graph, ts.Machine.load(machine).replace(change))


# --- points -------------------------------------------------------------------------------------------------------


def test_every_point_is_its_own_simulation() -> None:
    """All combinations in the order of nested loops, several graphs and machines, against single calls."""
    graphs, machines = {"product": PRODUCT, "net": ts.models.build("mlp")}, ["edge-8", "tpu-v3"]
    counts, widths = [1, 2], ["8 GB/s", "32 GB/s"]
    table = ts.sweep(graphs, machines, {"core.array.count": counts, "memory.bandwidth": widths})
    wanted = list(itertools.product(graphs, machines, counts, widths))
    assert len(table) == len(wanted)
    for row, (graph, machine, count, width) in zip(table.rows, wanted, strict=True):
        alone = single(graphs[graph], machine, {"core.array.count": count, "memory.bandwidth": width})
        assert row == {
            **{"graph": graph, "machine": machine, "core.array.count": count},
            "memory.bandwidth": {"8 GB/s": 8 * 10**9, "32 GB/s": 32 * 10**9}[width],
            **{"cycles": alone.cycles, "seconds": alone.seconds, "bottleneck": alone.bottleneck},
            **{"status": "ok", "flag": row["flag"]},
        }


@pytest.mark.parametrize(
    ("path", "text", "number", "unit"),
    [
        ("memory.bandwidth", "450 GB/s", 450e9, "B/s"),
        ("memory.bandwidth", "1 GiB/s", 1073741824, "B/s"),
        ("core.scratchpad.bytes", "64 KiB", 65536, "B"),
        ("core.scratchpad.bytes", "3 MB", 3_000_000, "B"),
        ("core.clock", "940 MHz", 940e6, "Hz"),
        ("memory.latency", "60 ns", 60e-9, "s"),
        ("memory.latency", "1 us", 1e-6, "s"),
        ("energy.mac", "2 pJ", 2e-12, "J"),
        ("core.arrays", 2, 2, ""),
    ],
)
def test_settings_are_numbers_in_base_units(path: str, text: Any, number: float, unit: str) -> None:
    """As texts and as plain numbers; both are the same machine."""
    rows = []
    for value in (text, number):
        table = ts.sweep(PRODUCT, "edge-8", {path: [value]})
        assert table.units.get(path, "") == unit
        assert table.rows[0][path] == pytest.approx(number, rel=1e-12) and not isinstance(table.rows[0][path], str)
        rows.append({key: value for key, value in table.rows[0].items() if key != path})
    assert rows[0] == rows[1]
    assert rows[0]["cycles"] == single(PRODUCT, "edge-8", {path: text}).cycles


def test_settings_of_a_sort_of_cores_have_units() -> None:
    assert points.unit_of("cores.little.core.scratchpad.bytes") == "B"
    assert points.better("cores.little.count") == points.better("memory.bandwidth") == 1
    assert points.better("memory.latency") == points.better("core.dma.issue_cycles") == -1
    assert points.better("memory.interleave_bytes") == points.better("core.array.dataflow") == 0


def test_every_resource_is_a_setting() -> None:
    """A name in the lists that no machine has would flag nothing for ever."""
    known = {row[0] for row in points._core.machine_settings()}
    assert {*points._MORE_COUNTS, *points._MORE_SIZES} <= known


def test_paired_and_derived_settings() -> None:
    table = ts.sweep(
        PRODUCT,
        "edge-8",
        {
            ("core.array.rows", "core.array.columns"): [(8, 16), (16, 8), (32, 32)],
            "core.scratchpad.bytes": lambda row: f"{row['core.array.rows'] * row['core.array.columns']} KiB",
            "memory.bandwidth": lambda row: row["core.scratchpad.bytes"] * 10**5,
        },
    )
    assert [(r["core.array.rows"], r["core.array.columns"]) for r in table.rows] == [(8, 16), (16, 8), (32, 32)]
    assert [r["core.scratchpad.bytes"] for r in table.rows] == [128 * 1024, 128 * 1024, 1024 * 1024]
    for row in table.rows:
        size, rows, columns = row["core.scratchpad.bytes"], row["core.array.rows"], row["core.array.columns"]
        change = {"core.array.rows": rows, "core.array.columns": columns, "core.scratchpad.bytes": f"{size} B"}
        alone = single(PRODUCT, "edge-8", {**change, "memory.bandwidth": f"{size * 10**5} B/s"})
        assert row["cycles"] == alone.cycles


def test_metrics_of_a_result() -> None:
    names = ["cycles", "milliseconds", "bytes", "joules", "watts", "tops_per_watt", "utilisation", "utilisation.memory"]
    changes = {"energy.mac": ["0 pJ", "2 pJ"]}
    table = ts.sweep(PRODUCT, "edge-8", changes, metrics=[*names, "mm2", kernels, lambda result: result.bottleneck])
    for energy, row in zip(("0 pJ", "2 pJ"), table.rows, strict=True):
        alone = single(PRODUCT, "edge-8", {"energy.mac": energy})
        assert (row["cycles"], row["bytes"]) == (alone.cycles, alone.memory_bytes)
        assert row["utilisation"] == alone.utilisation["arrays"]
        assert row["utilisation.memory"] == alone.utilisation["memory"]
        assert (row["kernels"], row["<lambda>"]) == (len(alone.data["operations"]), alone.bottleneck)
        if alone.energy:
            joules = sum(alone.energy.values())
            assert row["joules"] == pytest.approx(joules) and row["watts"] == pytest.approx(joules / alone.seconds)
            assert row["tops_per_watt"] == pytest.approx(2 * 96 * 64 * 80 / joules / 1e12)
        else:
            assert row["joules"] is row["watts"] is row["tops_per_watt"] is None
    assert table.rows[1]["joules"] == pytest.approx(2e-12 * 96 * 64 * 80, rel=0.5)  # and padding
    assert table.units["bytes"] == "B" and table.units["joules"] == "J"


# --- points without a result --------------------------------------------------------------------------------------


def test_illegal_excluded_and_failed_points_are_rows() -> None:
    def picky(result: ts.Result) -> float:
        if result.data["configuration"]["core"]["array"]["count"] == 4:
            raise ZeroDivisionError("of its own")
        return 1.0

    table = ts.sweep(
        PRODUCT,
        "edge-8",
        {"core.array.count": [1, 2, 4, 99, "many"]},
        metrics=["cycles", picky],
        where=lambda row: row["core.array.count"] != 2,
    )
    kinds = [row["status"].split(":")[0] for row in table.rows]
    assert kinds == ["ok", "excluded", "failed", "illegal", "illegal"]
    assert "of its own" in table.rows[2]["status"] and "0 to 64" in table.rows[3]["status"]
    assert all(row["cycles"] is None for row in table.rows[1:])
    assert "1 ok, 2 illegal, 1 failed, 1 excluded" in table.summary()
    assert len(table.ok()) == 1


def test_what_the_compiler_refuses_is_illegal() -> None:
    """A machine whose vector unit lacks the dtype: the reason is that of `compile`."""
    graph = ts.workloads.softmax(8, 64)
    changes = {"core.vector.dtypes": [["f32"], ["bf16"]]}
    with pytest.raises(ts.UserError) as refused:
        ts.compile(graph, ts.Machine.load("edge-8").replace({"core.vector.dtypes": ["bf16"]}))
    table = ts.sweep(graph, "edge-8", changes)
    assert [row["status"] for row in table.rows] == ["ok", f"illegal: {refused.value}"]
    with pytest.raises(ts.UserError, match=re.escape(str(refused.value))):
        ts.sweep(graph, "edge-8", changes, on_error="raise")


def test_where_no_point_has_a_result_the_reason_is_raised() -> None:
    changes = {"core.array.count": [99, 100]}
    with pytest.raises(ts.UserError, match="0 to 64"):
        ts.sweep(PRODUCT, "edge-8", changes)
    with pytest.raises(ts.UserError, match="0 to 64"):
        ts.sweep(PRODUCT, "edge-8", changes, on_error="raise")
    table = ts.sweep(PRODUCT, "edge-8", changes, on_error="row")
    assert [row["status"][:7] for row in table.rows] == ["illegal", "illegal"]
    assert table.pareto(["seconds"]).rows == [] and "2 illegal" in table._repr_html_()
    excluded = ts.sweep(PRODUCT, "edge-8", {"core.array.count": [1]}, where=lambda row: False)
    assert [row["status"] for row in excluded.rows] == ["excluded"]


# --- bad input ----------------------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "unknown setting": (lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.cuont": [1]}), "core.array.count"),
    "unknown derived setting": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.cuont": lambda row: 1}),
        "core.array.count",
    ),
    "unknown, where rows are asked for": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"memory.bandwith": ["1 GB/s"]}, on_error="row"),
        "memory.bandwidth",
    ),
    "no values": (lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.count": []}), "an empty list"),
    "no graphs": (
        lambda: ts.sweep([], "edge-8", {"core.array.count": [1]}),
        "an empty list.*graph|graph.*an empty list",
    ),
    "no named graphs": (lambda: ts.sweep({}, "edge-8"), "graph.*empty"),
    "no machines": (lambda: ts.sweep(PRODUCT, [], {"core.array.count": [1]}), "machine.*empty"),
    "no mappings": (lambda: ts.sweep(PRODUCT, "edge-8", mappings=[]), "mappings.*empty"),
    "no graph": (lambda: ts.sweep(None, "edge-8"), "no model"),  # type: ignore[arg-type]
    "a point twice": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.count": [1, 2, 1]}),
        "twice.*core.array.count = 1",
    ),
    "a point twice in other units": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"memory.bandwidth": ["1 GB/s", "1000 MB/s"]}),
        "a point is there twice",
    ),
    "a machine twice": (lambda: ts.sweep(PRODUCT, ["edge-8", "edge-8"]), "a point is there twice"),
    "a mapping twice": (lambda: ts.sweep(PRODUCT, "edge-8", mappings=["cost", "cost"]), "a point is there twice"),
    "graphs of one name": (lambda: ts.sweep(["mlp", "mlp"], "edge-8"), "two graphs have one name.*'mlp'"),
    "a setting twice": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"core.arrays": [1], "core.array.count": [2]}),
        "a setting is named twice",
    ),
    "pairs of another length": (
        lambda: ts.sweep(PRODUCT, "edge-8", {("core.array.rows", "core.array.columns"): [(8, 8), (16,)]}),
        r"tuples of 2 values",
    ),
    "an unknown metric": (lambda: ts.sweep(PRODUCT, "edge-8", metrics=["secnds"]), "Did you mean 'seconds'"),
    "no metric": (lambda: ts.sweep(PRODUCT, "edge-8", metrics=[]), "a sweep needs a metric"),
    "a metric twice": (lambda: ts.sweep(PRODUCT, "edge-8", metrics=["cycles", "cycles"]), "two metrics have one name"),
    "a metric of many values": (
        lambda: ts.sweep(PRODUCT, "edge-8", metrics=[lambda result: result.data]),
        "a metric is one value",
    ),
    "another way with errors": (lambda: ts.sweep(PRODUCT, "edge-8", on_error="skip"), "row, raise"),
    "a derived setting of one that is not there": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.rows": [8], "core.array.columns": lambda row: row["rows"]}),
        "not swept.*'rows'",
    ),
    "a condition that fails": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.rows": [8]}, where=lambda row: row["nothing"]),
        "where.*KeyError",
    ),
    "no number of processes": (lambda: ts.executors.processes(0), "from 1 on"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, words = MISTAKES[name]
    with pytest.raises(ts.UserError) as error:
        call()
    assert re.search(words, str(error.value), re.DOTALL), str(error.value)


# --- flags --------------------------------------------------------------------------------------------------------


def point(
    settings: dict[str, Any], seconds: float | None, operations: list[list[Any]], same: Any = 0
) -> dict[str, Any]:
    figures = {"cycles": round((seconds or 0) * 1e9), "hertz": 10**9, "bottleneck": "memory", "operations": operations}
    return {"same": same, "settings": settings, "seconds": seconds, **figures}


def test_more_of_a_resource_that_takes_longer_is_flagged() -> None:
    """By hand: 2 arrays take 10 % longer than 1, all of it in `dense`; 4 are faster; a latency that falls is more."""
    count, wait = "core.array.count", "memory.latency"
    rows = [
        point({count: 1, wait: 1e-7}, 1e-3, [["dense", 600_000], ["norm", 400_000]]),
        point({count: 2, wait: 1e-7}, 1.1e-3, [["dense", 720_000], ["norm", 380_000]]),
        point({count: 4, wait: 1e-7}, 0.9e-3, [["dense", 500_000], ["norm", 400_000]]),
        point({count: 4, wait: 5e-8}, 0.95e-3, [["dense", 500_000], ["norm", 450_000]]),
        point({count: 8, wait: 5e-8}, None, []),
        point({count: 1, wait: 1e-7}, 5e-3, [["dense", 5_000_000]], same=1),  # of another machine
    ]
    found = flagged(rows, [count, wait])
    assert found == {
        1: "10.0 % slower than with core.array.count = 1: dense takes 120 µs longer (100 µs in all)",
        3: "5.6 % slower than with memory.latency = 100 ns: norm takes 50.0 µs longer (50.0 µs in all)",
    }


def test_flags_are_those_of_all_pairs() -> None:
    """A point is flagged where, and only where, some neighbour one step below in one resource is faster by 0.1 %."""
    random_ = random.Random(5)
    axes = {"core.array.count": [1, 2, 4], "memory.bandwidth": [10, 20, 30], "core.array.dataflow": ["a", "b"]}
    rows = [
        point(dict(zip(axes, values, strict=True)), random_.choice([1.0, 1.0005, 1.01, 2.0]), [["x", 1]])
        for values in itertools.product(*axes.values())
    ]
    wanted = set()
    for i, row in enumerate(rows):
        for name, values in list(axes.items())[:2]:
            step = values.index(row["settings"][name])
            below = {**row["settings"], name: values[step - 1]}
            if step and row["seconds"] > 1.001 * next(one["seconds"] for one in rows if one["settings"] == below):
                wanted.add(i)
    assert set(flagged(rows, list(axes))) == wanted


def test_a_real_sweep_says_where() -> None:
    """A point has a flag where, and only where, it takes longer than the one before; with the share of both rows."""
    sizes = ["4 MiB", "8 MiB", "16 MiB"]
    table = ts.sweep("bert-base", "tpu-v3", {"core.array.count": [1], "core.scratchpad.bytes": sizes})
    for before, after in itertools.pairwise(table.rows):
        slower = after["seconds"] / before["seconds"] - 1
        assert bool(after["flag"]) == (slower > 0.001)
        if after["flag"]:
            assert f"{100 * slower:.1f} % slower than with core.scratchpad.bytes = " in after["flag"]
    assert len(table.flags()) == sum(bool(row["flag"]) for row in table.rows)


# --- what is made of rows -----------------------------------------------------------------------------------------


def made(rows: list[dict[str, Any]], metrics: list[str]) -> Sweep:
    return Sweep([{**row, "status": "ok", "flag": ""} for row in rows], ["n"], metrics)


def test_the_front_by_all_pairs() -> None:
    random_ = random.Random(2)
    for _ in range(50):
        rows = [
            {
                "n": i,
                "seconds": random_.randint(1, 6),
                "bytes": random_.randint(1, 6),
                "utilisation": random_.randint(1, 6),
            }
            for i in range(random_.randint(1, 25))
        ]
        for names in (["seconds"], ["seconds", "bytes"], ["seconds", "bytes", "utilisation"]):
            costs = [tuple(-row[n] if n == "utilisation" else row[n] for n in names) for row in rows]
            wanted = {
                i
                for i, mine in enumerate(costs)
                if not any(o != mine and all(x <= y for x, y in zip(o, mine, strict=True)) for o in costs)
            }
            assert {row["n"] for row in made(rows, names).pareto(names).rows} == wanted


def test_a_front_of_nothing() -> None:
    table = made([{"n": 1, "word": "a"}], ["word"])
    for names, words in ((["word"], "without numbers"), (["n", "sconds"], "no such column"), ([], "needs a metric")):
        with pytest.raises(ts.UserError, match=words):
            table.pareto(names)


@pytest.fixture(scope="module")
def table() -> Sweep:
    changes = {"core.array.count": [1, 2, 4], "memory.bandwidth": ["8 GB/s", "16 GB/s"]}
    return ts.sweep(PRODUCT, ["edge-8", "tpu-v3"], changes, metrics=["seconds", "bytes", "utilisation"])


def test_pictures(table: Sweep) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    (axes,) = table.plot("lines").axes
    drawn = [line for line in axes.get_lines() if len(line.get_xdata())]
    values = {(x, y) for line in drawn for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)}
    assert values >= {(row["core.array.count"], row["seconds"]) for row in table.rows}
    assert axes.get_xlabel() == "core.array.count" and axes.get_ylabel() == "seconds (s)"
    assert len(axes.get_legend().get_texts()) == 4
    heat = table.plot("heatmap", x="memory.bandwidth", y="core.array.count", value="bytes").axes[0]
    cells = heat.get_images()[0].get_array()
    best = min(r["bytes"] for r in table.rows if (r["core.array.count"], r["memory.bandwidth"]) == (4, 8e9))
    assert cells.shape == (3, 2) and cells[2][0] == best
    front = table.plot("pareto").axes[0].get_lines()[1]
    assert len(front.get_xdata()) == len(table.pareto(["seconds", "bytes"]))
    pyplot.close("all")
    for words in (("lnes",), ("lines", "memory.bandwith"), ("lines", "core.array.count", "bottleneck")):
        with pytest.raises(ts.UserError):
            table.plot(*words)
    pyplot.close("all")


def test_rows_in_a_notebook(table: Sweep) -> None:
    html = table._repr_html_()
    assert html.count("<tr") == 1 + len(table) and "8.00 GB/s" in html and "best seconds" in html
    frame = table.to_pandas()
    assert list(frame.columns) == list(table.rows[0]) and frame["memory.bandwidth"].dtype.kind == "i"
    marked = Sweep([{"n": "<b>", "status": "illegal: <i>", "flag": ""}], ["n"], [])
    assert "<b>" not in marked._repr_html_().replace("<b>1 point", "").replace("<p><b>", "")
    assert "16.0 GB/s" in str(table)


# --- progress, interruption, executors ----------------------------------------------------------------------------


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


def test_rows_are_json(table: Sweep) -> None:
    assert json.loads(json.dumps(table.rows)) == table.rows
    assert all(math.isfinite(row["seconds"]) for row in table.rows)
