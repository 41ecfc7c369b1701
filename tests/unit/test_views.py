"""Pictures: they draw what they are given."""

from __future__ import annotations

import pytest

import tilesim as ts
from tilesim.analytic import views
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
    assert len(ts.crossover("h100", "fp8").plot().lines[0].get_xdata()) == 9
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
    assert "What would help" in views.html_report(result, bound)
    pytest.importorskip("plotly")
    assert "predicted" in views.roofline_page(bound, result)


def test_crossover_over_batch_and_size() -> None:
    from tilesim.analytic.crossover import sweep

    shapes = sweep("1:1024", "4096:8192", "4096")
    assert len(shapes) == 22 and shapes[0] == (1.0, 4096.0, 4096.0) and shapes[-1] == (1024.0, 8192.0, 4096.0)
    page = views.crossover_page(ts.crossover("h100", "fp8", shapes=shapes))
    assert "n 8192, k 4096" in page and "that it helps" in page
    assert "8-bit floats" in views.crossover_page(ts.crossover("t4"))
    for text in ("x", "8:4", "1:2:3", "0"):
        with pytest.raises(ts.UserError, match="number or a range"):
            sweep(text, "1", "1")


def test_what_the_levels_hold() -> None:
    rows = ts.estimate(ts.workloads.matmul(256, 256, 256, "bf16"), "h100").caches().rows
    (product,) = [row for row in rows if row["hits"] is not None]
    assert product["fits"] == "L1" and product["pressure"] == "low" and 0 <= product["hits"] <= 1
    large = ts.estimate(ts.workloads.matmul(8192, 8192, 8192, "bf16"), "h100").caches().rows
    assert any(row["fits"] == "DRAM" and row["pressure"] == "high" for row in large)
