"""Attention with lengths of its rows, a page table and lse: graphs, data with odd cases, and numpy row by row."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import tilesim as ts

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
