"""Results of rooms above that `compare` sets side by side too."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

__all__ = ["Comparable"]


class Comparable:
    """A result that knows how it stands beside others of its kind."""

    @abstractmethod
    def beside(self, others: Sequence[Any], names: Sequence[str] | None = None) -> Any:
        """This result and others, side by side.

        Args:
            others: of the same kind.
            names: what each is, this one first; none: what tells them apart.

        Returns:
            The comparison.

        Raises:
            UserError: for a result of another kind, or a number of names that is not theirs.
        """
