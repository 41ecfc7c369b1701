"""Compares predictions with measured tables; all reports have the same format."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable
from typing import Any

from .. import models, workloads
from .._core import UserError
from ..base.progress import followed
from ..base.validation import envelope, positive, read_cases
from ..graph import Graph, GraphBuilder, user_error
from ..machine.machine import Machine
from ..timing.level import checked_level
from ..timing.simulate import compile, simulate
from .dram import dram

__all__ = ["dram", "encoder_block", "leave_one_family_out", "tpu_v3", "workload"]


def encoder_block(width: int, heads: int, sequence: int = 512) -> Graph:
    """Builds an encoder block: attention, two layer normalizations, a feed-forward part of 4 times the width, ReLU."""
    b = GraphBuilder(f"encoder_{width}x{heads}")
    x = b.input("x", [1, sequence, width])

    def split(value: Any) -> Any:
        return value.reshape(1, sequence, heads, width // heads).transpose(0, 2, 1, 3)

    def norm(value: Any, name: str) -> Any:
        scale, bias = (b.weight(f"{name}.{part}", [width]) for part in ("weight", "bias"))
        return b.layer_norm(value, scale, bias, name=name)

    q, k, v = (split(b.linear(x, width, name=part)) for part in ("query", "key", "value"))
    context = b.attention(q, k, v, name="attention").transpose(0, 2, 1, 3).reshape(1, sequence, width)
    x = norm(b.linear(context, width, name="output") + x, "norm1")
    hidden = b.apply("relu", b.linear(x, 4 * width, name="up"))
    b.output(norm(b.linear(hidden, width, name="down") + x, "norm2"), "y")
    return b.build()


def _numbers(text: str, count: int) -> list[int]:
    parts = text.split("x")
    if len(parts) != count or not all(re.fullmatch(r"[0-9]{1,9}", part) and int(part) >= 0 for part in parts):
        raise user_error(
            "the shape has a wrong number of extents", value=f"'{text}'", allowed=f"{count} numbers joined by x"
        )
    return [int(part) for part in parts]


def _conv(text: str) -> Graph:
    batch, height, width, channels, filters, kernel, stride, padding = _numbers(text, 8)
    return workloads.conv2d(batch, channels, height, width, filters, kernel, stride=stride, padding=padding)


def _gemm(text: str) -> Graph:
    m, k, n = _numbers(text, 3)
    return workloads.matmul(m, n, k)


def _attention(text: str) -> Graph:
    heads, sequence, depth = _numbers(text, 3)
    return workloads.attention(1, heads, sequence, depth)


_BLOCKS = {"base": (768, 12), "large": (1024, 16), "xlarge": (2048, 32)}
_FAMILIES: dict[str, Callable[[str], Graph]] = {
    "gemm": _gemm,
    "conv": _conv,
    "layernorm": lambda text: workloads.layer_norm(*_numbers(text, 2)),
    "softmax": lambda text: workloads.softmax(*_numbers(text, 2)),
    "attention": _attention,
}


def workload(name: str) -> Graph:
    """Builds a workload from its name in the TPU v3 table."""
    family, _, rest = name.partition("_")
    if family in _FAMILIES:
        return _FAMILIES[family](rest)
    if family == "bert" and rest in _BLOCKS:
        return encoder_block(*_BLOCKS[rest])
    if name in ("resnet18", "resnet50"):
        return models.build(name)
    known = [*(f"{key}_..." for key in _FAMILIES), *(f"bert_{key}" for key in _BLOCKS), "resnet18", "resnet50"]
    raise user_error("unknown workload", value=f"'{name}'", allowed=", ".join(known))


@functools.lru_cache(maxsize=256)  # a table may name one workload in thousands of rows
def _predict(name: str, machine: Machine, level: str = "tile") -> int:
    return simulate(compile(workload(name), machine), level=level).cycles


FITTED = ("softmax_2048x2048", "layernorm_2048x768")
"""Rows to which the preset's one fitted number, memory.efficiency, was fitted; only simple memory uses it."""


def _fit_efficiency(rows: list[dict[str, Any]], machine: Machine, level: str) -> float:
    """Returns the memory efficiency with the least squared log error on `rows` (golden section, to 0.001)."""

    def loss(efficiency: float) -> float:
        changed = machine.replace({"memory.efficiency": efficiency})
        return sum(math.log(_predict(row["workload"], changed, level) / row["measured_cycles"]) ** 2 for row in rows)

    low, high, ratio = 0.5, 1.0, (math.sqrt(5) - 1) / 2
    while high - low > 1e-3:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if loss(left) <= loss(right):
            high = right
        else:
            low = left
    return (low + high) / 2


def leave_one_family_out(
    rows: list[dict[str, Any]], machine: Machine, level: str = "tile"
) -> dict[str, dict[str, float | None]]:
    """Predicts each workload family with the efficiency fitted to the other families; returns errors by family."""
    usable = [row for row in rows if row["status"] == "ok"]
    result: dict[str, dict[str, float | None]] = {}
    banks = machine.get("memory.kind") == "bank"
    for family in dict.fromkeys(row["workload"].partition("_")[0] for row in usable):
        own = [row for row in usable if row["workload"].partition("_")[0] == family]
        others = [row for row in usable if row["fitted"] and row not in own]
        changed, errors = machine, [abs(row["error"]) for row in own]
        efficiency = machine.get("memory.efficiency")
        if any(row["fitted"] for row in own) and others:
            efficiency = _fit_efficiency(others, machine, level)
            changed = machine.replace({"memory.efficiency": efficiency})
            errors = [abs(_predict(row["workload"], changed, level) / row["measured_cycles"] - 1) for row in own]
        result[family] = {
            "memory_efficiency": None if banks else float(efficiency),
            "mean_abs_error": sum(errors) / len(errors),
        }
    return result


def tpu_v3(
    cases: str | os.PathLike[str],
    machine: str | Machine = "tpu-v3",
    memory: str | None = None,
    level: str = "tile",
) -> dict[str, Any]:
    """Simulates every row of a table of measured TPU v3 cycles."""
    checked_level(level)
    target = Machine.load(machine)
    if memory is not None:
        target = target.replace({"memory.kind": memory})
    fitted = FITTED if target.get("memory.kind") == "simple" else ()
    table = read_cases(cases, ("workload",))
    column = next((key for key in table[0] if key.startswith("measured_cycles")), None)
    if column is None:
        table = read_cases(cases, ("workload", "measured_cycles_at_940MHz"))
    rows = []
    for given in followed(table):
        row: dict[str, Any] = {**given, "status": "ok", "reason": "", "measured_cycles": None}
        row.update(predicted_cycles=None, error=None, fitted=False)
        try:
            row["measured_cycles"] = positive(given, str(column))
            row["predicted_cycles"] = _predict(given["workload"] or "", target, level)
            row["error"] = row["predicted_cycles"] / row["measured_cycles"] - 1
            row["fitted"] = given["workload"] in fitted
        except UserError as error:
            row.update(status="invalid" if row["measured_cycles"] is None else "unsupported", reason=str(error))
            if any(words in str(error) for words in ("unknown workload", "wrong number of extents")):
                row["status"] = "invalid"
        rows.append(row)
    settings = {"machine": target.name, "machine_hash": target.core.hash(), "memory": target.get("memory.kind")}
    if level != "tile":
        settings["level"] = level
    report = envelope("tpu-v3", settings, rows, lambda row: (row["workload"] or "").partition("_")[0])
    report["leave_one_family_out"] = leave_one_family_out(rows, target, level)
    return report
