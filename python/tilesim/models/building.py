"""Networks by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..base.arguments import dtype_name, whole
from ..base.checked import checked
from ..base.errors import UserError, nearest, shown, user_error
from ..base.table import Table
from ..graph import Graph
from ..machine.target import sort_of
from ._listing import table_of
from .clip import clip_vit_b_32
from .decoder import deepseek_moe_16b, llama_3_8b, llama_3_70b, mistral_7b, mixtral_8x7b, qwen2_5_1_5b
from .deepseek import deepseek_v3
from .dit import dit_xl_2
from .dlrm import dlrm_mlperf
from .llama4 import llama_4_scout
from .mamba import mamba_2_8b
from .perceptron import mlp
from .resnet import resnet18, resnet34, resnet50
from .transformer import bert_base, bert_large, gpt2
from .unet import stable_diffusion_1_5_unet
from .vision import mobilenet_v2, vgg16
from .vit import vit_b_16

__all__ = ["build", "names", "table"]


@dataclass(frozen=True)
class _Entry:
    make: Callable[..., Graph]
    aliases: tuple[str, ...] = ()

    def takes(self, setting: str) -> bool:
        return setting in inspect.signature(self.make).parameters


_MODELS = {
    "resnet18": _Entry(resnet18, ("resnet-18",)),
    "resnet34": _Entry(resnet34, ("resnet-34",)),
    "resnet50": _Entry(resnet50, ("resnet-50",)),
    "vgg16": _Entry(vgg16, ("vgg-16",)),
    "mobilenet-v2": _Entry(mobilenet_v2, ("mobilenet_v2", "mobilenetv2")),
    "bert-base": _Entry(bert_base, ("bert", "bert_base")),
    "bert-large": _Entry(bert_large, ("bert_large",)),
    "gpt2": _Entry(gpt2, ("gpt-2",)),
    "vit-b-16": _Entry(vit_b_16, ("vit", "vit_b_16", "vit-b/16")),
    "mlp": _Entry(mlp),
    "llama-3-8b": _Entry(llama_3_8b, ("llama3-8b", "llama_3_8b")),
    "llama-3-70b": _Entry(llama_3_70b, ("llama3-70b", "llama_3_70b")),
    "mistral-7b": _Entry(mistral_7b, ("mistral", "mistral_7b")),
    "qwen2.5-1.5b": _Entry(qwen2_5_1_5b, ("qwen2_5_1_5b", "qwen")),
    "mixtral-8x7b": _Entry(mixtral_8x7b, ("mixtral", "mixtral_8x7b")),
    "deepseek-moe-16b": _Entry(deepseek_moe_16b, ("deepseek-v1", "deepseek_moe_16b")),
    "deepseek-v3": _Entry(deepseek_v3, ("deepseek_v3",)),
    "llama-4-scout": _Entry(llama_4_scout, ("llama4-scout", "llama_4_scout")),
    "mamba-2.8b": _Entry(mamba_2_8b, ("mamba", "mamba_2_8b")),
    "stable-diffusion-1.5-unet": _Entry(stable_diffusion_1_5_unet, ("sd-1.5-unet", "stable_diffusion_1_5_unet")),
    "clip-vit-b-32": _Entry(clip_vit_b_32, ("clip", "clip_vit_b_32")),
    "dit-xl-2": _Entry(dit_xl_2, ("dit", "dit_xl_2", "dit-xl/2")),
    "dlrm": _Entry(dlrm_mlperf, ("dlrm_mlperf", "dlrm-mlperf")),
}


@checked()
def names() -> list[str]:
    """The networks that `build` knows.

    Returns:
        Their names.
    """
    return list(_MODELS)


@checked()
def table() -> Table:
    """The networks that `build` knows, with their sizes and what they are built with unless told otherwise.

    Returns:
        Rows with name, kind, parameters, dtype (of most weights), batch, context (tokens; None: reads none), phase
        ("": has none).
    """
    return table_of({name: entry.make for name, entry in _MODELS.items()})


@checked()
def build(
    name: str,
    batch: int = 1,
    sequence: int | None = None,
    dtype: str | None = None,
    context: int | None = None,
    phase: str | None = None,
) -> Graph:
    """A network by name.

    Args:
        name: one of `names()`.
        batch: number of images or sequences.
        sequence: length in tokens, for networks that read text; the network's own default if none is given.
        dtype: of weights and activations; the network's own default (that of the published weights) if none is given.
        context: another word for sequence; in phase decode, the tokens that the last one attends to.
        phase: "prefill" or "decode", for networks that write text.

    Returns:
        Its graph.

    Raises:
        UserError: for an unknown name, a batch, sequence or phase that the network does not take, or an unknown dtype.
    """
    name, batch = str(name), whole("batch", batch, 1)
    small = name.lower()
    found = _MODELS.get(small) or next((entry for entry in _MODELS.values() if small in entry.aliases), None)
    if found is None:
        remedy = nearest(small, _MODELS)
        if not remedy and (sort := sort_of(small)):
            remedy = f"{name} is a {sort}: give it as machine, on the command line as --machine {name}"
        raise user_error("unknown model", value=f"'{name}'", allowed=", ".join(_MODELS), suggestion=remedy)
    place = f"model '{name}'"
    settings: dict[str, Any] = {"batch": batch}
    if dtype is not None:
        settings["dtype"] = dtype
    length = context if sequence is None else sequence
    if length is not None:
        length = whole("context" if sequence is None else "sequence", length, 1)
        key = next((key for key in ("context", "sequence") if found.takes(key)), None)
        if key is None:
            raise user_error("this model reads no sequence", place=place, value=f"sequence {length}")
        settings[key] = length
    if phase is not None:
        if not found.takes("phase"):
            writers = ", ".join(key for key, entry in _MODELS.items() if entry.takes("phase"))
            raise user_error("this model writes no text and has no phases", place=place, value=f"phase {phase}",
                             allowed=f"none; a phase of {writers}")  # fmt: skip
        settings["phase"] = phase
    try:
        return found.make(**settings)
    except UserError as error:
        raise _of_floats(error, settings.get("dtype")) from None


def _of_floats(error: Exception, dtype: Any) -> Exception:
    """A network that computes with floats alone, asked for in integers."""
    if dtype is None or not dtype_name(dtype).startswith(("i", "u")):
        return error
    remedy = "Its products in integers: ts.run(..., quantize='i8'), ts.quantize(graph, 'i8'), tilesim run --quantize i8"
    what = "this network computes with floats"
    return user_error(what, place="dtype", value=shown(dtype), allowed="f32, bf16, f16, f64", suggestion=remedy)
