"""What is printed of a result: every number is the result's, shares and rows left out add up, ratios are ratios."""

from __future__ import annotations

import itertools
import math
import re
import sys
from typing import Any

import pytest

import tilesim as ts
from tilesim.base import drawing, progress
from tilesim.base.kinds import as_kind
from tilesim.base.table import Table
from tilesim.cli.show import ROWS, show

CACHE = {"memory.cache.sets": 64, "memory.cache.ways": 4, "memory.cache.line": "128 B", "memory.cache.sector": "64 B"}


def chain(count: int, width: int) -> ts.Graph:
    """Products one behind another, a weight each."""
    b = ts.GraphBuilder("chain")
    x = b.input("x", [16, width])
    for index in range(count):
        x = b.op(
            "contract", x, b.weight(f"w{index}", [width, width]), a_contract=[1], b_contract=[0], name=f"product{index}"
        )
    b.output(x)
    return b.build()


@pytest.fixture(scope="module")
def cached() -> ts.Result:
    return ts.simulate(ts.compile(chain(ROWS + 4, 64), ts.Machine.load("edge-8").replace(CACHE), residency="none"))


def number(text: str) -> float:
    return float(text.replace(",", ""))


def printed(result: ts.Result, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show(result)
    return capsys.readouterr().out.splitlines()


def test_shares_and_rows_add_up(cached: ts.Result, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(cached, capsys)
    head = next(i for i, line in enumerate(lines) if line.startswith("operation"))
    rows = [re.split(r"\s{2,}", line) for line in lines[head + 1 : head + 1 + ROWS]]
    (more,) = [line for line in lines if line.endswith("of the time")]
    left, rest = re.match(r"\.\.\. and (\d+) more operations, ([\d.]+)% of the time", more).groups()  # type: ignore[union-attr]
    data = {row["operation"]: row for row in cached.table().rows}
    assert len(rows) + int(left) == len(data)
    shares = sum(row["share"] for row in data.values())
    assert sum(float(row[3].rstrip("%")) for row in rows) + float(rest) == pytest.approx(100 * shares, abs=0.1 * ROWS)
    for row in rows:
        mine = data[row[0]]
        assert (number(row[1]), number(row[2])) == (mine["count"], mine["cycles"])
        assert number(row[-1]) == pytest.approx(mine["bytes"] / 1e6, abs=0.0051)


def test_the_cache_is_told_as_it_was(cached: ts.Result, capsys: pytest.CaptureFixture[str]) -> None:
    cache = cached.cache
    assert cache is not None and cache["hits"] > 0 and cache["misses"] > 0
    lines = printed(cached, capsys)
    (line,) = [line for line in lines if line.startswith("Cache:")]
    hits, misses, share, fetched, back, past = map(number, re.findall(r"\d[\d,]*(?:\.\d+)?", line))
    assert (hits, misses) == (cache["hits"], cache["misses"])
    assert share == pytest.approx(100 * hits / (hits + misses), abs=0.051)
    for told, key in ((fetched, "fetched_bytes"), (back, "returned_bytes"), (past, "bypassed_bytes")):
        assert told == pytest.approx(cache[key] / 1e6, abs=0.0051)
    head = next(i for i, line in enumerate(lines) if line.startswith("tensor"))
    rows, table = cached.cache_table().rows, lines[head + 1 : head + 1 + ROWS]
    assert any(line == f"... and {len(rows) - ROWS} more tensors" for line in lines)
    for text, row in zip(table, rows, strict=False):
        assert text.startswith(row["tensor"][:10])
        moved, share, *others = map(number, re.findall(r"\d[\d,]*\.\d+", text))
        assert moved == pytest.approx((row["read_bytes"] + row["written_bytes"]) / 1e6, abs=0.0051)
        assert share == pytest.approx(100 * row["hit_rate"], abs=0.051)
        wanted = [row[key] / 1e6 for key in ("fetched_bytes", "returned_bytes", "bypassed_bytes")]
        assert others == pytest.approx(wanted, abs=0.0051)


def test_nothing_of_a_cache_where_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(ts.run(ts.workloads.matmul(32, 32, 32), machine="edge-8"), capsys)
    assert not any("Cache" in line or "more operations" in line for line in lines)
    assert "How it was modelled:" in lines
    assert not any(a == b == "" for a, b in itertools.pairwise(lines)), "two empty lines"


def test_two_results_side_by_side() -> None:
    small, large = (ts.run(ts.workloads.matmul(64, 64, k), machine="edge-8") for k in (64, 512))
    rows = {row["figure"]: row for row in ts.compare(small, large).table().rows}
    for name in ("cycles", "seconds", "memory_bytes"):
        assert (rows[name]["a"], rows[name]["b"]) == (getattr(small, name), getattr(large, name))
        assert rows[name]["b/a"] * rows[name]["a"] == pytest.approx(rows[name]["b"])
        assert rows[name]["b/a"] > 1
    assert (rows["bottleneck"]["a"], rows["bottleneck"]["b"]) == (small.bottleneck, large.bottleneck)
    assert [row["b/a"] for row in ts.compare(small, small).table().rows[:3]] == [1, 1, 1]


class Terminal:
    """A stream that says it is a terminal."""

    def __init__(self, is_terminal: bool = True) -> None:
        self.text, self.is_terminal = "", is_terminal

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_a_bar_fills_up_and_is_drawn_ten_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = Terminal()
    bar = progress.ProgressBar(stream)
    for done in range(1, 1001):
        now[0] += 0.01
        bar(done, 1000, f"part {done}" + "x" * 100)
    drawn = stream.text.removesuffix("\n").split("\r")[1:]
    assert 95 <= len(drawn) <= 105
    assert stream.text.count("\n") == 1 and stream.text.endswith("\n")
    assert len({len(line.partition("/")[0].partition("]")[0]) for line in drawn}) == 1
    for line in drawn:
        full, empty, done = re.match(r"\[(#*)( *)\] (\d+)/1000 part \d+x*\s*$", line).groups()  # type: ignore[union-attr]
        assert len(full) + len(empty) == bar.WIDTH
        assert len(full) == math.floor(bar.WIDTH * int(done) / 1000)
    assert drawn[-1].startswith("[" + "#" * bar.WIDTH + "] 1000/1000 ")


@pytest.mark.parametrize(
    ("value", "kind", "place"),
    [
        ("x", str, None),
        (1, str, "at"),
        (7, int, None),
        (True, int, "at"),
        (1.0, int, "at"),
        (1, float, None),
        (-2.5, float, None),
        (True, float, "at"),
        (math.nan, float, "at"),
        (math.inf, float, "at"),
        (-math.inf, float, "at"),
        (10**400, float, "at"),
        ("1", float, "at"),
        (True, bool, None),
        (0, bool, "at"),
        ({}, dict, None),
        ([], dict, "at"),
        ([1, 2], [int], None),
        ((1, 2), [int], None),
        ([1, 2.5], [int], "at[1]"),
        ("12", [str], "at"),
        ({"a": [1.5]}, {str: [float]}, None),
        ({"a": [1.5, "b"]}, {str: [float]}, "at.a[1]"),
        ({1: 2}, {str: int}, "at"),
        ([], {str: int}, "at"),
    ],
)
def test_kinds_of_values(value: Any, kind: Any, place: str | None) -> None:
    if place is None:
        assert as_kind(value, kind, "at") is value
        return
    with pytest.raises(ts.UserError, match="wrong type") as caught:
        as_kind(value, kind, "at")
    assert caught.value.place == place
    assert len(caught.value.value) <= 100


def test_tables_align() -> None:
    table = Table([{"name": "a", "x": 1.23456}, {"name": "longer", "x": 2}])
    lines = str(table).splitlines()
    assert [line.split() for line in lines] == [["name", "x"], ["a", "1.235"], ["longer", "2"]]
    assert len({line.index(word) for line, word in zip(lines, ("x", "1.235", "2"), strict=True)}) == 1
    assert str(Table([])) == "(empty)"
    assert Table([{"<a>": "&"}])._repr_html_() == "<table><tr><th>&lt;a&gt;</th></tr><tr><td>&amp;</td></tr></table>"
    assert "empty" in Table([])._repr_html_()


def test_what_cannot_be_drawn_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ts.UserError, match="not matplotlib axes"):
        drawing.axes_or_new("axes")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ts.UserError, match="matplotlib") as caught:
        drawing.axes_or_new(None)
    assert "notebook" in str(caught.value)
