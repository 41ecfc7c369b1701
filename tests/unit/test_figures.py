"""Numbers, names and layers as people read them: expected texts written by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilesim.base import figures, folding


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (figures.count(371256), "371,256"),
        (figures.count(0), "0"),
        (figures.percent(0.248), "24.8 %"),
        (figures.percent(1), "100.0 %"),
        (figures.duration(11.4), "11.4 s"),
        (figures.duration(371.4e-6), "371 µs"),
        (figures.duration(0.9999), "1.00 s"),
        (figures.duration(0), "0 s"),
        (figures.duration(5400), "5,400 s"),
        (figures.size(999), "999 B"),
        (figures.size(1e6), "1.00 MB"),
        (figures.size(24_800_000), "24.8 MB"),
        (figures.rate(14.2e12, "FLOP/s"), "14.2 TFLOP/s"),
        (figures.ratio(1.3), "1.30 ×"),
        (figures.ratio(math.inf), "–"),
        (figures.short("bert.encoder.dense", 9), "bert…ense"),
        (figures.short("abc", 3), "abc"),
        (figures.short("abc", 1), "…"),
    ],
)
def test_by_hand(made: str, text: str) -> None:
    assert made == text


@given(st.text(min_size=1, max_size=60), st.integers(1, 80))
def test_a_short_name_fits_and_keeps_both_ends(name: str, width: int) -> None:
    made = figures.short(name, width)
    assert len(made) == min(width, len(name))
    if width > 2:
        assert made[0] == name[0] and made[-1] == name[-1]


@given(st.floats(1e-9, 1e6))
def test_a_duration_tells_its_value(seconds: float) -> None:
    number, unit = figures.duration(seconds).split(" ")
    scale = {"s": 1, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}[unit]
    assert float(number.replace(",", "")) * scale == pytest.approx(seconds, rel=0.005)


def test_layers_fold_by_their_numbers_alone() -> None:
    names = [
        "embed", "layers.0.q", "layers.0.k", "layers.1.q", "layers.1.k", "layer2.0.conv1", "layer2.1.conv1",
        "h[3].x",
    ]  # fmt: skip
    groups = folding.fold(names, str)
    assert [key for key, _ in groups] == ["embed", "layers.*.q", "layers.*.k", "layer*.*.conv1", "h[*].x"]
    assert sum(map(len, groups.values())) == len(names)


def test_rows_that_differ_in_what_matters_stay_apart() -> None:
    rows = [("a.0.b", "memory"), ("a.1.b", "memory"), ("a.2.b", "compute")]
    assert [len(group) for group in folding.fold(rows, lambda row: row[0], lambda row: row[1]).values()] == [2, 1]
