"""Networks: published parameter counts, values in range, the registry."""

import itertools

import numpy as np
import pytest

from tilesim import _core, models
from tilesim.graph import Graph

# --- networks ---

# torchvision: resnet18, resnet50, vit_b_16; Hugging Face: BertModel, GPT2LMHeadModel (tied head)
PARAMETERS = {
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "gpt2": 124_439_808,
    "vit-b-16": 86_567_656,
    "mlp": 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10,
}
# multiply-adds as published: torchvision's model cards (GFLOPS there are multiply-adds)
GIGA_MACS = {"resnet18": 1.81, "resnet50": 4.09, "vit-b-16": 17.56}


@pytest.mark.parametrize("name", models.names())
def test_parameters_equal_the_published_counts(name: str) -> None:
    graph = models.build(name)
    assert graph.parameters == PARAMETERS[name]
    if name in GIGA_MACS:
        assert graph.flops()["matrix"] / 2e9 == pytest.approx(GIGA_MACS[name], rel=0.005)
    assert Graph.from_json(graph.to_json()) == graph


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
    with pytest.raises(_core.UserError, match="positive"):
        models.build("mlp", batch=0)
    with pytest.raises(_core.UserError, match="unknown dtype"):
        models.build("mlp", dtype="float31")
    with pytest.raises(_core.UserError, match="multiples of 16"):
        models.vit_b_16(image=100)


def test_the_table_of_kinds_is_whole() -> None:
    table = {kind["name"]: kind for kind in _core.kinds()}
    assert len(table) == 29
    assert [name for name, kind in table.items() if kind["composite"]] == [
        "softmax",
        "log_softmax",
        "normalize",
        "batch_norm",
        "attention",
    ]
    for kind, attribute in itertools.product(table.values(), ("name", "type", "required", "allowed")):
        assert all(attribute in entry for entry in kind["attributes"])
