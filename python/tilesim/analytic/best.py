"""The best scheme of every product of a network, and of the whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..base.checked import checked
from ..base.errors import Unsupported
from ..graph import user_error
from ..loading import GraphLike, as_graph
from ..results.result import Table
from . import gemm
from .crossover import normal, spread_of
from .estimate import DeviceLike, device_of, estimate
from .profile import Profile

__all__ = ["SCHEMES", "best_schemes"]

SCHEMES = ("bf16", "fp8", "int8_wo", "int4_wo")  #: what a network is compared in; the first is the baseline


@checked()
def best_schemes(
    graph: GraphLike,
    device: DeviceLike,
    schemes: Sequence[str] = SCHEMES,
    *,
    engine: str = "",
    profile: Profile | str | None = None,
) -> Table:
    """The best scheme of every product of a graph, of the whole in one scheme, and of the whole with the best of each.

    Args:
        graph: the workload, as `ts.compile` takes it.
        device: as of `crossover`.
        schemes: to choose from; those that the device lacks are left out.
        engine: whose kernels; "": a library's.
        profile: constants that `calibrate` fitted; none: the family's.

    Returns:
        Rows with operation, best scheme, speed-up over the first scheme that the device runs, probability that this
        choice is faster than that one (from the model's own error; none for the first itself), and milliseconds per
        scheme. The row "all" is the whole graph in one scheme; the row "mixed", last, takes the best for each product:
        its speed-up and `ms`.

    Raises:
        UserError: for an unknown device or scheme, or when the device runs none of the schemes.
    """
    target = device_of(device, labels=True)
    graph = as_graph(graph)
    times: dict[str, dict[str, float]] = {}
    totals: dict[str, float] = {}
    for name in schemes:
        try:
            result = estimate(graph, target, scheme=name, engine=engine, profile=profile)
        except Unsupported:
            continue
        totals[name] = result.milliseconds
        for cost in result.costs:
            if cost.kind in ("contract", "convolution"):
                times.setdefault(cost.name, {})[name] = cost.seconds * 1e3
    if not totals:
        raise user_error("the device runs none of the schemes", value=", ".join(schemes))
    first = next(iter(totals))
    opened = Profile.open(profile)
    spread = {n: spread_of(gemm.estimator(target, n, engine=engine, profile=opened).entry) for n in totals}

    def row(label: str, of: dict[str, float]) -> dict[str, Any]:
        best = min(of, key=lambda name: of[name])
        ratio = of[first] / of[best]
        sure = None if best == first else normal(math.log(ratio) / math.hypot(spread[first], spread[best]))
        return {"operation": label, "best": best, "speedup": ratio, "probability": sure, **of}

    rows = [row(key, value) for key, value in times.items()]
    mixed = totals[first] - sum(of[first] - min(of.values()) for of in times.values())
    whole = row("all", totals)
    last = {"operation": "mixed", "best": "each its own", "speedup": totals[first] / mixed, "probability": None}
    return Table([*rows, whole, {**last, **dict.fromkeys(totals), "ms": mixed}])
