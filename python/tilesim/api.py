"""The calls that users make: compile, execute, verify, simulate."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from ._errors import read_text
from .frontends.torch_entry import from_torch, is_module
from .graph import Graph, nearest, user_error
from .machine import Machine
from .memory import Part
from .replay import LIMIT, extended, operations
from .result import Result, Table

__all__ = [
    "Program",
    "Verification",
    "compile",
    "execute",
    "reference",
    "run",
    "simulate",
    "verify",
]

STRATEGIES = ("heuristic", "cost", "gemmini", "pytorchsim")
COMPILED = "tilesim.compiled"
MachineLike = Machine | str | os.PathLike[str] | Mapping[str, Any]


class Program:
    """A compiled tile program, with the graph and machine that it came from."""

    def __init__(self, core: _core.Program, graph: Graph | None = None, machine: Machine | None = None) -> None:
        """Wraps a program of the core.

        Args:
            core: the compiled program.
            graph: where it came from (execution takes weights there).
            machine: what it was compiled for.
        """
        self.core, self.graph, self.machine = core, graph, machine
        self._prepared: _core.Graph | None = None
        self._operations, self._reads = -1, False
        self._weights: dict[str, Any] | None = None

    @classmethod
    def load(cls, path: str | os.PathLike[str], machine: MachineLike | None = None) -> Program:
        """Reads a program written by hand or by `save`.

        Args:
            path: a JSON file, schema "tilesim.program", or a .tsim file that `save` wrote (with graph, weights and
                machine: it can be executed, verified and simulated without the front end).
            machine: to simulate it on; none: the file's, if it has one.

        Returns:
            The program, checked.

        Raises:
            UserError: with line and path, for a damaged file, or one of a newer version.
        """
        target = None if machine is None else Machine.load(machine)
        if os.fspath(path).endswith(".tsim"):
            return cls._load_compiled(os.fspath(path), target)
        core = _core.Program.from_json(read_text(path), os.fspath(path))
        core.check()
        return cls(core, None, target)

    @classmethod
    def _load_compiled(cls, path: str, machine: Machine | None) -> Program:
        text = _core.Graph.compiled_header(path)
        if not text:
            raise user_error("the file holds a graph, not a compiled program", place=path, suggestion="Graph.load")
        header = json.loads(text)
        if header.get("schema") != COMPILED or header.get("version") != 1:
            found = f"{header.get('schema')} version {header.get('version')}"
            raise user_error("the file is of another kind or a newer version", place=path, value=found, allowed="1")
        core = _core.Program.from_json(json.dumps(header["program"]), path)
        core.check()
        return cls(core, Graph.load(path), machine or Machine.load(header["machine"]))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program.

        Args:
            path: .json for the tile program alone; .tsim for the program with its graph, weights (random ones as their
                recipe; folded, transposed and padded ones are made again from the graph's) and machine.

        Raises:
            UserError: for .tsim from a program without its graph, or a path that cannot be written.
        """
        if not os.fspath(path).endswith(".tsim"):
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.core.to_json())
            return
        if self.graph is None or self.machine is None:
            raise user_error(
                "a program without its graph has no weights to write", place=os.fspath(path), allowed=".json"
            )
        header = {
            "schema": COMPILED,
            "version": 1,
            "tilesim": _core.__version__,
            "machine": self.machine.to_dict(),
            "program": json.loads(self.core.to_json()),
        }
        self.graph.core.save_compiled(os.fspath(path), json.dumps(header))

    @property
    def operations(self) -> int:
        """Number of tile operations that the program executes, count of statements (loops of unknown length once)."""
        self._count()
        return self._operations

    @property
    def reads_tensors(self) -> bool:
        """Whether loops or addresses depend on the values of tensors."""
        self._count()
        return self._reads

    def _count(self) -> None:
        if self._operations < 0:
            text = self.core.to_json()
            self._operations, self._reads = operations(json.loads(text)), "read(" in text

    @property
    def notes(self) -> list[str]:
        """What lowering approximated or added."""
        return list(self.core.notes)

    def weight(self, name: str) -> Any:
        """Elements of a weight of the program (folded constants included).

        Args:
            name: as in the program's tensors.

        Returns:
            A numpy array.

        Raises:
            UserError: for a program without its graph, or an unknown name.
        """
        if self.graph is None or self.machine is None:
            raise user_error("a program without its graph has no weights")
        return self.prepared.weight(name)

    @property
    def prepared(self) -> _core.Graph:
        """The graph that lowering worked on: expanded, folded.

        Raises:
            UserError: for a program without its graph.
        """
        if self.graph is None or self.machine is None:
            raise user_error("a program without its graph has none to prepare")
        if self._prepared is None:
            self._prepared = _core.prepared(self.graph.core, self.machine.core)
        return self._prepared

    def weights(self) -> dict[str, Any]:
        """Elements of all weights of the program, read once.

        Returns:
            Numpy arrays by the names of the program's tensors.
        """
        if self._weights is None:
            rows = [row for row in self.core.tensors() if row["role"] == "weight"]
            self._weights = {row["name"]: self.weight(row["weight"]) for row in rows}
        return self._weights

    def forget_weights(self) -> None:
        """Reads the weights anew at the next execution: the graph's have changed."""
        self._prepared, self._weights = None, None

    def tensors(self) -> Table:
        """The tensors of the program.

        Returns:
            Rows with name, dtype, shape, role.
        """
        return Table(self.core.tensors())

    def __repr__(self) -> str:
        """Name and machine."""
        return f"<Program {self.core.name} for {self.core.machine or 'any machine'}>"


def compile(
    graph: Graph,
    machine: MachineLike = "tpu-v3",
    mapping: Any = "heuristic",
    fuse: str = "all",
    fallback: str = "error",
) -> Program:
    """Lowers a graph to a tile program.

    "heuristic" takes the machine's lowering profile where it has one, else a greedy choice; "cost" searches with the
    cost model; "gemmini" and "pytorchsim" choose as those tools do; "tuned" simulates 16 candidates per distinct
    product (`ts.tune` does so with more say).

    Args:
        graph: the workload.
        machine: preset name, file, dict or Machine.
        mapping: "heuristic", "cost", "gemmini", "pytorchsim", "tuned"; a MappingTable (products without an entry are
            mapped by the heuristic, see its `report`); or a dict: operation name to {"tiles", "order", "depths",
            "unit"} (sizes in elements).
        fuse: "all" or "none".
        fallback: "error"; other placements are not built yet.

    Returns:
        The program.

    Raises:
        Unsupported: for an operation or dtype that the machine cannot run.
        UserError: when no tile fits the scratchpad, or an option is unknown.
    """
    if fuse not in ("all", "none"):
        raise user_error("unknown way to fuse", value=f"'{fuse}'", allowed="all, none")
    if fallback != "error":
        raise user_error("placement on a host is not built yet", value=f"'{fallback}'", allowed="error")
    target = Machine.load(machine)
    mappings, rest = _mappings(graph, target, mapping, fuse)
    return Program(_core.compile(graph.core, target.core, fuse, mappings, rest), graph, target)


def _mappings(graph: Graph, target: Machine, mapping: Any, fuse: str) -> tuple[dict[str, Any], str]:
    """Nests by operation name, and how other products are mapped."""
    from .mapping import MappingTable, products

    if mapping == "tuned":
        from .tune import tune

        mapping = tune(graph, target, 16, fuse=fuse).best
    if isinstance(mapping, MappingTable):
        return mapping.nests(products(graph, target, fuse)), "heuristic"
    if isinstance(mapping, Mapping):
        return _nests(mapping), "heuristic"
    if mapping in STRATEGIES:
        return {}, mapping
    allowed = (*STRATEGIES, "tuned")
    raise user_error(
        "unknown mapping",
        value=repr(mapping),
        allowed=", ".join(allowed) + ", a MappingTable, or a dict of nests",
        suggestion=nearest(mapping, allowed) if isinstance(mapping, str) else "",
    )


def _nests(mapping: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """A mapping with its form checked; whether the nests are legal is decided by the lowering."""
    keys = ("tiles", "order", "depths")
    nests = {}
    for operation, nest in mapping.items():
        if not isinstance(nest, Mapping) or set(nest) - {"unit"} != set(keys):
            got = ", ".join(map(str, nest)) if isinstance(nest, Mapping) else repr(nest)
            raise user_error("a nest has three lists", place=str(operation), value=got, allowed=", ".join(keys))
        lists = {key: list(nest[key]) if isinstance(nest[key], Sequence) else nest[key] for key in keys}
        for key, numbers in lists.items():
            if not isinstance(numbers, list) or not all(type(n) is int and abs(n) < 2**31 for n in numbers):
                raise user_error(f"'{key}' is not a list of integers", place=str(operation), value=repr(nest[key]))
        nests[str(operation)] = {**lists, "unit": nest.get("unit", "array")}
    return nests


def _array(value: Any) -> Any:
    """A torch tensor as an array in the same memory; anything else as it is."""
    if not hasattr(value, "detach"):
        return value
    from .frontends.torch_weights import elements_of

    return elements_of(value)


def _inputs(graph: Graph, inputs: Any, seed: int) -> list[Any]:
    """Arrays in the graph's order. State that an imported model carries may be left out."""
    names = [row["name"] for row in graph.core.inputs]
    state = graph.defaults
    if inputs is None:
        given = dict(zip(names, _core.random_inputs(graph.core, seed), strict=True))
        return [state.get(name, array) for name, array in given.items()]
    if isinstance(inputs, Mapping):
        missing = [name for name in names if name not in inputs and name not in state]
        unknown = [name for name in inputs if name not in names]
        if missing or unknown:
            raise user_error("wrong inputs", value=", ".join(map(str, inputs)), allowed=", ".join(names))
        return [_array(inputs[name]) if name in inputs else state[name] for name in names]
    free = [name for name in names if name not in state]
    if not isinstance(inputs, Sequence) or len(inputs) not in (len(names), len(free)):
        count = f"{len(inputs)} of them" if isinstance(inputs, Sequence) else str(type(inputs))
        raise user_error("wrong number of inputs", value=count, allowed=", ".join(free))
    given = dict(zip(names if len(inputs) == len(names) else free, inputs, strict=True))
    return [_array(given[name]) if name in given else state[name] for name in names]


def _arrays(program: Program, inputs: Any, seed: int) -> dict[str, Any]:
    """Inputs and weights by the program's tensor names."""
    if program.graph is None:
        return dict(inputs or {})
    names = [row["name"] for row in program.graph.core.inputs]
    arrays: dict[str, Any] = dict(zip(names, _inputs(program.graph, inputs, seed), strict=True))
    arrays.update(program.weights())
    return arrays


def execute(
    program: Program, inputs: Any = None, seed: int = 0, find_races: bool = False, order: str = "text"
) -> dict[str, Any]:
    """Runs the tiled program on real tensors, in the machine's numerics.

    Args:
        program: what to run.
        inputs: dict by name or sequence of arrays; none: random ones.
        seed: of random inputs, and of the order "random".
        find_races: also report uses that no wait, commit or release orders.
        order: "text"; "early_loads" (loads as early, consumers as late as the program allows); "random" (some legal
            order). Without races all give the same bits.

    Returns:
        Outputs (numpy arrays) by name.

    Raises:
        UserError: for wrong inputs, an unknown order, or a race.
    """
    return dict(_core.execute(program.core, _arrays(program, inputs, seed), order, seed, find_races))


def reference(graph: Graph, inputs: Any = None, seed: int = 0, machine: MachineLike | None = None) -> dict[str, Any]:
    """Runs the reference kernels.

    Args:
        graph: the workload.
        inputs: dict by name or sequence of arrays; none: random ones.
        seed: of random inputs.
        machine: whose numerics to use; none: exact (accumulate in f32 or wider).

    Returns:
        Outputs by name.
    """
    numerics: dict[str, Any] = {}
    if machine is not None and Machine.load(machine).core.multiply:
        numerics["multiply"] = Machine.load(machine).core.multiply
    results = _core.evaluate(graph.core, _inputs(graph, inputs, seed), numerics)
    return dict(zip([row["name"] for row in graph.core.outputs], results, strict=True))


class Verification:
    """Tiled tensors against the reference, operation by operation."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        """Holds one row per tensor that a kernel stores.

        Args:
            rows: operation, tensor, elements, error, bound, ratio, scale, worst, ok.
        """
        self.rows = rows

    @property
    def ok(self) -> bool:
        """Whether every element lies within its bound."""
        return all(row["ok"] for row in self.rows)

    @property
    def worst(self) -> dict[str, Any] | None:
        """The row with the largest ratio of error to bound; none without rows."""
        return max(self.rows, key=lambda row: row["ratio"], default=None)

    def table(self) -> Table:
        """Per tensor: largest difference, bound where it is nearest, their ratio, verdict.

        Returns:
            The rows: `error`, `bound` and `scale` (largest magnitude) in the tensor's own unit, `worst` its row-major
            position.
        """
        return Table(self.rows)

    def __repr__(self) -> str:
        """The verdict and the rows."""
        return ("equal within the bound" if self.ok else "NOT equal") + "\n" + str(self.table())


def verify(program: Program, inputs: Any = None, seed: int = 0) -> Verification:
    """Compares the tiled program with the reference kernels, operation by operation, each on the reference's operands.

    A float element may deviate by gamma_n * sum |a||b| + u * |reference| for products (gamma_n = n*u / (1 - n*u) with
    the accumulator's roundoff u), gamma_n * sum |x| for sums, a few roundings for other functions; inside a fused
    kernel deviations are carried through its operations. Where operands are rounded (bf16 in the array), computed ones
    may go to another neighbour. Integers, booleans and moved elements are equal.

    Args:
        program: a compiled program.
        inputs: as for `execute`.
        seed: of random inputs.

    Returns:
        The comparison.

    Raises:
        UserError: for a program that has no graph.
    """
    if program.graph is None or program.machine is None:
        raise user_error("a program without its graph cannot be verified")
    arrays = _arrays(program, inputs, seed)
    return Verification(_core.verify(program.prepared, program.core, program.machine.core, arrays))


def _dram_part(machine: Machine) -> _core.DramPart:
    name = machine.get("memory.part")
    if not name:
        allowed = ", ".join(Part.names())
        raise user_error("memory of fidelity bank needs a DRAM part", place="memory.part", allowed=allowed)
    return Part.load(name).core


def simulate(
    program: Program | Graph,
    machine: MachineLike | None = None,
    memory: str | None = None,
    network: str | None = None,
    timeline: bool = False,
    tensors: Mapping[str, Any] | None = None,
    replay: bool = True,
) -> Result:
    """Runs a program in simulated time.

    Args:
        program: a compiled program (a graph is compiled first).
        machine: none: the one that the program was compiled for.
        memory: "ideal", "simple", or "bank" (DRAM channels of the machine's memory.part); none: what the machine says.
        network: only none and "simple" exist so far.
        timeline: record intervals for `Result.timeline`.
        tensors: integer tensors that timing depends on (counts, offsets), by name.
        replay: simulate steady loops of programs beyond 4,000,000 tile operations for a few trips and extend them
            linearly; the result says so. Never with a timeline.

    Returns:
        The result.

    Raises:
        UserError: for an unknown fidelity or a program without a machine.
    """
    if network not in (None, "simple"):
        raise user_error("unknown network fidelity", value=f"'{network}'", allowed="simple")
    if isinstance(program, Graph):
        program = compile(program, machine or "tpu-v3")
    target = program.machine if machine is None else Machine.load(machine)
    if target is None:
        raise user_error("the program does not say for which machine it is", suggestion="pass machine=...")
    given = dict(tensors or {})
    if program.graph is not None and not given and program.reads_tensors:
        for row in program.graph.core.inputs:
            if row["dtype"] in ("i64", "i32", "i16", "i8"):
                given[row["name"]] = np.zeros(row["shape"], dtype=row["dtype"].replace("i", "int"))
    dram = _dram_part(target) if (memory or target.get("memory.kind")) == "bank" else None
    source = program

    def engine(core: _core.Program) -> dict[str, Any]:
        result = _core.simulate(core, target.core, memory, timeline, given, dram=dram)
        return dict(json.loads(result.to_json()))

    def again(change: dict[str, Any]) -> Result:
        changed = target.replace(change)
        other = compile(source.graph, changed) if source.graph is not None else source
        return simulate(other, changed, memory, network, replay=replay)

    data = None
    if replay and not timeline and program.operations > LIMIT:
        data = extended(json.loads(program.core.to_json()), lambda text: engine(_core.Program.from_json(text)))
    data = data or engine(program.core)
    data["versions"] = {"tilesim": _core.__version__, "python": platform.python_version()}
    return Result(data, again)


def _as_graph(model: Any, args: Any) -> Graph:
    if isinstance(model, Graph):
        return model
    if is_module(model):
        return from_torch(model, args)
    raise user_error("this is no model", value=type(model).__name__, allowed="a Graph, a torch.nn.Module")


def run(
    model: Any, args: Any = (), machine: MachineLike = "tpu-v3", verify: bool = False, timeline: bool = False
) -> Result:
    """The first minute: compile and simulate with defaults.

    Args:
        model: a graph, or a torch.nn.Module (then `args` are its arguments).
        args: inputs for verification; none: random ones.
        machine: preset name, file, dict or Machine.
        verify: also execute and compare with the reference kernels.
        timeline: record intervals.

    Returns:
        The result.

    Raises:
        UserError: as `compile`; also when verification fails.
    """
    program = compile(_as_graph(model, args), machine)
    if verify:
        outcome = globals()["verify"](program, args or None)
        if not outcome.ok:
            raise user_error(f"the tiled program differs from the reference:\n{outcome}")
    return simulate(program, timeline=timeline)
