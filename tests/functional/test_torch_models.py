"""Whole models: the graph that `from_torch` gives equals torch's eager run."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from support.torch_equal import equal  # noqa: E402
from support.torch_resnet import resnet  # noqa: E402

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}


def count(graph: Any, kind: str) -> int:
    return sum(op["kind"] == kind for op in graph.operations())


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("layers", [18, 50])
def test_resnets(layers: int) -> None:
    graph = equal(resnet(layers), (torch.randn(1, 3, 32, 32),))
    assert graph.parameters == {18: 11_689_512, 50: 25_557_032}[layers]
    assert count(graph, "convolution") == count(graph, "batch_norm") == {18: 20, 50: 53}[layers]


def test_bert() -> None:
    model = transformers.BertModel(transformers.BertConfig(vocab_size=60, **SMALL))
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    graph = equal(model, (torch.randint(0, 60, (2, 5)),), {"attention_mask": mask})
    assert count(graph, "attention") == 2
    # without padding the mask hides nothing and is gone
    graph = equal(model, (torch.randint(0, 60, (2, 5)),))
    assert all(len(op["operands"]) == 3 for op in graph.operations() if op["kind"] == "attention")


def test_gpt2() -> None:
    config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60, bos_token_id=0, eos_token_id=0)
    graph = equal(transformers.GPT2LMHeadModel(config), (torch.randint(0, 60, (2, 6)),), {"use_cache": False})
    found = [op for op in graph.operations() if op["kind"] == "attention"]
    assert len(found) == 2 and all(op["attributes"]["causal"] and len(op["operands"]) == 3 for op in found)
    assert "wte.weight" in "".join(graph.weights()) and "lm_head.weight" not in graph.weights()


def test_vit() -> None:
    model = transformers.ViTModel(transformers.ViTConfig(image_size=32, **SMALL))
    graph = equal(model, (torch.randn(2, 3, 32, 32),))
    assert count(graph, "attention") == 2


def llama(**more: Any) -> Any:
    config = transformers.LlamaConfig(vocab_size=60, num_key_value_heads=2, **{**SMALL, **more})
    return transformers.LlamaForCausalLM(config)


def test_llama() -> None:
    graph = equal(llama(), (torch.randint(0, 60, (2, 7)),), {"use_cache": False})
    for op in graph.operations():
        if op["kind"] == "attention":  # causal, and key heads not repeated
            assert op["attributes"]["causal"] and len(op["operands"]) == 3
    # rotary tables depend on no input
    assert not {"sin", "cos", "iota", "cumulative"} & {
        op["attributes"].get("function", op["kind"]) for op in graph.operations()
    }


def test_llama_in_bf16() -> None:
    equal(llama().to(torch.bfloat16), (torch.randint(0, 60, (1, 7)),), {"use_cache": False})


def test_eager_attention_is_read_as_primitives() -> None:
    graph = equal(llama(attn_implementation="eager"), (torch.randint(0, 60, (1, 7)),), {"use_cache": False})
    assert count(graph, "softmax") == 2


class Decode(torch.nn.Module):
    """One token against a cache of keys and values."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Any, position: Any, *cache: Any) -> Any:
        past = transformers.DynamicCache()
        for layer in range(len(cache) // 2):
            past.update(cache[2 * layer], cache[2 * layer + 1], layer)
        out = self.model(ids, past_key_values=past, position_ids=position, use_cache=True)
        return out.logits


def test_decode_with_a_cache() -> None:
    cache = [torch.randn(1, 2, 9, 8) for _ in range(4)]
    graph = equal(Decode(llama()), (torch.tensor([[5]]), torch.tensor([[9]]), *cache))
    for op in graph.operations():
        if op["kind"] == "attention":
            assert len(op["operands"]) == 3  # a last token sees everything


FAMILIES = ["Mistral", "Qwen2", "Gemma", "Phi", "GPTNeoX", "OPT", "T5", "CLIPVision"]


@pytest.mark.parametrize(
    "name", [name if name in ("Gemma", "T5") else pytest.param(name, marks=pytest.mark.slow) for name in FAMILIES]
)
def test_other_families(name: str) -> None:
    args: Any = (torch.randint(2, 60, (1, 6)),)
    if name == "T5":
        config = transformers.T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=60)
        equal(transformers.T5EncoderModel(config), args)
    elif name == "CLIPVision":
        config = transformers.CLIPVisionConfig(image_size=32, patch_size=8, **SMALL)
        equal(transformers.CLIPVisionModel(config), (torch.randn(1, 3, 32, 32),))
    else:
        tokens = {"vocab_size": 60, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1}
        heads = {"num_key_value_heads": 2, "head_dim": 8} if name in ("Mistral", "Qwen2", "Gemma") else {}
        more = {"ffn_dim": 48, "word_embed_proj_dim": 32} if name == "OPT" else {}
        config = getattr(transformers, f"{name}Config")(**{**tokens, **heads, **SMALL, **more})
        equal(getattr(transformers, f"{name}Model")(config), args, {"use_cache": False})
