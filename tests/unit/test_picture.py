"""Pictures of results: well-formed, to scale, nothing loaded, names escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import tilesim as ts
from tilesim.results import page as picture

SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


@pytest.fixture(scope="module")
def result() -> ts.Result:
    b = ts.GraphBuilder("a <b> & c")
    x = b.input("x", [64, 96])
    b.output(b.apply("relu", b.linear(x, 128, name="<first>")), "y")
    return ts.simulate(ts.compile(b.build(), "edge-8"))


def bars(svg: str) -> list[tuple[str, float]]:
    """Tip and width of every rectangle, in drawing order."""
    found = ElementTree.fromstring(svg).iter("rect")
    return [(rectangle.findtext("title", ""), float(rectangle.attrib["width"])) for rectangle in found]


def test_states_of_a_unit_fill_its_bar(result: ts.Result) -> None:
    _, units = SVG.findall(picture.picture(result))
    for unit in result.data["units"][:4]:
        widths = [width for tip, width in bars(units) if tip.startswith(f"{unit['unit']}:")]
        states = sum(1 for spent in unit["cycles"].values() if spent > 0)
        assert len(widths) == states
        assert sum(widths) == pytest.approx(picture._BAR, abs=0.6 * states)


def test_operations_are_to_scale() -> None:
    result = ts.run(ts.models.resnet18(), machine="tpu-v3")
    operations, _ = SVG.findall(picture.picture(result))
    widths = [width for tip, width in bars(operations) if "cycles" in tip]
    cycles = sorted((row["cycles"] for row in result.table().rows), reverse=True)
    assert len(widths) == picture._SHOWN < len(cycles)
    assert widths == pytest.approx([picture._BAR * c / cycles[0] for c in cycles[: picture._SHOWN]], abs=0.1)
    assert f"and {len(cycles) - picture._SHOWN} more operations" in operations


def test_a_report_is_one_page(result: ts.Result, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    result.report(path)
    text = path.read_text(encoding="utf-8")
    assert "a &lt;b&gt; &amp; c on edge-8" in text
    assert "<first>" not in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert result.explain()[0].__repr__().replace("<", "&lt;").replace(">", "&gt;") in text
    for note in result.approximations:
        assert note in text
    saved = tmp_path / "result.json"
    result.save(saved)
    ts.Result.load(saved).report(path)  # what was read from a file cannot be simulated again: no advice
    assert "What would help" not in path.read_text(encoding="utf-8")
