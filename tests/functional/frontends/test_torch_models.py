"""Whole models: the graph that `from_torch` gives equals torch's eager run."""

import inspect
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import tilesim as ts  # noqa: E402
from support.torch_equal import difference, equal  # noqa: E402
from support.torch_resnet import resnet  # noqa: E402
from tilesim.frontends.torch import frontend as torch_frontend  # noqa: E402

transformers = pytest.importorskip("transformers", reason="transformers is not installed")

SMALL = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4}


def everything(graph: Any, function: str = "") -> list[Any]:
    """Operations of all functions, those of a layer as often as it is called."""
    found = []
    for op in graph.operations(function):
        found += everything(graph, op["functions"][0]) if op["kind"] == "call" else [op]
    return found


def count(graph: Any, kind: str) -> int:
    return sum(op["kind"] == kind for op in everything(graph))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("layers", [18, pytest.param(50, marks=pytest.mark.slow)])
def test_resnets(layers: int) -> None:
    graph = equal(resnet(layers), (torch.randn(1, 3, 32, 32),))
    assert graph.parameters == {18: 11_689_512, 50: 25_557_032}[layers]
    assert count(graph, "convolution") == count(graph, "batch_norm") == {18: 20, 50: 53}[layers]


def test_bert() -> None:
    model = transformers.BertModel(transformers.BertConfig(vocab_size=60, **SMALL))
    mask = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    graph = equal(model, (torch.randint(0, 60, (2, 5)),), {"attention_mask": mask})
    assert count(graph, "attention") == 1
    # without padding the mask hides nothing and is gone
    graph = equal(model, (torch.randint(0, 60, (2, 5)),))
    assert all(len(op["operands"]) == 3 for op in everything(graph) if op["kind"] == "attention")


def test_gpt2() -> None:
    config = transformers.GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=60, bos_token_id=0, eos_token_id=0)
    graph = equal(transformers.GPT2LMHeadModel(config), (torch.randint(0, 60, (2, 6)),), {"use_cache": False})
    found = [op for op in everything(graph) if op["kind"] == "attention"]
    assert len(found) == 1 and all(op["attributes"]["causal"] and len(op["operands"]) == 3 for op in found)
    assert "wte.weight" in "".join(graph.weights()) and "lm_head.weight" not in graph.weights()


def llama(**more: Any) -> Any:
    config = transformers.LlamaConfig(vocab_size=60, num_key_value_heads=2, **{**SMALL, **more})
    return transformers.LlamaForCausalLM(config)


def test_llama() -> None:
    graph = equal(llama(), (torch.randint(0, 60, (2, 7)),), {"use_cache": False})
    for op in everything(graph):
        if op["kind"] == "attention":  # causal, and key heads not repeated
            assert op["attributes"]["causal"] and len(op["operands"]) == 3
    # rotary tables depend on no input
    assert not {"sin", "cos", "iota", "cumulative"} & {
        op["attributes"].get("function", op["kind"]) for op in everything(graph)
    }


@pytest.mark.slow
def test_llama_in_bf16() -> None:
    equal(llama().to(torch.bfloat16), (torch.randint(0, 60, (1, 7)),), {"use_cache": False})


def test_repeated_layers_are_one_function() -> None:
    model, ids = llama(num_hidden_layers=2, tie_word_embeddings=True), torch.randint(0, 60, (2, 7))
    graph = equal(model, (ids,), {"use_cache": False})
    assert graph.functions == ["main", "model.layers"]
    assert [op["name"] for op in graph.operations() if op["kind"] == "call"] == [f"model.layers.{i}" for i in range(2)]
    plain = ts.from_torch(model, (ids,), {"use_cache": False}, functions=False)
    assert plain.functions == ["main"] and plain.flops() == graph.flops() and plain.parameters == graph.parameters
    inlined = graph.copy()
    assert inlined.inline_calls() == 2
    for got, wanted in zip(ts.reference(graph, (ids,)).values(), ts.reference(plain, (ids,)).values(), strict=True):
        assert (got == wanted).all()


@pytest.mark.slow
def test_eager_attention_is_recognised() -> None:
    """Written out or not, attention, its key heads and its mask come to the same graph."""
    ids = torch.randint(0, 60, (1, 7))
    found = []
    for implementation in ("eager", "sdpa"):
        graph = equal(llama(attn_implementation=implementation), (ids,), {"use_cache": False})
        found.append(sorted(op["kind"] for op in everything(graph)))
        attention = [op for op in everything(graph) if op["kind"] == "attention"]
        assert attention and all(op["attributes"]["causal"] and len(op["operands"]) == 3 for op in attention)
        assert all(op["operands"][1]["shape"][1] == 2 for op in attention)
        assert count(graph, "rotary") == 2 * len(attention) and count(graph, "softmax") == 0
    assert found[0] == found[1]
    plain = ts.from_torch(llama(attn_implementation="eager"), (ids,), {"use_cache": False}, passes="none")
    assert count(plain, "softmax") == 1 and count(plain, "attention") == 0


class Decode(torch.nn.Module):
    """One token against a cache of keys and values."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        # newer transformers call it cache
        self.cache_name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"

    def forward(self, ids: Any, position: Any, *cache: Any) -> Any:
        past = transformers.DynamicCache()
        for layer in range(len(cache) // 2):
            past.update(cache[2 * layer], cache[2 * layer + 1], layer)
        out = self.model(ids, position_ids=position, use_cache=True, **{self.cache_name: past})
        return out.logits


def test_decode_with_a_cache() -> None:
    cache = [torch.randn(1, 2, 9, 8) for _ in range(2)]
    graph = equal(Decode(llama()), (torch.tensor([[5]]), torch.tensor([[9]]), *cache))
    for op in everything(graph):
        if op["kind"] == "attention":
            assert len(op["operands"]) == 3  # a last token sees everything


def test_a_static_cache_is_updated_in_place() -> None:
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    model = llama().eval()
    cache = {"batch_size": 1, "max_cache_len": 12}
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static", max_length=12, cache_config=cache
    )
    module = TorchExportableModuleWithStaticCache(model, **cache, device=torch.device("cpu"))
    tokens = [{"input_ids": torch.tensor([[5 + i]]), "cache_position": torch.tensor([i])} for i in range(3)]
    exported = torch_frontend.export(module, (), tokens[0], strict=True)
    graph = ts.from_torch(exported)
    caches = [row["name"] for row in graph.inputs if len(row["shape"]) == 4]
    aliased = {graph.inputs[to]["name"]: graph.outputs[out]["name"] for out, to in graph.core.aliases}
    assert len(caches) == 2 and set(caches) <= set(aliased) and set(aliased) == set(graph.defaults)
    assert [op["operands"][1]["shape"][1] for op in everything(graph) if op["kind"] == "attention"] == [2]
    assert count(graph, "dynamic_update") == 2
    state: dict[str, Any] = {}
    for token in tokens:
        caches_at_2 = {name: value for name, value in state.items() if name in caches}
        found = ts.reference(graph, {**{key: value.numpy() for key, value in token.items()}, **state})
        with torch.no_grad():
            wanted = module(**token)
        assert difference(next(iter(found.values())), wanted) <= 1e-5
        state = {name: found[output] for name, output in aliased.items()}
    place = {"cache_position": 2, "cumulative_length_*": 2}
    fixed = ts.from_torch(exported, fixed=place)
    assert [row["name"] for row in fixed.inputs if row["shape"] == (1,)] == []
    for op in everything(fixed):
        if op["kind"] == "attention":
            assert op["attributes"]["kv_len"] == 3 and len(op["operands"]) == 3
    assert fixed.compulsory_bytes() < graph.compulsory_bytes()
    found = ts.reference(fixed, {"input_ids": tokens[2]["input_ids"].numpy(), **caches_at_2})
    assert difference(next(iter(found.values())), wanted) <= 1e-5
    with pytest.raises(ts.UserError, match="no tensor input has this name"):
        ts.from_torch(exported, fixed=["position"])


@pytest.mark.slow
def test_caches_come_out_and_are_refused_as_inputs_with_the_remedy() -> None:
    model = llama()
    graph = ts.from_torch(model.eval(), (torch.randint(0, 60, (1, 3)),))
    assert [row["shape"] for row in graph.outputs] == [(1, 3, 60)] + 2 * [(1, 2, 3, 8)]
    cache = transformers.DynamicCache()
    for layer in range(1):
        cache.update(torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8), layer)
    with pytest.raises(ts.Unsupported, match="keys and values as tensors"):
        ts.from_torch(model, (torch.tensor([[3]]),), {"past_key_values": cache})


@pytest.mark.slow
def test_the_loop_over_experts_is_refused_with_the_remedy() -> None:
    experts = {"num_key_value_heads": 2, "num_local_experts": 4, "experts_implementation": "eager", "vocab_size": 60}
    model = transformers.MixtralForCausalLM(transformers.MixtralConfig(**{**SMALL, **experts}))
    with pytest.raises(ts.Unsupported, match=r"depends on data.*grouped"):
        ts.from_torch(model.eval(), (torch.randint(0, 60, (1, 3)),), {"use_cache": False})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Llama4", "GPTNeoX", "OPT"])
def test_families_that_from_transformers_is_not_tried_on(name: str) -> None:
    tokens = {"vocab_size": 60, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 1}
    if name == "Llama4":  # rotary positions as complex numbers
        more = {"num_local_experts": 3, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size_mlp": 48}
        model = transformers.Llama4ForCausalLM(transformers.Llama4TextConfig(**SMALL, **more, vocab_size=60))
    else:
        more = {"ffn_dim": 48, "word_embed_proj_dim": 32} if name == "OPT" else {}
        config = getattr(transformers, f"{name}Config")(**{**tokens, **SMALL, **more})
        model = getattr(transformers, f"{name}Model")(config)
    equal(model, (torch.randint(2, 60, (1, 6)),), {"use_cache": False})
