"""Networks of `tilesim.models` at small sizes equal the usual PyTorch implementations with the same weights."""

import dataclasses
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
import tilesim as ts  # noqa: E402
from support import torch_zoo  # noqa: E402
from support.torch_equal import difference  # noqa: E402
from support.torch_flops import products  # noqa: E402
from support.torch_resnet import resnet as torch_resnet  # noqa: E402
from tilesim.graph.torch_arrays import elements_of  # noqa: E402
from tilesim.models import clip, deepseek, dit, dlrm, llama4, mamba, resnet, transformer, unet, vision, vit  # noqa: E402
from tilesim.models import decoder as decoders  # noqa: E402
from tilesim.models._decoding import Yarn  # noqa: E402
from tilesim.models.experts import Experts  # noqa: E402


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def randomise(model: Any) -> Any:
    """Weights that matter: also those that start as zeros and ones."""
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if value.is_floating_point() and "inv_freq" not in name and "positions" not in name:
                scale = 0.3 if value.ndim < 2 else (3 / value.shape[-1]) ** 0.5
                value.copy_(
                    scale * (2 * torch.rand(value.shape) - 1) + (1.0 if "norm" in name and "weight" in name else 0)
                )
    return model.eval()


def copied(graph: ts.Graph, model: Any, prefix: str = "") -> ts.Graph:
    """The graph with the model's weights; every trainable weight must be there, of the same shape."""
    state = dict([*model.named_parameters(remove_duplicate=False), *model.named_buffers()])
    missing = []
    for name, row in graph.weights().items():
        if name in state or prefix + name in state:
            graph.set_weight(name, elements_of(state.get(name, state.get(prefix + name))))
        elif row["trainable"]:
            missing.append(name)
    assert not missing
    counted = [*model.parameters(), *(b for n, b in model.named_buffers() if n.endswith("e_score_correction_bias"))]
    assert graph.parameters == sum(p.numel() for p in counted)
    return graph


def outputs(graph: ts.Graph, *inputs: Any) -> dict[str, Any]:
    return ts.reference(graph, [np.asarray(x) for x in inputs])


def decodes(
    config: Any, model: Any, build: Any, context: int = 9, bound: float = 2e-5, prefix: str = "", needless: int = 0
) -> None:
    """Prefill of `context` tokens equals the class; so does decode of the last token from the cache of the others.

    FLOPs are those that torch counts, less `needless` ones: what a class computes and throws away.
    """
    ids = torch.randint(0, config.vocabulary, (2, context))
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits
    graph = copied(build(config, 2, context, "prefill", "f32"), model, prefix)
    found = outputs(graph, ids.int())
    assert difference(found["logits"], wanted) <= bound
    assert graph.flops()["matrix"] == products(model, ids, use_cache=False) - needless
    before = outputs(copied(build(config, 2, context - 1, "prefill", "f32"), model, prefix), ids[:, :-1].int())
    step = copied(build(config, 2, context, "decode", "f32"), model, prefix)
    inputs = {"input_ids": ids[:, -1:].int().numpy()}
    for row in step.inputs[1:]:
        kept = before[row["name"].replace("past", "cache")]
        size = row["shape"][2]
        # the earlier tokens that the cache holds, then a slot with anything in it
        part = kept[:, :, kept.shape[2] - (size - 1) :] if size > 1 else kept[:, :, :0]
        inputs[row["name"]] = np.concatenate([part, np.full_like(kept[:, :, :1], 7)], axis=2)
    got = ts.reference(step, inputs)
    assert difference(got["logits"], wanted[:, -1:]) <= bound
    last = np.asarray(got["cache.0.keys"] if "cache.0.keys" in got else got["cache.0.latent"])
    full = found["cache.0.keys"] if "cache.0.keys" in found else found["cache.0.latent"]
    np.testing.assert_allclose(last[:, :, -1], full[:, :, -1], rtol=1e-4, atol=1e-5)


SMALL = {"vocabulary": 50, "width": 32, "layers": 2, "heads": 4, "key_heads": 2, "hidden": 48, "head_width": 8}
HF = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 48, "head_dim": 8, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}  # fmt: skip


def test_llama() -> None:
    config = dataclasses.replace(decoders.LLAMA_3_8B, **SMALL)
    hf = transformers.LlamaConfig(**HF, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 5e5})
    decodes(config, randomise(transformers.LlamaForCausalLM(hf)), decoders.decoder)


def test_mistral_looks_back_a_window() -> None:
    config = dataclasses.replace(decoders.MISTRAL_7B, **SMALL, window=4)
    hf = transformers.MistralConfig(**HF, rms_norm_eps=1e-5, sliding_window=4)
    decodes(config, randomise(transformers.MistralForCausalLM(hf)), decoders.decoder)


def test_qwen() -> None:
    config = dataclasses.replace(decoders.QWEN2_5_1_5B, **SMALL)
    hf = transformers.Qwen2Config(**HF, rms_norm_eps=1e-6, tie_word_embeddings=True,
                                  rope_parameters={"rope_type": "default", "rope_theta": 1e6})  # fmt: skip
    decodes(config, randomise(transformers.Qwen2ForCausalLM(hf)), decoders.decoder)


def test_mixtral() -> None:
    config = dataclasses.replace(decoders.MIXTRAL_8X7B, **SMALL, experts=Experts(count=5, chosen=2))
    hf = transformers.MixtralConfig(**HF, num_local_experts=5, num_experts_per_tok=2,
                                    rope_parameters={"rope_type": "default", "rope_theta": 1e6})  # fmt: skip
    decodes(config, randomise(transformers.MixtralForCausalLM(hf)), decoders.decoder)


def test_deepseek_v3() -> None:
    experts = Experts(count=8, chosen=3, scores="sigmoid", groups=4, chosen_groups=2, scale=2.5, hidden=16, shared=16)
    sizes = {"vocabulary": 50, "width": 32, "layers": 2, "heads": 4, "hidden": 48, "query_rank": 24, "latent": 16,
             "plain": 8, "rotary": 4, "value": 6, "dense_layers": 1, "experts": experts}  # fmt: skip
    config = dataclasses.replace(deepseek.DEEPSEEK_V3, **sizes, yarn=Yarn(40.0, 16))
    rope = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 40.0, "original_max_position_embeddings": 16,
            "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}  # fmt: skip
    hf = transformers.DeepseekV3Config(
        **{k: v for k, v in HF.items() if k not in ("head_dim", "num_key_value_heads")}, num_key_value_heads=4,
        moe_intermediate_size=16, q_lora_rank=24, kv_lora_rank=16, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6,
        n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2, n_shared_experts=1, first_k_dense_replace=1,
        rope_parameters=rope, max_position_embeddings=640,
    )  # fmt: skip
    decodes(config, randomise(transformers.DeepseekV3ForCausalLM(hf)), deepseek.deepseek)


def test_llama_4() -> None:
    experts = dataclasses.replace(llama4.LLAMA_4_SCOUT.experts, count=4, hidden=16, shared=16)
    sizes = {
        "vocabulary": 50, "width": 32, "layers": 4, "heads": 4, "key_heads": 2, "head_width": 8, "experts": experts,
    }  # fmt: skip
    config = dataclasses.replace(llama4.LLAMA_4_SCOUT, **sizes, chunk=4, floor=3.0)
    hf = transformers.Llama4TextConfig(
        **{**HF, "num_hidden_layers": 4, "intermediate_size": 16}, num_local_experts=4, attention_chunk_size=4,
        floor_scale=3, intermediate_size_mlp=16, interleave_moe_layer_step=1,
        rope_parameters={"rope_type": "default", "rope_theta": 5e5},
    )  # fmt: skip
    # The class runs every expert on every token (3 of 4 for nothing), and scores keys of other chunks: of 9 x 9 pairs
    # in the three layers with chunks of 4, 4 + 4 + 1 tokens need 4 x 4 + 4 x 4 + 1.
    needless = 4 * (2 * 9) * 3 * (3 * 2 * 32 * 16) + 3 * (2 * 4) * (81 - 33) * (2 * 2 * 8)
    decodes(config, randomise(transformers.Llama4ForCausalLM(hf)), llama4.llama4, needless=needless)


def test_deepseek_moe() -> None:
    """Llama's attention; a dense layer, then mixtures with shared experts."""
    experts = Experts(count=6, chosen=3, renormalised=False, hidden=16, shared=24)
    config = dataclasses.replace(decoders.DEEPSEEK_MOE_16B, **{**SMALL, "key_heads": 4, "layers": 3}, experts=experts)
    hf = transformers.LlamaConfig(**{**HF, "num_key_value_heads": 4, "num_hidden_layers": 3}, rms_norm_eps=1e-6,
                                  rope_parameters={"rope_type": "default", "rope_theta": 1e4})  # fmt: skip
    model = transformers.LlamaForCausalLM(hf)
    for layer in model.model.layers[1:]:
        layer.mlp = torch_zoo.DeepseekExperts(32, 6, 3, 16, 24)
    decodes(config, randomise(model), decoders.decoder)


def test_clip() -> None:
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    hf = transformers.CLIPConfig(
        text_config={**small, "vocab_size": 40, "max_position_embeddings": 9, "eos_token_id": 39, "projection_dim": 12},
        vision_config={**small, "image_size": 16, "patch_size": 8, "projection_dim": 12}, projection_dim=12,
    )  # fmt: skip
    model = randomise(transformers.CLIPModel(hf))
    tower = clip.Tower(16, 2, 2, 24)
    graph = copied(clip.clip(clip.ClipConfig("clip", tower, tower, 16, 8, 40, 9, 12), 3, 7), model)
    pixels, ids = torch.randn(3, 3, 16, 16), torch.randint(0, 38, (3, 7))
    ids[torch.arange(3), torch.tensor([3, 6, 4])] = 39
    with torch.no_grad():
        wanted = model(input_ids=ids, pixel_values=pixels)
    found = outputs(graph, pixels, ids.int())
    for name in ("image_embeds", "text_embeds", "logits_per_image"):
        assert difference(found[name], wanted[name]) <= 1e-5
    assert graph.flops()["matrix"] == products(model, input_ids=ids, pixel_values=pixels)


def test_mamba() -> None:
    config = mamba.MambaConfig("mamba", 50, 16, 2, 32, 3, state=4)
    hf = transformers.MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, state_size=4, time_step_rank=3,
                                  layer_norm_epsilon=1e-5, use_mambapy=False)  # fmt: skip
    model = randomise(transformers.MambaForCausalLM(hf))
    ids = torch.randint(0, 50, (2, 7))
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits
    assert (
        difference(outputs(copied(mamba.mamba(config, 2, 7, "prefill", "f32"), model), ids.int())["logits"], wanted)
        <= 1e-5
    )
    # the class pads the convolution on both sides and drops the last 3 of 10 columns: 4 taps of 32 channels each
    needless = 2 * (2 * 3 * 4 * 32) * 2
    flops = mamba.mamba(config, 2, 7, "prefill", "f32").flops()["matrix"]
    assert flops == products(model, ids, use_cache=False) - needless
    before = outputs(copied(mamba.mamba(config, 2, 6, "prefill", "f32"), model), ids[:, :-1].int())
    step = copied(mamba.mamba(config, 2, 7, "decode", "f32"), model)
    inputs = {row["name"]: before[row["name"].replace("past", "cache")] for row in step.inputs[1:]}
    got = ts.reference(step, {"input_ids": ids[:, -1:].int().numpy(), **inputs})
    assert difference(got["logits"], wanted[:, -1:]) <= 1e-5


def equals(graph: ts.Graph, model: Any, *args: Any, bound: float = 2e-5) -> None:
    model = randomise(model)
    with torch.no_grad():
        for name, value in model.named_buffers():
            if name.endswith("running_var"):
                value.abs_().add_(0.5)
        wanted = model(*args)
    inputs = [x.int() if x.dtype == torch.int64 else x for x in args]
    assert difference(next(iter(outputs(copied(graph, model), *inputs).values())), wanted) <= bound
    assert graph.flops()["matrix"] == products(model, *args)


def test_dlrm() -> None:
    config = dlrm.DlrmConfig("dlrm", (5, 9, 3), 4, 6, (8, 4), (7, 1))
    ids = [torch.randint(0, rows, (6, 2)) for rows in config.rows]
    equals(dlrm.dlrm(config, 6, 2), torch_zoo.Dlrm(config), torch.randn(6, 6), *ids)


def test_dit() -> None:
    config = dit.DitConfig("dit", 24, 2, 3, size=8, channels=3, classes=5, frequencies=16)
    model = torch_zoo.Dit(config, torch.from_numpy(dit.position_table(24, 4))[None])
    equals(dit.dit(config, 2), model, torch.randn(2, 3, 8, 8), torch.tensor([3.0, 700.0]), torch.tensor([4, 1]))


def test_unet() -> None:
    config = unet.UnetConfig("unet", (16, 32, 32), blocks=2, heads=4, text=12, tokens=5, size=8, groups=8)
    args = torch.randn(2, 4, 8, 8), torch.tensor([3.0, 700.0]), torch.randn(2, 5, 12)
    equals(unet.unet(config, 2), torch_zoo.Unet(config), *args)


def test_mobilenet() -> None:
    settings = vision._MOBILENET_V2
    equals(vision.mobilenet_v2(1, 32), torch_zoo.mobilenet_v2(settings), torch.randn(1, 3, 32, 32), bound=2e-4)


def test_vgg() -> None:
    stages = ((4, 6), (6, 8), (8, 8, 10), (10, 10, 12), (12, 12, 14))
    equals(vision.vgg("vgg", stages, 20, 11, 2), torch_zoo.vgg(stages, 20, 11), torch.randn(2, 3, 224, 224))


@pytest.mark.parametrize("layers", [18, *(pytest.param(n, marks=pytest.mark.slow) for n in (34, 50))])
def test_resnets(layers: int) -> None:
    build = {18: resnet.resnet18, 34: resnet.resnet34, 50: resnet.resnet50}[layers]
    equals(build(1, 32), torch_resnet(layers), torch.randn(1, 3, 32, 32), bound=2e-4)


def test_vit() -> None:
    config = vit.VitConfig("vit", 24, 2, 3, 8, 10)
    equals(vit.vit(config, 2, 32), torch_zoo.Vit(config, 32), torch.randn(2, 3, 32, 32))


def test_bert() -> None:
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
    model = randomise(
        transformers.BertModel(transformers.BertConfig(vocab_size=40, max_position_embeddings=12, **sizes))
    )
    graph = copied(transformer.bert(transformer.TextConfig("bert", 2, 24, 3, 40, 12), 2, 7), model)
    ids, types = torch.randint(0, 40, (2, 7)), torch.randint(0, 2, (2, 7))
    with torch.no_grad():
        wanted = model(ids, token_type_ids=types)
    found = outputs(graph, ids.int(), types.int())
    assert difference(found["last_hidden_state"], wanted.last_hidden_state) <= 1e-5
    assert difference(found["pooler_output"], wanted.pooler_output) <= 1e-5
    assert graph.flops()["matrix"] == products(model, ids, token_type_ids=types)


def test_gpt2() -> None:
    sizes = {"n_embd": 24, "n_layer": 2, "n_head": 3, "n_positions": 12, "bos_token_id": 0, "eos_token_id": 0}
    model = randomise(transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=40, **sizes)))
    config = transformer.TextConfig("gpt", 2, 24, 3, 40, 12)

    def build(c: Any, batch: int, context: int, phase: str, dtype: str) -> ts.Graph:
        return transformer.gpt(c, batch, context, dtype, phase)

    decodes(config, model, build, prefix="transformer.")
    graph = copied(transformer.gpt(config, 2, 7), model, "transformer.")
    ids = torch.randint(0, 40, (2, 7))
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits
    assert difference(outputs(graph, ids.int())["logits"], wanted) <= 1e-5


@pytest.mark.parametrize("name", [pytest.param("llama", marks=pytest.mark.slow), "mixtral"])
def test_operations_are_as_many_as_those_imported_from_torch(name: str) -> None:
    if name == "llama":
        config = dataclasses.replace(decoders.LLAMA_3_8B, **SMALL)
        model: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**HF))
    else:
        config = dataclasses.replace(decoders.MIXTRAL_8X7B, **SMALL, experts=Experts(count=5, chosen=2))
        model = transformers.MixtralForCausalLM(
            transformers.MixtralConfig(
                **HF, num_local_experts=5, num_experts_per_tok=2, experts_implementation="grouped_mm"
            )
        )
    ids = torch.randint(0, 50, (2, 6))
    imported = ts.from_torch(model.eval(), (ids,), {"use_cache": False})
    with torch.no_grad():
        wanted = model(ids, use_cache=False).logits
    assert difference(next(iter(ts.reference(imported, (ids,)).values())), wanted) <= 2e-5
    built = decoders.decoder(config, 2, 6, "prefill", "f32")
    assert imported.flops()["matrix"] == built.flops()["matrix"]
    assert imported.parameters == built.parameters
