"""Layers of torch equal the reference kernels: convolutions, pooling, normalization, attention, state."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import tilesim as ts  # noqa: E402
from support.torch_equal import equal  # noqa: E402


class Each(nn.Module):
    """Every layer on its own input."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, *inputs: Any) -> list[Any]:
        return [layer(x) for layer, x in zip(self.layers, inputs, strict=True)]


def each(*pairs: tuple[nn.Module, tuple[int, ...]]) -> ts.Graph:
    torch.manual_seed(0)
    return equal(Each(*[layer for layer, _ in pairs]), tuple(torch.randn(shape) for _, shape in pairs))


def test_convolutions() -> None:
    each(
        (nn.Conv2d(4, 6, 3), (2, 4, 7, 8)),
        (nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 3), groups=2), (2, 4, 9, 9)),
        (nn.Conv2d(6, 6, 3, padding="same", groups=6, bias=False), (1, 6, 5, 5)),
        (nn.Conv2d(4, 2, 4, padding="same", dilation=2), (1, 4, 9, 9)),
        (nn.Conv2d(3, 4, 3), (3, 6, 6)),
        (nn.Conv1d(3, 4, 3, stride=2, padding=2, padding_mode="circular"), (2, 3, 11)),
        (nn.Conv3d(2, 4, 2, groups=2), (1, 2, 4, 5, 6)),
        (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 5, 6)),
        (nn.ConvTranspose2d(4, 6, 3, stride=3, groups=2, dilation=2), (1, 4, 4, 4)),
        (nn.ConvTranspose1d(4, 3, 4, stride=2), (2, 4, 7)),
        (nn.ConvTranspose3d(2, 3, 2, stride=2), (1, 2, 3, 3, 3)),
    )


def test_pooling() -> None:
    each(
        (nn.MaxPool2d(3, stride=2, padding=1), (2, 3, 9, 10)),
        (nn.MaxPool2d(3, stride=2, ceil_mode=True), (2, 3, 8, 8)),
        (nn.MaxPool2d(2, stride=1, dilation=2), (1, 3, 7, 7)),
        (nn.MaxPool1d(3), (2, 3, 10)),
        (nn.MaxPool3d(2), (1, 2, 4, 5, 6)),
        (nn.AvgPool2d(3, stride=2, padding=1), (2, 3, 9, 10)),
        (nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False), (2, 3, 9, 10)),
        (nn.AvgPool2d(3, stride=2, padding=1, ceil_mode=True), (2, 3, 8, 8)),
        (nn.AvgPool2d(2, divisor_override=3), (2, 3, 8, 8)),
        (nn.AvgPool1d(3, padding=1), (2, 3, 10)),
        (nn.AvgPool3d(2), (1, 2, 4, 4, 4)),
        (nn.AdaptiveAvgPool2d(1), (2, 3, 5, 6)),
        (nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 6, 6)),
        (nn.AdaptiveAvgPool2d((3, 4)), (2, 3, 7, 6)),
        (nn.AdaptiveAvgPool1d(3), (2, 3, 8)),
        (nn.AdaptiveMaxPool2d((2, 3)), (2, 3, 5, 6)),
        (nn.Upsample(scale_factor=2), (1, 2, 3, 4)),
        (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 4)),
    )


def test_normalization() -> None:
    norm = nn.BatchNorm2d(3)
    norm.running_mean, norm.running_var = torch.randn(3), torch.rand(3) + 0.5
    each(
        (norm, (2, 3, 4, 5)),
        (nn.BatchNorm1d(5, affine=False), (4, 5)),
        (nn.LayerNorm(6), (2, 3, 6)),
        (nn.LayerNorm((3, 6), elementwise_affine=False), (2, 3, 6)),
        (nn.LayerNorm(6, bias=False), (2, 6)),
        (nn.RMSNorm(6), (2, 3, 6)),
        (nn.GroupNorm(2, 6), (2, 6, 4, 4)),
        (nn.InstanceNorm2d(3, affine=True), (2, 3, 4, 4)),
        (nn.LocalResponseNorm(3), (2, 6, 4, 4)),
        (nn.Softmax(1), (2, 3, 4)),
        (nn.PReLU(3), (2, 3, 4)),
        (nn.GLU(), (2, 6)),
    )


class Attention(nn.Module):
    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.settings = settings

    def forward(self, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        return F.scaled_dot_product_attention(q, k, v, mask, **self.settings)


def test_attention() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.randn(2, 4, 7, 6)
    equal(Attention(), (q, k, v))
    equal(Attention(is_causal=True), (q, k, v))
    keep = torch.rand(2, 1, 5, 7) > 0.3
    keep[0, :, 2] = False  # a row that sees nothing is zero
    equal(Attention(scale=0.2), (q, k, v, keep))
    equal(Attention(), (q, k, v, torch.randn(5, 7)))
    equal(Attention(enable_gqa=True), (q, k[:, :2], v[:, :2]))
    equal(Attention(), (q[0], k[0], v[0]))
    equal(Attention(), (q, k[:1], v[:1]))  # batch axes and heads of 1 are repeated
    equal(Attention(), (q[:1], k, v))
    equal(Attention(), (q[:, :1], k, v[:, :1]))
    equal(Attention(), (q, k[:, :1], v))
    equal(Attention(), (q[0], k[0, :1], v[0, :1]))
    equal(Attention(), (q, k[0], v[0, 0]))


def test_multihead_attention_and_a_transformer_layer() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
    equal(layer, (torch.randn(2, 5, 16),))
    decoder = nn.TransformerDecoderLayer(16, 4, 32, activation="gelu")
    equal(decoder, (torch.randn(5, 2, 16), torch.randn(7, 2, 16)))


def test_known_masks_become_attributes() -> None:
    class Causal(nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            t = q.shape[2]
            mask = torch.full((t, t), float("-inf")).triu(1)
            seen = torch.ones(1, 1, t, t, dtype=torch.bool)
            window = (torch.arange(t)[:, None] - torch.arange(t)).abs() < 2
            attend = F.scaled_dot_product_attention
            return attend(q, k, v, mask), attend(q, k, v, seen), attend(q, k, v, window)

    graph = equal(Causal(), tuple(torch.randn(1, 2, 6, 4) for _ in range(3)))
    found = [op for op in graph.operations() if op["kind"] == "attention"]
    assert [len(op["operands"]) for op in found] == [3, 3, 3]
    spans = [tuple(op["attributes"].get(name, 0) for name in ("causal", "causal_offset", "window")) for op in found]
    assert spans == [(True, 0, 0), (0, 0, 0), (True, 1, 3)]  # the third one is a band: t - 1, t, t + 1


def test_repeated_key_heads_are_not_materialised() -> None:
    class Grouped(nn.Module):
        def forward(self, q: Any, k: Any, v: Any) -> Any:
            def repeat(x: Any) -> Any:
                b, h, t, d = x.shape
                return x[:, :, None].expand(b, h, 3, t, d).reshape(b, 3 * h, t, d)

            return F.scaled_dot_product_attention(q, repeat(k), repeat(v))

    graph = equal(Grouped(), (torch.randn(2, 6, 5, 4), torch.randn(2, 2, 7, 4), torch.randn(2, 2, 7, 4)))
    assert [op["kind"] for op in graph.operations()] == ["attention"]


def test_embedding_bags() -> None:
    bags = [nn.EmbeddingBag(10, 4, mode=mode) for mode in ("sum", "mean", "max")]

    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = nn.ModuleList(bags)

        def forward(self, ids: Any) -> list[Any]:
            return [bag(ids) for bag in self.bags]

    equal(Bags(), (torch.randint(0, 10, (3, 5)),))


def test_tied_weights_are_one_weight_by_reference() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(11, 4)
            self.head = nn.Linear(4, 11, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids: Any) -> Any:
            return self.head(self.embed(ids))

    module = Tied()
    graph = equal(module, (torch.tensor([[1, 2, 3]]),))
    assert graph.parameters == 44 and list(graph.weights()) == ["embed.weight"]
    before = next(iter(ts.reference(graph, ([[1, 2, 3]],)).values())).copy()
    with torch.no_grad():
        module.embed.weight.mul_(2)
    after = next(iter(ts.reference(graph, ([[1, 2, 3]],)).values()))
    np.testing.assert_allclose(after, 4 * before, rtol=1e-6)


def test_state_is_an_alias_with_a_default() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.full((3,), 2.0))

        def forward(self, x: Any) -> Any:
            self.total.add_(x)
            return self.total * 2

    x = torch.tensor([1.0, 2.0, 3.0])
    graph = ts.from_torch(Counter(), (x,))
    assert graph.core.aliases == [(1, [row["name"] for row in graph.inputs].index("total"))]
    outputs = list(ts.reference(graph, (x,)).values())
    np.testing.assert_array_equal(outputs[0], [6, 8, 10])
    np.testing.assert_array_equal(outputs[1], [3, 4, 5])
    other = ts.reference(graph, {"x": x, "total": np.zeros(3, np.float32)})
    np.testing.assert_array_equal(list(other.values())[1], [1, 2, 3])


def test_outputs_that_are_inputs_weights_or_each_other() -> None:
    class Same(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: Any) -> Any:
            y = x.relu()
            return x, x.permute(0, 1), y, y.view(2, 3), self.weight, self.weight.view(3), torch.arange(3)

    x = torch.randn(2, 3)
    graph = equal(Same(), (x,))
    assert len({row["name"] for row in [*graph.inputs, *graph.outputs]}) == 8
    found = ts.execute(ts.compile(graph), (x,))
    np.testing.assert_array_equal(found[graph.outputs[1]["name"]], x.numpy())


def test_batch_norm_in_training_updates_its_statistics() -> None:
    torch.manual_seed(0)
    module, x = nn.BatchNorm1d(4), torch.randn(8, 4)
    graph = ts.from_torch(module.train(), (x,))
    got = ts.reference(graph, (x,))
    wanted = module(x)
    outputs = dict(zip(got, got.values(), strict=True))
    np.testing.assert_allclose(next(iter(outputs.values())), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs["running_mean.new"], module.running_mean.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs["running_var.new"], module.running_var.numpy(), rtol=1e-5, atol=1e-6)


def test_weights_without_elements_serve_for_timing() -> None:
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    graph = ts.from_torch(module.eval(), (torch.empty(8, 256, device="meta"),))
    assert graph.parameters == 256 * 512 + 512 + 512 * 10 + 10
    assert {row["source"] for row in graph.weights().values()} == {"random"}
    assert ts.simulate(graph).cycles > 0


def test_indices_without_elements_are_inside_every_table() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(16, 8)
            self.register_buffer("positions", torch.arange(16).expand(1, -1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.table(self.positions[:, :4])

    with torch.device("meta"):
        module = Positions()
    graph = ts.from_torch(module.eval(), (torch.empty(1, 4, 8, device="meta"),))
    program = ts.compile(graph, "edge-8")
    assert ts.verify(program).ok and ts.simulate(program).cycles > 0


def test_exported_programs_are_read_as_they_are() -> None:
    module, x = nn.Linear(4, 2), torch.randn(3, 4)
    graph = ts.from_torch(torch.export.export(module, (x,)))
    np.testing.assert_allclose(next(iter(ts.reference(graph, (x,)).values())), module(x).detach().numpy(), rtol=1e-5)


def test_names_and_places() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    operations = {op["name"]: op for op in ts.from_torch(module, (torch.randn(3, 4),)).operations()}
    assert {"0", "1", "2"} <= set(operations)
    assert ":" in operations["2"]["source"]


def test_run_execute_and_verify() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                           nn.Linear(8 * 16, 10)).eval()  # fmt: skip
    x = torch.randn(2, 3, 8, 8)
    assert ts.run(module, (x,)).cycles > 0
    exact = ts.Machine.load("tpu-v3").replace({"core.array.multiply": "as stored"})
    program = ts.compile(ts.from_torch(module, (x,)), exact)
    assert ts.verify(program, (x,)).ok
    got = next(iter(ts.execute(program, (x,)).values()))
    np.testing.assert_allclose(got, module(x).detach().numpy(), rtol=1e-4, atol=1e-4)


def test_errors_name_the_overload_and_the_place() -> None:
    class Hard(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svdvals(x)

    with pytest.raises(ts.Unsupported, match=r"linalg_svd.*test_torch_layers\.py:\d+: return torch\.linalg\.svdvals"):
        ts.from_torch(Hard(), (torch.eye(3),))

    class Choice(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + 1 if x.sum() > 0 else x

    with pytest.raises(ts.Unsupported, match=r"depends on data.*torch\.where"):
        ts.from_torch(Choice(), (torch.eye(3),))

    class Sized(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0]

    with pytest.raises(ts.Unsupported, match=r"torch\.where|fixed shapes"):
        ts.from_torch(Sized(), (torch.eye(3),))
    with pytest.raises(ts.Unsupported, match="eval"):
        ts.from_torch(nn.Dropout(0.5).train(), (torch.eye(3),))
    with pytest.raises(ts.UserError, match="not a model"):
        ts.run(3)
    with pytest.raises(ts.UserError, match=r"not a torch\.nn\.Module"):
        ts.from_torch(lambda x: x, (torch.eye(3),))
