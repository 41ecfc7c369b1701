"""A cache before DRAM channels: against a plain cache without time, conservation, latencies in closed form, limits."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.memory import Trace, run


class PlainCache:
    """A sectored cache, one dictionary per set, the least recently used line first."""

    def __init__(self, spec: dict[str, Any], burst: int) -> None:
        self.spec, self.burst = spec, burst
        self.sets: list[OrderedDict[int, dict[int, bool]]] = [OrderedDict() for _ in range(spec["sets"])]
        self.hits = self.misses = self.fetched = self.written = 0

    def access(self, address: int, write: bool) -> bool:
        spec = self.spec
        number, sector = address // spec["line"], address % spec["line"] // spec["sector"]
        lines = self.sets[number % spec["sets"]]
        hit = number in lines and sector in lines[number]
        self.hits += hit
        self.misses += not hit
        back = spec["write"] == "back"
        if hit or not write or spec["write_allocate"]:
            if number not in lines:
                if len(lines) == spec["ways"]:
                    _, victim = lines.popitem(last=False)
                    self.written += sum(victim.values()) * spec["sector"]
                lines[number] = {}
            lines.move_to_end(number)
            if not hit and not (write and spec["sector"] == self.burst):
                self.fetched += spec["sector"]
            lines[number][sector] = lines[number].get(sector, False) or (write and back)
        if write and (not back or (not hit and not spec["write_allocate"])):
            self.written += self.burst
        return hit

    @property
    def dirty(self) -> int:
        return sum(sum(line.values()) for lines in self.sets for line in lines.values()) * self.spec["sector"]


def random_spec(random: np.random.Generator) -> dict[str, Any]:
    sector = int(random.choice([32, 64, 128]))
    return {
        "sets": int(random.integers(1, 9)),
        "ways": int(random.integers(1, 9)),
        "sector": sector,
        "line": sector * int(random.choice([1, 2, 4, 8])),
        "hit_cycles": int(random.integers(1, 30)),
        "ports": int(random.integers(1, 3)),
        "mshrs": int(random.integers(1, 12)),
        "mshr_targets": int(random.integers(1, 5)),
        "write": str(random.choice(["back", "through"])),
        "write_allocate": bool(random.integers(2)),
    }


def random_trace(random: np.random.Generator, requests: int) -> Trace:
    near = random.integers(0, 300, requests)
    jumps = random.integers(0, 4, requests) * 5000
    return Trace((near + np.where(random.random(requests) < 0.3, jumps, 0)) * 32, random.random(requests) < 0.35)


@pytest.mark.parametrize("seed", range(40))
def test_equals_a_plain_cache(seed: int) -> None:
    random = np.random.default_rng(seed)
    spec, trace = random_spec(random), random_trace(random, 1500)
    part = "HBM2-2000" if seed % 4 else "HBM3-6400"
    result = run(part, trace, cache=spec, inject_every=int(random.integers(1, 6)))
    plain = PlainCache(spec, 32)
    for address, write in zip(trace.addresses.tolist(), trace.writes.tolist(), strict=True):
        plain.access(address, bool(write))
    cache = result.cache
    assert cache is not None
    assert (cache["hits"], cache["misses"]) == (plain.hits, plain.misses)
    assert (cache["fetched_bytes"], cache["written_bytes"]) == (plain.fetched, plain.written)
    assert cache["dirty_bytes"] == plain.dirty
    # What leaves the cache is what the channel takes.
    assert result.reads * 32 == plain.fetched
    assert result.writes * 32 == plain.written
    assert cache["hits"] + cache["misses"] == len(trace)


def test_hits_and_misses_per_tensor_and_a_residency_plan() -> None:
    spec = {"sets": 16, "ways": 4, "line": 64, "sector": 32}
    tensors = {"weights": (0, 4096), "rows": (1 << 20, 1 << 16)}
    sweep = np.concatenate(
        [np.r_[np.arange(128) * 32, (1 << 20) + np.arange(i * 256, i * 256 + 256) * 32] for i in range(8)]
    )
    free = run("HBM2-2000", Trace(sweep), cache=spec, tensors=tensors).cache
    kept = run("HBM2-2000", Trace(sweep), cache=spec, tensors=tensors, resident=["weights"]).cache
    assert free is not None
    assert kept is not None
    by_name = {entry["tensor"]: entry for entry in kept["tensors"]}
    # The weights fit and nothing drives them out: each sector misses once.
    assert by_name["weights"] == {"tensor": "weights", "hits": 7 * 128, "misses": 128, "bypassed": 0}
    assert by_name["rows"] == {"tensor": "rows", "hits": 0, "misses": 0, "bypassed": 8 * 256}
    streamed = {entry["tensor"]: entry for entry in free["tensors"]}
    assert streamed["weights"]["hits"] == 0  # the rows drive them out each time
    assert streamed["rows"]["misses"] == 8 * 256
    assert sum(entry["hits"] + entry["misses"] + entry["bypassed"] for entry in kept["tensors"]) == sweep.size


def test_latencies_alone() -> None:
    part = ts.memory.Part.load("HBM2-2000")
    timing = part.to_dict()["timing"]
    spec = {"hit_cycles": 7}
    alone = run(part, Trace([64]), cache=spec).cache
    assert alone is not None
    # ACT in the tick after the offer, RD after nRCDRD + nACT - 1 (an ACT takes nACT cycles), data after nCL + nBL.
    direct = run(part, Trace([64])).mean_latency
    assert direct == timing["nRCDRD"] + timing["nACT"] - 1 + timing["nCL"] + timing["nBL"]
    assert alone["mean_latency"] == 7 + direct + 1
    again = run(part, Trace([64] * 2, cycles=[0, 500]), cache=spec).cache
    assert again is not None
    assert again["latency_sum"] == alone["latency_sum"] + 7
    # One that comes while the sector is on its way waits with it.
    merged = run(part, Trace([64] * 2, cycles=[0, 10]), cache=spec).cache
    assert merged is not None
    assert merged["merged"] == 1
    assert merged["latency_sum"] == 2 * alone["latency_sum"] - 10


def test_one_mshr_takes_one_miss_after_the_other() -> None:
    part = ts.memory.Part.load("HBM2-2000").replace({"refresh": "none"})
    trace = Trace(np.arange(16) * 32)  # one row
    one = run(part, trace, cache={"mshrs": 1})
    assert one.cache is not None
    timing = part.to_dict()["timing"]
    hit = timing["nCL"] + timing["nBL"] + 1 + 1  # offered a tick before its RD, after hit_cycles of 1
    first = one.cache["latency_max"]
    assert one.cycles == first + 15 * hit
    assert one.cache["stalled_cycles"] > 0
    cycles = [run(part, trace, cache={"mshrs": n}).cycles for n in (1, 2, 4, 8, 16)]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[-1] < cycles[0] / 3
    # More places to wait do not fetch anything twice.
    few = run(part, Trace([0] * 20), cache={"mshr_targets": 1})
    many = run(part, Trace([0] * 20), cache={"mshr_targets": 20})
    assert few.reads == many.reads == 1
    assert few.cycles >= many.cycles


def test_write_back_writes_no_more_than_write_through() -> None:
    trace = Trace.generate("mixed_small", 5000, 32)
    sizes = {"sets": 8, "ways": 4, "line": 128, "sector": 32}
    back = run("HBM2-2000", trace, cache={**sizes, "write": "back"}).cache
    through = run("HBM2-2000", trace, cache={**sizes, "write": "through"}).cache
    assert back is not None
    assert through is not None
    assert through["written_bytes"] == 32 * through["writes"]
    assert back["written_bytes"] + back["dirty_bytes"] <= through["written_bytes"]
    assert (back["hits"], back["misses"]) == (through["hits"], through["misses"])


def test_more_ways_never_hit_less() -> None:
    # LRU includes its smaller self.
    trace = Trace.generate("random_read", 4000, 32, span=1 << 16)
    hits = [
        run("HBM2-2000", trace, cache={"sets": 16, "ways": ways, "line": 64}).cache["hits"] for ways in (1, 2, 4, 8, 64)
    ]  # type: ignore[index]
    assert hits == sorted(hits)
    assert hits[-1] > hits[0]


def test_slices_stand_before_their_channels() -> None:
    trace = Trace.generate("random_read", 4000, 32, span=1 << 16)
    spec = {"sets": 64, "ways": 16, "line": 64}
    one = run("HBM2-2000", trace, cache=spec)
    four = run("HBM2-2000", trace, cache=spec, channels=4)
    assert one.cache is not None
    assert four.cache is not None
    assert one.cache["misses"] == four.cache["misses"]  # both hold the whole span: each sector misses once
    assert sum(channel["reads"] for channel in four.data["channels"]) == four.cache["misses"]
    assert four.cycles < one.cycles
    assert run("HBM2-2000", trace, cache=spec, channels=4).data == four.data


@pytest.mark.parametrize(
    ("cache", "words"),
    [
        ({"sets": 0}, ["sets", "1"]),
        ({"way": 4}, ["way", "ways"]),
        ({"sector": 48}, ["48 B", "power of two"]),
        ({"sector": 16}, ["16 B", "whole bursts"]),
        ({"line": "32 B", "sector": "64 B"}, ["sectors to a line"]),
        ({"line": "64 KiB", "sector": "32 B"}, ["64 sectors"]),
        ({"mshrs": 0}, ["mshrs"]),
        ({"hit_cycles": 0}, ["hit_cycles"]),
        ({"write": "around"}, ["back, through"]),
    ],
)
def test_mistakes(cache: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ts.UserError) as caught:
        run("HBM2-2000", requests=10, cache=cache)
    for word in words:
        assert word in str(caught.value)


def test_mistakes_in_plans() -> None:
    with pytest.raises(ts.UserError, match="resident"):
        run(requests=10, cache={}, resident=["w"])
    with pytest.raises(ts.UserError, match="overlap"):
        run(requests=10, cache={}, tensors={"a": (0, 64), "b": (32, 64)})
    with pytest.raises(ts.UserError, match="cache"):
        run(requests=10, tensors={"a": (0, 64)})
