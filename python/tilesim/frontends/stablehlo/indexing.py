"""Gather and scatter of StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...graph.tensor import Tensor
from .bodies import combiner_of, promoted
from .control import split_captured
from .scope import Complex, Scope, Value, each, flat, handles, rebuilt
from .types import integers


def with_batching(scope: Scope, indices: Tensor, vector_dim: int, batching: Sequence[int]) -> tuple[Tensor, int]:
    """Prepends the positions along batch axes to index vectors, and moves the vector axis to the end."""
    parts = indices if vector_dim < indices.ndim else scope.reshape(indices, [*indices.shape, 1])
    order = [axis for axis in range(parts.ndim) if axis != vector_dim] + [vector_dim]
    parts = scope.transpose(parts, order)
    vectors = [parts]
    for axis in batching:
        moved = axis - (1 if axis > vector_dim else 0)
        vectors.append(scope.op("iota", shape=[*parts.shape[:-1], 1], dtype=parts.dtype, dim=moved))
    return scope.concat(vectors, parts.ndim - 1), parts.ndim - 1


def rows(scope: Scope, x: Tensor, indices: Tensor, n: dict[str, Any], sizes: Sequence[int]) -> Tensor | None:
    """Builds a gather of full rows as an embedding lookup with clamped indices; returns None for other gathers."""
    batch = [extent for axis, extent in enumerate(indices.shape) if axis != n["index_vector_dim"]]
    whole = list(sizes) == [1, *x.shape[1:]] and n["start_index_map"] == [0] and n["collapsed_slice_dims"] == [0]
    trailing = n["offset_dims"] == list(range(len(batch), len(batch) + x.ndim - 1))
    if not (whole and trailing) or x.ndim < 2 or x.shape[0] == 0 or 0 in x.shape[1:]:
        return None
    ids = scope.reshape(indices, batch)
    last = scope.scalar(x.shape[0] - 1, ids.dtype)
    ids = scope.apply("clamp", scope.scalar(0, ids.dtype), ids, last)
    table = scope.reshape(x, _flat(x))
    return scope.reshape(scope.op("embedding", table, ids), [*batch, *x.shape[1:]])


def _flat(x: Tensor) -> list[int]:
    width = 1
    for extent in x.shape[1:]:
        width *= extent
    return [x.shape[0], width]


@handles("stablehlo.gather", "stablehlo.dynamic_gather")
def gather(scope: Scope, op: Any) -> Sequence[Value]:
    """Gathers slices; batching axes become components of the index vectors."""
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    indices = scope.real(op.operands[1])
    n: dict[str, Any] = {
        "offset_dims": list(numbers.offset_dims),
        "collapsed_slice_dims": list(numbers.collapsed_slice_dims),
        "start_index_map": list(numbers.start_index_map),
        "index_vector_dim": numbers.index_vector_dim,
    }
    sizes = integers(op, "slice_sizes")
    if op.name.endswith("dynamic_gather"):
        sizes = scope.sizes(op.operands[2])
    batching = list(numbers.operand_batching_dims)
    if batching:
        indices, n["index_vector_dim"] = with_batching(
            scope, indices, n["index_vector_dim"], list(numbers.start_indices_batching_dims)
        )
        n["start_index_map"] += batching
        n["collapsed_slice_dims"] = sorted(n["collapsed_slice_dims"] + batching)

    def move(x: Tensor) -> Tensor:
        found = rows(scope, x, indices, n, sizes)
        if found is not None:
            return found
        moved: Tensor = scope.op("gather", x, indices, slice_sizes=sizes, mode="clip", **n)
        return moved

    return [each(move, scope.value(op.operands[0]))]


@handles("stablehlo.scatter")
def scatter(scope: Scope, op: Any) -> Sequence[Value]:
    """Combines updates with x by the combiner that the body computes, else runs the body per update; updates outside
    of x are dropped."""
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    count, block = len(op.operands) // 2, op.regions[0].blocks[0]
    indices = scope.real(op.operands[count])
    xs, updates = (
        promoted(scope, block, [scope.value(operand) for operand in part])
        for part in (list(op.operands)[:count], list(op.operands)[count + 1 :])
    )
    vector_dim = numbers.index_vector_dim
    inserted, targets = list(numbers.inserted_window_dims), list(numbers.scattered_dims_to_operand_dims)
    batching = list(numbers.input_batching_dims)
    if batching:
        indices, vector_dim = with_batching(scope, indices, vector_dim, list(numbers.scatter_indices_batching_dims))
        targets, inserted = targets + batching, sorted(inserted + batching)
    n: dict[str, Any] = {
        "update_window_dims": list(numbers.update_window_dims),
        "inserted_window_dims": inserted,
        "scatter_dims_to_operand_dims": targets,
        "index_vector_dim": vector_dim,
    }
    combiners = [combiner_of(block, i, count, replace=True) for i in range(count)]
    parted = [
        name in ("set", "add", "subtract") if isinstance(x, Complex) else name is not None
        for x, name in zip(xs, combiners, strict=True)
    ]
    if not all(parted):
        return sequential_scatter(scope, op, xs, indices, updates, n)

    def combined(x: Tensor, new: Tensor, combiner: str) -> Tensor:
        if combiner == "subtract":
            new, combiner = scope.apply("negate", new), "add"
        if x.dtype == "bool":
            combiner = {"add": "maximum", "multiply": "minimum"}.get(combiner, combiner)
        combiner = {"logical_or": "maximum", "logical_and": "minimum"}.get(combiner, combiner)
        found: Tensor = scope.op("scatter", x, indices, new, combiner=combiner, **n)
        return found

    return [
        each(lambda old, new, name=name: combined(old, new, name), x, update)
        for x, update, name in zip(xs, updates, combiners, strict=True)
    ]


def sequential_scatter(
    scope: Scope, op: Any, xs: list[Value], indices: Tensor, updates: list[Value], n: dict[str, Any]
) -> list[Value]:
    """Loops over update windows in index order; the body combines each window that lies inside x."""
    block, shape = op.regions[0].blocks[0], list(xs[0].shape)
    window, targets = n["update_window_dims"], n["scatter_dims_to_operand_dims"]
    batch = [axis for axis in range(updates[0].ndim) if axis not in window]
    rest = iter(window)
    sizes = [1 if axis in n["inserted_window_dims"] else updates[0].shape[next(rest)] for axis in range(len(shape))]
    count = int(np.prod([updates[0].shape[axis] for axis in batch]))
    if count == 0 or any(size > extent for size, extent in zip(sizes, shape, strict=True)):
        return xs
    if n["index_vector_dim"] < indices.ndim:
        order = [axis for axis in range(indices.ndim) if axis != n["index_vector_dim"]] + [n["index_vector_dim"]]
        indices = scope.transpose(indices, order)
    rows = scope.reshape(indices, [count, len(targets)])
    windows = [
        each(lambda part: scope.reshape(scope.transpose(part, [*batch, *window]), [count, *sizes]), update)
        for update in updates
    ]
    passed, remade = split_captured(scope, [block])
    outer = [scope.value(mlir) for mlir in passed]
    state = [scope.scalar(0, "i32"), *flat(xs), rows, *flat([*windows, *outer])]
    types = [result.type for result in op.results]

    def function(stem: str, build: Callable[[Scope, list[Tensor]], list[Tensor]]) -> str:
        name: str = scope.module.fresh("function." + stem)
        inner = Scope(scope.module, scope.module.root.function(name))
        inputs = [inner.builder.input(f"in{i}", x.shape, x.dtype) for i, x in enumerate(state)]
        for i, tensor in enumerate(build(inner, inputs)):
            kept = tensor.value in {x.value for x in inputs} | set(inner.known)
            inner.builder.output(inner.op("copy", tensor) if kept else tensor, f"out{i}")
        return name

    def step(inner: Scope, given: list[Tensor]) -> list[Tensor]:
        number, mine = given[0], len(flat(xs))
        olds, row = rebuilt(types, given[1 : 1 + mine]), given[1 + mine]
        news = rebuilt(types, given[2 + mine : 2 + 2 * mine])
        values = rebuilt([mlir.type for mlir in passed], given[2 + 2 * mine :])
        inner.values.update(zip(passed, values, strict=True))
        for mlir in remade:
            inner.values[mlir] = inner.constant(scope.array(scope.real(mlir)))
        zero, none = inner.scalar(0, "i32"), inner.scalar(0, rows.dtype)
        vector = inner.op("dynamic_slice", row, number, zero, sizes=[1, len(targets)])
        starts = [none] * len(shape)
        inside = inner.scalar(True, "bool")
        for i, axis in enumerate(targets):
            start = starts[axis] = inner.reshape(inner.along(vector, 1, i, i + 1), [])
            last = inner.scalar(shape[axis] - sizes[axis], rows.dtype)
            fits = inner.apply(
                "logical_and", inner.apply("greater_equal", start, none), inner.apply("less_equal", start, last)
            )
            inside = inner.apply("logical_and", inside, fits)
        parts = [each(lambda x: inner.op("dynamic_slice", x, *starts, sizes=sizes), old) for old in olds]
        zeros = [zero] * len(shape)
        update = [
            each(lambda x: inner.reshape(inner.op("dynamic_slice", x, number, *zeros, sizes=[1, *sizes]), sizes), new)
            for new in news
        ]
        found = inner.inline(block, [*parts, *update])
        kept = [
            each(
                lambda old, part, new: inner.op(
                    "dynamic_update", old, inner.apply("select", inside, inner.broadcast(new, sizes), part), *starts
                ),
                *one,
            )
            for one in zip(olds, parts, found, strict=True)
        ]
        return [inner.apply("add", number, inner.scalar(1, "i32")), *flat(kept), *given[1 + mine :]]

    test = function("condition", lambda inner, given: [inner.apply("less", given[0], inner.scalar(count, "i32"))])
    names = [test, function("body", step)]
    found = scope.builder.core.op("while", [x.value for x in state], {"trips": count}, "", 0, names)
    return rebuilt(types, [Tensor(scope.builder, value) for value in found[1 : 1 + len(flat(xs))]])
