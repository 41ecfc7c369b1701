"""Pictures: they draw what they are given."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilesim as ts
from tilesim.analytic import pages, views
from tilesim.analytic.suites import compare_suite

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def close() -> object:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_roofline_has_a_line_per_dtype_and_level() -> None:
    graph = ts.models.build("mlp")
    bound = ts.roofline(graph, "t4")
    axes = bound.plot()
    rates = [rate for rate in bound.device.matrix.values() if rate.how != "absent"]
    assert len(axes.lines) == len(rates) + len(bound.device.levels)
    assert len(axes.collections[0].get_offsets()) == len(bound.table())


def test_crossover_suite_terms_and_validation() -> None:
    axes = ts.crossover("h100", dtype="fp8").plot()
    assert len(axes.lines[0].get_xdata()) == 9
    assert len(axes.collections) == 1  # the band of the model's error
    summary = ts.crossover("h100")
    parts = [part for part in summary.parts if part.possible]
    assert views.plot_crossover_map(summary).images[0].get_array().shape == (len(parts), 9)
    assert views.plot_suite(compare_suite("scaling", ["t4", "h100"])).patches
    assert views.plot_terms(ts.estimate(ts.models.build("mlp"), "t4")).patches
    row = {"device": "t4", "dtype": "fp32", "status": "ok", "measured_ms": 1.0, "predicted_ms": 1.1}
    report = {"rows": [row], "groups": {"t4|fp32": {"mean_abs_error": 0.1}}}
    assert len(views.plot_validation(report).collections) == 2


def test_pages() -> None:
    graph = ts.models.build("mlp")
    bound, result = ts.roofline(graph, "t4"), ts.estimate(graph, "t4")
    page = pages.html_report(result, bound)
    assert "What would help" in page and "https://" not in page.partition("<script")[0]
    assert page.count("<circle") == len(bound.table())
    assert "predicted" in pages.roofline_page(bound, result)
    assert pages.terms_page(result).count('class="name"') == len(result.terms())
    suite = compare_suite("scaling", ["t4", "h100"])
    assert pages.suite_page(suite).count('class="name"') == len(suite)
    summary = ts.crossover("h100")
    boxes = sum(len(part.rows) for part in summary.parts if part.possible)
    assert pages.crossover_map_page(summary).count("<rect") == boxes
    assert "at best" in pages.crossover_page(summary)
    row = {"device": "t4", "dtype": "fp32", "m": "64", "status": "ok", "measured_ms": 1.0, "predicted_ms": 1.1}
    shown = pages.validation_page({"rows": [row], "groups": {"t4|fp32": {"mean_abs_error": 0.1}}})
    assert "+15%" in shown and "m 64" in shown


@pytest.fixture(scope="module")
def routed() -> ts.Result:
    machine = ts.Machine.load("tpu-v3").replace(
        {"memory.channels": 4, "memory.bandwidth": "112500 MB/s", "network.ports_per_core": 2}
    )
    program = ts.compile(ts.workloads.matmul(128, 128, 128), machine)
    return ts.simulate(program, memory="bank", network="mesh", timeline=True)


def test_bandwidth_adds_up(routed: ts.Result) -> None:
    rows = ts.views.bandwidth_rows(routed)
    memory = routed.data["memory"]
    moved = sum(map(sum, rows)) * memory["step_cycles"] / memory["hertz"]
    assert moved == pytest.approx(routed.memory_bytes)
    assert len(ts.views.plot_bandwidth(routed).collections) == len(rows) == 4
    assert "channel 3" in ts.views.bandwidth_page(routed)


def test_banks_are_a_map(routed: ts.Result) -> None:
    columns = ts.views.plot_banks(routed).images[0].get_array()
    assert columns.shape == (4, ts.memory.Part.load("HBM2-TPUv3").core.banks)
    # Writes may still wait in the queues when the program is over.
    assert 0.9 * routed.memory_bytes <= columns.sum() * 32 <= routed.memory_bytes
    hits = ts.views.plot_banks(routed, what="hits").images[0].get_array()
    assert hits.max() <= 1
    with pytest.raises(ts.UserError, match="columns, activates, hits"):
        ts.views.plot_banks(routed, what="reads")


def test_links_lie_on_the_topology(routed: ts.Result) -> None:
    used = routed.data["network"]
    axes = ts.views.plot_links(routed)
    assert len(axes.lines) == len(used["links"]) + len(used["endpoints"])
    alone = ts.network.run("torus", k=3, load=0.1, period=500)
    assert len(ts.views.plot_links(alone).lines) == len(alone.links)


def test_results_without_traffic() -> None:
    program = ts.compile(ts.workloads.matmul(64, 64, 64))
    simple = ts.simulate(program, memory="ideal")
    for draw in (ts.views.plot_bandwidth, ts.views.plot_banks, ts.views.plot_links):
        with pytest.raises(ts.UserError, match="simulate with"):
            draw(simple)


def test_the_timeline_has_counters(routed: ts.Result, tmp_path: Path) -> None:
    routed.timeline(tmp_path / "r.trace")
    trace = (tmp_path / "r.trace").read_bytes()
    assert trace.count(b"memory.channel3 MB/s") == 1


def test_crossover_over_batch_and_size() -> None:
    from tilesim.analytic.crossover import sweep

    shapes = sweep("1:1024", "4096:8192", "4096")
    assert len(shapes) == 22 and shapes[0] == (1.0, 4096.0, 4096.0) and shapes[-1] == (1024.0, 8192.0, 4096.0)
    page = pages.crossover_page(ts.crossover("h100", dtype="fp8", shapes=shapes))
    assert "n 8192, k 4096" in page and "that it helps" in page
    assert "8-bit floats" in pages.crossover_page(ts.crossover("t4"))
    for text in ("x", "8:4", "1:2:3", "0"):
        with pytest.raises(ts.UserError, match="not a number or a range"):
            sweep(text, "1", "1")


def test_what_the_levels_hold() -> None:
    rows = ts.estimate(ts.workloads.matmul(256, 256, 256, dtype="bf16"), "h100").caches().rows
    (product,) = [row for row in rows if row["hits"] is not None]
    assert product["fits"] == "L1" and product["pressure"] == "low" and 0 <= product["hits"] <= 1
    large = ts.estimate(ts.workloads.matmul(8192, 8192, 8192, dtype="bf16"), "h100").caches().rows
    assert any(row["fits"] == "DRAM" and row["pressure"] == "high" for row in large)
