"""Reductions, sorting and products of ONNX."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..._core import Unsupported
from ...base.dtypes import FLOATS
from ...base.errors import user_error
from ...graph.tensor import Tensor
from .scope import OnnxNode, OnnxScope, Value, axis_of, handles

REDUCE = {
    "ReduceSum": "add",
    "ReduceProd": "multiply",
    "ReduceMax": "maximum",
    "ReduceMin": "minimum",
    "ReduceMean": "mean",
    "ReduceL1": "add",
    "ReduceL2": "add",
    "ReduceSumSquare": "add",
    "ReduceLogSum": "add",
    "ReduceLogSumExp": "add",
}


@handles(*REDUCE)
def reduce(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Reduces over the given axes, or over all."""
    x = scope.get(node, 0)
    axes = scope.integers(node, 1, "the axes") if node.has(1) else node.integers("axes")
    if not axes and node.integer("noop_with_empty_axes"):
        dims: list[int] = []
    else:
        dims = [axis_of(axis, x.ndim, node.place) for axis in axes] if axes else list(range(x.ndim))
    keep = node.integer("keepdims", 1) != 0
    return [reduced(scope, node.op, x, dims, keep)]


def reduced(scope: OnnxScope, name: str, given: Tensor, dims: Sequence[int], keep: bool) -> Tensor:
    """Builds one reduction with the functions before and after it."""
    dtype, x = given.dtype, scope.wide(given)
    if name == "ReduceL1":
        x = scope.apply("abs", x)
    if name in ("ReduceL2", "ReduceSumSquare"):
        x = scope.convert(x, "f64") if name == "ReduceL2" and x.dtype not in FLOATS else x
        x = x * x
    if name == "ReduceLogSumExp":
        top = scope.reduce(x, dims, "maximum")
        finite = scope.apply("select", scope.apply("is_finite", top), top, scope.like(0, top))
        total = scope.reduce(scope.apply("exp", x - finite), dims, "add")
        y = scope.apply("log", total) + finite
        shape = [extent for axis, extent in enumerate(x.shape) if axis not in dims]
        return scope.convert(y if keep else scope.reshape(y, shape), dtype)
    combiner = REDUCE[name]
    if x.dtype == "bool":
        combiner = {"maximum": "logical_or", "minimum": "logical_and"}.get(combiner, combiner)
    y = scope.reduce(x, dims, combiner, keep)
    if name == "ReduceL2":
        y = scope.apply("sqrt", y)
    if name == "ReduceLogSum":
        y = scope.apply("log", y)
    return scope.convert(y, dtype)


@handles("ArgMax", "ArgMin")
def arg(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Finds the first or last index of the extreme element."""
    x = scope.get(node, 0)
    axis, keep = axis_of(node.integer("axis"), x.ndim, node.place), node.integer("keepdims", 1) != 0
    last = node.integer("select_last_index") != 0
    index = scope.reduce(scope.op("reverse", x, dims=[axis]) if last else x, [axis], node.op.lower(), keep, dtype="i64")
    return [scope.apply("subtract", scope.scalar(x.shape[axis] - 1, "i64"), index) if last else index]


@handles("CumSum", "CumProd")
def cumulative(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Computes running sums."""
    x = scope.get(node, 0)
    axis = axis_of(int(scope.numbers(node, 1, "the axis").reshape(-1)[0]), x.ndim, node.place)
    flags = {name: node.integer(name) != 0 for name in ("reverse", "exclusive")}
    return [scope.op("cumulative", x, dim=axis, combiner="add" if node.op == "CumSum" else "multiply", **flags)]


@handles("TopK")
def top_k(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Finds the k largest or smallest elements, in order."""
    x = scope.get(node, 0)
    k = int(scope.numbers(node, 1, "k").reshape(-1)[0]) if node.has(1) else node.integer("k")
    axis = axis_of(node.integer("axis", -1), x.ndim, node.place)
    found: Sequence[Value] = scope.op(
        "top_k", x, results=2, dim=axis, k=k, largest=node.integer("largest", 1) != 0, dtype="i64"
    )
    return found


@handles("Hardmax")
def hardmax(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Sets the first maximum along an axis to one and the rest to zero."""
    x = scope.get(node, 0)
    axis = axis_of(node.integer("axis", -1), x.ndim, node.place)
    index = scope.reduce(x, [axis], "argmax", dtype="i64")
    position = scope.op("iota", shape=list(x.shape), dtype="i64", dim=axis)
    return [scope.convert(scope.apply("equal", position, index), x.dtype)]


@handles("Softmax", "LogSoftmax")
def softmax(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Softmax along one axis; before opset 13 over that axis and all later ones."""
    x = scope.get(node, 0)
    kind = "softmax" if node.op == "Softmax" else "log_softmax"
    if node.opset >= 13:
        return [scope.op(kind, x, dim=axis_of(node.integer("axis", -1), x.ndim, node.place))]
    axis = axis_of(node.integer("axis", 1), x.ndim, node.place)
    flat = scope.reshape(x, [int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))])
    return [scope.reshape(scope.op(kind, flat, dim=1), x.shape)]


@handles("MatMul")
def matmul(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Multiplies as numpy's matmul; integers keep their dtype."""
    a, b = scope.operands(node)
    product = scope.builder.matmul(a, b)
    return [scope.convert(product, a.dtype)]


@handles("Gemm")
def gemm(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Computes alpha a b + beta c."""
    a, b, c = scope.get(node, 0), scope.get(node, 1), scope.get(node, 2)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if c is not None and beta != 1.0:
        c = scope.apply("multiply", c, scope.like(beta, c))
    bias = [c] if c is not None and alpha == 1.0 else []
    y: Tensor = scope.op(
        "contract",
        a,
        b,
        *bias,
        a_contract=[0 if node.integer("transA") else 1],
        b_contract=[1 if node.integer("transB") else 0],
        dtype=a.dtype,
    )
    if alpha != 1.0:
        y = scope.apply("multiply", y, scope.like(alpha, y))
        y = scope.apply("add", y, c) if c is not None else y
    return [y]


@handles("Einsum")
def einsum(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Contracts the operands one after the other."""
    text = node.text("equation").replace(" ", "")
    left, arrow, right = text.partition("->")
    terms, tensors = left.split(","), scope.operands(node)
    if len(terms) != len(tensors):
        raise user_error("the equation does not fit its operands", place=node.place, value=text)
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in text]
    extra = max((x.ndim - len(term.replace("...", "")) for x, term in zip(tensors, terms, strict=True)), default=0)
    dots = "".join(free[:extra])

    def spelled(term: str, rank: int) -> str:
        count = rank - len(term.replace("...", ""))
        return term.replace("...", dots[len(dots) - count :])

    terms = [spelled(term, x.ndim) for x, term in zip(tensors, terms, strict=True)]
    if arrow:
        output = right.replace("...", dots)
    else:
        letters = "".join(terms)
        output = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in dots))
    labels, x = diagonal(scope, terms[0], tensors[0])
    for i, (term, tensor) in enumerate(zip(terms[1:], tensors[1:], strict=True)):
        needed = set(output).union(*map(set, terms[i + 2 :]))
        other, y = diagonal(scope, term, tensor)
        labels, x = pair(scope, (labels, x), (other, y), needed)
    return [arranged(scope, labels, x, output)]


def diagonal(scope: OnnxScope, term: str, x: Tensor) -> tuple[str, Tensor]:
    """Takes the diagonal over each letter that occurs twice in a term."""
    while len(set(term)) < len(term):
        letter = next(c for c in term if term.count(c) > 1)
        first, second = [i for i, c in enumerate(term) if c == letter][:2]
        rest = [i for i in range(x.ndim) if i not in (first, second)]
        x = scope.transpose(x, [first, second, *rest])
        extent = x.shape[0]
        flat = scope.reshape(x, [extent * extent, *x.shape[2:]])
        x = scope.along(flat, 0, 0, extent * extent, extent + 1)
        term = letter + "".join(term[i] for i in rest)
    return term, x


def pair(scope: OnnxScope, a: tuple[str, Tensor], b: tuple[str, Tensor], needed: set[str]) -> tuple[str, Tensor]:
    """Multiplies two terms, and sums over letters that no later term needs."""
    (p, x), (q, y) = a, b
    for letter in set(p) - set(q) - needed:
        x, p = scope.reduce(x, [p.index(letter)], "add", keep=False), p.replace(letter, "")
    for letter in set(q) - set(p) - needed:
        y, q = scope.reduce(y, [q.index(letter)], "add", keep=False), q.replace(letter, "")
    for letter in set(p) & set(q):  # axes of extent 1 are broadcast
        size = max(x.shape[p.index(letter)], y.shape[q.index(letter)])
        x = scope.broadcast(x, [size if c == letter else e for c, e in zip(p, x.shape, strict=True)])
        y = scope.broadcast(y, [size if c == letter else e for c, e in zip(q, y.shape, strict=True)])
    batch = [c for c in p if c in q and c in needed]
    summed = [c for c in p if c in q and c not in needed]
    result = scope.op(
        "contract",
        x,
        y,
        a_batch=[p.index(c) for c in batch],
        b_batch=[q.index(c) for c in batch],
        a_contract=[p.index(c) for c in summed],
        b_contract=[q.index(c) for c in summed],
        dtype=x.dtype,
    )
    return "".join([*batch, *(c for c in p if c not in q), *(c for c in q if c not in p)]), result


def arranged(scope: OnnxScope, labels: str, x: Tensor, output: str) -> Tensor:
    """Sums over letters that are missing in the output, and orders the other axes."""
    gone = [axis for axis, letter in enumerate(labels) if letter not in output]
    if gone:
        x, labels = scope.reduce(x, gone, "add", keep=False), "".join(c for c in labels if c in output)
    if set(labels) != set(output):
        raise Unsupported(f"an equation whose operands lack letters of its result '{output}'")
    return scope.transpose(x, [labels.index(letter) for letter in output])
