"""Devices that compute slower than the others: what waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...base.checked import is_number
from ...base.errors import shown, user_error

if TYPE_CHECKING:
    from ..columns import Columns
    from ..fabric import Fabric

__all__ = ["computing", "links", "slowed", "without_computing"]

Array = NDArray[np.float64]


def without_computing(faults: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Faults of links alone; those of computing are checked.

    Args:
        faults: as of `ts.Cluster`.

    Returns:
        Those that a network has.

    Raises:
        UserError: for a share that is none, or a fault of computing that names no device.
    """
    found = []
    for number, fault in enumerate(faults):
        rest = {key: value for key, value in fault.items() if key != "compute"}
        if "compute" in fault:
            share = fault["compute"]
            if not is_number(share) or not 0 < share <= 1:
                raise user_error("no share of a device's rate", place=f"faults[{number}].compute", value=shown(share),
                                 allowed="above 0, up to 1")  # fmt: skip
            if isinstance(fault.get("device"), bool) or not isinstance(fault.get("device"), int):
                raise user_error("a device computes slower, not a link", place=f"faults[{number}].device",
                                 value=shown(fault.get("device")), allowed="a number")  # fmt: skip
        if "compute" not in fault or set(rest) != {"device"}:
            found.append(rest)
    return found


def computing(faults: Sequence[Mapping[str, Any]], devices: int) -> tuple[tuple[int, float], ...]:
    """Devices that compute at a share of their rate.

    Args:
        faults: as of `ts.Cluster`.
        devices: how many there are.

    Returns:
        Device and share each, by device.

    Raises:
        UserError: for a device that is not there.
    """
    found: dict[int, float] = {}
    for number, fault in enumerate(faults):
        if "compute" not in fault:
            continue
        if not 0 <= fault["device"] < devices:
            raise user_error("the cluster has no such device", place=f"faults[{number}].device",
                             value=str(fault["device"]), allowed=f"0 to {devices - 1}")  # fmt: skip
        found[fault["device"]] = min(found.get(fault["device"], 1.0), float(fault["compute"]))
    return tuple(sorted((device, share) for device, share in found.items() if share < 1))


def links(faults: Sequence[Mapping[str, Any]]) -> float:
    """The share of their rate at which collectives over all devices go: that of the slowest link.

    Args:
        faults: as of `ts.Cluster`.

    Returns:
        The share.

    Raises:
        UserError: for a link that failed: the way round it is no closed form.
    """
    shares = [float(fault["share"]) for fault in faults if "share" in fault]
    if shares and min(shares) <= 0:
        raise user_error("ways round a failed link are no closed form of a step", place="faults", value="share 0",
                         allowed="shares above 0; ts.cluster.collective and replay go round it")  # fmt: skip
    return min(shares, default=1.0)


def _stretched(c: Columns, fabric: Fabric, layer: Array, ends: Array) -> list[tuple[Array, Array, Array]]:
    """Per slow device: its stage, whether that is the last one, and the seconds that it adds to a micro-batch there."""
    found = []
    for device, share in fabric.slow:
        stage = np.floor(device / (c.devices / c.pipeline))
        last = stage == c.pipeline - 1
        layers = np.where(last & (c.pipeline > 1), c.layers / c.pipeline, c.stage_layers)
        found.append((stage, last, (layers * layer + np.where(last, ends, 0.0)) * (1 / share - 1)))
    return found


def slowed(
    c: Columns, fabric: Fabric, fullest: Array, slowest: Array, whole: Array, computed: tuple[Array, Array]
) -> tuple[Array, Array, Array]:
    """Stages with slow devices: all of a stage's sums wait for the slowest of them.

    Args:
        c: workloads and plans.
        fabric: with slow devices.
        fullest: seconds of a micro-batch on a stage with most layers.
        slowest: on the slowest stage.
        whole: on all stages, one after another.
        computed: seconds that one layer computes in all its passes, and head and embedding on the last stage.

    Returns:
        `slowest` and `whole` with what slow devices add, and the most that one stage gets.
    """
    most, usual = np.zeros(len(c)), slowest
    before: list[tuple[Array, Array]] = []
    for stage, last, more in _stretched(c, fabric, *computed):
        end = fullest - c.stage_layers * computed[0] + c.layers / c.pipeline * computed[0] + computed[1]
        own = np.where(last, np.maximum(end, np.where(c.pipeline > 1, 0.0, usual)), fullest)
        counted = [np.where(other == stage, seconds, 0.0) for other, seconds in before]
        added = np.maximum(more - np.max([np.zeros(len(c)), *counted], axis=0), 0.0)  # a stage has one slowest device
        slowest, whole = np.maximum(slowest, own + more), whole + added
        most = np.maximum(most, more)
        before.append((stage, more))
    return slowest, whole, most
