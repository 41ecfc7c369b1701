"""Attention with lengths of its rows, a page table and lse, against numpy row by row."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from support.program_checks import unnoticed_mutants

Arrays = dict[str, Any]
NAMES = ("q", "k", "v", "mask", "kv_len", "pages")
DTYPES = {"float32": "f32", "bfloat16": "bf16", "int32": "i32", "int64": "i64", "bool": "bool"}


def keys_of(x: Any, values: Arrays, row: int) -> Any:
    """[G, keys, d] of one row of the batch."""
    pages = values.get("pages")
    room = x.shape[2] * (1 if pages is None else pages.shape[1])
    length = int(values["kv_len"][row]) if "kv_len" in values else room
    if pages is None:
        return x[row, :, :length]
    used = [x[page] for page in pages[row, : -(-length // x.shape[2])]]
    return np.concatenate([*used, np.zeros((x.shape[1], 0, x.shape[3]))], 1)[:, :length]


def oracle(values: Arrays, attributes: Arrays) -> tuple[Any, Any]:
    """Each row of the batch by itself, in float64: results, and the logarithms of sums of exponentials."""
    q, outs, sums = np.asarray(values["q"], np.float64), [], []
    heads, queries, depth = q.shape[1:]
    for row in range(len(q)):
        k, v = (keys_of(np.asarray(values[name], np.float64), values, row) for name in "kv")
        shared, length = heads // k.shape[0], k.shape[1]
        k, v = np.repeat(k, shared, 0), np.repeat(v, shared, 0)
        scores = np.einsum("hsd,htd->hst", q[row], k) * depth**-0.5
        if cap := attributes.get("soft_cap", 0):
            scores = cap * np.tanh(scores / cap)
        if (mask := values.get("mask")) is not None:
            whole = np.broadcast_to(mask, (len(q), heads, queries, mask.shape[-1]))[row][..., :length]
            scores = np.where(whole, scores, -np.inf) if mask.dtype == bool else scores + whole
        offset = attributes.get("causal_offset", length - queries)
        s, t = np.arange(queries)[:, None], np.arange(length)[None]
        if attributes.get("causal"):
            scores = np.where(t <= s + offset, scores, -np.inf)
        if window := attributes.get("window", 0):
            scores = np.where(t > s + offset - window, scores, -np.inf)
        best = scores.max(-1, keepdims=True, initial=-np.inf)
        with np.errstate(all="ignore"):
            weights = np.exp(scores - np.where(best == -np.inf, 0, best))
            total = weights.sum(-1, keepdims=True)
            out = np.einsum("hst,hte->hse", weights, v) / np.where(total == 0, 1, total)
            lse = (best + np.log(total))[..., 0]
        nothing = 0.0 if attributes.get("masked_row", "zero") == "zero" else np.nan
        outs.append(np.where(best == -np.inf, nothing, out))
        sums.append(np.where(best[..., 0] == -np.inf, -np.inf, lse))
    return np.stack(outs), np.stack(sums)


def graph(values: Arrays, lse: bool = True, **attributes: Any) -> ts.Graph:
    b = ts.GraphBuilder("attention")
    given = {name: b.input(name, x.shape, dtype=DTYPES[str(x.dtype)]) for name, x in values.items()}
    more = {name: given[name] for name in ("kv_len", "pages") if name in given}
    found = b.attention(*(given.get(name) for name in NAMES[:4]), lse=lse, name="attention", **more, **attributes)
    for name, tensor in zip(("y", "lse"), found if lse else (found,), strict=False):
        b.output(tensor, name)
    return b.build()


def steering(values: Arrays) -> Arrays:
    return {name: values[name] for name in ("kv_len", "pages") if name in values}


def drawn(seed: int, most: int = 40) -> tuple[Arrays, Arrays]:
    """Extent 1, groups, ragged ends, empty and whole caches, pages of 1 and of odd size; garbage where nobody reads."""
    r, n = random.Random(seed), np.random.default_rng(seed)
    batch, groups = r.choice((1, 2, 3)), r.choice((1, 2))
    heads, queries = groups * r.choice((1, 2, 3)), r.choice((1, 1, 2, 5, 17))
    depth, width = (r.choice((1, 4, 8, 40, 80, 96)) for _ in range(2))
    paged, page = r.random() < 0.6, r.choice((1, 3, 4, 7, 16))
    room = page * r.choice((1, 2, 6, max(1, most // page))) if paged else r.choice((1, 7, most))
    columns = room // page
    lead = (columns * batch + 2, groups, page) if paged else (batch, groups, room)
    shapes = {"q": (batch, heads, queries, depth), "k": (*lead, depth), "v": (*lead, width)}
    values: Arrays = {name: n.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    if r.random() < 0.3:
        seen = n.random((r.choice((1, batch)), 1, r.choice((1, queries)), room)) < 0.7
        values["mask"] = seen if r.random() < 0.5 else np.where(seen, 0.5, -np.inf).astype(np.float32)
    if not paged or r.random() < 0.7:
        lengths = [r.choice((0, 1, room, r.randint(0, room))) for _ in range(batch)]
        values["kv_len"] = np.array(lengths, r.choice((np.int32, np.int64)))
    if paged:
        values["pages"] = n.integers(0, lead[0], (batch, columns)).astype(np.int32)  # shared ones among them
    for row, length in enumerate(values.get("kv_len", ())):
        if paged:
            values["pages"][row, -(-length // page) :] = r.choice((-1, 10**6))
        else:
            values["k"][row, :, length:] = values["v"][row, :, length:] = np.nan
    attributes: Arrays = {"causal": r.random() < 0.5}
    if r.random() < 0.3:
        attributes["window"] = r.choice((1, 3, 9))
    if r.random() < 0.3:
        attributes["causal_offset"] = r.randint(-3, 9)
    if r.random() < 0.2:
        attributes["soft_cap"] = 2.0
    if r.random() < 0.2:
        attributes["masked_row"] = "nan"
    return values, attributes


def assert_close(found: Any, wanted: tuple[Any, Any], close: float = 1e-4) -> None:
    for name, array in zip(("y", "lse"), wanted, strict=True):
        if name in found:
            np.testing.assert_allclose(np.asarray(found[name], np.float64), array, rtol=close, atol=close)


@pytest.mark.parametrize("seed", range(40))
def test_reference_and_spelled_out_are_numpys(seed: int) -> None:
    values, attributes = drawn(seed)
    model, wanted = graph(values, **attributes), oracle(values, attributes)
    assert_close(ts.reference(model, values), wanted)
    spelled = model.copy()
    spelled.expand()
    assert all(row["kind"] != "attention" for row in spelled.operations())
    assert_close(ts.reference(spelled, values), wanted)


def check(machine: str, seed: int, most: int = 40) -> bool:
    values, attributes = drawn(seed, most)
    model, wanted = graph(values, **attributes), oracle(values, attributes)
    others = [rule for rule in ts.fusion_rules() if rule != "attention"]
    kernel = False
    for fuse in ("all", others):
        program = ts.compile(model, machine, fuse=fuse, lowering="best")
        kernel |= any("attention as one kernel" in note for note in program.core.notes)
        assert_close(ts.execute(program, values, numerics="exact", find_races=True), wanted)
        assert ts.verify(program, values).ok
        result = ts.simulate(program, tensors=steering(values))
        assert result.seconds >= result.bounds.seconds and result.memory_bytes >= result.bounds.bytes
        result = ts.simulate(program)
        assert result.seconds >= result.bounds.seconds and result.memory_bytes >= result.bounds.bytes
    return kernel


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3", "chiplet-2"])
def test_kernels_are_numpys(machine: str) -> None:
    assert any([check(machine, seed) for seed in range(200, 206)])


@pytest.mark.slow
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3", "chiplet-2"])
def test_many_kernels_are_numpys(machine: str) -> None:
    assert any([check(machine, seed, 300) for seed in range(1000, 1100)])


def decode(batch: int, room: int, page: int = 0, queries: int = 1, dtype: Any = np.float32) -> Arrays:
    """Grouped heads of 64 with a cache."""
    n = np.random.default_rng(room + page)
    lead = (batch * room // page, 2, page) if page else (batch, 2, room)
    shapes = {"q": (batch, 8, queries, 64), "k": (*lead, 64), "v": (*lead, 64)}
    values: Arrays = {name: n.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    values["kv_len"] = np.full(batch, room, np.int32)
    if page:
        values["pages"] = n.permutation(lead[0]).reshape(batch, -1).astype(np.int32)
    return values


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
        assert found[length].bounds.bytes == ends + read
        assert length == 0 or set(found[length].data_sources.values()) == {"given"}
    steps = [found[n].cycles for n in (0, 512, 1024, 2048)]
    assert steps == sorted(steps)
    assert 0.9 < (steps[3] - steps[2]) / (2 * (steps[2] - steps[1])) < 1.1
    usual = ts.simulate(program)
    assert usual.bounds.bytes == found[2048].bounds.bytes
    assert usual.data_sources["kv_len"] == "default: caches that are full"
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
    assert unknown.bytes == values["q"].nbytes + results
    known = ts.GraphBuilder("known")
    inputs = [known.input(name, values[name].shape) for name in "qkv"]
    tables = {"kv_len": known.weight("n", data=lengths, trainable=False)}
    tables["pages"] = known.weight("p", data=pages, trainable=False)
    known.output(known.attention(*inputs, **tables), "y")
    assert ts.lower_bound(known.build(), "mesh-16").bytes == bound.bytes - 4 * 3 * 8


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
@pytest.mark.parametrize("page", [0, 16, 100])
def test_a_long_cache_is_split_whatever_its_length(machine: str, page: int) -> None:
    values = decode(2, 1600, page)
    program = ts.compile(graph(values), machine, lowering="best")
    for lengths in ([1600, 1600], [0, 3], [700, 1599]):
        values["kv_len"] = np.array(lengths, np.int32)
        found = ts.execute(program, values, numerics="exact", find_races=True)
        assert_close(found, oracle(values, {}))
    cores = {
        unit["core"] for unit in ts.simulate(program).data["units"] if unit["kind"] == "array" and unit["operations"]
    }
    assert len(cores) >= (1 if machine == "edge-8" else 8)


def test_queries_are_the_last_ones_of_their_row() -> None:
    """A part of a prompt behind what is in the cache already."""
    values = decode(3, 320, 16, queries=24)
    values["kv_len"] = np.array([24, 320, 100], np.int32)
    program = ts.compile(graph(values, causal=True), "mesh-16", lowering="best")
    assert_close(ts.execute(program, values, numerics="exact"), oracle(values, {"causal": True}))


def layered(values: Arrays) -> ts.Graph:
    """Two layers that one function means; lengths are computed, caches are views of one tensor, pages split rows."""
    b = ts.GraphBuilder("layers")
    f = b.function("layer")
    inner = [f.input(name, values[name].shape) for name in "qkv"]
    steer = [f.input(name, values[name].shape, dtype="i32") for name in ("kv_len", "pages")]
    f.output(f.attention(*inner, kv_len=steer[0], pages=steer[1], name="attention"))
    x = b.input("q", values["q"].shape)
    pages, groups, page, depth = values["k"].shape
    both = [b.input(name, (pages * page, groups, depth)) for name in "kv"]
    k, v = (one.reshape(pages, page, groups, depth).transpose(0, 2, 1, 3) for one in both)
    before = b.input("before", values["kv_len"].shape, dtype="i32")
    table = b.input("pages", values["pages"].shape, dtype="i32")
    lengths = before + b.weight("one", data=np.int32(1), trainable=False)
    for layer in range(2):
        x = b.call(f, x, k, v, lengths, table, name=f"layer.{layer}")
    direct = b.attention(x, k, v, kv_len=lengths, pages=table, name="direct")
    b.output(direct, "y")
    return b.build()


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_tables_that_are_computed_and_passed_on(machine: str) -> None:
    values = decode(2, 256, 16)
    values["kv_len"] = np.array([256, 31], np.int32)
    model = layered(values)
    rows = {name: values[name].transpose(0, 2, 1, 3).reshape(-1, 2, 64) for name in "kv"}
    inputs = {"q": values["q"], **rows, "before": values["kv_len"] - 1, "pages": values["pages"]}
    program = ts.compile(model, machine, lowering="best")
    wanted = values["q"]
    for _ in range(3):
        wanted = oracle({**values, "q": wanted}, {})[0]
    found = ts.execute(program, inputs, numerics="exact", find_races=True)
    np.testing.assert_allclose(np.asarray(found["y"], np.float64), wanted, rtol=1e-4, atol=1e-4)
    assert ts.verify(program, inputs).ok
    short = ts.simulate(program, tensors={"before": np.zeros(2, np.int32)})
    assert short.cycles <= ts.simulate(program).cycles
    assert any("before" in how for how in short.data_sources.values())


def test_infinite_scores_and_nan() -> None:
    """+inf and NaN make their row NaN and its lse too, -inf hides its key; behind the end nothing counts."""
    values = decode(1, 200, 8, queries=3)
    values["kv_len"] = np.array([150], np.int32)
    values["q"][..., 0] = 1
    values["k"][..., 0] = 0
    pages = values["pages"][0]
    values["k"][pages[0], 0, 5, 0] = -np.inf
    values["q"][0, 0, 1, 3] = np.nan
    values["k"][pages[18], :, 6:] = values["v"][pages[18], :, 6:] = np.nan
    for machine in ("edge-8", "mesh-16"):
        program = ts.compile(graph(values), machine, lowering="best", fuse="all")
        with np.errstate(invalid="ignore"):
            wanted = oracle(values, {})
        found = ts.execute(program, values, numerics="exact")
        assert np.isnan(found["lse"][0, 0, 1]) and np.isnan(found["y"][0, 0, 1]).all()
        assert np.isfinite(np.delete(found["lse"].reshape(24), 1)).all()
        assert_close(found, wanted)
        assert ts.verify(program, values).ok


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
def test_parts_that_see_nothing_hold_nothing(machine: str) -> None:
    """Keys that stay while tiles of queries pass: of an empty row, and of queries in front of all keys."""
    n, stay = np.random.default_rng(3), 0
    for queries, more, lengths in (
        (5, {}, [288, 0]),
        (160, {}, [0, 288]),
        (160, {"causal": True}, [100, 3]),
        (160, {"causal": True, "causal_offset": -130}, None),
        (160, {"window": 9, "causal_offset": 200}, [288, 20]),
    ):
        shapes = {"q": (2, 4, queries, 96), "k": (2, 2, 288, 96), "v": (2, 2, 288, 4)}
        values: Arrays = {name: n.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        if lengths is not None:
            values["kv_len"] = np.array(lengths, np.int32)
        program = ts.compile(graph(values, **more), machine, lowering="best", fuse="all")
        stay += any("which stay" in note for note in program.core.notes)
        for order in ("text", "early_loads"):
            found = ts.execute(program, values, numerics="exact", find_races=True, order=order)
            assert_close(found, oracle(values, more))
    assert stay > 1


def test_narrow_floats_and_lse_in_f32() -> None:
    values = decode(2, 300, dtype=ml_dtypes.bfloat16)
    values["kv_len"] = np.array([299, 0], np.int32)
    model = graph(values)
    assert [row["dtype"] for row in model.outputs] == ["bf16", "f32"]
    wanted = oracle(values, {})
    program = ts.compile(model, "tpu-v3", lowering="best")
    found = ts.execute(program, values, numerics="exact")
    assert_close(found, wanted, 3e-2)
    np.testing.assert_allclose(found["lse"], wanted[1], rtol=1e-3, atol=1e-3)
    assert ts.verify(program, values).ok


def test_distributions_of_lengths_and_pages() -> None:
    program = ts.compile(graph(decode(8, 1024, 16), lse=False), "edge-8", lowering="best")
    full = ts.simulate(program).cycles
    for seed in range(3):
        some = ts.simulate(program, tensors={"kv_len": "uniform", "pages": "uniform"}, seed=seed)
        assert 0.1 * full < some.cycles < 0.9 * full
        assert some.data_sources == {name: f"uniform, seed {seed}" for name in ("kv_len", "pages")}
    assert ts.simulate(program, tensors={"indices": "zipf:1.1"}).cycles == full  # pages alone


def test_random_inputs_are_legal() -> None:
    for values in (decode(2, 96), decode(2, 96, 8)):
        assert ts.verify(ts.compile(graph(values), "edge-8", fuse="all"), seed=3).ok


def test_json_keeps_all(tmp_path: Any) -> None:
    values = decode(2, 96, 8)
    model = graph(values, causal=True)
    model.save(tmp_path / "model.json")
    again = ts.Graph.load(tmp_path / "model.json")
    assert_close(ts.reference(again, values), oracle(values, {"causal": True}))
    assert ts.compile(again, "edge-8").graph is not None


def test_what_lies_outside_is_named() -> None:
    values = decode(2, 96, 8)
    model = graph(values)
    program = ts.compile(model, "edge-8", fuse="all")
    long = values | {"kv_len": np.array([5, 97], np.int32)}
    wild = values | {"pages": values["pages"].copy()}
    wild["pages"][1, 3] = 24
    runs = (
        lambda given: ts.reference(model, given),
        lambda given: ts.execute(program, given),
        lambda given: ts.simulate(program, tensors=steering(given)),
    )
    for run in runs:
        with pytest.raises(ts.UserError, match=r"kv_len.*97 of batch row 1.*0 to 96"):
            run(long)
        with pytest.raises(ts.UserError, match=r"page 24 \(batch row 1, entry 3.*0 to 23"):
            run(wild)
        run(wild | {"kv_len": np.array([96, 24], np.int32)})  # nobody reads it


def test_operands_that_do_not_fit() -> None:
    values = decode(2, 96, 8)
    for change, text in (
        ({"kv_len": np.zeros(3, np.int32)}, "kv_len"),
        ({"kv_len": np.zeros(2, np.float32)}, "kv_len"),
        ({"pages": np.zeros((3, 12), np.int32)}, "page table"),
        ({"pages": np.zeros(24, np.int32)}, "page table"),
        ({"pages": np.zeros((2, 12), np.float32)}, "page table"),
        ({"v": values["v"][:-1]}, "v"),
        ({"k": values["k"][:0], "v": values["v"][:0]}, "pages"),
    ):
        with pytest.raises(ts.UserError, match=text):
            graph(values | change)


@pytest.mark.parametrize(("page", "queries"), [(0, 300), (16, 1)])
def test_no_wait_commit_or_release_can_be_spared(page: int, queries: int) -> None:
    """Every branch runs: tiles within and on the border, rows without keys; keys in parts."""
    values = decode(1, 2048, page) if queries == 1 else decode(2, 300, page, queries=queries)
    values["kv_len"][1:] = 0
    hidden: Arrays = {"causal": True, "window": 100} if queries > 1 else {}
    program = ts.compile(graph(values, **hidden), "mesh-16", fuse="all")
    assert any("attention as one kernel" in note for note in program.core.notes)
    assert unnoticed_mutants(program, values) == []
