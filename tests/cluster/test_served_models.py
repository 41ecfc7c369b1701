"""One question, one time: a language model on a device, as a graph and as equal layers under a plan."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tilesim as ts
from tilesim.analytic.gemm import gemm_seconds
from tilesim.cluster.fabric import Fabric
from tilesim.models.decoder import DecoderConfig, decoder
from tilesim.models.experts import Experts

#: layers, width, heads, vocabulary and the rest, from each model's published configuration
MODELS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "llama-3-8b": ((32, 4096, 32, 128256), {"ffn": 14336, "gated": True, "kv_heads": 8}),
    "gpt2": ((12, 768, 12, 50257), {"dtype": "f32"}),
    "qwen2.5-1.5b": ((28, 1536, 12, 151936), {"ffn": 8960, "gated": True, "kv_heads": 2, "head_size": 128}),
    "mixtral-8x7b": ((32, 4096, 32, 32000), {"ffn": 14336, "gated": True, "kv_heads": 8, "experts": (8, 2)}),
}
DEVICES = ("h100", "a100", "l4", "rtx-4090", "mi300x", "b200", "gb200", "a6000", "tpu-v5e", "tpu-v6e", "tpu-v7")


def stepped(work: Any, device: str) -> Any:
    fabric = Fabric(ts.Device.load(device), 1, 1e11, 1e11, devices=1)
    return ts.cluster.step(work, fabric, ts.Plan(), check_memory=False)


@pytest.mark.singly
@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize("name", MODELS)
def test_both_calls_agree(name: str, phase: str) -> None:
    sizes, more = MODELS[name]
    rng = random.Random(name + phase)
    for batch in (rng.choice((1, 2, 4, 7)), rng.choice((16, 32, 64))):
        context = rng.choice((512, 1024) if name == "gpt2" else (512, 2048, 4096))
        graph = ts.models.build(name, batch=batch, context=context, phase=phase)
        work = ts.workloads.transformer_step(*sizes, context, batch, phase=phase, **more)
        for device in rng.sample(DEVICES, 2):
            one, other = ts.estimate(graph, device), stepped(work, device)
            assert one.seconds == pytest.approx(other.seconds, rel=0.02), (batch, context, device)
            assert "framework serving" in one.summary() and other.framework == "serving"
            if ts.Device.load(device).kind == "gpu":
                assert one.seconds >= ts.lower_bound(graph, device).seconds


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 100))])
def test_they_agree_on_models_of_any_size(seed: int) -> None:
    rng = random.Random(seed)
    heads = rng.choice((4, 8, 12, 32))
    keys, size, layers = rng.choice([n for n in (1, 2, 4, heads) if heads % n == 0]), rng.choice((64, 128)), 3
    width, hidden, vocabulary = 256 * rng.randrange(2, 24), 64 * rng.randrange(8, 200), rng.randrange(1000, 90000)
    experts = Experts(count=rng.choice((4, 16)), chosen=2) if seed % 3 == 0 else None
    config = DecoderConfig("any", vocabulary, width, layers, heads, keys, hidden, size, experts=experts)
    batch, context, phase = rng.randrange(1, 40), rng.randrange(64, 3000), rng.choice(("prefill", "decode"))
    graph = decoder(config, batch, context, phase)
    work = ts.workloads.transformer_step(
        layers, width, heads, vocabulary, context, batch, hidden, True, keys, size, phase=phase,
        experts=(experts.count, 2) if experts else None,
    )  # fmt: skip
    for device in ("h100", "l40s", "tpu-v5e"):
        assert ts.estimate(graph, device).seconds == pytest.approx(stepped(work, device).seconds, rel=0.02)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_kernels_of_a_layer(phase: str) -> None:
    """Four products, attention; two normalizations, rotation with the cache, activation; head, and the last norm."""
    found = ts.estimate(ts.models.llama_3_8b(2, 256, phase), "h100")
    kinds = Counter("call" if row["kind"] == "library" else "fused" for row in found.kernels())
    assert kinds == {"call": 5 * 32 + 1, "fused": 4 * 32 + 1}
    rows = {row["kernel"]: row for row in found.kernels()}
    tokens = 2 if phase == "decode" else 512
    norm = rows["model.layers.3.post_attention_layernorm"]
    assert norm["bytes"] == (4 * tokens * 4096 + 4096) * 2  # reads and writes the sum, reads what is added, writes rows
    joined = next(row for row in rows.values() if "model.layers.3.self_attn.k_proj" in row["fused"])
    assert joined["ms"] == pytest.approx(float(gemm_seconds("h100", tokens, 6144, 4096, "bf16")) * 1e3)
    head = rows["lm_head"]
    assert head["ms"] == pytest.approx(float(gemm_seconds("h100", 2, 128256, 4096, "bf16")) * 1e3)
    assert head["bytes"] == 2 * (2 * 4096 + 4096 * 128256 + 2 * 128256)


def test_a_cache_is_updated_in_place() -> None:
    """A decode step writes a token's keys and values, whatever the cache holds."""
    short, long = (ts.estimate(ts.models.llama_3_8b(4, context, "decode"), "h100") for context in (256, 4096))
    ways = [[row["bytes"] for row in found.kernels() if "cache" in row["fused"]] for found in (short, long)]
    assert len(ways[0]) == 32 and ways[0] == ways[1]


def test_experts_that_tokens_reach() -> None:
    """Of 8 experts, of which a token takes 2, four tokens read 8 (1 - 0.75^4) in the mean."""
    config = DecoderConfig("few", 1000, 4096, 1, 32, 8, 14336, experts=Experts(count=8, chosen=2))
    times = {}
    for batch in (1, 4, 4096):
        rows = ts.estimate(decoder(config, batch, 64, "decode"), "h100").kernels()
        times[batch] = next(row["ms"] for row in rows if "experts.gate_up" in row["kernel"]) / 1e3
    each = 2 * 2 * 14336 * 4096 / 3.35e12
    assert 2 * each <= times[1] <= 2.6 * each
    assert 8 * (1 - 0.75**4) * each <= times[4] <= 7 * each


@pytest.mark.parametrize("compiler", ["eager", "torch", "xla"])
def test_a_named_compiler_is_taken(compiler: str) -> None:
    graph = ts.models.gpt2(1, 128, dtype="f16", phase="decode")
    found = ts.estimate(graph, "h100", compiler=compiler)
    assert f"compiler {compiler}" in found.summary() and found.seconds != ts.estimate(graph, "h100").seconds


def test_other_networks_have_none() -> None:
    for graph in (ts.models.resnet18(), ts.models.bert_base(), ts.workloads.matmul(64, 64, 64)):
        found = ts.estimate(graph, "h100")
        assert "serving" not in found.summary() and not list(found.kernels())
    decode = ts.models.gpt2(1, 128, phase="decode")
    assert not list(ts.estimate(decode, "xeon-8480").kernels())


def test_what_does_not_fit_is_said_first() -> None:
    graph = ts.models.llama_3_70b(phase="decode")
    assert "does not fit: 140 GB of 85.9 GB" in ts.estimate(graph, "h100").summary()
    assert "does not fit" not in ts.estimate(graph, "h200").summary()
    with pytest.raises(ts.UserError, match="writes no text"):
        ts.run("resnet18", machine="h100", phase="decode")
