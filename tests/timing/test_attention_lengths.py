"""Time, bytes and bounds of attention whose lengths and pages are data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.cached_attention import decode, graph, steering


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
@pytest.mark.parametrize("page", [0, 64])
def test_time_and_bytes_are_those_of_the_keys_that_are_there(machine: str, page: int) -> None:
    """Half as many keys take half the time of reading them; data that say nothing mean full caches."""
    values = decode(4, 2048, page)
    program = ts.compile(graph(values, lse=False), machine, lowering="best")
    ends = 2 * values["q"].nbytes
    found = {}
    for length in (0, 512, 1024, 2048):
        steer = steering(values) | {"kv_len": np.full(4, length, np.int32)}
        found[length] = ts.simulate(program, tensors=steer)
        read = 2 * 4 * 2 * length * 64 * 4
        lanes = 2 if machine == "tpu-v3" else 1  # rows of 64 lie in 128 lanes
        assert ends + read <= found[length].memory_bytes <= 1.03 * (2 * ends + lanes * read) + 8192
        assert found[length].bounds.bytes == (ends if length else ends // 2) + read  # no keys: nobody needs the queries
        assert length == 0 or set(found[length].data_sources.values()) == {"given"}
    steps = [found[n].cycles for n in (0, 512, 1024, 2048)]
    assert steps == sorted(steps)
    assert 0.9 < (steps[3] - steps[2]) / (2 * (steps[2] - steps[1])) < 1.1
    usual = ts.simulate(program)
    assert usual.bounds.bytes == found[2048].bounds.bytes
    assert usual.data_sources["kv_len"] == "default: full caches"
    assert abs(usual.cycles / found[2048].cycles - 1) < 0.02


def test_rows_of_unequal_length_are_bound_by_what_they_have() -> None:
    values = decode(3, 1000, 8)
    lengths, pages = np.array([1000, 1, 77], np.int32), values["pages"].copy()
    pages[2, :5] = pages[0, :5]  # a beginning that two rows share
    bound = ts.lower_bound(graph(values), "mesh-16", tensors={"kv_len": lengths, "pages": pages})
    rows = 1000 + 1 + 77 - 40
    results = values["q"].nbytes + 4 * 3 * 8
    assert bound.bytes == values["q"].nbytes + results + 2 * rows * 2 * 64 * 4
    pairs = 8 * (1000 + 1 + 77)
    assert sum(row["multiply_adds"] for row in bound.data["operations"]) == pytest.approx(2 * 64 * pairs)
    unknown = ts.lower_bound(graph(values), "mesh-16")
    assert unknown.bytes == results  # all lengths may be 0
    known = ts.GraphBuilder("known")
    inputs = [known.input(name, values[name].shape) for name in "qkv"]
    tables = {"kv_len": known.weight("n", data=lengths, trainable=False)}
    tables["pages"] = known.weight("p", data=pages, trainable=False)
    known.output(known.attention(*inputs, **tables), "y")
    assert ts.lower_bound(known.build(), "mesh-16").bytes == bound.bytes - 4 * 3 * 8


def test_distributions_of_lengths_and_pages() -> None:
    program = ts.compile(graph(decode(8, 1024, 16), lse=False), "edge-8", lowering="best")
    full = ts.simulate(program).cycles
    for seed in range(3):
        some = ts.simulate(program, tensors={"kv_len": "uniform", "pages": "uniform"}, seed=seed)
        assert 0.1 * full < some.cycles < 0.9 * full
        assert some.data_sources == {name: f"uniform, seed {seed}" for name in ("kv_len", "pages")}
    assert ts.simulate(program, tensors={"indices": "zipf:1.1"}).cycles == full  # pages alone


def test_estimates_take_known_lengths() -> None:
    """Rows of one length cost what a cache that ends there costs; unknown ones are full."""

    def model(length: Any) -> ts.Graph:
        b = ts.GraphBuilder("decode", dtype="f16")
        q, k, v = (
            b.input(name, (4, heads, keys, 64)) for name, heads, keys in (("q", 8, 1), ("k", 2, 4096), ("v", 2, 4096))
        )
        known = isinstance(length, list)
        kv_len = b.weight("n", data=np.array(length, np.int32), trainable=False) if known else length
        b.output(b.attention(q, k, v, kv_len=b.input("m", (4,), dtype="i32") if length is None else kv_len), "y")
        return b.build()

    for length in (100, 1000):
        short = model(length)
        assert ts.estimate(model([length] * 4), "h100").seconds == ts.estimate(short, "h100").seconds
        assert ts.lower_bound(model([length] * 4), "h100").bytes == ts.lower_bound(short, "h100").bytes
    assert ts.estimate(model(None), "h100").seconds == ts.estimate(model(4096), "h100").seconds


@pytest.mark.parametrize(
    ("tensors", "match"),
    [
        ({"kv_len": np.array([1001, 1, 2])}, "1001 of batch row 0; allowed: 0 to 1000"),
        ({"kv_len": np.array([1, 2])}, r"wrong shape.*\[2\].*\[3\]"),
        ({"kv_len": np.array([1.5, 1, 2])}, "not whole numbers"),
        ({"kv_len": "uniform"}, "not distributions"),
        ({"kv_lem": np.array([1, 1, 2])}, "Did you mean 'kv_len'"),
    ],
)
def test_bounds_take_what_the_graph_has(tensors: Any, match: str) -> None:
    with pytest.raises(ts.UserError, match=match):
        ts.lower_bound(graph(decode(3, 1000, 8)), "mesh-16", tensors=tensors)
