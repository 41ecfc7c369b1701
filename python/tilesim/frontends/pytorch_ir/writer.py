"""Writes PyTorch modules as pytorch-ir JSON. Needs torch."""

from __future__ import annotations

import json
import operator
import os
import warnings
from collections.abc import Sequence
from typing import Any

from ..._core import Unsupported
from ...base.checked import checked
from ...base.extras import need
from ...base.files import writing
from ...base.locks import QUIET


def described(name: str, meta: Any, producer: str = "", index: int = 0) -> dict[str, Any]:
    """Describes a tensor in the format."""
    entry = {
        "name": name,
        "shape": [int(extent) for extent in meta.shape],
        "dtype": str(meta.dtype).removeprefix("torch."),
    }
    return {**entry, "producer_node": producer, "producer_output_idx": index} if producer else entry


class Writer:
    """Converts an exported program to JSON."""

    def __init__(self, program: Any) -> None:
        """Stores the program."""
        self.torch = need("torch", "torch")
        self.program = program
        self.entries: dict[Any, list[dict[str, Any]]] = {}

    def tensors(self, node: Any, producer: str) -> list[dict[str, Any]]:
        """The tensors that a node returns."""
        meta = node.meta.get("val")
        metas = list(meta) if isinstance(meta, (tuple, list)) else [meta]
        several = len(metas) > 1
        return [
            described(f"{node.name}_{i}" if several else node.name, one, producer, i)
            for i, one in enumerate(metas)
            if isinstance(one, self.torch.Tensor)
        ]

    def write(self, name: str) -> dict[str, Any]:
        """Builds the content of the file."""
        from torch.export.graph_signature import InputKind

        specs = {spec.arg.name: spec for spec in self.program.graph_signature.input_specs}
        inputs, weights, mapping, constants, nodes = [], [], {}, {}, []
        outputs: list[dict[str, Any]] = []
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                spec = specs[node.name]
                self.entries[node] = [described(node.name, node.meta["val"])]
                if spec.kind == InputKind.USER_INPUT:
                    inputs += self.entries[node]
                elif spec.kind == InputKind.CONSTANT_TENSOR:
                    value = self.program.constants[spec.target]
                    constants[node.name] = {"data": value.tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
                else:
                    weights += self.entries[node]
                    mapping[node.name] = str(spec.target)
            elif node.op == "call_function":
                nodes.append(self.node(node))
            elif node.op == "output":
                outputs = [self.entry(value) for value in node.args[0]]
        return {
            "model_name": name,
            "pytorch_version": str(self.torch.__version__),
            "graph_inputs": inputs,
            "graph_outputs": outputs,
            "weights": weights,
            "weight_name_mapping": mapping,
            "nodes": nodes,
            "constants": constants,
        }

    def entry(self, node: Any) -> dict[str, Any]:
        """The single tensor of a node."""
        found = self.entries.get(node)
        if not found:
            raise Unsupported(f"'{node}' is not a tensor: pytorch-ir holds tensors only")
        return found[0]

    def node(self, node: Any) -> dict[str, Any]:
        """Describes one call."""
        if node.target is operator.getitem:
            source, index = node.args
            kind, inputs, attributes = "<built-in function getitem>", [self.entries[source][index]], {"index": index}
        else:
            kind, (inputs, attributes) = str(node.target), self.arguments(node)
        self.entries[node] = outputs = self.tensors(node, node.name)
        return {"name": node.name, "op_type": kind, "inputs": inputs, "outputs": outputs, "attrs": attributes}

    def arguments(self, node: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Tensors in the order of the schema, and the other arguments by name."""
        inputs: list[dict[str, Any]] = []
        attributes: dict[str, Any] = {}
        sizes, masks, absent = [], [], False
        names = [argument.name for argument in node.target._schema.arguments]
        given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
        for name in names:
            if name not in given:
                continue
            value = given[name]
            if isinstance(value, self.torch.fx.Node):
                inputs.append(self.entry(value))
            elif isinstance(value, (list, tuple)) and any(isinstance(item, self.torch.fx.Node) for item in value):
                inputs += [self.entry(item) for item in value if item is not None]
                sizes.append(len([item for item in value if item is not None]))
                masks.append([item is None for item in value])
                absent = absent or None in value
            else:
                attributes[name] = self.plain_value(value)
        if sizes:
            attributes["_tensor_list_sizes"] = sizes
        if absent:
            attributes["_tensor_list_none_masks"] = masks
        return inputs, attributes

    def plain_value(self, value: Any) -> Any:
        """Converts a value to one that JSON can store."""
        if isinstance(value, (list, tuple)):
            return [self.plain_value(item) for item in value]
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        return str(value)


@checked()
def to_pytorch_ir(module: Any, args: Sequence[Any], path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Writes a PyTorch module as pytorch-ir.

    Args:
        module: an nn.Module, or a program that torch.export.export returned.
        args: example inputs.
        path: JSON file to write in addition.

    Returns:
        A dict with inputs, outputs, weights by name and nodes; it has no weight elements.

    Raises:
        UserError: names the package to install where torch is missing.
        Unsupported: for a module that torch cannot export.
    """
    need("torch", "torch")
    from ..torch.frontend import export

    program = module if hasattr(module, "graph_signature") else export(module, tuple(args))
    with QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = program.run_decompositions({})
    data = Writer(program).write(type(module).__name__)
    if path is not None:
        with writing(path) as file:
            json.dump(data, file, indent=1)
    return data
