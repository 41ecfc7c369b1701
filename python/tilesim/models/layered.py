"""Transformers of equal layers, described by extents instead of a graph, for plans over many devices."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..base.arguments import integer, one_of
from ..base.errors import path_text, placed, shown, unknown, user_error
from ..base.files import Saved, read_json

__all__ = ["ATTENTION", "DTYPES", "PHASES", "Layered"]

SCHEMA, VERSION = "tilesim.workload", 1
ATTENTION = ("flash", "unfused")
PHASES = ("train", "prefill", "decode")
#: `bf16-amp` keeps parameters and sums in f32, and multiplies in bf16.
DTYPES = ("bf16", "f16", "f32", "bf16-amp")
_EXTENTS = ("layers", "hidden", "heads", "vocab", "sequence", "global_batch", "ffn", "kv_heads", "head_size")


def _routing(given: Any, experts: int) -> tuple[int, ...] | int | None:
    """Checks counts per expert or a seed."""
    if given is None:
        return None
    if not experts:
        raise user_error("routing needs a model with experts", place="routing", value=shown(given),
                         suggestion="Set experts and experts_chosen, or leave routing out")  # fmt: skip
    if isinstance(given, int):
        return integer("routing", given, 0, 2**63)
    if isinstance(given, str) or not hasattr(given, "__len__") or len(given) != experts:
        raise user_error("not a list of token counts", place="routing", value=shown(given),
                         allowed=f"{experts} whole numbers, one per expert, or the seed of random choices")  # fmt: skip
    counts = tuple(integer(f"routing[{number}]", one, 0, 2**53) for number, one in enumerate(given))
    if not sum(counts):
        raise user_error("all token counts are 0", place="routing", value=shown(given), allowed="a count above 0")
    return counts


@dataclass(frozen=True)
class Layered(Saved):
    """A transformer of equal layers, one step of it.

    `hidden`, `ffn`: widths in elements. `sequence`: tokens per sequence (decode: in the cache). `global_batch`:
    sequences per step over all devices. `gated`: three products in the feed-forward part instead of two. `experts`:
    experts per layer (0 for a dense model), of which a token takes `experts_chosen`. `attention`: `flash` keeps no
    scores, `unfused` stores them. `tied`: embedding and head share one table. `routing`: tokens per expert as a trace
    counts them, the seed of random choices, or None for an even split. `source`: origin of the batch and the sequence
    length.
    """

    layers: int
    hidden: int
    heads: int
    vocab: int
    sequence: int
    global_batch: int
    ffn: int = 0
    gated: bool = False
    kv_heads: int = 0
    head_size: int = 0
    dtype: str = "bf16"
    attention: str = "flash"
    phase: str = "train"
    experts: int = 0
    experts_chosen: int = 0
    tied: bool = True
    name: str = "transformer"
    routing: tuple[int, ...] | int | None = None
    source: str = ""

    def __post_init__(self) -> None:
        for name in _EXTENTS:
            object.__setattr__(self, name, integer(name, getattr(self, name), 0, 2**40))
        if not self.head_size and self.heads and self.hidden % self.heads:
            raise user_error(
                "the width is not a multiple of the heads, and head_size is missing", place="hidden",
                value=f"{self.hidden}, {self.heads} heads", allowed=f"multiples of {self.heads}, or any with head_size",
            )  # fmt: skip
        defaults = {"ffn": 4 * self.hidden, "kv_heads": self.heads, "head_size": self.hidden // max(1, self.heads)}
        for name, value in defaults.items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)
        for name in _EXTENTS:
            integer(name, getattr(self, name), 1, 2**40)
        if self.heads % self.kv_heads:
            raise user_error(
                "the heads are not a multiple of the key heads", place="kv_heads", value=str(self.kv_heads),
                allowed=f"divisors of {self.heads}",
            )  # fmt: skip
        one_of("unknown dtype", "dtype", self.dtype, *DTYPES)
        one_of("unknown attention", "attention", self.attention, *ATTENTION)
        one_of("unknown phase", "phase", self.phase, *PHASES)
        integer("experts", self.experts, 0, 65536)
        integer("experts_chosen", self.experts_chosen, 1 if self.experts else 0, self.experts)
        object.__setattr__(self, "routing", _routing(self.routing, self.experts))
        if not isinstance(self.source, str):
            raise user_error("the source is not a text", place="source", value=shown(self.source))

    @property
    def setting(self) -> str:
        """Phase, batch and length in words: "training, 1,536 sequences of 2,048 tokens"."""
        phase = "training" if self.phase == "train" else self.phase
        sequences = f"{self.global_batch:,} sequence{'s' if self.global_batch > 1 else ''}"
        return f"{phase}, {sequences} {'at' if self.phase == 'decode' else 'of'} {self.sequence:,} tokens"

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer, all experts, normalizations and biases."""
        width = (self.heads + 2 * self.kv_heads) * self.head_size
        attention = self.hidden * width + self.heads * self.head_size * self.hidden + width + 6 * self.hidden
        one = (3 if self.gated else 2) * self.hidden * self.ffn + self.ffn
        return attention + one * max(1, self.experts) + self.experts * self.hidden

    @property
    def parameters(self) -> int:
        """Parameters of the model."""
        return self.layers * self.layer_parameters + self.vocab * self.hidden * (1 if self.tied else 2)

    @property
    def flops(self) -> float:
        """FLOPs of a step's products without recomputation. Causal attention counts half of its square; without
        gradients only the last token of a sequence has logits."""
        tokens = self.global_batch * (1 if self.phase == "decode" else self.sequence)
        width = (self.heads + 2 * self.kv_heads) * self.head_size + self.heads * self.head_size
        chosen = self.experts_chosen if self.experts else 1
        layer = self.hidden * width + (3 if self.gated else 2) * self.hidden * self.ffn * chosen
        keys = self.sequence if self.phase == "decode" else self.sequence / 2
        attention = 2 * keys * self.heads * self.head_size
        scored = tokens if self.phase == "train" else self.global_batch
        forward = 2.0 * (tokens * self.layers * (layer + attention) + scored * self.vocab * self.hidden)
        return forward * (3 if self.phase == "train" else 1)

    def to_dict(self) -> dict[str, Any]:
        """Converts the fields to the schema `tilesim.workload`.

        Returns:
            A dict for JSON.
        """
        return {"schema": SCHEMA, "version": VERSION, "kind": "transformer", **asdict(self)}

    @staticmethod
    def from_dict(value: Any, place: str = "workload") -> Layered:
        """Reads a workload from its JSON form.

        Args:
            value: the JSON value.
            place: name of the source in error messages.

        Returns:
            The workload.

        Raises:
            UserError: for another schema, an unknown or a missing key.
        """
        known = {field.name: field for field in fields(Layered)}
        if not isinstance(value, dict) or value.get("schema") != SCHEMA:
            raise user_error("not a layered workload", place=place, value=shown(value), allowed=f'"schema": "{SCHEMA}"')
        if value.get("version") != VERSION or value.get("kind", "transformer") != "transformer":
            raise user_error("unsupported kind or version", place=place, allowed=f"transformer, version {VERSION}")
        rest = {key: one for key, one in value.items() if key not in ("schema", "version", "kind")}
        for key in rest:
            if key not in known:
                raise unknown("key", key, known, place=place)
        for key in ("layers", "hidden", "heads", "vocab", "sequence", "global_batch"):
            if key not in rest:
                raise user_error("a key is missing", place=place, value=f"'{key}'")
        with placed(place):
            return Layered(**rest)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Layered:
        """Reads a workload from a file.

        Args:
            path: path of the JSON file.

        Returns:
            The workload.

        Raises:
            UserError: for a file that cannot be read or has another content.
        """
        return Layered.from_dict(read_json(path), path_text(path))
