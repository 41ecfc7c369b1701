"""Masks that compare positions with lengths become kv_len, and nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts

B, H, S, T, D = 3, 3, 5, 5, 16  # extents that a wrong axis would fit
LENGTHS = np.array([[2, 5, 1], [0, 7, -3], [5, 4, 3]])  # none, too many, fewer than none

Mask = Callable[[ts.GraphBuilder, Any, Any], Any]  # of positions and lengths, both [T] and [B]


def graph(mask: Mask, dtype: str = "i32", **more: Any) -> ts.Graph:
    b = ts.GraphBuilder("padded")
    q, k, v = (b.input(name, (B, H, S, D)) for name in "qkv")
    n = b.input("n", (B,), dtype)
    position = b.op("iota", shape=[T], dim=0, dtype=dtype)
    b.output(b.attention(q, k, v, mask(b, position, n), name="attention", **more), "y")
    return b.build()


def seen(b: ts.GraphBuilder, p: Any, n: Any) -> Any:
    return b.apply("less", p.reshape(1, T), n.reshape(B, 1)).reshape(B, 1, 1, T)


def infinities(b: ts.GraphBuilder, hidden: Any) -> Any:
    return b.apply("select", hidden, b.scalar(-np.inf), b.broadcast(b.scalar(0), hidden.shape))


def tril(b: ts.GraphBuilder) -> Any:
    return b.weight("tril", data=np.tril(np.ones((S, T), bool)), dtype="bool", trainable=False)


FOUND: dict[str, Mask] = {
    "less": seen,
    "greater": lambda b, p, n: b.apply("greater", n.reshape(B, 1, 1, 1), p),
    "not behind": lambda b, p, n: b.apply(
        "logical_not", b.apply("greater_equal", p.reshape(1, 1, 1, T), n.reshape(B, 1, 1, 1))
    ),
    "repeated over heads": lambda b, p, n: b.broadcast(seen(b, p, n), (B, H, S, T)),
    "added": lambda b, p, n: infinities(b, b.apply("less_equal", n.reshape(B, 1, 1, 1), p)),
    "added, seen first": lambda b, p, n: b.apply("select", seen(b, p, n), b.scalar(0), b.scalar(-np.inf)),
    "and what is causal": lambda b, p, n: b.apply("logical_and", seen(b, p, n), tril(b)),
    "and another mask": lambda b, p, n: b.apply("logical_and", b.input("shown", (B, 1, S, T), "bool"), seen(b, p, n)),
}
NOT_FOUND: dict[str, Mask] = {
    "the last one too": lambda b, p, n: b.apply("less_equal", p, n.reshape(B, 1, 1, 1)),
    "behind": lambda b, p, n: b.apply("greater_equal", p, n.reshape(B, 1, 1, 1)),
    "of queries": lambda b, p, n: b.apply("less", p.reshape(T, 1), n.reshape(B, 1, 1, 1)),
    "of heads": lambda b, p, n: b.apply("less", p, n.reshape(B, 1, 1)),
    "of queries and heads": lambda b, p, n: b.apply("less", p.reshape(1, 1, T, 1), n.reshape(B, 1, 1, 1)),
    "turned": lambda b, p, n: b.apply("less", p.reshape(1, T), n.reshape(B, 1)).reshape(1, B, 1, T),
    "steps of two": lambda b, p, n: b.apply("less", p * 2, n.reshape(B, 1, 1, 1)),
    "a finite number": lambda b, p, n: b.apply("select", seen(b, p, n), b.scalar(0), b.scalar(-1e30)),
    "a bias beside": lambda b, p, n: b.apply("select", seen(b, p, n), b.scalar(1), b.scalar(-np.inf)),
    "or another": lambda b, p, n: b.apply("logical_or", seen(b, p, n), tril(b)),
    "no integers": lambda b, p, n: b.apply("less", p.convert("f32"), n.convert("f32").reshape(B, 1, 1, 1)),
}


def values_of(model: ts.Graph, n: Any) -> dict[str, Any]:
    random = np.random.default_rng(0)
    drawn = {row["name"]: random.standard_normal(row["shape"]).astype(np.float32) for row in model.inputs}
    if "shown" in drawn:
        drawn["shown"] = random.integers(0, 2, (B, 1, S, T)).astype(bool)
    (integers,) = [row["dtype"] for row in model.inputs if row["name"] == "n"]
    return drawn | {"n": n.astype({"i32": np.int32, "i64": np.int64}[integers])}


def attention_of(model: ts.Graph) -> dict[str, Any]:
    (row,) = [row for row in model.operations() if row["kind"] == "attention"]
    return row


def has_lengths(model: ts.Graph) -> bool:
    return len(attention_of(model)["operands"]) > 4


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("name", FOUND)
def test_found(name: str, dtype: str) -> None:
    """Equal for every length, also those that no cache has; keys behind hold NaN, which nobody reads."""
    model = graph(FOUND[name], dtype)
    short = model.copy()
    changes = ts.optimize(short)
    assert changes.counts().get("length_masks") == 1 and has_lengths(short)
    for n in LENGTHS:
        values = values_of(model, n)
        wanted = ts.reference(model, values)["y"]
        for row in range(B):
            for key in "kv":
                values[key][row, :, max(0, n[row]) :] = np.nan
        np.testing.assert_allclose(ts.reference(short, values)["y"], wanted, rtol=1e-5, atol=1e-6)


def test_what_else_the_mask_says() -> None:
    causal, masked = graph(FOUND["and what is causal"]), graph(FOUND["and another mask"])
    ts.optimize(causal), ts.optimize(masked)
    assert attention_of(causal)["attributes"] == {"causal": True, "causal_offset": 0}
    assert attention_of(causal)["operands"][3] is None
    assert attention_of(masked)["operands"][3]["name"] == "shown"


@pytest.mark.parametrize("offset", [None, 1])
def test_causal_queries_stay_where_they_are(offset: int | None) -> None:
    """Without a mask they would be the last ones of their row."""
    model = graph(seen, causal=True, **({} if offset is None else {"causal_offset": offset}))
    short = model.copy()
    ts.optimize(short)
    assert has_lengths(short) and attention_of(short)["attributes"]["causal_offset"] == (offset or 0)
    for n in LENGTHS:
        values = values_of(model, n)
        np.testing.assert_allclose(
            ts.reference(short, values)["y"], ts.reference(model, values)["y"], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("name", NOT_FOUND)
def test_not_found(name: str) -> None:
    model = graph(NOT_FOUND[name])
    short = model.copy()
    ts.optimize(short)
    assert not has_lengths(short)
    for n in LENGTHS:
        values = values_of(model, n)
        np.testing.assert_allclose(
            ts.reference(short, values)["y"], ts.reference(model, values)["y"], rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "mesh-16"])
def test_on_machines(machine: str) -> None:
    """Values by the lengths given; time by them too, of full caches where none are given."""
    b = ts.GraphBuilder("long")
    q, k, v = b.input("q", (2, 2, 1, 64)), b.input("k", (2, 2, 4096, 64)), b.input("v", (2, 2, 4096, 64))
    n = b.input("n", (2,), "i32")
    mask = b.apply("less", b.op("iota", shape=[4096], dim=0, dtype="i32"), n.reshape(2, 1, 1, 1))
    b.output(b.attention(q, k, v, mask), "y")
    model = b.build()
    short = model.copy()
    ts.optimize(short)
    program = ts.compile(short, machine, lowering="best")
    random = np.random.default_rng(0)
    values = {row["name"]: random.standard_normal(row["shape"]).astype(np.float32) for row in short.inputs}
    values["n"] = np.array([100, 3], np.int32)
    wanted = ts.reference(model, values)["y"]
    np.testing.assert_allclose(ts.execute(program, values)["y"], wanted, rtol=2e-2, atol=2e-2)
    full, some = ts.simulate(program), ts.simulate(program, tensors={"n": values["n"]})
    assert some.memory_bytes < full.memory_bytes / 4 and some.cycles < full.cycles / 2
    masked = ts.simulate(ts.compile(model, machine, lowering="best"))
    assert full.memory_bytes < 1.05 * masked.memory_bytes


def test_torch_writes_it_so() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: pip install 'tilesim[torch]'")

    class Padded(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.heads = torch.nn.MultiheadAttention(32, 2, batch_first=True)

        def forward(self, x: Any, n: Any) -> Any:
            shown = torch.arange(x.shape[1])[None] < n[:, None]
            y = self.heads(x, x, x, key_padding_mask=~shown, need_weights=False)[0]
            y = y.reshape(3, 6, 2, 16).transpose(1, 2)
            scores = (y @ y.transpose(-1, -2)).masked_fill(~shown[:, None, None, :], float("-inf"))
            y = torch.softmax(scores, -1) @ y
            return torch.nn.functional.scaled_dot_product_attention(y, y, y, attn_mask=shown[:, None, None, :])

    module, x, n = Padded().eval(), torch.randn(3, 6, 32), torch.tensor([2, 6, 3])
    model = ts.from_torch(module, (x, n))
    assert model.changes.counts()["length_masks"] == 3
    assert all(len(row["operands"]) > 4 for row in model.operations() if row["kind"] == "attention")
    found = ts.reference(model, (x.numpy(), n.numpy()))
    with torch.no_grad():
        np.testing.assert_allclose(next(iter(found.values())), module(x, n).numpy(), rtol=1e-4, atol=1e-5)
