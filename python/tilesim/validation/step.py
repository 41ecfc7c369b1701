"""Comparison of predicted steps with measured ones, and of bytes with published ones."""

from __future__ import annotations

import os
from typing import Any

from .. import _core
from ..base.errors import Unsupported, UserError
from ..base.validation import envelope, positive, read_cases
from ..cluster.fabric import fabric_of
from ..cluster.frameworks import Framework
from ..cluster.plan import Plan
from ..cluster.step import framework_of, priced
from ..models.layered import Layered

__all__ = ["step"]

_Row = dict[str, Any]
_COLUMNS = (
    "source", "system", "devices", "layers", "hidden", "heads", "vocab", "sequence", "global_batch", "micro_batch",
    "dtype", "tensor", "pipeline", "virtual", "data", "shard", "recompute", "attention", "measured_ms",
)  # fmt: skip


def step(cases: str | os.PathLike[str], framework: str | None = None) -> dict[str, Any]:
    """Predicts every row of a table of training steps.

    Args:
        cases: CSV, one training step per row: system, workload, plan, measured_ms.
        framework: whose constants; none: those of what trains so; "unfitted" has none from steps.

    Returns:
        The validation file; `predicted_ms` beside `measured_ms`; rows that are not ok count as error 1.

    Raises:
        UserError: for a file without these columns, or an unknown framework.
    """
    if framework is not None:
        Framework.load(framework)
    rows = [_predicted(given, framework) for given in read_cases(cases, _COLUMNS)]
    settings = {"framework": framework or "by system", "network": "closed", "tilesim": _core.__version__}
    return envelope("step", settings, rows, lambda row: f"{row['source']}|{row['system']}")


def _predicted(given: _Row, framework: str | None) -> _Row:
    row: _Row = {**given, "status": "ok", "reason": "", "measured_ms": None, "predicted_ms": None, "error": None}
    try:
        row["measured_ms"] = measured = positive(given, "measured_ms")
        row.update(_seconds(given, framework))
        row["error"] = row["predicted_ms"] / measured - 1
    except Unsupported as error:
        row.update(status="unsupported", reason=str(error))
    except UserError as error:
        row.update(status="invalid", reason=str(error))
    return row


def _whole(row: _Row, name: str, standard: int | None = None) -> int:
    if standard is not None and not str(row.get(name) or "").strip():
        return standard
    return int(positive(row, name))


def _workload(row: _Row) -> Layered:
    sizes = {name: _whole(row, name) for name in ("layers", "hidden", "heads", "vocab", "sequence", "global_batch")}
    rest = {name: _whole(row, name, 0) for name in ("ffn", "kv_heads", "head_size")}
    return Layered(
        **sizes, **rest, gated=str(row.get("gated") or "0").strip() == "1", dtype=str(row["dtype"]).strip(),
        attention=str(row["attention"]).strip() or "flash", name=str(row.get("model") or "transformer"),
    )  # fmt: skip


def _plan(row: _Row) -> Plan:
    sizes = {name: _whole(row, name, 1) for name in ("tensor", "pipeline", "virtual", "data", "context", "micro_batch")}
    recompute = str(row["recompute"]).strip() or "none"
    # Megatron's selective recompute came with sequence parallelism (arXiv 2205.05198)
    sequence = recompute == "selective" and sizes["tensor"] > 1
    return Plan(**sizes, shard=str(row["shard"]).strip() or "none", recompute=recompute, sequence=sequence)


def _seconds(row: _Row, framework: str | None) -> _Row:
    workload, plan = _workload(row), _plan(row)
    fabric = fabric_of(str(row["system"]).strip())
    plan.check(workload, _whole(row, "devices"))
    used = Framework.load(framework or framework_of(fabric.device, plan))
    _, found, held = priced([(workload, plan)], fabric, used)
    return {
        "predicted_ms": float(found.seconds[0]) * 1e3,
        "predicted_exposed_ms": float(found.exposed[0]) * 1e3,
        "predicted_bubble_ms": float(found.bubble[0]) * 1e3,
        "predicted_gib": float(held.peak[0]) / (1 << 30),
        "framework": used.name,
    }
