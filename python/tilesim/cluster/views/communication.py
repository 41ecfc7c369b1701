"""Communication of a step by axis and network dimension, with its exposed part."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..closed import StepTimes
from ..columns import Columns
from ..fabric import Fabric
from ..training.passes import AxisTraffic

__all__ = ["PASSES", "WHEN", "communication", "dimensions", "stage_seconds"]

#: parts of a step that are communication
WHEN = {
    "forward": "in forward passes of layers",
    "backward": "in backward passes of layers",
    "sent": "from stage to stage, forward and back",
    "tables": "of embedding and head, once per micro-batch",
    "end": "after the last pass",
}
PASSES = ("forward", "backward")
HOST = "host"  # name of the dimension of links between devices and their hosts
_WIRE = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}


def dimensions(fabric: Fabric) -> tuple[str, str]:
    """Returns the names of the dimensions inside a node and between nodes."""
    return ("slice", "slices") if fabric.slices else ("node", "nodes")


def _row(moved: AxisTraffic, when: str, times: float, exposed: float, fabric: Fabric) -> dict[str, Any]:
    def first(value: Any) -> float:
        return float(np.ravel(value)[0])

    if moved.group is None:
        size, dimension = 2.0, HOST
    else:
        size, dimension = first(moved.group.size), dimensions(fabric)[int(first(moved.group.crosses))]
    calls, data = first(moved.calls) * times, first(moved.bytes)
    share = _WIRE[moved.operation] * (size - 1) / size if moved.operation in _WIRE else float(size > 1)
    return {
        "axis": moved.axis, "when": when, "operation": moved.operation,
        "dimension": dimension, "devices": 1 if moved.group is None else int(size), "calls": round(calls),
        "bytes": round(data), "wire_bytes": round(calls * data * share), "seconds": times * first(moved.seconds),
        "exposed_seconds": times * exposed,
    }  # fmt: skip


def communication(c: Columns, times: StepTimes, fabric: Fabric) -> list[dict[str, Any]]:
    """Lists the communication of a step on the fullest device."""
    detail = times.detail
    if detail is None:
        return []
    m = float(c.micro_batches[0])
    layers = m * float(c.stage_layers[0])
    rows = []
    for when, layer in detail.layers.items():
        for axis, moved in _by_axis(layer.traffic):
            whole = sum(float(one.seconds[0]) for one in moved)
            exposed = float(getattr(layer, axis)[0])
            if (when, axis) == ("forward", "data"):  # the parameters of the first layer are exposed
                exposed += float(detail.first[0] + layer.data_interference[0]) / layers
            for one in moved:
                share = float(one.seconds[0]) / whole if whole > 0 else 0.0
                rows.append(_row(one, when, layers, exposed * share, fabric))
    for one in detail.sent:
        rows.append(_row(one, "sent", m * float(detail.sends[0]), float(one.seconds[0]), fabric))
    for one, exposed_ in detail.tables:
        rows.append(_row(one, "tables", 1.0, float(exposed_[0]), fabric))
    for one, exposed_ in detail.last:
        rows.append(_row(one, "end", 1.0, float(exposed_[0]), fabric))
    return [row for row in rows if row["seconds"] > 0]


def _by_axis(moved: Iterable[AxisTraffic]) -> list[tuple[str, list[AxisTraffic]]]:
    found: dict[str, list[AxisTraffic]] = {}
    for one in moved:
        found.setdefault(one.axis, []).append(one)
    return list(found.items())


def stage_seconds(c: Columns, times: StepTimes) -> dict[str, float]:
    """Returns a micro-batch's seconds on the stages, by kind of stage."""
    rows = {"forward": float(times.stage_forward[0]), "backward": float(np.ravel(times.stage_backward)[0])}
    detail = times.detail
    if detail is None:
        return rows
    layers = rows["layers"] = float(c.stage_layers[0])
    for name in ("slowest", "whole", "through", "head", "waits", "first"):
        rows[name] = float(getattr(detail, name)[0])
    rows["tables"] = float(np.ravel(detail.tables_slow)[0])
    rows["alone"] = rows["first"] + float(detail.layers["forward"].data_interference[0])
    for when, layer in detail.layers.items():
        rows[f"{when}_compute"] = layers * float(layer.compute[0])
        rows[f"{when}_host"] = layers * float(layer.host[0])
        rows[f"{when}_interference"] = layers * float(layer.interference[0])
        if when == "backward":
            rows["backward_recompute"] = layers * float(layer.recompute[0])
    return rows
