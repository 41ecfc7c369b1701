"""Pictures of matplotlib and data frames: what they draw is what the result says."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.cbook import is_math_text
from matplotlib.text import Text

import tilesim as ts
from support.pages import small
from tilesim.analytic import views

matplotlib.use("agg")


@pytest.fixture(scope="module")
def result() -> ts.Result:
    return small("")


@pytest.fixture(autouse=True)
def closed() -> object:
    yield
    pyplot.close("all")


def test_operations(result: ts.Result) -> None:
    axes = result.plot("operations")
    widths = [patch.get_width() for patch in axes.patches]
    assert sum(widths) == result.cycles
    assert widths == sorted(widths, reverse=True)


def test_roofline(result: ts.Result) -> None:
    axes = result.plot("roofline")
    drawn = axes.collections[0].get_offsets()
    wanted = [
        (flops / moved, flops * result.data["hertz"] / row["cycles"])
        for row in result.data["operations"]
        if (flops := 2 * row["multiply_adds"] + row["vector_operations"])
        and (moved := row["load_bytes"] + row["store_bytes"])
    ]
    assert np.allclose(sorted(map(tuple, drawn)), sorted(wanted))


def test_timeline(result: ts.Result) -> None:
    axes = result.plot("timeline")
    area = 0.0
    for bars in axes.collections:
        for path in bars.get_paths():
            corners = path.vertices
            area += float(np.ptp(corners[:, 0])) * result.data["hertz"]
    assert area == pytest.approx(sum(finish - start for *_, start, finish in result.data["intervals"]))
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        result.data["units"][unit]["unit"] for unit in sorted({one[0] for one in result.data["intervals"]})
    ]


def test_memory(result: ts.Result) -> None:
    axes = result.plot("memory")
    (line,) = axes.lines
    plan = ts.compile(result._again.program.graph, "edge-8", fuse="none").memory_plan()  # type: ignore[union-attr]
    most, rounded = max(line.get_ydata()), 256 * len(plan.table())  # the plan counts whole steps of the channels
    assert most <= plan.live_bytes["memory"] <= most + rounded
    assert len(line.get_ydata()) == plan.kernels


def test_bytes(result: ts.Result) -> None:
    axes = result.plot("bytes")
    rows: dict[int, float] = {}
    for patch in axes.patches:
        row = round(patch.get_y() + patch.get_height() / 2)
        rows[row] = rows.get(row, 0) + patch.get_width()
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert rows[names.index("memory, requested")] == result.memory_bytes
    assert rows[names.index("memory channels")] == result.channel_bytes["moved"]
    assert result.bounds is not None
    assert rows[names.index("memory, at least")] == result.bounds.bytes


def test_axes_that_are_given(result: ts.Result) -> None:
    figure, (left, right) = pyplot.subplots(1, 2)
    assert result.plot("operations", left) is left and result.plot("bytes", axes=right) is right
    assert figure.axes == [left, right]
    with pytest.raises(ts.UserError, match="not matplotlib axes"):
        result.plot("operations", axes="left")


NAMED = r"$\frac$ and $x_1$"  # mathematics to matplotlib, and none that it can set


def _named() -> ts.Graph:
    builder = ts.GraphBuilder(NAMED)
    builder.output(builder.linear(builder.input("in", [8, 8]), 8, name=NAMED), "y")
    return builder.build()


def _pictures() -> dict[str, Callable[[], Any]]:
    def simulated() -> ts.Result:
        return ts.simulate(ts.compile(_named(), "edge-8"), "edge-8", memory="simple", timeline=True)

    def swept() -> ts.Sweep:
        axes = {"core.array.rows": [4, 8], "core.array.columns": [4, 8]}

        def cost(result: ts.Result) -> int:
            return result.cycles

        cost.__name__ = NAMED
        return ts.sweep({NAMED: _named(), "$a$": _named()}, "edge-8", axes, metrics=[cost, "bytes"])

    found: dict[str, Callable[[], Any]] = {
        what: functools.partial(lambda what: simulated().plot(what), what)
        for what in ("operations", "timeline", "roofline", "memory", "bytes")
    }
    found["bandwidth"] = lambda: ts.views.plot_bandwidth(simulated())
    found["terms"] = lambda: views.plot_terms(ts.estimate(_named(), "t4"))
    found["roofline of a device"] = lambda: views.plot_roofline(ts.roofline(_named(), "t4"))
    found["sweep, lines"] = lambda: swept().plot("lines", x="core.array.rows", y=NAMED)
    found["sweep, heat map"] = lambda: swept().only({"graph": NAMED}).plot("heatmap", value=NAMED)
    found["sweep, front"] = lambda: swept().plot("pareto", x=NAMED, y="bytes")
    found["study"] = lambda: ts.tune(_named(), "edge-8", budget=2).plot("model").axes[0]
    found["history of a study"] = lambda: ts.tune(_named(), "edge-8", budget=2).plot("history").axes[0]
    return found


PICTURES = _pictures()


@pytest.mark.parametrize("what", PICTURES)
def test_names_are_no_mathematics(what: str) -> None:
    """A "$" of a name is a "$": the picture can be written, and no text of ours is set as mathematics."""
    axes = PICTURES[what]()
    axes.figure.savefig(io.BytesIO(), format="png")
    texts = [text.get_text() for text in axes.figure.findobj(Text)]
    assert any(r"\$\frac\$" in text for text in texts), texts
    assert not [text for text in texts if is_math_text(text) and "mathdefault" not in text]  # which is a tick's


def test_what_cannot_be_drawn(result: ts.Result) -> None:
    with pytest.raises(ts.UserError, match="Did you mean 'roofline'"):
        result.plot("rofline")
    estimate = ts.estimate("mlp", "t4")
    with pytest.raises(ts.UserError, match="timeline=True"):
        estimate.plot("timeline")
    with pytest.raises(ts.UserError, match="no memory plan"):
        estimate.plot("memory")
    assert estimate.plot("operations").patches and estimate.plot("roofline").collections


def test_data_frames(result: ts.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = result.to_pandas()
    assert list(frame["operation"]) == [row["operation"] for row in result.table().rows]
    assert frame["cycles"].sum() == result.cycles and frame["share"].sum() == pytest.approx(1)
    assert frame["seconds"].sum() == pytest.approx(result.seconds)
    assert (frame["bytes"] == frame["load_bytes"] + frame["store_bytes"]).all()
    moved = frame[frame["bytes"] > 0]  # the others read and leave what stays on the chip
    assert np.allclose(moved["intensity"] * moved["bytes"], moved["flops"])
    assert len(ts.estimate("mlp", "t4").to_pandas()) == len(ts.estimate("mlp", "t4").table())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ts.UserError, match="notebook"):
        result.to_pandas()
