"""What a sweep says of its rows: flags, fronts, pictures, summaries, tables."""

from __future__ import annotations

import itertools
import json
import math
import random
from typing import Any

import pytest

import tilesim as ts
from tilesim.study.flags import flagged
from tilesim.study.sweep_table import Sweep

PRODUCT = ts.workloads.matmul(96, 64, 80)


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
    for names, words in ((["word"], "has no numbers"), (["n", "sconds"], "unknown column"), ([], "needs a metric")):
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


def drawn_by(table: Sweep, kind: str, **columns: str) -> Any:
    """The axes of a picture, drawn to the end; none stays open."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure = table.plot(kind, **columns)
    figure.canvas.draw()
    pyplot.close("all")
    return figure.axes[0]


def points_of(axes: Any) -> set[tuple[float, float]]:
    return {pair for line in axes.get_lines() for pair in zip(line.get_xdata(), line.get_ydata(), strict=True)}


def test_pictures_of_one_point_and_of_one_column_that_is_constant() -> None:
    one = Sweep([{"n": 4, "seconds": 1.0, "bytes": 8, "status": "ok", "flag": ""}], ["n"], ["seconds", "bytes"])
    assert points_of(drawn_by(one, "lines")) == {(4, 1.0)}
    assert points_of(drawn_by(one, "pareto")) == {(1.0, 8)}
    with pytest.raises(ts.UserError, match="more numeric settings"):
        one.plot("heatmap")
    flat = [{"n": n, "m": 1, "seconds": 2.0, "status": "ok", "flag": ""} for n in (1, 2, 3)]
    axes = drawn_by(Sweep(flat, ["m", "n"], ["seconds"]), "heatmap")
    assert axes.get_images()[0].get_array().tolist() == [[2.0, 2.0, 2.0]] and axes.get_xlabel() == "n"
    assert points_of(drawn_by(Sweep(flat, ["m", "n"], ["seconds"]), "lines")) == {(1, 2.0), (2, 2.0), (3, 2.0)}


@pytest.mark.parametrize("kind", ["lines", "heatmap", "pareto"])
def test_no_picture_of_nothing(kind: str) -> None:
    """All points refused, and not one number: the reason is said instead of an empty picture."""
    base = {"n": 1, "m": 2, "seconds": None, "bytes": None, "flag": ""}
    illegal = Sweep([{**base, "status": "illegal: too <b>small"}], ["n", "m"], ["seconds", "bytes"])
    with pytest.raises(ts.UserError, match=r"no point has a result.*too <b>small"):
        illegal.plot(kind)
    with pytest.raises(ts.UserError, match="no point has a result"):
        Sweep([], ["n", "m"], ["seconds", "bytes"]).plot(kind)
    hollow = {**base, "seconds": math.nan, "bytes": math.nan, "status": "ok"}
    with pytest.raises(ts.UserError, match=r"has no numbers|two metrics"):
        Sweep([hollow], ["n", "m"], ["seconds", "bytes"]).plot(kind)
    assert "best" not in Sweep([hollow], ["n", "m"], ["seconds", "bytes"]).summary()


def test_points_that_a_picture_leaves_out_are_said() -> None:
    """Of six points one is illegal, one excluded, two are no numbers: in no metric, and on no front."""
    rows = [{"n": n, "seconds": 7.0 - n, "bytes": n, "status": "ok", "flag": ""} for n in range(1, 7)]
    rows[0] |= {"status": "illegal: x", "seconds": None, "bytes": None}
    rows[1] |= {"status": "excluded", "seconds": None, "bytes": None}
    rows[2]["seconds"], rows[3]["bytes"] = math.nan, None
    table = Sweep(rows, ["n"], ["seconds", "bytes"])
    assert [row["n"] for row in table.pareto(["seconds", "bytes"]).rows] == [6, 5]
    axes = drawn_by(table, "pareto")
    assert points_of(axes) == {(1.0, 6), (2.0, 5)}
    assert axes.get_title() == "4 of 6 points are not drawn: 1 illegal, 1 excluded, 2 without a number"
    assert drawn_by(table, "lines").get_title().startswith("3 of 6 points are not drawn")
    assert "best seconds 1 at n = 6" in table.summary()


def test_graphs_are_not_compared_with_each_other() -> None:
    """A small graph is faster everywhere: that says nothing of machines."""
    rows = [
        {"graph": graph, "n": n, "m": m, "seconds": scale * (3 - n), "bytes": scale * n, "status": "ok", "flag": ""}
        for graph, scale in (("small", 1), ("<b>large", 100))
        for n, m in itertools.product((1, 2), (1, 2))
    ]
    table = Sweep(rows, ["n", "m"], ["seconds", "bytes"])
    assert len(table.pareto().rows) == len(rows) and "best" not in table.summary()
    names = [text.get_text() for text in drawn_by(table, "pareto").get_legend().get_texts()]
    assert names == ["8 points", "front of small", "front of <b>large"]
    assert len([line for line in drawn_by(table, "lines").get_lines() if len(line.get_xdata())]) == 4
    with pytest.raises(ts.UserError, match=r"a single graph.*only\(\{\"graph\": \"small\"\}\)"):
        table.plot("heatmap")
    large = table.only({"graph": "<b>large"})
    cells = drawn_by(large, "heatmap", x="n", y="m").get_images()[0].get_array().tolist()
    assert cells == [[200, 100], [200, 100]] and "best seconds 100" in large.summary()
    assert [(row["n"], row["m"]) for row in large.only({"n": [2], "m": 1}).rows] == [(2, 1)]
    with pytest.raises(ts.UserError, match="Did you mean 'graph'"):
        table.only({"grph": "small"})


def test_rows_in_a_notebook(table: Sweep) -> None:
    html = table._repr_html_()
    assert html.count("<tr") == 1 + len(table) and "8.00 GB/s" in html and "best seconds" in html
    frame = table.to_pandas()
    assert list(frame.columns) == list(table.rows[0]) and frame["memory.bandwidth"].dtype.kind == "i"
    marked = Sweep([{"n": "<b>", "status": "illegal: <i>", "flag": ""}], ["n"], [])
    assert "<b>" not in marked._repr_html_().replace("<b>1 point", "").replace("<p><b>", "")
    assert "16.0 GB/s" in str(table)


def test_rows_are_json(table: Sweep) -> None:
    assert json.loads(json.dumps(table.rows)) == table.rows
    assert all(math.isfinite(row["seconds"]) for row in table.rows)
