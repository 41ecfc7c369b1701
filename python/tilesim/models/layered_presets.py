"""Layered training steps by name, with published extents and batch sizes."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ..base.arguments import dtype_name
from ..base.checked import checked
from ..base.errors import nearest, path_text, user_error
from .layered import Layered

__all__ = ["layered", "layered_names"]

_KORTHIKANTI = "Korthikanti et al., Reducing Activation Recomputation, 2022 (arXiv 2205.05198), table 3"
_NARAYANAN = "Narayanan et al., Efficient Large-Scale Language Model Training, SC 2021 (arXiv 2104.04473)"
_SMITH = "Smith et al., Megatron-Turing NLG 530B, 2022 (arXiv 2201.11990): 1,920 once the ramp is over"
_LLAMA3 = "Llama Team, The Llama 3 Herd of Models, 2024 (arXiv 2407.21783), table 4: 16M tokens"
_LLAMA3_SMALL = f"assumption: {_LLAMA3}, for the 405B model; the paper does not state batches of smaller models"


def _megatron(layers: int, hidden: int, heads: int, batch: int, source: str) -> Layered:
    """A Megatron model with extents from arXiv 2205.05198, table 3."""
    return Layered(layers, hidden, heads, 51200, 2048, batch, dtype="f16", attention="unfused", source=source)


def _llama(layers: int, hidden: int, heads: int, ffn: int, source: str) -> Layered:
    """A Llama 3 model with extents from arXiv 2407.21783, table 3."""
    return Layered(layers, hidden, heads, 128256, 8192, 2048, ffn, True, 8, tied=False, source=source)


_PRESETS = {
    "megatron-22b": _megatron(48, 6144, 64, 4, _KORTHIKANTI),
    "gpt3-175b": _megatron(96, 12288, 96, 1536, f"{_NARAYANAN}, section 5.1: 1,024 GPUs"),
    "turing-530b": _megatron(105, 20480, 128, 1920, _SMITH),
    "megatron-1t": _megatron(128, 25600, 160, 3072, f"{_NARAYANAN}, table 1: 3,072 GPUs"),
    "llama-3-8b": _llama(32, 4096, 32, 14336, _LLAMA3_SMALL),
    "llama-3-70b": _llama(80, 8192, 64, 28672, _LLAMA3_SMALL),
    "llama-3-405b": _llama(126, 16384, 128, 53248, _LLAMA3),
}
_CONTEXT = 2048  # default number of tokens of a prompt or cache, as for the networks of `tilesim run`


def layered_names() -> list[str]:
    """Returns the names of the layered workloads."""
    return list(_PRESETS)


@checked()
def layered(
    source: str | os.PathLike[str],
    batch: int | None = None,
    context: int | None = None,
    phase: str | None = None,
    dtype: str | None = None,
) -> Layered:
    """Loads a layered workload by name or from a file, for plans over many devices (`ts.cluster.step`).

    Args:
        source: "gpt3-175b", "llama-3-70b", ... (`layered_names`), or the path of a JSON file.
        batch: sequences per step over all devices; by default the published batch, or 1 without training.
        context: tokens per sequence (decode: in the cache); by default the published length, or 2,048 without training.
        phase: "train", "prefill" or "decode"; by default that of the file, or "train".
        dtype: data type of weights and activations; by default the published one.

    Returns:
        The workload; its `source` cites batch and sequence length, and is empty where you set them.

    Raises:
        UserError: for an unknown name, a number out of range, or a file that cannot be read or has another content.
    """
    found = _loaded(source)
    forward = phase not in (None, found.phase, "train")
    changes: dict[str, Any] = {"phase": phase, "dtype": dtype and dtype_name(dtype)}
    changes |= {
        "global_batch": batch or (1 if forward else None),
        "sequence": context or (_CONTEXT if forward else None),
    }
    asked = {key: value for key, value in changes.items() if value is not None and value != getattr(found, key)}
    return replace(found, **asked, source=found.source if asked.keys() <= {"dtype"} else "")


def _loaded(source: str | os.PathLike[str]) -> Layered:
    text = path_text(source)
    if text in _PRESETS:
        return replace(_PRESETS[text], name=text)
    if not text.endswith(".json") and not os.path.exists(text):
        from .registry import NETWORKS  # slow import

        one_chip = f"{text} is a network of one chip: tilesim run {text}" if text.lower() in NETWORKS else ""
        raise user_error(
            "unknown layered workload", place="workload", value=f"'{text}'",
            allowed=f"{', '.join(_PRESETS)}, or a JSON file", suggestion=one_chip or nearest(text, _PRESETS),
        )  # fmt: skip
    return Layered.load(text)
