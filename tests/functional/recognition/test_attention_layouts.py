"""Attention in any order of axes: several batch axes, heads that share keys, products either way round, masks that are
broadcast along any axes. What recognition makes of it is compared with numpy."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.patterns import kinds

CASES = 60


def shuffled(random_: random.Random, letters: str) -> str:
    return "".join(random_.sample(letters, len(letters)))


def product(b: Any, x: Any, y: Any, of_x: str, of_y: str, shared: str, summed: str) -> tuple[Any, str]:
    """x by y: axes of both first, then those of x alone, then those of y alone."""
    result = b.op(
        "contract", x, y, a_batch=[of_x.index(a) for a in shared], b_batch=[of_y.index(a) for a in shared],
        a_contract=[of_x.index(summed)], b_contract=[of_y.index(summed)],
    )  # fmt: skip
    alone = [a for a in of_x + of_y if a not in shared and a != summed]
    return result, shared + "".join(alone)


class Case:
    """An attention with random axes, extents of 1 among them."""

    def __init__(self, seed: int) -> None:
        r = self.random = random.Random(seed)
        self.batch = shuffled(r, "bhg")[: r.randint(0, 3)]
        self.groups = "m" if r.random() < 0.5 else ""  # heads that share keys
        self.extent = {a: r.choice((1, 2, 3)) for a in "bhgm"}
        self.extent |= {"s": r.choice((1, 2, 5)), "t": r.randint(2, 6), "d": r.choice((1, 4)), "e": r.choice((1, 3))}
        self.q = shuffled(r, self.batch + self.groups + "sd")
        self.k = shuffled(r, self.batch + "td")
        self.v = shuffled(r, self.batch + "te")
        self.graph()

    def shape(self, letters: str) -> list[int]:
        return [self.extent[a] for a in letters]

    def graph(self) -> None:
        r, b = self.random, ts.GraphBuilder("attention")
        q, k, v = (b.input(name, self.shape(getattr(self, name))) for name in "qkv")
        shared = shuffled(r, self.batch)
        both = (q, k, self.q, self.k) if r.random() < 0.6 else (k, q, self.k, self.q)
        scores, self.order = product(b, *both, shared, "d")
        self.scale = r.choice((0.25, 1.0))
        scores = scores * self.scale if self.scale != 1 else scores
        if r.random() < 0.3:
            turned = shuffled(r, self.order)
            scores = scores.transpose(*(self.order.index(a) for a in turned))
            self.order = turned
        self.mask = [self.extent[a] if r.random() < 0.6 else 1 for a in self.order] if r.random() < 0.8 else None
        if self.mask is not None:
            while len(self.mask) > 1 and self.mask[0] == 1 and r.random() < 0.5:
                del self.mask[0]
            scores = scores + b.input("mask", self.mask)
        weights = b.op("softmax", scores, dim=self.order.index("t"))
        shared = shuffled(r, self.batch)
        both = (weights, v, self.order, self.v) if r.random() < 0.6 else (v, weights, self.v, self.order)
        y, self.y = product(b, *both, shared, "t")
        b.output(y)
        self.built = b.build()

    def wanted(self, given: dict[str, np.ndarray]) -> np.ndarray:
        wide = {name: array.astype(np.float64) for name, array in given.items()}
        scores = np.einsum(f"{self.q},{self.k}->{self.order}", wide["q"], wide["k"]) * self.scale
        scores = scores + wide.get("mask", 0.0)
        axis = self.order.index("t")
        weights = np.exp(scores - scores.max(axis, keepdims=True))
        weights /= weights.sum(axis, keepdims=True)
        return np.einsum(f"{self.order},{self.v}->{self.y}", weights, wide["v"])


def recognized(seed: int) -> bool:
    """Compares a case; whether it became one operation."""
    case = Case(seed)
    draw = np.random.default_rng(seed)
    given = {row["name"]: draw.standard_normal(row["shape"]).astype(np.float32) for row in case.built.inputs}
    after = case.built.copy()
    ts.optimize(after)
    for graph in (case.built, after):
        (got,) = ts.reference(graph, given).values()
        np.testing.assert_allclose(got, case.wanted(given), rtol=1e-4, atol=1e-5, err_msg=f"seed {seed}")
    return "attention" in kinds(after)


def test_random_layouts() -> None:
    found = sum(recognized(seed) for seed in range(CASES))
    assert found >= CASES // 2


@pytest.mark.slow
def test_2000_random_layouts() -> None:
    assert sum(recognized(seed) for seed in range(CASES, CASES + 2000)) >= 1000
