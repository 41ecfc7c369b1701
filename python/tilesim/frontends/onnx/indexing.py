"""Gather and scatter of ONNX."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.tensor import Tensor
from .scope import Node, OnnxScope, Value, axis_of, handles


def vectors(scope: OnnxScope, indices: Tensor, axis: int) -> Tensor:
    """Index vectors of elements: each element's own position, with `indices` in the place of `axis`."""
    shape = [*indices.shape, 1]
    parts = [
        scope.reshape(indices, shape) if dim == axis else scope.op("iota", shape=shape, dtype=indices.dtype, dim=dim)
        for dim in range(indices.ndim)
    ]
    return scope.concat(parts, indices.ndim)


def elements(scope: OnnxScope, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Elements of x at positions along one axis."""
    result: Tensor = scope.op(
        "gather",
        x,
        vectors(scope, indices, axis),
        offset_dims=[],
        collapsed_slice_dims=list(range(x.ndim)),
        start_index_map=list(range(x.ndim)),
        index_vector_dim=x.ndim,
        slice_sizes=[1] * x.ndim,
        mode="clip",
    )
    return result


@handles("Gather")
def gather(scope: OnnxScope, node: Node) -> Sequence[Value]:
    """Slices of one axis."""
    x, indices = scope.operands(node)
    axis = axis_of(node.integer("axis"), x.ndim, node.place)
    return [scope.take(x, scope.wrapped(indices, x.shape[axis]), axis)]


@handles("GatherElements")
def gather_elements(scope: OnnxScope, node: Node) -> Sequence[Value]:
    """Elements along one axis."""
    x, indices = scope.operands(node)
    axis = axis_of(node.integer("axis"), x.ndim, node.place)
    return [elements(scope, x, scope.wrapped(indices, x.shape[axis]), axis)]


def wrapped_vectors(scope: OnnxScope, indices: Tensor, extents: Sequence[int]) -> Tensor:
    """Index vectors along the last axis, negative components counted from the end."""
    sizes = scope.tensor(list(extents), indices.dtype)
    negative = scope.apply("less", indices, scope.like(0, indices))
    return scope.apply("select", negative, scope.apply("add", indices, sizes), indices)


@handles("GatherND")
def gather_nd(scope: OnnxScope, node: Node) -> Sequence[Value]:
    """Slices named by index vectors, per batch position."""
    x, indices = scope.operands(node)
    batch, depth = node.integer("batch_dims"), indices.shape[-1]
    indices = wrapped_vectors(scope, indices, x.shape[batch : batch + depth])
    shape = [*indices.shape[:-1], 1]
    own = [scope.op("iota", shape=shape, dtype=indices.dtype, dim=dim) for dim in range(batch)]
    lead, rest = indices.ndim - 1, x.ndim - batch - depth
    return [
        scope.op(
            "gather",
            x,
            scope.concat([*own, indices], indices.ndim - 1),
            offset_dims=list(range(lead, lead + rest)),
            collapsed_slice_dims=list(range(batch + depth)),
            start_index_map=list(range(batch + depth)),
            index_vector_dim=lead,
            slice_sizes=[1] * (batch + depth) + list(x.shape[batch + depth :]),
            mode="clip",
        )
    ]


COMBINERS = {"none": "set", "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}


@handles("ScatterElements", "Scatter")
def scatter_elements(scope: OnnxScope, node: Node) -> Sequence[Value]:
    """Elements written along one axis."""
    x, indices, updates = scope.operands(node)
    axis = axis_of(node.integer("axis"), x.ndim, node.place)
    return [
        scope.op(
            "scatter",
            x,
            vectors(scope, scope.wrapped(indices, x.shape[axis]), axis),
            updates,
            update_window_dims=[],
            inserted_window_dims=list(range(x.ndim)),
            scatter_dims_to_operand_dims=list(range(x.ndim)),
            index_vector_dim=x.ndim,
            combiner=COMBINERS[node.text("reduction", "none")],
            mode="error",
        )
    ]


@handles("ScatterND")
def scatter_nd(scope: OnnxScope, node: Node) -> Sequence[Value]:
    """Slices written where index vectors say."""
    x, indices, updates = scope.operands(node)
    depth, lead = indices.shape[-1], indices.ndim - 1
    return [
        scope.op(
            "scatter",
            x,
            wrapped_vectors(scope, indices, x.shape[:depth]),
            updates,
            update_window_dims=list(range(lead, updates.ndim)),
            inserted_window_dims=list(range(depth)),
            scatter_dims_to_operand_dims=list(range(depth)),
            index_vector_dim=lead,
            combiner=COMBINERS[node.text("reduction", "none")],
            mode="error",
        )
    ]


@handles("ReverseSequence")
def reverse_sequence(scope: OnnxScope, node: Node) -> Sequence[Value]:
    """Reverses the first `lengths` steps of each sequence."""
    x, lengths = scope.get(node, 0), scope.convert(scope.get(node, 1), "i64")
    time, batch = node.integer("time_axis"), node.integer("batch_axis", 1)
    position = scope.op("iota", shape=list(x.shape), dtype="i64", dim=time)
    wide = scope.broadcast(lengths, x.shape, [batch])
    turned = scope.apply("subtract", wide - 1, position)
    index = scope.apply("select", scope.apply("less", position, wide), turned, position)
    return [elements(scope, x, index, time)]
