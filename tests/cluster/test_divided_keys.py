"""Attentions over divided keys: each device attends to its own, outputs are weighed and summed; NumPy is the oracle."""

import numpy as np
import pytest

import tilesim as ts

MESHES = [{"a": 2}, {"a": 3}, {"a": 4}, {"a": 2, "b": 2}, {"a": 2, "b": 4}, {"a": 3, "b": 2}]


def oracle(q, k, v, mask, lengths, options):
    """Output and logarithm of the sum of exponentials in f64, query by query."""
    (batch, heads, queries, depth), (_, groups, room, _) = q.shape, k.shape
    out, lse = np.zeros((*q.shape[:3], v.shape[3])), np.full(q.shape[:3], -np.inf)
    most = options.get("kv_len", room)
    mask = None if mask is None else np.broadcast_to(mask, (batch, heads, queries, room))
    for b, h, s in np.ndindex(batch, heads, queries):
        length = most if lengths is None else int(lengths[b])
        place = s + options.get("causal_offset", length - queries)
        seen = [
            t
            for t in range(length)
            if not (options.get("causal") and t > place)
            and not (options.get("window") and t <= place - options["window"])
            and (mask is None or mask.dtype != bool or mask[b, h, s, t])
        ]
        scores = k[b, h * groups // heads].astype(np.float64) @ q[b, h, s] * options.get("scale", depth**-0.5)
        if cap := options.get("soft_cap"):
            scores = np.tanh(scores / cap) * cap
        if mask is not None and mask.dtype != bool:
            scores = scores + mask[b, h, s]
        seen = [t for t in seen if scores[t] > -np.inf]
        if not seen:
            out[b, h, s] = np.nan if options.get("masked_row") == "nan" else 0
            continue
        weights = np.exp(scores[seen] - scores[seen].max())
        lse[b, h, s] = scores[seen].max() + np.log(weights.sum())
        out[b, h, s] = weights @ v[b, h * groups // heads, seen] / weights.sum()
    return out, lse


def masks(random, shape):
    """None, or bool or float that broadcasts to the scores, with rows that hide all."""
    sort = random.integers(4)
    if sort == 0:
        return None
    cut = [int(extent) if random.random() < 0.6 else 1 for extent in shape]
    cut = cut[int(random.integers(3)) :] if random.random() < 0.3 else cut
    hides = random.random(cut) < 0.3
    if sort == 1:
        return ~hides
    bias = random.standard_normal(cut).astype(np.float32)
    return np.where(hides, np.float32(-np.inf), bias) if sort == 2 else bias


def case(random):
    """Operands, options and shardings: something divides the keys."""
    mesh = MESHES[random.integers(len(MESHES))]
    groups, shared = int(random.integers(1, 4)), int(random.integers(1, 4))
    batch, queries = int(random.integers(1, 4)), int(random.choice([1, 1, 2, 4, 7]))
    room = int(random.integers(mesh["a"], 14))
    depth, width = (int(n) for n in random.integers(1, 5, 2))
    arrays = {
        name: (random.integers(-8, 9, shape) / 4).astype(np.float32)  # ties among scores
        for name, shape in {
            "q": (batch, groups * shared, queries, depth),
            "k": (batch, groups, room, depth),
            "v": (batch, groups, room, width),
        }.items()
    }
    options = {}
    for name, choices in {"causal": [True], "window": [1, 3], "soft_cap": [2.5], "scale": [1.0, 0.3],
                          "causal_offset": [-1, 0, 2], "masked_row": ["zero", "nan"]}.items():  # fmt: skip
        if random.random() < 0.4:
            options[name] = choices[random.integers(len(choices))]
    if (mask := masks(random, (batch, groups * shared, queries, room))) is not None:
        arrays["mask"] = mask
    lengths = random.random()
    if lengths < 0.3:
        options["kv_len"] = int(random.integers(1, room + 1))
    elif lengths < 0.7:
        arrays["kv_len"] = random.integers(0, room + 1, batch).astype(np.int32)
    shardings = {}
    for name, rank_axis in (("q", 2), ("k", 2), ("v", 2), ("y", 2)):
        axes = [None] * 4
        if name in "kv" or (queries >= mesh["a"] and random.random() < 0.3):
            axes[rank_axis] = "a"
        other = int(random.integers(4))
        extent = {"q": arrays["q"], "y": arrays["q"], "k": arrays["k"], "v": arrays["v"]}[name].shape[other]
        if "b" in mesh and axes[other] is None and extent >= mesh["b"] and random.random() < 0.5:
            axes[other] = "b"
        if random.random() < (0.8 if name in "kv" else 0.5):
            shardings[name] = tuple(axes)
    return mesh, arrays, options, shardings


def built(arrays, options, lse):
    b = ts.GraphBuilder("attention")
    put = {name: b.input(name, x.shape, dtype={"f": "f32", "b": "bool", "i": "i32"}[x.dtype.kind])
           for name, x in arrays.items()}  # fmt: skip
    keyword = {**options, "lse": lse}
    if "kv_len" in put:
        keyword["kv_len"] = put["kv_len"]
    made = b.attention(put["q"], put["k"], put["v"], put.get("mask"), **keyword)
    for name, value in zip(("y", "lse"), made if lse else [made], strict=False):
        b.output(value, name)
    return b.build()


def compared(seed):
    """Whether keys stay where they are."""
    random = np.random.default_rng(seed)
    mesh, arrays, options, shardings = case(random)
    lse = random.random() < 0.4
    spmd = ts.partition(built(arrays, options, lse), mesh, shardings)
    found = ts.execute(spmd, arrays)
    with np.errstate(all="ignore"):
        wanted = oracle(arrays["q"], arrays["k"], arrays["v"], arrays.get("mask"), arrays.get("kv_len"), options)
    for name, want in zip(("y", "lse")[: 1 + lse], wanted, strict=False):
        np.testing.assert_allclose(found[name], want, rtol=2e-5, atol=2e-5, err_msg=f"{seed} {name}: {options}")
    return any("part of its keys" in record["reason"] for record in spmd.records)


@pytest.mark.parametrize(("queries", "sums"), [(1, True), (64, False)])
def test_heads_that_are_divided_along_their_size_sum_scores_where_that_sends_less(queries, sums):
    """Scores of 32 keys are [2, 4, queries, 32]; queries and keys have 8 numbers each."""
    b = ts.GraphBuilder("sizes")
    shapes = {"q": (2, 4, queries, 8), "k": (2, 4, 32, 8), "v": (2, 4, 32, 8)}
    b.output(b.attention(*[b.input(name, shape) for name, shape in shapes.items()], causal=True), "y")
    sizes = (None, None, None, "t")
    spmd = ts.partition(b.build(), {"t": 4}, dict.fromkeys("qkvy", sizes))
    assert sent(spmd) <= 3 / 4 * 4 * 2 * 4 * (2 * queries * 32 if sums else 8 * queries + 8 * 32)
    random = np.random.default_rng(queries)
    arrays = {name: (random.integers(-8, 9, shape) / 4).astype(np.float32) for name, shape in shapes.items()}
    wanted, _ = oracle(*arrays.values(), None, None, {"causal": True})
    np.testing.assert_allclose(ts.execute(spmd, arrays)["y"], wanted, rtol=2e-5, atol=2e-5)


def sent(spmd):
    return sum(row["count"] * row["wire_bytes"] for row in spmd.collectives())


@pytest.mark.parametrize(("groups", "queries", "room"), [(4, 1, 32), (1, 1, 32), (4, 1, 29), (2, 3, 32)])
def test_a_part_of_the_keys_sends_two_numbers_and_an_output_of_each_query(groups, queries, room):
    """Three sums over four devices, of all heads' queries: 2 · 3/4 of 4-byte numbers."""
    b = ts.GraphBuilder("decode")
    q, k, v = b.input("q", (2, 4, queries, 8)), b.input("k", (2, groups, room, 8)), b.input("v", (2, groups, room, 8))
    b.output(b.attention(q, k, v), "y")
    keys = (None, None, "t")
    spmd = ts.partition(b.build(), {"t": 4}, {"q": (), "k": keys, "v": keys, "y": ()})
    assert sent(spmd) == 2 * 3 / 4 * 4 * (2 * 4 * queries) * (1 + 1 + 8)
    assert [row["kind"] for row in spmd.collectives()] == ["all_reduce"] * 3
    reasons = [record["reason"] for record in spmd.records]
    assert sum("part of its keys" in reason for reason in reasons) == 2
    assert [op["kind"] for op in spmd.graph.operations()].count("attention") == 1


def test_many_queries_of_few_keys_take_all_keys():
    """Keys and values are gathered, 2 · 3/4 of 2 · 8 · 8 numbers, and the outputs of each device's queries."""
    b = ts.GraphBuilder("cross")
    q, k, v = b.input("q", (1, 2, 64, 8)), b.input("k", (1, 2, 8, 8)), b.input("v", (1, 2, 8, 8))
    b.output(b.attention(q, k, v), "y")
    keys = (None, None, "t")
    spmd = ts.partition(b.build(), {"t": 4}, {"q": (), "k": keys, "v": keys, "y": ()})
    assert sent(spmd) == 3 / 4 * 4 * (2 * 2 * 8 * 8 + 2 * 64 * 8)


@pytest.mark.parametrize(
    ("seeds", "least"), [(range(250), 120), pytest.param(range(250, 4250), 1600, marks=pytest.mark.slow)]
)
def test_random_attentions_over_divided_keys(seeds, least):
    assert sum(compared(seed) for seed in seeds) > least
