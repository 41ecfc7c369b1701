"""`tilesim cluster step`: times a layered workload under a plan, or a program for several devices."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ...base.errors import user_error
from ...base.screen import wrapped
from ..load import write
from ..options import MACHINE, ExcludedOptions, Only, Output
from ..screen import say
from ..show import step as shown_step
from .options import AnyWorkload, ClusterOption, LayeredSizes, StepOptions


def step(
    workload: AnyWorkload,
    on: ClusterOption,
    sizes: LayeredSizes,
    how: Annotated[StepOptions, ExcludedOptions("symmetry")],
    devices: Annotated[
        str | None,
        typer.Option(
            help="Numbers of devices: 8,64,512. The plan's data axis grows, or the best plan is searched; "
            "for a module, the first axis of its mesh grows.",
            rich_help_panel=MACHINE,
        ),
    ] = None,
    *,
    out: Annotated[Output, Only("json", "timeline", "store", "quiet")],
) -> None:
    from ...cluster.stepping import step as run

    options, work = how.given(), sizes.of(workload)
    if devices is not None:
        refused = {"--predictor": how.predictor, "--timeline": out.timeline, "--store": out.store}
        for name, value in refused.items():
            if value not in (None, "closed"):
                raise user_error(
                    "the option does not combine with --devices", place=name, value=str(value),
                    allowed="--plan, --network, --overlap, --library, --framework, --json",
                )  # fmt: skip
        _scaled(work, on.cluster, devices, options, out)
        return
    result = run(work, on.cluster, **options, store=out.store)
    if out.timeline:
        result.timeline(out.timeline)
    if out.json:
        write(result.to_dict(), out.json)
    if not out.silent:
        explained(result, out.quiet)


def explained(result: Any, quiet: bool = False) -> None:
    """Prints the text of `explain` and, for a result with a plan, a table of its breakdown."""
    if result.plan is None:
        lines_ = result.explain().split("\n")
        say([line for words in lines_[: 1 if quiet else None] for line in wrapped(words, hang="    ")])
        return
    from ...cluster.advice import advice_lines
    from ...cluster.views.breakdown import lines
    from ...cluster.views.text import filled, heading

    say([line for words in heading(result)[: 1 if quiet else None] for line in wrapped(words, hang="  ")])
    if quiet:
        return
    say(lines(result.breakdown.rows))
    advice = advice_lines(result.advice(), result.memory_bytes)
    say([line for words in (*filled(result), *advice) for line in wrapped(words, hang="    ")])


def _scaled(workload: Any, cluster: str, devices: str, options: dict[str, Any], out: Output) -> None:
    from ...cluster.views.scaling import lines, scaling

    with shown_step("pricing plans"):
        found = scaling(workload, cluster, devices, **options)
    if out.json:
        write(found.to_dict(), out.json)
    if out.silent:
        return
    batch = "batch grows with the devices" if found.grows else "constant batch"
    say(wrapped(f"{found.title}, {batch}", hang="  "))
    if not out.quiet:
        say(lines(found.rows))
