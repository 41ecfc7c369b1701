"""Entry points of the PyTorch front end; they import torch at the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.arguments import integer
from ...base.checked import checked
from ...base.extras import need
from ...graph import Graph

__all__ = ["from_torch", "from_transformers", "is_module", "is_pretrained"]


def is_module(value: Any) -> bool:
    """Whether a value is a torch.nn.Module; does not import torch."""
    return any(base.__module__ == "torch.nn.modules.module" for base in type(value).__mro__)


@checked()
def from_torch(
    module: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    name: str = "",
    strict: bool = False,
    functions: bool = True,
    passes: str | Sequence[str] | None = None,
    fixed: Mapping[str, Any] | Sequence[str] = (),
    shardings: Mapping[str, str] | None = None,
    mesh: Mapping[str, int] | str | None = None,
) -> Graph:
    """Reads a PyTorch module by torch.export.

    Reading evaluates values that depend on no input (masks, positions, rotary tables). Parameters become
    weights that share the module's memory; meta and fake parameters suffice for timing (integer and bool buffers are
    0). A buffer that the module changes becomes an input whose new value is an output (an alias); its current value is
    the input's default.

    Args:
        module: a torch.nn.Module in train or eval mode, or a torch.export.ExportedProgram, which needs no arguments.
        args: positional arguments: example tensors that set shapes and dtypes.
        kwargs: keyword arguments.
        name: name of the graph; by default the module's class.
        strict: whether torch.export traces Python bytecode, which some static caches need.
        functions: whether repeated layers become one function of the graph, called once per layer.
        passes: names of the pattern recognition passes to run, as for `tilesim.optimize`; "none" for none.
        fixed: tensor arguments and changed buffers that become constants of the graph: name patterns, or a mapping
            from them to values (by default the arguments' values). With a fixed position in a static cache, attention
            reads only the filled part.
        shardings: sharding over the mesh by input name, as {"x": '[{"d"}, {}]'}: see `Graph.annotate`.
        mesh: sizes of the device mesh axes, as {"d": 4}.

    Returns:
        The graph, with one input per tensor argument.

    Raises:
        UserError: where torch is missing, or for another type of module.
        Unsupported: for an unsupported ATen overload, which the message names with its line in your code.
    """
    need("torch", "torch")
    from .frontend import from_torch as build

    graph = build(module, args, kwargs, name=name, strict=strict, functions=functions, passes=passes, fixed=fixed)
    if shardings or mesh:
        graph.annotate(shardings, mesh)
    return graph


def is_pretrained(value: Any) -> bool:
    """Whether a value is a model or configuration of transformers; does not import transformers."""
    names = {f"{base.__module__.partition('.')[0]}.{base.__name__}" for base in type(value).__mro__}
    return not names.isdisjoint(
        ("transformers.PreTrainedModel", "transformers.PretrainedConfig", "transformers.PreTrainedConfig")
    )


@checked("model")
def from_transformers(
    model: Any,
    phase: str = "prefill",
    context: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    image: int | None = None,
) -> Graph:
    """Reads a Hugging Face transformers model from its configuration or the model itself.

    In phase prefill, a text generation model reads `context` tokens, and returns the logits of each and the keys and
    values of all layers (cache.0.keys, ...). In phase decode, it reads token number `context` with a static cache of
    that length, which holds the earlier tokens: past.0.keys, ... are inputs, updated in place. Other text models read
    `context` tokens, image models one image of the configured size. Tilesim downloads nothing. A model built from a
    configuration has random weights, created when something reads them.

    A model with an encoder and a decoder (T5, Whisper) gives one graph. In phase prefill, the encoder reads the
    source: `context` tokens of text, or audio (or an image) of the model's full length. The decoder reads one
    token for text, else a prompt of `context` tokens. In phase decode, the decoder reads token number `context`;
    keys and values of the source are also inputs (source_0_keys, ...), and the source is as long as in prefill.

    Args:
        model: a transformers.PretrainedConfig; a model, which keeps its weights; a model type ("gpt2", "llama", ...:
            its default configuration); or the path of a config.json or of its folder.
        phase: "prefill" or "decode".
        context: number of tokens, at least 1; 200 by default. Only for models that read tokens.
        batch: number of texts, sounds or images.
        dtype: data type of weights, activations and cache; by default the configuration's, else f32.
        image: height and width in elements; by default the configuration's. Only for models that read images.

    Returns:
        The graph. Its `assumptions` name the class, dtype and phase.

    Raises:
        UserError: where torch or transformers is missing, for an unknown type or phase, more tokens than positions, a
            file that is not a configuration.
        Unsupported: for a model that torch.export cannot read, or that does not cache keys and values (decode).
    """
    need("torch", "torch")
    need("transformers", "torch")
    from ..pretrained import from_transformers as build

    context = None if context is None else integer("context", context, 1)
    batch = integer("batch", batch, 1)
    image = None if image is None else integer("image", image, 1)
    return build(model, phase, context, batch, dtype, image)
