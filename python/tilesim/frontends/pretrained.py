"""Reads models of Hugging Face's transformers from their configuration, in prefill or decode."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from transformers import cache_utils, initialization

from ..base.arguments import dtype_name, one_of
from ..base.dtypes import FLOATS
from ..base.errors import Unsupported, nearest, path_text, unsupported, user_error
from ..graph import Graph
from . import sequences
from .slots import Slot, leaves_of, results_of, slots
from .torch.frontend import export, read

TORCH = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}
TOKENS = 200
"""Default number of tokens."""
ACCEPTED = (
    "a PretrainedConfig, a model, a model type as 'llama', the path of a folder with config.json, or of that file"
)


def from_transformers(
    model: Any,
    phase: str = "prefill",
    context: int | None = None,
    batch: int = 1,
    dtype: str | None = None,
    image: int | None = None,
) -> Graph:
    """See `tilesim.from_transformers`."""
    one_of("unknown phase", "phase", phase, "prefill", "decode")
    mode = None
    if not isinstance(model, torch.nn.Module):
        config = configuration(model)
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        model = _built_model(config, dtype, mode)
    elif dtype is not None and TORCH[_float(dtype)] != _dtype_of(model):
        raise user_error("the model has another dtype", place="dtype", value=dtype,
                         allowed=str(_dtype_of(model)).removeprefix("torch."),
                         suggestion="Convert it with model.to(...), or give its configuration")  # fmt: skip
    if not isinstance(model, transformers.PreTrainedModel):
        remedy = "ts.from_torch(module, args) reads any other module"
        raise user_error("not a transformers model", value=type(model).__name__, suggestion=remedy)
    _check_sizes(model, context, image)
    context = TOKENS if context is None else context
    training = model.training
    model.eval()
    try:
        if sequences.has_both(model):
            graph = _encoder_decoder(model, phase, context, batch, image, mode)
        else:
            graph = _decoded(model, context, batch, mode) if phase == "decode" else _read(model, context, batch, image)
    finally:
        model.train(training)
    return graph


def _check_sizes(model: Any, context: int | None, image: int | None) -> None:
    """Raises an error for sizes that the model does not use."""
    kind, reads = model.config.model_type, model.main_input_name
    if context is not None and reads != "input_ids" and not sequences.has_both(model):
        raise user_error(f"{kind} reads no tokens", place="context", value=str(context), suggestion="Leave it out")
    if image is not None and reads != "pixel_values" and not _is_contrastive(model):
        raise user_error(f"{kind} reads no images", place="image", value=str(image), suggestion="Leave it out")


def _float(dtype: str) -> str:
    name = dtype_name(dtype)
    if name not in TORCH:
        allowed = ", ".join(TORCH)
        raise user_error("the dtype of a model is a floating-point type", place="dtype", value=name, allowed=allowed)
    assert name in FLOATS
    return name


def _dtype_of(model: Any) -> Any:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def configuration(model: Any) -> Any:
    """Loads the configuration of a model."""
    if isinstance(model, transformers.PretrainedConfig):
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise user_error("not a transformers model", value=type(model).__name__, allowed=ACCEPTED)
    name = path_text(model, "model")
    if os.path.exists(name):
        folder = name if os.path.isdir(name) else os.path.dirname(name) or "."
        if os.path.isdir(name) and not os.path.isfile(os.path.join(name, "config.json")):
            raise user_error("the folder has no config.json", place=name)
        try:
            return transformers.AutoConfig.from_pretrained(folder if os.path.isdir(name) else name)
        except Exception as error:  # transformers raises many error types for damaged files or unknown models
            raise user_error("not a transformers configuration", place=name, value=_first_line(error)) from error
    known = list(transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES)
    if name not in known:
        near = nearest(name, known)
        remedy = near or "Tilesim does not download models: give a folder with the model's config.json"
        raise user_error(
            "unknown model type", value=f"'{name}'", allowed="gpt2, llama, mistral, ...", suggestion=remedy
        )
    return transformers.AutoConfig.for_model(name)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _class_of(config: Any) -> Any:
    """The model class that the configuration names, or the usual class of its type."""
    for name in getattr(config, "architectures", None) or []:
        if isinstance(found := getattr(transformers, name, None), type):
            return found
    auto, names = transformers, transformers.models.auto.modeling_auto
    kind = str(config.model_type)
    encoder = getattr(config, "is_encoder_decoder", False)
    masked = kind in names.MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if kind in names.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not encoder and not masked:
        return auto.AutoModelForCausalLM
    if encoder and kind in names.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return auto.AutoModelForSeq2SeqLM
    if encoder and kind in names.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES:
        return auto.AutoModelForSpeechSeq2Seq
    return auto.AutoModel


@contextmanager
def _without_elements(mode: Any) -> Iterator[None]:
    """In this block, parameters get shape and dtype but no elements; buffers such as rotary frequencies keep theirs."""
    own = torch.nn.Module.register_parameter

    def register(self: Any, name: str, param: Any) -> None:
        own(self, name, param)
        if param is not None and not isinstance(param, FakeTensor):
            fake = mode.from_tensor(self._parameters[name].detach())
            self._parameters[name] = torch.nn.Parameter(fake, requires_grad=False)

    torch.nn.Module.register_parameter = register
    try:
        with initialization.no_init_weights():
            yield
    finally:
        torch.nn.Module.register_parameter = own


def _built_model(config: Any, dtype: str | None, mode: Any) -> Any:
    own = getattr(config, "dtype", None) or torch.float32
    own = getattr(torch, own, torch.float32) if isinstance(own, str) else own
    wanted = TORCH[_float(dtype)] if dtype is not None else own
    made = _class_of(config)
    try:
        with _without_elements(mode):
            automatic = made.__name__.startswith("Auto")
            model = (made.from_config if automatic else made._from_config)(config, dtype=wanted)
        model.tie_weights()
        return model
    except Exception as error:  # errors of many types occur
        raise user_error("transformers cannot build this model", value=config.model_type,
                         suggestion=f"It raised: {_first_line(error)}") from error  # fmt: skip


def _token_ids(model: Any, context: int, batch: int) -> Any:
    config = model.config.get_text_config(decoder=sequences.has_both(model))
    limit = getattr(config, "max_target_positions", None) or getattr(config, "max_position_embeddings", None)
    if isinstance(limit, int) and 0 < limit < context:
        raise user_error("the context exceeds the model's positions", place="context", value=str(context),
                         allowed=f"1 to {limit}")  # fmt: skip
    return torch.zeros((batch, context), dtype=torch.int64)


def _vision(model: Any, batch: int, image: int | None) -> Any:
    config = getattr(model.config, "vision_config", model.config)
    size: Any = image or getattr(config, "image_size", 224)
    high, wide = (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))
    return torch.zeros((batch, getattr(config, "num_channels", 3), high, wide), dtype=_dtype_of(model))


def _source(model: Any, context: int, batch: int, image: int | None) -> dict[str, Any]:
    """Returns the input of one pass: tokens, an image, or audio of the encoder's full length."""
    main, config = model.main_input_name, model.config
    if main == "pixel_values":
        return {main: _vision(model, batch, image)}
    if main == "input_features":
        steps = 2 * getattr(config, "max_source_positions", context // 2 or 1)
        return {main: torch.zeros((batch, config.num_mel_bins, steps), dtype=_dtype_of(model))}
    if main == "input_ids":
        return {main: _token_ids(model, context, batch)}
    raise unsupported(f"a model with the main input '{main}'", place=type(model).__name__,
                      suggestion="Take ts.from_torch(model, kwargs={...})")  # fmt: skip


def _read(model: Any, context: int, batch: int, image: int | None) -> Graph:
    """Reads the graph for all tokens, or for the image."""
    kwargs = _source(model, context, batch, image)
    text = "input_ids" in kwargs
    if text and _is_contrastive(model):
        kwargs["pixel_values"] = _vision(model, batch, image)
    elif text and _writes(model):
        kwargs["use_cache"] = True
    what = f"prefill of {context:,}" if text else "one pass"
    if kwargs.get("use_cache"):
        try:
            return _described(_named(model, kwargs), model, batch, what)
        except Unsupported:  # the layers have another type of state
            kwargs["use_cache"] = False
            what += " without its final state"
    return _described(_named(model, kwargs), model, batch, what)


def _encoder_decoder(model: Any, phase: str, context: int, batch: int, image: int | None, mode: Any) -> Graph:
    """Reads encoder and decoder, or one step of the decoder."""
    (main, source), *_ = _source(model, context, batch, image).items()
    first = 1 if main == "input_ids" else context  # decoder tokens: one start token, or a prompt for audio and images
    if phase == "decode":
        _token_ids(model, context, batch)
        graph, length = sequences.step(model, main, source, context, mode)
        return _described(graph, model, batch, f"decode at {context:,}, source of {length:,}")
    prompt = _token_ids(model, first, batch)
    graph, length = sequences.prefill(model, main, source, prompt)
    return _described(graph, model, batch, f"prefill: encoder of {length:,}, decoder of {first:,}")


def _named(model: Any, kwargs: dict[str, Any]) -> Graph:
    """Reads a module's graph, with outputs named as in the model's result."""
    program = export(model, (), kwargs)
    leaves, count = leaves_of(program), program.call_spec.out_spec.num_leaves
    # A cache may reorder its tensors; small tensors, each with a distinct number, reveal the new positions.
    marks = [torch.full([1] * getattr(leaf, "ndim", 0), float(i)) for i, leaf in enumerate(leaves)]
    found = torch.utils._pytree.tree_unflatten(marks, program.call_spec.out_spec)
    names = {int(value.flatten()[0]): name for name, value in _results(found)}
    results = [names.get(i, f"result.{i}") for i in range(count)]
    return read(program, str(model.config.model_type), results=results)[0]


def _results(found: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields tensors by name from nested dictionaries, lists and caches."""
    if isinstance(found, torch.Tensor):
        yield prefix or "result", found
    elif isinstance(found, cache_utils.Cache):
        for i, layer in enumerate(found.layers):
            for part in ("keys", "values"):
                if isinstance(getattr(layer, part, None), torch.Tensor):
                    yield f"cache.{i}.{part}", getattr(layer, part)
    elif isinstance(found, (dict, list, tuple)):
        pairs = found.items() if isinstance(found, dict) else enumerate(found)
        for key, value in pairs:
            yield from _results(value, f"{prefix}.{key}" if prefix else str(key))


def _is_contrastive(model: Any) -> bool:
    """Whether a model compares images with texts."""
    return hasattr(model.config, "vision_config") and hasattr(model.config, "text_config") and not _writes(model)


def _writes(model: Any) -> bool:
    """Whether a model generates text, which implies a key-value cache."""
    return bool(model.can_generate())


def _described(graph: Graph, model: Any, batch: int, what: str) -> Graph:
    dtype = dtype_name(_dtype_of(model))
    graph.name = str(model.config.model_type)
    graph.setting = f"{dtype}, batch {batch:,}, {what}"
    graph.assumptions.append(f"{type(model).__name__} of transformers {transformers.__version__}, {graph.setting}")
    return graph


class _TokenStep(torch.nn.Module):
    """Runs one token with a static cache of the earlier tokens."""

    def __init__(self, model: Any, shapes: list[tuple[Any, Any]], filled: int, mode: Any) -> None:
        super().__init__()
        self.model, self.filled = model, filled
        # newer versions of transformers name the argument "cache"
        self.cache_name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        self.past = slots(shapes, mode)

    def forward(self, input_ids: Any) -> Any:
        """Returns the logits of the token after the input token."""
        cache = cache_utils.Cache(layers=[Slot(one.keys, one.values, self.filled) for one in self.past])
        return self.model(input_ids=input_ids, use_cache=True, **{self.cache_name: cache}).logits


def _decoded(model: Any, context: int, batch: int, mode: Any) -> Graph:
    """Reads the graph of decoding token number `context`, with keys and values of earlier tokens in the cache."""
    if not _writes(model):
        kind = model.config.model_type
        raise user_error(f"{kind} does not generate text", place="phase", value="decode", allowed="prefill")
    _token_ids(model, context, batch)
    pairs = _first_keys(model)
    shapes = [(_cache_shape(keys, batch, context), _cache_shape(values, batch, context)) for keys, values in pairs]
    step = _TokenStep(model, shapes, context - 1, mode)
    program = export(step, (torch.zeros((batch, 1), dtype=torch.int64),))
    graph = read(program, str(model.config.model_type), results=["logits"])[0]
    return _described(graph, model, batch, f"decode at {context:,}")


def _cache_shape(tensor: Any, batch: int, context: int) -> tuple[tuple[int, ...], Any]:
    """Returns shape and dtype of cached keys or values for `context` tokens."""
    return (batch, int(tensor.shape[1]), context, int(tensor.shape[3])), tensor.dtype


def _first_keys(model: Any) -> list[tuple[Any, Any]]:
    """Returns keys and values of a short text, without elements, to learn the number and width of heads."""
    try:
        program = export(model, (), {"input_ids": torch.zeros((1, 2), dtype=torch.int64), "use_cache": True})
        past = results_of(program).past_key_values
        return [(layer.keys, layer.values) for layer in past.layers]
    except Exception as error:  # other caches and results raise errors of many types
        what = "this model does not cache keys and values by layer"
        raise unsupported(what, place=type(model).__name__, suggestion="Take phase='prefill'") from error
