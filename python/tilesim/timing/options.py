"""The options of one call of `simulate`, as one value: whatever is simulated again takes them along whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .latencies import TileLatencies

__all__ = ["SimulateOptions"]


@dataclass(frozen=True)
class SimulateOptions:
    """What `simulate` takes beside program and machine; its arguments say what each means."""

    memory: str | None = None
    network: str | None = None
    timeline: bool = False
    tensors: Mapping[str, Any] = field(default_factory=dict)
    replay: bool = True
    placement: Mapping[str, str | int] = field(default_factory=dict)
    latencies: TileLatencies | None = None
    resident: tuple[str, ...] | str = ()

    def again(self) -> SimulateOptions:
        """The options of a run that is compared with this one: all of them, without recording.

        Returns:
            Options under which the same program takes the same time.
        """
        return replace(self, timeline=False, replay=self.replay and not self.timeline)

    def of_part(self, tensors: Mapping[str, Any]) -> SimulateOptions:
        """The options of one part of a program.

        Args:
            tensors: those that the part reads.

        Returns:
            All others as they are.
        """
        return replace(self, tensors=tensors)
