"""Tables and notes of the command line: they fit, no word is cut, sums and names are those of the rows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilesim as ts
from tilesim.base import columns as tables
from tilesim.base import palette, screen
from tilesim.base.columns import TextColumn, bar, bound, cut, folded, layout, name, number, text
from tilesim.cli import progress, show
from tilesim.cli.screen import say

LETTERS = "abcdef.[]<>/_0123456789"
WORDS = st.lists(st.text(LETTERS, min_size=1, max_size=30), min_size=1, max_size=8).map(" ".join)
CELLS = {
    "name": st.text(LETTERS, min_size=1, max_size=70),
    "text": WORDS,
    "number": st.integers(0, 10**12).map("{:,}".format),
}


def plain(lines: screen.Lines) -> list[str]:
    return [line if isinstance(line, str) else "".join(part for part, _ in line) for line in lines]


@st.composite
def a_table(draw: st.DrawFn) -> tuple[list[TextColumn], list[list[Any]]]:
    sorts = ["name", *draw(st.lists(st.sampled_from(["number", "name", "text"]), max_size=7))]
    columns = [
        TextColumn(f"head{i}, unit", sort, drop=i if i else 0, min_width=8 if sort != "number" else 0)
        for i, sort in enumerate(sorts)
    ]
    return columns, draw(st.lists(st.tuples(*(CELLS[sort] for sort in sorts)).map(list), max_size=6))


@given(a_table(), st.integers(40, 200))
def test_every_line_fits_and_no_word_is_cut(table: tuple[list[TextColumn], list[list[Any]]], room: int) -> None:
    columns, rows = table
    lines = plain(layout(columns, rows, room))
    assert max(map(len, lines)) <= room
    known = {word for row in rows for cell in row for word in cell.split(" ")}
    known |= {word for column in columns for word in column.head.split(" ")}
    told = " ".join(lines)
    for word in told.partition("Left out: ")[0].split():
        if "…" not in word:
            assert word in known, word
        else:
            left, _, right = word.partition("…")
            assert any(one.startswith(left) and one.endswith(right) for one in known)
    if "Left out: " in told:
        left_out = told.partition("Left out: ")[2].partition(" (all columns")[0].split("; ")
        assert set(left_out) <= {column.head for column in columns[1:]}
        for i, column in enumerate(columns):
            if column.sort == "number" and column.head not in left_out:
                assert all(row[i] in told for row in rows)
    else:
        assert all(row[i] in told for i, column in enumerate(columns) if column.sort == "number" for row in rows)


def test_all_is_there_where_there_is_room() -> None:
    columns = [name("operation"), number("time, ms"), bound(), text("why")]
    rows = [["a" * 60, "1.23", "memory", "it is so " * 12], ["[red]b[/red]", "4", "compute", "<b>"]]
    lines = plain(layout(columns, rows, 1000))
    assert len(lines) == 3
    for row, line in zip(rows, lines[1:], strict=True):
        assert re.split(r"\s{2,}", line.rstrip()) == [cell.rstrip() for cell in row]


def test_the_least_important_column_goes_first() -> None:
    columns = [name("operation", least=10), number("one", 1), number("two", 2), number("three", 3)]
    rows = [["x" * 10, "1" * 12, "2" * 12, "3" * 12]]
    for room, left in ((60, []), (50, ["three"]), (40, ["three"]), (37, ["three", "two"])):
        told = " ".join(plain(layout(columns, rows, room)))
        found = told.partition("Left out: ")[2].partition(" (all")[0]
        assert sorted(found.split("; ") if found else []) == sorted(left), room


def test_heads_take_lines_before_columns_go() -> None:
    columns = [name("operation", least=10), number("predicted by the model, cycles", 1)]
    lines = plain(layout(columns, [["x" * 20, "123"]], 40))
    assert "Left out" not in " ".join(lines) and len(lines) > 2
    assert " ".join(line[22:].strip() for line in lines[:-1]).split() == columns[1].head.split()


def test_letters_of_two_cells() -> None:
    lines = plain(layout([name("operation"), number("n")], [["層" * 40, "1"]], 40))
    assert screen.wide(lines[1]) <= 40 and lines[1].rstrip().endswith("1") and "…" in lines[1]


@pytest.mark.parametrize("written", ["[red]x[/red]", "<b>x</b>", "[/]", ":smile:", "{x}", "%s"])
def test_markup_is_text(written: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[written, "1"]]
    say(layout([name("operation"), number("n")], rows))
    assert written in capsys.readouterr().out
    monkeypatch.setattr("tilesim.cli.screen.coloured", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    say([*layout([name("operation"), number("n")], rows), *screen.wrapped(written)])
    assert capsys.readouterr().out.count(written) == 2


def test_control_characters_reach_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(layout([name("operation")], [["a\x1b[31mb\nc\x07"]]))
    out = capsys.readouterr().out
    assert "a\\x1b[31mb\\nc\\x07" in out and "\x1b" not in out and len(out.splitlines()) == 2


@given(WORDS, st.integers(40, 120), st.sampled_from(["", "  - ", "        "]))
def test_notes_wrap_between_words(words: str, room: int, indent: str) -> None:
    lines = screen.wrapped(words, indent, limit=room)
    assert max(map(len, lines)) <= room
    assert lines[0].startswith(indent.rstrip()) and all(line.startswith(" " * len(indent)) for line in lines[1:])
    assert " ".join([lines[0][len(indent) :], *(line.strip() for line in lines[1:])]).split() == words.split()


def test_long_assignments_wrap_at_commas() -> None:
    plan = "tensor=8,pipeline=16,schedule=zb-h1,shard=zero3,micro_batch=32,offload=activations"
    lines = screen.wrapped(f"plan {plan}: 12 s", "", "  ", limit=40)
    assert max(map(len, lines)) <= 40
    assert plan in "".join(line.strip() for line in lines)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, screen.UNLIMITED),
        ({"COLUMNS": "72"}, 72),
        ({"COLUMNS": "72", "LINES": "24"}, screen.UNLIMITED),  # a terminal's, not the pipe's
        ({"COLUMNS": "7"}, screen.MIN_WIDTH),
        ({"COLUMNS": "0"}, screen.UNLIMITED),
        ({"COLUMNS": "wide"}, screen.UNLIMITED),
        ({"COLUMNS": "-9"}, screen.UNLIMITED),
    ],
)
def test_the_width_of_a_pipe(variables: dict[str, str], expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("COLUMNS", "LINES"):
        monkeypatch.delenv(key, raising=False)
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    assert screen.width() == expected


def layers(count: int) -> list[dict[str, Any]]:
    return [
        {"operation": f"layers.{i}.{part}", "ms": float(i + 1), "bound": "memory" if part == "q" else "compute"}
        for i in range(count)
        for part in ("q", "k")
    ]


def test_repeated_layers_are_one_row() -> None:
    rows = [*layers(24), {"operation": "head", "ms": 1.5, "bound": "memory"}]
    found = {row["operation"]: row for row in folded(rows, ("ms",), alike=("bound",))}
    assert found.keys() == {"layers.*.q ×24", "layers.*.k ×24", "head"}
    assert found["layers.*.q ×24"]["ms"] == 300 == sum(range(1, 25))
    assert sum(row["ms"] for row in found.values()) == sum(row["ms"] for row in rows)
    assert [row["folded"] for row in found.values()] == [24, 24, 1]


def test_layers_that_differ_stay_apart() -> None:
    rows = layers(4)
    rows[0]["bound"] = "latency"
    found = [row["operation"] for row in folded(rows, ("ms",), alike=("bound",))]
    assert sorted(found) == ["layers.*.k ×4", "layers.*.q ×3", "layers.0.q"]


def test_the_number_of_layers_survives_a_narrow_column() -> None:
    rows = [["model.decoder.layers.*.attention.query.projection ×1024", "1"]]
    line = plain(layout([name("operation"), number("n")], rows, 40))[1]
    assert "…" in line and line.endswith(" ×1024  1") and line.startswith("model.")


def test_means_are_weighted() -> None:
    rows = [
        {"operation": "a.0.x", "cycles": 30, "busy": 1.0},
        {"operation": "a.1.x", "cycles": 10, "busy": 0.2},
    ]
    (one,) = folded(rows, ("cycles",), means=("busy",), weight="cycles")
    assert one["busy"] == pytest.approx((30 * 1.0 + 10 * 0.2) / 40)
    (zero,) = folded([{**row, "cycles": 0} for row in rows], ("cycles",), means=("busy",), weight="cycles")
    assert zero["busy"] == pytest.approx(0.6)


def test_what_is_left_out_is_counted() -> None:
    rows = folded([{"operation": f"b.{i}.{j}x", "ms": 1.0} for i in range(3) for j in range(30)], ("ms",))
    lines = cut(rows, False)
    assert len(rows) == 30 and lines[0] == f"... and {3 * (30 - tables.ROWS)} more operations"
    assert cut(rows, True) == [] == cut(rows[: tables.ROWS], False)


def test_bars_are_of_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, rows = [name("operation"), bar(), number("n")], [["a", 0.5, "1"], ["b", 0.25, "2"], ["c", 0.0, "3"]]
    assert [line.split() for line in plain(layout(columns, rows, 80))[1:]] == [["a", "1"], ["b", "2"], ["c", "3"]]
    monkeypatch.setattr(tables, "_bars", lambda: True)
    lengths = [len(re.sub(r"[^█▏▎▍▌▋▊▉]", "", line)) for line in plain(layout(columns, rows, 80))[1:]]
    assert lengths == [tables.BAR, tables.BAR // 2, 0]


def test_bounds_have_the_colours_of_the_palette() -> None:
    (line,) = layout([name("operation"), bound()], [["a", "memory"]])[1:]
    assert (line[1][0].strip(), line[1][1]) == ("memory", palette.TERMINAL["memory"])


def test_20_000_operations_are_cut_or_listed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"operation": f"layers.{i}.q", "ms": 1.0} for i in range(20_000)]
    (one,) = folded(rows, ("ms",))
    assert one["operation"] == "layers.*.q ×20000" and one["ms"] == 2e4
    say(layout([name("operation"), number("ms")], [[row["operation"], "1"] for row in rows], 60))
    assert len(capsys.readouterr().out.splitlines()) == 20_001


def test_a_result_without_operations(capsys: pytest.CaptureFixture[str]) -> None:
    result = ts.run(ts.workloads.matmul(4, 4, 4), machine="edge-8")
    result.data = {**result.data, "operations": [], "cycles": 0}
    show.show(result)
    lines = capsys.readouterr().out.splitlines()
    assert "How it was modelled:" in lines and not any(line.startswith("operation") for line in lines)


class Advice:
    def __init__(self, gain: float) -> None:
        self.gain = gain

    def __repr__(self) -> str:
        return f"gain {self.gain}"


def test_advice_below_a_percent_is_not_listed() -> None:
    told = "\n".join(show.advice_lines([Advice(1.009), Advice(1.5), Advice(1.02), Advice(0.5)]))
    assert [float(one) for one in re.findall(r"gain ([\d.]+)", told)] == [1.5, 1.02]
    assert "of 4 simulated changes" in told
    (none,) = show.advice_lines([Advice(1.0), Advice(0.9)])
    assert "2 simulated changes" in none and "gain" not in none


def test_a_phase_says_what_how_many_and_how_long_still(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    one = progress.Phase("simulating [red]", 8)
    now[0] += 10
    assert one.describe(80) == "simulating [red] 0/8, 10 s"
    one.at(2, part="row")
    assert one.describe(80) == "simulating [red]: row 2/8, 10 s, 30 s left"
    assert all(len(one.describe(room)) <= room for room in range(30, 100))
    one.at(8)
    assert "left" not in one.describe(80)


def test_the_first_sign_comes_within_half_a_second() -> None:
    """Counted from the last thing seen; what was silent for long says something at once."""
    for quiet in (0.0, 0.1, 0.3, 0.5, 10.0):
        wait = progress.delay(quiet)
        assert wait > 0 and (quiet + wait <= 0.45 or wait <= 0.05)


def test_elsewhere_nothing_is_drawn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "delay", lambda _quiet: 0.0)
    with progress.phase("anything") as one:
        one.at(1, 2)
    seen = capsys.readouterr()
    assert not seen.out and not seen.err
