"""The page in a real browser: no error, no request, no overflow, every interaction."""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.browser import LACKS, NAMED, OUTSIDE, Open
from support.pages import MARKUP, many, small
from tilesim.base import figures
from tilesim.base.folding import pattern
from tilesim.base.view import Column, Rows, Section, document

pytestmark = pytest.mark.skipif(bool(LACKS) and not NAMED, reason=LACKS)

WIDTHS = (360, 768, 1440, 2560)
BOXES = """[...document.querySelectorAll('header, nav, section, figure, .cards, .card, .bars, .table, .tools')]
  .map((one) => [one.tagName, one.getBoundingClientRect()])
  .map(([name, box]) => [name, box.x, box.y, box.width, box.height])"""
# Texts and images, also of elements that a library keeps for itself.
DEEP = """function deep(root) {
  const found = { text: '', images: 0 };
  for (const one of root.querySelectorAll('*')) {
    if (one.tagName === 'IMG') found.images += 1;
    if (one.shadowRoot) {
      const inner = deep(one.shadowRoot);
      found.text += inner.text;
      found.images += inner.images;
    }
  }
  if (root instanceof ShadowRoot) found.text += root.textContent;
  return found;
}"""


@pytest.fixture(scope="module")
def result() -> ts.Result:
    return small()


@pytest.fixture(scope="module")
def page(result: ts.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "small.html"
    result.to_html(path)
    return path


@pytest.fixture(scope="module")
def plain(result: ts.Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same page as it is without the plotting library."""
    path = tmp_path_factory.mktemp("page") / "plain.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["tilesim.base.view.pages"], "LIBRARY", "no_such_package_of_charts")
        result.to_html(path, advice=False)
    return path


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "many.html"
    many(3_000).to_html(path)
    return path


def test_layout_from_a_phone_to_a_wide_screen(page: Path, opened: Open) -> None:
    """Nothing is wider than the page, sections stand below each other at full width, and all have something in them."""
    tab = opened(page).tab
    for width in WIDTHS:
        tab.set_viewport_size({"width": width, "height": 900})
        tab.wait_for_function("new Promise((done) => requestAnimationFrame(() => setTimeout(() => done(true), 100)))")
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert tab.evaluate(OUTSIDE) == []
        boxes = tab.evaluate(BOXES)
        sections = [box for box in boxes if box[0] == "SECTION"]
        assert len(sections) >= 8
        for (_, x, y, wide, high), after in itertools.pairwise(sections):
            assert wide == sections[0][3] and x == sections[0][1] and high > 20
            assert after[2] >= y + high
        assert all(wide > 0 and high > 0 for _, _, _, wide, high in boxes)
        charts = tab.evaluate(
            "[...document.querySelectorAll('.chart .live')].map((one) => one.getBoundingClientRect().width)"
        )
        assert len(charts) == 5 and set(charts) == {sections[0][3]}


def test_layout_of_a_page_opened_on_a_phone(page: Path, opened: Open) -> None:
    tab = opened(page, 360, has_touch=True, is_mobile=True).tab
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    assert tab.evaluate(OUTSIDE) == []
    assert tab.evaluate("getComputedStyle(document.querySelector('.cards')).gridTemplateColumns").count("px") == 2


def test_theme_changes_colours_alone(page: Path, opened: Open) -> None:
    light = opened(page)
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    before, boxes = light.tab.evaluate(paper), light.tab.evaluate(BOXES)
    light.tab.click("#theme")
    dark = light.tab.evaluate(paper)
    assert before == "rgb(255, 255, 255)" and dark != before
    assert light.tab.evaluate(BOXES) == boxes
    ink = light.tab.evaluate("tilesim.charts.get('roofline').plot.below[0].major_label_text_color")
    assert ink == light.tab.evaluate("getComputedStyle(document.body).color")
    light.tab.click("#theme")
    assert light.tab.evaluate(paper) == before
    preferred = opened(page, color_scheme="dark").tab
    assert preferred.evaluate(paper) == dark
    preferred.click("#theme")
    assert preferred.evaluate(paper) == before


def test_sorting(result: ts.Result, plain: Path, opened: Open) -> None:
    found = opened(plain, charts=False)
    found.tab.click("text=fold layers")
    expected = sorted((row["cycles"] for row in result.table().rows), reverse=True)
    assert [row[2] for row in found.rows()] == [f"{cycles:,}" for cycles in expected]
    head = found.tab.locator("#table-operations thead button", has_text="cycles").first
    for way, wanted in (("descending", expected), ("ascending", expected[::-1])):
        head.click()
        assert [row[2] for row in found.rows()] == [f"{cycles:,}" for cycles in wanted]
        assert found.tab.get_attribute("#table-operations th:nth-child(3)", "aria-sort") == way
    found.tab.focus("#table-operations thead th:first-child button")
    found.tab.keyboard.press("Enter")
    names = [row[0] for row in found.rows()]
    assert names == sorted(row["operation"] for row in result.table().rows)


def test_filtering(result: ts.Result, page: Path, opened: Open) -> None:
    found = opened(page)
    found.tab.click("text=fold layers")
    every = result.table().rows
    found.tab.fill("#table-operations input", "  SECOND ")  # as a copied name has blanks round it
    wanted = [row for row in every if "second" in row["operation"]]
    assert sorted(row[0] for row in found.rows()) == sorted(row["operation"] for row in wanted)
    said = found.tab.inner_text("#table-operations [role=status]")
    assert said == f"{len(wanted)} of {len(every)} operations"
    points = "tilesim.charts.get('roofline').source.data.name"
    found.tab.wait_for_function(f"{points}.length === {len(wanted)}")
    assert sorted(found.tab.evaluate(points)) == sorted(row["operation"] for row in wanted)
    found.tab.fill("#table-operations input", "")
    bound = every[0]["bound"]
    found.tab.select_option("#table-operations select", bound)
    assert {row[5] for row in found.rows()} == {bound}
    assert len(found.rows()) == sum(row["bound"] == bound for row in every)
    found.tab.fill("#table-operations input", "no such name")
    assert found.rows() == [["no row matches the filter"]]


def test_folding(result: ts.Result, plain: Path, opened: Open) -> None:
    found = opened(plain, charts=False)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in result.table().rows:
        groups.setdefault(pattern(row["operation"]), []).append(row)
    cycles = {name: sum(row["cycles"] for row in rows) for name, rows in groups.items()}
    folded = [row for row in found.rows() if row[0].startswith("▸")]
    assert [row[2] for row in folded] == [
        f"{cycles[name]:,}" for name in sorted(cycles, key=lambda name: -cycles[name]) if len(groups[name]) > 1
    ]
    assert len(found.rows()) == len(groups) < len(result.table().rows)
    name = max(cycles, key=lambda name: cycles[name])
    found.tab.click("#table-operations tbody tr:first-child button")
    inside = found.rows()[1 : 1 + len(groups[name])]
    assert sum(int(row[2].replace(",", "")) for row in inside) == cycles[name]
    assert found.tab.get_attribute("#table-operations tbody button", "aria-expanded") == "true"
    found.tab.click("#table-operations tbody tr:first-child")
    assert len(found.rows()) == len(groups)


def test_details_of_a_row(result: ts.Result, plain: Path, opened: Open) -> None:
    found = opened(plain, charts=False)
    found.tab.click("text=fold layers")
    found.tab.click("#table-operations tbody tr:first-child")
    longest = result.table().rows[0]
    text = found.tab.inner_text("#table-operations .details")
    assert longest["operation"] in text and f"{longest['multiply_adds']:,.0f}" in text


def test_zooming(page: Path, opened: Open) -> None:
    found = opened(page)
    start, end = found.range("timeline")
    found.tab.click("#chart-timeline >> [aria-label='zoom in']")
    low, high = found.range("timeline")
    assert high - low == pytest.approx((end - start) / 2) and low + high == pytest.approx(start + end)
    assert found.range("bandwidth") == (low, high), "memory moves with the units"
    found.tab.click("#chart-timeline >> [aria-label='later']")
    assert found.range("timeline")[0] > low
    found.tab.click("#chart-bandwidth >> [aria-label='show all']")
    assert found.range("timeline") == (start, end)
    place = found.tab.locator("#chart-timeline .live")
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    middle = box["y"] + box["height"] / 2
    found.tab.mouse.move(box["x"] + 0.5 * box["width"], middle)
    found.tab.mouse.down()
    found.tab.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
    found.tab.mouse.up()
    low, high = found.range("timeline")
    assert high - low == pytest.approx((end - start) * 0.1, rel=0.35)
    found.tab.click("#chart-roofline >> [aria-label='zoom in']")


def test_names_are_texts(result: ts.Result, page: Path, opened: Open) -> None:
    found = opened(page)
    assert found.tab.title() == f"{result.data['program']} on edge-8"
    assert found.tab.evaluate("document.querySelectorAll('img, main b:not(.details b)').length") == 0
    assert any(MARKUP in row[0] for row in found.rows())
    # what the library shows at the pointer holds the name too, and makes nothing of it
    found.tab.locator("#chart-timeline").scroll_into_view_if_needed()
    box = found.tab.locator("#chart-timeline .live").bounding_box()
    for part in range(60):
        across, down = 0.15 + 0.8 * (part % 20) / 20, (0.15, 0.3, 0.45)[part // 20]
        found.tab.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * down)
        if MARKUP in found.tab.evaluate(f"({DEEP})(document.body).text"):
            break
    else:
        pytest.fail("no tip was shown")
    assert found.tab.evaluate(f"({DEEP})(document.body).images") == 0
    assert found.tab.title() != "run"


def test_many_rows_are_drawn_in_sight_alone(tmp_path: Path, opened: Open) -> None:
    rows = [{"name": f"blocks.{i // 4}.operation.{i}", "cycles": i} for i in range(100_000)]
    columns = [Column("name", "name", "text"), Column("cycles", "cycles")]
    path = tmp_path / "many.html"
    table = Rows("many", columns, rows, what="things")
    path.write_text(document("many", [Section("All", [table], "all")]), encoding="utf-8")
    found = opened(path, charts=False)
    assert found.tab.evaluate("document.querySelectorAll('#table-many tbody tr').length") < 100
    found.tab.evaluate(
        "(() => { const w = document.querySelector('#table-many .window'); w.scrollTop = w.scrollHeight; })()"
    )
    found.tab.wait_for_function("document.querySelector('#table-many tbody').textContent.includes('99,999')")
    assert found.tab.evaluate("document.querySelectorAll('#table-many tbody tr').length") < 100
    found.tab.fill("#table-many input", "operation.99998")
    assert found.rows("many") == [["blocks.24999.operation.99998", "99,998"]]


def test_folded_layers_of_thousands(long_page: Path, opened: Open) -> None:
    found = opened(long_page, 360)
    (line,) = found.rows()
    assert line[0].endswith("decoder.layers.*.block.*.attention.projection (3000)")
    assert "No timeline was recorded" in found.tab.inner_text("#timeline")


def test_folded_rows_keep_the_order_of_the_table(tmp_path: Path, opened: Open) -> None:
    rows = [("blocks.0.a", 1, 60), ("head", 7, 50), ("blocks.1.a", 1, 10), ("blocks.0.b", 9, 40), ("blocks.1.b", 9, 1)]
    columns = [Column("name", "name", "text"), Column("runs", "runs"), Column("cycles", "cycles")]
    given = [dict(zip(("name", "runs", "cycles"), row, strict=True)) for row in rows]
    path = tmp_path / "folded.html"
    table = Rows("some", columns, given, "name", what="things", least=2, order="cycles")
    path.write_text(document("some", [Section("All", [table], "all")]), encoding="utf-8")
    found = opened(path, charts=False)
    assert [row[1:] for row in found.rows("some")] == [["2", "70"], ["7", "50"], ["18", "41"]]


def test_without_the_library(plain: Path, opened: Open) -> None:
    found = opened(plain, charts=False)
    assert "pip install" in found.tab.inner_text("#lacking")
    for chart in ("timeline", "bandwidth", "roofline", "plan", "live"):
        box = found.tab.locator(f"#chart-{chart} svg").bounding_box()
        assert box["width"] > 300 and box["height"] > 80
    assert found.tab.evaluate("document.documentElement.scrollWidth") == 1440
    assert plain.stat().st_size < 400_000


def values(seed: int) -> list[float]:
    generate = random.Random(seed)
    found = [0, 0.5, 1.5, 2.5, -2.5, 12.25, 12.35, 0.125, 999.4, 999.5, 9.995, 99.95, 1e3, 1e-9, 5e-10, -7, 1e15, 2e21]
    found += [float("nan"), float("inf"), -float("inf")]
    for _ in range(1_500):
        value = 10 ** generate.uniform(-12, 20)
        found += [value, float(round(value)), round(value, 2), generate.randrange(10**6) / 8]
    return found


def test_script_and_python_say_the_same(plain: Path, opened: Open) -> None:
    found = opened(plain, charts=False)
    forms: dict[str, Callable[[float], str]] = {
        "count": figures.count, "percent": figures.percent, "ratio": figures.ratio, "size": figures.size,
        "duration": figures.duration, "rate:FLOP/s": lambda value: figures.rate(value, "FLOP/s"),
    }  # fmt: skip
    for form, say in forms.items():
        given = [value for value in values(7) if value == value or form != "size"]
        said = found.tab.evaluate(f"(values) => values.map((one) => tilesim.said('{form}', one))", given)
        wrong = [(one, text, say(one)) for one, text in zip(given, said, strict=True) if text != say(one)]
        assert not wrong, (form, wrong[:5])
