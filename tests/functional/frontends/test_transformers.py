"""ts.from_transformers: values of the model itself in torch, in both phases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.small_transformers import BOTH, READERS, RNG, WRITERS, both_of, model_of, tokens, torch


def inputs(graph: ts.Graph) -> dict[str, np.ndarray]:
    """Tokens and pictures; state is left out."""
    rows = [row for row in graph.inputs if row["name"] not in graph.defaults]
    return {
        row["name"]: RNG.integers(0, 40, row["shape"]).astype(np.int64)
        if row["dtype"] == "i64"
        else RNG.standard_normal(row["shape"]).astype(np.float32)
        for row in rows
    }


#: of families that differ from llama in a layer alone, the normal run takes one phase; gpt2 is a torch module elsewhere
ONE_PHASE = {
    "gpt2": "decode",
    "qwen2": "prefill",
    "gemma": "prefill",
    "phi": "decode",
    "mistral": "decode",
    "mixtral": "prefill",
}
CASES = [
    pytest.param(name, phase, marks=[pytest.mark.slow] * (ONE_PHASE.get(name, phase) != phase))
    for name in WRITERS
    for phase in ("prefill", "decode")
]


@pytest.mark.parametrize(("name", "phase"), CASES)
def test_writers_of_text(name, phase):
    model, context = model_of(WRITERS[name](), "AutoModelForCausalLM"), 12
    ids = torch.from_numpy(RNG.integers(0, 40, (2, context)))
    with torch.no_grad():
        wanted = model(ids, use_cache=True)
        earlier = model(ids[:, :-1], use_cache=True).past_key_values
    graph = ts.from_transformers(model, phase, context, 2)
    if phase == "prefill":
        found = ts.reference(graph, {"input_ids": ids.numpy()})
        np.testing.assert_allclose(found["logits"], wanted.logits.numpy(), atol=2e-6)
        for i, layer in enumerate(wanted.past_key_values.layers):
            np.testing.assert_allclose(found[f"cache.{i}.keys"], layer.keys.numpy(), atol=2e-6)
            np.testing.assert_allclose(found[f"cache.{i}.values"], layer.values.numpy(), atol=2e-6)
        return
    given: dict[str, Any] = {"input_ids": ids[:, -1:].numpy()}
    for i, layer in enumerate(earlier.layers):
        for part in ("keys", "values"):
            there = getattr(layer, part).numpy()
            kept = np.zeros((2, there.shape[1], context, there.shape[3]), np.float32)
            kept[:, :, context - 1 - there.shape[2] : -1] = there  # of a window the last ones alone
            given[f"past.{i}.{part}"] = kept
    found = ts.reference(graph, given)
    np.testing.assert_allclose(found["logits"], wanted.logits[:, -1:].numpy(), atol=2e-6)
    rows, outputs = graph.inputs, graph.outputs
    changed = {rows[to]["name"]: outputs[out]["name"] for out, to in graph.core.aliases}
    assert len(changed) == 2 * len(earlier.layers) and set(changed) == set(given) - {"input_ids"}
    np.testing.assert_array_equal(found[changed["past.0.keys"]][:, :, :-1], given["past.0.keys"][:, :, :-1])
    assert np.abs(found[changed["past.0.keys"]][:, :, -1]).max() > 0
    assert "decode at 12" in graph.assumptions[0] and ts.run(graph, mapping="heuristic").cycles > 0


@pytest.mark.parametrize("name", READERS)
def test_readers_of_texts_sounds_and_pictures(name):
    model = model_of(READERS[name](), "AutoModel")
    graph = ts.from_transformers(model, batch=2, **tokens(name, 12))
    given = inputs(graph)
    with torch.no_grad():
        wanted = model(**{key: torch.from_numpy(value) for key, value in given.items()})
    found = ts.reference(graph, given)
    for key in ("last_hidden_state", "pooler_output", "logits_per_image"):
        if isinstance(wanted.get(key), torch.Tensor):
            np.testing.assert_allclose(found[key], wanted[key].numpy(), atol=1e-5)
            break
    else:
        pytest.fail(f"no result of {list(wanted)} compared")
    with pytest.raises(ts.UserError, match="does not generate text"):
        ts.from_transformers(model, "decode")


def compare_caches(found: dict[str, Any], cache: Any) -> None:
    for kind, layers in (("cache", cache.self_attention_cache), ("source", cache.cross_attention_cache)):
        assert len(layers.layers) == 2
        for i, layer in enumerate(layers.layers):
            np.testing.assert_allclose(found[f"{kind}.{i}.keys"], layer.keys.numpy(), atol=3e-6)
            np.testing.assert_allclose(found[f"{kind}.{i}.values"], layer.values.numpy(), atol=3e-6)


#: bart has the decoder of whisper and the source of t5
WITH_SOURCE = [pytest.param(name, marks=[pytest.mark.slow] * (name == "bart")) for name in BOTH]


@pytest.mark.parametrize("name", WITH_SOURCE)
def test_encoder_and_decoder_together(name):
    model, source = both_of(name)
    ids = torch.from_numpy(RNG.integers(3, 40, (2, 12 if name == "whisper" else 1)))
    with torch.no_grad():
        wanted = model(**source, decoder_input_ids=ids, use_cache=True)
    graph = ts.from_transformers(model, context=12, batch=2)
    given = {key: value.numpy() for key, value in (source | {"decoder_input_ids": ids}).items()}
    assert {row["name"]: tuple(row["shape"]) for row in graph.inputs} == {key: one.shape for key, one in given.items()}
    found = ts.reference(graph, given)
    np.testing.assert_allclose(found["logits"], wanted.logits.numpy(), atol=3e-6)
    compare_caches(found, wanted.past_key_values)
    lengths = (20, 12) if name == "whisper" else (12, 1)
    assert graph.setting.endswith("prefill: encoder of {}, decoder of {}".format(*lengths))
    assert ts.verify(ts.compile(graph, "tpu-v3")).ok


@pytest.mark.parametrize("name", WITH_SOURCE)
def test_one_step_of_a_decoder_with_an_encoder(name):
    model, source = both_of(name)
    context = 12  # as long as the source is, where that is a text
    ids = torch.from_numpy(RNG.integers(3, 40, (2, context)))
    with torch.no_grad():
        wanted = model(**source, decoder_input_ids=ids).logits[:, -1:].numpy()
        earlier = model(**source, decoder_input_ids=ids[:, :-1], use_cache=True).past_key_values
    graph = ts.from_transformers(model, "decode", context, 2)
    given: dict[str, Any] = {"decoder_input_ids": ids[:, -1:].numpy()}
    layers = zip(earlier.self_attention_cache.layers, earlier.cross_attention_cache.layers, strict=True)
    for i, (own, across) in enumerate(layers):
        for part in ("keys", "values"):
            given[f"past.{i}.{part}"] = np.pad(getattr(own, part).numpy(), ((0, 0), (0, 0), (0, 1), (0, 0)))
            given[f"source_{i}_{part}"] = getattr(across, part).numpy()
    assert {row["name"] for row in graph.inputs} == set(given)
    found = ts.reference(graph, given)
    np.testing.assert_allclose(found["logits"], wanted, atol=3e-6)
    changed = {graph.inputs[to]["name"] for _, to in graph.core.aliases}
    assert changed == {name for name in given if name.startswith("past.")}
    assert graph.setting.endswith(f"decode at 12, source of {20 if name == 'whisper' else 12}")
    assert ts.verify(ts.compile(graph, "tpu-v3")).ok


def test_models_with_an_encoder_and_a_decoder_as_people_give_them():
    bare = ts.from_transformers(model_of(BOTH["t5"](), "AutoModel"), "decode", 9)
    assert bare.outputs[0]["name"] == "last_hidden_state"
    short, long = (ts.run(ts.from_transformers(BOTH["whisper"](), "decode", context)).cycles for context in (2, 200))
    assert short < long
    with pytest.raises(ts.UserError, match="exceeds the model's positions"):
        ts.from_transformers(BOTH["whisper"](), "decode", 449)
    for config, named in ((READERS["vit"](), {"context": 7}), (BOTH["t5"](), {"image": 32})):
        with pytest.raises(ts.UserError, match=r"reads no (tokens|images)"):
            ts.from_transformers(config, **named)
