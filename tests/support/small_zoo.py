"""The networks of the zoo with all their sorts of kernels, and little of each: one block of repeated layers."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

import tilesim as ts
import tilesim.models
from tilesim.models.registry import NETWORKS

SIZES = {"context": 32, "sequence": 32, "image": 64}
FIXED = {
    "vgg16": {"image": 224},
    "clip-vit-b-32": {"sequence": 77},
    "dlrm": {"batch": 64},
    "stable-diffusion-1.5-unet": {"batch": 1},
}


def _configurations() -> list[tuple[Any, str, Any]]:
    """Module, name and value of every configuration that says how often a layer is repeated."""
    found = []
    for info in pkgutil.iter_modules(tilesim.models.__path__):
        module = importlib.import_module(f"tilesim.models.{info.name}")
        found += [
            (module, name, value)
            for name, value in vars(module).items()
            if dataclasses.is_dataclass(value) and not isinstance(value, type) and hasattr(value, "layers")
        ]
    return found


def small(name: str, patch: Any) -> ts.Graph:
    """A network with one layer of each sort and short inputs."""
    for module, label, value in _configurations():
        patch.setattr(module, label, dataclasses.replace(value, layers=getattr(value, "dense_layers", 0) + 1))
    network = NETWORKS[name]
    settings = {key: size for key, size in SIZES.items() if key in network.settings} | FIXED.get(name, {})
    return network.make(**settings)
