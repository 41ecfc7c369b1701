"""The options of one call as one value: what is simulated again takes them along whole, and the result names them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from ..base.errors import nearest, of_workload, shown, user_error

if TYPE_CHECKING:
    from .latencies import TileLatencies

__all__ = ["SimulateOptions", "divided", "said"]


@dataclass(frozen=True)
class SimulateOptions:
    """What `simulate` takes beside program and machine; its arguments say what each means."""

    memory: str | None = None
    network: str | None = None
    timeline: bool = False
    tensors: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    replay: bool = True
    placement: Mapping[str, str | int] = field(default_factory=dict)
    latencies: TileLatencies | None = None
    resident: tuple[str, ...] | str = ()
    level: str = "tile"

    def again(self) -> SimulateOptions:
        """The options of a run that is compared with this one: all of them, without recording."""
        return replace(self, timeline=False, replay=self.replay and not self.timeline)

    def recording(self) -> SimulateOptions:
        """The options of the same run with a timeline."""
        return replace(self, timeline=True)

    def of_part(self, tensors: Mapping[str, Any]) -> SimulateOptions:
        """The options of one part of a program."""
        return replace(self, tensors=tensors)

    def given(self) -> dict[str, Any]:
        """Those that are not what a call without them has."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "timeline"}
        plain = SimulateOptions()
        return {name: value for name, value in named.items() if value is not getattr(plain, name) and value != {}}


def said(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as a result names them."""
    empty = (type(None), str, tuple, dict)
    return {name: _text(value) for name, value in options.items() if value or not isinstance(value, empty)}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(one)}" for name, one in value.items())[:1000]
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value))[:1000]
    if hasattr(value, "shape"):
        return f"{value.dtype}{list(value.shape)}"
    return str(getattr(value, "source", None) or shown(value))


def divided(options: Mapping[str, Any], *calls: Callable[..., Any]) -> list[dict[str, Any]]:
    """Options for several calls at once, each to the first call that takes it."""
    taken = [
        [p.name for p in inspect.signature(call).parameters.values() if p.kind == p.KEYWORD_ONLY] for call in calls
    ]
    parts: list[dict[str, Any]] = [{} for _ in calls]
    for name, value in options.items():
        for names, part in zip(taken, parts, strict=True):
            if name in names:
                part[name] = value
                break
        else:
            known = [one for names in taken for one in names]
            hint = of_workload(name, value) or nearest(name, known)
            raise user_error("unknown option", value=f"'{name}'", allowed=", ".join(known), suggestion=hint)
    return parts
