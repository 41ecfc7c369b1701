"""Random chains of operations on tensors with axes of extent 1 (and, when asked for, 0), with their meaning in numpy.

Integers are exact. Floats take smooth functions only: nothing jumps where a last bit differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilesim as ts

Random = np.random.Generator
Step = tuple[Any, np.ndarray]

UNARY: dict[str, dict[str, Callable[[Any], Any]]] = {
    "f32": {"tanh": np.tanh, "negate": np.negative, "abs": np.abs, "sin": np.sin},
    "i32": {"negate": np.negative, "abs": np.abs, "sign": np.sign, "bitwise_not": np.invert},
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
REDUCE: dict[str, Callable[..., Any]] = {
    "add": np.sum,
    "maximum": np.max,
    "minimum": np.min,
    "multiply": np.prod,
    "mean": np.mean,
}


@dataclass
class Chain:
    """A graph, what it is called with, and what numpy gives."""

    graph: ts.Graph
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    steps: list[str]
    multiplies: bool  #: floats on arrays, which some machines do not and others do with narrower operands


def _same(x: np.ndarray, dtype: str) -> np.ndarray:
    return x.astype(np.float64 if dtype == "f32" else np.int32)


class _Maker:
    def __init__(self, random: Random, extents: list[int]) -> None:
        self.random, self.extents = random, extents
        self.dtype = str(random.choice(["f32", "f32", "i32"]))
        self.builder = ts.GraphBuilder("chain")
        self.inputs: dict[str, np.ndarray] = {}
        self.pool: list[Step] = []
        self.steps: list[str] = []

    def one(self, values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def several(self, rank: int) -> list[int]:
        """Some axes, mostly one."""
        count = min(rank, int(self.one([1, 1, 1, 2, 2, 3])))
        return sorted(int(axis) for axis in self.random.choice(rank, count, replace=False))

    def input(self, shape: list[int]) -> Step:
        name = f"x{len(self.inputs)}"
        if self.dtype == "f32":
            data = self.random.standard_normal(shape).astype(np.float32)
        else:
            data = self.random.integers(-9, 10, shape).astype(np.int32)
        self.inputs[name] = data
        return self.builder.input(name, shape, self.dtype), _same(data, self.dtype)

    def op(self, kind: str, *operands: Any, **attributes: Any) -> Any:
        shapes = [tuple(x.shape) for x in operands]
        self.steps.append(f"{kind} {shapes} {attributes}")
        return self.builder.op(kind, *operands, **attributes)

    def bounded(self, step: Step) -> Step:
        """Numbers that no further step makes large."""
        if self.dtype != "f32" or step[1].size == 0 or np.abs(step[1]).max() < 4:
            return step
        return self.op("elementwise", step[0], function="tanh"), np.tanh(step[1])

    def reduce(self, x: Any, known: np.ndarray) -> Step | None:
        dims, keep = self.several(known.ndim), bool(self.random.random() < 0.7)
        combiner = str(self.one(sorted(set(REDUCE) - ({"mean"} if self.dtype == "i32" else set()))))
        empty = 0 in [known.shape[d] for d in dims]
        if empty and combiner in ("maximum", "minimum", "mean"):
            combiner = "add"
        extra = {"dtype": np.int32} if self.dtype == "i32" and combiner in ("add", "multiply") else {}
        result = REDUCE[combiner](known, axis=tuple(dims), keepdims=keep, **extra)
        return self.op("reduce", x, dims=dims, combiner=combiner, keep_dims=keep), np.asarray(result)

    def unary(self, x: Any, known: np.ndarray) -> Step:
        name = str(self.one(sorted(UNARY[self.dtype])))
        return self.op("elementwise", x, function=name), UNARY[self.dtype][name](known)

    def binary(self, x: Any, known: np.ndarray) -> Step | None:
        other = [step for step in self.pool if _broadcasts(step[1].shape, known.shape)]
        y, theirs = self.one(other)
        name = str(self.one(sorted(BINARY)))
        return self.op("elementwise", x, y, function=name), BINARY[name](known, theirs)

    def broadcast(self, x: Any, known: np.ndarray) -> Step:
        shape = [int(self.one([1, 3, 33])) if extent == 1 else extent for extent in known.shape]
        return self.builder.broadcast(x, shape), np.broadcast_to(known, shape)

    def rows(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "f32":
            return None
        axis = int(self.random.integers(known.ndim))
        if known.shape[axis] == 0 and self.random.random() < 0.5:
            return None
        kind = str(self.one(["softmax", "log_softmax", "layer", "rms"]))
        if kind in ("layer", "rms"):
            y = self.op("normalize", x, mode=kind, dims=[axis], epsilon=0.25)
            count = known.shape[axis] or 1
            centred = known - (known.sum(axis, keepdims=True) / count if kind == "layer" else 0)
            return y, centred / np.sqrt((centred**2).sum(axis, keepdims=True) / count + 0.25)
        if known.size == 0:
            return self.op(kind, x, dim=axis), known
        shifted = known - known.max(axis, keepdims=True)
        log = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
        return self.op(kind, x, dim=axis), log if kind == "log_softmax" else np.exp(log)

    def scan(self, x: Any, known: np.ndarray) -> Step:
        axis, reverse = int(self.random.integers(known.ndim)), bool(self.random.integers(2))
        combiner, function = self.one([("add", np.cumsum), ("maximum", np.maximum.accumulate)])
        given = np.flip(known, axis) if reverse else known
        result = _same(function(given, axis=axis), self.dtype)
        y = self.op("cumulative", x, dim=axis, combiner=combiner, reverse=reverse)
        return y, np.flip(result, axis) if reverse else result

    def window(self, x: Any, known: np.ndarray) -> Step | None:
        if 0 in known.shape:
            return None
        window = [int(self.random.integers(1, min(extent, 3) + 1)) for extent in known.shape]
        views = np.lib.stride_tricks.sliding_window_view(known, window)
        axes = tuple(range(known.ndim, 2 * known.ndim))
        combiner = str(self.one(["add", "maximum"]))
        y = self.op("window_reduce", x, window=window, combiner=combiner)
        return y, _same(REDUCE[combiner](views, axis=axes), self.dtype)

    def movement(self, x: Any, known: np.ndarray) -> Step | None:
        axis = int(self.random.integers(known.ndim))
        choice = int(self.random.integers(6))
        if choice == 0:
            order = [int(v) for v in self.random.permutation(known.ndim)]
            return self.op("transpose", x, permutation=order), known.transpose(order)
        if choice == 1:
            shape = [v for v in known.shape if v != 1] if self.random.integers(2) else [*known.shape, 1]
            return self.op("reshape", x, shape=shape), known.reshape(shape)
        if choice == 2:
            return self.op("concat", x, x, dim=axis), np.concatenate([known, known], axis)
        if choice == 3:
            start = int(self.random.integers(known.shape[axis] + 1)) // 2
            key = [slice(start if i == axis else 0, extent) for i, extent in enumerate(known.shape)]
            y = self.op("slice", x, start=[k.start for k in key], limit=list(known.shape), stride=[1] * known.ndim)
            return y, known[tuple(key)]
        if choice == 4:
            low = [int(i == axis) for i in range(known.ndim)]
            y = self.op("pad", x, low=low, high=[0] * known.ndim)
            return y, np.pad(known, [(v, 0) for v in low])
        if self.dtype == "i32":
            return self.op("sort", x, dim=axis), np.sort(known, axis)
        return self.op("reverse", x, dims=[axis]), np.flip(known, axis)

    def product(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "f32" or known.ndim < 1 or known.size > 2000:
            return None
        axis = int(self.random.integers(known.ndim))
        y = self.op("contract", x, x, a_contract=[axis], b_contract=[axis])
        return y, np.tensordot(known, known, ([axis], [axis]))

    def indices(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "i32":
            return None
        axis = int(self.random.integers(known.ndim))
        if known.shape[axis] == 0:
            return None
        y = self.op("reduce", x, dims=[axis], combiner="argmax", keep_dims=True)
        return self.op("convert", y, dtype="i32"), np.argmax(known, axis, keepdims=True).astype(np.int32)

    def step(self) -> None:
        candidates = [step for step in self.pool if step[1].ndim > 0]
        x, known = self.one(candidates[-2:] if candidates and self.random.random() < 0.7 else candidates)
        makes = [self.reduce] * 5 + [self.binary] * 3 + [self.unary, self.broadcast, self.rows, self.rows, self.scan]
        makes += [self.window, self.movement, self.movement, self.product, self.indices]
        made = self.one(makes)(x, known)
        if made is None or made[1].size > 4000 or made[1].ndim > 5:
            return
        self.pool.append(self.bounded(made))


def _broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True


def random_chain(random: Random, zeros: bool = False) -> Chain:
    """A chain of up to ten operations.

    Args:
        random: Of everything.
        zeros: Whether axes without elements occur.

    Returns:
        The graph with every value that nobody reads among its outputs.
    """
    extents = [1, 1, 1, 2, 3, 5, 17, 33] + ([0, 0] if zeros else [])
    maker = _Maker(random, extents)
    rank = int(random.integers(1, 5))
    shape = [int(maker.one(extents)) for _ in range(rank)]
    maker.pool.append(maker.input(shape))
    maker.pool.append(maker.input([1 if random.integers(2) else extent for extent in shape]))
    with np.errstate(over="ignore"):
        for _ in range(int(random.integers(2, 11))):
            maker.step()
    outputs = {}
    for i, (tensor, known) in enumerate(maker.pool[-3:]):
        maker.builder.output(maker.op("copy", tensor) if i < 2 else tensor, f"y{i}")
        outputs[f"y{i}"] = known
    multiplies = any(step.startswith("contract") for step in maker.steps)
    return Chain(maker.builder.build(), maker.inputs, outputs, maker.steps, multiplies)
