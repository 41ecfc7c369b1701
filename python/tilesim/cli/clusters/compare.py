"""`tilesim cluster compare`: steps of several plans, clusters or predictors side by side."""

from __future__ import annotations

from typing import Annotated, Any

from ...base.errors import user_error
from ..compare import show
from ..options import SEVERAL, ExcludedOptions, Only, Output, combinations
from ..show import step as shown_step
from .options import AnyWorkload, ClusterOption, LayeredSizes, StepOptions


def compare(
    workload: AnyWorkload,
    on: Annotated[ClusterOption, SEVERAL],
    sizes: Annotated[LayeredSizes, SEVERAL],
    how: Annotated[StepOptions, SEVERAL, ExcludedOptions("symmetry")],
    out: Annotated[Output, Only("json", "html")],
) -> None:
    from ...cluster.stepping import step as run
    from ...results.compared import compare as beside

    varied: dict[str, list[Any]] = {**on, **how, **sizes}  # type: ignore[dict-item]
    hows = combinations(varied)
    if len(hows) < 2:
        raise user_error("compare needs at least two steps", value=workload,
                         suggestion="Give --plan, --cluster, --predictor, --network or --overlap twice")  # fmt: skip
    results = []
    for options in hows:
        cluster = options.pop("cluster")
        own = {name: options.pop(name) for name in ("phase", "batch", "context", "dtype") if name in options}
        with shown_step(f"pricing {workload} on {cluster}"):
            results.append(run(LayeredSizes(**own).of(workload), cluster, **options))
    show(beside(results[0], results[1], *results[2:]), out.html, out.json)
