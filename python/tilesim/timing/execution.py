"""Executes programs and graphs on real tensors, and verifies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import _core
from ..base.arguments import LARGEST, as_array, integer, one_of, unused
from ..base.checked import checked, is_bool
from ..base.errors import shown
from ..base.screen import page, without_styles
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
    """Converts a torch tensor to an array in the same memory, and a list to an array; other values stay unchanged."""
    if isinstance(value, (list, tuple)):
        try:
            return np.asarray(value)
        except ValueError:
            what = "the rows of an input have different lengths"
            raise user_error(what, value=f"a {type(value).__name__}", allowed="an array") from None
    if not hasattr(value, "detach"):
        return as_array(value, "inputs")
    if value.device.type == "meta":
        raise user_error("a tensor on the device 'meta' has no elements", value="inputs")
    from ..graph.torch_arrays import elements_of

    return elements_of(value)


def inputs_of(graph: Graph, inputs: Any, seed: int) -> list[Any]:
    """Returns input arrays in the graph's order; state of an imported model may be missing."""
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
            raise user_error("wrong inputs", value="; ".join(parts), allowed=f"the program's inputs {', '.join(names)}")
        return [_array(inputs[name]) if name in inputs else state[name] for name in names]
    free = [name for name in names if name not in state]
    if not isinstance(inputs, Sequence) or isinstance(inputs, (str, bytes)):
        if len(free) != 1 or isinstance(inputs, (str, bytes)):
            found = type(inputs).__name__
            allowed = f"arrays in the order {', '.join(free)}, or a dict by these names"
            raise user_error("inputs must be a dict or a sequence", value=found, allowed=allowed)
        inputs = (inputs,)  # a single input may be given without a tuple
    if len(inputs) not in (len(names), len(free)):
        allowed = f"{len(free)}: {', '.join(free)}"
        raise user_error("wrong number of inputs", value=str(len(inputs)), allowed=allowed)
    given = dict(zip(names if len(inputs) == len(names) else free, inputs, strict=True))
    return [_array(given[name]) if name in given else state[name] for name in names]


def _arrays(program: Program, inputs: Any, seed: int) -> dict[str, Any]:
    """Maps the program's tensor names to inputs and weights."""
    if program.graph is None:
        return dict(inputs or {})
    names = [row["name"] for row in program.graph.core.inputs]
    arrays: dict[str, Any] = dict(zip(names, inputs_of(program.graph, inputs, seed), strict=True))
    integers = [row["name"] for row in program.graph.core.inputs if row["dtype"].startswith(("i", "u"))]
    _core.check_attention_data(program.graph.core, {name: arrays[name] for name in integers})
    arrays.update(program.weights())
    return arrays


def _exact(program: Program) -> Program:
    """Compiles the program for a machine whose arrays multiply operands without rounding."""
    if program.graph is None or program.machine is None:
        raise user_error("exact numerics need a program with its graph", place="numerics", allowed="machine")
    if not program.machine.get("core.array.multiply"):
        return program
    assert program.workload is not None
    exact = program.machine.replace({"core.array.multiply": "as stored"})
    return compile(program.workload, exact, **program.options)


def _for_inputs(program: Program, inputs: Any, seed: int) -> Program:
    """Compiles the program with the trip counts that its data-dependent loops have on these inputs."""
    if not program.trips or program.workload is None or program.machine is None:
        return program
    needed = measured(program.workload, inputs_of(program.workload, inputs, seed))
    if needed == program.trips:
        return program
    return compile(program.workload, program.machine, **{**program.options, "trips": needed})


def _kernels(program: Program, level: str) -> Any:
    """Returns the machine whose kernels execute tile operations; None for level "tile"."""
    if checked_level(level) == "tile":
        return None
    if program.target is None:
        raise user_error("kernels need a program with a machine", place="level", allowed="tile")
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
        program: the program; an `Spmd` runs on all its devices with the reference kernels on global
            tensors, and takes only `inputs` and `seed`.
        inputs: dict by name or sequence of arrays; default: random.
        seed: seed of random inputs, and of the order "random".
        numerics: "machine" rounds operands of products as the machine does; "exact" does not round them.
        find_races: whether to report uses without an ordering wait, commit or release.
        order: "text"; "early_loads" (earliest loads, latest consumers); "random" (a legal order). Without races all
            give the same bits.
        poison: tensors share storage as in `Program.memory_plan`, filled with NaN or large integers before the first
            kernel, which exposes reads of overwritten tensors.
        level: "tile": tile operations by their meaning; "instruction": by their kernels on the machine's core, if they
            have one.

    Returns:
        Outputs (numpy arrays) by name, in the graph's order.

    Raises:
        UserError: for wrong inputs, unknown numerics, an unknown order, or a race.
    """
    seed = integer("seed", seed, -LARGEST)
    if isinstance(program, Spmd):
        unused("the option does not apply to a program of several devices", "inputs and seed",
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

        return execute_parts(program, _global_inputs(program, inputs, seed), on_machine)
    found = dict(_core.execute(program.core, _arrays(program, inputs, seed), order, seed, find_races, poison, core))
    names = [row["name"] for row in program.graph.core.outputs] if program.graph is not None else []
    return {name: found[name] for name in [*(name for name in names if name in found), *found]}


def _global_inputs(program: MixedProgram, inputs: Any, seed: int) -> dict[str, Any]:
    assert program.graph is not None
    names = [row["name"] for row in program.graph.core.inputs]
    return dict(zip(names, inputs_of(program.graph, inputs, seed), strict=True))


@checked()
def reference(graph: Graph, inputs: Any = None, *, seed: int = 0, machine: MachineLike | None = None) -> dict[str, Any]:
    """Runs the reference kernels.

    Args:
        graph: a workload.
        inputs: dict by name or sequence of arrays; default: random.
        seed: seed of random inputs.
        machine: machine whose numerics apply; default: exact (accumulate in f32 or wider).

    Returns:
        Outputs by name.
    """
    graph = graph.copy()  # copies the graph, because other threads may change the original
    numerics: dict[str, Any] = {}
    if machine is not None and Machine.load(machine).core.multiply:
        numerics["multiply"] = Machine.load(machine).core.multiply
    results = _core.evaluate(graph.core, inputs_of(graph, inputs, seed), numerics)
    return dict(zip([row["name"] for row in graph.core.outputs], results, strict=True))


class Verification(Tabled):
    """Comparison of tiled tensors with the reference, operation by operation."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        """Stores one row per stored tensor."""
        self.rows = rows

    @property
    def ok(self) -> bool:
        """Whether every element is within its bound in both runs."""
        return all(row["ok"] for row in self.rows)

    @property
    def worst(self) -> dict[str, Any] | None:
        """The row with the largest ratio of error to bound in either run; None without rows."""
        return max(self.rows, key=lambda row: max(row["ratio"], row.get("integer_ratio", 0)), default=None)

    @property
    def inexact(self) -> dict[str, str]:
        """Stored tensors without a bit-exact check, with the operation that rounds."""
        return {row["tensor"]: row["rounds"] for row in self.rows if not row.get("exact", True)}

    def table(self) -> Table:
        """Error, bound, their ratio and verdict per tensor, at the element closest to its bound.

        Returns:
            The rows: `error` and `bound` at the row-major position `worst`, the `largest` difference anywhere and
            `scale` (largest magnitude), in the tensor's unit. For exact values: `exact` (whether bits had to agree),
            `integer_error`, `integer_ratio` (to its bound; correct up to 1) and `rounds` (the operation that rounds).
        """
        return Table(self.rows, printed_tensors)

    @property
    def verdict(self) -> str:
        """The verdict as text."""
        return "equal within the bound" if self.ok else "NOT equal"

    def __repr__(self) -> str:
        """The verdict and the rows: errors first, the rest by closeness to their bound."""
        lines = verified_lines(self.rows, room=page(), how="`.rows` has all")
        return f"{self.verdict}\n{without_styles(lines)}"


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
    the accumulator's roundoff u), gamma_n * sum |x| for sums, and a few roundings for other functions; deviations
    propagate through a fused kernel. Rounded operands (bf16 in the array) that were computed may round differently.
    Integers, booleans and moved elements must be equal.

    Such a bound grows with the length of a sum and can hide a missing term. So a second run uses values whose products
    and sums are exact (small integers, drawn for every stored tensor; one-hot vectors where a product meets a rounding
    operation, and rows with exponentials 0 and 1 for a softmax), where the bits must agree. A row's `exact` tells
    whether they had to; `rounds` names the operation that rounds (an exponential, a division), with a small bound.

    With level="instruction", each distinct vector operation, sort and integer product also runs its kernel on values
    over the whole range of its types (every exponent, -0, denormals, infinities, NaN, extreme integers). Its bits must
    be those of its meaning (float sums within their bound, NaN with any bits); a failure is a row of operation "kernel
    on wide values", whose `tensor` names operation, element and both values.

    The reference is the compiled graph, after passes. against="source" adds rows of operation "source", one per output,
    that compare the compiled graph with the imported or built one (`Graph.source`), both by the reference kernels. A
    float element may deviate by u (8 + 4 sqrt n) times the output's largest magnitude, with u the coarsest unit
    roundoff and n the number of operations; NaN and infinities must be equal.

    Args:
        program: a compiled program.
        inputs: as for `execute`; extreme values test patterns at the ends of their ranges.
        seed: seed of random inputs.
        against: "reference", or "source" (also the imported graph).
        exact: whether to run also on values whose products and sums are exact.
        level: as for `execute`.

    Returns:
        The comparison.

    Raises:
        UserError: for a program without a graph, an unknown baseline, or a missing imported graph (a compiled program
            from a file does not have it).
    """
    one_of("unknown baseline", "against", against, "reference", "source")
    if not is_bool(exact):
        raise user_error("not a flag", place="exact", value=shown(exact), allowed="True, False")
    exact = bool(exact)
    if against == "source":
        found = verify(program, inputs, seed=seed, exact=exact, level=level)
        graph = program.workload
        assert graph is not None
        return Verification(found.rows + source_rows(graph, inputs_of(graph, inputs, seed)))
    seed = integer("seed", seed, -LARGEST)
    program = _for_inputs(program, inputs, seed)
    if isinstance(program, MixedProgram):

        def part_rows(part: Turn, given: list[Any]) -> list[dict[str, Any]]:
            assert part.program is not None
            return verify(part.program, given, exact=exact, level=level).rows

        return Verification(verify_parts(program, _global_inputs(program, inputs, seed), part_rows))
    if program.graph is None or program.target is None:
        raise user_error("a program without its graph cannot be verified")
    arrays, kernels = _arrays(program, inputs, seed), _kernels(program, level) is not None
    return Verification(_core.verify(program.prepared, program.core, program.target.core, arrays, exact, kernels))
