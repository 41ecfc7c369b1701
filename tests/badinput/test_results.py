"""Results from files: checked before anything is made of them, and then whatever is made of them ends."""

from __future__ import annotations

import copy
import functools
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.damage import json_damaged, spans_of


@functools.cache
def results() -> dict[str, ts.Result]:
    graph = ts.workloads.matmul(64, 64, 64)
    shared = ts.compile(graph, "mesh-16", cores=2)
    banks = ts.compile(graph, "tpu-v3")
    cache = {"memory.cache.sets": 64, "memory.cache.ways": 4, "memory.cache.managed": "hardware"}
    b = ts.GraphBuilder("hosted")
    y = b.apply("exp", b.input("x", (16, 16)), name="e")
    b.output(b.matmul(y, y))
    hosted = ts.compile(b.build(), "edge-8", fallback="host", place={"e": "host"})
    return {
        "timeline": ts.simulate(ts.compile(graph, "edge-8"), timeline=True),
        "banks and routers": ts.simulate(banks, memory="bank", network="mesh", timeline=True),
        "ideal": ts.simulate(banks, memory="ideal"),
        "cache": ts.simulate(ts.compile(graph, ts.Machine.load("tpu-v3").replace(cache))),
        "latencies": ts.simulate(banks, latencies=ts.TileLatencies()),
        "jobs": ts.simulate([ts.Job(shared, [0, 1]), ts.Job(shared, [2, 3], arrival=100)], timeline=True),
        "regions": ts.simulate(ts.compile(graph, "chiplet-2", cores=2)),
        "host": ts.simulate(hosted, timeline=True),
        "replayed": ts.simulate(ts.compile(ts.workloads.matmul(8192, 8192, 8192), "edge-8")),
        "closed form": ts.estimate(graph, "h100"),
    }


@pytest.mark.parametrize("name", results())
def test_a_result_comes_back(name: str, tmp_path: Path) -> None:
    result = results()[name]
    result.save(tmp_path / "result.json")
    again = ts.Result.load(tmp_path / "result.json")
    assert again.data == json.loads(json.dumps(result.data))
    assert again.timing_hash() == result.timing_hash()


def change(path: list[Any], value: Any) -> Callable[[dict[str, Any]], None]:
    def apply(data: dict[str, Any]) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = value

    return apply


WRONG: dict[str, tuple[str, list[Any], Any, str]] = {
    "cycles below zero": ("timeline", ["cycles"], -1, "out of range"),
    "no clock": ("timeline", ["hertz"], 0, "out of range"),
    "a text of cycles": ("timeline", ["cycles"], "1", "another type"),
    "another time": ("timeline", ["seconds"], 1.0, "not cycles / hertz"),
    "a state too long": ("timeline", ["units", 0, "cycles", "busy"], 10**9, "do not add up"),
    "a share too large": ("timeline", ["operations", 0, "exclusive"], 10**9, "do not add up"),
    "a share beyond all": ("timeline", ["bottleneck_share"], 1.5, "at most 1"),
    "unknown unit": ("timeline", ["intervals", 0, 0], 10**6, "unknown unit"),
    "unknown label": ("timeline", ["intervals", 0, 1], 10**6, "unknown label"),
    "backwards": ("timeline", ["intervals", 0, 2], 10**12, "within the run"),
    "before the start": ("timeline", ["intervals", 0, 2], -5, "out of range"),
    "three numbers": ("timeline", ["intervals", 0], [0, 0, 0], "too few"),
    "an unknown key": ("timeline", ["cylces"], 1, "'cycles'"),
    "a step of nothing": ("banks and routers", ["memory", "step_cycles"], 0, "out of range"),
    "unknown router": ("banks and routers", ["network", "endpoints", 0, "router"], 999, "unknown router"),
    "a link to nowhere": ("banks and routers", ["network", "links", 0, 1], 999, "unknown router"),
    "routers without end": ("banks and routers", ["network", "routers"], 2**40, "out of range"),
    "hits below zero": ("cache", ["cache", "hits"], -1, "out of range"),
    "cores without end": ("timeline", ["configuration", "cores"], [{"sort": "a", "count": 2**40}], "out of range"),
    "a core too many": ("timeline", ["configuration", "cores"], [{"sort": "a", "count": 1}, 3], "another type"),
    "no such core": ("jobs", ["configuration", "cores"], [{"sort": "a", "count": 1}], "no such core"),
    "a job of text": ("jobs", ["jobs", 0, "start"], "x", "another type"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_place(name: str, tmp_path: Path) -> None:
    of, path, value, words = WRONG[name]
    data = copy.deepcopy(results()[of].data)
    change(path, value)(data)
    file = tmp_path / "result.json"
    file.write_text(json.dumps(data, indent=1), encoding="utf-8")
    with pytest.raises(ts.UserError, match=words) as caught:
        ts.Result.load(file)
    assert re.match(re.escape(f"{file}:") + r"\d+", caught.value.place)


def use(result: ts.Result, folder: Path) -> None:
    """Everything that is made of a result that was read."""
    result.table(), result.units(), result.cores(), result.jobs(), result.cache_table()
    (
        str(result.summary()), result._repr_html_(), result.energy, result.utilisation, result.channel_bytes,
        result.timing_hash(),
    )  # fmt: skip
    for call in (result.to_html, result.timeline, result.save):
        try:
            call(folder / "out.html")
        except ts.UserError:
            continue
    for view in (ts.views.bandwidth_page, ts.views.bandwidth_rows):
        try:
            view(result)
        except ts.UserError:
            continue


def damage(rng: random.Random, folder: Path) -> bool:
    """One damaged file is read; whether it was refused."""
    result = results()[rng.choice(sorted(results()))]
    file = folder / "result.json"
    file.write_bytes(json_damaged(spans_of(json.dumps(result.data).encode()), rng))
    try:
        loaded = ts.Result.load(file)
    except ts.UserError as error:
        assert str(file) in str(error)
        return True
    use(loaded, folder)
    return False


@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_damaged_results_are_refused_or_usable(count: int, tmp_path: Path) -> None:
    rng = random.Random(count)
    refused = sum(damage(rng, tmp_path) for _ in range(count))
    assert count * 0.5 < refused < count
