"""The calls that users make: compile, execute, verify, simulate."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import _core
from .graph import Graph, user_error
from .machine import Machine
from .result import Result, Table

__all__ = [
    "Program",
    "Verification",
    "compile",
    "execute",
    "reference",
    "run",
    "simulate",
    "sweep",
    "verify",
]

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

    @classmethod
    def load(cls, path: str | os.PathLike[str], machine: MachineLike | None = None) -> Program:
        """Reads a program written by hand or by `save`.

        Args:
            path: a JSON file, schema "tilesim.program".
            machine: to simulate it on.

        Returns:
            The program, checked.

        Raises:
            UserError: with line and path.
        """
        with open(path, encoding="utf-8") as file:
            core = _core.Program.from_json(file.read(), os.fspath(path))
        core.check()
        return cls(core, None, None if machine is None else Machine.load(machine))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the JSON form.

        Args:
            path: file to write.
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.core.to_json())

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
        if self._prepared is None:
            self._prepared = _core.prepared(self.graph.core, self.machine.core)
        return self._prepared.weight(name)

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

    Args:
        graph: the workload.
        machine: preset name, file, dict or Machine.
        mapping: "heuristic", or a dict: operation name to {"tiles", "order", "depths"} (sizes in elements).
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
    if mapping != "heuristic" and not isinstance(mapping, Mapping):
        raise user_error("unknown mapping", value=repr(mapping), allowed="heuristic, or a dict of nests")
    target = Machine.load(machine)
    mappings = dict(mapping) if isinstance(mapping, Mapping) else {}
    return Program(_core.compile(graph.core, target.core, fuse, mappings), graph, target)


def _inputs(graph: Graph, inputs: Any, seed: int) -> list[Any]:
    names = [row["name"] for row in graph.core.inputs]
    if inputs is None:
        return list(_core.random_inputs(graph.core, seed))
    if isinstance(inputs, Mapping):
        missing = [name for name in names if name not in inputs]
        unknown = [name for name in inputs if name not in names]
        if missing or unknown:
            raise user_error("wrong inputs", value=", ".join(map(str, inputs)), allowed=", ".join(names))
        return [inputs[name] for name in names]
    if not isinstance(inputs, Sequence) or len(inputs) != len(names):
        raise user_error("wrong number of inputs", value=str(type(inputs)), allowed=", ".join(names))
    return list(inputs)


def execute(program: Program, inputs: Any = None, seed: int = 0, find_races: bool = False) -> dict[str, Any]:
    """Runs the tiled program on real tensors, in the machine's numerics.

    Args:
        program: what to run.
        inputs: dict by name or sequence of arrays; none: random ones.
        seed: of random inputs.
        find_races: also report uses that no wait, commit or release orders.

    Returns:
        Outputs (numpy arrays) by name.

    Raises:
        UserError: for wrong inputs, or a race.
    """
    arrays: dict[str, Any] = {}
    if program.graph is None:
        arrays = dict(inputs or {})
    else:
        names = [row["name"] for row in program.graph.core.inputs]
        arrays = dict(zip(names, _inputs(program.graph, inputs, seed), strict=True))
        for tensor in program.core.tensors():
            if tensor["role"] == "weight":
                arrays[tensor["name"]] = program.weight(tensor["weight"])
    return dict(_core.execute(program.core, arrays, "text", seed, find_races))


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
    """Tiled outputs against the reference."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        """Holds one row per output.

        Args:
            rows: output, error, bound, ok.
        """
        self.rows = rows

    @property
    def ok(self) -> bool:
        """Whether every output lies within its bound."""
        return all(row["ok"] for row in self.rows)

    def table(self) -> Table:
        """Per output: largest difference relative to the output's scale, bound and verdict.

        Returns:
            The rows.
        """
        return Table(self.rows)

    def __repr__(self) -> str:
        """The verdict and the rows."""
        return ("equal within the bound" if self.ok else "NOT equal") + "\n" + str(self.table())


def verify(program: Program, inputs: Any = None, seed: int = 0) -> Verification:
    """Compares the tiled program with the reference kernels, output by output.

    The bound is on the largest difference relative to the largest magnitude of the output: 2e-2 where operands are
    rounded to bf16 (a different order of sums moves values across rounding borders), 2e-4 for f32; integers are equal.

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
    tiled = execute(program, inputs, seed)
    wanted = reference(program.graph, inputs, seed, program.machine)
    rows = []
    for name, expected in wanted.items():
        integer = expected.dtype.kind in "iub"
        a, b = np.asarray(tiled[name], dtype=np.float64), np.asarray(expected, dtype=np.float64)
        scale = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0)) or 1.0
        same = np.isnan(a) & np.isnan(b) | (a == b)
        error = float(np.max(np.where(same, 0.0, np.abs(a - b)), initial=0.0)) / scale
        narrow = expected.dtype.itemsize < 4 or program.machine.core.multiply is not None
        bound = 0.0 if integer else 2e-2 if narrow else 2e-4
        rows.append({"output": name, "error": error, "bound": bound, "ok": bool(error <= bound)})
    return Verification(rows)


def simulate(
    program: Program | Graph,
    machine: MachineLike | None = None,
    memory: str | None = None,
    network: str | None = None,
    timeline: bool = False,
    tensors: Mapping[str, Any] | None = None,
) -> Result:
    """Runs a program in simulated time.

    Args:
        program: a compiled program (a graph is compiled first).
        machine: none: the one that the program was compiled for.
        memory: "ideal" or "simple"; none: what the machine says.
        network: only none and "simple" exist so far.
        timeline: record intervals for `Result.timeline`.
        tensors: integer tensors that timing depends on (counts, offsets), by name.

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
    if program.graph is not None and not given:
        for row in program.graph.core.inputs:
            if row["dtype"] in ("i64", "i32", "i16", "i8"):
                given[row["name"]] = np.zeros(row["shape"], dtype=row["dtype"].replace("i", "int"))
    core = _core.simulate(program.core, target.core, memory, timeline, given)
    source = program

    def again(change: dict[str, Any]) -> Result:
        changed = target.replace(change)
        other = compile(source.graph, changed) if source.graph is not None else source
        return simulate(other, changed, memory, network)

    return Result(json.loads(core.to_json()), again)


def run(
    model: Graph, args: Any = (), machine: MachineLike = "tpu-v3", verify: bool = False, timeline: bool = False
) -> Result:
    """The first minute: compile and simulate with defaults.

    Args:
        model: a graph.
        args: inputs for verification; none: random ones.
        machine: preset name, file, dict or Machine.
        verify: also execute and compare with the reference kernels.
        timeline: record intervals.

    Returns:
        The result.

    Raises:
        UserError: as `compile`; also when verification fails.
    """
    program = compile(model, machine)
    if verify:
        outcome = globals()["verify"](program, args or None)
        if not outcome.ok:
            raise user_error(f"the tiled program differs from the reference:\n{outcome}")
    return simulate(program, timeline=timeline)


def sweep(graph: Graph, machine: MachineLike, changes: Mapping[str, Sequence[Any]]) -> Table:
    """Simulates a graph on machines with settings varied one by one.

    Args:
        graph: the workload.
        machine: the machine to start from.
        changes: setting path to the values to try; all combinations are run.

    Returns:
        One row per combination with its cycles and bottleneck.
    """
    import itertools

    base = Machine.load(machine)
    rows = []
    for values in itertools.product(*changes.values()):
        change = dict(zip(changes, values, strict=True))
        result = simulate(compile(graph, base.replace(change)))
        rows.append({**change, "cycles": result.cycles, "bottleneck": result.bottleneck})
    return Table(rows)
