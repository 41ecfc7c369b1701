"""Reads the faults of a cluster: slow links and slow devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.checked import is_number
from ...base.errors import shown, user_error

__all__ = ["computing", "links", "without_computing"]


def without_computing(faults: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the faults of links, and checks those of compute."""
    found = []
    for number, fault in enumerate(faults):
        rest = {key: value for key, value in fault.items() if key != "compute"}
        if "compute" in fault:
            share = fault["compute"]
            if not is_number(share) or not 0 < share <= 1:
                raise user_error(
                    "not a share of a device's rate",
                    place=f"faults[{number}].compute",
                    value=shown(share),
                    allowed="above 0, up to 1",
                )
            if isinstance(fault.get("device"), bool) or not isinstance(fault.get("device"), int):
                raise user_error("a compute fault needs a device", place=f"faults[{number}].device",
                                 value=shown(fault.get("device")), allowed="a number")  # fmt: skip
        if "compute" not in fault or set(rest) != {"device"}:
            found.append(rest)
    return found


def computing(faults: Sequence[Mapping[str, Any]], devices: int) -> tuple[tuple[int, float], ...]:
    """Returns the devices with a reduced compute rate, and their shares of the rate."""
    found: dict[int, float] = {}
    for number, fault in enumerate(faults):
        if "compute" not in fault:
            continue
        if not 0 <= fault["device"] < devices:
            raise user_error("unknown device of the cluster", place=f"faults[{number}].device",
                             value=str(fault["device"]), allowed=f"0 to {devices - 1}")  # fmt: skip
        found[fault["device"]] = min(found.get(fault["device"], 1.0), float(fault["compute"]))
    return tuple(sorted((device, share) for device, share in found.items() if share < 1))


def links(faults: Sequence[Mapping[str, Any]]) -> float:
    """Returns the smallest remaining share of any link's rate; 1 without faulty links."""
    return min((float(fault["share"]) for fault in faults if "share" in fault), default=1.0)
