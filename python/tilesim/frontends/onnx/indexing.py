"""Gather and scatter of ONNX."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph.building import gathered, scattered
from ...graph.tensor import Tensor
from .scope import OnnxNode, OnnxScope, Value, axis_of, handles


def vectors(scope: OnnxScope, indices: Tensor, axis: int) -> Tensor:
    """Builds an index vector per element: the element's position, in which `indices` replaces component `axis`."""
    shape = [*indices.shape, 1]
    parts = [
        scope.reshape(indices, shape) if dim == axis else scope.op("iota", shape=shape, dtype=indices.dtype, dim=dim)
        for dim in range(indices.ndim)
    ]
    return scope.concat(parts, indices.ndim)


def elements(scope: OnnxScope, x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Reads elements of x at positions along one axis."""
    return gathered(scope.op, x, vectors(scope, indices, axis), range(x.ndim), x.ndim)


@handles("Gather")
def gather(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Reads slices along one axis."""
    x, indices = scope.operands(node)
    axis = axis_of(node.integer("axis"), x.ndim, node.place)
    return [scope.take(x, scope.wrapped(indices, x.shape[axis]), axis)]


@handles("GatherElements")
def gather_elements(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Reads elements along one axis."""
    x, indices = scope.operands(node)
    axis = axis_of(node.integer("axis"), x.ndim, node.place)
    return [elements(scope, x, scope.wrapped(indices, x.shape[axis]), axis)]


def wrapped_vectors(scope: OnnxScope, indices: Tensor, extents: Sequence[int]) -> Tensor:
    """Converts index vectors along the last axis: adds the extent to negative components."""
    sizes = scope.tensor(list(extents), indices.dtype)
    negative = scope.apply("less", indices, scope.like(0, indices))
    return scope.apply("select", negative, scope.apply("add", indices, sizes), indices)


@handles("GatherND")
def gather_nd(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Reads slices at index vectors, separately for each batch position."""
    x, indices = scope.operands(node)
    batch, depth = node.integer("batch_dims"), indices.shape[-1]
    indices = wrapped_vectors(scope, indices, x.shape[batch : batch + depth])
    shape = [*indices.shape[:-1], 1]
    own = [scope.op("iota", shape=shape, dtype=indices.dtype, dim=dim) for dim in range(batch)]
    index = scope.concat([*own, indices], indices.ndim - 1)
    return [gathered(scope.op, x, index, range(batch + depth), indices.ndim - 1)]


COMBINERS = {"none": "set", "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}


@handles("ScatterElements", "Scatter")
def scatter_elements(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Writes elements along one axis."""
    x, indices, updates = scope.operands(node)
    axis = axis_of(node.integer("axis"), x.ndim, node.place)
    index = vectors(scope, scope.wrapped(indices, x.shape[axis]), axis)
    combiner = COMBINERS[node.text("reduction", "none")]
    return [scattered(scope.op, x, index, updates, range(x.ndim), x.ndim, combiner=combiner, mode="error")]


@handles("ScatterND")
def scatter_nd(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Writes slices at index vectors."""
    x, indices, updates = scope.operands(node)
    depth = indices.shape[-1]
    index, combiner = wrapped_vectors(scope, indices, x.shape[:depth]), COMBINERS[node.text("reduction", "none")]
    return [scattered(scope.op, x, index, updates, range(depth), indices.ndim - 1, combiner=combiner, mode="error")]


@handles("ReverseSequence")
def reverse_sequence(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Reverses the first `lengths` steps of each sequence."""
    x, lengths = scope.get(node, 0), scope.convert(scope.get(node, 1), "i64")
    time, batch = node.integer("time_axis"), node.integer("batch_axis", 1)
    position = scope.op("iota", shape=list(x.shape), dtype="i64", dim=time)
    wide = scope.broadcast(lengths, x.shape, [batch])
    turned = scope.apply("subtract", wide - 1, position)
    index = scope.apply("select", scope.apply("less", position, wide), turned, position)
    return [elements(scope, x, index, time)]
