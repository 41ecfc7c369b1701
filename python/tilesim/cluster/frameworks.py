"""Costs of frameworks in addition to kernels: launches, shares of rates, bytes per parameter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..base.errors import nearest, path_text, user_error
from ..base.files import read_json
from ..base.paths import configs_dir

__all__ = ["CONSTANTS", "Framework", "names"]

#: name -> meaning with unit, smallest and largest value
CONSTANTS: dict[str, tuple[str, float, float]] = {
    "product_share": ("share of the rate of standalone products", 0.05, 2.0),
    "memory_share": ("share of the memory rate in operations between products", 0.05, 1.0),
    "scores": ("ratio of passes over stored scores to counted ones", 0.1, 10.0),
    "flash_share": ("share of the rate of standalone fused attention, forward", 0.01, 2.0),
    "flash_backward_share": ("the same backward, with 2.5 times the operations", 0.01, 2.0),
    "mma_share": ("share that kernels written for Ampere reach on later GPUs", 0.05, 1.0),
    "dropout": ("1: dropout in two sums and on scores", 0.0, 1.0),
    "loss_bytes": ("bytes moved per logit, forward and backward", 0.0, 500.0),
    "optimizer_bytes": ("bytes moved per parameter in the update", 0.0, 500.0),
    "gradient_bytes": ("bytes per parameter of the gradient all-reduce", 1.0, 8.0),
    "state_gradient_bytes": ("bytes per parameter of stored gradients", 1.0, 8.0),
    "host_pass": ("seconds of the host per layer and pass", 0.0, 1.0),
    "host_straggler": ("the same per further device of a tensor group", 0.0, 1.0),
    "host_blend": ("exponent of the overlap of launches and kernels", 1.0, 100.0),
    "host_microbatch": ("seconds of the host per micro-batch and stage", 0.0, 1.0),
    "host_step": ("seconds of the host per step", 0.0, 10.0),
    "interference": ("share of overlapped communication that slows compute", 0.0, 1.0),
    "tensor_overlap": ("share of products that overlap with the tensor group's reduction", 0.0, 1.0),
    "link_share": ("share of a device's links that collectives reach", 0.05, 1.0),
    "node_share": ("share of a node's ports that collectives reach", 0.05, 1.0),
    "link_step": ("seconds per step inside a node, beside the link's latency", 0.0, 1.0),
    "node_step": ("seconds per step between nodes, beside the link's latency", 0.0, 1.0),
    "call": ("seconds per call", 0.0, 1.0),
}


@dataclass(frozen=True)
class Framework:
    """Constants of one framework with their sources; `takes_library`: whether it uses a cluster's library by
    default."""

    name: str
    description: str
    constants: Mapping[str, float]
    provenance: Mapping[str, str]
    takes_library: bool = False

    @staticmethod
    def load(name: str) -> Framework:
        """Loads a framework by name from `configs/frameworks/NAME.json`."""
        return _loaded(path_text(name, "framework"))


def names() -> list[str]:
    """Returns the names of the shipped frameworks."""
    return sorted(path.stem for path in (configs_dir() / "frameworks").glob("*.json"))


@cache
def _loaded(name: str) -> Framework:
    if name not in names():
        raise user_error(
            "unknown framework", place="framework", value=f"'{name}'", allowed=", ".join(names()),
            suggestion=nearest(name, names()),
        )  # fmt: skip
    path = configs_dir() / "frameworks" / f"{name}.json"
    data = read_json(path)
    constants: dict[str, float] = {}
    for key, (meaning, least, most) in CONSTANTS.items():
        value = data.get("constants", {}).get(key)
        if not isinstance(value, (int, float)) or not least <= value <= most:
            raise user_error(
                f"the constant {key} is missing or out of range", place=str(path), value=json.dumps(value),
                allowed=f"{least:g} to {most:g}, {meaning}",
            )  # fmt: skip
        constants[key] = float(value)
    return Framework(name, data["description"], constants, data["provenance"], bool(data.get("takes_library")))
