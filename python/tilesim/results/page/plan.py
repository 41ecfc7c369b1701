"""The memory plan over time: where tensors lie, and how much of the memory is in use."""

from __future__ import annotations

from typing import Any

from ...base import figures
from ...base.palette import SERIES
from ...base.view import Boxes, Notes, Section, Steps

__all__ = ["live_bytes", "own_rows", "plan_of", "plan_section"]

BOXES = 4_000
_STEPS = 2_000


def plan_of(program: Any) -> tuple[Any, str]:
    """The memory plan of a program, or why there is none.

    Args:
        program: that was simulated, or None.
    """
    if program is None:
        return (
            None,
            "The plan is made from the program, which this result does not hold: write the page where it is simulated.",
        )
    if program.placement.rows:
        return None, "Memory is not planned where the host runs a part."
    return program.memory_plan(), ""


def own_rows(plan: Any, level: str) -> list[dict[str, Any]]:
    """Tensors with bytes of their own at a level, the largest first.

    Args:
        plan: of `Program.memory_plan`.
        level: "memory" or "scratchpad".
    """
    rows = [row for row in plan.table().rows if row["level"] == level and not row["alias_of"] and row["bytes"] > 0]
    return sorted(rows, key=lambda row: -row["bytes"])


def live_bytes(rows: list[dict[str, Any]], kernels: int) -> list[int]:
    """Bytes that are taken during each kernel.

    Args:
        rows: of `own_rows`.
        kernels: their number.
    """
    change = [0] * (kernels + 1)
    for row in rows:
        first, last = min(max(0, row["first"]), kernels), min(max(0, row["last"]), kernels - 1)
        change[first] += row["bytes"]
        change[last + 1] -= row["bytes"]
    found, now = [], 0
    for one in change[:kernels]:
        now += one
        found.append(now)
    return found


def plan_section(result: Any, program: Any) -> Section:
    """Tensors over kernels and addresses; bytes in use.

    Args:
        result: any.
        program: that was simulated, or None.
    """
    if result.data["source"] != "engine":
        return Section("", [])
    plan, why = plan_of(program)
    if plan is None:
        return Section("Memory plan", [Notes([why])], "memory")
    rows = own_rows(plan, "memory")
    if not rows or not plan.kernels:
        return Section("Memory plan", [Notes(["No tensor lies in memory."])], "memory")
    ranked = sorted(rows, key=lambda row: -row["bytes"] * (row["last"] - row["first"] + 1))[:BOXES]
    boxes = []
    texts = []
    for i, row in enumerate(ranked):
        stays = row["first"] <= 0 and row["last"] >= plan.kernels - 1
        low, high = row["address"], row["address"] + row["bytes"]
        boxes.append((row["first"], row["last"] + 1, low, high, 0 if stays else 1, i))
        texts.append(f"{figures.short(row['tensor'], 80)}, {figures.size(row['bytes'])}")
    sorts = [("the whole time (inputs, weights, outputs)", SERIES[0]), ("for a time", SERIES[1])]
    peak = plan.peak_bytes["memory"]
    said = f"{len(rows):,} tensors, {figures.size(peak)} at the peak; kernels: {plan.kernels:,}."
    said += f" The {BOXES:,} largest are drawn." if len(rows) > BOXES else ""
    stays = own_rows(plan, "scratchpad")
    if stays:
        held = figures.size(plan.live_bytes["scratchpad"])
        said += f" {len(stays):,} more tensors stay in scratchpads between kernels, {held} of a core at one time."
    if not plan.shared:
        said += " Tensors do not share bytes: the program has too many kernels to look at each."
    live = live_bytes(rows, plan.kernels)
    each = -(-len(live) // _STEPS)
    steps = [float(max(live[i : i + each])) for i in range(0, len(live), each)]
    titles = ("kernel, in the order in which they run", "")
    return Section(
        "Memory plan",
        [
            Boxes("plan", boxes, texts, sorts, (titles[0], "address"), ("count", "size"), (plan.kernels, peak),
                  (), "kernels", 1.0, said),
            Steps("live", float(each), [("in use", steps)], titles, ("count", "size"), ("peak", float(peak)),
                  "kernels", 1.0, "Bytes of memory that are in use."),
        ],
        "memory",
    )  # fmt: skip
