"""Branches, loops, sequences and optional values of ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...base.errors import user_error
from ...graph.builder import GraphBuilder
from ...graph.tensor import Tensor
from ..factors import counted
from .scope import OnnxNode, OnnxScope, Value, axis_of, handles

FEW = 4  # loops of at most this many trips are unrolled
UNROLLED = 1024  # most trips of a loop that is unrolled because its trips need different bodies
MAX_BODIES = 1 << 14  # most functions built for loops and branches
Type = tuple[Sequence[int], str]  # shape and dtype of a value


def inlined(scope: OnnxScope, body: Any, arguments: Sequence[Value]) -> list[Value]:
    """Builds a subgraph in place; it can read names of the enclosing graph."""
    inner = OnnxScope(scope.model, scope.builder, scope)
    scope.model.initializers(inner, body)
    for declared, value in zip(body.input, arguments, strict=True):
        inner.names[declared.name] = value
    scope.model.run(inner, body.node)
    return [inner.value(output.name) for output in body.output]


def captured(scope: OnnxScope, body: Any) -> list[str]:
    """Names of outer tensors that a subgraph uses."""
    found: list[str] = []

    def visit(graph: Any, inside: set[str]) -> None:
        inside = inside | {x.name for x in graph.input} | {x.name for x in graph.initializer}
        for node in graph.node:
            for name in node.input:
                if name and name not in inside and name not in found:
                    found.append(name)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    visit(attribute.g, inside)
            inside |= set(node.output)
        for output in graph.output:
            if output.name not in inside and output.name not in found:
                found.append(output.name)

    visit(body, set())
    return found


def function_of(
    scope: OnnxScope, body: Any, stem: str, inputs: Sequence[Type], outer: Sequence[str], always: str = ""
) -> tuple[OnnxScope, list[Tensor]]:
    """Converts a subgraph to a function of the graph."""
    scope.model.bodies += 1
    if scope.model.bodies > MAX_BODIES:
        raise Unsupported(f"more than {MAX_BODIES} bodies of loops and branches")
    builder = scope.builder.function(scope.fresh("function." + stem))
    inner = OnnxScope(scope.model, builder)
    types = [*inputs, *((scope.value(other).shape, scope.value(other).dtype) for other in outer)]
    given = [builder.input(f"in{i}", *one) for i, one in enumerate(types)]
    declared = [x.name for x in body.input if x.name != always]
    for name, tensor in zip([*declared, *outer], given, strict=True):
        known = scope.array(scope.value(name)) if name in outer else None
        inner.names[name] = inner.constant(known) if known is not None else tensor
    if always:
        inner.names[always] = inner.scalar(True, "bool")
    scope.model.initializers(inner, body)
    scope.model.run(inner, body.node)
    outputs = [inner.value(output.name) for output in body.output]
    scope.model.finish(inner, outputs, {tensor.value for tensor in given})
    return inner, outputs


def run_functions(
    scope: OnnxScope, kind: str, operands: Sequence[Tensor], names: Sequence[str], **attributes: Any
) -> list[Tensor]:
    """Builds an operation that runs functions."""
    values = scope.builder.core.op(kind, [x.value for x in operands], attributes, "", 0, list(names))
    return [Tensor(scope.builder, value) for value in values]


@handles("If")
def branch(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds a branch; for a constant condition, builds only the selected body."""
    which = scope.get(node, 0)
    bodies = [node.get("then_branch"), node.get("else_branch")]
    known = scope.array(which)
    if known is not None:
        return inlined(scope, bodies[0 if bool(known.reshape(-1)[0]) else 1], [])
    outer = list(dict.fromkeys([*captured(scope, bodies[0]), *captured(scope, bodies[1])]))
    if not all(isinstance(scope.value(name), Tensor) for name in outer):
        raise Unsupported("a branch that uses sequences from outside")
    names = [function_of(scope, body, "branch", [], outer)[0].builder.function_name for body in bodies]
    return run_functions(scope, "branch", [scope.reshape(which, []), *(scope.value(name) for name in outer)], names)


@handles("Loop")
def loop(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds a counted loop if trip count and state types are constant; else unrolls it, or builds a while loop."""
    body = node.get("body")
    bound, go = scope.get(node, 0), scope.get(node, 1)
    state = [scope.value(name) for name in node.inputs[2:]]
    trips = scope.array(bound) if bound is not None else None
    start = scope.array(go) if go is not None else np.array(True)
    if trips is not None and start is not None:
        count = int(trips.reshape(-1)[0]) if bool(start) else 0
        found = counted_loop(scope, body, count, state) if count > FEW else None
        if found is None and count <= UNROLLED:
            found = unrolled(scope, body, count, bool(start), state)
        if found is not None:
            return found
    return while_loop(scope, node, body, bound, go, state)


def unrolled(scope: OnnxScope, body: Any, trips: int, go: bool, state: list[Value]) -> list[Value] | None:
    """Unrolls a loop; returns None if its condition depends on data."""
    count = len(state)
    collected: list[list[Tensor]] = [[] for _ in list(body.output)[1 + count :]]
    for trip in range(trips):
        if not go:
            break
        found = inlined(scope, body, [scope.scalar(trip, "i64"), scope.scalar(True, "bool"), *state])
        known = scope.array(found[0])
        if known is None:
            return None
        go, state = bool(known.reshape(-1)[0]), found[1 : 1 + count]
        for values, value in zip(collected, found[1 + count :], strict=True):
            values.append(scope.reshape(value, [1, *value.shape]))
    if any(not values for values in collected):
        raise Unsupported("a loop without trips whose results are collected")
    return [*state, *(scope.concat(values, 0) for values in collected)]


def while_loop(
    scope: OnnxScope, node: OnnxNode, body: Any, bound: Tensor | None, go: Tensor | None, state: list[Value]
) -> list[Value]:
    """Builds a while loop over a counter, the condition, the state, and captured values."""
    if len(body.output) > 1 + len(state):
        if bound is not None:
            scope.numbers(node, 0, "the number of trips")
        if go is not None:
            scope.numbers(node, 1, "whether the loop runs")
        raise Unsupported(
            "a loop collects results, and its trip count depends on data: give the count with fixed={name: array}"
        )
    if not all(isinstance(value, Tensor) for value in state):
        raise Unsupported("a loop over sequences whose trip count depends on data")
    outer = captured(scope, body)
    counter = scope.scalar(0, "i64")
    limit = scope.reshape(bound, []) if bound is not None else scope.scalar(np.iinfo(np.int64).max, "i64")
    first = scope.reshape(go, []) if go is not None else scope.scalar(True, "bool")
    carried = [counter, limit, first, *state, *(scope.value(name) for name in outer)]
    test = scope.builder.function(scope.fresh("function.condition"))
    given = [test.input(f"in{i}", tensor.shape, tensor.dtype) for i, tensor in enumerate(carried)]
    test.output(test.apply("logical_and", test.apply("less", given[0], given[1]), given[2]), "go")
    name = scope.fresh("function.body")
    builder = scope.builder.function(name)
    inner = OnnxScope(scope.model, builder)
    given = [builder.input(f"in{i}", tensor.shape, tensor.dtype) for i, tensor in enumerate(carried)]
    names = [x.name for x in body.input]
    inner.names = dict(zip([*names, *outer], [given[0], *given[2:]], strict=True))
    scope.model.initializers(inner, body)
    scope.model.run(inner, body.node)
    results = [inner.value(output.name) for output in body.output]
    results[0] = inner.reshape(results[0], [])
    keep = given[3 + len(state) :]
    scope.model.finish(inner, [given[0] + 1, given[1], *results, *keep], {tensor.value for tensor in given})
    found = run_functions(scope, "while", carried, [test.function_name, name])
    return list(found[3 : 3 + len(state)])


def counted_loop(
    scope: OnnxScope, body: Any, trips: int, state: Sequence[Value], rows: Sequence[Tensor] = (), scans: bool = False
) -> list[Value] | None:
    """Builds a loop whose body runs `trips` times; returns None if the trips need different bodies."""
    outer = captured(scope, body)
    if not all(isinstance(x, Tensor) for x in [*state, *(scope.value(name) for name in outer)]):
        return None
    types = [(x.shape, x.dtype) for x in state] + [(x.shape[1:], x.dtype) for x in rows]
    given, always = (types, "") if scans else ([((), "i64"), *types], body.input[1].name)
    try:
        inner, outputs = function_of(scope, body, "loop", given, outer, always)
    except Unsupported as error:
        if scans or not hasattr(error, "needed"):
            raise
        return None  # the shapes depend on the counter
    if not scans and not np.all(inner.array(outputs.pop(0))):  # the condition is unknown or false
        return None
    if [(x.shape, x.dtype) for x in outputs[: len(state)]] != types[: len(state)]:
        return None
    results = [scope.broadcast(scope.scalar(0, x.dtype), [trips, *x.shape]) for x in outputs[len(state) :]]
    fixed = [*rows, *(scope.value(name) for name in outer)]

    def step(b: GraphBuilder, at: Tensor, *given: Tensor) -> list[Tensor]:
        zero = b.scalar(0, "i32")
        before, kept = given[: len(state)], given[len(state) : len(state) + len(results)]
        unchanged = given[len(state) + len(results) :]
        parts = [
            b.op("dynamic_slice", x, at, *[zero] * (x.ndim - 1), sizes=[1, *x.shape[1:]]).reshape(*x.shape[1:])
            for x in unchanged[: len(rows)]
        ]
        counter = [] if scans else [at.convert("i64")]
        found = b.call(inner.builder, *counter, *before, *parts, *unchanged[len(rows) :])
        found = (found if isinstance(found, tuple) else (found,))[0 if scans else 1 :]
        written = [
            b.op("dynamic_update", x, new.reshape(1, *new.shape), at, *[zero] * new.ndim)
            for x, new in zip(kept, found[len(state) :], strict=True)
        ]
        return [*found[: len(state)], *written, *unchanged]

    return counted(scope.builder, "loop", trips, [*state, *results, *fixed], step)[: len(state) + len(results)]


def axis_moved(scope: OnnxScope, x: Tensor, axis: int, to: int) -> Tensor:
    """Moves axis `axis` of x to position `to`."""
    order = [i for i in range(x.ndim) if i != axis]
    return scope.transpose(x, [*order[:to], axis, *order[to:]])


@handles("Scan")
def scan(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Builds a counted loop over slices of the sequences."""
    if node.opset < 9:
        raise Unsupported("Scan of opset 8")
    body, count = node.get("body"), node.integer("num_scan_inputs")
    values = scope.operands(node)
    state, sequences = values[: len(values) - count], values[len(values) - count :]
    outputs = len(body.output) - len(state)
    axes = node.integers("scan_input_axes", [0] * count)
    rows = [axis_moved(scope, x, axis_of(axis, x.ndim, node.place), 0) for axis, x in zip(axes, sequences, strict=True)]
    turned = node.integers("scan_input_directions", [0] * count)
    rows = [scope.op("reverse", x, dims=[0]) if back else x for x, back in zip(rows, turned, strict=True)]
    steps = rows[0].shape[0] if rows else 0
    if not steps:
        raise Unsupported("a scan of 0 steps")
    found = counted_loop(scope, body, steps, state, rows, scans=True)
    if found is None:
        raise Unsupported("a scan whose state changes its shape or dtype")
    results = found[len(state) :]
    back = node.integers("scan_output_directions", [0] * outputs)
    results = [scope.op("reverse", x, dims=[0]) if turn else x for x, turn in zip(results, back, strict=True)]
    axes = node.integers("scan_output_axes", [0] * outputs)
    return [
        *found[: len(state)],
        *(axis_moved(scope, x, 0, axis_of(axis, x.ndim, node.place)) for axis, x in zip(axes, results, strict=True)),
    ]


# --- sequences and optional values, resolved while the graph is built ---


@handles("SequenceConstruct", "SequenceEmpty")
def sequence(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """A list of tensors."""
    return [scope.operands(node)]


def position(scope: OnnxScope, node: OnnxNode, index: int, count: int) -> int:
    """Returns the sequence index in a constant operand, counted from the front."""
    at = int(scope.numbers(node, index, "a position in a sequence").reshape(-1)[0])
    if not -count <= at < max(count, 1):
        raise user_error(
            "a position outside of the sequence", place=node.place, value=str(at), allowed=f"{-count} to {count - 1}"
        )
    return at + count if at < 0 else at


@handles("SequenceAt", "SequenceErase", "SequenceInsert", "SequenceLength")
def sequence_part(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Operations on sequences, which are Python lists."""
    values = list(scope.get(node, 0))
    if node.op == "SequenceLength":
        return [scope.scalar(len(values), "i64")]
    if node.op == "SequenceInsert":
        at = position(scope, node, 2, len(values) + 1) if node.has(2) else len(values)
        if node.has(2) and int(scope.numbers(node, 2, "a place").reshape(-1)[0]) < 0:
            at = at - 1
        return [[*values[:at], scope.get(node, 1), *values[at:]]]
    if node.op == "SequenceErase":
        at = position(scope, node, 1, len(values)) if node.has(1) else len(values) - 1
        return [[*values[:at], *values[at + 1 :]]]
    return [values[position(scope, node, 1, len(values))]]


@handles("SplitToSequence")
def split_to_sequence(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Splits a tensor into a sequence along one axis."""
    x = scope.get(node, 0)
    axis = axis_of(node.integer("axis"), x.ndim, node.place)
    extent, keep = x.shape[axis], node.integer("keepdims", 1)
    if node.has(1):
        sizes = scope.numbers(node, 1, "the sizes")
        part = max(1, int(sizes)) if sizes.ndim == 0 else 0
        scope.model.counted(-(-extent // part) if part else sizes.size)
        if part:
            sizes = np.array([min(part, extent - at) for at in range(0, extent, part)])
        keep = 1
    else:
        scope.model.counted(extent)
        sizes = np.ones(extent, np.int64)
    borders = [0, *np.cumsum(sizes).tolist()]
    parts = [scope.along(x, axis, a, b) for a, b in pairwise(borders)]
    if not keep:
        parts = [scope.reshape(part, [*part.shape[:axis], *part.shape[axis + 1 :]]) for part in parts]
    return [parts]


@handles("ConcatFromSequence")
def concat_from_sequence(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Joins a sequence along an axis, or along a new one."""
    values = list(scope.get(node, 0))
    if not values:
        raise Unsupported("ConcatFromSequence of an empty sequence")
    rank = values[0].ndim + (1 if node.integer("new_axis") else 0)
    axis = axis_of(node.integer("axis"), rank, node.place)
    if node.integer("new_axis"):
        values = [scope.reshape(x, [*x.shape[:axis], 1, *x.shape[axis:]]) for x in values]
    return [scope.concat(values, axis)]


@handles("Optional")
def optional(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """The optional value, or None."""
    return [scope.get(node, 0)]


@handles("OptionalHasElement")
def has_element(scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
    """Whether an optional has a value, known while the graph is built."""
    return [scope.scalar(scope.get(node, 0) is not None, "bool")]
