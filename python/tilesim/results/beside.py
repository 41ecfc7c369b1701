"""Results of higher modules that `compare` accepts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["Comparable"]


class Comparable:
    """A result that can be compared with others of its kind."""

    @abstractmethod
    def beside(self, others: Sequence[Any], names: Sequence[str] | None = None) -> Any:
        """Compares this result with others.

        Args:
            others: of the same kind.
            names: of the results, this one first; default: their differences.

        Returns:
            The comparison.

        Raises:
            UserError: for a result of another kind, or a wrong number of names.
        """
