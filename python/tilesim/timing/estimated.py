"""A device in place of a machine: what `run` estimates, and what it refuses then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..analytic.estimate import Estimate, estimate
from ..base.errors import user_error
from ..graph import Graph
from ..machine.device import Device
from .options import divided

__all__ = ["estimated", "only_simulated"]


def only_simulated(device: Device, asked: Iterable[str]) -> Exception:
    """The refusal of what an estimate cannot give.

    Args:
        device: that was named.
        asked: the options.

    Returns:
        The error.
    """
    what = f"{device.name} is a device: it is estimated in closed form, which has no such option"
    remedy = "Leave it out, or take a machine, which is simulated: ts.Machine.names(), tilesim machine list"
    return user_error(what, value=", ".join(asked), suggestion=remedy)


def estimated(
    graph: Graph,
    device: Device,
    asked: Mapping[str, Any],
    options: Mapping[str, Any],
    calls: Sequence[Callable[..., Any]] = (),
) -> Estimate:
    """The estimate that `run` gives for a device.

    Args:
        graph: the workload.
        device: that was named.
        asked: options of a simulation.
        options: of `estimate`.
        calls: whose options an estimate does not have either.

    Returns:
        The estimate.

    Raises:
        UserError: for an option that an estimate does not have; as `estimate`.
    """
    given, *others = divided(options, estimate, *calls)
    if refused := [*asked, *(name for part in others for name in part)]:
        raise only_simulated(device, refused)
    return estimate(graph, device, **given)
