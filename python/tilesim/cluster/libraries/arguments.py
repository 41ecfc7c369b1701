"""Checks arguments of calls to a communication library, numbers or arrays, and builds a query."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...base.arguments import dtype_name, one_of
from ...base.errors import shown, user_error
from ...machine.device import folded, is_label
from .model import Query

__all__ = ["OPERATIONS", "listed_as", "query_of"]

OPERATIONS = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_devices", "broadcast_devices",
)  # fmt: skip
_MOST_BYTES = float(1 << 50)
_MOST_DEVICES = 1 << 20


def query_of(op: str, size: Any, dtype: str, devices: Any, per_node: Any, link: Any, node_link: Any) -> Query:
    """Builds a query from the arguments of a call."""
    one_of("unknown operation", "op", op, *OPERATIONS)
    text = dtype_name(dtype)
    bits = int((re.findall(r"\d+", text) or ["8"])[0])
    columns = {"bytes": size, "devices": devices, "per_node": per_node, "link": link}
    limits = {"bytes": (0.0, _MOST_BYTES), "devices": (1.0, _MOST_DEVICES), "per_node": (1.0, _MOST_DEVICES)}
    columns["node_link"] = math.inf if node_link is None else node_link
    arrays = {name: _numbers(name, value, *limits.get(name, (1.0, math.inf))) for name, value in columns.items()}
    try:
        spread = np.broadcast_arrays(*arrays.values())
    except ValueError:
        told = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise user_error(
            "arrays have different shapes", value=told, allowed="numbers, or arrays of one shape"
        ) from None
    flat = dict(zip(arrays, (np.array(array, dtype=float).ravel() for array in spread), strict=True))
    nodes = np.ceil(flat["devices"] / flat["per_node"])
    if node_link is None and (nodes > 1).any():
        raise user_error(
            "missing link rate between nodes", place="node_link", value="None",
            allowed="bytes per second and device",
        )  # fmt: skip
    for name in ("devices", "per_node"):
        if (flat[name] != np.floor(flat[name])).any():
            raise user_error("not a whole number", place=name, value=shown(columns[name]), allowed="from 1 on")
    return Query(op, flat["bytes"], flat["devices"], nodes, flat["link"], flat["node_link"], bits <= 8)


def _numbers(name: str, value: Any, low: float, high: float) -> NDArray[np.float64]:
    try:
        array = np.asarray(value, dtype=np.float64)
        boolean = np.asarray(value).dtype == bool
    except (TypeError, ValueError, OverflowError):
        array, boolean = np.array([np.nan]), False
    if boolean or not ((array >= low) & (array <= high)).all():
        raise user_error("out of range", place=name, value=shown(value), allowed=f"a number from {low:g} to {high:g}")
    return array


def listed_as(device: str, names: Iterable[str]) -> str:
    """Returns the name in a library's file that matches a device label; "" without a match."""
    known, text = {folded(name): name for name in names}, folded(device)
    if text in known or is_label(device):
        return known.get(text, "")
    if "pcie" in text or ("nvl" in text and not text.startswith("gb")):
        return ""
    words = re.split("[-_ ]", device)
    begins = (folded("".join(words[:count])) for count in range(len(words), 0, -1))
    return next((known[one] for one in begins if one in known), "")
