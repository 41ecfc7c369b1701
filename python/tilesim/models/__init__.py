"""Networks with their published shapes and parameter counts, and random weights.

Weights carry the names of the usual PyTorch implementation (torchvision, Hugging Face), so that a trained state can be
loaded by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .._errors import nearest, user_error
from ..graph import Graph
from .mlp import mlp
from .resnet import resnet18, resnet50
from .transformer import bert_base, bert_large, gpt2
from .vit import vit_b_16

__all__ = ["bert_base", "bert_large", "build", "gpt2", "mlp", "names", "resnet18", "resnet50", "vit_b_16"]


@dataclass(frozen=True)
class _Entry:
    make: Callable[..., Graph]
    takes_sequence: bool
    aliases: tuple[str, ...] = ()


_MODELS = {
    "resnet18": _Entry(resnet18, False, ("resnet-18",)),
    "resnet50": _Entry(resnet50, False, ("resnet-50",)),
    "bert-base": _Entry(bert_base, True, ("bert", "bert_base")),
    "bert-large": _Entry(bert_large, True, ("bert_large",)),
    "gpt2": _Entry(gpt2, True, ("gpt-2",)),
    "vit-b-16": _Entry(vit_b_16, False, ("vit", "vit_b_16", "vit-b/16")),
    "mlp": _Entry(mlp, False),
}


def names() -> list[str]:
    """The networks that `build` knows.

    Returns:
        Their names.
    """
    return list(_MODELS)


def build(name: str, batch: int = 1, sequence: int | None = None, dtype: str = "f32") -> Graph:
    """A network by name.

    Args:
        name: one of `names()`.
        batch: number of images or sequences.
        sequence: length in tokens, for networks that read text; the network's own default if none is given.
        dtype: of weights and activations.

    Returns:
        Its graph.

    Raises:
        UserError: for an unknown name, a batch or sequence that the network does not take, or an unknown dtype.
    """
    found = _MODELS.get(name) or next((entry for entry in _MODELS.values() if name.lower() in entry.aliases), None)
    if found is None:
        raise user_error(
            "unknown model", value=f"'{name}'", allowed=", ".join(_MODELS), suggestion=nearest(name, _MODELS)
        )
    if batch < 1:
        raise user_error("the batch must be positive", place=f"model '{name}'", value=str(batch), allowed="at least 1")
    if sequence is None:
        return found.make(batch=batch, dtype=dtype)
    if not found.takes_sequence:
        raise user_error("this model reads no sequence", place=f"model '{name}'", value=f"sequence {sequence}")
    return found.make(batch=batch, sequence=sequence, dtype=dtype)
