"""torch.compile with backend "tilesim": tiled programs, Results, graph breaks, errors."""

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch import nn  # noqa: E402

import tilesim as ts  # noqa: E402
from tilesim import torch_compile as torch_backend  # noqa: E402


@pytest.fixture(autouse=True)
def _fresh() -> Any:
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch_backend.reset()
    torch_backend.register()
    yield
    torch._dynamo.reset()
    torch_backend.reset()


def test_a_model_runs_as_a_tiled_program() -> None:
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10)).eval()
    compiled = torch.compile(model, backend="tilesim")
    x = torch.randn(8, 64)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-5, atol=1e-5)
        compiled(x)
    (record,) = torch_backend.records()
    assert record.calls == 2 and record.graph.parameters == 64 * 96 + 96 + 96 * 10 + 10
    (result,) = torch_backend.results()
    assert result.cycles == ts.simulate(record.graph, "tpu-v3").cycles > 0
    assert torch_backend.report()["graph_breaks"] == {} and not torch_backend.report()["uncaptured"]


def test_changed_weights_are_seen() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    compiled = torch.compile(model, backend="tilesim")
    x = torch.randn(1, 3, 6, 6)
    with torch.no_grad():
        compiled(x)
        for parameter in model.parameters():
            parameter.mul_(2).add_(0.5)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        model[1].running_mean.add_(1)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)


def test_other_shapes_are_other_graphs() -> None:
    compiled = torch.compile(lambda a, b: torch.relu(a @ b), backend="tilesim")
    for rows in (4, 6, 9):
        a, b = torch.randn(rows, 16), torch.randn(16, 8)
        torch.testing.assert_close(compiled(a, b), torch.relu(a @ b), rtol=1e-5, atol=1e-5)
    assert len(torch_backend.results()) == 3


def test_inputs_changed_in_place() -> None:
    def step(x: Any, y: Any) -> Any:
        x.mul_(y)
        return x + y

    x, y = torch.randn(4, 8), torch.randn(4, 8)
    want_x, want = x * y, x * y + y
    torch.testing.assert_close(torch.compile(step, backend="tilesim")(x, y), want)
    torch.testing.assert_close(x, want_x)


def test_machine_numerics() -> None:
    a, b = torch.randn(16, 64), torch.randn(64, 16)
    rounded = torch.compile(torch.mm, backend="tilesim", options={"machine": "tpu-v3", "numerics": "machine"})(a, b)
    wanted = (a.bfloat16().float() @ b.bfloat16().float()).numpy()
    torch.testing.assert_close(rounded, torch.from_numpy(wanted), rtol=1e-4, atol=1e-4)
    assert not torch.allclose(rounded, a @ b, rtol=1e-5, atol=1e-5)


def test_graph_breaks_are_reported() -> None:
    def broken(x: Any) -> Any:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return y * 2

    x = torch.randn(4, 8)
    torch.testing.assert_close(torch.compile(broken, backend="tilesim")(x), torch.relu(x) * 2)
    report = torch_backend.report()
    assert sum(report["graph_breaks"].values()) == 1 and report["uncaptured"] and len(report["graphs"]) == 2


def test_nothing_captured_is_reported() -> None:
    empty = {"graphs": [], "graph_breaks": {}, "frames": {"seen": 0, "captured": 0}, "uncaptured": True}
    assert torch_backend.report() == empty


def test_a_growing_cache_hits_the_recompile_limit_and_is_reported() -> None:
    """Beyond the limit torch runs eagerly in silence; a cache of fixed size stays with one graph."""

    def grow(x: Any, cache: Any) -> Any:
        cache = torch.cat([cache, x])
        return torch.softmax(x @ cache.T, -1) @ cache, cache

    grown = torch.compile(grow, backend="tilesim", dynamic=False)
    cache = torch.randn(1, 8)
    with torch._dynamo.config.patch(recompile_limit=3):
        for _ in range(5):
            x = torch.randn(1, 8)
            y, wanted = grown(x, cache)[0], grow(x, cache)
            torch.testing.assert_close(y, wanted[0], rtol=1e-5, atol=1e-5)
            cache = wanted[1]
    report = torch_backend.report()
    assert len(report["graphs"]) == 3 and report["uncaptured"]
    assert any("recompile limit" in reason for reason in report["graph_breaks"])
    assert report["frames"]["captured"] < report["frames"]["seen"]

    torch_backend.reset()
    torch._dynamo.reset()

    def fixed(x: Any, cache: Any, place: Any) -> Any:
        cache.index_copy_(0, place, x)
        keep = torch.arange(8) <= place
        return torch.softmax((x @ cache.T).masked_fill(~keep, float("-inf")), -1) @ cache

    kept = torch.compile(fixed, backend="tilesim", options={"fallback": "reference"})
    mine, theirs = torch.zeros(8, 8), torch.zeros(8, 8)
    for i in range(5):
        x, place = torch.randn(1, 8), torch.tensor([i])
        torch.testing.assert_close(kept(x, mine, place), fixed(x, theirs, place), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(mine, theirs)
    report = torch_backend.report()
    assert [row["calls"] for row in report["graphs"]] == [5] and not report["uncaptured"]


class Block(nn.Module):
    """What the layers of a small network are made of."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.last(self.norm(torch.nn.functional.gelu(self.first(x))))


class Images(nn.Module):
    """Convolution, batch norm in training, pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2)
        return self.last(x.flatten(1))


TRAINED = {"block": (Block, (6, 8)), "images": (Images, (6, 3, 8, 8))}


@pytest.mark.parametrize("name", TRAINED)
def test_a_training_step(name: str) -> None:
    """Forward and backward graphs run as tiled programs: losses, gradients and new weights equal eager torch's."""
    torch.manual_seed(0)
    make, shape = TRAINED[name]
    mine = make()
    theirs = copy.deepcopy(mine)
    compiled = torch.compile(mine, backend="tilesim")
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in (mine, theirs)]
    x, target = torch.randn(shape), torch.tensor([0, 1, 2, 3, 0, 1])
    for _ in range(2):
        losses = [torch.nn.functional.cross_entropy(model(x), target) for model in (compiled, theirs)]
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-5, atol=1e-6)
        for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
        for a, b in zip(mine.buffers(), theirs.buffers(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)
    forward, backward = torch_backend.records()
    assert forward.calls == backward.calls == 2 and forward.result.cycles > 0 and backward.result.cycles > 0


WINDOWS = {
    "averages that overlap": (lambda: nn.AvgPool2d(3, 2, 1), 2),
    "averages that go beyond the end": (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), 2),
    "averages in one dimension": (lambda: nn.AvgPool1d(2), 1),
    "averages in three dimensions": (lambda: nn.AvgPool3d(2), 3),
    "a divisor": (lambda: nn.AvgPool2d(2, divisor_override=3), 2),
    "adaptive averages": (lambda: nn.AdaptiveAvgPool2d((3, 4)), 2),
    "upsampling": (lambda: nn.Upsample(size=(12, 13)), 2),
    "bilinear upsampling": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), 2),
    "a transposed convolution": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), 2),
    "one in groups, dilated": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, groups=2, dilation=2), 2),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", WINDOWS)
def test_gradients_through_windows(name: str) -> None:
    torch.manual_seed(0)
    make, rank = WINDOWS[name]
    first = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[rank](3, 4, 3, padding=1)
    mine = nn.Sequential(first, make())
    theirs = copy.deepcopy(mine)
    x = torch.randn(2, 3, *(8, 9, 8)[:rank])
    for model in (torch.compile(mine, backend="tilesim"), theirs):
        model(x).square().mean().backward()
    for a, b in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-5 * float(b.grad.abs().max()))


def test_inference_with_parameters_that_ask_for_gradients() -> None:
    model = Block()
    x = torch.randn(5, 8)
    y = torch.compile(model, backend="tilesim")(x)  # without torch.no_grad()
    assert y.requires_grad
    torch.testing.assert_close(y, model(x), rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="tilesim")(x), model(x), rtol=1e-5, atol=1e-6)


def test_a_training_step_that_draws_numbers_is_named() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).train()
    with pytest.raises(Exception, match=r"random|dropout|rand") as raised:
        torch.compile(model, backend="tilesim")(torch.randn(4, 8)).sum().backward()
    assert isinstance(raised.value, ts.Error) or "Unsupported" in str(raised.value)


def test_unsupported_graphs() -> None:
    def hard(x: Any) -> Any:
        return torch.linalg.svdvals(x)

    with pytest.raises(ts.Unsupported, match="linalg_svd"):
        torch.compile(hard, backend="tilesim")(torch.eye(3))
    with pytest.raises(Exception, match="Did you mean 'machine'"):
        torch.compile(torch.relu, backend="tilesim", options={"machin": "tpu-v3"})(torch.eye(3))
    with pytest.raises(Exception, match="error, reference"):
        torch.compile(torch.relu, backend="tilesim", options={"fallback": "host"})(torch.eye(3))
