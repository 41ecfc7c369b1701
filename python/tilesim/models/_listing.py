"""The networks as a table: what each is, its size, and what it is built with unless told otherwise."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ..base.table import Table
from ..graph import Graph

__all__ = ["KINDS", "table_of"]

KINDS = {
    "images": ("resnet18", "resnet34", "resnet50", "vgg16", "mobilenet-v2", "vit-b-16"),
    "text, encoder": ("bert-base", "bert-large"),
    "text, decoder": ("gpt2", "llama-3-8b", "llama-3-70b", "mistral-7b", "qwen2.5-1.5b"),
    "text, decoder with experts": ("mixtral-8x7b", "deepseek-moe-16b", "deepseek-v3", "llama-4-scout"),
    "text, state space": ("mamba-2.8b",),
    "image generation": ("stable-diffusion-1.5-unet", "dit-xl-2"),
    "images and text": ("clip-vit-b-32",),
    "recommendation": ("dlrm",),
    "numbers": ("mlp",),
}


@cache
def _row(name: str, make: Callable[..., Graph]) -> dict[str, Any]:
    settings = inspect.signature(make).parameters
    length = next((settings[key].default for key in ("context", "sequence") if key in settings), None)
    graph = make(batch=1)
    sizes: dict[str, int] = {}
    for weight in graph.weights().values():
        dtype = str(weight["dtype"])
        sizes[dtype] = sizes.get(dtype, 0) + math.prod(weight["shape"])
    return {
        "name": name,
        "kind": next((kind for kind, names in KINDS.items() if name in names), ""),
        "parameters": graph.parameters,
        "dtype": max(sizes, key=lambda dtype: sizes[dtype], default=""),
        "batch": 1,
        "context": length,
        "phase": settings["phase"].default or "prefill" if "phase" in settings else "",
    }


def table_of(makers: Mapping[str, Callable[..., Graph]]) -> Table:
    """The table of these networks.

    Args:
        makers: what builds each, by name.

    Returns:
        A row each; built once in a process.
    """
    return Table([dict(_row(name, make)) for name, make in makers.items()])
