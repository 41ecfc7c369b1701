"""Draws the memory plan over time: addresses of tensors, and bytes in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...base import figures
from ...base.palette import SERIES
from ...base.view import Boxes, Notes, Section, Steps

__all__ = ["live_bytes", "plan_data", "plan_of", "plan_section", "tensor_rows"]

BOXES, STEPS = 4_000, 2_000
"""Largest numbers of tensors and time steps in a page."""


def plan_of(program: Any) -> tuple[Any, str]:
    """Returns a program's memory plan and ""; or None and the reason."""
    if program is None:
        return (
            None,
            "This result has no program, from which the plan is made. Write the page where the result is simulated.",
        )
    if program.placement.rows:
        return None, "No memory plan: the host runs a part of the program."
    return program.memory_plan(), ""


def tensor_rows(plan: Any, level: str) -> list[dict[str, Any]]:
    """Returns the tensors with storage at a memory level, largest first."""
    rows = [row for row in plan.table().rows if row["level"] == level and not row["alias_of"] and row["bytes"] > 0]
    return sorted(rows, key=lambda row: -row["bytes"])


def live_bytes(rows: list[dict[str, Any]], kernels: int) -> list[int]:
    """Counts the bytes in use during each kernel."""
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
    """Whether a tensor is live from the first kernel to the last."""
    return bool(row["first"] <= 0 and row["last"] >= kernels - 1)


def plan_data(program: Any, most: int = BOXES, steps: int = STEPS) -> dict[str, Any]:
    """Collects the data of the drawn memory plan."""
    plan, why = plan_of(program)
    if plan is None:
        return {"why": why}
    rows = tensor_rows(plan, "memory")
    if not rows or not plan.kernels:
        return {"why": "No tensor lies in memory."}
    passing = [row for row in rows if not _stays(row, plan.kernels)]
    shown = passing or rows  # omits weights, which would hide temporary tensors
    ranked = sorted(shown, key=lambda row: -row["bytes"] * (row["last"] - row["first"] + 1))[:most]
    live = live_bytes(shown, plan.kernels)
    each = -(-len(live) // steps)
    return {
        "kernels": plan.kernels,
        "tensors": len(rows),
        "peak_bytes": plan.peak_bytes["memory"],
        "passing": bool(passing),
        "kept_bytes": sum(row["bytes"] for row in rows) - sum(row["bytes"] for row in passing) if passing else 0,
        "left": len(shown) - len(ranked),
        "stay": len(tensor_rows(plan, "scratchpad")),
        "stay_bytes": plan.live_bytes["scratchpad"],
        "shared": bool(plan.shared),
        "live_kernels": each,
        "live_bytes": [max(live[i : i + each]) for i in range(0, len(live), each)],
        "boxes": {key: [row[key] for row in ranked] for key in ("tensor", "bytes", "address", "first", "last")},
    }


def plan_section(result: Any, data: Mapping[str, Any]) -> Section:
    """Draws tensors over kernels and addresses, and the bytes in use."""
    if result.data["source"] != "engine":
        return Section("", [])
    if "why" in data:
        return Section("Memory plan", [Notes([data["why"]])], "memory")
    columns, passing = data["boxes"], data["passing"]
    base = min(columns["address"])
    boxes, texts = [], []
    for i, name in enumerate(columns["tensor"]):
        low, size = columns["address"][i] - base, columns["bytes"][i]
        boxes.append((columns["first"][i], columns["last"][i] + 1, low, low + size, 1 if passing else 0, i))
        texts.append(f"{figures.short(name, 80)}, {figures.size(size)}")
    sorts = [("permanent (inputs, weights, outputs)", SERIES[0]), ("temporary", SERIES[1])]
    titles = ("kernel, in execution order", "")
    place = f"address above {figures.size(base)}" if base else "address"
    spans = (data["kernels"], max(box[3] for box in boxes))
    steps = [float(value) for value in data["live_bytes"]]
    return Section(
        "Memory plan",
        [
            Boxes("plan", boxes, texts, sorts, (titles[0], place), ("count", "size"), spans,
                  (), "kernels", 1.0, _plan_text(data)),
            Steps("live", float(data["live_kernels"]), [("in use", steps)], titles, ("count", "size"), None,
                  "kernels", 1.0, f"Bytes in use {'by temporary tensors' if passing else 'by permanent tensors'}."),
        ],
        "memory",
    )  # fmt: skip


def _plan_text(data: Mapping[str, Any]) -> str:
    """Describes the plan's tensors and peak bytes."""
    said = f"{data['tensors']:,} tensors, {figures.size(data['peak_bytes'])} at the peak; kernels: "
    said += f"{data['kernels']:,}."
    if data["kept_bytes"]:
        kept = figures.size(data["kept_bytes"])
        said += f" Not drawn: {kept} of permanent tensors (inputs, weights, outputs)."
    said += f" The {len(data['boxes']['tensor']):,} largest are drawn." if data["left"] else ""
    if data["stay"]:
        held = figures.size(data["stay_bytes"])
        said += f" {data['stay']:,} more tensors stay in scratchpads between kernels, at most {held} of a core."
    if not data["shared"]:
        said += " Tensors share no storage because the program has too many kernels to analyse."
    return said
