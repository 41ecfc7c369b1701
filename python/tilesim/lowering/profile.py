"""Selects the lowering: like the vendor's compiler, or Tilesim's best."""

from __future__ import annotations

from ..base.errors import nearest, shown, user_error
from ..machine.machine import Machine

__all__ = ["LOWERINGS", "has_profile", "lowered_as", "way_of"]

LOWERINGS = ("native", "best")


def has_profile(machine: Machine) -> bool:
    """Whether a machine's file has a lowering profile of the vendor's compiler."""
    return machine.states("lowering")


def way_of(machine: Machine, lowering: str | None) -> str:
    """Returns "native" or "best"; for None, the machine's default."""
    known = has_profile(machine)
    if lowering is None:
        return "native" if known else "best"
    if lowering not in LOWERINGS:
        hint = nearest(lowering, LOWERINGS) if isinstance(lowering, str) else ""
        allowed = ", ".join(LOWERINGS)
        raise user_error("unknown lowering", place="lowering", value=shown(lowering), allowed=allowed, suggestion=hint)
    if lowering == "native" and not known:
        what = f"the file of {machine.name} lacks a lowering profile"
        raise user_error(what, place="lowering", value="'native'", allowed="best")
    return lowering


def lowered_as(machine: Machine, lowering: str | None) -> Machine:
    """Returns the machine without profile and kernel barriers for lowering "best"."""
    plain = not (machine.states("lowering") or machine.get("core.kernel_barrier"))
    if way_of(machine, lowering) == "native" or plain:
        return machine
    settings = machine.to_dict()
    settings.pop("lowering", None)
    settings["core"]["kernel_barrier"] = False
    settings["sources"] = {path: text for path, text in settings.get("sources", {}).items() if "lowering" not in path}
    return Machine.load(settings)
