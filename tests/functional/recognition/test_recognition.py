"""Recognition passes: what is spelled out becomes one operation, with equal values; look-alikes stay."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts
from support import patterns
from tilesim.graph import passes

BOUNDS = {"f32": 2e-5, "bfloat16": 0.03, "float32": 2e-5, "int8": 0}


def inputs_of(graph: ts.Graph, seed: int) -> dict[str, np.ndarray]:
    """Random inputs; masks hide keys, but no row as a whole."""
    random = np.random.default_rng(seed)
    values = {}
    for row in graph.inputs:
        if row["dtype"] == "bool":
            value = random.random(row["shape"]) < 0.6
            value[..., 0] = True
        elif row["dtype"] == "i32":  # lengths of sequences
            value = random.integers(1, 9, row["shape"]).astype(np.int32)
        else:
            value = random.standard_normal(row["shape"]).astype(np.float32)
            if row["name"] == "mask":
                value[..., 1:][random.random(value[..., 1:].shape) < 0.4] = -np.inf
            if row["dtype"] == "bf16":
                import ml_dtypes

                value = value.astype(ml_dtypes.bfloat16)
        values[row["name"]] = value
    return values


def agree(before: ts.Graph, after: ts.Graph, seed: int = 0) -> None:
    given = inputs_of(before, seed)
    for mine, theirs in zip(ts.reference(after, given).values(), ts.reference(before, given).values(), strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        bound = BOUNDS[str(theirs.dtype)]
        np.testing.assert_allclose(
            mine.astype(np.float64), theirs.astype(np.float64), rtol=bound, atol=bound * np.abs(theirs).max()
        )


@pytest.mark.parametrize("name", patterns.CASES)
def test_pattern(name):
    before, wanted = patterns.built(name)
    after = before.copy()
    changes = ts.optimize(after)
    found = patterns.kinds(after)
    assert {kind: found.count(kind) for kind in wanted} == wanted, changes
    assert [row["name"] for row in after.outputs] == [row["name"] for row in before.outputs]
    agree(before, after)
    assert len(ts.optimize(after)) == 0  # nothing is left, and nothing turns back
    plain = before.copy()
    assert len(ts.optimize(plain, "none")) == 0 and plain == before


def test_changes_are_told():
    graph, _ = patterns.built("gelu by erf")
    changes = ts.optimize(graph)
    assert [(row["pass"], row["after"]) for row in changes] == [("activations", "gelu_erf")]
    assert "erf" in changes[0]["before"]
    lines = str(changes).splitlines()
    assert lines[0].startswith("@ main: ") and lines[1].startswith("- ") and lines[2] == "+ gelu_erf"
    assert list(graph.changes) == list(changes) and changes.counts() == {"activations": 1}
    assert repr(changes) == "<Changes: 1 activations>"
    again = ts.optimize(graph)
    assert (str(again), repr(again)) == ("no changes", "<Changes: none>")


def test_what_is_told_is_what_was_done():
    """A change by one pass alone names what was there before, and what is there now."""
    by_kind = {"activations", "gates", "softmax", "normalize", "attention", "transposes", "rotary"}
    compared = set()
    for name in patterns.CASES:
        before, _ = patterns.built(name)
        for one in ts.optimize(before.copy()).counts():
            after = before.copy()
            changes = ts.optimize(after, one)
            there, now = (set(patterns.kinds(graph)) for graph in (before, after))
            if len(changes) != 1 or one not in by_kind:
                continue
            was, became = (changes[0][key].split(", ") for key in ("before", "after"))
            assert set(was) <= there, (name, one)
            assert {word.partition(" (")[0] for word in became} <= now, (name, one, became)
            compared.add(one)
    assert len(compared) >= len(by_kind) - 1


@pytest.mark.parametrize("name", ["attention", "rotary", "rms norm of bf16", "three layers", "softmax"])
def test_each_pass_can_be_switched_off(name):
    graph, _ = patterns.built(name)
    made = set(ts.optimize(graph.copy()).counts())
    for one in made:
        rest = ts.optimize(graph.copy(), without=[one]).counts()
        assert one not in rest
        assert set(ts.optimize(graph.copy(), one).counts()) <= {one}
    with pytest.raises(ts.UserError, match="Did you mean 'attention'"):
        ts.optimize(graph, "atention")
    assert "attention" in passes()


@pytest.mark.parametrize("kind", ["softmax", "log_softmax", "normalize", "attention", "rotary"])
def test_an_expansion_is_recognised(kind):
    """What `expand` spells out comes back as the kind."""
    b = ts.GraphBuilder(kind)
    x, w = b.input("x", [2, 4, 5, 16]), b.weight("w", [16])
    operands = {"normalize": (x, w), "attention": (x, x, x), "rotary": (x, w, w)}.get(kind, (x,))
    settings = {
        "softmax": {"dim": 3}, "log_softmax": {"dim": 1}, "attention": {"scale": 0.3, "soft_cap": 5.0},
        "normalize": {"mode": "rms", "dims": [3], "epsilon": 1e-5}, "rotary": {"style": "halves"},
    }[kind]  # fmt: skip
    b.output(b.op(kind, *operands, **settings))
    graph = b.build()
    spelled = graph.copy()
    assert spelled.expand() == 1 and kind not in patterns.kinds(spelled)
    ts.optimize(spelled)
    assert [found for found in patterns.kinds(spelled) if found != "constant"] == [kind]
    agree(graph, spelled)


def test_grouped_heads_count_their_bytes_once():
    """Decode attention against 4 key heads that are repeated for 32 query heads reads an eighth of the cache."""
    b = ts.GraphBuilder("decode")
    q = b.input("q", [1, 32, 1, 64], "bf16")
    k, v = (b.input(name, [1, 4, 512, 64], "bf16") for name in "kv")
    b.output(b.op("attention", q, patterns.repeated_heads(b, k, 8), patterns.repeated_heads(b, v, 8)))
    graph = b.build()
    read = graph.operations()[-1]["bytes"]
    assert ts.optimize(graph).counts() == {"grouped_heads": 1}
    cache, rest = 2 * 4 * 512 * 64 * 2, 2 * 32 * 64 * 2
    assert read == 8 * cache + rest
    assert graph.operations()[-1]["bytes"] == cache + rest


def test_recognised_programs_run_tiled():
    for name in ("attention", "rotary", "rms norm of bf16", "three layers"):
        graph, _ = patterns.built(name)
        ts.optimize(graph)
        assert ts.verify(ts.compile(graph, "tpu-v3")).ok
