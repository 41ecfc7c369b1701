"""Finds repeated layers: equal runs of operations in the children of a module list, with different weights, become one
function of the graph, called once per layer."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from typing import Any

import torch

from ...graph import GraphBuilder
from ...graph.tensor import Tensor
from ...graph.torch_arrays import dtype_name, elements_of, is_real
from .nodes import IGNORED, UnreadWeight, path_of

#: Runs with fewer nodes do not become functions.
MIN_OPERATIONS = 8


class LayerNodes:
    """Nodes of one layer, values that they read from outside, and nodes that other layers read."""

    def __init__(self, key: str, nodes: list[Any]) -> None:
        self.key, self.nodes = key, nodes
        self.externals: list[Any] = []
        self.ties: dict[Any, int] = {}  # node -> number of the external value for which it stands
        self.outputs: list[Any] = []
        self.signature: Any = None


def _key(node: Any) -> str:
    """Returns a node's layer: its path up to the first number, such as "model.layers.3"."""
    found = re.match(r"(?:.*?\.)??\d+(?=\.|$)", path_of(node))
    return found[0] if found else ""


def _runs(importer: Any) -> list[LayerNodes]:
    """Returns maximal sequences of nodes of one layer, without nodes that torch has evaluated."""
    runs: list[LayerNodes] = []
    open_run: LayerNodes | None = None
    for node in importer.program.graph.nodes:
        if node.op != "call_function" or node in importer.values or str(node.target) in IGNORED:
            continue
        key = _key(node)
        if open_run is None or key != open_run.key:
            open_run = LayerNodes(key, [])
            runs.append(open_run)
        open_run.nodes.append(node)
    return [run for run in runs if run.key and len(run.nodes) >= MIN_OPERATIONS and not _normalizes(run)]


def _normalizes(run: LayerNodes) -> bool:
    """Whether a run has a batch normalization, which compilation folds into weights outside of functions."""
    return any("batch_norm" in str(node.target) for node in run.nodes)


def _digest(value: Any) -> Any:
    if not is_real(value):
        return ("fake", id(value))
    return str(value.dtype), tuple(value.shape), hashlib.sha256(elements_of(value).tobytes()).hexdigest()


class _Signature:
    """The properties that two runs must share to become one function."""

    def __init__(self, importer: Any, run: LayerNodes) -> None:
        self.importer, self.run = importer, run
        self.places = {node: i for i, node in enumerate(run.nodes)}
        self.numbers: dict[Any, int] = {}

    def value(self) -> Any:
        parts = [
            (str(node.target), self.encoded(node.args), self.encoded(node.kwargs), self.meta(node.meta.get("val")))
            for node in self.run.nodes
        ]
        self.run.outputs = [node for node in self.run.nodes if any(self.leaves(user) for user in node.users)]
        return tuple(parts), tuple(self.places[node] for node in self.run.outputs)

    def leaves(self, user: Any) -> bool:
        return user not in self.places and str(user.target) not in IGNORED

    def encoded(self, argument: Any) -> Any:
        if isinstance(argument, torch.fx.Node):
            return self.node(argument)
        if isinstance(argument, (list, tuple)):
            return tuple(self.encoded(item) for item in argument)
        if isinstance(argument, dict):
            return tuple((key, self.encoded(item)) for key, item in argument.items())
        return repr(argument)

    def node(self, node: Any) -> Any:
        if node in self.places:
            return "inside", self.places[node]
        value = self.importer.values.get(node)
        if isinstance(value, torch.Tensor):
            return "known", _digest(value)
        if value is not None and not isinstance(value, (Tensor, UnreadWeight)):
            return "plain", repr(value)
        source = self.importer.weights.ties.get(value.name, value.name) if isinstance(value, UnreadWeight) else node
        if source not in self.numbers:
            self.numbers[source] = len(self.numbers)
            self.run.externals.append(node)
        self.run.ties[node] = self.numbers[source]
        return "outside", self.numbers[source], self.meta(node.meta.get("val"))

    def meta(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return str(value.dtype), tuple(str(extent) for extent in value.shape)
        return tuple(self.meta(item) for item in value) if isinstance(value, (list, tuple)) else None


def repeated(importer: Any) -> dict[Any, LayerNodes]:
    """Maps each node to its run, for runs whose signature occurs at least twice."""
    runs = _runs(importer)
    for run in runs:
        run.signature = _Signature(importer, run).value()
        if any(not isinstance(node.meta.get("val"), torch.Tensor) for node in [*run.externals, *run.outputs]):
            run.signature = None
    counts = Counter(run.signature for run in runs if run.signature is not None)
    return {node: run for run in runs if counts[run.signature] > 1 for node in run.nodes}


def call_run(importer: Any, run: LayerNodes, functions: dict[Any, GraphBuilder]) -> None:
    """Calls the function of a run, defines it at its first occurrence, and stores the results."""
    function = functions.get(run.signature)
    if function is None:
        function = functions[run.signature] = _define(importer, run, len(functions))
    operands = [importer.tensor(importer.value(node)) for node in run.externals]
    found = importer.builder.call(function, *operands, name=run.key)
    tensors = found if isinstance(found, tuple) else (found,)
    importer.values.update(zip(run.outputs, tensors, strict=True))


def _define(importer: Any, run: LayerNodes, number: int) -> GraphBuilder:
    name = re.sub(r"\.?\d+$", "", run.key) or "layer"
    function = importer.builder.function(f"{name}.{number}" if number else name)
    outer, local = importer.values, {}
    for node, value in outer.items():
        if not isinstance(value, (Tensor, UnreadWeight)):
            local[node] = value
    for node in run.externals:
        value, meta = outer[node], node.meta["val"]
        label = value.name if isinstance(value, UnreadWeight) else node.name
        shape, dtype = importer.extents(meta.shape), dtype_name(meta.dtype)
        local[node] = function.input(label.removeprefix(f"{run.key}."), shape, dtype)
    local.update({node: local[run.externals[at]] for node, at in run.ties.items()})
    taken = {tensor.value for tensor in local.values() if isinstance(tensor, Tensor)}
    with importer.within(function, local, f"{run.key}."):
        for node in run.nodes:
            importer.read(node)
        for node in run.outputs:
            tensor = importer.tensor(importer.values[node])
            if tensor.value in taken:
                tensor = function.op("copy", tensor, name=f"{node.name}.out")
            taken.add(tensor.value)
            function.output(tensor, node.name)
    return function
