"""Gather and scatter of StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._core import Unsupported
from ...graph.tensor import Tensor
from .bodies import combiner_of
from .movement import each
from .scope import Scope, Value, handles
from .types import integers


def with_batching(scope: Scope, indices: Tensor, vector_dim: int, batching: Sequence[int]) -> tuple[Tensor, int]:
    """Indices whose vectors also name the position along their own batch axes; the new vector dim is the last."""
    parts = indices if vector_dim < indices.ndim else scope.reshape(indices, [*indices.shape, 1])
    order = [axis for axis in range(parts.ndim) if axis != vector_dim] + [vector_dim]
    parts = scope.transpose(parts, order)
    vectors = [parts]
    for axis in batching:
        moved = axis - (1 if axis > vector_dim else 0)
        vectors.append(scope.op("iota", shape=[*parts.shape[:-1], 1], dtype=parts.dtype, dim=moved))
    return scope.concat(vectors, parts.ndim - 1), parts.ndim - 1


def rows(scope: Scope, x: Tensor, indices: Tensor, n: dict[str, Any], sizes: Sequence[int]) -> Tensor | None:
    """A gather of whole rows, as a lookup in a table of clamped indices; None for any other."""
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
    """Batching axes become components of the index vectors."""
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
        known = scope.array(scope.real(op.operands[2]))
        if known is None:
            raise Unsupported("a gather whose size depends on data: export with static shapes")
        sizes = [int(value) for value in known]
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

    return [each(scope.value(op.operands[0]), move)]


@handles("stablehlo.scatter")
def scatter(scope: Scope, op: Any) -> Sequence[Value]:
    """Updates meet in x by a combiner that is recognised in the body; one that leaves x is dropped."""
    from jaxlib.mlir.dialects import stablehlo

    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    operands = scope.operands(op)
    count = len(operands) // 2
    indices, vector_dim = operands[count], numbers.index_vector_dim
    inserted, targets = list(numbers.inserted_window_dims), list(numbers.scattered_dims_to_operand_dims)
    batching = list(numbers.input_batching_dims)
    if batching:
        indices, vector_dim = with_batching(scope, indices, vector_dim, list(numbers.scatter_indices_batching_dims))
        targets, inserted = targets + batching, sorted(inserted + batching)
    results = []
    for i in range(count):
        combiner = combiner_of(op.regions[0].blocks[0], i, count, replace=True)
        if combiner is None:
            raise Unsupported("a scatter whose body is no sum, product, extreme or replacement")
        x, updates = operands[i], operands[count + 1 + i]
        if combiner == "subtract":
            updates, combiner = scope.apply("negate", updates), "add"
        if x.dtype == "bool":
            combiner = {"add": "maximum", "multiply": "minimum"}.get(combiner, combiner)
        combiner = {"logical_or": "maximum", "logical_and": "minimum"}.get(combiner, combiner)
        results.append(
            scope.op(
                "scatter",
                x,
                indices,
                updates,
                update_window_dims=list(numbers.update_window_dims),
                inserted_window_dims=inserted,
                scatter_dims_to_operand_dims=targets,
                index_vector_dim=vector_dim,
                combiner=combiner,
            )
        )
    return results
