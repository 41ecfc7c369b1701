"""Graphs that differ from a pattern in one place, by enumeration of what can differ: numbers, functions, operands,
their order, axes, combiners, dtypes on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import tilesim as ts

from . import patterns

Build = Callable[[Any, dict[str, Any], list[Any]], Any]

FUNCTIONS = [
    ("add", "subtract"), ("multiply", "divide"), ("maximum", "minimum"),
    ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"), ("sqrt", "rsqrt"),
    ("exp", "exp2", "expm1"), ("tanh", "sigmoid", "erf"), ("erf", "erfc"), ("log", "log1p"), ("negate", "identity"),
    ("abs", "identity"), ("round_even", "floor"), ("sigmoid", "silu"),
]  # fmt: skip
ORDERED = ("subtract", "divide", "power", "less", "less_equal", "greater", "greater_equal")
COMBINERS = ("add", "mean", "maximum", "minimum")


def quantized_product(b: Any) -> None:
    """(a - 3) 0.1 times (w - zero) scale, both in 8 bits."""
    a, w = b.input("a", [4, 16], "i8"), b.input("w", [16, 8], "i8")
    scale = b.weight("scale", data=np.linspace(0.01, 0.05, 8, dtype=np.float32), trainable=False)
    left = (a.convert("i32") - 3).convert("f32") * 0.1
    b.output(left @ (w.convert("f32") * scale))


BASES: dict[str, Callable[[Any], None]] = {name: build for name, (build, _) in patterns.CASES.items()}
BASES["product of integers"] = quantized_product


def plain(name: str) -> ts.Graph:
    """The pattern itself."""
    b = ts.GraphBuilder(name)
    BASES[name](b)
    return b.build()


def _same(b: Any, op: dict[str, Any], operands: list[Any]) -> Any:
    return b.op(op["kind"], *operands, **op["attributes"])


def rebuilt(graph: ts.Graph, place: int = -1, build: Build = _same, number: Any = None) -> ts.Graph:
    """The graph, with another operation at one place, or another array for the constant there."""
    b = ts.GraphBuilder(graph.name)
    values = {row["name"]: b.input(row["name"], row["shape"], row["dtype"]) for row in graph.inputs}
    known = graph.weights()
    for i, op in enumerate(graph.operations()):
        row = op["results"][0]
        if op["kind"] == "constant":
            reference = op["attributes"]["reference"]
            data = graph.weight(reference) if i != place or number is None else number
            made = b.weight(f"{reference}.{i}", data=data, trainable=known[reference]["trainable"])
        else:
            operands = [values[operand["name"]] for operand in op["operands"]]
            made = build(b, {**op, "values": values}, operands) if i == place else _same(b, op, operands)
        values[row["name"]] = made
    for row in graph.outputs:
        b.output(values[row["name"]])
    return b.build()


def numbers(data: Any) -> list[Any]:
    """What a constant may be instead."""
    value = data.astype(np.float64)
    others = [value + 1, value * 2, -value, value * 1.01, value + 0.1, np.zeros_like(value)]
    found = []
    for other in others:
        with np.errstate(invalid="ignore", over="ignore"):
            other = np.where(np.isfinite(value) | (other != value), other, -1e4).astype(data.dtype)
        if not np.array_equal(other, data) and not any(np.array_equal(other, known) for known in found):
            found.append(other)
    return found


def _elementwise(op: dict[str, Any]) -> Iterator[tuple[str, Build]]:
    function, count = op["attributes"]["function"], len(op["operands"])
    for other in sorted({name for group in FUNCTIONS if function in group for name in group} - {function}):
        yield f"{other} for {function}", lambda b, op, x, other=other: b.apply(other, *x)
    if function in ORDERED:
        yield f"{function} the other way round", lambda b, op, x: b.apply(function, x[1], x[0])
    if function == "select":
        yield "arms of select", lambda b, op, x: b.apply("select", x[0], x[2], x[1])
        yield "nothing chosen", lambda b, op, x: x[2]
    if count == 1 and function in ("exp", "tanh", "erf", "log1p", "abs", "negate", "log", "rsqrt", "sqrt"):
        yield f"without {function}", lambda b, op, x: x[0]


def _axes(op: dict[str, Any]) -> Iterator[tuple[str, Build]]:
    kind, attributes = op["kind"], op["attributes"]
    rank = len(op["operands"][0]["shape"]) if op["operands"] else 0

    def other(**changed: Any) -> Build:
        return lambda b, op, x: b.op(op["kind"], *x, **{**op["attributes"], **changed})

    if kind == "reduce":
        for dim in range(rank):
            if [dim] != list(attributes["dims"]):
                yield f"reduced axis {dim}", other(dims=[dim])
        for combiner in COMBINERS:
            if combiner != attributes["combiner"]:
                yield f"combiner {combiner}", other(combiner=combiner)
    if kind in ("softmax", "log_softmax", "concat", "iota"):
        for dim in range(len(op["results"][0]["shape"])):
            if dim != attributes["dim"]:
                yield f"{kind} along {dim}", other(dim=dim)
    if kind == "concat":
        yield "concat the other way round", lambda b, op, x: b.op("concat", *reversed(x), **op["attributes"])
    if kind == "transpose":
        for order in itertools.permutations(range(rank)):
            if list(order) != list(attributes["permutation"]):
                yield f"permutation {order}", other(permutation=list(order))
    if kind == "broadcast":
        for dims in itertools.combinations(range(len(attributes["shape"])), len(attributes["dims"])):
            if list(dims) != list(attributes["dims"]):
                yield f"broadcast to {dims}", other(dims=list(dims))
    if kind == "slice":
        for shift in (-1, 1):
            start, limit = list(attributes["start"]), list(attributes["limit"])
            start[-1], limit[-1] = start[-1] + shift, limit[-1] + shift
            yield f"slice moved by {shift}", other(start=start, limit=limit)
    if kind == "contract":
        yield "operands of the product", lambda b, op, x: b.op("contract", x[1], x[0], **op["attributes"])
    if kind == "convert" and attributes.get("overflow") == "saturate":
        yield "integers that wrap", other(overflow="ieee")


def _anywhere(op: dict[str, Any], before: list[str]) -> Iterator[tuple[str, Build]]:
    row = op["results"][0]
    if row["dtype"] in ("f32", "bf16"):
        for narrow in ("bf16", "f16"):
            if narrow == row["dtype"]:
                continue

            def hop(b: Any, op: dict[str, Any], x: list[Any], narrow: str = narrow) -> Any:
                return _same(b, op, x).convert(narrow).convert(row["dtype"])

            yield f"through {narrow}", hop
    for slot, name in itertools.product(range(len(op["operands"])), before):
        if name != op["operands"][slot]["name"]:

            def swapped(b: Any, op: dict[str, Any], x: list[Any], slot: int = slot, name: str = name) -> Any:
                return _same(b, op, [op["values"][name] if i == slot else one for i, one in enumerate(x)])

            yield f"operand {slot} is {name}", swapped


def mutants(name: str) -> Iterator[tuple[str, Callable[[], ts.Graph]]]:
    """What differs, and how to build it (UserError where it is no graph)."""
    graph = plain(name)
    known: dict[str, Any] = {row["name"]: (row["dtype"], row["shape"]) for row in graph.inputs}
    for place, op in enumerate(graph.operations()):
        label, row = f"{op['name']}: ", op["results"][0]
        if op["kind"] == "constant":
            data = graph.weight(op["attributes"]["reference"])
            if data.size == 1 or not graph.weights()[op["attributes"]["reference"]]["trainable"]:
                for other in numbers(data):
                    yield (
                        f"{label}{other.ravel()[0]} for {data.ravel()[0]}",
                        lambda place=place, other=other: rebuilt(graph, place, number=other),
                    )
        else:
            alike = [(operand["dtype"], operand["shape"]) for operand in op["operands"]]
            before = [one for one, kind in known.items() if kind in alike]
            ways = [*(_elementwise(op) if op["kind"] == "elementwise" else _axes(op)), *_anywhere(op, before[-4:])]
            for what, build in ways:
                yield label + what, lambda place=place, build=build: rebuilt(graph, place, build)
        known[row["name"]] = (row["dtype"], row["shape"])
