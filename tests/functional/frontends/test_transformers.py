"""ts.from_transformers: values of the model itself in torch, in both phases; configurations that hold no weight."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim

torch = pytest.importorskip("torch", reason="torch is not installed")
T = pytest.importorskip("transformers", reason="transformers is not installed")

RNG = np.random.default_rng(3)
SMALL: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 60,
    "max_position_embeddings": 64,
}  # fmt: skip
PICTURES: dict[str, Any] = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
TEXT = {"bos_token_id": 0, "eos_token_id": 0}
WRITERS = {
    "gpt2": lambda: T.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60, n_positions=64, **TEXT),
    "llama": lambda: T.LlamaConfig(**SMALL, num_key_value_heads=2),
    "mistral": lambda: T.MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=5),
    "qwen2": lambda: T.Qwen2Config(**SMALL, num_key_value_heads=2),
    "phi": lambda: T.PhiConfig(**SMALL),
    "gemma": lambda: T.GemmaConfig(**SMALL, num_key_value_heads=2, head_dim=8),
    "mixtral": lambda: T.MixtralConfig(**SMALL, num_key_value_heads=2, num_local_experts=4),
}
WHISPER = {
    "vocab_size": 60, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 20,
    "num_mel_bins": 8, "pad_token_id": 0, "decoder_start_token_id": 0, **TEXT,
}  # fmt: skip
BOTH = {
    "t5": lambda: T.T5Config(
        vocab_size=60, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    ),
    "whisper": lambda: T.WhisperConfig(**WHISPER),
    "bart": lambda: T.BartConfig(
        **{key: value for key, value in WHISPER.items() if key not in ("max_source_positions", "num_mel_bins")},
        max_position_embeddings=64,
    ),
}
READERS = {
    "bert": lambda: T.BertConfig(**SMALL),
    "vit": lambda: T.ViTConfig(**PICTURES),
    "clip": lambda: T.CLIPConfig(
        text_config={**SMALL, "max_position_embeddings": 16, "bos_token_id": 58, "eos_token_id": 59},
        vision_config=PICTURES,
        projection_dim=12,
    ),
}


def model_of(config: Any, auto: str) -> Any:
    torch.manual_seed(0)
    return getattr(T, auto).from_config(config).eval()


def tokens(name: str, context: int = 8) -> dict[str, int]:
    """The argument, for models that have tokens."""
    return {} if name == "vit" else {"context": context}


def inputs(graph: ts.Graph) -> dict[str, np.ndarray]:
    """Tokens and pictures; state is left out."""
    rows = [row for row in graph.inputs if row["name"] not in graph.defaults]
    return {
        row["name"]: RNG.integers(0, 40, row["shape"]).astype(np.int64)
        if row["dtype"] == "i64"
        else RNG.standard_normal(row["shape"]).astype(np.float32)
        for row in rows
    }


@pytest.mark.parametrize("name", WRITERS)
def test_writers_of_text_in_both_phases(name):
    model, context = model_of(WRITERS[name](), "AutoModelForCausalLM"), 12
    ids = torch.from_numpy(RNG.integers(0, 40, (2, context)))
    with torch.no_grad():
        wanted = model(ids, use_cache=True)
        earlier = model(ids[:, :-1], use_cache=True).past_key_values
    graph = ts.from_transformers(model, context=context, batch=2)
    found = ts.reference(graph, {"input_ids": ids.numpy()})
    np.testing.assert_allclose(found["logits"], wanted.logits.numpy(), atol=2e-6)
    for i, layer in enumerate(wanted.past_key_values.layers):
        np.testing.assert_allclose(found[f"cache.{i}.keys"], layer.keys.numpy(), atol=2e-6)
        np.testing.assert_allclose(found[f"cache.{i}.values"], layer.values.numpy(), atol=2e-6)

    graph = ts.from_transformers(model, "decode", context, 2)
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
    assert "decode at 12" in graph.assumptions[0] and ts.run(graph).cycles > 0


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
    with pytest.raises(ts.UserError, match="writes no text"):
        ts.from_transformers(model, "decode")


def both_of(name: str, auto: str = "") -> tuple[Any, dict[str, Any]]:
    """A model, and a source for its encoder."""
    model = model_of(
        BOTH[name](), auto or ("AutoModelForSpeechSeq2Seq" if name == "whisper" else "AutoModelForSeq2SeqLM")
    )
    if name == "whisper":
        return model, {"input_features": torch.from_numpy(RNG.standard_normal((2, 8, 40)).astype(np.float32))}
    return model, {"input_ids": torch.from_numpy(RNG.integers(3, 40, (2, 12)))}


def compare_caches(found: dict[str, Any], cache: Any) -> None:
    for kind, layers in (("cache", cache.self_attention_cache), ("source", cache.cross_attention_cache)):
        assert len(layers.layers) == 2
        for i, layer in enumerate(layers.layers):
            np.testing.assert_allclose(found[f"{kind}.{i}.keys"], layer.keys.numpy(), atol=3e-6)
            np.testing.assert_allclose(found[f"{kind}.{i}.values"], layer.values.numpy(), atol=3e-6)


@pytest.mark.parametrize("name", BOTH)
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


@pytest.mark.parametrize("name", BOTH)
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
    short, long = (ts.run(ts.from_transformers(BOTH["whisper"](), "decode", context)).cycles for context in (2, 400))
    assert short < long
    with pytest.raises(ts.UserError, match="fewer positions"):
        ts.from_transformers(BOTH["whisper"](), "decode", 449)
    for config, named in ((READERS["vit"](), {"context": 7}), (BOTH["t5"](), {"image": 32})):
        with pytest.raises(ts.UserError, match=r"reads no (tokens|images)"):
            ts.from_transformers(config, **named)


LESS = {"mistral", "qwen2", "phi", "gemma", "mixtral", "t5", "whisper", "bart", "clip"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LESS else []) for name in [*WRITERS, *READERS, *BOTH]],
)
def test_a_configuration_gives_the_graph_of_its_model_without_weights(name):
    config = {**WRITERS, **READERS, **BOTH}[name]()
    writes = name not in READERS
    model = both_of(name)[0] if name in BOTH else model_of(config, "AutoModelForCausalLM" if writes else "AutoModel")
    held, light = (ts.from_transformers(one, **tokens(name), dtype=None) for one in (model, config))
    assert light.parameters == held.parameters and light.inputs == held.inputs and light.outputs == held.outputs
    assert [op["kind"] for op in light.operations()] == [op["kind"] for op in held.operations()]
    sources = {row["source"] for row in light.weights().values() if row["trainable"]}
    assert sources == {"random"}
    half = ts.from_transformers(config, "decode" if writes else "prefill", **tokens(name), dtype="bf16")
    assert {row["dtype"] for row in half.weights().values() if row["trainable"]} <= {"bf16", "f32"}
    assert "bf16" in half.assumptions[0]
    assert ts.run(half).cycles > 0


def test_a_large_model_is_read_without_its_memory():
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = ts.from_transformers("llama", "decode", 1000, dtype="bf16")  # 13 GB of weights
    assert graph.parameters == 6_738_415_616  # Touvron et al., 2023, of the 7B model
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 << 20  # KiB


def test_what_people_write(tmp_path):
    config = WRITERS["llama"]()
    model, ids = model_of(config, "AutoModelForCausalLM"), torch.zeros(1, 8, dtype=torch.int64)
    cycles = ts.run(model, (ids,)).cycles
    assert ts.run(model, T.BatchEncoding({"input_ids": ids})).cycles == cycles
    assert ts.run(model, {"input_ids": ids}).cycles == cycles
    long = T.LlamaConfig(**{**SMALL, "max_position_embeddings": 256}, num_key_value_heads=2)
    for bare in (long, model_of(long, "AutoModelForCausalLM")):
        said = ts.run(bare).approximations
        assert any(one.startswith("LlamaForCausalLM") and one.endswith("f32, batch 1, prefill of 200") for one in said)
    cache = T.StaticCache(config, max_cache_len=16)
    with pytest.raises(ts.Unsupported, match=r"ts\.from_transformers\(model, phase='decode'\)"):
        ts.from_torch(model, (ids[:, :1],), {"past_key_values": cache})
    config.save_pretrained(tmp_path)
    for path in (tmp_path, tmp_path / "config.json"):
        assert ts.from_transformers(path, context=8) == ts.from_transformers(config, context=8)
    out = tilesim("run", str(tmp_path / "config.json"), "--phase", "decode", "--context", "16", "--quiet")
    assert out.returncode == 0 and out.stdout.startswith("llama, f32, batch 1, decode at 16, on tpu-v3")


def test_refusals(tmp_path):
    cases = {
        "Did you mean 'gpt2'": {"model": "gtp2"},
        "not fetched from the hub": {"model": "someone/something"},
        "fewer positions": {"model": "gpt2", "context": 5000},
        "Did you mean 'decode'": {"model": "gpt2", "phase": "decod"},
        "ts.from_torch": {"model": torch.nn.Linear(3, 3)},
        "no model of transformers": {"model": 7},
        "context": {"model": "gpt2", "context": 0},
        "dtype of floats": {"model": "gpt2", "dtype": "i8"},
        "no config.json": {"model": tmp_path},
    }
    for text, named in cases.items():
        with pytest.raises(ts.UserError, match=text.replace("(", r"\(")):
            ts.from_transformers(**named)
    with pytest.raises(ts.UserError, match="a model has its dtype"):
        ts.from_transformers(model_of(WRITERS["gpt2"](), "AutoModelForCausalLM"), dtype="bf16")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no_such_type"}))
    with pytest.raises(ts.UserError, match="no configuration of transformers"):
        ts.from_transformers(tmp_path / "config.json")
