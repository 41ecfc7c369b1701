"""Converts ONNX models to graphs. The package onnx (extra `onnx`) reads the protobuf files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import _core
from ..._core import Unsupported
from ...base.errors import user_error
from ...graph.builder import GraphBuilder
from ...graph.building import SMALL
from ...graph.graph import Graph
from ...graph.tensor import Tensor
from ..stablehlo.scope import placed
from . import (  # noqa: F401 (their import registers handlers)
    attention,
    control,
    elementwise,
    indexing,
    microsoft,
    movement,
    norm,
    quantized,
    recurrent,
    reduce,
    signal,
    window,
)
from .scope import HANDLERS, Handler, OnnxNode, OnnxScope, Value, dtype_of
from .tensors import StoredTensors

MAX_NODES = 1 << 20  # most nodes after expansion of functions and loops
NOT_FOLDED = {"If", "Loop", "Scan", "Constant", "ConstantOfShape"}


class ModelReader(StoredTensors):
    """Converts a model to a graph."""

    def __init__(
        self, model: Any, directory: str, name: str, sizes: Mapping[str, int], fixed: Mapping[str, Any]
    ) -> None:
        """Reads versions and functions."""
        super().__init__(directory)
        self.model, self.sizes, self.fixed = model, sizes, fixed
        self.opsets = {"" if o.domain == "ai.onnx" else o.domain: int(o.version) for o in model.opset_import}
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.builder = GraphBuilder(name)
        self.steps = 0
        self.depth = 0
        self.bodies = 0
        self._check_built()

    def _check_built(self) -> None:
        """Raises an error if nested functions expand to more than MAX_NODES nodes."""
        built: dict[tuple[str, str], int] = {}

        def count(nodes: Iterable[Any]) -> int:
            total = 0
            for node in nodes:
                total += 1
                domain = "" if node.domain == "ai.onnx" else node.domain
                for key in {(node.domain, node.op_type), (domain, node.op_type)} & self.functions.keys():
                    total += of(key)
                for attribute in node.attribute:
                    for graph in (attribute.g, *attribute.graphs):
                        total += count(graph.node)
                if total > MAX_NODES:
                    raise Unsupported(f"more than {MAX_NODES} nodes after functions are built in place")
            return total

        def of(key: tuple[str, str]) -> int:
            if key not in built:
                built[key] = 0  # marks a cycle, for which `inline` raises an error
                built[key] = count(self.functions[key].node)
            return built[key]

        count(self.model.graph.node)

    # --- nodes ---

    def attributes(self, proto: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a node's attributes; `given` are the attributes of the function that contains the node."""
        found: dict[str, Any] = {}
        for attribute in proto.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name in given:
                    found[attribute.name] = given[attribute.ref_attr_name]
                continue
            value = self.onnx.helper.get_attribute_value(attribute)
            if isinstance(value, bytes):
                value = value.decode("utf-8", "replace")
            elif isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
                value = [item.decode("utf-8", "replace") for item in value]
            found[attribute.name] = value
        return found

    def counted(self, more: int) -> None:
        """Adds `more` nodes, or parts of a split tensor, to the count; raises an error above MAX_NODES."""
        self.steps += more
        if self.steps > MAX_NODES:
            raise Unsupported(f"more than {MAX_NODES} nodes after loops, functions and splits are built in place")

    def run(
        self,
        scope: OnnxScope,
        nodes: Any,
        given: Mapping[str, Any] | None = None,
        opsets: Mapping[str, int] | None = None,
    ) -> None:
        """Builds nodes in order."""
        for proto in nodes:
            self.counted(1)
            domain = "" if proto.domain == "ai.onnx" else str(proto.domain)
            opset = (opsets or self.opsets).get(domain, 1)
            node = OnnxNode(proto, self.attributes(proto, given or {}), opset)
            scope.builder.core.set_source(node.place)
            scope.builder.stem = node.path
            try:
                results = self.step(scope, node)
            except Unsupported as error:
                if getattr(error, "placed", False):
                    raise
                wrapped = placed(Unsupported(f"{node.place}: {error}"))
                wrapped.needed = getattr(error, "needed", ())  # type: ignore[attr-defined]
                raise wrapped from None
            except (
                IndexError,
                KeyError,
                TypeError,
                ValueError,
                AttributeError,
                ZeroDivisionError,
                OverflowError,
            ) as error:
                if isinstance(error, _core.UserError):
                    raise
                raise user_error(
                    "the operands or attributes of a node do not fit its operator",
                    place=node.place,
                    value=f"{type(error).__name__}: {error}",
                ) from error
            used = [*node.inputs]
            for attribute in proto.attribute:
                used += control.captured(scope, attribute.g) if attribute.HasField("g") else []
            origins = frozenset().union(*(scope.origin(name) for name in used))
            for name, value in zip(node.outputs, results, strict=False):
                if name:
                    scope.names[name] = value
                    scope.origins[name] = origins

    def step(self, scope: OnnxScope, node: OnnxNode) -> Sequence[Value]:
        """Builds one node by its handler, by a function of the model, or by the standard's function body."""
        handler = HANDLERS.get((node.domain, node.op))
        function = self.functions.get((node.domain, node.op))
        if function is None and handler is None:
            function = self.definition(scope, node)
        if function is not None:
            defined = function
            handler = lambda inner, own: self.inline(inner, own, defined)  # noqa: E731
        if handler is None:
            raise Unsupported(f"unsupported operator '{node.op}' of domain '{node.domain or 'ai.onnx'}'")
        folded = self.folded(scope, node, handler) if node.op not in NOT_FOLDED else None
        return handler(scope, node) if folded is None else folded

    def folded(self, scope: OnnxScope, node: OnnxNode, handler: Handler) -> list[Value] | None:
        """Computes a node with constant operands by the reference kernels; returns None if the results are large."""
        values = [scope.get(node, i) for i in range(len(node.inputs))]
        present = [value for value in values if value is not None]
        if not present or not all(isinstance(value, Tensor) and scope.array(value) is not None for value in present):
            return None
        if "Random" in node.op or node.op == "DequantizeLinear":  # folding would widen quantized weights
            return None
        inner = OnnxScope(self, GraphBuilder("constants"))
        for name, value in zip(node.inputs, values, strict=True):
            if value is not None:
                inner.names[name] = inner.constant(scope.array(value))
        results = handler(inner, node)
        if not all(isinstance(result, Tensor) and np.prod(result.shape) <= SMALL for result in results):
            return None
        known = [inner.array(result) for result in results]
        if any(array is None for array in known):
            self.finish(inner, list(results), set())
            known = [np.asarray(array) for array in _core.evaluate(inner.builder.build().core, [])]
        return [scope.constant(array) for array in known]

    def definition(self, scope: OnnxScope, node: OnnxNode) -> Any:
        """Returns the function body by which the standard defines an operator, or None."""
        try:
            schema = self.onnx.defs.get_schema(node.op, node.opset, node.domain)
        except Exception:
            return None
        for name, attribute in schema.attributes.items():
            if name not in node.attributes and attribute.default_value.type:
                node.attributes.update(self.attributes(self.onnx.NodeProto(attribute=[attribute.default_value]), {}))
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function:
            return None
        types = []
        numbers = {name: number for number, name in _numbers().items()}
        for i in range(len(node.inputs)):
            value = scope.get(node, i)
            if isinstance(value, Tensor):
                types.append(
                    self.onnx.helper.make_tensor_type_proto(numbers[value.dtype], list(value.shape)).SerializeToString()
                )
            else:
                types.append(self.onnx.TypeProto().SerializeToString())
        plain = self.onnx.helper.make_node(node.op, node.inputs, node.outputs, domain=node.domain, **node.attributes)
        text = schema.get_context_dependent_function(plain.SerializeToString(), types)
        function = self.onnx.FunctionProto()
        function.ParseFromString(text)
        return function

    def inline(self, scope: OnnxScope, node: OnnxNode, function: Any) -> list[Value]:
        """Builds the nodes of a function in place of the node that calls it."""
        self.depth += 1
        if self.depth > 100:
            raise user_error("functions call each other in a cycle, or too deep", place=node.place)
        inner = OnnxScope(self, scope.builder)
        inner.known, inner.spread = scope.known, scope.spread
        for i, name in enumerate(function.input):
            inner.names[name] = scope.get(node, i)
            if node.has(i):
                inner.origins[name] = scope.origin(node.inputs[i])
        given = {
            attribute.name: value
            for attribute in function.attribute_proto
            for value in self.attributes(self.onnx.NodeProto(attribute=[attribute]), {}).values()
        }
        given.update(node.attributes)
        opsets = {"" if o.domain == "ai.onnx" else o.domain: int(o.version) for o in function.opset_import}
        self.run(inner, function.node, given, {**self.opsets, **opsets})
        self.depth -= 1
        return [inner.names.get(name) for name in function.output]

    def brought_in(self, scope: OnnxScope, name: str, tensor: Tensor) -> Tensor:
        """Raises an error, because a function can use only tensors that are passed to it."""
        raise Unsupported(f"'{name}' belongs to another function")

    # --- the graph ---

    def finish(self, scope: OnnxScope, outputs: Sequence[Any], inputs: set[int], names: Sequence[str] = ()) -> None:
        """Declares tensors as graph outputs; copies tensors that are already inputs, constants or outputs."""
        taken = set(inputs)
        for i, tensor in enumerate(outputs):
            if not isinstance(tensor, Tensor):
                raise Unsupported(f"output '{names[i] if i < len(names) else i}' is a sequence or absent")
            if tensor.value in taken or tensor.value in scope.known:
                tensor = scope.op("copy", tensor)
            taken.add(tensor.value)
            scope.builder.output(tensor, names[i] if i < len(names) else f"out{i}")

    def extents(self, declared: Any) -> list[int]:
        """The shape of an input."""
        place = f"input '{declared.name}'"
        if not declared.type.HasField("tensor_type"):
            raise Unsupported(f"{place}: a {declared.type.WhichOneof('value') or 'value without type'}")
        if not declared.type.tensor_type.HasField("shape"):
            raise Unsupported(f"{place}: the model does not state its shape")
        shape = []
        for dim in declared.type.tensor_type.shape.dim:
            if dim.HasField("dim_value"):
                shape.append(int(dim.dim_value))
            elif dim.dim_param in self.sizes:
                shape.append(int(self.sizes[dim.dim_param]))
            else:
                raise user_error(
                    "missing size of a symbolic dimension",
                    place=place,
                    value=f"'{dim.dim_param}'",
                    suggestion=f"Give it: sizes={{'{dim.dim_param}': 1}}, or --batch and --context",
                )
        return self.shape(shape, place)

    def read(self) -> Graph:
        """Converts the model and checks the graph."""
        graph = self.model.graph
        scope = OnnxScope(self, self.builder)
        self.initializers(scope, graph)
        inputs = set()
        for declared in graph.input:
            if declared.name in scope.names:
                continue
            if declared.name in self.fixed:
                array = np.asarray(self.fixed[declared.name])
                scope.names[declared.name] = scope.constant(array)
                scope.known[scope.names[declared.name].value] = array
                continue
            dtype = dtype_of(declared.type.tensor_type.elem_type, f"input '{declared.name}'")
            scope.names[declared.name] = self.builder.input(declared.name, self.extents(declared), dtype)
            inputs.add(scope.names[declared.name].value)
            scope.origins[declared.name] = frozenset([declared.name])
        self.run(scope, graph.node)
        names = [output.name for output in graph.output]
        self.finish(scope, [scope.value(name) for name in names], inputs, names)
        result = self.builder.build()
        result.remove_dead_code()
        return result


def _numbers() -> dict[int, str]:
    from .scope import DTYPES

    return DTYPES
