"""Defines the class `Graph`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..base.arguments import as_array
from ..base.checked import checked_class
from ..base.errors import path_text
from ..base.locks import Lock
from .content import graph_of_bytes, in_bytes
from .passes import Changes, chosen


class _State(NamedTuple):
    """The state that passes replace at once, so that other threads read a consistent one."""

    core: _core.Graph
    changes: Changes
    source: Graph | None


@checked_class()
class Graph:
    """A workload: operations on single-assignment tensors, in functions, with weights by name.

    Create one with a `GraphBuilder`, `tilesim.models`, `tilesim.workloads` or a front end, or load a file. Passes
    change the graph in place and return the number of changed operations; `copy()` first to keep the original.

    Threads may share a graph: a call works on the state at its start, and passes of several threads run one after the
    other.
    """

    def __init__(self, core: _core.Graph | None = None) -> None:
        """Stores a graph of the core."""
        self._state = _State(_core.Graph() if core is None else core, Changes(), None)
        self._changing = Lock()
        #: input -> default elements, such as the state of an imported model
        self.defaults: dict[str, NDArray[Any]] = {}
        #: assumptions made while reading the model (open sizes); results repeat them among their approximations
        self.assumptions: list[str] = []
        if core is not None:
            self.tell_devices()
        #: text or bytecode of the StableHLO module from which the graph was read; files do not keep it
        self.module: str | bytes = ""
        #: values annotated since reading, and whether the mesh changed
        self.annotated: set[str] = set()
        self.remeshed = False
        #: dtype, batch and phase in words, for a network built by name; headlines of results show it
        self.setting = ""
        #: False if only the graph after passes is known
        self.source_known = True

    @property
    def core(self) -> _core.Graph:
        """The current compiled graph; passes replace it."""
        return self._state.core

    @property
    def changes(self) -> Changes:
        """Replacements of the pattern recognition passes."""
        return self._state.changes

    @property
    def source(self) -> Graph | None:
        """The graph before pattern recognition: itself if no pass changed it, None if unknown (files of
        compiled programs keep only the result of passes). Do not change it."""
        return (self._state.source or self) if self.source_known else None

    def set_source(self, source: Graph | None) -> None:
        """Sets the graph before passes.

        Args:
            source: that graph; None: the graph itself.
        """
        with self._changing:
            self._state = self._state._replace(source=source)

    @contextmanager
    def _changed(self) -> Iterator[_core.Graph]:
        """Yields a copy of the compiled graph, which replaces the graph if the block ends without an error."""
        with self._changing:
            before, core = self.core, self.core.copy()
            yield core
            self._state = self._state._replace(core=core)
            before.replaced()

    @classmethod
    def load(cls, path: str | os.PathLike[str], weights_anywhere: bool = False) -> Graph:
        """Reads a graph file.

        Args:
            path: a file that ends in .json, or in .tsim (a JSON header, then the weights).
            weights_anywhere: whether weight files may lie outside of the graph's directory; only for files that you
                trust.

        Returns:
            The graph, checked.

        Raises:
            UserError: for a file that cannot be read or holds an illegal graph, with line and path.
        """
        return cls(_core.Graph.load(path_text(path), weights_anywhere))

    def save(self, path: str | os.PathLike[str], weights_anywhere: bool = False) -> None:
        """Writes a graph file that reads back equal. An old file stays until the new one is complete.

        Args:
            path: a file that ends in .json, or in .tsim (better for large weights).
            weights_anywhere: whether a .json file may name weight files outside of its directory; only `load` with the
                same argument reads such a file.

        Raises:
            UserError: where the file cannot be written, or names a weight file outside of its directory.
        """
        self.core.save(path_text(path), weights_anywhere)

    @classmethod
    def from_dict(
        cls, value: Mapping[str, Any] | str, directory: str | os.PathLike[str] = ".", weights_anywhere: bool = False
    ) -> Graph:
        """Reads the result of `to_dict`.

        Args:
            value: graph of schema "tilesim.graph", as a dict or as JSON text.
            directory: base of relative paths of weight files, which must lie in it or below it.
            weights_anywhere: whether weight files may lie elsewhere, as in `load`.

        Returns:
            The graph, checked.

        Raises:
            UserError: for an illegal graph, with line (of text) and path.
        """
        text = value if isinstance(value, str) else json.dumps(value)
        return cls(_core.Graph.from_json(text, path_text(directory), weights_anywhere))

    def to_dict(self) -> dict[str, Any]:
        """Converts functions, tensors and operations to JSON values.

        Returns:
            A dict for JSON, schema "tilesim.graph".
        """
        return dict(json.loads(self.core.to_json()))

    def _repr_html_(self) -> str:
        from .pictures import picture

        return picture(self)

    def copy(self) -> Graph:
        """Returns an independent copy.

        Returns:
            A graph that changes independently.
        """
        other = Graph()
        core, changes, source = self._state
        other._state = _State(core.copy(), Changes(changes), source)
        other.defaults.update(self.defaults)
        other.assumptions, other.setting = list(self.assumptions), self.setting
        other.source_known, other.module = self.source_known, self.module
        other.annotated, other.remeshed = set(self.annotated), self.remeshed
        return other

    def check(self) -> None:
        """Checks structure, attributes, shapes and dtypes.

        Raises:
            UserError: names function, operation, the value found and the value expected.
        """
        self.core.check()

    @property
    def name(self) -> str:
        """Name of the graph."""
        return str(self.core.name)

    @name.setter
    def name(self, value: str) -> None:
        with self._changing:
            self.core.name = value

    @property
    def mesh(self) -> str | None:
        """The device mesh of the shardings, as "x=2, y=4"; None without a mesh."""
        found = self.core.mesh
        return None if found is None else str(found)

    @property
    def devices(self) -> int:
        """Number of devices that run the graph together with separate values: 1, or the number that a module states."""
        return int(self.core.devices)

    @property
    def shardings(self) -> dict[str, str]:
        """Shardings over the mesh by value name ("function:value" outside of the entry), in Shardy's text."""
        return dict(self.core.shardings)

    def annotate(
        self,
        shardings: Mapping[str, str] | None = None,
        mesh: Mapping[str, int] | str | None = None,
        devices: int | None = None,
    ) -> None:
        """Annotates shardings of values over a device mesh. The results stay the same.

        Args:
            shardings: by name of an input or another value, in Shardy's text: '[{"x"}, {}]' shards the first of two
                axes over mesh axis x, '{?}' leaves an axis open; "" removes the annotation.
            mesh: sizes of its axes by name, or as text "x=2, y=4" (", device_ids=[..]" for another order of devices);
                "" removes it with all shardings.
            devices: number of devices that run the graph together with separate values.

        Raises:
            UserError: for an unknown value or mesh axis, a wrong number of axes, a mesh axis used twice, or a part that
                does not divide its axis.
        """
        text = ", ".join(f"{name}={size}" for name, size in mesh.items()) if isinstance(mesh, Mapping) else mesh
        with self._changed() as core:
            core.annotate(text, dict(shardings or {}), devices or 0)
        self.annotated |= set(shardings or {})
        self.remeshed = self.remeshed or text is not None
        self.tell_devices()

    def tell_devices(self) -> None:
        """Adds the notes about several devices to the assumptions."""
        from .devices import device_notes

        others = [line for line in self.assumptions if not line.startswith("devices: ")]
        self.assumptions = [*others, *device_notes(self.core)]

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Inputs in order, each with name, dtype and shape."""
        return list(self.core.inputs)

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """Outputs in order, each with name, dtype and shape."""
        return list(self.core.outputs)

    @property
    def functions(self) -> list[str]:
        """Names of all functions, which operations of kind call refer to."""
        return list(self.core.functions)

    @property
    def parameters(self) -> int:
        """Number of elements of all trainable weights."""
        return int(self.core.parameter_count())

    def flops(self) -> dict[str, float]:
        """Counts arithmetic operations by unit.

        Returns:
            Number of operations per unit: matrix (a multiply-add is 2), simple, multiply, divide, transcendental.
        """
        return dict(self.core.flops())

    def compulsory_bytes(self) -> int:
        """Counts the bytes that every schedule must move.

        Returns:
            Bytes of inputs, weights and outputs that cross the chip's border at least once.
        """
        return int(self.core.compulsory_bytes())

    def operations(self, function: str = "") -> list[dict[str, Any]]:
        """Lists the operations of one function in order.

        Args:
            function: name of the function; the entry function by default.

        Returns:
            One dictionary per operation: name, kind, operands, results (name, dtype, shape), attributes, functions,
            source, flops by unit, bytes (compulsory).

        Raises:
            UserError: for an unknown function.
        """
        return list(self.core.operations(function))

    def weights(self) -> dict[str, dict[str, Any]]:
        """Weights by name.

        Returns:
            dtype, shape, source ("data", "random" or "file") and trainable of each.
        """
        return dict(self.core.weights())

    def weight(self, name: str) -> NDArray[Any]:
        """Returns the elements of one weight.

        Args:
            name: name of the weight.

        Returns:
            An array of the weight's shape and dtype.

        Raises:
            UserError: for an unknown name, or a file that cannot be read.
        """
        return np.asarray(self.core.weight(name))

    def set_weight(self, name: str, value: ArrayLike) -> None:
        """Replaces the elements of one weight.

        Args:
            name: name of the weight.
            value: array of the weight's shape and dtype.

        Raises:
            UserError: for an unknown name, or an array of another shape or dtype.
        """
        with self._changing:  # a pass that runs now would undo the change
            self.core.set_weight(name, as_array(value, f"weight '{name}'"))

    def load_weights(
        self,
        source: str | os.PathLike[str] | Mapping[str, ArrayLike],
        names: Mapping[str, str] | Callable[[str], str] | None = None,
        strict: bool = True,
        convert: bool = False,
    ) -> list[str]:
        """Loads weights from a file. Safetensors files are memory-mapped when the weights are read.

        Args:
            source: .safetensors (or its .index.json, or the directory of both), .npz, .pt (read with weights_only), or
                arrays by name.
            names: from names of the graph's weights to names in the file: a dictionary, or a function.
            strict: whether a missing trainable weight is an error.
            convert: round elements of another dtype instead of raising an error.

        Returns:
            Names of the loaded weights.

        Raises:
            UserError: for a damaged file, a missing weight, or one of another shape or dtype.
        """
        from .weights import load_weights

        with self._changing:
            changed = self.copy()
            given = load_weights(changed, source, names, strict, convert)
            before, self._state = self.core, self._state._replace(core=changed.core)
            before.replaced()
        return given

    def expand(self, kinds: Sequence[str] = ()) -> int:
        """Replaces composite operations (softmax, attention, ...) by primitives.

        Args:
            kinds: only these; all composite kinds by default.

        Returns:
            Number of operations replaced.

        Raises:
            UserError: for an unknown kind.
        """
        with self._changed() as core:
            return int(core.expand(list(kinds)))

    def inline_calls(self) -> int:
        """Replaces calls by the operations of the called function.

        Returns:
            Number of calls replaced.
        """
        with self._changed() as core:
            return int(core.inline_calls())

    def remove_dead_code(self) -> int:
        """Removes operations, functions and weights that no output needs.

        Returns:
            Number of operations removed.
        """
        with self._changed() as core:
            return int(core.remove_dead_code())

    def remove_no_ops(self) -> int:
        """Removes no-ops: identity reshapes, conversions, x + 0, ...

        Returns:
            Number of operations removed.
        """
        with self._changed() as core:
            return int(core.remove_no_ops())

    def merge_common_subexpressions(self) -> int:
        """Computes equal operations once.

        Returns:
            Number of operations removed.
        """
        with self._changed() as core:
            return int(core.merge_common_subexpressions())

    def fold_constants(self, max_elements: int = 1 << 20) -> int:
        """Evaluates operations that read only weights.

        Args:
            max_elements: operations with larger operands or results stay.

        Returns:
            Number of operations replaced by a weight.
        """
        with self._changed() as core:
            return int(_core.fold_constants(core, max_elements))

    def optimize(self, passes: str | Sequence[str] | None = None, without: Sequence[str] = ()) -> Changes:
        """Recognises decomposed patterns; see `tilesim.optimize`.

        Args:
            passes: names; "all" by default, or "none".
            without: names to leave out.

        Returns:
            The replacements, also appended to `changes`.

        Raises:
            UserError: for an unknown name.
        """
        names = chosen(passes, without)
        with self._changing:
            old, changes, source = self._state
            before = self.copy() if source is None and self.source_known else source
            core = old.copy()
            made = Changes(_core.recognise(core, names) if names else ())
            if made:
                self._state = _State(core, Changes([*changes, *made]), before)
                old.replaced()
        return made

    def fold_batch_norm(self) -> int:
        """Folds batch_norm into the convolution or product before it; exact up to rounding.

        Returns:
            Number of operations folded.
        """
        with self._changed() as core:
            return int(_core.fold_batch_norm(core))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and bool(self.core.equals(other.core))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the .tsim form, with weights."""
        core, changes, source = self._state
        rest = (dict(self.defaults), changes, list(self.assumptions), source, self.source_known, self.setting,
                self.module)  # fmt: skip
        return _unpickled, (in_bytes(core), *rest)

    def __repr__(self) -> str:
        return repr(self.core)


def _unpickled(
    content: bytes,
    defaults: dict[str, NDArray[Any]],
    changes: Changes,
    assumptions: list[str],
    source: Graph | None,
    source_known: bool,
    setting: str,
    module: str | bytes,
) -> Graph:
    graph = Graph(graph_of_bytes(content))
    graph.defaults, graph.assumptions, graph.source_known = defaults, assumptions, source_known
    graph.setting, graph.module = setting, module
    graph._state = _State(graph.core, changes, source)
    return graph
