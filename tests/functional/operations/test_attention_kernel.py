"""Attention as one kernel with the online softmax, against softmax(q k) v in float64."""

from __future__ import annotations

import random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilesim as ts
from support.program_checks import few_cores, unnoticed_mutants
from support.random_attention import any_attention, graph

SEEDS = {"edge-8": range(12), "mesh-16": range(2)}
Arrays = dict[str, Any]


def oracle(values: Arrays, attributes: Arrays) -> Any:
    q, k, v = (np.asarray(values[name], np.float64) for name in "qkv")
    mask = values.get("mask")
    (_, _, queries, depth), shared = q.shape, q.shape[1] // k.shape[1]
    keys = attributes.get("kv_len", k.shape[2])
    offset = attributes.get("causal_offset", keys - queries)
    k, v = np.repeat(k[:, :, :keys], shared, 1), np.repeat(v[:, :, :keys], shared, 1)
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * attributes.get("scale", depth**-0.5)
    if cap := attributes.get("soft_cap", 0):
        scores = cap * np.tanh(scores / cap)
    if mask is not None:
        mask = mask[..., :keys] if mask.ndim and mask.shape[-1] > 1 else mask
        mask = np.broadcast_to(mask, scores.shape)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    s, t = np.arange(queries)[:, None], np.arange(keys)[None]
    if attributes.get("causal"):
        scores = np.where(t <= s + offset, scores, -np.inf)
    if window := attributes.get("window", 0):
        scores = np.where(t > s + offset - window, scores, -np.inf)
    best = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(best == -np.inf, 0, best))
    total = weights.sum(-1, keepdims=True)
    nothing = 0.0 if attributes.get("masked_row", "zero") == "zero" else np.nan
    result = np.einsum("bhst,bhte->bhse", weights, v) / np.where(total == 0, 1, total)
    return np.where(best == -np.inf, nothing, result)


def whole(program: ts.Program) -> bool:
    return any("attention as one kernel" in note for note in program.core.notes)


class Case:
    """Random extents, 1 among them, ragged ends, heads that share keys; small ones and those of several tiles."""

    def __init__(self, seed: int, most: int) -> None:
        r = random.Random(seed)
        extents = [n for n in (1, 2, 3, 8, 17, 40, 65, 130, 300) if n <= most]
        groups, shared, batch = r.choice((1, 2)), r.choice((1, 1, 2, 3)), r.choice((1, 2))
        queries, keys, depth, width = r.choice(extents), r.choice(extents), r.choice((1, 4, 20)), r.choice((1, 5, 8))
        self.shapes: Arrays = {
            "q": [batch, groups * shared, queries, depth],
            "k": [batch, groups, keys, depth],
            "v": [batch, groups, keys, width],
        }
        self.attributes: Arrays = {"causal": r.random() < 0.5}
        choices: Arrays = {
            "causal_offset": r.randint(-8, 20), "window": r.choice((1, 3, 10, 50)), "soft_cap": 2.0,
            "kv_len": r.randint(1, keys), "scale": r.choice((1.0, -0.5, 0.3)), "masked_row": "nan",
        }  # fmt: skip
        self.attributes |= {name: value for name, value in choices.items() if r.random() < 0.3}
        self.dtype, self.mask = r.choice(("f32", "f32", "bf16")), r.choice(("bool", "f32"))
        if r.random() < 0.4:
            full = [batch, groups * shared, queries, keys]
            self.shapes["mask"] = [r.choice((1, n)) for n in full][r.choice((0, 0, 1, 2, 3)) :]
        self.graph = graph(self.shapes, self.dtype, self.mask, **self.attributes)

    def values(self, seed: int) -> Arrays:
        r = np.random.default_rng(seed)
        values = {name: r.standard_normal(shape).astype(np.float32) for name, shape in self.shapes.items()}
        if self.dtype == "bf16":
            values |= {name: values[name].astype(ml_dtypes.bfloat16) for name in "qkv"}
        if "mask" in values:
            seen = r.random(self.shapes["mask"]) < 0.6
            values["mask"] = seen if self.mask == "bool" else np.where(seen, values["mask"], np.float32(-np.inf))
        return values


def check(machine: str, seed: int, most: int) -> bool:
    case = Case(seed, most)
    values = case.values(seed)
    program = ts.compile(case.graph, few_cores(machine), fuse="all", lowering="best")
    got = ts.execute(program, values, numerics="exact", find_races=True)["y"]
    close = 3e-2 if case.dtype == "bf16" else 1e-4
    np.testing.assert_allclose(np.asarray(got, np.float64), oracle(values, case.attributes), rtol=close, atol=close)
    if not whole(program):
        return False
    assert ts.verify(program, values).ok
    again = ts.execute(program, values, numerics="exact", order="random", seed=seed)["y"]
    np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(again, np.float64))
    result = ts.simulate(program)
    assert result.seconds >= result.bounds.seconds and result.memory_bytes >= result.bounds.bytes
    return True


@pytest.mark.parametrize("machine", SEEDS)
def test_any_attention_is_that_of_numpy(machine: str) -> None:
    found = [check(machine, seed, 65 if machine == "edge-8" else 300) for seed in SEEDS[machine]]
    assert any(found) or machine != "edge-8"  # on the others, small ones stay apart


MANY = [
    {},
    {"causal": True},
    {"causal": True, "causal_offset": -30, "masked_row": "nan"},
    {"causal": True, "window": 90},
    {"window": 33, "causal_offset": 170, "soft_cap": 3.0},
    {"kv_len": 333, "scale": 0.3},
    {"mask": "bool", "causal": True},
    {"mask": "f32", "soft_cap": 2.0},
]


def turns() -> list[Any]:
    """Each of MANY on edge-8 and on one of two larger machines; on the other one in a long run."""
    larger = [("mesh-16", "tpu-v3"), ("tpu-v3", "mesh-16")]
    rows: list[Any] = []
    for which in range(len(MANY)):
        first, second = larger[which % 2]
        rows += [(which, "edge-8"), (which, first), pytest.param(which, second, marks=pytest.mark.slow)]
    return rows


@pytest.mark.parametrize(("which", "machine"), turns())
def test_many_ragged_tiles(which: int, machine: str) -> None:
    """Two arrays, several cores, keys that stay and keys that pass by."""
    attributes = dict(MANY[which])
    mask = attributes.pop("mask", None)
    queries, keys, heads = (150, 170, 2) if machine == "edge-8" else (700, 530, 4)
    shapes = {"q": [2, heads, queries, 20], "k": [2, heads // 2, keys, 20], "v": [2, heads // 2, keys, 24]}
    if mask:
        shapes["mask"] = [heads, queries, keys]
    if "kv_len" in attributes:
        attributes["kv_len"] = min(attributes["kv_len"], keys - 3)
    r = np.random.default_rng(which)
    values: Arrays = {name: r.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    if mask:
        seen = r.random(shapes["mask"]) < 0.7
        values["mask"] = seen if mask == "bool" else np.where(seen, values["mask"], np.float32(-np.inf))
    model = graph(shapes, "f32", mask or "bool", **attributes)
    program = ts.compile(model, few_cores(machine), fuse="all", lowering="best")
    assert whole(program)
    assert not any("first core runs it alone" in note for note in program.core.notes)
    got = ts.execute(program, values, numerics="exact")["y"]
    np.testing.assert_allclose(np.asarray(got, np.float64), oracle(values, attributes), rtol=1e-4, atol=1e-4)
    result = ts.simulate(program)
    assert result.seconds >= result.bounds.seconds and result.memory_bytes >= result.bounds.bytes


@pytest.mark.slow
@pytest.mark.parametrize("machine", SEEDS)
def test_many_attentions_are_those_of_numpy(machine: str) -> None:
    found = [check(machine, seed, 300) for seed in range(1000, 1150)]
    assert any(found) or machine != "edge-8"


def edge(values: Arrays, **attributes: Any) -> tuple[Any, Any]:
    shapes = {name: list(value.shape) for name, value in values.items()}
    kind = "bool" if "mask" in values and values["mask"].dtype == bool else "f32"
    program = ts.compile(graph(shapes, "f32", kind, **attributes), "edge-8", fuse="all")
    assert whole(program)
    return np.asarray(ts.execute(program, values)["y"], np.float64), oracle(values, attributes)


def drawn(queries: int = 24, keys: int = 40) -> Arrays:
    r = np.random.default_rng(5)
    shapes = {"q": (1, 2, queries, 8), "k": (1, 1, keys, 8), "v": (1, 1, keys, 8)}
    return {name: r.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize("row", ["zero", "nan"])
def test_rows_that_see_nothing(row: str) -> None:
    """By a mask, by causality, and all of them."""
    values = drawn()
    mask = np.ones((1, 1, 24, 40), bool)
    mask[:, :, 3:20] = False
    for more, attributes in (
        ({"mask": mask}, {}),
        ({"mask": np.zeros((1, 1, 1, 40), bool)}, {}),
        ({"mask": np.full((24, 40), -np.inf, np.float32)}, {}),
        ({}, {"causal": True, "causal_offset": -17}),
        ({}, {"causal": True, "causal_offset": -100}),
        ({}, {"window": 4, "causal_offset": 30}),
    ):
        got, want = edge(values | more, masked_row=row, **attributes)
        assert (want == 0).any() or np.isnan(want).any()
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_infinite_scores_and_nan() -> None:
    """A score of -inf hides its key; +inf and NaN make their row NaN, and no other."""
    values = drawn()
    values["q"][..., 0], values["k"][..., 0] = 1, 0
    values["k"][0, 0, 5, 0] = -np.inf
    values["q"][0, 0, 7, 1] = np.nan
    got, want = edge(values)
    assert np.isnan(got[0, 0, 7]).all() and np.isfinite(np.delete(got.reshape(48, 8), 7, 0)).all()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    values["k"][0, 0, 5, 0] = np.inf
    with np.errstate(invalid="ignore"):
        got, want = edge(values)
    assert np.isnan(got).all()


def test_keys_that_nobody_sees_are_not_read() -> None:
    values = drawn(keys=200)
    for name in "kv":
        values[name][:, :, 60:] = np.nan
    got, _ = edge(values, kv_len=60)
    assert np.isfinite(got).all()
    got, _ = edge(values, causal=True, causal_offset=8)  # the last query sees 31 keys
    assert np.isfinite(got).all()


LONG = {"plain": ([1, 16, 2048, 64], False), "causal": ([1, 8, 8192, 128], True), "narrow": ([1, 8, 16384, 40], False)}


@pytest.mark.parametrize(
    ("name", "machine", "dtype"),
    [
        ("plain", "tpu-v3", "f32"),
        ("plain", "tpu-v3", "bf16"),
        ("plain", "mesh-16", "f32"),
        ("narrow", "tpu-v3", "bf16"),
        ("narrow", "mesh-16", "f32"),
        ("causal", "mesh-16", "f32"),
    ],
)
def test_long_attentions_reach_their_bound(name: str, machine: str, dtype: str) -> None:
    shape, causal = LONG[name]
    program = ts.compile(
        graph({"q": shape, "k": shape, "v": shape}, dtype, causal=causal), machine, fuse="all", lowering="best"
    )
    result = ts.simulate(program)
    assert result.bounds.seconds <= result.seconds <= 1.15 * result.bounds.seconds
    operands = 4 * np.prod(shape) * (2 if dtype == "bf16" else 4)
    if machine == "tpu-v3":  # keys and values once for all queries of a head, or once for each half of them
        assert operands <= result.memory_bytes <= 1.6 * operands


def test_hidden_keys_take_no_time() -> None:
    """Half of all pairs, and what tiles on the border have beyond: with 1,024 queries of 8,192, a sixteenth of all."""
    shape = [1, 8, 8192, 128]
    cycles = {}
    for causal in (False, True):
        shapes = {"q": shape, "k": shape, "v": shape}
        program = ts.compile(graph(shapes, "bf16", causal=causal), "tpu-v3", fuse="all", lowering="best")
        cycles[causal] = ts.simulate(program).cycles
    assert cycles[True] < 0.66 * cycles[False]


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_one_kernel_is_chosen_where_it_is_faster(machine: str) -> None:
    for shape in ([1, 2, 1, 64], [1, 2, 64, 64], [2, 4, 256, 32], [1, 8, 512, 64]):
        model = graph({"q": shape, "k": shape, "v": shape}, "f32")
        others = [rule for rule in ts.mapping.fusion_rules() if rule != "attention"]
        fused, apart = (
            ts.compile(model, few_cores(machine), fuse=how, lowering="best", residency="none")
            for how in ("all", others)
        )
        assert ts.simulate(fused).cycles <= 1.02 * ts.simulate(apart).cycles
        assert [any(" x attention as " in note for note in one.core.notes) for one in (fused, apart)] == [True, False]


def test_a_chip_with_a_compiler_of_its_own_keeps_what_that_does() -> None:
    model = ts.workloads.attention(1, 4, 512, 64)
    program = ts.compile(model, "tpu-v3")
    (row,) = (row for row in program.fusion.table().rows if row["rule"] == "attention")
    assert row["decision"] == "not legal" and "chip's own compiler" in row["reason"]
    others = [rule for rule in ts.mapping.fusion_rules() if rule != "attention"]
    assert ts.simulate(program).cycles == ts.simulate(ts.compile(model, "tpu-v3", fuse=others)).cycles


def test_nothing_is_fused_where_nothing_shall_be() -> None:
    assert not whole(ts.compile(ts.workloads.attention(1, 4, 128, 64), "mesh-16", fuse="none"))


def test_what_stays_whole_is_found_behind_whatever_passes_move() -> None:
    """Constants go to the front, expansions make operations where others were: other composites are expanded still."""
    b = ts.GraphBuilder("blocks")
    x = b.input("x", [1, 4, 200, 16])
    for layer in range(3):
        x = b.attention(x, x, x, name=f"attention{layer}", causal=layer % 2 == 1)
        scale = b.weight(f"scale{layer}", [16])
        x = b.op("normalize", x, scale, mode="rms", dims=[3], epsilon=1e-5, name=f"norm{layer}") + float(layer)
    b.output(b.op("softmax", x, dim=3), "y")
    program = ts.compile(b.build(), "mesh-16")
    assert whole(program)
    assert ts.verify(program, seed=1).ok


@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (4, 1), (6, 2), (3, 3)])
def test_one_query_of_a_long_cache_has_all_cores(heads: int, groups: int) -> None:
    """Keys are split, and the parts put together; a few heads alone would leave cores idle."""
    shapes = {"q": [1, heads, 1, 64], "k": [1, groups, 4000, 64], "v": [1, groups, 4000, 48]}
    model = graph(shapes, "f32")
    program = ts.compile(model, "mesh-16", lowering="best", residency="none")  # else parts may be faster
    assert whole(program)
    result = ts.simulate(program)
    loaded = {unit["core"] for unit in result.data["units"] if unit["kind"] == "array" and unit["operations"] > 0}
    assert len(loaded) >= 8  # as many as memory is fast enough for
    alone = ts.simulate(ts.compile(model, "mesh-16", lowering="best", residency="none", cores=1))
    assert 4 * result.cycles <= alone.cycles
    r = np.random.default_rng(7)
    values = {name: r.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    values["k"][0, 0, 1000:2000] = -np.inf  # a part that is hidden by its scores, where queries are positive
    values["q"] = np.abs(values["q"])
    got = ts.execute(program, values, numerics="exact", find_races=True)["y"]
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(np.asarray(got, np.float64), oracle(values, {}), rtol=1e-4, atol=1e-4)


def test_a_mask_that_causality_hides_is_not_compulsory() -> None:
    shape = [1, 2, 2048, 32]
    result = ts.simulate(
        ts.compile(
            graph({"q": shape, "k": shape, "v": shape, "mask": [2048, 2048]}, "bf16", "f32", causal=True),
            "mesh-16",
            lowering="best",
        )
    )
    pairs = 2048 * 2049 // 2
    assert result.bounds.bytes == 4 * pairs + 4 * 2 * int(np.prod(shape))
    assert result.seconds >= result.bounds.seconds


def slower(seeds: Any) -> list[str]:
    """What is over 2 % and a launch slower than without the rule; 25 % where links between regions are priced by their
    mean load."""
    others = [rule for rule in ts.mapping.fusion_rules() if rule != "attention"]
    found = []
    for seed in seeds:
        machine, model = any_attention(seed)
        chosen, without = (
            ts.compile(model, machine, fuse=how, lowering="best", residency="none") for how in ("all", others)
        )
        cycles = [ts.simulate(program).cycles for program in (chosen, without)]
        launch = float(ts.Machine.load(machine).get("core.kernel_launch_cycles"))
        if cycles[0] > (1.25 if machine == "chiplet-2" else 1.02) * cycles[1] + launch:
            found.append(f"{seed}: {cycles[0] / cycles[1]:.3f} {machine} {chosen.core.notes}")
    return found


@pytest.mark.parametrize("seeds", [range(6), pytest.param([*range(6, 12), *range(1000, 1150)], marks=pytest.mark.slow)])
def test_the_price_never_chooses_what_is_slower(seeds: list[int] | range) -> None:
    assert slower(seeds) == []


def tiled(queries: int, keys: int, **attributes: Any) -> ts.Program:
    shapes = {"q": [1, 4, queries, 16], "k": [1, 4, keys, 16], "v": [1, 4, keys, 16]}
    program = ts.compile(graph(shapes, "f32", **attributes), "mesh-16", fuse="all")
    assert whole(program)
    return program


def test_no_wait_commit_or_release_can_be_spared() -> None:
    """Where there are several tiles of queries and of keys."""
    assert unnoticed_mutants(tiled(100, 300)) == []


def test_none_can_be_spared_where_keys_are_hidden() -> None:
    """Every branch runs: tiles within and on the border, keys that stay and those that come fresh."""
    assert unnoticed_mutants(tiled(300, 300, causal=True, window=100)) == []
