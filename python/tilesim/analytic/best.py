"""Selects the fastest scheme for each product of a network and for all products together."""

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

SCHEMES = ("bf16", "fp8", "int8_wo", "int4_wo")  #: schemes to compare; the first is the baseline


@checked()
def best_schemes(
    graph: GraphLike,
    device: DeviceLike,
    schemes: Sequence[str] = SCHEMES,
    *,
    engine: str = "",
    profile: Profile | str | None = None,
) -> Table:
    """Finds the fastest scheme for each product of a graph and for the complete graph, and the gain of mixing schemes.

    Args:
        graph: the workload, as for `ts.compile`.
        device: as for `crossover`.
        schemes: names of schemes to compare; omits those that the device cannot run.
        engine: serving engine whose kernels run; "" for kernels of a library.
        profile: constants fitted by `calibrate`; by default those of the device's family.

    Returns:
        Rows with operation, best scheme, speed-up over the first runnable scheme, probability that the best scheme
        is faster (from the model's error; none for the first scheme), and milliseconds per scheme. The row "all"
        has the complete graph in one scheme; the last row, "mixed", has the best scheme for each product, with speed-up
        and `ms`.

    Raises:
        UserError: for an unknown device or scheme, or if the device can run none of the schemes.
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
    last = {"operation": "mixed", "best": "per product", "speedup": totals[first] / mixed, "probability": None}
    return Table([*rows, whole, {**last, **dict.fromkeys(totals), "ms": mixed}])
