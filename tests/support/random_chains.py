"""Random chains of operations on tensors with axes of extent 1 (and, when asked for, 0), with their meaning in numpy.

Integers are exact. Floats take smooth functions only: nothing jumps where a last bit differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
}  # fmt: skip
REDUCE: dict[str, Callable[..., Any]] = {
    "add": np.sum, "maximum": np.max, "minimum": np.min, "multiply": np.prod, "mean": np.mean,
}  # fmt: skip


@dataclass
class Chain:
    """A graph, what it is called with, and what numpy gives."""

    graph: ts.Graph
    inputs: dict[str, np.ndarray]
    outputs: dict[str, np.ndarray]
    steps: list[str]
    multiplies: bool  #: floats on arrays, which some machines do not and others do with narrower operands
    roundings: float = 0  #: of numbers on the way, relative to the largest, besides those of f32


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
        self.roundings = 0.0

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

    def given(self, data: np.ndarray) -> Any:
        """An input that holds these numbers."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = data
        return self.builder.input(name, list(data.shape), str(data.dtype).replace("float", "f").replace("int", "i"))

    def weights(self, shape: Any) -> Step:
        tensor, data = self.input(list(shape))
        return tensor, data

    def op(self, kind: str, *operands: Any, **attributes: Any) -> Any:
        shapes = [tuple(x.shape) for x in operands]
        self.steps.append(f"{kind} {shapes} {attributes}")
        return self.builder.op(kind, *operands, **attributes)

    def bounded(self, step: Step) -> Step:
        """Numbers that no further step makes large."""
        if self.dtype != "f32" or step[1].size == 0 or np.abs(step[1]).max() < 4:
            return step
        return self.op("elementwise", step[0], function="tanh"), np.tanh(step[1])

    def unary(self, x: Any, known: np.ndarray) -> Step:
        name = str(self.one(sorted(UNARY[self.dtype])))
        return self.op("elementwise", x, function=name), UNARY[self.dtype][name](known)

    def binary(self, x: Any, known: np.ndarray) -> Step:
        """With something on the way, maybe itself."""
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
        if self.random.integers(6) == 0:
            made = self.binary(x, known)
        else:
            made = self.make(
                str(self.one([*REDUCTIONS, *EMPTY_TOO] if 0 in known.shape else [*REDUCTIONS, *CHAINED])), x, known
            )
        if made is None:
            return
        self.pool.append(self.bounded(made))

    def reduction(self, combiner: str, x: Any, known: np.ndarray) -> Step | None:
        dims, keep = self.several(known.ndim), bool(self.random.integers(2))
        empty = 0 in [known.shape[d] for d in dims]
        if ((self.dtype == "i32" or empty) and combiner == "mean") or (empty and combiner in ("maximum", "minimum")):
            return None
        extra = {"dtype": np.int32} if self.dtype == "i32" and combiner in ("add", "multiply") else {}
        result = REDUCE[combiner](known, axis=tuple(dims), keepdims=keep, **extra)
        return self.op("reduce", x, dims=dims, combiner=combiner, keep_dims=keep), np.asarray(result)

    def running(self, combiner: str, x: Any, known: np.ndarray) -> Step:
        axis, reverse = int(self.random.integers(known.ndim)), bool(self.random.integers(2))
        exclusive = combiner == "add" and bool(self.random.integers(3) == 0)
        turned = np.flip(known, axis) if reverse else known
        result = _same(BINARY[combiner].accumulate(turned, axis=axis, dtype=known.dtype), self.dtype)  # type: ignore
        result = result - turned if exclusive else result
        y = self.op("cumulative", x, dim=axis, combiner=combiner, reverse=reverse, exclusive=exclusive)
        return y, np.flip(result, axis) if reverse else result

    def pool(self, combiner: str, x: Any, known: np.ndarray) -> Step:
        window = [int(self.random.integers(1, min(extent, 3) + 1)) for extent in known.shape]
        strides = [int(self.one([1, 1, 2])) for _ in window]
        pads = [(int(self.random.integers(w)), int(self.random.integers(w))) for w in window]
        lowest = -np.inf if self.dtype == "f32" else np.iinfo(np.int32).min
        wide = np.pad(known, pads, constant_values=0 if combiner == "add" else lowest)
        views = np.lib.stride_tricks.sliding_window_view(wide, window)[tuple(slice(None, None, s) for s in strides)]
        flat = [v for pair in pads for v in pair]
        y = self.op("window_reduce", x, window=window, strides=strides, pads=flat, combiner=combiner)
        return y, _same(REDUCE[combiner](views, axis=tuple(range(known.ndim, 2 * known.ndim))), self.dtype)

    def transpose(self, x: Any, known: np.ndarray) -> Step:
        order = [int(v) for v in self.random.permutation(known.ndim)]
        return self.op("transpose", x, permutation=order), known.transpose(order)

    def reshape(self, x: Any, known: np.ndarray) -> Step:
        shape = self.one([[v for v in known.shape if v != 1], [*known.shape, 1], [known.size], list(known.shape[::-1])])
        return self.op("reshape", x, shape=shape), known.reshape(shape)

    def concat(self, x: Any, known: np.ndarray) -> Step:
        axis = int(self.random.integers(known.ndim))
        y, theirs = self.weights([2 if i == axis else extent for i, extent in enumerate(known.shape)])
        return self.op("concat", x, y, dim=axis), np.concatenate([known, theirs], axis)

    def part(self, x: Any, known: np.ndarray) -> Step:
        start = [int(self.random.integers(extent)) for extent in known.shape]
        stride = [int(self.one([1, 2])) for _ in start]
        y = self.op("slice", x, start=start, limit=list(known.shape), stride=stride)
        return y, known[tuple(slice(a, None, s) for a, s in zip(start, stride, strict=True))]

    def padding(self, x: Any, known: np.ndarray) -> Step:
        low, high = ([int(self.random.integers(3)) for _ in known.shape] for _ in range(2))
        mode = str(self.one(["constant", "edge"]))
        y = self.op("pad", x, low=low, high=high, mode=mode)
        return y, np.pad(known, list(zip(low, high, strict=True)), mode=mode)  # type: ignore

    def reverse(self, x: Any, known: np.ndarray) -> Step:
        dims = self.several(known.ndim)
        return self.op("reverse", x, dims=dims), np.flip(known, dims)

    def sort(self, x: Any, known: np.ndarray) -> Step:
        axis, descending = int(self.random.integers(known.ndim)), bool(self.random.integers(2))
        result = np.sort(known, axis)
        return self.op("sort", x, dim=axis, descending=descending), np.flip(result, axis) if descending else result

    def top_k(self, x: Any, known: np.ndarray) -> Step:
        axis = int(self.random.integers(known.ndim))
        k = int(self.random.integers(1, known.shape[axis] + 1))
        values = self.op("top_k", x, dim=axis, k=k, dtype="i32", results=2)[0]
        return values, np.flip(np.sort(known, axis), axis).take(range(k), axis)

    def take(self, x: Any, known: np.ndarray) -> Step | None:
        if known.ndim != 2:
            return None
        ids = self.random.integers(0, known.shape[0], int(self.one([1, 2, 3, 5]))).astype(np.int32)
        return self.op("embedding", x, self.given(ids)), known[ids]

    def gather(self, x: Any, known: np.ndarray) -> Step:
        rows = self.random.integers(0, known.shape[0], (int(self.one([1, 2, 3, 5])), 1)).astype(np.int32)
        y = self.op("gather", x, self.given(rows), index_vector_dim=1, offset_dims=list(range(1, known.ndim)),
                    collapsed_slice_dims=[0], start_index_map=[0], slice_sizes=[1, *known.shape[1:]])  # fmt: skip
        return y, known[rows[:, 0]]

    def scatter(self, x: Any, known: np.ndarray) -> Step:
        rows = self.random.integers(0, known.shape[0], (int(self.one([1, 2, 3, 5])), 1)).astype(np.int32)
        updates, theirs = self.weights([len(rows), *known.shape[1:]])
        y = self.op("scatter", x, self.given(rows), updates, update_window_dims=list(range(1, known.ndim)),
                    inserted_window_dims=[0], scatter_dims_to_operand_dims=[0], index_vector_dim=1,
                    combiner="add")  # fmt: skip
        result = known.copy()
        np.add.at(result, rows[:, 0], theirs)
        return y, result

    def _corner(self, known: np.ndarray) -> tuple[list[int], list[int], list[Any]]:
        sizes = [int(self.random.integers(1, extent + 1)) for extent in known.shape]
        start = [int(self.random.integers(e - s + 1)) for e, s in zip(known.shape, sizes, strict=True)]
        return sizes, start, [self.given(np.array(s, np.int32)) for s in start]

    def dynamic_slice(self, x: Any, known: np.ndarray) -> Step:
        sizes, start, at = self._corner(known)
        y = self.op("dynamic_slice", x, *at, sizes=sizes)
        return y, known[tuple(slice(a, a + s) for a, s in zip(start, sizes, strict=True))]

    def dynamic_update(self, x: Any, known: np.ndarray) -> Step:
        sizes, start, at = self._corner(known)
        part, theirs = self.weights(sizes)
        result = known.copy()
        result[tuple(slice(a, a + s) for a, s in zip(start, sizes, strict=True))] = theirs
        return self.op("dynamic_update", x, part, *at), result

    def contract(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "f32":
            return None
        axis = int(self.random.integers(known.ndim))
        w, theirs = self.weights([known.shape[axis], int(self.one([1, 2, 3, 5]))])
        if self.random.integers(2):
            y = self.op("contract", x, w, a_contract=[axis], b_contract=[0])
            return y, np.tensordot(known, theirs, ([axis], [0]))
        return self.op("contract", w, x, a_contract=[0], b_contract=[axis]), np.tensordot(theirs, known, ([0], [axis]))

    def convolution(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "f32" or known.ndim != 3:
            return None
        width, pad = int(self.random.integers(1, min(known.shape[2], 3) + 1)), int(self.random.integers(2))
        w, theirs = self.weights([int(self.one([1, 2, 3, 5])), known.shape[1], width])
        y = self.op("convolution", x, w, x_labels="NCW", w_labels="OIW", y_labels="NCW", pads=[pad, pad])
        views = np.lib.stride_tricks.sliding_window_view(np.pad(known, [(0, 0), (0, 0), (pad, pad)]), width, 2)
        return y, np.einsum("ncpw,ocw->nop", views, theirs)

    def solve(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "f32" or known.ndim < 2:
            return None
        n = known.shape[-2]
        a = np.tril(self.random.standard_normal((*known.shape[:-2], n, n)) / 4, -1) + 2 * np.eye(n)
        given = self.given(a.astype(np.float32))
        y = self.op("linear_solve", given, x, mode="triangular", lower=True)
        return y, np.linalg.solve(self.inputs[next(reversed(self.inputs))].astype(np.float64), known)

    def attention(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "f32" or known.ndim != 4:
            return None
        causal = bool(self.random.integers(2))
        y = self.op("attention", x, x, x, causal=causal)
        scores = known @ known.swapaxes(-1, -2) / np.sqrt(known.shape[-1])
        scores = np.where(np.tri(known.shape[2], dtype=bool) | (not causal), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return y, weights / weights.sum(-1, keepdims=True) @ known

    def select(self, x: Any, known: np.ndarray) -> Step:
        y, theirs = self.weights([int(self.one([1, extent])) for extent in known.shape])
        chosen = self.random.integers(0, 2, known.shape).astype(np.int32)
        mask = self.op("convert", self.given(chosen), dtype="bool")
        other = self.builder.broadcast(y, list(known.shape))
        return self.op("elementwise", mask, x, other, function="select"), np.where(chosen, known, theirs)

    def with_row(self, x: Any, known: np.ndarray) -> Step:
        """With an operand that spans some axes only."""
        y, theirs = self.bounded(self.unary(*self.weights([int(self.one([1, extent])) for extent in known.shape])))
        name = str(self.one(sorted(BINARY)))
        operands, values = ((x, y), (known, theirs)) if self.random.integers(2) else ((y, x), (theirs, known))
        return self.op("elementwise", *operands, function=name), BINARY[name](*values)

    def iota(self, x: Any, known: np.ndarray) -> Step:
        axis = int(self.random.integers(known.ndim))
        shape = [int(self.one([1, extent, extent])) for extent in known.shape]
        y = self.op("iota", shape=shape, dtype=self.dtype, dim=axis)
        counted = np.indices(shape)[axis].astype(known.dtype)
        return self.op("elementwise", x, y, function="add"), known + counted

    def batch_norm(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "f32" or known.ndim < 2:
            return None
        axis = int(self.random.integers(known.ndim))
        count = known.shape[axis]
        scale, bias, mean = (self.weights([count]) for _ in range(3))
        spread = self.random.random(count).astype(np.float32) + 0.5
        y = self.op("batch_norm", x, scale[0], bias[0], mean[0], self.given(spread), feature_dim=axis, epsilon=0.25)
        along = [count if i == axis else 1 for i in range(known.ndim)]
        s, b, m, v = (value.reshape(along) for value in (scale[1], bias[1], mean[1], spread.astype(np.float64)))
        return y, (known - m) / np.sqrt(v + 0.25) * s + b

    def narrow(self, x: Any, known: np.ndarray) -> Step | None:
        if self.dtype != "f32":
            return None
        if any(not step.startswith("transpose") for step in self.steps):  # a last bit may turn it
            self.roundings = 2.0**-7
        bits = known.astype(np.float32).view(np.uint32)
        rounded = (bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        return self.op("convert", self.op("convert", x, dtype="bf16"), dtype="f32"), rounded.astype(np.float64)

    def make(self, kind: str, x: Any, known: np.ndarray) -> Step | None:
        """A step of this kind; none where the tensor has not the rank or type for it."""
        made = KINDS[kind](self, x, known) if known.ndim > 0 else None
        return None if made is None or made[1].size > 4000 or made[1].ndim > 5 else made

    def pair(self, step: Step, kinds: tuple[str, str]) -> Step | None:
        """The two kinds, with transposes before, between and behind now and then; none where one is not possible."""
        for kind in (*kinds, ""):
            if step[1].ndim > 1 and self.random.integers(2):
                step = self.transpose(*step)
            made = self.make(kind, *step) if kind else step
            if made is None:
                return None
            step = self.bounded(made)
            self.pool.append(step)
        return step if self.random.integers(3) else self.bounded(self.binary(*step))


def _with(method: Any, combiner: str) -> Callable[[_Maker, Any, np.ndarray], Step | None]:
    return lambda maker, x, known: method(maker, combiner, x, known)


KINDS: dict[str, Callable[[_Maker, Any, np.ndarray], Step | None]] = {
    **{
        f"{name} {combiner}": _with(method, combiner)
        for name, method, combiners in (
            ("reduce", _Maker.reduction, ["add", "maximum", "minimum", "multiply", "mean"]),
            ("cumulative", _Maker.running, ["add", "maximum", "minimum", "multiply"]),
            ("window", _Maker.pool, ["add", "maximum"]),
        )
        for combiner in combiners
    },
    **{
        name: getattr(_Maker, name)
        for name in (
            "unary", "with_row", "broadcast", "rows", "indices", "transpose", "reshape", "concat", "part", "padding",
            "reverse", "sort", "top_k", "take", "gather", "scatter", "dynamic_slice", "dynamic_update", "contract",
            "convolution", "solve", "attention", "select", "iota", "batch_norm", "narrow",
        )
    },
}  # fmt: skip
REDUCTIONS = [kind for kind in KINDS if kind.startswith("reduce")]
CHAINED = [kind for kind in KINDS if kind != "narrow"]  # whose error what follows may make large
#: Least ranks.
RANKS = {"take": 2, "convolution": 3, "solve": 2, "attention": 4, "batch_norm": 2}
#: Kinds that take axes without elements.
EMPTY_TOO = ["unary", "broadcast", "rows", "transpose", "reshape", "concat", "reverse", "sort", "cumulative add"]


def _broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return False
    return True


def random_chain(random: Random, zeros: bool = False) -> Chain:
    """A chain of up to ten operations; every value that nobody reads is an output."""
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
    return _chain(maker, outputs)


def _chain(maker: _Maker, outputs: dict[str, np.ndarray]) -> Chain:
    multiplies = any(step.split()[0] in ("contract", "convolution", "attention") for step in maker.steps)
    return Chain(maker.builder.build(), maker.inputs, outputs, maker.steps, multiplies, maker.roundings)


def random_pair(
    random: Random, first: str, second: str, extents: Sequence[int] = (1, 2, 3, 5, 5, 8, 17, 40)
) -> Chain | None:
    """One kind of operation behind another; none where no tensor of a few tries fits both."""
    for _ in range(20):
        maker = _Maker(random, list(extents))
        rank = max(int(random.integers(1, 5)), *(RANKS.get(kind, 1) for kind in (first, second)))
        maker.pool.append(maker.input([int(maker.one(maker.extents)) for _ in range(min(rank, 4))]))
        step = maker.pair(maker.pool[0], (first, second))
        if step is not None:
            maker.builder.output(step[0], "y")
            return _chain(maker, {"y": step[1]})
    return None
