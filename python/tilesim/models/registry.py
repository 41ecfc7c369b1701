"""Lists the networks, one row each; names, the table, `tilesim.models` and completion follow from these rows."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from ..graph import Graph

__all__ = ["NETWORKS", "Network", "row_of"]


class Network(NamedTuple):
    """A model: the module and name of its function, its kind in the table, and aliases."""

    function: str
    kind: str
    aliases: tuple[str, ...] = ()

    @property
    def make(self) -> Callable[..., Graph]:
        """The function that builds the network."""
        module, _, name = self.function.partition(".")
        made: Callable[..., Graph] = getattr(importlib.import_module(f"..{module}", __name__), name)
        return made

    @property
    def settings(self) -> Mapping[str, inspect.Parameter]:
        """The arguments of the function."""
        return inspect.signature(self.make).parameters


NETWORKS: dict[str, Network] = {
    "resnet18": Network("resnet.resnet18", "images", ("resnet-18",)),
    "resnet34": Network("resnet.resnet34", "images", ("resnet-34",)),
    "resnet50": Network("resnet.resnet50", "images", ("resnet-50",)),
    "vgg16": Network("vision.vgg16", "images", ("vgg-16",)),
    "mobilenet-v2": Network("vision.mobilenet_v2", "images", ("mobilenet_v2", "mobilenetv2")),
    "bert-base": Network("transformer.bert_base", "text, encoder", ("bert", "bert_base")),
    "bert-large": Network("transformer.bert_large", "text, encoder", ("bert_large",)),
    "gpt2": Network("transformer.gpt2", "text, decoder", ("gpt-2",)),
    "vit-b-16": Network("vit.vit_b_16", "images", ("vit", "vit_b_16", "vit-b/16")),
    "mlp": Network("perceptron.mlp", "numbers"),
    "llama-3-8b": Network("decoder.llama_3_8b", "text, decoder", ("llama3-8b", "llama_3_8b")),
    "llama-3-70b": Network("decoder.llama_3_70b", "text, decoder", ("llama3-70b", "llama_3_70b")),
    "mistral-7b": Network("decoder.mistral_7b", "text, decoder", ("mistral", "mistral_7b")),
    "qwen2.5-1.5b": Network("decoder.qwen2_5_1_5b", "text, decoder", ("qwen2_5_1_5b", "qwen")),
    "mixtral-8x7b": Network("decoder.mixtral_8x7b", "text, decoder with experts", ("mixtral", "mixtral_8x7b")),
    "deepseek-moe-16b": Network(
        "decoder.deepseek_moe_16b", "text, decoder with experts", ("deepseek-v1", "deepseek_moe_16b")
    ),
    "deepseek-v3": Network("deepseek.deepseek_v3", "text, decoder with experts", ("deepseek_v3",)),
    "llama-4-scout": Network("llama4.llama_4_scout", "text, decoder with experts", ("llama4-scout", "llama_4_scout")),
    "mamba-2.8b": Network("mamba.mamba_2_8b", "text, state space", ("mamba", "mamba_2_8b")),
    "stable-diffusion-1.5-unet": Network(
        "unet.stable_diffusion_1_5_unet", "image generation", ("sd-1.5-unet", "stable_diffusion_1_5_unet")
    ),
    "clip-vit-b-32": Network("clip.clip_vit_b_32", "images and text", ("clip", "clip_vit_b_32")),
    "dit-xl-2": Network("dit.dit_xl_2", "image generation", ("dit", "dit_xl_2", "dit-xl/2")),
    "dlrm": Network("dlrm.dlrm_mlperf", "recommendation", ("dlrm_mlperf", "dlrm-mlperf")),
}


@cache
def row_of(name: str) -> dict[str, Any]:
    """Returns the row of a model in the table; caches it."""
    network = NETWORKS[name]
    settings = network.settings
    graph = network.make(batch=1)
    sizes: dict[str, int] = {}
    for weight in graph.weights().values():
        dtype = str(weight["dtype"])
        sizes[dtype] = sizes.get(dtype, 0) + math.prod(weight["shape"])
    return {
        "name": name,
        "kind": network.kind,
        "parameters": graph.parameters,
        "dtype": max(sizes, key=lambda dtype: sizes[dtype], default=""),
        "batch": 1,
        "context": next((settings[key].default for key in ("context", "sequence") if key in settings), None),
        "phase": settings["phase"].default or "prefill" if "phase" in settings else "",
    }
