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


def _stays(row: dict[str, Any], kernels: int) -> bool:
    """Whether a tensor lies there from the first kernel to the last."""
    return bool(row["first"] <= 0 and row["last"] >= kernels - 1)


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
    passing = [row for row in rows if not _stays(row, plan.kernels)]
    shown = passing or rows  # weights would leave no room for what comes and goes
    ranked = sorted(shown, key=lambda row: -row["bytes"] * (row["last"] - row["first"] + 1))[:BOXES]
    base = min(row["address"] for row in ranked)
    boxes = []
    texts = []
    for i, row in enumerate(ranked):
        low = row["address"] - base
        boxes.append((row["first"], row["last"] + 1, low, low + row["bytes"], 1 if passing else 0, i))
        texts.append(f"{figures.short(row['tensor'], 80)}, {figures.size(row['bytes'])}")
    sorts = [("the whole time (inputs, weights, outputs)", SERIES[0]), ("for a time", SERIES[1])]
    peak = plan.peak_bytes["memory"]
    said = f"{len(rows):,} tensors, {figures.size(peak)} at the peak; kernels: {plan.kernels:,}."
    kept = sum(row["bytes"] for row in rows) - sum(row["bytes"] for row in passing)
    if passing and kept:
        said += f" Not drawn: {figures.size(kept)} that lie there the whole time (inputs, weights, outputs)."
    said += f" The {BOXES:,} largest are drawn." if len(shown) > BOXES else ""
    stays = own_rows(plan, "scratchpad")
    if stays:
        held = figures.size(plan.live_bytes["scratchpad"])
        said += f" {len(stays):,} more tensors stay in scratchpads between kernels, {held} of a core at one time."
    if not plan.shared:
        said += " Tensors do not share bytes: the program has too many kernels to look at each."
    live = live_bytes(shown, plan.kernels)
    each = -(-len(live) // _STEPS)
    steps = [float(max(live[i : i + each])) for i in range(0, len(live), each)]
    titles = ("kernel, in the order in which they run", "")
    place = f"address, from {figures.size(base)} on" if base else "address"
    spans = (plan.kernels, max(box[3] for box in boxes))
    return Section(
        "Memory plan",
        [
            Boxes("plan", boxes, texts, sorts, (titles[0], place), ("count", "size"), spans,
                  (), "kernels", 1.0, said),
            Steps("live", float(each), [("in use", steps)], titles, ("count", "size"), None,
                  "kernels", 1.0, f"Bytes in use {'by what lies there for a time' if passing else 'the whole time'}."),
        ],
        "memory",
    )  # fmt: skip
