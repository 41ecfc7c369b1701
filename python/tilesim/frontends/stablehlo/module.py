"""Converts a parsed StableHLO module to a graph."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._core import Unsupported
from ...base.errors import user_error
from ...graph.builder import GraphBuilder
from ...graph.building import namer
from ...graph.graph import Graph
from ...graph.tensor import Tensor
from ..complex import COMPLEX_OF, joined
from ..complex import parts as parts_at_border
from . import collectives, elementwise, host, indexing, manual, movement, products, random, reduce  # noqa: F401
from .passes import expanded
from .scope import Complex, Handler, Scope, Value, flat
from .shardings import Devices, devices_of
from .types import Shaped, parts_of

SEED = "rng_seed"  # name of the input of graphs that draw random numbers
SMALL_FUNCTION = 12  # a function of at most this many operations is always inlined
MAX_BUILT = 1 << 20  # most operations after inlining all calls


class ModuleReader:
    """Converts a parsed module to a graph."""

    def __init__(self, module: Any, name: str) -> None:
        """Finds the functions."""
        self.module = module
        self.root = GraphBuilder(name)
        self.fresh = namer()  # generates names of weights and functions
        self.functions = {
            str(op.operation.attributes["sym_name"].value): op.operation
            for op in module.body.operations
            if op.operation.name == "func.func"
        }
        self.devices = Devices(module)
        self.annotates = bool(self.devices.mesh)
        self.borders: dict[tuple[Any, ...], str] = {}  # signature -> conversion between full tensors and shards
        self.calls = self._count_calls()
        self._check_built()
        self.done: dict[str, str] = {}
        self.open: list[str] = []
        self.aliases: list[tuple[int, int]] = []
        #: assumptions that the graph reports
        self.assumptions: list[str] = []
        #: values from the host, and names and tensors for the host
        self.from_host: list[Value] = []
        self.to_host: list[tuple[str, Tensor]] = []
        self.keep: list[Any] = []  # keeps expanded modules alive while their operations are read
        self.seed: Tensor | None = None
        self.draws = 0

    def _count_calls(self) -> dict[str, int]:
        counts: dict[str, int] = {}

        def visit(operation: Any) -> None:
            for region in operation.regions:
                for block in region.blocks:
                    for op in block.operations:
                        if op.operation.name in ("func.call", "stablehlo.call"):
                            callee = str(op.operation.attributes["callee"].value)
                            counts[callee] = counts.get(callee, 0) + 1
                        visit(op.operation)

        visit(self.module.operation)
        return counts

    def _check_built(self) -> None:
        """Raises an error if nested calls expand to more than MAX_BUILT operations."""
        built: dict[str, int] = {}

        def count(operation: Any) -> int:
            total = 1
            for region in operation.regions:
                for block in region.blocks:
                    for op in block.operations:
                        if op.operation.name in ("func.call", "stablehlo.call"):
                            total += of(str(op.operation.attributes["callee"].value))
                        total = min(total + count(op.operation), MAX_BUILT + 1)
            return total

        def of(name: str) -> int:
            if name not in built:
                built[name] = 0  # marks a cycle, for which `function` raises an error
                built[name] = count(self.functions[name]) if name in self.functions else 0
                if built[name] > MAX_BUILT:
                    raise user_error(
                        "a function expands to too many operations",
                        value=f"'{name}': over {MAX_BUILT}",
                        allowed=f"at most {MAX_BUILT}",
                    )
            return built[name]

        for name in self.functions:
            of(name)

    # --- functions ---

    def function(self, name: str) -> Any:
        """Finds a function of the module; raises UserError if it does not exist or calls itself."""
        if name not in self.functions:
            raise user_error("call of an unknown function", value=f"'{name}'", allowed=", ".join(self.functions))
        if name in self.open:
            raise user_error("functions call each other in a cycle", value=" -> ".join([*self.open, name]))
        if not self.functions[name].regions[0].blocks:
            raise Unsupported(f"function '{name}' has no body")
        return self.functions[name]

    def in_place(self, name: str) -> bool:
        """Whether to inline a function, because it is small or called once."""
        block = self.function(name).regions[0].blocks[0]
        return self.calls.get(name, 0) <= 1 or len(block.operations) <= SMALL_FUNCTION

    def inlined(self, scope: Scope, name: str, values: Sequence[Value]) -> list[Value]:
        """Builds the operations of a function in place of its call."""
        block = self.function(name).regions[0].blocks[0]
        self.open.append(name)
        inner = Scope(self, scope.builder)
        inner.known, inner.spread = scope.known, scope.spread
        for argument, value in zip(block.arguments, values, strict=True):
            inner.values[argument] = value
        results = inner.run(block)
        self.open.pop()
        return results

    def converted(self, name: str) -> str:
        """Converts a function of the module to a function of the graph at its first call; returns its name."""
        if name not in self.done:
            block = self.function(name).regions[0].blocks[0]
            self.open.append(name)
            self.done[name] = self._new_function(None, block, name, [], [], [])
            self.open.pop()
        return self.done[name]

    def region_function(
        self, scope: Scope, block: Any, stem: str, passed: list[Any], remade: list[Any], returned: list[Any]
    ) -> str:
        """Converts a region to a function of the graph."""
        return self._new_function(scope, block, stem, passed, remade, returned)

    def _new_function(
        self, outer: Scope | None, block: Any, stem: str, passed: list[Any], remade: list[Any], returned: list[Any]
    ) -> str:
        name = self.fresh("function." + stem)
        builder = self.root.function(name)
        scope = Scope(self, builder)
        arguments = [*block.arguments, *passed]
        inputs = [self.formal(scope, argument.type, f"in{i}") for i, argument in enumerate(arguments)]
        scope.values.update(zip(arguments, inputs, strict=True))
        for mlir in remade if outer is not None else []:
            array = outer.array(outer.real(mlir)) if outer is not None else None
            scope.values[mlir] = scope.constant(array)
        outputs = scope.run(block)
        self._finish(
            scope, flat([*outputs, *(scope.values[mlir] for mlir in returned)]), {t.value for t in flat(inputs)}
        )
        return name

    def formal(self, scope: Scope, mlir_type: Any, name: str) -> Value:
        """Adds an input to a function; a complex input is one tensor in the main graph, and two in functions."""
        parts = parts_of(mlir_type)
        if parts is not None:
            return [self.formal(scope, part, f"{name}.{i}") for i, part in enumerate(parts)]
        shaped = Shaped(mlir_type, f"input '{name}'")
        if not shaped.complex:
            return scope.builder.input(name, shaped.shape, shaped.dtype)
        if scope.builder is self.root:
            whole = scope.builder.input(name, shaped.shape, COMPLEX_OF[shaped.dtype])
            return Complex(*parts_at_border(scope.builder, whole))
        return Complex(*(scope.builder.input(name + end, shaped.shape, shaped.dtype) for end in (".re", ".im")))

    def _finish(self, scope: Scope, outputs: list[Tensor], inputs: set[int], names: Sequence[str] = ()) -> None:
        """Declares tensors as graph outputs; copies tensors that are already inputs, constants or outputs."""
        taken = set(inputs)
        for i, tensor in enumerate(outputs):
            if tensor.value in taken or tensor.value in scope.known:
                tensor = scope.op("copy", tensor)
            taken.add(tensor.value)
            scope.builder.output(tensor, names[i] if i < len(names) else f"out{i}")

    # --- devices ---

    def meets(self) -> None:
        """At a per-device operation, sets the device count from the mesh if the module does not state it."""
        found = self.devices
        if found.devices == 1 and found.mesh:
            found.partitions = found.devices = devices_of(found.mesh)

    def assume(self, text: str) -> None:
        """Adds an assumption that the graph reports."""
        self.assumptions.append(text)

    # --- random numbers ---

    def random_seed(self, scope: Scope) -> tuple[Tensor, int]:
        """Returns the seed of random operations (a graph input with a default) and the index of this draw."""
        if scope.builder is not self.root:
            raise Unsupported("stateless random numbers inside a loop, a branch or a called function")
        if self.seed is None:
            self.seed = self.root.input(SEED, (2,), "u32")
        self.draws += 1
        return self.seed, self.draws - 1

    def _note_seed(self, graph: Graph) -> None:
        """Adds the assumptions to the graph, and sets the default of the random seed."""
        graph.assumptions += list(dict.fromkeys(self.assumptions))
        if self.seed is not None:
            graph.defaults[SEED] = np.zeros(2, np.uint32)
            graph.assumptions.append(
                f"stablehlo.rng: {self.draws} draws by Threefry-2x32 with the input '{SEED}' (default [0, 0]) as key; "
                "other implementations draw other numbers, because the specification leaves the stream open"
            )

    # --- operations of other dialects ---

    def foreign(self, name: str) -> Handler | None:
        """Returns the handler that expands other CHLO operations; None for other dialects."""
        return expanded if name.startswith("chlo.") else None

    # --- the entry ---

    def entry(self) -> Graph:
        """Builds the entry function."""
        public = [
            name
            for name, function in self.functions.items()
            if "sym_visibility" not in function.attributes or function.attributes["sym_visibility"].value == "public"
        ]
        name = "main" if "main" in self.functions else public[0] if len(public) == 1 else ""
        if not name:
            raise user_error(
                "the module has no entry",
                value=", ".join(self.functions) or "no function",
                allowed="'main', or one public function",
            )
        function = self.function(name)
        block = function.regions[0].blocks[0]
        scope = Scope(self, self.root)
        inputs = self._inputs(scope, function, block)
        self.open.append(name)
        outputs = [self._joined(scope, value) for value in leaves(scope.run(block))]
        if self.annotates:
            outputs = self._annotated(scope, function, outputs)
        names = [*output_names(function, len(outputs)), *(name for name, _ in self.to_host)]
        inputs |= {tensor.value for tensor in flat(self.from_host)}
        self._finish(scope, [*outputs, *(tensor for _, tensor in self.to_host)], inputs, names)
        for output, source in self.aliases:
            if output < len(outputs):
                self.root.alias(output, source)
        self.root.core.set_devices(self.devices.mesh, self.devices.devices)
        graph = self.root.build()
        self._note_seed(graph)
        graph.remove_dead_code()
        return graph

    def _inputs(self, scope: Scope, function: Any, block: Any) -> set[int]:
        attributes = function.attributes.get("arg_attrs", [])
        taken: set[str] = set()
        for i, argument in enumerate(block.arguments):
            match = re.fullmatch(r'loc\("([^"]+)"\)', str(argument.location))
            name = match[1] if match and match[1] not in taken else f"arg{i}"
            taken.add(name)
            scope.values[argument] = value = self.formal(scope, argument.type, name)
            if i < len(attributes) and self.annotates and isinstance(value, Tensor):
                scope.annotated(value, self.devices.shardings_of(attributes[i], [value.ndim])[0])
            if i < len(attributes) and "tf.aliasing_output" in attributes[i]:
                self.aliases.append((int(attributes[i]["tf.aliasing_output"].value), i))
        return {tensor.value for tensor in flat([scope.values[argument] for argument in block.arguments])}

    def _annotated(self, scope: Scope, function: Any, outputs: list[Tensor]) -> list[Tensor]:
        """Annotates outputs with the shardings in the function's result attributes."""
        said = function.attributes.get("res_attrs", [])
        return [
            scope.annotated(tensor, self.devices.shardings_of(said[i], [tensor.ndim])[0]) if i < len(said) else tensor
            for i, tensor in enumerate(outputs)
        ]

    def _joined(self, scope: Scope, value: Value) -> Tensor:
        if isinstance(value, Complex):
            return joined(scope.builder, value.re, value.im)
        tensor: Tensor = value
        return tensor


def leaves(values: Sequence[Value]) -> list[Value]:
    """Returns tensors and complex tensors in values and their tuples as a flat list."""
    return [leaf for value in values for leaf in (leaves(value) if isinstance(value, list) else [value])]


def output_names(function: Any, count: int) -> list[str]:
    """Returns the output names in the result attributes, else numbered names."""
    attributes = function.attributes.get("res_attrs", [])
    names: list[str] = []
    for i in range(count):
        noted = attributes[i] if i < len(attributes) else {}
        text = str(noted["jax.result_info"].value) if "jax.result_info" in noted else ""
        name = re.sub(r"^result(?=.)", "", text).strip("[]'.") or f"output{i}"
        names.append(name if name not in names else f"{name}.{i}")
    return names
