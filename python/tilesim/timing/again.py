"""The same simulation once more, with one thing changed: for advice, and for what a result is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..graph import Graph
from ..lowering.compiling import compile
from ..lowering.profile import lowered_as
from ..machine.machine import Machine
from ..program.program import Program
from ..results.result import Result
from .options import SimulateOptions

__all__ = ["Again"]

Simulated = Callable[[Program, Machine, SimulateOptions], Result]


class Again:
    """A program, a machine and the options of its simulation.

    What was compiled for this very machine is compiled alike for the changed one; any other program (read from a file,
    written by hand, compiled for another machine) stays as it is, or the gain would be that of another program.
    """

    def __init__(self, program: Program, target: Machine, options: SimulateOptions, simulated: Simulated) -> None:
        """Holds all of it."""
        self.program, self.target, self.options, self._simulated = program, target, options, simulated
        #: what was found out about the program, by name: several questions need the same
        self.known: dict[str, Any] = {}

    @property
    def compiled(self) -> bool:
        """Whether the program can be compiled again from its graph, for this machine."""
        program = self.program
        own = program.machine is not None and program.machine.core.hash() == self.target.core.hash()
        return program.workload is not None and "mapping" in program.options and own

    @property
    def workload(self) -> Graph | None:
        """The graph as it was given, which the options of the compiler rewrite; of a file, as it was stored."""
        return self.program.given or self.program.workload

    def __call__(self, change: dict[str, Any]) -> Result:
        """On another machine."""
        changed, program = self.target.replace(change), self.program
        if self.compiled and program.workload is not None:
            program = compile(self.workload or program.workload, changed, **program.options)
        return self._simulated(program, changed, self.options.again())

    def recorded(self) -> Result:
        """The same run with its intervals."""
        return self._simulated(self.program, self.target, self.options.recording())

    def otherwise(self, graph: Graph | None = None, **options: Any) -> Result:
        """Compiled with other options."""
        workload = graph or self.workload
        assert workload is not None
        together = {**self.program.options, **options}
        program = compile(workload, self.target, **together)
        return self._simulated(program, lowered_as(self.target, together.get("lowering")), self.options.again())
