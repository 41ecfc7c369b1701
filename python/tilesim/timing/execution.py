"""Programs and graphs on real tensors: execution, the reference, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..base.arguments import LARGEST, as_array, one_of, unused, whole
from ..base.checked import checked, is_bool
from ..base.errors import shown
from ..base.screen import page, plain
from ..base.table import Tabled
from ..cluster.executing import execute_together
from ..cluster.spmd import Spmd
from ..graph import Graph, user_error
from ..graph.trips import measured
from ..lowering.compiling import compile
from ..machine.machine import Machine, MachineLike
from ..program.mixed import MixedProgram, Turn
from ..program.program import Program
from ..results.printed import printed_tensors, verified_lines
from ..results.result import Table
from .against_source import source_rows
from .level import checked_level
from .mixed_run import execute_parts, verify_parts

__all__ = ["Verification", "execute", "reference", "verify"]


def _array(value: Any) -> Any:
    """A torch tensor as an array in the same memory; anything else as it is, lists as an array."""
    if isinstance(value, (list, tuple)):
        try:
            return np.asarray(value)
        except ValueError:
            what = "the rows of an input have different lengths"
            raise user_error(what, value=f"a {type(value).__name__}", allowed="an array") from None
    if not hasattr(value, "detach"):
        return as_array(value, "inputs")
    if value.device.type == "meta":
        raise user_error("a tensor without elements cannot be executed", value="one on the device 'meta'")
    from ..graph.torch_arrays import elements_of

    return elements_of(value)


def inputs_of(graph: Graph, inputs: Any, seed: int) -> list[Any]:
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
            parts = [f"unknown: {', '.join(map(str, unknown))}"] if unknown else []
            parts += [f"missing: {', '.join(missing)}"] if missing else []
            raise user_error("wrong inputs", value="; ".join(parts), allowed=", ".join(names))
        return [_array(inputs[name]) if name in inputs else state[name] for name in names]
    free = [name for name in names if name not in state]
    if not isinstance(inputs, Sequence) or isinstance(inputs, (str, bytes)):
        if len(free) != 1 or isinstance(inputs, (str, bytes)):
            found = type(inputs).__name__
            raise user_error("inputs come as a dict or a sequence", value=found, allowed=", ".join(free))
        inputs = (inputs,)  # the only input, without a tuple around it
    if len(inputs) not in (len(names), len(free)):
        count = f"{len(inputs)} of them"
        raise user_error("wrong number of inputs", value=count, allowed=", ".join(free))
    given = dict(zip(names if len(inputs) == len(names) else free, inputs, strict=True))
    return [_array(given[name]) if name in given else state[name] for name in names]


def _arrays(program: Program, inputs: Any, seed: int) -> dict[str, Any]:
    """Inputs and weights by the program's tensor names."""
    if program.graph is None:
        return dict(inputs or {})
    names = [row["name"] for row in program.graph.core.inputs]
    arrays: dict[str, Any] = dict(zip(names, inputs_of(program.graph, inputs, seed), strict=True))
    integers = [row["name"] for row in program.graph.core.inputs if row["dtype"].startswith(("i", "u"))]
    _core.check_attention_data(program.graph.core, {name: arrays[name] for name in integers})
    arrays.update(program.weights())
    return arrays


def _exact(program: Program) -> Program:
    """The same graph compiled alike, for the same machine whose arrays multiply operands as they are stored."""
    if program.graph is None or program.machine is None:
        raise user_error("exact numerics need the graph of a program", place="numerics", allowed="machine")
    if not program.machine.get("core.array.multiply"):
        return program
    assert program.workload is not None
    exact = program.machine.replace({"core.array.multiply": "as stored"})
    return compile(program.workload, exact, **program.options)


def _for_inputs(program: Program, inputs: Any, seed: int) -> Program:
    """The same, with as many trips of loops that data end as these inputs take."""
    if not program.trips or program.workload is None or program.machine is None:
        return program
    needed = measured(program.workload, inputs_of(program.workload, inputs, seed))
    if needed == program.trips:
        return program
    return compile(program.workload, program.machine, **{**program.options, "trips": needed})


def _kernels(program: Program, level: str) -> Any:
    """Whose kernels carry out computes; none: their meaning."""
    if checked_level(level) == "tile":
        return None
    if program.target is None:
        raise user_error("a program that names no machine has no kernels", place="level", allowed="tile")
    return program.target.core


@checked()
def execute(
    program: Program | Spmd,
    inputs: Any = None,
    *,
    seed: int = 0,
    numerics: str = "machine",
    find_races: bool = False,
    order: str = "text",
    poison: bool = False,
    level: str = "tile",
) -> dict[str, Any]:
    """Runs the tiled program on real tensors.

    Args:
        program: what to run; a program of several devices (`Spmd`) runs on all of them with the reference kernels,
            global tensors in and out, and takes `inputs` and `seed` alone.
        inputs: dict by name or sequence of arrays; none: random ones.
        seed: of random inputs, and of the order "random".
        numerics: "machine" rounds operands of products as the machine does; "exact" leaves them as they are stored.
        find_races: also report uses that no wait, commit or release orders.
        order: "text"; "early_loads" (loads as early, consumers as late as the program allows); "random" (some legal
            order). Without races all give the same bits.
        poison: tensors share bytes as `Program.memory_plan` says, all of them NaN or large integers before the first
            kernel: a tensor that is read when its bytes are another's shows.
        level: "tile": tile computes by their meaning; "instruction": by their kernels on the machine's core, those
            without a kernel by their meaning.

    Returns:
        Outputs (numpy arrays) by name, in the graph's order.

    Raises:
        UserError: for wrong inputs, unknown numerics, an unknown order, or a race.
    """
    seed = whole("seed", seed, -LARGEST)
    if isinstance(program, Spmd):
        unused("a program of several devices runs with the reference kernels", "inputs and seed alone",
               numerics=(numerics, "machine"), find_races=(find_races, False), order=(order, "text"),
               poison=(poison, False), level=(level, "tile"))  # fmt: skip
        return execute_together(program, inputs, seed=seed)
    one_of("unknown numerics", "numerics", numerics, "machine", "exact")
    core = _kernels(program, level)
    program = _for_inputs(program, inputs, seed)
    if numerics == "exact":
        program = _exact(program)
    if isinstance(program, MixedProgram):

        def on_machine(part: Turn, given: list[Any]) -> dict[str, Any]:
            assert part.program is not None
            return execute(
                part.program, given, seed=seed, find_races=find_races, order=order, poison=poison, level=level
            )

        return execute_parts(program, _whole_inputs(program, inputs, seed), on_machine)
    found = dict(_core.execute(program.core, _arrays(program, inputs, seed), order, seed, find_races, poison, core))
    names = [row["name"] for row in program.graph.core.outputs] if program.graph is not None else []
    return {name: found[name] for name in [*(name for name in names if name in found), *found]}


def _whole_inputs(program: MixedProgram, inputs: Any, seed: int) -> dict[str, Any]:
    assert program.graph is not None
    names = [row["name"] for row in program.graph.core.inputs]
    return dict(zip(names, inputs_of(program.graph, inputs, seed), strict=True))


@checked()
def reference(graph: Graph, inputs: Any = None, *, seed: int = 0, machine: MachineLike | None = None) -> dict[str, Any]:
    """Runs the reference kernels.

    Args:
        graph: the workload.
        inputs: dict by name or sequence of arrays; none: random ones.
        seed: of random inputs.
        machine: whose numerics to use; none: exact (accumulate in f32 or wider).

    Returns:
        Outputs by name.
    """
    graph = graph.copy()  # which no other thread changes
    numerics: dict[str, Any] = {}
    if machine is not None and Machine.load(machine).core.multiply:
        numerics["multiply"] = Machine.load(machine).core.multiply
    results = _core.evaluate(graph.core, inputs_of(graph, inputs, seed), numerics)
    return dict(zip([row["name"] for row in graph.core.outputs], results, strict=True))


class Verification(Tabled):
    """Tiled tensors against the reference, operation by operation."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        """Holds one row per tensor that a kernel stores."""
        self.rows = rows

    @property
    def ok(self) -> bool:
        """Whether every element lies within its bound, in both runs."""
        return all(row["ok"] for row in self.rows)

    @property
    def worst(self) -> dict[str, Any] | None:
        """The row with the largest ratio of error to bound in either run; none without rows."""
        return max(self.rows, key=lambda row: max(row["ratio"], row.get("integer_ratio", 0)), default=None)

    @property
    def inexact(self) -> dict[str, str]:
        """Stored tensors whose bits no run could ask for, with the operation that rounds on exact values too."""
        return {row["tensor"]: row["rounds"] for row in self.rows if not row.get("exact", True)}

    def table(self) -> Table:
        """Per tensor: difference and bound where the bound is nearest, their ratio, verdict.

        Returns:
            The rows: `error` and `bound` at the row-major position `worst`, the `largest` difference anywhere and
            `scale` (largest magnitude), all in the tensor's own unit. On exact values: `exact` (whether the bits had to
            agree), `integer_error`, `integer_ratio` (to its bound there; at most 1 is right) and `rounds` (what stands
            against exactness).
        """
        return Table(self.rows, printed_tensors)

    @property
    def verdict(self) -> str:
        """In words."""
        return "equal within the bound" if self.ok else "NOT equal"

    def __repr__(self) -> str:
        """The verdict, and the rows: what is wrong first, then what comes nearest to its bound."""
        lines = verified_lines(self.rows, room=page(), how="`.rows` has every one")
        return f"{self.verdict}\n{plain(lines)}"


@checked()
def verify(
    program: Program,
    inputs: Any = None,
    *,
    seed: int = 0,
    against: str = "reference",
    exact: bool = True,
    level: str = "tile",
) -> Verification:
    """Compares the tiled program with the reference kernels, operation by operation, each on the reference's operands.

    A float element may deviate by gamma_n * sum |a||b| + u * |reference| for products (gamma_n = n*u / (1 - n*u) with
    the accumulator's roundoff u), gamma_n * sum |x| for sums, a few roundings for other functions; inside a fused
    kernel deviations are carried through its operations. Where operands are rounded (bf16 in the array), computed ones
    may go to another neighbour. Integers, booleans and moved elements are equal.

    Such a bound grows with the length of a sum until a lost part of it hides within. So everything runs a second time
    on values with which products and sums come out exactly (small whole numbers, drawn anew for every stored tensor;
    among them one-hot vectors where a product meets something that rounds, and rows whose exponentials are 0 and 1
    where a softmax reads them), and there the bits must agree. A row's `exact` says whether they had to; `rounds` names
    the operation of the kernel that stands against it (an exponential, a division), with a bound that is then small
    beside the values.

    With level="instruction" each distinct vector compute, sort and product of integers is also carried out by its
    kernel on values over all of its types' range (every exponent, -0, denormals, infinities, NaN, extreme integers),
    where it must have the bits of its meaning, sums of floats their bound, NaN alone any bits. One that has not is a
    row of operation "kernel on wide values", whose `tensor` names compute, element and both values.

    The reference is the graph that was compiled: what passes recognised in it stands there already. With
    against="source" rows of operation "source" are added, one per output: by the reference kernels, the graph that was
    compiled against the graph as it was imported or built (`Graph.source`), before any pass recognised a pattern.
    A float element may deviate by u (8 + 4 sqrt n) times the output's largest magnitude, u the coarsest unit roundoff
    within, n the number of operations; NaN and infinities are equal.

    Args:
        program: a compiled program.
        inputs: as for `execute`. What a pattern does at ends of ranges shows where inputs reach them.
        seed: of random inputs.
        against: "reference", or "source": also the graph as it was imported.
        exact: also run on values whose products and sums are exact, whatever the inputs are.
        level: as for `execute`.

    Returns:
        The comparison.

    Raises:
        UserError: for a program that has no graph, something else to compare with, or where the graph as imported is
            not known (a compiled program from a file keeps what passes made of it).
    """
    one_of("unknown graph to compare with", "against", against, "reference", "source")
    if not is_bool(exact):
        raise user_error("a second run is made or not", place="exact", value=shown(exact), allowed="True, False")
    exact = bool(exact)
    if against == "source":
        found = verify(program, inputs, seed=seed, exact=exact, level=level)
        graph = program.workload
        assert graph is not None
        return Verification(found.rows + source_rows(graph, inputs_of(graph, inputs, seed)))
    seed = whole("seed", seed, -LARGEST)
    program = _for_inputs(program, inputs, seed)
    if isinstance(program, MixedProgram):

        def part_rows(part: Turn, given: list[Any]) -> list[dict[str, Any]]:
            assert part.program is not None
            return verify(part.program, given, exact=exact, level=level).rows

        return Verification(verify_parts(program, _whole_inputs(program, inputs, seed), part_rows))
    if program.graph is None or program.target is None:
        raise user_error("a program without its graph cannot be verified")
    arrays, kernels = _arrays(program, inputs, seed), _kernels(program, level) is not None
    return Verification(_core.verify(program.prepared, program.core, program.target.core, arrays, exact, kernels))
