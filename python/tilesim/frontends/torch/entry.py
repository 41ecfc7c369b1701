"""Where users enter the PyTorch front end; torch is imported here at the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...base.arguments import whole
from ...base.checked import checked
from ...base.extras import need
from ...graph import Graph

__all__ = ["from_torch", "from_transformers", "is_module", "is_pretrained"]


def is_module(value: Any) -> bool:
    """Whether a value is a torch.nn.Module, found out without importing torch."""
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
    """A graph of a PyTorch module, by torch.export.

    What depends on no input (masks, positions, rotary tables) is evaluated while reading. Parameters become weights in
    the module's own memory; meta and fake ones serve for timing (integer and bool buffers count as 0). A buffer that
    the module changes becomes an input whose new value is an output (an alias); its present value is the default.

    Args:
        module: a torch.nn.Module, in the mode (train or eval) that is meant; or a torch.export.ExportedProgram, which
            needs no arguments.
        args: positional arguments: tensors of the shapes and dtypes to import for.
        kwargs: keyword arguments.
        name: of the graph; the module's class by default.
        strict: let torch.export trace the Python bytecode; some static caches need it.
        functions: whether layers that repeat become one function of the graph, called once per layer.
        passes: what is recognised in operations that are spelled out, as `tilesim.optimize`; "none" for nothing.
        fixed: tensor arguments, and buffers that the module changes, that are constants of the graph: patterns of
            names, or a mapping to their values (by default those given). With the position in a static cache fixed
            its mask is known, and attention reads the filled part alone.
        shardings: by name of an input how it is divided over the mesh, as {"x": '[{"d"}, {}]'}: see `Graph.annotate`.
        mesh: axes of the mesh of devices with their sizes, as {"d": 4}.

    Returns:
        The graph, with one input per tensor argument.

    Raises:
        UserError: when torch is missing, or the module is none.
        Unsupported: naming the ATen overload and its place in the user's code.
    """
    need("torch", "torch")
    from .frontend import from_torch as build

    graph = build(module, args, kwargs, name=name, strict=strict, functions=functions, passes=passes, fixed=fixed)
    if shardings or mesh:
        graph.annotate(shardings, mesh)
    return graph


def is_pretrained(value: Any) -> bool:
    """Whether a value is a model or configuration of transformers, found out without importing that."""
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
    """A graph of a model of Hugging Face's transformers, from its configuration or the model itself.

    A model that writes text reads `context` tokens in phase prefill, and gives the logits of each and the keys and
    values of all layers (cache.0.keys, ...). In phase decode it reads token number `context` against a static cache of
    that length, which holds the earlier ones: past.0.keys, ... are inputs, updated in place. A model that reads text
    reads `context` tokens; one that reads images, images of its own size. Nothing is fetched from the hub. Of a
    configuration no weight is held: they are random, made when something reads them.

    A model with an encoder and a decoder (T5, Whisper) is read whole. In phase prefill its encoder reads the source and
    its decoder what it begins with: of a text `context` tokens, and one; of a sound (or image) all that the model has
    positions for, and a prompt of `context` tokens. In phase decode the decoder reads token number `context` of its
    own; keys and values of the source are inputs too (source_0_keys, ...), and the source is as long as in prefill.

    Args:
        model: a transformers.PretrainedConfig; a model, which keeps its weights; a model type ("gpt2", "llama", ...:
            its default configuration); or the path of a config.json, or of a folder that holds one.
        phase: "prefill" or "decode".
        context: tokens, at least 1; none: 200. Not for a model that reads no tokens.
        batch: texts, sounds or images.
        dtype: of weights, activations and cache; none: the configuration's, f32 where it has none.
        image: height and width in elements; none: the configuration's. Not for a model that reads no images.

    Returns:
        The graph. Its `assumptions` name the class, dtype and phase.

    Raises:
        UserError: when torch or transformers is missing, for an unknown type or phase, more tokens than positions, a
            file that is no configuration.
        Unsupported: for a model that torch.export cannot read, or whose state is no cache of keys and values (decode).
    """
    need("torch", "torch")
    need("transformers", "torch")
    from ..pretrained import from_transformers as build

    context = None if context is None else whole("context", context, 1)
    batch = whole("batch", batch, 1)
    image = None if image is None else whole("image", image, 1)
    return build(model, phase, context, batch, dtype, image)
