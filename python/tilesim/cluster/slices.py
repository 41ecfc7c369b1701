"""Resizes clusters: part of a node, more nodes, slices of a pod."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..base.errors import UserError, user_error

__all__ = ["UnsupportedSize", "scaled"]


class UnsupportedSize(UserError):
    """The error for a cluster that cannot have this number of devices."""


def _size(dimension: Mapping[str, Any]) -> int:
    return math.prod(dimension["sizes"]) if "sizes" in dimension else int(dimension["size"])


def _rejected(name: str, devices: int, allowed: str) -> Exception:
    return user_error("unsupported size of the cluster", place=name, value=f"{devices} devices", allowed=allowed,
                      sort=UnsupportedSize)  # fmt: skip


def scaled(data: Mapping[str, Any], devices: int) -> tuple[list[dict[str, Any]], bool]:
    """Scales the network of a cluster to this number of devices."""
    name, network = str(data.get("name", "cluster")), [dict(one) for one in data["network"]]
    slices = data.get("slices")
    if slices is not None:
        found = slices.get(str(devices))
        if found is None:
            raise _rejected(name, devices, ", ".join(slices))
        network[-1].update(found)
        return [one for one in network if _size(one) > 1] or network[:1], False
    inner = math.prod(_size(one) for one in network[:-1])
    if len(network) == 1:
        network[0]["size"] = devices
        most = data.get("most")
        if most is not None and devices > most:
            raise _rejected(name, devices, f"1 ... {most}")
        return network, True
    if devices <= inner:
        network[0]["size"] = devices
        return network[:1], True
    if devices % inner:
        raise _rejected(name, devices, f"up to {inner}, or a multiple of {inner}")
    network[-1]["size"] = devices // inner
    if network[-1]["kind"] == "fat_tree":
        _enough_levels(network[-1])
    return network, False


def _enough_levels(tree: dict[str, Any]) -> None:
    """Sets the number of switch levels for the tree's devices."""
    radix, over = int(tree.get("radix", 64)), float(tree.get("oversubscription", 1))
    down = max(1, int(radix * over / (1 + over)))
    size = _size(tree)
    for levels, most in ((1, radix), (2, down * radix), (3, down * down * radix)):
        tree["levels"] = levels
        if size <= most:
            return
