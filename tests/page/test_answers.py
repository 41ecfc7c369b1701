"""Why an operation takes its time, told in the page; baselines, comparisons and files: in a browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.browser import LACKS, NAMED, OUTSIDE, Open, Opened
from support.pages import MARKUP, small

pytestmark = pytest.mark.skipif(bool(LACKS) and not NAMED, reason=LACKS)

DETAILS = "document.querySelector('.details:not([hidden])')"
# Where a library's chart draws a point, in pixels of the window.
PLACE = """(name, x, y) => {
  const chart = tilesim.charts.get(name);
  const view = Bokeh.index.find_one(chart.plot);
  const box = view.el.getBoundingClientRect();
  return [box.x + view.frame.x_scale.compute(x), box.y + view.frame.y_scale.compute(y)];
}"""


@pytest.fixture(scope="module")
def result() -> ts.Result:
    return small()


@pytest.fixture(scope="module")
def baseline() -> ts.Result:
    """The same network, one layer shorter, with faster memory."""
    b = ts.GraphBuilder(f"net {MARKUP}")
    x = b.input("x", [64, 96])
    for i in range(2):
        x = b.apply("relu", b.linear(x, 96, name=f"layers.{i}.first {MARKUP}"))
        x = b.linear(x, 96, name=f"layers.{i}.second")
    x = b.linear(x, 96, name="head")
    b.output(x, "y")
    machine = ts.Machine.load("edge-8").replace({"memory.bandwidth": "400 GB/s"})
    return ts.simulate(ts.compile(b.build(), machine, fuse="none"))


@pytest.fixture(scope="module")
def page(result: ts.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "page.html"
    result.to_html(path, advice=False)
    return path


@pytest.fixture(scope="module")
def compared(result: ts.Result, baseline: ts.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "compared.html"
    result.to_html(path, advice=False, baseline=baseline)
    return path


def number(text: str) -> float:
    return float(re.sub(r"[^0-9.\-]", "", text.replace("−", "-")) or 0)


def told(found: Opened) -> tuple[str, dict[str, tuple[float, float]]]:
    """Head of what is told, and cycles and share of each term."""
    found.tab.wait_for_function(DETAILS)
    rows = found.tab.evaluate(
        f"[...{DETAILS}.querySelectorAll('.why tbody tr')].map((row) => [...row.cells].map((one) => one.textContent))"
    )
    head = found.tab.inner_text(".details .why h3").removeprefix("Why: ")
    return head, {row[0]: (number(row[1]), number(row[2])) for row in rows}


def check(found: Opened, result: ts.Result, name: str) -> None:
    """What the page tells is what `Result.why` says."""
    head, terms = told(found)
    assert head == name
    why = result.why(name)
    assert list(terms) and set(terms) == {row["term"] for row in why.terms.rows if row["share"] > 5e-6}
    for row in why.terms.rows:
        if row["term"] in terms:
            cycles, share = terms[row["term"]]
            assert cycles == pytest.approx(row["cycles"], abs=1 + 1e-4 * why.cycles)
            assert share == pytest.approx(100 * row["share"], abs=0.06)
    assert sum(share for _, share in terms.values()) == pytest.approx(100, abs=0.05 * len(terms))
    text = found.tab.inner_text(".details")
    assert f"At least {why.bound_cycles:,.0f} cycles" in text
    assert why.attribution in text
    assert "tilesim why" in text and "result.why(" in text


def test_a_row_tells_why(result: ts.Result, page: Path, opened: Open) -> None:
    found = opened(page)
    found.tab.click("text=fold layers")
    for row in range(3):
        name = found.rows()[row][0]
        found.tab.click(f"#table-operations > .window tbody tr:nth-child({row + 1})")
        check(found, result, name)
    found.tab.click(".details .shut")
    assert found.tab.is_hidden(".details")


def test_repeated_layers_tell_their_sums(result: ts.Result, page: Path, opened: Open) -> None:
    found = opened(page)
    line = found.rows()[0]
    found.tab.click("#table-operations > .window tbody tr:first-child td:nth-child(3)")
    head, terms = told(found)
    assert head.endswith("(3)") and "*" in head
    assert sum(cycles for cycles, _ in terms.values()) == pytest.approx(number(line[2]), abs=len(terms))
    names = [row["name"] for row in result.data["operations"] if ".first" in row["name"]]
    least = sum(result.why(name).bound_cycles for name in names)
    assert f"At least {least:,.0f} cycles" in found.tab.inner_text(".details")


def test_a_box_of_the_graph_tells_why(result: ts.Result, page: Path, opened: Open) -> None:
    found = opened(page)
    box = found.tab.locator("#graph g[data-rows]", has_text="relu").first
    box.click()
    head, _ = told(found)
    assert head == "relu"
    check(found, result, "relu")
    assert found.tab.evaluate(f"{DETAILS}.closest('section').id") == "graph"
    found.tab.locator("#graph g[data-rows]").first.focus()
    found.tab.keyboard.press("Enter")
    assert told(found)[0].endswith("(3)")


def test_a_point_of_the_roofline_tells_why(result: ts.Result, page: Path, opened: Open) -> None:
    found = opened(page)
    found.tab.locator("#chart-roofline .live").scroll_into_view_if_needed()
    points = found.tab.evaluate("(({x, y, name}) => [x, y, name])(tilesim.charts.get('roofline').source.data)")
    far = sorted(range(len(points[0])), key=lambda i: points[1][i])[0]
    across, down = found.tab.evaluate(f"({PLACE})('roofline', {points[0][far]}, {points[1][far]})")
    found.tab.mouse.click(across, down)
    head, _ = told(found)
    near = [points[2][i] for i in range(len(points[0])) if abs(points[1][i] / points[1][far] - 1) < 0.2]
    assert head in near
    check(found, result, head)
    assert found.tab.evaluate(f"{DETAILS}.closest('section').id") == "roofline"


def test_an_interval_of_the_timeline_tells_why(result: ts.Result, page: Path, opened: Open) -> None:
    found = opened(page)
    found.tab.locator("#chart-timeline .live").scroll_into_view_if_needed()
    data = found.tab.evaluate(
        "(({left, right, top, bottom}) => [left, right, top, bottom])(tilesim.charts.get('timeline').source.data)"
    )
    widest = max(range(len(data[0])), key=lambda i: data[1][i] - data[0][i])
    middle = [(data[0][widest] + data[1][widest]) / 2, (data[2][widest] + data[3][widest]) / 2]
    across, down = found.tab.evaluate(f"({PLACE})('timeline', {middle[0]}, {middle[1]})")
    found.tab.mouse.click(across, down)
    text = found.tab.evaluate(f"tilesim.charts.get('timeline').source.data.text[{widest}]")
    check(found, result, text)
    assert found.tab.evaluate(f"{DETAILS}.closest('section').id") == "timeline"


def test_without_the_library_points_tell_why(
    result: ts.Result, tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilesim.base.view.pages.LIBRARY", "no_such_package_of_charts")
    result.to_html(tmp_path / "plain.html", advice=False)
    found = opened(tmp_path / "plain.html", charts=False)
    found.tab.locator("#chart-timeline rect[data-rows]").first.click(force=True)
    head, _ = told(found)
    check(found, result, head)


def test_keys_choose_lines(result: ts.Result, page: Path, opened: Open) -> None:
    found = opened(page)
    lines = len(found.rows())
    found.tab.focus("#table-operations > .window")
    found.tab.keyboard.press("ArrowDown")
    assert told(found)[0] == found.rows()[0][0].removeprefix("▸ ")
    found.tab.keyboard.press("ArrowRight")
    assert len(found.rows()) == lines + 3
    found.tab.keyboard.press("ArrowDown")
    check(found, result, found.rows()[1][0])
    found.tab.keyboard.press("ArrowUp")
    found.tab.keyboard.press("ArrowLeft")
    assert len(found.rows()) == lines
    found.tab.keyboard.press("End")
    assert told(found)[0].split(" (")[0] in found.rows()[-1][0]
    found.tab.keyboard.press("Escape")
    assert found.tab.is_hidden(".details")


def test_a_baseline_stands_beside_each_operation(
    result: ts.Result, baseline: ts.Result, compared: Path, opened: Open
) -> None:
    found = opened(compared)
    found.tab.click("text=fold layers")
    heads = found.tab.locator("#table-operations thead button").all_inner_texts()
    at = heads.index("difference")
    before = {row["name"]: row["exclusive"] for row in baseline.data["operations"]}
    for row in found.rows():
        there = before.get(row[0])
        assert row[at - 1] == (f"{there:,}" if there is not None else "–")
        assert number(row[at]) == number(row[2]) - (there or 0)
    for way in (-1, 1):
        found.tab.locator("#table-operations thead button", has_text="difference").click()
        values = [number(row[at]) for row in found.rows()]
        assert values == sorted(values, reverse=way < 0)
    only = found.tab.inner_text("#baseline")
    assert "head" in only and f"{before['head']:,}" in only
    whole = sum(values) - before["head"]
    assert whole == result.cycles - baseline.cycles
    assert ts.compare(baseline, result, names=["baseline", "this result"]).headline() in only


def pages(result: ts.Result, baseline: ts.Result, folder: Path) -> dict[str, Path]:
    """Pages of all sorts."""
    found = {name: folder / f"{name}.html" for name in ("compared", "comparison", "why", "loaded", "one", "estimate")}
    result.to_html(found["compared"], advice=False, baseline=baseline)
    ts.compare(baseline, result, result).to_html(found["comparison"])
    result.why("relu").to_html(found["why"])
    result.save(folder / "r.json")
    ts.Result.load(folder / "r.json").to_html(found["loaded"], baseline=baseline)
    ts.run(ts.workloads.matmul(64, 64, 64), machine="edge-8").to_html(found["one"])
    ts.estimate("mlp", "h100").to_html(found["estimate"], baseline=ts.estimate("mlp", "t4"))
    return found


def test_no_page_is_wider_than_a_window(result: ts.Result, baseline: ts.Result, tmp_path: Path, opened: Open) -> None:
    for name, path in pages(result, baseline, tmp_path).items():
        for scheme, widths in (("light", (360, 1440)), ("dark", (768, 2560))):
            found = opened(path, charts=name not in ("comparison", "why"), color_scheme=scheme)
            if found.tab.locator("#table-operations > .window").count():
                found.tab.click("#table-operations > .window tbody tr:first-child td:nth-child(2)")
            for width in widths:
                found.tab.set_viewport_size({"width": width, "height": 900})
                found.tab.wait_for_function("new Promise((done) => setTimeout(() => done(true), 150))")
                assert found.tab.evaluate("document.documentElement.scrollWidth") == width, (name, width)
                assert found.tab.evaluate(OUTSIDE) == [], (name, width)


def test_a_comparison_sorts_and_filters(result: ts.Result, baseline: ts.Result, tmp_path: Path, opened: Open) -> None:
    comparison = ts.compare(baseline, result)
    comparison.to_html(tmp_path / "page.html")
    found = opened(tmp_path / "page.html", charts=False)
    found.tab.click("text=fold layers")
    found.tab.locator("#table-operations thead button", has_text="b − a").click()
    values = [number(row[3]) for row in found.rows()]
    assert values == sorted((row["difference"] for row in comparison.operations().rows), reverse=True)
    found.tab.fill("#table-operations input", "second")
    assert len(found.rows()) == sum("second" in row["operation"] for row in comparison.operations().rows)


def test_a_file_shows_what_the_result_shows(result: ts.Result, tmp_path: Path, opened: Open) -> None:
    result.save(tmp_path / "r.json")
    ts.Result.load(tmp_path / "r.json").to_html(tmp_path / "loaded.html")
    result.to_html(tmp_path / "own.html", advice=False)
    texts: list[Any] = []
    for name in ("own", "loaded"):
        tab = opened(tmp_path / f"{name}.html").tab
        drawn = "['graph', 'memory'].map((id) => document.querySelector(`#${id} svg`).outerHTML)"
        texts.append(tab.evaluate(drawn))
    assert texts[0] == texts[1]
