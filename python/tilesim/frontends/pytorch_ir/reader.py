"""Reads pytorch-ir JSON, a program of ATen overloads with its tensors and weights by name. Needs torch."""

from __future__ import annotations

import logging
import operator
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..._core import Unsupported
from ...base.checked import checked
from ...base.errors import nearest, path_text, unknown, user_error
from ...base.extras import need
from ...base.files import parse_json, read_text
from ...base.kinds import as_kind
from ...base.locks import QUIET
from ...graph.graph import Graph
from ...graph.weights import StoredTensor, load_weights, open_weights

DTYPES = {
    name: name
    for name in (
        *("float64", "float32", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"),
        *("complex64", "complex128"),
    )
}
MAX_BYTES = 1 << 30  # largest size of the text
MAX_ELEMENTS = 1 << 40  # most elements of one tensor
NAME = re.compile(r"(?!__)[A-Za-z0-9_]+")  # allowed name of a library, an operation or an overload
#: Text arguments that are safe; overloads with others, such as aten.from_file, which opens a file, raise an error.
TEXTS = {
    *("rounding_mode", "approximate", "mode", "pad_mode", "reduce", "interpolation", "indexing", "norm", "side"),
    *("padding", "padding_side", "equation", "ord", "p", "UPLO", "driver"),
    *("assert_msg", "api_name"),
}


@checked()
def is_pytorch_ir(text: str) -> bool:
    """Whether a JSON text starts like pytorch-ir.

    Args:
        text: the beginning of a file.

    Returns:
        True if the text has a field of the format.
    """
    return '"op_type"' in text or ('"model_name"' in text and '"tilesim.' not in text)


def field(entry: Any, name: str, kind: type, place: str) -> Any:
    """Reads a field of an object and checks its type."""
    if not isinstance(entry, Mapping) or name not in entry:
        raise user_error("a field is missing", place=place, value=f"'{name}'")
    if not isinstance(entry[name], kind) or (kind is int and isinstance(entry[name], bool)):
        raise user_error(
            f"field '{name}' has the wrong type", place=place, value=type(entry[name]).__name__, allowed=kind.__name__
        )
    return entry[name]


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Silences a logger that would print errors which are also raised."""
    log = logging.getLogger(name)
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


class Reader:
    """Converts a file to a torch.fx graph, which torch.export then reads."""

    def __init__(self, data: Any, stored: Mapping[str, StoredTensor]) -> None:
        """Checks the top-level fields."""
        self.torch, self.stored = need("torch", "torch"), stored
        self.fx = need("torch.fx", "torch")
        self.data = data
        for name in ("graph_inputs", "graph_outputs", "weights", "nodes"):
            field(data, name, list, "pytorch-ir file")
        self.graph = self.fx.Graph()
        self.root = self.torch.nn.Module()
        self.values: dict[str, Any] = {}
        self.groups: dict[str, Any] = {}  # name of a result -> the node with several results to which it belongs
        #: safe name (torch.fx writes names into source text and runs it) -> name in the file
        self.shown: dict[str, str] = {}
        self._own: dict[str, str] = {}  # name in the file -> safe name

    def dtype(self, entry: Mapping[str, Any], place: str) -> Any:
        """The torch dtype of a tensor."""
        name = field(entry, "dtype", str, place).removeprefix("torch.")
        if name not in DTYPES:
            raise unknown("dtype", name, DTYPES, place=place)
        return getattr(self.torch, name)

    def shape(self, entry: Mapping[str, Any], place: str) -> list[int]:
        """The shape of a tensor."""
        shape = field(entry, "shape", list, place)
        count = 1
        for extent in shape:
            if type(extent) is not int or extent < 0:
                raise user_error("extents of a shape are integers of at least 0", place=place, value=str(shape)[:100])
            count *= max(1, extent)
        if count > MAX_ELEMENTS:
            raise user_error("a tensor is too large", place=place, value=str(shape), allowed=f"{MAX_ELEMENTS} elements")
        return shape

    def examples(self) -> list[Any]:
        """Creates placeholders for the inputs; returns tensors without elements as examples."""
        examples = []
        for i, entry in enumerate(self.data["graph_inputs"]):
            place = f"graph_inputs[{i}]"
            name = field(entry, "name", str, place)
            self.values[name] = self.graph.placeholder(f"input_{i}")
            examples.append(self.torch.empty(self.shape(entry, place), dtype=self.dtype(entry, place), device="meta"))
        return examples

    def weights(self) -> None:
        """Adds parameters under their names in the state dictionary."""
        mapping = self.table("weight_name_mapping")
        for i, entry in enumerate(self.data["weights"]):
            place = f"weights[{i}]"
            name = field(entry, "name", str, place)
            key = str(mapping.get(name, name))
            shape, dtype = self.shape(entry, place), self.dtype(entry, place)
            tensor = self.torch.empty(shape, dtype=dtype, device="meta")
            trainable = dtype.is_floating_point and key.split(".")[-1] not in ("running_mean", "running_var")
            weight = self.torch.nn.Parameter(tensor, requires_grad=False) if trainable else tensor
            self.attach(name, key, weight, place)
        for name, entry in self.table("constants").items():
            place = f"constants['{name}']"
            dtype = self.dtype(entry, place)
            try:
                values = self.torch.tensor(entry.get("data"), dtype=dtype)
            except (TypeError, ValueError, RuntimeError, OverflowError) as error:
                raise user_error("the data do not fit the dtype", place=place, value=str(error)[:200]) from None
            self.attach(name, f"constant.{name}", values, place)

    def table(self, name: str) -> Mapping[str, Any]:
        """Reads an optional object of the file."""
        found = self.data.get(name) or {}
        if not isinstance(found, Mapping):
            raise user_error(f"'{name}' has the wrong type", value=type(found).__name__, allowed="an object")
        return found

    def attach(self, name: str, key: str, tensor: Any, place: str) -> None:
        """Adds a tensor to the module under a safe name, with the node that reads it; equal keys share one tensor."""
        own = self._own.get(key)
        if own is None:
            own = self._own[key] = f"stored_{len(self._own)}"
            self.shown[own] = key
            if isinstance(tensor, self.torch.nn.Parameter):
                self.root.register_parameter(own, tensor)
            else:
                self.root.register_buffer(own, tensor)
        known = getattr(self.root, own)
        if (known.shape, known.dtype) != (tensor.shape, tensor.dtype):
            raise user_error("two weights of different types share a name", place=place, value=f"'{key}'")
        self.values[name] = self.graph.get_attr(own)

    def operand(self, entry: Any, place: str) -> Any:
        """Returns the value that a node's input names."""
        name = field(entry, "name", str, place)
        if name not in self.values:
            raise user_error(
                "no earlier node computes this tensor",
                place=place,
                value=f"'{name}'",
                suggestion=nearest(name, self.values),
            )
        return self.values[name]

    def nodes(self) -> None:
        """Adds an operator call for each node."""
        for i, entry in enumerate(self.data["nodes"]):
            place = f"nodes[{i}]"
            kind = field(entry, "op_type", str, place)
            place = f"{place} ({kind})"
            inputs = [self.operand(x, place) for x in field(entry, "inputs", list, place)]
            attributes = dict(field(entry, "attrs", Mapping, place)) if entry.get("attrs") else {}
            outputs = field(entry, "outputs", list, place)
            if "getitem" in kind:
                node = self.item(entry["inputs"], inputs, attributes.get("index"), place)
            else:
                node = self.graph.call_function(*self.call(kind, inputs, attributes, place))
            for number, output in enumerate(outputs):
                name = field(output, "name", str, place)
                several = len(outputs) > 1
                if several:
                    self.groups[name] = node
                self.values[name] = self.graph.call_function(operator.getitem, (node, number)) if several else node

    def item(self, entries: list[Any], inputs: list[Any], index: Any, place: str) -> Any:
        """Selects one of several results, from a node (named by any of its results) or from a list."""
        if not inputs or type(index) is not int or not -1 << 31 < index < 1 << 31:
            raise user_error("getitem needs a value and an index", place=place)
        if len(inputs) > 1:
            if not 0 <= index < len(inputs):
                raise user_error("the index of getitem is out of range", place=place, value=str(index),
                                 allowed=f"0 to {len(inputs) - 1}")  # fmt: skip
            return inputs[index]
        group = self.groups.get(str(entries[0]["name"]), inputs[0])
        return self.graph.call_function(operator.getitem, (group, index))

    def overload(self, kind: str, place: str) -> Any:
        """Finds an overload by its text: "aten.add.Tensor", or "aten::add.Tensor"."""
        parts = kind.replace("::", ".").split(".")
        if len(parts) == 2:
            parts.append("default")
        known = len(parts) == 3 and parts[0] in ("aten", "prims") and all(NAME.fullmatch(part) for part in parts)
        if not known:
            raise Unsupported(f"{place}: unsupported operation '{kind[:200]}'")
        try:
            found = getattr(getattr(getattr(self.torch.ops, parts[0]), parts[1]), parts[2])
        except (AttributeError, RuntimeError):
            raise Unsupported(f"{place}: torch has no overload '{kind}'") from None
        if not isinstance(found, self.torch._ops.OpOverload):  # the text names another torch attribute
            raise Unsupported(f"{place}: torch has no overload '{kind[:200]}'")
        if any(str(a.type) in ("str", "Optional[str]") and a.name not in TEXTS for a in found._schema.arguments):
            raise Unsupported(f"{place}: '{kind}' takes a text that may name a file")
        return found

    def call(
        self, kind: str, inputs: list[Any], attributes: dict[str, Any], place: str
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """Resolves an overload and its arguments: tensors in the order of the schema, the others by name."""
        if kind.replace("::", ".") in ("aten.view.default", "aten._unsafe_view.default") and "size" in attributes:
            # the format lacks the strides that decide whether a view is legal
            kind, attributes["shape"] = "aten.reshape.default", attributes.pop("size")
        target = self.overload(kind, place)
        rest = iter(inputs)
        sizes = iter(as_kind(attributes.pop("_tensor_list_sizes", None) or [], [int], f"{place}._tensor_list_sizes"))
        absent = attributes.pop("_tensor_list_none_masks", None) or []
        masks = iter(as_kind(absent, [[bool]], f"{place}._tensor_list_none_masks"))
        keywords: dict[str, Any] = {}
        for argument in target._schema.arguments:
            text, name = str(argument.type), argument.name
            if name in attributes:
                keywords[name] = self.plain_value(attributes.pop(name), text, place)
            elif text in ("List[Tensor]", "List[Optional[Tensor]]"):
                keywords[name] = self.listed(rest, next(sizes, None), next(masks, None), inputs, place)
            elif "Tensor" in text:
                value = next(rest, None)
                if value is not None:
                    keywords[name] = value
        if attributes or next(rest, None) is not None:
            raise user_error(
                "the overload does not take these arguments", place=place, value=", ".join(attributes) or "tensors"
            )
        order = [a.name for a in target._schema.arguments if not a.kwarg_only]
        leading = []
        while order and order[0] in keywords:
            leading.append(keywords.pop(order.pop(0)))
        return target, tuple(leading), keywords

    def listed(self, rest: Any, size: Any, mask: Any, inputs: list[Any], place: str) -> list[Any]:
        """A list of tensors; a mask marks positions of None."""
        if mask is not None:
            return [None if absent else next(rest, None) for absent in mask]
        count = len(inputs) if size is None else min(size, len(inputs) + 1)
        found = [value for value in (next(rest, None) for _ in range(count)) if value is not None]
        if size is not None and len(found) != size:
            raise user_error("a list of tensors is too short", place=place, value=str(len(found)), allowed=str(size))
        return found

    def plain_value(self, value: Any, kind: str, place: str) -> Any:
        """Converts an argument: a number, text, list, dtype, layout or device."""
        if isinstance(value, str) and (value.startswith("torch.") or value in DTYPES):
            name = value.removeprefix("torch.")
            found = getattr(self.torch, name, None)
            if isinstance(found, (self.torch.dtype, self.torch.layout, self.torch.memory_format)):
                return found
        if (isinstance(value, str) and value in ("cpu", "meta")) or (
            isinstance(value, str) and value.startswith("cuda")
        ):
            return self.torch.device("cpu")
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, (bool, int, float, str, type(None))):
                raise user_error("unsupported type of an argument", place=place, value=type(item).__name__,
                                 allowed="numbers, texts, lists of them")  # fmt: skip
        return value

    def read(self, name: str) -> Graph:
        """Converts the file to a graph."""
        from ..torch.frontend import from_exported

        examples = self.examples()
        self.weights()
        self.nodes()
        outputs = [self.operand(x, f"graph_outputs[{i}]") for i, x in enumerate(self.data["graph_outputs"])]
        self.graph.output(tuple(outputs))
        module = self.fx.GraphModule(self.root, self.graph)
        try:
            with QUIET, self.torch.no_grad(), warnings.catch_warnings(), _unlogged("torch._subclasses.fake_tensor"):
                warnings.simplefilter("ignore")
                program = self.torch.export.export(module, tuple(examples))
        except Exception as error:
            lines = str(error).strip().splitlines()
            raise user_error(
                "torch cannot run this program", place=name, value=lines[0][:300] if lines else type(error).__name__
            ) from None
        graph = from_exported(program, name, names=self.shown, foreign=True)
        if self.stored:
            load_weights(graph, self.stored)
        return graph


@checked()
def from_pytorch_ir(
    source: str | os.PathLike[str] | Mapping[str, Any],
    weights: str | os.PathLike[str] | Mapping[str, Any] | None = None,
) -> Graph:
    """Reads a pytorch-ir program.

    Args:
        source: path of a JSON file, its text, or the parsed object.
        weights: a weight file (see `Graph.load_weights`), or arrays by name; by default weights are random.

    Returns:
        A graph with the program's inputs and outputs in the same order.

    Raises:
        UserError: for a file of another format; names the package to install where torch is missing.
        Unsupported: for an unsupported overload, which the message names.
    """
    place, data = "pytorch-ir program", source
    if not isinstance(source, Mapping):
        text = path_text(source)
        if not text.lstrip().startswith("{"):
            place = text
            text = read_text(place, MAX_BYTES)
        data = parse_json(text, place)
    if not isinstance(data, Mapping):
        raise user_error("a pytorch-ir program is a JSON object", place=place)
    stored: Any = {}
    if weights is not None:
        stored = weights if isinstance(weights, Mapping) else open_weights(weights)
    name = data.get("model_name") or "model"
    return Reader(data, stored).read(str(name))
