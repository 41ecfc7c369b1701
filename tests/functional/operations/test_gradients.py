"""Gradients of graphs against torch's autograd; those of attention by its operands, result and sums alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import few_cores

torch = pytest.importorskip("torch", reason="needs torch: pip install 'tilesim[torch]'")

B, H, S, T, D, E = 2, 4, 5, 7, 8, 6


def attention(groups: int = 2, mask: Any = None, learned: bool = False, dtype: str = "f32", **more: Any) -> ts.Graph:
    b = ts.GraphBuilder("attention", dtype=dtype)
    q, k, v = b.input("q", (B, H, S, D)), b.input("k", (B, groups, T, D)), b.input("v", (B, groups, T, E))
    added = None
    if mask is not None:
        kind = "bool" if mask.dtype == bool else dtype
        added = (
            b.input("mask", mask.shape, kind) if learned else b.weight("mask", data=mask, dtype=kind, trainable=False)
        )
    lengths = b.input("n", (B,), "i32") if more.pop("lengths", False) else more.pop("kv_len", None)
    b.output(b.attention(q, k, v, added, kv_len=lengths, name="attention", **more), "y")
    return b.build()


def data(graph: ts.Graph, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    values = {row["name"]: random.standard_normal(row["shape"]).astype(np.float32) for row in graph.inputs}
    return values | ({"n": np.array([3, T], np.int32)} if "n" in values else {})


def torch_attention(q: Any, k: Any, v: Any, mask: Any = None, *, n: Any = None, **more: Any) -> Any:
    """Spelled out; rows that see nothing give zero."""
    soft_cap, window, offset = more.get("soft_cap", 0), more.get("window", 0), more.get("causal_offset")
    k, v = (x.repeat_interleave(H // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * more.get("scale", D**-0.5)
    if soft_cap:
        s = soft_cap * torch.tanh(s / soft_cap)
    lengths = torch.full((B, 1, 1, 1), more.get("kv_len", T)) if n is None else torch.as_tensor(n).reshape(B, 1, 1, 1)
    key = torch.arange(T).reshape(1, 1, 1, T)
    query = torch.arange(S).reshape(1, 1, S, 1) + (lengths - S if offset is None else offset)
    seen = key < lengths
    if more.get("causal"):
        seen = seen & (key <= query)
    if window:
        seen = seen & (key > query - window)
    if mask is not None and mask.dtype == torch.bool:
        seen = seen & mask
    elif mask is not None:
        s = s + mask
    s = s.masked_fill(~seen, -torch.inf)
    hidden = (s == -torch.inf).all(-1, keepdim=True)
    return (torch.softmax(s.masked_fill(hidden, 0), -1).masked_fill(hidden, 0) * ~(s == -torch.inf)) @ v


RANDOM = np.random.default_rng(7)
BIAS = RANDOM.standard_normal((H, S, T)).astype(np.float32)
SHOWN = RANDOM.integers(0, 2, (B, 1, S, T)).astype(bool)
SHOWN[0, 0, 2] = False  # a row that sees nothing
HIDING = np.where(SHOWN, 0, -np.inf).astype(np.float32)
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "one key head": {"groups": 1},
    "each its own": {"groups": H},
    "causal": {"causal": True},
    "causal from the first": {"causal": True, "causal_offset": 0},
    "causal, rows that see nothing": {"causal": True, "causal_offset": -2},
    "window": {"causal": True, "window": 2},
    "soft cap": {"soft_cap": 1.5},
    "bias": {"mask": BIAS},
    "hidden by booleans": {"mask": SHOWN},
    "hidden by infinities": {"mask": HIDING},
    "part of a cache": {"kv_len": 4},
    "part of a cache, bias": {"kv_len": 4, "mask": BIAS, "causal": True},
    "lengths": {"lengths": True},
    "lengths, causal, capped": {"lengths": True, "causal": True, "soft_cap": 2.0},
    "scale": {"scale": 0.3},
}


def by_torch(graph: ts.Graph, values: dict[str, Any], by: list[str], more: dict[str, Any]) -> dict[str, Any]:
    x = {name: torch.tensor(value, requires_grad=name in by) for name, value in values.items()}
    options = {key: value for key, value in more.items() if key != "mask"}
    mask = x.get("mask", None if more.get("mask") is None else torch.tensor(more["mask"]))
    y = torch_attention(x["q"], x["k"], x["v"], mask, n=values.get("n"), **options)
    return {"y": y.detach().numpy()} | dict(
        zip(
            [f"d.{name}" for name in by],
            [g.numpy() for g in torch.autograd.grad(y, [x[name] for name in by], x["d.y"])],
            strict=True,
        )
    )


@pytest.mark.parametrize("name", CASES)
def test_attention(name: str) -> None:
    more = CASES[name]
    graph = ts.gradient(attention(**more), "y", ["q", "k", "v"])
    values = data(graph)
    found, wanted = ts.reference(graph, values), by_torch(graph, values, ["q", "k", "v"], more)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=2e-4, atol=2e-5, err_msg=key)


def test_what_lies_behind_the_lengths_counts_for_nothing() -> None:
    graph = ts.gradient(attention(lengths=True), "y", ["q", "k", "v"])
    values = data(graph)
    wanted = ts.reference(graph, values)
    for key in "kv":
        values[key][0, :, 3:] = np.nan
    found = ts.reference(graph, values)
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)
    assert not np.any(found["d.k"][0, :, 3:]) and not np.any(found["d.v"][0, :, 3:])


@pytest.mark.parametrize("more", [{}, {"kv_len": 4}, {"soft_cap": 1.5}])
def test_a_bias_that_is_learned(more: dict[str, Any]) -> None:
    own = {"mask": BIAS, **more}
    graph = ts.gradient(attention(learned=True, **own), "y", ["q", "mask"])
    values = data(graph)
    wanted = by_torch(graph, values, ["q", "mask"], {**own, "mask": None})
    found = ts.reference(graph, values)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=2e-4, atol=2e-5, err_msg=key)


@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "mesh-16"])
def test_it_runs_on_machines(machine: str) -> None:
    """The forward kernel stays one attention, which gives its sums too."""
    graph = ts.gradient(attention(causal=True), "y", ["q", "k", "v"])
    (forward,) = [row for row in graph.operations() if row["kind"] == "attention"]
    assert len(forward["results"]) == 2
    program = ts.compile(graph, few_cores(machine))
    assert ts.verify(program).ok
    result = ts.simulate(program)
    assert result.bounds is not None and result.bounds.bytes <= result.memory_bytes


def test_through_other_kinds() -> None:
    """Projections, a normalization, activations, a residual, a softmax and a mean around attention."""
    b = ts.GraphBuilder("block")
    x, w, u = b.input("x", (B, T, 16)), b.input("w", (48, 16)), b.input("u", (16, 16))
    scale, bias = b.input("scale", (16,)), b.input("bias", (16,))
    qkv = b.project(b.layer_norm(x, scale, bias), w)
    q, k, v = (qkv[:, :, 16 * i : 16 * (i + 1)].reshape(B, T, 2, 8).transpose(0, 2, 1, 3) for i in range(3))
    o = b.attention(q, k, v, causal=True).transpose(0, 2, 1, 3).reshape(B, T, 16)
    y = x + b.apply("silu", b.project(o, u))
    b.output((y.softmax(2) * b.concat([y, y * 2], 2)[:, :, 3:19]).mean(1), "z")
    by = ["x", "w", "u", "scale", "bias"]
    graph = ts.gradient(b.build(), "z", by)
    values = data(graph)
    t = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    normal = torch.nn.functional.layer_norm(t["x"], (16,), t["scale"], t["bias"])
    parts = [part.reshape(B, T, 2, 8).transpose(1, 2) for part in (normal @ t["w"].T).split(16, 2)]
    o = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
    y = t["x"] + torch.nn.functional.silu(o.transpose(1, 2).reshape(B, T, 16) @ t["u"].T)
    z = (y.softmax(2) * torch.cat([y, y * 2], 2)[:, :, 3:19]).mean(1)
    wanted = torch.autograd.grad(z, [t[name] for name in by], t["d.z"])
    found = ts.reference(graph, values)
    for name, value in zip(by, wanted, strict=True):
        np.testing.assert_allclose(found[f"d.{name}"], value.numpy(), rtol=1e-3, atol=1e-5, err_msg=name)


def test_stated_refusals() -> None:
    b = ts.GraphBuilder("pages")
    q, k = b.input("q", (1, 2, 1, 8)), b.input("k", (4, 2, 4, 8))
    b.output(b.attention(q, k, k, pages=b.input("pages", (1, 2), "i32")), "y")
    with pytest.raises(ts.UserError, match="page table"):
        ts.gradient(b.build(), "y", ["q"])
    b = ts.GraphBuilder("kinds")
    x, w = b.input("x", (4, 4)), b.input("w", (4, 4))
    b.output(b.op("cumulative", x, dim=0, combiner="add"), "sums")
    b.output(b.apply("erf", x), "erf")
    graph = b.build()
    with pytest.raises(ts.UserError, match="kind 'cumulative'"):
        ts.gradient(graph, "sums", ["x"])
    with pytest.raises(ts.UserError, match="function 'erf'"):
        ts.gradient(graph, "erf", ["x"])
    with pytest.raises(ts.UserError, match="depends on none of the inputs"):
        ts.gradient(graph, "erf", ["w"])
    with pytest.raises(ts.UserError, match="Did you mean 'erf'"):
        ts.gradient(graph, "erv", ["x"])
    with pytest.raises(ts.UserError, match="unknown tensor"):
        ts.gradient(graph, "erf", ["v"])
    with pytest.raises(ts.UserError, match=r"'layers.0.weight'.*in its place"):
        ts.gradient(ts.models.mlp(), "y", ["layers.0.weight"])
    assert w.shape == (4, 4)
