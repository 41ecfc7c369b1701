"""Lists the kernels of serving engines, which capture graphs and fuse the operations between two library calls.

Products that read the same activations are merged (query, key and value; gate and up). The operations between them
(residual sum and normalization; rotation and the write of keys and values; activation; choice of experts) are one
kernel, which reads and writes each tensor once. Caches are updated in place. Only the last token of a prompt has
logits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from ...base.files import read_json
from ...base.paths import configs_dir
from ...graph import Graph, GraphBuilder
from ...machine.device import Device
from ..operations import SCHEME_OF_DTYPE, Cost, Costs, rows_of
from ..vector import constants_of
from .groups import KernelGroup
from .kernels import Kernel
from .nodes import KernelNode, nodes_of
from .strides import View

__all__ = [
    "FRAMEWORK", "constants", "engine_nodes", "grouped", "in_the_mean", "is_served", "launch", "priced", "reached",
]  # fmt: skip

FRAMEWORK = "serving"
#: extents of products: count, rows, columns, contracted
Extents = tuple[float, int, int, int]


def is_served(graph: Graph, device: Device) -> bool:
    """Whether a serving engine would run a graph on a device: a GPU or TPU, and a model that reads tokens and returns
    logits over the same vocabulary, with causal attention or caches as additional outputs.
    """
    core = graph.core
    asked = _request_of(core.operations(), core) if device.kind in ("gpu", "tpu") else None
    if asked is None or not any(one["shape"][-1:] == (asked.vocabulary,) for one in core.outputs):
        return False
    rows = [row for name in core.functions for row in core.operations(name)]
    causal = any(row["kind"] == "attention" and row["attributes"].get("causal") for row in rows)
    trained = any(row["kind"].endswith("_gradient") for row in rows)
    return not trained and (causal or len(core.outputs) > 1)


@dataclass(frozen=True)
class _Request:
    """Number of sequences and total tokens that a model reads, vocabulary size, and whether the model has caches."""

    sequences: int
    tokens: int
    vocabulary: int
    keeps: bool


def _request_of(operations: Iterable[Mapping[str, Any]], core: Any) -> _Request | None:
    inputs = {one["name"] for one in core.inputs}
    for op in operations:
        if op["kind"] == "embedding" and op["operands"][1]["name"] in inputs:
            shape = op["operands"][1]["shape"]
            vocabulary = int(op["operands"][0]["shape"][0])
            return _Request(int(shape[0]), math.prod(shape), vocabulary, len(core.outputs) > 1)
    return None


def engine_nodes(operations: Sequence[Mapping[str, Any]], core: Any) -> tuple[list[KernelNode], set[str]]:
    """Returns the steps of a graph, with extents of products, and the storages of its outputs."""
    nodes, kept = nodes_of(operations, [value["name"] for value in core.outputs], False, engine=True)
    asked = _request_of(operations, core)
    for node in nodes:
        if node.call < 0 or asked is None:
            continue
        node.extents = _extents(operations[node.call], asked)
        if node.extents and asked.keeps and node.extents[1:3] == (asked.tokens, asked.vocabulary):
            node.extents = (1.0, asked.sequences, *node.extents[2:])  # only the last token of each sequence has logits
            if node.writes is not None and node.writes.base in kept:
                view, share = node.writes, asked.sequences / asked.tokens
                node.read_bytes[0] *= share
                node.writes = View(view.name, view.base, view.base_bytes * share, node.extents[1:3],
                                   (asked.vocabulary, 1), view.size, False)  # fmt: skip
    return nodes, kept


def _extents(op: Mapping[str, Any], asked: _Request) -> Extents | None:
    """Returns the extents of a product of rows by weights; counts the mean number of experts that get tokens."""
    if op["kind"] not in ("contract", "ragged_contract"):
        return None
    a, b = (one["shape"] for one in op["operands"][:2])
    if op["kind"] == "ragged_contract":
        n = b[1] if op["attributes"].get("b_transposed") else b[2]
        count = float(reached(b[0], a[0] / asked.tokens / b[0], asked.tokens))
        return count, math.ceil(a[0] / count), int(n), int(a[1])
    given = op["attributes"]
    if given.get("a_batch"):
        return None
    over, by = given["a_contract"], given["b_contract"]
    k = math.prod(a[axis] for axis in over)
    return 1.0, math.prod(a) // k, math.prod(n for axis, n in enumerate(b) if axis not in by), k


def reached(experts: Any, share: Any, tokens: Any) -> Any:
    """Returns the mean number of experts that receive tokens, if all are equally likely: E (1 - (1 - share)^tokens)."""
    return np.maximum(1.0, experts * (1.0 - (1.0 - np.minimum(1.0, share)) ** tokens))


def in_the_mean(count: Any, price: Callable[[Any], Any]) -> Any:
    """Returns the seconds of a mean number of products, interpolated between the next smaller and larger integers."""
    count = np.round(count, 9)
    less = np.floor(count)
    seconds = price(less)
    if np.all(less == count):
        return seconds
    return seconds + (count - less) * (price(less + (count > less)) - seconds)


def grouped(nodes: Sequence[KernelNode]) -> list[KernelGroup]:
    """Groups nodes into kernels: library calls, merged products of equal rows, one kernel between two calls."""
    level: dict[str, int] = {}  # storage -> number of library calls before it on the longest path
    found: dict[tuple[int, bool, str], KernelGroup] = {}
    for number, node in enumerate(nodes):
        called = node.kind == "library"
        own = max((level.get(view.base, 0) for view in node.reads), default=0) + called
        rows = node.reads[0] if called and node.extents and node.extents[0] == 1.0 else None
        name = node.name if called else ""
        if rows is not None and node.extents is not None:
            name = f"{rows.base} {node.extents[1]} {node.extents[3]} {rows.strides}"
        key = (own, not called, name)
        if key in found:
            found[key].add(node)
        else:
            found[key] = KernelGroup(node, own, number)
        for view in (*([node.writes] if node.writes is not None else []), *node.also):
            level[view.base] = max(own, level.get(view.base, 0))
    return sorted(found.values(), key=lambda one: (one.level, one.first.kind != "library", one.number))


@cache
def constants() -> dict[str, float]:
    """Returns an engine's constants, except those of kernels, from `configs/frameworks/serving.json`."""
    return dict(read_json(configs_dir() / "frameworks" / f"{FRAMEWORK}.json")["constants"])


def launch(device: Device, dtype: str) -> float:
    """Returns the fixed seconds of a kernel between two library calls."""
    return float(constants_of(device, "rms", dtype).constants["launch"])


def priced(
    groups: Sequence[KernelGroup], kernels: Sequence[Kernel], core: Any, costs: Costs
) -> tuple[list[Cost], list[str]]:
    """Returns the costs of kernels, and the assumptions."""
    operations = list(core.operations())
    found, notes = costs.price(core)
    calls, multiplied = rows_of(found), _products(groups, operations, costs)
    device, share = costs.device, constants()["memory_share"]
    dtype = next((op["results"][0]["dtype"] for op in operations if op["kind"] == "embedding"), "bf16")
    fixed, rate = launch(device, SCHEME_OF_DTYPE.get(dtype, "fp16")), device.memory.bytes_per_second * share
    rows = []
    for group, kernel in zip(groups, kernels, strict=True):
        if kernel.call >= 0:
            cost = multiplied.get(group.first.name) or calls[kernel.call]
            rows.append(replace(cost, name=kernel.name, kind=calls[kernel.call].kind))
            continue
        terms = {"memory": kernel.bytes / rate, "launch": fixed}
        rows.append(Cost(kernel.name, "fused", sum(terms.values()), terms, kernel.bytes, kernel.flops, dtype,
                         kernel.kind, None, None))  # fmt: skip
    notes = [one for one in notes if not one.startswith(("elementwise operations behind", "rows of experts"))]
    if any(op["kind"] == "ragged_contract" for op in operations):
        notes.append("experts: their number is the mean that tokens reach, all equally likely, with equal rows")
    return rows, notes


def _products(groups: Sequence[KernelGroup], operations: Sequence[Mapping[str, Any]], costs: Costs) -> dict[str, Cost]:
    """Returns the costs of products with an engine's extents, by the name of each group's first step."""
    asked: dict[tuple[Any, ...], list[str]] = {}
    for group in groups:
        every = [node.extents for node in group.nodes if node.extents is not None]
        if every:
            (count, m, _, k), n = every[0], sum(one[2] for one in every)
            dtypes = tuple(one["dtype"] for one in operations[group.first.call]["operands"][:2])
            asked.setdefault((*dtypes, count, m, n, k), []).append(group.first.name)
    wholes = sorted({(*key[:2], count, *key[3:]) for key in asked for count in _floor_and_ceiling(key[2])})
    if not wholes:
        return {}
    b = GraphBuilder("products")
    for number, (x, w, count, m, n, k) in enumerate(wholes):
        operands = (b.input(f"{name}{number}", shape, dtype) for name, shape, dtype in
                    (("x", (count * m, k), x), ("w", (count, k, n), w), ("s", (count,), "i32")))  # fmt: skip
        b.output(b.op("ragged_contract", *operands, name=f"product{number}"))
    found = dict(zip(wholes, rows_of(costs.price(b.build().core)[0]), strict=True))
    out = {}
    for key, names in asked.items():
        less, more = (found[key[:2] + (whole,) + key[3:]] for whole in _floor_and_ceiling(key[2]))  # noqa: RUF005
        out.update(dict.fromkeys(names, _mixed(less, more, key[2] % 1.0)))
    return out


def _floor_and_ceiling(count: float) -> tuple[int, int]:
    return math.floor(round(count, 9)), math.ceil(round(count, 9))


def _mixed(less: Cost, more: Cost, part: float) -> Cost:
    """Interpolates between two costs."""

    def at(a: float, b: float) -> float:
        return a + part * (b - a)

    terms = {name: at(value, more.terms.get(name, 0.0)) for name, value in less.terms.items()}
    return replace(less, seconds=at(less.seconds, more.seconds), terms=terms, bytes=at(less.bytes, more.bytes),
                   flops=at(less.flops, more.flops))  # fmt: skip
