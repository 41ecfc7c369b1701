"""Parts of a graph by one index: equal to parts cut out alone, and for what they have, not for what the graph has."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

import tilesim as ts
from tilesim.base.collecting import uncollected


def chain(count: int) -> ts.Graph:
    b = ts.GraphBuilder("chain", dtype="f32")
    x = b.input("x", (2, 3))
    for i in range(count):
        x = b.apply("tanh" if i % 2 else "sin", x + b.input(f"a{i}", (1, 3)), name=f"f{i}")
    b.output(x, "y")
    return b.build()


def test_parts_are_what_is_cut_out_alone():
    graph = chain(12)
    entries = graph.core.operations()
    parts, random = graph.core.parts(), np.random.default_rng(5)
    for _ in range(30):
        first, last = sorted(random.choice(len(entries) + 1, 2, replace=False))
        chosen = entries[first:last]
        made = {one["name"] for entry in chosen for one in entry["results"]}
        read = dict.fromkeys(one["name"] for entry in chosen for one in entry["operands"] if one["name"] not in made)
        border = (list(read), [chosen[-1]["results"][0]["name"]])
        names = [entry["name"] for entry in chosen]
        part = parts.extract(list(random.permutation(names)), *border)
        assert part.to_json() == graph.core.extract(names, *border).to_json()
        assert [entry["name"] for entry in part.operations()] == names
        assert [one["name"] for one in part.inputs] == border[0]
    for wrong in ((["no"], ["x"], []), ([], ["no"], []), ([], [], ["no"])):
        with pytest.raises(ts.UserError, match=r"does not exist.*'no'"):
            parts.extract(*wrong)
    values = graph.core.operations()
    assert values[1]["operands"][0] is values[0]["results"][0]  # who reads has the row of who makes


def test_a_part_costs_what_it_has():
    times = []
    for count in (50, 5000):
        parts, best = chain(count).core.parts(), []
        for _ in range(30):
            begin = time.thread_time()
            parts.extract(["f7"], [], ["f7"])
            best.append(time.thread_time() - begin)
        times.append(min(best))
    assert times[1] < 20 * times[0]  # a walk through the whole would take about a hundred times as long


def test_the_collector_is_as_it_was():
    assert gc.isenabled()
    with pytest.raises(ValueError, match="once"), uncollected():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ValueError("once")
    assert gc.isenabled()
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
