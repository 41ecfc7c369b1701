"""A device in place of a machine: what `run` estimates, and what it refuses then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..analytic.estimate import Estimate, estimate
from ..base.errors import nearest, shown, user_error
from ..graph import Graph
from ..graph.cast import CASTS
from ..machine.device import Device
from .options import divided
from .quantize import ALIASES
from .quantize import quantize as cast

__all__ = ["estimated", "only_simulated", "quantized_estimate"]

#: What `ts.quantize` makes of products, as kernels of a device do it: activations are cast in the kernel before.
SCHEME_OF = {"i8": "w8a8", "fp8": "fp8", "w4a16": "int4_g128"}


def only_simulated(device: Device, asked: Iterable[str]) -> Exception:
    """The refusal of what an estimate cannot give."""
    what = f"{device.name} is a device: it is estimated in closed form, which has no such option"
    remedy = "Leave it out, or take a machine, which is simulated: ts.Machine.names(), tilesim machine list"
    return user_error(what, value=", ".join(asked), suggestion=remedy)


def quantized_estimate(graph: Graph, device: Device, quantize: str | None, **options: Any) -> Estimate:
    """The estimate of a graph, its products with weights in narrow numbers where asked for."""
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
        raise user_error("a quantization and another scheme", place="scheme", value=shown(options["scheme"]),
                         allowed=f"{scheme}, which {quantize} is on a device")  # fmt: skip
    found = estimate(graph, device, **{**options, "scheme": scheme})
    said = f"quantized to {quantize}: products with weights in scheme {scheme}, all others as they are"
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
    """The estimate that `run` gives for a device."""
    given, *others = divided(options, estimate, *stages)
    if refused := [*asked, *(name for part in others for name in part)]:
        raise only_simulated(device, refused)
    return quantized_estimate(graph, device, quantize, **given)
