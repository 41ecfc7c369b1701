"""The zoo's networks as small torch modules: imported, equal to eager torch, tiled equal to the reference, timed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
import tilesim as ts  # noqa: E402
from support import torch_zoo  # noqa: E402
from support.torch_equal import equal  # noqa: E402
from tilesim.models import dit, dlrm, unet, vision, vit  # noqa: E402

WORDS = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "intermediate_size": 48, "head_dim": 8, "bos_token_id": 0, "eos_token_id": 0,
         "pad_token_id": 0}  # fmt: skip
NO_CACHE = {"use_cache": False}


def ids(*shape: int, below: int = 50) -> Any:
    return torch.randint(0, below, shape)


def decoder(name: str, **more: Any) -> Any:
    config = getattr(transformers, f"{name}Config")(**{**WORDS, **more})
    return getattr(transformers, f"{name}ForCausalLM")(config), (ids(2, 6),), NO_CACHE


def deepseek() -> Any:
    words = {key: value for key, value in WORDS.items() if key != "head_dim"}
    config = transformers.DeepseekV3Config(
        **{**words, "num_key_value_heads": 4}, moe_intermediate_size=16, q_lora_rank=24, kv_lora_rank=16,
        qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=6, n_routed_experts=8, num_experts_per_tok=3, n_group=4,
        topk_group=2, n_shared_experts=1, first_k_dense_replace=1, experts_implementation="grouped_mm",
    )  # fmt: skip
    return transformers.DeepseekV3ForCausalLM(config), (ids(2, 6),), NO_CACHE


def clip_model() -> Any:
    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    text = {**small, "vocab_size": 40, "max_position_embeddings": 9, "eos_token_id": 39, "bos_token_id": 0}
    images = {**small, "image_size": 16, "patch_size": 8}
    config = transformers.CLIPConfig(text_config=text, vision_config=images, projection_dim=12)
    tokens = ids(3, 7, below=38)
    tokens[:, 5] = 39
    return transformers.CLIPModel(config), (), {"input_ids": tokens, "pixel_values": torch.randn(3, 3, 16, 16)}


def mamba() -> Any:
    config = transformers.MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, state_size=4,
                                      time_step_rank=3, use_mambapy=False)  # fmt: skip
    return transformers.MambaForCausalLM(config), (ids(2, 5),), NO_CACHE


def bert() -> Any:
    words = {key: value for key, value in WORDS.items() if key not in ("head_dim", "num_key_value_heads")}
    return transformers.BertModel(transformers.BertConfig(**words)), (ids(2, 7),), {}


def gpt() -> Any:
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=50, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config), (ids(2, 6),), NO_CACHE


def recommendation() -> Any:
    config = dlrm.DlrmConfig("dlrm", (5, 9, 3), 4, 6, (8, 4), (7, 1))
    return torch_zoo.Dlrm(config), (torch.randn(6, 6), *(ids(6, 2, below=rows) for rows in config.rows)), {}


def denoiser() -> Any:
    config = dit.DitConfig("dit", 24, 2, 3, size=8, channels=3, classes=5, frequencies=16)
    model = torch_zoo.Dit(config, torch.from_numpy(dit.position_table(24, 4))[None])
    return model, (torch.randn(2, 3, 8, 8), torch.tensor([3.0, 700.0]), torch.tensor([4, 1])), {}


def diffusion() -> Any:
    config = unet.UnetConfig("unet", (16, 32), 1, heads=4, text=12, tokens=5, size=4, groups=8)
    return torch_zoo.Unet(config), (torch.randn(1, 4, 4, 4), torch.tensor([3.0]), torch.randn(1, 5, 12)), {}


def images(model: Any, size: int) -> Any:
    return model, (torch.randn(1, 3, size, size),), {}


STAGES = ((4, 4), (4, 4), (6, 6, 6), (6, 6, 6), (6, 6, 6))
NETWORKS: dict[str, Callable[[], Any]] = {
    "vgg": lambda: images(torch_zoo.vgg(STAGES, 12, 7), 224),
    "mobilenet": lambda: images(torch_zoo.mobilenet_v2(vision._MOBILENET_V2), 32),
    "vit": lambda: images(torch_zoo.Vit(vit.VitConfig("vit", 24, 2, 3, 8, 10), 32), 32),
    "bert": bert,
    "gpt2": gpt,
    "clip": clip_model,
    "llama": lambda: decoder("Llama"),
    "mistral": lambda: decoder("Mistral", sliding_window=4),
    "qwen": lambda: decoder("Qwen2", tie_word_embeddings=True),
    "mixtral": lambda: decoder("Mixtral", num_local_experts=5, experts_implementation="grouped_mm"),
    "deepseek-v3": deepseek,
    "mamba": mamba,
    "dlrm": recommendation,
    "dit": denoiser,
    "unet": diffusion,
}


SLOW = {"bert", "gpt2", "vit", "llama", "mistral", "qwen", "mixtral", "clip"}  # imported by other tests too


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in NETWORKS])
def test_import_execute_simulate(name: str) -> None:
    torch.manual_seed(0)
    model, args, kwargs = NETWORKS[name]()
    graph = equal(model, args, kwargs, bound=5e-5)
    machine = ts.Machine.load("tpu-v3").replace({"core.array.multiply": "as stored"})
    program = ts.compile(graph, machine, fallback="host", mapping="heuristic")
    inputs = [x for x in (*args, *kwargs.values()) if torch.is_tensor(x)]
    got, wanted = ts.execute(program, inputs), ts.reference(graph, inputs)
    for output, value in wanted.items():
        scale = float(np.max(np.abs(value))) or 1.0
        np.testing.assert_allclose(np.asarray(got[output]) / scale, value / scale, atol=5e-4, err_msg=output)
    assert ts.simulate(program).cycles > 0
