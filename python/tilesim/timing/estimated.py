"""Estimates for `run` on a device."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analytic.estimate import Estimate, estimate
from ..base.errors import nearest, shown, user_error
from ..graph import Graph
from ..graph.cast import CASTS
from ..machine.device import Device
from .options import by_call
from .quantize import ALIASES
from .quantize import quantize as cast

__all__ = ["estimated", "only_simulated", "quantized_estimate"]

#: `ts.quantize` dtype -> scheme of device kernels
SCHEME_OF = {"i8": "w8a8", "fp8": "fp8", "w4a16": "int4_g128"}


def only_simulated(device: Device, asked: Iterable[str]) -> Exception:
    """Returns the error for options that an estimate does not support."""
    what = f"{device.name} is a device, estimated in closed form without these options"
    remedy = "Leave them out, change a copy of the device (ts.Device.replace), or name a machine: tilesim machine list"
    return user_error(what, value=", ".join(asked), suggestion=remedy)


def quantized_estimate(graph: Graph, device: Device, quantize: str | None, **options: Any) -> Estimate:
    """Estimates a graph, and quantizes it first if requested."""
    if quantize is None:
        return estimate(graph, device, **options)
    if ALIASES.get(quantize, quantize) in CASTS:
        made = cast(graph, quantize)
        found = estimate(made, device, **options)
        found.data["approximations"].append(made.assumptions[-1])
        return found
    quantize = ALIASES.get(quantize, quantize)
    if quantize not in SCHEME_OF:
        known = [*SCHEME_OF, *CASTS]
        allowed, hint = ", ".join(known), nearest(quantize, known)
        raise user_error("unknown quantization", place="quantize", value=shown(quantize), allowed=allowed,
                         suggestion=hint)  # fmt: skip
    scheme = SCHEME_OF[quantize]
    if options.get("scheme") not in (None, scheme):
        raise user_error("the scheme contradicts the quantization", place="scheme", value=shown(options["scheme"]),
                         allowed=f"{scheme}, the scheme of {quantize} on a device")  # fmt: skip
    found = estimate(graph, device, **{**options, "scheme": scheme})
    said = f"quantized to {quantize}: products with weights use scheme {scheme}, others are unchanged"
    found.data["approximations"].append(said)
    found.data["setting"] = ", ".join(one for one in (graph.setting, f"quantized to {quantize}") if one)
    return found


def estimated(
    graph: Graph,
    device: Device,
    asked: Mapping[str, Any],
    options: Mapping[str, Any],
    stages: Sequence[type] = (),
    quantize: str | None = None,
) -> Estimate:
    """Estimates a graph on a device, for `run`."""
    given, *others = by_call(options, estimate, *stages)
    if refused := [*asked, *(name for part in others for name in part)]:
        raise only_simulated(device, refused)
    return quantized_estimate(graph, device, quantize, **given)
