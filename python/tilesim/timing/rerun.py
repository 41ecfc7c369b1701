"""Repeats a simulation with one change, for advice and explanations."""

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

__all__ = ["Rerun"]

Simulated = Callable[[Program, Machine, SimulateOptions], Result]


class Rerun:
    """A program, a machine and the options of its simulation.

    A program compiled for this machine is compiled in the same way for the changed one. Other programs (read from a
    file, hand-written, compiled for another machine) stay unchanged, so that the gain comes from the change.
    """

    def __init__(self, program: Program, target: Machine, options: SimulateOptions, simulated: Simulated) -> None:
        """Stores the parts of a simulation."""
        self.program, self.target, self.options, self._simulated = program, target, options, simulated
        #: cached facts about the program, by name
        self.known: dict[str, Any] = {}

    @property
    def compiled(self) -> bool:
        """Whether the program can be compiled again from its graph for this machine."""
        program = self.program
        own = program.machine is not None and program.machine.core.hash() == self.target.core.hash()
        return program.workload is not None and "mapping" in program.options and own

    @property
    def workload(self) -> Graph | None:
        """The graph before the compiler's rewrites, or the graph in the program's file."""
        return self.program.given or self.program.workload

    def __call__(self, change: dict[str, Any]) -> Result:
        """Simulates on a changed machine."""
        changed, program = self.target.replace(change), self.program
        if self.compiled and program.workload is not None:
            program = compile(self.workload or program.workload, changed, **program.options)
        return self._simulated(program, changed, self.options.without_recording())

    def recorded(self) -> Result:
        """Simulates again with a timeline."""
        return self._simulated(self.program, self.target, self.options.recording())

    def otherwise(self, graph: Graph | None = None, **options: Any) -> Result:
        """Simulates the program compiled with other options."""
        workload = graph or self.workload
        assert workload is not None
        together = {**self.program.options, **options}
        program = compile(workload, self.target, **together)
        return self._simulated(
            program, lowered_as(self.target, together.get("lowering")), self.options.without_recording()
        )
