"""Compares predicted with measured collectives, one call per row."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..analytic.families import row_key
from ..base.arguments import dtype_name
from ..base.errors import Unsupported, UserError, unknown, user_error
from ..base.progress import followed
from ..base.validation import MeasuredCase, envelope, graded, integer, positive, read_cases
from ..cluster.library import OPERATIONS, PROTOCOLS, Library, LibraryLinks, load
from ..machine.device import Device

__all__ = ["ROW_COLUMNS", "CollectiveCase", "cases_of", "collective"]

ROW_COLUMNS = ("source", "protocol", "device", "library", "op", "dtype", "devices", "nodes", "bytes", "measured_ms")
_MOST = 1 << 20  # devices


@dataclass
class CollectiveCase(MeasuredCase):
    """One measured collective: its table row, parsed numbers, links, and prediction."""

    op: str = ""
    dtype: str = ""
    protocol: str = ""
    device: str = ""
    generation: str = ""
    bytes: float = 0.0
    devices: int = 0
    nodes: int = 0
    link: float = 0.0
    node_link: float = 0.0


def _text(row: dict[str, Any], column: str) -> str:
    return str(row[column] or "").strip()


def _word(row: dict[str, Any], column: str, allowed: tuple[str, ...]) -> str:
    text = _text(row, column)
    if text not in allowed:
        raise unknown(column, text, allowed)
    return text


def _system(case: CollectiveCase, library: Library) -> LibraryLinks:
    label = _text(case.row, "device")
    try:
        case.device = Device.named(label).name
    except UserError:
        case.device = label  # the library's file may list links for this name
    found = library.system(case.device)
    if found is None:
        known = ", ".join(name for data in library.generations.values() for name in data.get("devices", {}))
        raise user_error(
            f"the library {library.name} lacks links of the device", value=f"'{label}'", allowed=known, sort=Unsupported
        )
    return found


def _read(case: CollectiveCase, library: Library) -> None:
    row = case.row
    case.measured_ms, case.bytes = positive(row, "measured_ms"), positive(row, "bytes")
    case.devices, case.nodes = integer(row, "devices", _MOST), integer(row, "nodes", _MOST)
    if case.devices % case.nodes or case.devices < 2:
        raise user_error(
            "the devices are not a multiple of the nodes, or a single one",
            value=f"{case.devices} devices, {case.nodes} nodes",
        )
    case.op, case.protocol = _word(row, "op", OPERATIONS), _word(row, "protocol", PROTOCOLS)
    case.dtype = dtype_name(_text(row, "dtype"))
    if not re.match(library.name, _text(row, "library"), re.IGNORECASE):
        raise user_error(
            "another library", value=f"'{_text(row, 'library')}'", allowed=f"{library.name.upper()} …", sort=Unsupported
        )
    system = _system(case, library)
    case.generation, case.link, case.node_link = system.generation, system.link, system.node_link
    if system.domain > 8:  # one switch domain that spans several boards
        least = -(-case.devices // system.domain)
        case.nodes = next(n for n in range(least, case.devices + 1) if case.devices % n == 0)
    if case.devices > system.domain * case.nodes:
        raise user_error(
            "too many devices in a node for its links", value=f"{case.devices} devices, {case.nodes} nodes",
            allowed=f"up to {system.domain} of a node",
        )  # fmt: skip
    fabric = library.fabrics.get(f"{_text(row, 'source')}|{case.device}")
    if fabric and case.nodes > 1:
        local = case.devices // case.nodes
        case.node_link = min(fabric["per_device"], fabric["per_node"] / local)


def cases_of(path: str | os.PathLike[str], library: str = "nccl") -> list[CollectiveCase]:
    """Reads a table; a row that cannot be predicted gets its reason."""
    opened, found = load(library), []
    for row in read_cases(path, ROW_COLUMNS):
        case = CollectiveCase(row)
        with graded(vars(case)):
            _read(case, opened)
        found.append(case)
    return found


def collective(cases: str | os.PathLike[str]) -> dict[str, Any]:
    """Predicts every row of a table of collectives."""
    library, rows = load("nccl"), []
    for case in followed(cases_of(cases)):
        row: dict[str, Any] = {**case.row, "status": case.status, "reason": case.reason}
        row.update(measured_ms=case.measured_ms or None, predicted_ms=None, error=None, fitted=False)
        row.update(algorithm=None, network_protocol=None)
        if case.status == "ok":
            told = library.explain(
                case.op, case.bytes, case.dtype, case.devices, case.devices // case.nodes, link=case.link,
                node_link=case.node_link, generation=case.generation, protocol=case.protocol,
            )  # fmt: skip
            row["predicted_ms"] = told.seconds * 1e3
            row["error"] = row["predicted_ms"] / case.measured_ms - 1
            row.update(algorithm=told.algorithm, network_protocol=told.protocol)
            row["fitted"] = key_of(case.row) in library.fitted_rows
        rows.append(row)
    settings = {"library": library.name, "provenance": library.provenance, "tilesim": _core.__version__}
    return envelope("collective", settings, rows, _group)


def key_of(row: dict[str, Any]) -> int:
    """Returns a unique key of a measured row."""
    return row_key(row[key] for key in ROW_COLUMNS)


def _group(row: dict[str, Any]) -> str:
    return "|".join(str(row[key] or "") for key in ("source", "device", "library", "op"))
