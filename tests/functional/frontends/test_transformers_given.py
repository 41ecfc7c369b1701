"""ts.from_transformers: configurations that hold no weight, what people write, refusals."""

from __future__ import annotations

import json

import pytest

import tilesim as ts
from support.command import tilesim
from support.small_transformers import BOTH, ONE, READERS, WRITERS, T, both_of, model_of, tokens, torch

LESS = {"bert", "mistral", "qwen2", "phi", "gemma", "mixtral", "t5", "whisper", "bart", "clip"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in LESS else []) for name in [*WRITERS, *READERS, *BOTH]],
)
def test_a_configuration_gives_the_graph_of_its_model_without_weights(name):
    config = {**WRITERS, **READERS, **BOTH}[name]()
    if name in ("gpt2", "llama", "bert", "vit"):
        config.num_hidden_layers = 1  # an export costs as much as it has layers
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
    assert ts.run(half, mapping="heuristic").cycles > 0


def test_a_large_model_is_read_without_its_memory():
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    layers, wide, inner, words = 4, 8192, 22016, 32000
    config = T.LlamaConfig(hidden_size=wide, intermediate_size=inner, num_hidden_layers=layers,
                           num_attention_heads=64, vocab_size=words)  # fmt: skip
    graph = ts.from_transformers(config, "decode", 1000, dtype="bf16")  # 7.5 GB of weights
    each = 4 * wide * wide + 3 * wide * inner + 2 * wide
    assert graph.parameters == layers * each + wide + 2 * words * wide
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 << 20  # KiB


def test_what_people_write(tmp_path):
    config = T.LlamaConfig(**ONE, num_key_value_heads=2)
    model, ids = model_of(config, "AutoModelForCausalLM"), torch.zeros(1, 8, dtype=torch.int64)
    cycles = ts.run(model, (ids,)).cycles
    assert ts.run(model, T.BatchEncoding({"input_ids": ids})).cycles == cycles
    assert ts.run(model, {"input_ids": ids}).cycles == cycles
    long = T.LlamaConfig(**{**ONE, "max_position_embeddings": 256}, num_key_value_heads=2)
    for bare in (long, model_of(long, "AutoModelForCausalLM")):
        said = ts.run(bare).approximations
        assert any(one.startswith("LlamaForCausalLM") and one.endswith("f32, batch 1, prefill of 200") for one in said)
    cache = T.StaticCache(config, max_cache_len=16)
    with pytest.raises(ts.Unsupported, match=r"ts\.from_transformers\(model, phase='decode'\)"):
        ts.from_torch(model, (ids[:, :1],), {"past_key_values": cache})
    config.save_pretrained(tmp_path)
    wanted = ts.from_transformers(config, context=8)
    for path in (tmp_path, tmp_path / "config.json"):
        assert ts.from_transformers(path, context=8) == wanted
    out = tilesim("run", str(tmp_path / "config.json"), "--phase", "decode", "--context", "16", "--quiet")
    assert out.returncode == 0 and out.stdout.startswith("llama, f32, batch 1, decode at 16, on tpu-v3")


def test_refusals(tmp_path):
    cases = {
        "Did you mean 'gpt2'": {"model": "gtp2"},
        "does not download models": {"model": "someone/something"},
        "exceeds the model's positions": {"model": "gpt2", "context": 5000},
        "Did you mean 'decode'": {"model": "gpt2", "phase": "decod"},
        "ts.from_torch": {"model": torch.nn.Linear(3, 3)},
        "not a transformers model": {"model": 7},
        "context": {"model": "gpt2", "context": 0},
        "floating-point type": {"model": "gpt2", "dtype": "i8"},
        "no config.json": {"model": tmp_path},
    }
    for text, named in cases.items():
        with pytest.raises(ts.UserError, match=text.replace("(", r"\(")):
            ts.from_transformers(**named)
    with pytest.raises(ts.UserError, match="the model has another dtype"):
        ts.from_transformers(model_of(WRITERS["gpt2"](), "AutoModelForCausalLM"), dtype="bf16")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no_such_type"}))
    with pytest.raises(ts.UserError, match="not a transformers configuration"):
        ts.from_transformers(tmp_path / "config.json")
