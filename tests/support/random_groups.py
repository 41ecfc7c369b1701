"""Random graphs in which much can become one kernel: branches, products, reductions, views, several readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tilesim as ts

#: exact on small integers, so that sums in any order have the same bits
UNARY = ("relu", "abs", "negate")
BINARY = ("add", "subtract", "maximum", "minimum")
STEPS = ("unary", "binary", "binary", "spread", "product", "reduce", "view", "quantized")


class _Grower:
    def __init__(self, seed: int, sizes: Sequence[int]) -> None:
        self.random = np.random.default_rng(seed)
        self.b = ts.GraphBuilder(f"groups{seed}")
        self.rows, self.columns = (int(self.random.choice(sizes)) for _ in range(2))
        shape = [self.rows, self.columns]
        self.values: list[Any] = [self.b.input("x0", shape), self.b.input("x1", shape)]
        self.inputs = 0

    def pick(self) -> Any:
        """Late values more often: chains, with some that several read."""
        place = int(len(self.values) * self.random.random() ** 0.5)
        return self.values[min(place, len(self.values) - 1)]

    def input(self, shape: list[int], dtype: str = "f32") -> Any:
        self.inputs += 1
        return self.b.input(f"in{self.inputs}", shape, dtype)

    def limited(self, value: Any) -> Any:
        """Small again: further products stay exact."""
        return self.b.apply("maximum", self.b.apply("minimum", value, self.values[0]), self.values[1])

    def step(self) -> None:
        kind, x, b = str(self.random.choice(STEPS)), self.pick(), self.b
        square = [self.columns, self.columns]
        if kind == "unary":
            made = b.apply(str(self.random.choice(UNARY)), x)
        elif kind == "binary":
            made = b.apply(str(self.random.choice(BINARY)), x, self.pick())
        elif kind == "spread":
            shapes = [[self.columns], [1, self.columns], [self.rows, 1]]
            made = b.apply("maximum", x, self.input(shapes[int(self.random.integers(3))]))
        elif kind == "product":
            made = self.limited(b.matmul(x, self.input(square)))
        elif kind == "quantized":
            scaled = b.apply("maximum", self.input(square, "i8").convert("f32"), self.input([self.columns, 1]))
            made = self.limited(b.matmul(x, scaled))
        elif kind == "reduce":
            combiner = str(self.random.choice(["maximum", "minimum", "add"]))
            top = b.op("reduce", x, combiner=combiner, dims=[1], keep_dims=True)
            made = self.limited(b.apply("add", x, top))
        else:
            turned = b.apply("relu", b.op("reshape", x, shape=[self.columns, self.rows]))
            made = b.op("reshape", turned, shape=[self.rows, self.columns])
        self.values.append(made)


def random_groups(seed: int, steps: int = 8, sizes: Sequence[int] = (1, 2, 7, 8, 33, 130)) -> ts.Graph:
    """Products, elementwise operations, reductions and views; of small integers all results are exact, in any order."""
    grower = _Grower(seed, sizes)
    for _ in range(steps):
        grower.step()
    grower.b.output(grower.values[-1], "y")
    if grower.random.integers(2):
        grower.b.output(grower.b.apply("abs", grower.pick()), "z")
    return grower.b.build()


def small_integers(graph: ts.Graph, seed: int) -> dict[str, np.ndarray]:
    """Inputs of which sums and products are exact in f32."""
    random = np.random.default_rng(seed)
    found = {}
    for row in graph.core.inputs:
        dtype = np.int8 if row["dtype"] == "i8" else np.float32
        found[row["name"]] = random.integers(-2, 3, tuple(row["shape"])).astype(dtype)
    return found
