"""Sweeps: numbers against single simulations, units by hand, points that are refused, flags, fronts, pictures."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts
from tilesim.study import points

PRODUCT = ts.workloads.matmul(96, 64, 80)


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
        PRODUCT, "edge-8", {"core.array.count": [1, 2, 4, 99, "many"]}, metrics=["cycles", picky],
        where=lambda row: row["core.array.count"] != 2,
    )  # fmt: skip
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
    "no values": (lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.count": []}), "the list of values is empty"),
    "no graphs": (
        lambda: ts.sweep([], "edge-8", {"core.array.count": [1]}),
        "graph: the list is empty",
    ),
    "no named graphs": (lambda: ts.sweep({}, "edge-8"), "graph.*empty"),
    "no machines": (lambda: ts.sweep(PRODUCT, [], {"core.array.count": [1]}), "machine.*empty"),
    "no mappings": (lambda: ts.sweep(PRODUCT, "edge-8", mappings=[]), "mappings.*empty"),
    "no graph": (lambda: ts.sweep(None, "edge-8"), "not a model"),  # type: ignore[arg-type]
    "a point twice": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.count": [1, 2, 1]}),
        "duplicate point.*core.array.count = 1",
    ),
    "a point twice in other units": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"memory.bandwidth": ["1 GB/s", "1000 MB/s"]}),
        "duplicate point",
    ),
    "a machine twice": (lambda: ts.sweep(PRODUCT, ["edge-8", "edge-8"]), "duplicate point"),
    "a mapping twice": (lambda: ts.sweep(PRODUCT, "edge-8", mappings=["cost", "cost"]), "duplicate point"),
    "graphs of one name": (lambda: ts.sweep(["mlp", "mlp"], "edge-8"), "two graphs have the same name.*'mlp'"),
    "a setting twice": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"core.arrays": [1], "core.array.count": [2]}),
        "a setting is given twice",
    ),
    "pairs of another length": (
        lambda: ts.sweep(PRODUCT, "edge-8", {("core.array.rows", "core.array.columns"): [(8, 8), (16,)]}),
        r"tuples of 2 values",
    ),
    "an unknown metric": (lambda: ts.sweep(PRODUCT, "edge-8", metrics=["secnds"]), "Did you mean 'seconds'"),
    "no metric": (lambda: ts.sweep(PRODUCT, "edge-8", metrics=[]), "missing metric"),
    "a metric twice": (lambda: ts.sweep(PRODUCT, "edge-8", metrics=["cycles", "cycles"]), "a metric is given twice"),
    "a metric of many values": (
        lambda: ts.sweep(PRODUCT, "edge-8", metrics=[lambda result: result.data]),
        "a metric must return one value",
    ),
    "another way with errors": (lambda: ts.sweep(PRODUCT, "edge-8", on_error="skip"), "row, raise"),
    "a derived setting of one that is not there": (
        lambda: ts.sweep(PRODUCT, "edge-8", {"core.array.rows": [8], "core.array.columns": lambda row: row["rows"]}),
        "outside the sweep.*'rows'",
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
