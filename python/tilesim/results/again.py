"""What a result was simulated from, as long as it is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import Result

__all__ = ["Again"]


class Again:
    """Simulates the workload of a result once more: with settings changed, or as it was with a timeline."""

    def __init__(
        self, program: Any, changed: Callable[[dict[str, Any]], Result], recorded: Callable[[], Result]
    ) -> None:
        """Holds the program and how to run it.

        Args:
            program: the compiled program.
            changed: simulates it on a machine with settings changed.
            recorded: simulates it as before, with a timeline.
        """
        self.program, self._changed, self.recorded = program, changed, recorded

    def __call__(self, change: dict[str, Any]) -> Result:
        """Simulates with settings changed.

        Args:
            change: setting path to its new value.

        Returns:
            The result, without a timeline.
        """
        return self._changed(change)
