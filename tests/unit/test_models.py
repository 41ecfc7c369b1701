"""Networks: published parameter counts, values in range, the registry."""

import itertools

import numpy as np
import pytest

from tilesim import _core, models
from tilesim.graph import Graph

# --- networks ---

# torchvision: resnet, vgg16, mobilenet_v2, vit_b_16. Hugging Face classes at the published configuration: BertModel,
# GPT2LMHeadModel (tied head), LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, MixtralForCausalLM,
# MambaForCausalLM, DeepseekV3ForCausalLM and the 58 · 256 biases of its routers, Llama4ForCausalLM, CLIPModel.
# DeepSeekMoE 16B: the index of its weights. DiT-XL/2, Stable Diffusion 1.5 (diffusers): the published implementations,
# DiT's positions included. DLRM: 187,767,399 rows of 128 and the two networks of the MLPerf benchmark.
PARAMETERS = {
    "resnet34": 21_797_672,
    "vgg16": 138_357_544,
    "mobilenet-v2": 3_504_872,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "mistral-7b": 7_241_732_096,
    "qwen2.5-1.5b": 1_543_714_304,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-moe-16b": 16_375_728_128,
    "deepseek-v3": 671_026_404_352 + 58 * 256,
    "llama-4-scout": 107_769_861_120,
    "mamba-2.8b": 2_768_345_600,
    "stable-diffusion-1.5-unet": 859_520_964,
    "clip-vit-b-32": 151_277_313,
    "dit-xl-2": 675_129_632,
    "dlrm": 187_767_399 * 128 + 171_392 + 2_197_505,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
    "vit-b-16": 86_567_656,
    "mlp": 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10,
}
# multiply-adds as published: torchvision's model cards (GFLOPS there are multiply-adds)
GIGA_MACS = {"resnet18": 1.81, "resnet34": 3.66, "resnet50": 4.09, "vgg16": 15.47, "vit-b-16": 17.56}


@pytest.mark.parametrize("name", models.names())
def test_parameters_equal_the_published_counts(name: str) -> None:
    graph = models.build(name)
    assert graph.parameters == PARAMETERS[name]
    if name in GIGA_MACS:
        assert graph.flops()["matrix"] / 2e9 == pytest.approx(GIGA_MACS[name], rel=0.005)
    assert Graph.from_dict(graph.to_dict()) == graph


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["resnet18", "bert-base", "gpt2", "vit-b-16", "mlp"])
def test_random_networks_stay_in_range(name: str) -> None:
    takes_text = name in {"bert-base", "gpt2"}
    graph = models.build(name, sequence=8) if takes_text else models.build(name)
    for output in _core.evaluate(graph.core, _core.random_inputs(graph.core, 0)):
        values = np.asarray(output)
        assert np.isfinite(values).all() and 0.01 < values.std() < 100


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_networks_in_narrow_dtypes(dtype: str) -> None:
    for name in models.names():
        graph = models.build(name, batch=2, dtype=dtype)
        assert {output["dtype"] for output in graph.outputs} == {dtype}
        assert graph.parameters == PARAMETERS[name]


def test_batch_norm_folds_into_every_convolution() -> None:
    graph = models.build("resnet18")
    inputs = _core.random_inputs(graph.core, 0)
    before = np.asarray(_core.evaluate(graph.core, inputs)[0])
    assert graph.fold_batch_norm() == 20
    assert graph.remove_dead_code() > 20
    assert not any("running" in name for name in graph.weights())
    graph.check()
    assert "batch_norm" not in {op["kind"] for op in graph.operations()}
    np.testing.assert_allclose(_core.evaluate(graph.core, inputs)[0], before, rtol=1e-3, atol=1e-3)


def test_unknown_models_and_settings() -> None:
    with pytest.raises(_core.UserError, match="Did you mean 'resnet18'"):
        models.build("resnet-8")
    with pytest.raises(_core.UserError, match="reads no sequence"):
        models.build("resnet18", sequence=4)
    with pytest.raises(_core.UserError, match="1 to 512"):
        models.build("bert-base", sequence=513)
    with pytest.raises(_core.UserError, match="batch: out of range"):
        models.build("mlp", batch=0)
    with pytest.raises(_core.UserError, match="unknown dtype"):
        models.build("mlp", dtype="float31")
    with pytest.raises(_core.UserError, match="multiples of 16"):
        models.vit_b_16(image=100)


def test_the_table_of_kinds_is_whole() -> None:
    table = {kind["name"]: kind for kind in _core.kinds()}
    assert len(table) == 47
    assert [name for name, kind in table.items() if kind["composite"]] == [
        "softmax", "log_softmax", "normalize", "batch_norm", "attention", "rotary",
    ]  # fmt: skip
    for kind, attribute in itertools.product(table.values(), ("name", "type", "required", "allowed")):
        assert all(attribute in entry for entry in kind["attributes"])
