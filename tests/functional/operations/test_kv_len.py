"""Attention over the filled part of a cache: kv_len in every count, and where it is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

KEYS, FILLED = 256, 96


def graph(
    keys: int = KEYS, queries: int = 1, mask: Any = None, dtype: str = "f32", groups: int = 2, **more: Any
) -> ts.Graph:
    b = ts.GraphBuilder("attention", dtype=dtype)
    q, k, v = (
        b.input("q", (2, 4, queries, 32)),
        b.input("k", (2, groups, keys, 32)),
        b.input("v", (2, groups, keys, 16)),
    )
    added = None if mask is None else b.weight("mask", data=mask, trainable=False)
    b.output(b.attention(q, k, v, added, name="attention", **more), "y")
    return b.build()


def data(model: ts.Graph, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {row["name"]: random.standard_normal(row["shape"]).astype(np.float32) for row in model.inputs}


def filled(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value[:, :, :FILLED] if name in "kv" else value for name, value in values.items()}


def poisoned(values: dict[str, Any]) -> dict[str, Any]:
    """What nothing may read is NaN."""
    values = {name: value.copy() for name, value in values.items()}
    for name in "kv":
        values[name][:, :, FILLED:] = np.nan
    return values


def y(model: ts.Graph, values: dict[str, Any]) -> Any:
    return ts.reference(model, values)["y"]


@pytest.mark.parametrize("queries", [1, 5])
@pytest.mark.parametrize("more", [{}, {"causal": True}, {"causal": True, "window": 20}, {"soft_cap": 3.0}])
def test_as_if_the_cache_ended_there(queries: int, more: dict[str, Any]) -> None:
    long, short = graph(queries=queries, kv_len=FILLED, **more), graph(FILLED, queries, **more)
    values = poisoned(data(long))
    wanted = y(short, filled(values))
    np.testing.assert_allclose(y(long, values), wanted, rtol=1e-5, atol=1e-6)
    spelled = long.copy()
    spelled.expand()
    np.testing.assert_allclose(y(spelled, values), wanted, rtol=1e-4, atol=1e-5)
    assert long.flops() == short.flops() and long.compulsory_bytes() == short.compulsory_bytes()
    assert long.operations()[0]["bytes"] == short.operations()[0]["bytes"]


def test_a_mask_is_cut_too() -> None:
    mask = np.random.default_rng(1).random((2, 1, 3, KEYS)) < 0.5
    mask[..., 0] = True
    long, short = graph(queries=3, mask=mask, kv_len=FILLED), graph(FILLED, 3, mask=mask[..., :FILLED].copy())
    values = data(long)
    np.testing.assert_allclose(y(long, values), y(short, filled(values)), rtol=1e-5, atol=1e-6)


def test_time_and_traffic_are_those_of_the_filled_part() -> None:
    long, short, whole = graph(kv_len=FILLED), graph(FILLED), graph()
    assert ts.verify(ts.compile(long)).ok
    found = {name: ts.run(model) for name, model in (("long", long), ("short", short), ("whole", whole))}
    for what in ("cycles", "memory_read_bytes", "memory_written_bytes", "multiply_adds"):
        assert found["long"].data[what] == found["short"].data[what] < found["whole"].data[what]
    assert ts.estimate(long, "t4").seconds == ts.estimate(short, "t4").seconds < ts.estimate(whole, "t4").seconds


def attribute(model: ts.Graph, name: str) -> Any:
    return model.operations()[-1]["attributes"].get(name)


def recognised(mask: Any, queries: int = 1) -> ts.Graph:
    """The graph after the pass; values are the same before and after."""
    model = graph(queries=queries, mask=mask)
    values, before = data(model), None
    before = y(model, values)
    ts.optimize(model, passes=["known_masks"])
    np.testing.assert_allclose(y(model, values), before, rtol=1e-5, atol=1e-6)
    return model


def test_found_where_a_mask_ends() -> None:
    keep = np.arange(KEYS) < FILLED
    model = recognised(keep.reshape(1, 1, 1, KEYS))
    assert attribute(model, "kv_len") == FILLED and len(model.operations()[-1]["operands"]) == 3
    assert not attribute(model, "causal")
    model = recognised(np.where(keep, 0, -np.inf).astype(np.float32).reshape(1, 1, 1, KEYS), queries=4)
    assert attribute(model, "kv_len") == FILLED and len(model.operations()[-1]["operands"]) == 3


def test_found_behind_the_last_query() -> None:
    causal = np.arange(KEYS) <= np.arange(6).reshape(6, 1) + FILLED - 6
    model = recognised(causal, queries=6)
    assert attribute(model, "kv_len") == FILLED and attribute(model, "causal")
    assert attribute(model, "causal_offset") == FILLED - 6
    model = graph(queries=6, causal=True, causal_offset=0)
    ts.optimize(model)
    assert attribute(model, "kv_len") == 6


def test_sequences_of_several_lengths_keep_their_mask() -> None:
    mask = np.arange(KEYS) < np.array([FILLED - 7, FILLED]).reshape(2, 1, 1, 1)
    model = recognised(mask)
    assert attribute(model, "kv_len") == FILLED and len(model.operations()[-1]["operands"]) == 4


@pytest.mark.parametrize("low", [-np.inf, -1e9])
def test_rows_that_see_nothing_stay(low: float) -> None:
    """Behind finite masks such a row is the mean of all values, those beyond every other row's end included."""
    mask = np.where(np.arange(KEYS) < np.array([0, FILLED]).reshape(1, 1, 2, 1), 0, low).astype(np.float32)
    model = recognised(mask, queries=2)
    assert attribute(model, "kv_len") is None and len(model.operations()[-1]["operands"]) == 4


def test_a_bias_is_no_mask() -> None:
    mask = np.where(np.arange(KEYS) < FILLED, 0, -30).astype(np.float32).reshape(1, 1, 1, KEYS)
    assert attribute(recognised(mask), "kv_len") is None


def test_out_of_range() -> None:
    with pytest.raises(ts.UserError, match="kv_len"):
        graph(kv_len=KEYS + 1)
    with pytest.raises(ts.UserError, match="kv_len"):
        graph(kv_len=-1)


def test_in_place_caches_are_read_as_far_as_they_are_filled() -> None:
    """Written is the new part, read is the rest of the filled one, positions steer; through a layer function too."""
    new, size = 2 * 2 * 32 * 4, 2 * 2 * KEYS * 32 * 4

    def layer(b: Any, q: Any, k: Any, cache: Any) -> tuple[Any, Any]:
        zero = b.weight("zero", data=np.int32(0), trainable=False)
        place = b.weight("place", data=np.int32(FILLED - 1), trainable=False)
        updated = b.op("dynamic_update", cache, k, zero, zero, place, zero)
        return b.attention(q, updated, updated, kv_len=FILLED), updated

    for called in (False, True):
        b = ts.GraphBuilder("step")
        types = ((2, 4, 1, 32), (2, 2, 1, 32), (2, 2, KEYS, 32))
        inputs = [b.input(name, shape) for name, shape in zip(("q", "k", "cache"), types, strict=True)]
        if called:
            f = b.function("layer")
            for out in layer(f, *[f.input(x, shape) for x, shape in zip("qkc", types, strict=True)]):
                f.output(out)
            out, updated = b.call(f, *inputs, name="layer.0")
        else:
            out, updated = layer(b, *inputs)
        b.output(out, "y")
        b.output(updated, "cache.new")
        b.alias(1, 2)
        queries = 2 * 4 * 32 * 4
        assert b.build().compulsory_bytes() == 2 * queries + 2 * new + (size * FILLED // KEYS - new)
