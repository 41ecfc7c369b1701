"""Computes SCALE-Sim's cycle counts in closed form, for tiles and layers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from .. import _core
from ..base.checked import checked
from ..base.errors import listed
from ..graph import Graph
from ..machine.foreign import SCALE_SIM
from ..machine.machine import Machine, MachineLike

__all__ = ["counts_of", "scale_sim_latency", "scale_sim_note"]

_LISTED = 12
"""Most layers in the note."""


def _folds(array: Mapping[str, Any], m: int, n: int, k: int, transposed: bool = False) -> tuple[int, int, int]:
    """Returns folds of a product, streaming cycles per fold, and cycles to load, fill and drain per fold.

    Output stationary: T + R + C - 2 cycles per fold, weight and input stationary T + 2 R + C - 2, with T the extent
    that streams past R x C cells (Samajdar et al., ISPASS 2020, and the code of versions 2 and 3). Folds do not
    overlap.
    """
    rows, columns, dataflow = array["rows"], array["columns"], array["dataflow"]
    if dataflow == "output_stationary":
        return math.ceil(m / rows) * math.ceil(n / columns), k, rows + columns - 2
    if dataflow == "input_stationary" or transposed:
        m, n = n, m
    return math.ceil(k / rows) * math.ceil(n / columns), m, 2 * rows + columns - 2


@checked()
def scale_sim_latency(machine: MachineLike, compute: str) -> int | None:
    """Returns the cycles of a product's tile by SCALE-Sim's formula: every fold fills and drains the full array without
    overlap."""
    parts = _core.describe_compute(compute)
    if parts["kind"] != "mma":
        return None
    array = json.loads(Machine.load(machine).core.to_json())["core"]["array"]
    sizes = parts["m"], parts["n"], parts["k"] * parts["k_outer"]
    folds, streams, rest = _folds(array, *sizes, transposed=bool(parts["stationary_a"]))
    return int(parts["batch"]) * folds * (streams + rest)


def _sizes(row: Mapping[str, Any]) -> tuple[int, int, int, int] | None:
    """Returns an operation's number of products, with rows, columns and depth of each; None for other operations."""
    if row["kind"] not in ("contract", "convolution"):
        return None
    more, (a, b) = row["attributes"], (one["shape"] for one in row["operands"][:2])
    made = math.prod(row["results"][0]["shape"])
    if row["kind"] == "contract":
        batch = math.prod(a[axis] for axis in more.get("a_batch", []))
        depth = math.prod(a[axis] for axis in more.get("a_contract", []))
        columns = math.prod(b) // max(1, batch * depth)
    else:
        batch = int(more.get("groups", 1))
        columns = b[more["w_labels"].index("O")] // batch
        depth = math.prod(b) // max(1, batch * columns)
    return batch, made // max(1, batch * columns), columns, depth


def counts_of(graph: Graph, machine: Machine) -> dict[str, tuple[int, int]]:
    """Returns SCALE-Sim's cycle counts of a graph's products by operation."""
    if len(graph.functions) > 1:
        graph = graph.copy()
        graph.inline_calls()
    array = machine.to_dict()["core"]["array"]
    found: dict[str, tuple[int, int]] = {}
    for row in graph.operations():
        sizes = _sizes(row)
        if sizes is not None and min(sizes) > 0:
            folds, streams, rest = _folds(array, *sizes[1:])
            found[row["name"]] = (sizes[0] * (folds * (streams + rest) - 1), sizes[0] * folds * streams)
    return found


def scale_sim_note(data: Mapping[str, Any], graph: Graph | None, machine: Machine) -> list[str]:
    """Adds SCALE-Sim's counts to the approximations of a result on its machine."""
    if graph is None or not machine.description.startswith(SCALE_SIM) or not (counts := counts_of(graph, machine)):
        return []
    rows = {row["name"]: row for row in data["operations"]}
    total = sum(cycles for cycles, _ in counts.values())
    idle = 1 - sum(streams for _, streams in counts.values()) / max(1, total)
    longest = sorted(counts, key=lambda name: -counts[name][0])[:_LISTED]
    each = ", ".join(f"{name} {counts[name][0]:,}" + (f" : {rows[name]['exclusive']:,}" if name in rows else "")
                     for name in longest)  # fmt: skip
    array, busy = machine.to_dict()["core"]["array"], sum(row["array_busy"] for row in rows.values())
    reasons = [f"its array is busy for {busy:,} cycles"]
    if array["dataflow"] == "output_stationary":
        reasons.append(f"each fold of an output-stationary array also shifts its results out, {array['rows']} cycles")
    if array["weight_double_buffer"]:
        reasons.append("the cells of a fold are loaded while the fold before streams")
    if any(row["kind"] == "convolution" and row["name"] in counts for row in graph.operations()):
        reasons.append("rows of cells hold channels and part of the window, not whole windows")
    if vector := [name for name in counts if name in rows and not rows[name]["array_busy"]]:
        reasons.append(f"the vector unit computes {listed(vector, 4)}")
    bound: dict[str, int] = {}
    for row in rows.values():
        bound[row["bound"]] = bound.get(row["bound"], 0) + row["exclusive"]
    shares = ", ".join(f"{what} {cycles / max(1, data['cycles']):.0%}" for what, cycles in bound.items() if cycles)
    return [
        f"SCALE-Sim counts {total:,} cycles for the {len(counts)} products, this run takes {data['cycles']:,} ({each})."
        f" In SCALE-Sim folds run in sequence, {idle:.0%} of the cycles load, fill and drain the array, and its "
        f"count has no stalls for memory, no launches and no vector unit. Here {'; '.join(reasons)}; the time is bound "
        f"by {shares}"
    ]
