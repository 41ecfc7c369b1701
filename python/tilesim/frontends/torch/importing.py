"""Walks an exported program (torch.export) and builds the graph operation by operation.

A value is a `Tensor` of the builder; a torch tensor that depends on no input and that torch evaluates while the
graph is read (masks, positions, rotary tables); a tuple of values; or a Python number.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from ...base.errors import unsupported, user_error
from ...graph import Graph, GraphBuilder
from ...graph.tensor import Tensor
from ...graph.torch_arrays import dtype_name, elements_of, is_real
from ..complex import COMPLEX_OF, Complex, joined, parts
from .nodes import (
    FOLD_LIMIT,
    FOLDED,
    IGNORED,
    MAX_CONSTANT,
    UnreadWeight,
    is_constant,
    is_of_bits,
    is_random,
    is_view,
    name_of,
    place_of,
)
from .table import TABLE
from .weights import WeightStore

#: complex dtype -> dtype of its parts
COMPLEX = {torch.complex64: "f32", torch.complex128: "f64"}


class Importer:
    """Converts one exported program to a graph. Handlers of the table use its methods."""

    def __init__(
        self,
        program: Any,
        name: str,
        functions: bool = True,
        fixed: Mapping[str, Any] | None = None,
        names: Mapping[str, str] | None = None,
        foreign: bool = False,
        results: Sequence[str] = (),
    ) -> None:
        self.program, self.functions, self.fixed, self.names = program, functions, fixed or {}, names or {}
        self.results = list(results)  # names of the module's results; torch names the rest
        self.foreign, self.folded = foreign, 0
        self.codes: set[Any] = set()  # constant nodes that unpack words into bits
        self.words: dict[int, Any] = {}  # identity of a value -> integers unpacked from words
        self.views: set[Any] = set()  # nodes that are views of buffers
        self.builder = GraphBuilder(name)
        self.weights = WeightStore(self.builder)
        self.values: dict[Any, Any] = {}
        self.state: dict[str, Any] = {}
        #: results of the module in order: the name of an output of the graph, or a value other than a tensor
        self.returned: list[tuple[str, Any]] = []
        #: pairs (output, input or state) for values that the module changes in place
        self.changed: list[tuple[str, str]] = []
        self.node: Any = None
        self._given: set[int] = set()
        self._place = ""
        self._name = ""
        self._prefix = ""

    # --- for handlers ---

    @property
    def meta(self) -> Any:
        """The fake tensor (or tuple) that torch computed for the current operation."""
        return self.node.meta["val"]

    @property
    def dtype(self) -> str:
        """dtype of the current operation's first result; for a complex result, of its parts."""
        meta = self.meta[0] if isinstance(self.meta, (tuple, list)) else self.meta
        return COMPLEX.get(meta.dtype) or dtype_name(meta.dtype, self._place)

    @property
    def shape(self) -> list[int]:
        """Shape of the current operation's first result."""
        meta = self.meta[0] if isinstance(self.meta, (tuple, list)) else self.meta
        return self.extents(meta.shape)

    def extents(self, shape: Sequence[Any]) -> list[int]:
        for extent in shape:
            if isinstance(extent, torch.SymInt):
                raise self.unsupported("a dynamic shape", str(list(shape)), "Export with fixed shapes")
        return [int(extent) for extent in shape]

    def unsupported(self, what: str, value: str = "", suggestion: str = "") -> Exception:
        """An `Unsupported` error that names the overload and its place in the user's code."""
        overload = str(self.node.target) if self.node is not None else ""
        place = f"{overload} at {self._place}" if self._place else overload
        return unsupported(what, place=place, value=value, suggestion=suggestion)

    def tensor(self, value: Any, dtype: str | None = None) -> Tensor:
        """Converts a value to a tensor of the builder, with data type `dtype` if given."""
        if isinstance(value, torch.Tensor):
            value = self.weights.constant(value, self._name, codes=id(value) in self.words)
        elif isinstance(value, (bool, int, float)):
            return self.builder.scalar(float(value), dtype or self.dtype)
        if not isinstance(value, Tensor):
            if hasattr(value, "im"):
                what = "complex numbers as operand" if self.node is not None else "a complex output"
                raise self.unsupported(what, suggestion="Take torch.view_as_real, or write it with real tensors")
            raise self.unsupported("an argument is not a tensor", repr(type(value)))
        return value if dtype is None or value.dtype == dtype else value.convert(dtype)

    def op(self, kind: str, *operands: Tensor | None, **attributes: Any) -> Any:
        """Builds an operation named after its module."""
        return self.builder.op(kind, *operands, name=self._name, **attributes)

    def apply(self, function: str, *operands: Tensor) -> Tensor:
        """Builds an elementwise function named after its module."""
        return self.builder.apply(function, *operands, name=self._name)

    def broadcast(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Broadcasts x to a shape as torch's expand does."""
        return x if list(x.shape) == list(shape) else self.builder.broadcast(x, list(shape), self._name)

    def source_of(self, argument: int) -> Any:
        """The node that is a positional argument of the current node."""
        return self.node.args[argument]

    # --- the walk ---

    def run(self) -> Graph:
        """Reads the program and returns its graph."""
        from .repeats import call_run, repeated

        self._inputs()
        for node in self.program.graph.nodes:
            if node.op == "call_function":
                self._fold(node)
            elif node.op == "get_attr":
                self.values[node] = self._attribute(node)
        runs = repeated(self) if self.functions else {}
        made: dict[Any, GraphBuilder] = {}
        for node in self.program.graph.nodes:
            if node.op != "call_function" or node in self.values:
                continue
            run = runs.get(node)
            if run is None:
                self.read(node)
            elif node is run.nodes[0]:
                call_run(self, run, made)
        self._outputs()
        return self.builder.build()

    def read(self, node: Any) -> None:
        """Builds one operation of torch, unless its value exists already."""
        if node not in self.values:
            self._enter(node)
            self.values[node] = self._call(node)

    @contextmanager
    def within(self, builder: GraphBuilder, values: dict[Any, Any], prefix: str) -> Iterator[None]:
        """Directs building to a function with these values; operation names lose the prefix."""
        outer = self.builder, self.values, self._prefix
        self.builder, self.values, self._prefix = builder, values, prefix
        self.weights.builder = builder
        yield
        self.builder, self.values, self._prefix = outer
        self.weights.builder = self.builder

    def _inputs(self) -> None:
        nodes = {node.name: node for node in self.program.graph.nodes if node.op == "placeholder"}
        mutated = set(self.program.graph_signature.buffers_to_mutate.values())
        for spec in self.program.graph_signature.input_specs:
            node = nodes[spec.arg.name]
            if spec.kind == InputKind.USER_INPUT:
                self.values[node] = self._user_input(node)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                self._parameter(node, spec, mutated)
            elif spec.kind == InputKind.TOKEN or (spec.kind == InputKind.CUSTOM_OBJ and not node.users):
                self.values[node] = None
            else:
                raise user_error("an input of the exported program is neither a tensor nor a constant", value=str(spec))

    def _user_input(self, node: Any) -> Any:
        meta = node.meta.get("val")
        if not isinstance(meta, torch.Tensor):
            return meta
        if node.name in self.fixed:
            return self.fixed[node.name]
        if meta.dtype in COMPLEX:
            whole = self.builder.input(node.name, self.extents(meta.shape), COMPLEX_OF[COMPLEX[meta.dtype]])
            return Complex(*parts(self.builder, whole))
        return self.builder.input(node.name, self.extents(meta.shape), dtype_name(meta.dtype, f"input {node.name}"))

    def _parameter(self, node: Any, spec: Any, mutated: set[str]) -> None:
        target, meta = str(spec.target), node.meta["val"]
        table = self.program.constants if target in self.program.constants else self.program.state_dict
        value = table.get(target)
        value = meta if value is None else value
        if target in self.fixed:
            self.values[node] = self.fixed[target]
            return
        if target in mutated:
            shape, dtype = self.extents(meta.shape), dtype_name(meta.dtype, target)
            self.values[node] = self.builder.input(target, shape, dtype)
            if is_real(value):
                self.state[target] = elements_of(value)
            return
        trainable = spec.kind == InputKind.PARAMETER
        target = self.names.get(target, target)
        self.weights.register(target, value, trainable)
        if not node.users:
            return
        folds = not trainable and is_real(value) and value.numel() <= FOLD_LIMIT
        self.values[node] = value.detach() if folds else UnreadWeight(target)

    def _attribute(self, node: Any) -> Any:
        target = self.program.graph_module
        for part in str(node.target).split("."):
            target = getattr(target, part)
        return target

    def _enter(self, node: Any) -> None:
        self.node, self._place = node, place_of(node)
        self._name = name_of(node).removeprefix(self._prefix)
        self.builder.core.set_source(self._place)

    def value(self, argument: Any) -> Any:
        """The value of a node's argument; converts the elements of lists and tuples."""
        if isinstance(argument, torch.fx.Node):
            found = self.values[argument]
            if isinstance(found, UnreadWeight):
                found = self.values[argument] = self.weights.tensor(found.name)
            return found
        if isinstance(argument, (list, tuple)):
            return [self.value(item) for item in argument]
        if isinstance(argument, torch.SymInt):
            raise self.unsupported("a number that depends on data", str(argument), "Export with fixed shapes")
        return argument

    def _call(self, node: Any) -> Any:
        overload = str(node.target)
        if overload in IGNORED:
            return None
        if overload == "with_effects" and str(node.args[1]) in IGNORED:
            return None, None
        args = [self.value(argument) for argument in node.args]
        keywords = {key: self.value(argument) for key, argument in node.kwargs.items()}
        if overload == "<built-in function getitem>":
            return args[0][args[1]]
        if not isinstance(node.target, torch._ops.OpOverload):
            return self._python(node, args, keywords)
        handler = TABLE.get(overload)
        if handler is None:
            by_data = torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ())
            hint = "The size of its result depends on data. Use a mask with torch.where" if by_data else ""
            raise self.unsupported("unsupported ATen overload", suggestion=hint)
        return self._checked(handler(self, *args, **keywords))

    def _python(self, node: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        """Runs arithmetic on sizes, which exported programs call as Python functions."""
        if any(isinstance(argument, Tensor) for argument in args):
            raise self.unsupported("unsupported function")
        return node.target(*args, **keywords)

    def _checked(self, result: Any) -> Any:
        """Returns a result after checking that its dtype and shape agree with torch's."""
        metas = self.meta if isinstance(self.meta, (tuple, list)) else [self.meta]
        values = result if isinstance(result, (tuple, list)) else [result]
        for value, meta in zip(values, metas, strict=False):
            if not isinstance(value, Tensor) or meta is None:
                continue
            wanted = (dtype_name(meta.dtype, self._place), tuple(self.extents(meta.shape)))
            if (value.dtype, value.shape) != wanted:
                raise self.unsupported(
                    f"Tilesim computes {value.dtype}{list(value.shape)}, torch {wanted[0]}{list(wanted[1])}"
                )
        return result

    def _widens(self, node: Any, sizes: Sequence[int]) -> bool:
        """Whether folding takes more bytes than the sources, as for dequantized codes or repeated scales."""
        overload, sources = str(node.target), node.all_input_nodes
        given = [x for x in (self.values[source] for source in sources) if isinstance(x, torch.Tensor)]
        if is_of_bits(overload) or any(source in self.codes for source in sources):
            self.codes.add(node)
        stored = all(source.op == "placeholder" or source in self.views for source in sources)
        if stored and sources and is_view(overload):
            self.views.add(node)
        meta = node.meta.get("val")
        if sum(sizes) <= MAX_CONSTANT or not isinstance(meta, torch.Tensor) or not meta.dtype.is_floating_point:
            return False
        bytewise = any(x.dtype.itemsize == 1 and x.dtype != torch.bool for x in given)
        if meta.dtype.itemsize > 1 and (bytewise or node in self.codes):
            return True
        repeats = "expand" in overload or "repeat" in overload
        return stored and repeats and sum(sizes) > sum(x.numel() for x in given)

    def _fold(self, node: Any) -> None:
        """Evaluates a call that depends on no input, unless it is random or large."""
        sources = node.all_input_nodes
        if any(source not in self.values or not is_constant(self.values[source]) for source in sources):
            return
        overload = str(node.target)
        if overload in IGNORED or is_random(overload):
            return
        if self.foreign and not (overload in FOLDED or overload == "<built-in function getitem>"):
            return
        meta = node.meta.get("val")
        sizes = [math.prod(one.shape) for one in torch.utils._pytree.tree_leaves(meta) if isinstance(one, torch.Tensor)]
        if any(not isinstance(size, int) or size > FOLD_LIMIT for size in sizes):
            return
        if self._widens(node, sizes):
            return
        self.folded += sum(sizes)
        if self.foreign and self.folded > 4 * FOLD_LIMIT:
            return
        if not isinstance(node.target, torch._ops.OpOverload) and overload != "<built-in function getitem>":
            return
        args, keywords = self.value(node.args), {key: self.value(item) for key, item in node.kwargs.items()}
        if "device" in keywords:
            keywords["device"] = torch.device("cpu")
        with torch.no_grad():
            if not self.foreign:
                self.values[node] = found = node.target(*args, **keywords)
                if node in self.codes and isinstance(found, torch.Tensor) and not found.is_floating_point():
                    self.words[id(found)] = found
                return
            with contextlib.suppress(RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
                self.values[node] = node.target(*args, **keywords)

    # --- results ---

    def _outputs(self) -> None:
        final = next(node for node in self.program.graph.nodes if node.op == "output")
        signature = self.program.graph_signature
        inputs = [str(row["name"]) for row in self.builder.graph.core.signature("main")[0]]
        users: list[Any] = []
        changed: list[Any] = []
        for spec, node in zip(signature.output_specs, final.args[0], strict=True):
            (users if spec.kind == OutputKind.USER_OUTPUT else changed).append((spec, node))
        self.node = None
        stored = [value for node, value in self.values.items() if node.op == "placeholder"]
        self._given.update(value.value for value in stored if isinstance(value, Tensor))
        for number, (_, node) in enumerate(users):
            empty = isinstance(node, torch.fx.Node) and self.values[node] is None
            if empty and node.meta.get("val") is not None:
                self.node = node
                raise self.unsupported("unsupported additional result of an operation")
            if not isinstance(node, torch.fx.Node) or empty:
                self.returned.append(("", self.value(node)))
            else:
                made = node.args[0] if node.target is operator.getitem else node
                name = (self.results[number:] or [name_of(made).removeprefix(self._prefix)])[0]
                self.returned.append((self._output(node, name), None))
        for spec, node in changed:
            if spec.kind == OutputKind.TOKEN:
                continue
            if spec.kind not in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
                raise user_error("an output of the exported program is not a tensor", value=str(spec))
            if str(spec.target) in self.fixed:
                continue
            name = self._output(node, f"{spec.target}.new")
            self.builder.alias(len(self.builder.graph.core.signature("main")[1]) - 1, inputs.index(str(spec.target)))
            self.changed.append((name, str(spec.target)))

    def _output(self, node: Any, name: str) -> str:
        """Declares a node's value as graph output; copies inputs, constants and values that are outputs already."""
        self._name = name
        value = self.value(node)
        tensor = joined(self.builder, value.re, value.im) if hasattr(value, "im") else self.tensor(value)
        inputs, outputs = self.builder.graph.core.signature("main")
        taken = {row["name"] for row in [*inputs, *outputs]}
        if isinstance(value, (torch.Tensor, UnreadWeight)) or node.op == "placeholder" or tensor.value in self._given:
            tensor = self.builder.op("copy", tensor, name=f"{name}.out")
        self._given.add(tensor.value)
        unique, number = name, 0
        while unique in taken:
            number += 1
            unique = f"{name}.{number}"
        self.builder.output(tensor, unique)
        return str(self.builder.graph.core.signature("main")[1][-1]["name"])
