"""What stands in the page and in notebooks: to scale, complete, escaped, light; the browser is in test_browser.py."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.pages import MARKUP, many, small
from tilesim.base.palette import STATE
from tilesim.base.view.pages import parts_of
from tilesim.results.page import sections
from tilesim.results.page.drawn_graph import _clusters
from tilesim.results.page.plan import live_bytes
from tilesim.results.page.roof import ceilings, roof_points
from tilesim.results.page.timeline import bandwidth, spans

LIGHT = 60_000
BAR = re.compile(
    r'<div class="name" title="([^"]*)">.*?</div><div class="bar">(.*?)</div><div class="text">([^<]*)</div>'
)
PART = re.compile(r'<i style="width:([0-9.]+)%;background:([^"]+)" title="([^"]*)"></i>')


def bars(html: str) -> list[tuple[str, list[tuple[float, str]], str]]:
    """Name, (width, colour) of each part, text of every bar."""
    return [
        (name, [(float(width), colour) for width, colour, _ in PART.findall(inner)], text)
        for name, inner, text in BAR.findall(html)
    ]


def written(result: ts.Result, path: Path, **options: Any) -> str:
    result.to_html(path, **options)
    return path.read_text(encoding="utf-8")


def part(text: str, name: str) -> dict[str, Any]:
    """What the script is given of one table or chart."""
    (found,) = (one for one in parts_of(text)["parts"] if one["name"] == name)
    return dict(found)


@pytest.fixture(scope="module")
def result() -> ts.Result:
    return small()


@pytest.fixture(scope="module")
def bert() -> ts.Result:
    return ts.simulate(ts.compile(ts.models.build("bert-base"), "tpu-v3"), timeline=True)


def test_states_of_a_unit_fill_its_bar(result: ts.Result) -> None:
    found = {name: parts for name, parts, _ in bars(result._repr_html_())}
    for unit in result.data["units"][:4]:
        wanted = {STATE[state]: 100 * spent / result.cycles for state, spent in unit["cycles"].items() if spent}
        widths = {colour: width for width, colour in found[unit["unit"]]}
        assert widths == pytest.approx(wanted, abs=0.001)
        assert sum(widths.values()) == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize("model", ["resnet18", "bert-base"])
def test_operations_are_to_scale(model: str) -> None:
    result = ts.run(model, machine="tpu-v3")
    html = result._repr_html_()
    found = [(parts[0][0], text) for _, parts, text in bars(html) if "  " in text]
    widths, texts = zip(*found, strict=True)
    cycles = [int(text.rpartition("  ")[2].replace(",", "")) for text in texts]
    assert list(widths) == pytest.approx([100 * one / cycles[0] for one in cycles], abs=0.001)
    left = [float(share) for share in re.findall(r"and \d+ more: ([0-9.]+) %", html)]
    assert 100 * sum(cycles) / result.cycles + sum(left) == pytest.approx(100, abs=0.06)


def test_a_page_is_one_file(result: ts.Result, tmp_path: Path) -> None:
    text = written(result, tmp_path / "page.html")
    before, _, after = text.partition('<script type="text/plain"')
    assert not re.findall(
        r"(?:src|href|url)\s*[=(]\s*[\"']?https?:", before + after.rpartition("</script>")[0][-40_000:]
    )
    assert MARKUP not in text and "&lt;b&gt;bold&lt;/b&gt;" in text
    assert text.count("</script>") == text.count("<script") == 3
    assert result.explain()[0].gain > 1.01
    assert str(result.explain()[0]) in text
    for note in result.approximations:
        assert note in text
    assert len(text) < 3_000_000


def test_what_a_file_lacks_is_said(result: ts.Result, tmp_path: Path) -> None:
    bare = ts.Result(result.data)
    bare.save(tmp_path / "r.json")
    text = written(ts.Result.load(tmp_path / "r.json"), tmp_path / "page.html")
    assert "A stored result is not simulated again." in text
    assert "This result has no graph" in text and "This result has no program" in text
    assert part(text, "timeline")["boxes"][0], "the file has a timeline"
    result.data["intervals"], kept = [], result.data["intervals"]
    try:
        result.save(tmp_path / "r.json")
    finally:
        result.data["intervals"] = kept
    assert "No timeline was recorded" in written(ts.Result.load(tmp_path / "r.json"), tmp_path / "page.html")


def test_advice_of_an_estimate(tmp_path: Path) -> None:
    estimate = ts.estimate("bert-base", "t4")
    text = written(estimate, tmp_path / "page.html")
    assert "Advice: estimated changes" in text
    best = estimate.explain()[0]
    assert best.gain > 1.01 and str(best) in text
    assert "Not requested" in written(estimate, tmp_path / "page.html", advice=False)


def test_a_small_program_is_simulated_once_more_for_its_timeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = ts.run(ts.workloads.matmul(64, 64, 64), machine="edge-8")
    text = written(result, tmp_path / "page.html")
    assert "recorded by simulating once more" in text and not result.data["intervals"]
    left, right, low, _, _, _ = part(text, "timeline")["boxes"]
    recorded = ts.simulate(ts.compile(ts.workloads.matmul(64, 64, 64), "edge-8"), timeline=True)
    busy: dict[int, int] = {}
    for unit, _, start, finish in recorded.data["intervals"]:
        busy[unit] = busy.get(unit, 0) + finish - start
    drawn: dict[int, int] = {}
    for a, b, row in zip(left, right, low, strict=True):
        drawn[row] = drawn.get(row, 0) + b - a
    assert sorted(drawn.values()) == sorted(busy.values())
    monkeypatch.setattr(sections, "RECORDED", 1)
    assert "Not recorded by default for" in written(result, tmp_path / "page.html")


def test_the_table_has_every_operation(bert: ts.Result, tmp_path: Path) -> None:
    found = part(written(bert, tmp_path / "page.html", advice=False), "operations")
    assert found["length"] == len(bert.data["operations"])
    values = {key: np.array(one) for key, one in found["values"].items() if isinstance(one, list)}
    assert values["cycles"].sum() == bert.cycles
    for key in ("load_bytes", "store_bytes"):
        assert values[key].sum() == sum(row[key] for row in bert.data["operations"])
    assert (values["bytes"] == values["load_bytes"] + values["store_bytes"]).all()


def test_columns_of_equal_and_of_repeated_values(tmp_path: Path) -> None:
    found = part(written(many(200), tmp_path / "page.html"), "operations")
    assert found["values"]["runs"] == {"all": 1}
    assert set(found["values"]["bound"]["of"]) == {"compute", "memory", "latency"}
    assert len(found["fold"]["of"]) == 1 and found["fold"]["at"] == [0] * 200


@pytest.mark.parametrize(
    ("model", "machine"),
    [("bert-base", "tpu-v3"), ("resnet18", "edge-8"), ("resnet18", "tpu-v4"), ("vit-b-16", "mesh-16")],
)
def test_no_operation_is_above_the_roof(model: str, machine: str) -> None:
    result = ts.run(model, machine=machine)
    rates, memory = ceilings(result)
    points, left = roof_points(result)
    assert len(points) + left == len(result.data["operations"]) and points
    for row in points:
        assert row["attained"] <= max(rates.values()) * (1 + 1e-9), row["operation"]
        assert row["attained"] <= row["intensity"] * memory * (1 + 1e-9), row["operation"]


def test_merged_intervals() -> None:
    generate = np.random.default_rng(3)
    intervals = []
    for unit in range(3):
        edges = np.sort(generate.choice(1_000_000, 4_000, replace=False))
        starts, ends = edges[::2], edges[1::2]
        intervals += [[unit, int(generate.integers(4)), int(a), int(b)] for a, b in zip(starts, ends, strict=True)]
    data = {"intervals": intervals, "cycles": 1_000_000}
    found, gap = spans(data, 200)
    assert len(found) <= 200 and gap > 0
    for unit, label, start, finish in intervals:
        inside = [one for one in found if one[:2] == (unit, label) and one[2] <= start and finish <= one[3]]
        assert len(inside) == 1
    whole, closed = spans(data, 10_000)
    assert closed == 0 and sum(b - a for *_, a, b in whole) == sum(b - a for *_, a, b in intervals)
    assert spans({"intervals": [[0, 0, 5, 5]], "cycles": 0}, 1) == ([(0, 0, 5, 5)], 0)


def test_bandwidth_adds_up(bert: ts.Result) -> None:
    for most in (10_000, 50, 1):
        step, rates, cycles = bandwidth(bert.data, most) or (0.0, [], 0.0)
        assert len(rates) <= most or most == 10_000
        moved = sum(unit["bytes"] for unit in bert.data["units"] if unit["kind"] == "channel")
        assert step * sum(rates) == pytest.approx(moved)
        assert cycles == pytest.approx(step * bert.data["hertz"])


def test_live_bytes() -> None:
    generate = np.random.default_rng(5)
    rows = []
    use = np.zeros(40, int)
    for _ in range(60):
        first, last = sorted(int(one) for one in generate.integers(0, 40, 2))
        size = int(generate.integers(1, 1000))
        rows.append({"first": first, "last": last, "bytes": size})
        use[first : last + 1] += size
    assert live_bytes(rows, 40) == use.tolist()


def test_live_bytes_of_a_program(bert: ts.Result) -> None:
    plan = bert._again.program.memory_plan()  # type: ignore[union-attr]
    rows = [row for row in plan.table().rows if row["level"] == "memory" and not row["alias_of"]]
    assert max(live_bytes(rows, plan.kernels)) == plan.live_bytes["memory"]


def test_boxes_of_the_graph_share_the_time(bert: ts.Result) -> None:
    clusters = _clusters(bert, bert._again.program)  # type: ignore[union-attr]
    own = [cycles for cluster in clusters for node, cycles in cluster.cycles.items() if "→" not in node]
    assert sum(own) == bert.cycles
    (call,) = (node for cluster in clusters for node in cluster.cycles if "→" in node)
    assert call == "encoder.layer.* → layer"
    (layer,) = (cluster for cluster in clusters if cluster.name == "layer")
    ranks = layer.ranks()
    assert ranks["attention.self.query"] < ranks["attention.self.scores"] < ranks["attention.self"]
    assert ranks["attention.output.dense"] < ranks["intermediate.dense"] < ranks["output.dense"]


def odd() -> dict[str, Any]:
    """Results that lack something, or have something that others lack."""
    b = ts.GraphBuilder("nothing")
    b.output(b.input("x", [4, 4]), "y")
    product = ts.workloads.matmul(64, 64, 64)
    names = ts.GraphBuilder("n" * 5_000)
    names.output(names.apply("relu", names.linear(names.input("x", [8, 8]), 8, name="z" * 100_000)), "y")
    jobs = [ts.Job(ts.compile(product, "mesh-16", cores=2)), ts.Job(ts.compile(product, "mesh-16", cores=2))]
    return {
        "nothing": lambda: ts.run(b.build(), machine="edge-8"),
        "one": lambda: ts.run(product, machine="edge-8"),
        "long": lambda: ts.run(names.build(), machine="edge-8"),
        "estimate": lambda: ts.estimate("resnet18", "t4"),
        "jobs": lambda: ts.simulate(jobs),
        "cores": lambda: ts.run(product, machine="mesh-16"),
        "sorts": lambda: ts.run(product, machine="dense-sparse-2", sort="dense"),
        "host": lambda: ts.run(ts.models.mlp(), machine="gemmini-16", fallback="host"),
        "banks": lambda: ts.run(product, machine="tpu-v3", memory="bank"),
        "ideal": lambda: ts.run(product, machine="tpu-v3", memory="ideal"),
        "accuracy": lambda: ts.run(product, machine="edge-8", accuracy=True),
        "twenty thousand": lambda: many(20_000),
        "hundred thousand": lambda: many(100_000),
    }


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=pytest.mark.slow if name == "hundred thousand" else ()) for name in odd()]
)
def test_odd_results(case: str, tmp_path: Path) -> None:
    result = odd()[case]()
    assert len(result._repr_html_()) < LIGHT
    text = written(result, tmp_path / "page.html", advice=False)
    assert text.endswith("</html>\n") and "NaN" not in text.partition('id="library"')[0]
    assert "Where the time goes" in text and "How it was modelled" in text
    for svg in re.findall(r"<svg.*?</svg>", text.partition('id="data"')[0], re.DOTALL):
        ElementTree.fromstring(svg)


def test_ten_thousand_operations_are_light(tmp_path: Path) -> None:
    result = many(10_000)
    assert len(written(result, tmp_path / "page.html")) < 3_000_000


def test_notebooks(bert: ts.Result) -> None:
    graph = ts.models.build("bert-base")
    study = ts.tune(ts.workloads.matmul(64, 64, 64), "edge-8", budget=4)
    shown = [graph, ts.compile(graph, "tpu-v3"), bert, ts.estimate(graph, "h100"), ts.roofline(graph, "h100"), study]
    shown += [ts.Machine.load(name) for name in ts.Machine.names()]
    for one in shown:
        html = one._repr_html_()
        assert html.startswith('<div class="ts-view">') and html.endswith("</div>")
        assert "<script" not in html and len(html) < LIGHT, type(one)
        assert html.count("<div") == html.count("</div>")
    assert f"{sum(len(graph.operations(name)) for name in graph.functions):,}" in graph._repr_html_()
    assert f"{study.baseline.cycles:,} cycles before" in study._repr_html_()


def test_names_in_notebooks_are_escaped(result: ts.Result) -> None:
    program = result._again.program  # type: ignore[union-attr]
    for one in (result, program, program.graph, ts.roofline(program.graph, "t4"), ts.estimate(program.graph, "t4")):
        html = one._repr_html_()
        assert "<img" not in html and "<b>" not in html and "&lt;" in html


def test_a_machine_says_where_its_numbers_come_from() -> None:
    machine = ts.Machine.load("tpu-v3")
    html = machine._repr_html_()
    for setting in machine.sources:
        assert setting in html
    assert "61.6 TFLOP/s" in html  # 2 arrays of 128 x 128, 940 MHz, two FLOPs each
