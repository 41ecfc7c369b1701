"""Reads models with encoder and decoder (T5, Whisper): both together, or one decoder step."""

from __future__ import annotations

from typing import Any

import torch
from transformers import cache_utils

from ..base.errors import unsupported
from ..graph import Graph
from .slots import Slot, empty, results_of, slots
from .torch.frontend import export, read

__all__ = ["has_both", "prefill", "step"]

PARTS = ("keys", "values")


def has_both(model: Any) -> bool:
    """Whether a model of transformers has an encoder and a decoder."""
    return bool(getattr(model.config, "is_encoder_decoder", False))


class _EncoderDecoder(torch.nn.Module):
    """Encoder and decoder as one module whose results have flat names."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, **given: Any) -> dict[str, Any]:
        """Returns the decoder's result, its keys and values, and the encoder's keys and values."""
        found = self.model(**given, use_cache=True)
        results = dict([_answer(found)])
        cache = found.past_key_values
        for kind, layers in (("cache", cache.self_attention_cache), ("source", cache.cross_attention_cache)):
            for i, layer in enumerate(layers.layers):
                results |= {f"{kind}.{i}.{part}": getattr(layer, part) for part in PARTS}
        return results


def _answer(found: Any) -> tuple[str, Any]:
    """Returns name and tensor of the logits; for a model without a head, of the last hidden state."""
    name = "logits" if "logits" in found else "last_hidden_state"
    return name, found[name]


class _DecoderStep(torch.nn.Module):
    """One token of the decoder: earlier tokens are in a static cache, the source's keys and values are arguments."""

    def __init__(self, model: Any, shapes: list[tuple[Any, Any]], length: int, filled: int, mode: Any) -> None:
        super().__init__()
        self.model, self.length, self.filled = model, length, filled
        self.past = slots(shapes, mode)

    def forward(self, decoder_input_ids: Any, source: Any) -> Any:
        """The decoder's result for the token."""
        own = cache_utils.Cache(layers=[Slot(one.keys, one.values, self.filled) for one in self.past])
        across = cache_utils.Cache(layers=[Slot(one["keys"], one["values"], self.length) for one in source])
        both = cache_utils.EncoderDecoderCache(own, across)
        config, keys = self.model.config, source[0]["keys"]
        # The decoder reads only the length of the encoder's result; the cache holds its keys and values.
        seen = keys.new_zeros((keys.shape[0], self.length, config.get_text_config().hidden_size))
        given = {"encoder_outputs": (seen,), "decoder_input_ids": decoder_input_ids}
        return _answer(self.model(**given, past_key_values=both, use_cache=True))[1]


def _exported(model: Any, main: str, source: Any, prompt: Any) -> tuple[Any, dict[str, Any]]:
    """Exports encoder and decoder; returns the program and its results by name, without elements."""
    try:
        program = export(_EncoderDecoder(model), (), {main: source, "decoder_input_ids": prompt})
        found = results_of(program)
    except Exception as error:  # unexpected arguments, caches and results raise many error types
        what = "cannot export encoder and decoder of this model together"
        remedy = "Read a part: ts.from_torch(model.get_encoder(), kwargs={...})"
        raise unsupported(what, place=type(model).__name__, suggestion=remedy) from error
    return program, found


def prefill(model: Any, main: str, source: Any, prompt: Any) -> tuple[Graph, int]:
    """Reads the encoder over its source and the decoder over its prompt."""
    program, found = _exported(model, main, source, prompt)
    graph = read(program, str(model.config.model_type), results=list(found))[0]
    return graph, int(found["source.0.keys"].shape[2])


def step(model: Any, main: str, source: Any, context: int, mode: Any) -> tuple[Graph, int]:
    """Reads the graph of decoding token number `context`; earlier tokens and the source are in the cache."""
    batch = int(source.shape[0])
    _, found = _exported(model, main, source, torch.zeros((batch, 2), dtype=torch.int64))
    layers = range(sum(name.startswith("cache.") for name in found) // 2)

    def of(kind: str, i: int) -> list[tuple[tuple[int, ...], Any]]:
        tensors = [found[f"{kind}.{i}.{part}"] for part in PARTS]
        return [(tuple(map(int, one.shape)), one.dtype) for one in tensors]

    shapes: list[Any] = [
        tuple(((*shape[:2], context, shape[3]), dtype) for shape, dtype in of("cache", i)) for i in layers
    ]
    length = int(found["source.0.keys"].shape[2])
    given = [
        {part: empty(shape, dtype, mode) for part, (shape, dtype) in zip(PARTS, of("source", i), strict=True)}
        for i in layers
    ]
    one = _DecoderStep(model, shapes, length, context - 1, mode)
    program = export(one, (torch.zeros((batch, 1), dtype=torch.int64), given))
    return read(program, str(model.config.model_type), results=[next(iter(found))])[0], length
