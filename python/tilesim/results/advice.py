"""Advice: simulated changes to a machine or to the compilation for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["LEAST_GAIN", "Advice", "Advices", "StoredAdvice", "change_text", "changes_to_try"]

# Changes to try: settings that are doubled, with their largest value, and costs that are removed.
DOUBLED: dict[str, float] = {
    "memory.bandwidth": math.inf,
    "core.array.count": 16,  # a program has at most 32 queues
    "core.vector.issue": 64,
    "core.dma.bytes_per_cycle": 1 << 20,
    "network.port_bytes_per_cycle": 1 << 20,
    "core.scratchpad.bytes": math.inf,
}
REMOVED: dict[str, Any] = {
    "core.kernel_launch_cycles": 0,
    "core.dma.issue_cycles": 0,
    "core.dma.latency_cycles": 0,
    "memory.latency": "0 ns",
}
# Further changes for machines with router networks, banked memory or a host.
ROUTED_DOUBLED: dict[str, float] = {"network.flit_bytes": 1 << 16}
# The DRAM part fixes bandwidth and latency of banked memory, so advice doubles its channels.
BANK_DOUBLED: dict[str, float] = {"memory.channels": 1024}
HOST_DOUBLED: dict[str, float] = {"host.bandwidth": math.inf}
HOST_REMOVED: dict[str, Any] = {"host.latency": "0 ns"}


LEAST_GAIN = 1.01
"""The least speed-up of listed advice."""


class _WithoutInstruction(dict[str, Any]):
    """The machine's custom instructions without one of them."""

    text = ""


def changes_to_try(configuration: dict[str, Any], hosted: bool) -> list[dict[str, Any]]:
    """Lists the changes to simulate, each as new values by setting path."""

    def now(path: str) -> Any:
        value: Any = configuration
        for key in path.split("."):
            value = value[key]
        return value

    changes: list[dict[str, Any]] = []
    doubled = DOUBLED | HOST_DOUBLED if hosted else dict(DOUBLED)
    removed = REMOVED | HOST_REMOVED if hosted else dict(REMOVED)
    if now("memory.kind") != "simple":
        del doubled["memory.bandwidth"], removed["memory.latency"]
    if now("memory.kind") == "bank":
        doubled = BANK_DOUBLED | doubled
    if now("network.kind") != "simple":
        doubled |= ROUTED_DOUBLED
        del doubled["network.port_bytes_per_cycle"]
    for path, most in doubled.items():
        value = now(path)
        if isinstance(value, str):
            number, unit = value.split(" ")
            changes.append({path: f"{float(number) * 2:g} {unit}"})
        elif value > 0 and value * 2 <= most:
            changes.append({path: value * 2})
    changes += [{path: value} for path, value in removed.items() if now(path) != value]
    own = configuration["core"].get("isa", {}).get("functions") or {}  # may be ""
    for function, one in own.items():
        rest = _WithoutInstruction({name: other for name, other in own.items() if name != function})
        rest.text = f"without the instruction '{one['instruction'].split()[0]}' for {function}"
        changes.append({"core.isa.functions": rest})
    return changes


def change_text(change: Mapping[str, Any]) -> str:
    """Describes a change in words, such as "memory.bandwidth doubled"."""
    removed = REMOVED | HOST_REMOVED
    parts = []
    for key, value in change.items():
        if removed.get(key) == value and type(removed.get(key)) is type(value):
            parts.append(f"no {key} (a bound)")
        elif isinstance(value, _WithoutInstruction):
            parts.append(value.text)
        elif key == "quantize":
            parts.append(f"quantize = {value} (changes the numbers)")
        elif isinstance(value, Mapping):
            names = list(value)
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            parts.append(f"{key} tuned: {names[0] if names else 'nothing'}{more}")
        elif key == "fuse" and not isinstance(value, str):
            parts.append("without this fusion")
        else:
            parts.append(f"{key} = {value}")
    return ", ".join(parts)


class Advice:
    """One simulated change of the machine or of the compilation."""

    def __init__(self, change: dict[str, Any], cycles: int, before: int, kind: str = "machine") -> None:
        """Stores the outcome of one change."""
        self.change, self.cycles, self.before, self.kind = change, cycles, before, kind

    @property
    def text(self) -> str:
        """The change as text."""
        return change_text(self.change)

    @property
    def gain(self) -> float:
        """Speed-up as a ratio: time before divided by time after; below 1 for a slower change."""
        return 1.0 if self.cycles == self.before else self.before / max(1, self.cycles)

    @property
    def worth_telling(self) -> bool:
        """Whether the gain is 1.01 or more."""
        return self.gain >= LEAST_GAIN

    def __repr__(self) -> str:
        """The change and its speed-up or slow-down."""
        gain = self.gain
        speed = f"{gain:.2f} times faster" if gain >= 1 else f"{1 / gain:.2f} times slower" if gain else "slower"
        return f"{self.text}: {speed} ({self.cycles:,} cycles)"


class StoredAdvice(Advice):
    """A change from a result file, which has its text but not its values."""

    def __init__(self, text: str, cycles: int, before: int, kind: str) -> None:
        """Stores the outcome of one change."""
        super().__init__({}, cycles, before, kind)
        self._text = text

    @property
    def text(self) -> str:
        """The change as text."""
        return self._text


class Advices(list[Advice]):
    """All simulated changes, fastest first; printing shows those with a speed-up of 1.01 or more."""

    def __repr__(self) -> str:
        """A line for each change that gains enough."""
        told = [repr(item) for item in self if item.worth_telling]
        left = len(self) - len(told)
        more = f"{left} more changes gain less than {LEAST_GAIN - 1:.0%} or slow down" if left else ""
        return "\n".join([*told, *([more] if more else [])]) or "no change to try"

    __str__ = __repr__
