"""Networks at full size, from the framework's classes: imported, executed in tiles, simulated. Minutes: slow."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
import tilesim as ts  # noqa: E402
from support.torch_equal import equal  # noqa: E402
from support.torch_resnet import resnet  # noqa: E402


def tokens(length: int) -> Any:
    return torch.randint(0, 30000, (1, length))


def images() -> Any:
    return torch.randn(1, 3, 224, 224)


#: module, arguments, options of its call, published count of parameters
NETWORKS: dict[str, Any] = {
    "resnet18": lambda: (resnet(18), images(), {}, 11_689_512),
    "resnet50": lambda: (resnet(50), images(), {}, 25_557_032),
    "bert-base": lambda: (transformers.BertModel(transformers.BertConfig()), tokens(128), {}, 109_482_240),
    "gpt2": lambda: (
        transformers.GPT2LMHeadModel(transformers.GPT2Config()), tokens(128), {"use_cache": False}, 124_439_808
    ),
    "vit-b-16": lambda: (
        transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000)), images(), {}, 86_567_656
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_import_execute_simulate(name: str) -> None:
    """The graph equals torch's eager run, the tiled program the graph; the zoo's network counts the same products."""
    torch.manual_seed(0)
    module, x, more, parameters = NETWORKS[name]()
    graph = equal(module, (x,), more, bound=1e-4)
    machine = ts.Machine.load("tpu-v3").replace({"core.array.multiply": "as stored"})
    program = ts.compile(graph, machine)
    result = ts.simulate(program)
    assert result.cycles > 0 and result.data["multiply_adds"] == pytest.approx(graph.flops()["matrix"] / 2, rel=1e-9)
    # BERT's pooler needs no output of its own; what no output reads is not in a graph.
    assert sum(p.numel() for p in module.parameters()) == parameters >= graph.parameters
    got, wanted = ts.execute(program, [x]), ts.reference(graph, [x])
    for output, value in wanted.items():
        scale = float(np.max(np.abs(value)))
        np.testing.assert_allclose(np.asarray(got[output]) / scale, value / scale, atol=1e-4, err_msg=output)
