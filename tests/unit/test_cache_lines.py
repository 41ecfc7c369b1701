"""A cache keeps every line while it is simulated: how many there may be is checked when the machine is read."""

from __future__ import annotations

import pytest

import tilesim as ts


def machine_with(sets: int) -> ts.Machine:
    settings = ts.Machine.load("tpu-v4").to_dict()
    settings["memory"]["cache"]["sets"] = sets
    return ts.Machine.load(settings)


def test_too_many_lines_are_refused() -> None:
    assert machine_with(64).to_dict()["memory"]["cache"]["sets"] == 64
    for sets in (1 << 22, 1 << 24):
        with pytest.raises(ts.UserError, match=r"too many lines in the cache.*sets of.*channels.*at most 33554432"):
            machine_with(sets)
