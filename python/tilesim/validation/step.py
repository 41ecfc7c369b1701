"""Compares predicted with measured training steps, and predicted with published bytes."""

from __future__ import annotations

import os
from typing import Any

from .. import _core
from ..base.errors import shown, user_error
from ..base.validation import envelope, graded, integer, positive, read_cases, read_csv
from ..cluster.fabric import Fabric, fabric_of, sized_fabric
from ..cluster.frameworks import Framework
from ..cluster.plan import Plan
from ..cluster.stepping import framework_of, priced
from ..models.layered import Layered
from .step_graphs import COLUMNS, predicted

__all__ = ["step"]

_Row = dict[str, Any]
_COLUMNS = (
    "source", "system", "devices", "layers", "hidden", "heads", "vocab", "sequence", "global_batch", "micro_batch",
    "dtype", "tensor", "pipeline", "virtual", "data", "shard", "recompute", "attention", "measured_ms",
)  # fmt: skip


def step(cases: str | os.PathLike[str], framework: str | None = None) -> dict[str, Any]:
    """Predicts every row of a table of training steps."""
    if framework is not None:
        Framework.load(framework)
    if "measured_seconds" in read_csv(cases)[0]:
        graphs = [predicted(given) for given in read_cases(cases, COLUMNS)]
        about = {"framework": "graph", "network": "closed", "tilesim": _core.__version__}
        return envelope("step", about, graphs, lambda row: str(row["system"]))
    rows = [_read(given) for given in read_cases(cases, _COLUMNS)]
    groups: dict[tuple[str, str, str, int], list[tuple[_Row, Layered, Plan]]] = {}
    for row, pair in rows:
        if pair is not None:
            name = framework or framework_of(fabric_of(row["system"]).device, pair[1])
            groups.setdefault((row["system"], pair[0].dtype, name, pair[1].devices), []).append((row, *pair))
    for (system, _, name, devices), members in groups.items():
        _predict(members, fabric_of(system, devices), Framework.load(name))
    settings = {"framework": framework or "by system", "network": "closed", "tilesim": _core.__version__}
    return envelope("step", settings, [row for row, _ in rows], lambda row: f"{row['source']}|{row['system']}")


def _read(given: _Row) -> tuple[_Row, tuple[Layered, Plan] | None]:
    """Returns a row's report and its request; for an invalid request, the report has the reason."""
    row: _Row = {**given, "status": "ok", "reason": "", "measured_ms": None, "predicted_ms": None, "error": None}
    row["fitted"] = False
    with graded(row):
        row["measured_ms"] = positive(given, "measured_ms")
        row["system"] = str(given["system"]).strip()
        workload, plan = _workload(given), _plan(given)
        devices = _integer(given, "devices")
        plan.check(workload, devices)
        _check_nodes(given, devices, sized_fabric(fabric_of(row["system"], devices), devices))
        return row, (workload, plan)
    return row, None


def _predict(members: list[tuple[_Row, Layered, Plan]], fabric: Fabric, framework: Framework) -> None:
    """Predicts all rows of one system, dtype and framework in one call."""
    _, found, held = priced([(workload, plan) for _, workload, plan in members], fabric, framework)
    for number, (row, _, _) in enumerate(members):
        row.update(
            predicted_ms=float(found.seconds[number]) * 1e3,
            predicted_exposed_ms=float(found.exposed[number]) * 1e3,
            predicted_bubble_ms=float(found.bubble[number]) * 1e3,
            predicted_gib=float(held.peak[number]) / (1 << 30),
            framework=framework.name,
            fitted=_is_fitted(row, framework),
        )
        row["error"] = row["predicted_ms"] / row["measured_ms"] - 1


def _is_fitted(row: _Row, framework: Framework) -> bool:
    """Whether the framework's constants were fitted to steps from this row's source."""
    fits = [text for text in framework.provenance.values() if text.startswith("fitted")]
    return any(str(row["source"]).strip() in text.split() for text in fits)


def _integer(row: _Row, name: str, standard: int | None = None) -> int:
    if standard is not None and not str(row.get(name) or "").strip():
        return standard
    return integer(row, name)


def _flag(row: _Row, name: str) -> bool:
    text = str(row.get(name) or "").strip().lower()
    known = {"": False, "0": False, "0.0": False, "false": False, "1": True, "1.0": True, "true": True}
    if text not in known:
        raise user_error(f"{name} is neither 0 nor 1", value=shown(row[name]), allowed="0, 1")
    return known[text]


def _check_nodes(row: _Row, devices: int, fabric: Fabric) -> None:
    """Checks that the row's node count matches its devices and the system's devices per node."""
    if not str(row.get("nodes") or "").strip():
        return
    nodes, wanted = integer(row, "nodes"), -(-devices // fabric.per_node)
    if nodes != wanted:
        raise user_error("devices and nodes do not match the system", value=f"{devices} devices, {nodes} nodes",
                         allowed=f"{wanted} nodes of {fabric.per_node}")  # fmt: skip


def _workload(row: _Row) -> Layered:
    needed = ("layers", "hidden", "heads", "vocab", "sequence", "global_batch")
    sizes: dict[str, Any] = {name: _integer(row, name) for name in needed}
    rest: dict[str, Any] = {name: _integer(row, name, 0) for name in ("ffn", "kv_heads", "head_size")}
    return Layered(
        **sizes, **rest, gated=_flag(row, "gated"), dtype=str(row["dtype"]).strip(),
        attention=str(row["attention"]).strip() or "flash", name=str(row.get("model") or "transformer"),
    )  # fmt: skip


def _plan(row: _Row) -> Plan:
    counts = ("tensor", "pipeline", "virtual", "data", "context", "micro_batch")
    sizes: dict[str, Any] = {name: _integer(row, name, 1) for name in counts}
    recompute = str(row["recompute"]).strip() or "none"
    # Megatron's selective recompute came with sequence parallelism (arXiv 2205.05198, measured on DGX A100)
    dgx = str(row["system"]).strip().lower().startswith("dgx-")
    sequence = recompute == "selective" and sizes["tensor"] > 1 and dgx
    return Plan(**sizes, shard=str(row["shard"]).strip() or "none", recompute=recompute, sequence=sequence)
