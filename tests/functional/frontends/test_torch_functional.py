"""Programs that are functional as torch exports them are read as they are, to the graph that torch's own form gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from tilesim.frontends.torch import frontend  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Parts(nn.Module):
    """Views, sums, products, choices, constants."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x: Any) -> Any:
        x = F.silu(self.inner(x)) + torch.tanh(x).sum(-1, keepdim=True)
        x = x.view(4, 16).permute(1, 0).unsqueeze(0).expand(3, 16, 4)[1, :, ::2]
        x = torch.cat([x @ x.transpose(0, 1), x.abs()], 1).softmax(-1)
        return torch.where(x > 0.05, x, x * 2), x.amax(1)


class Twice(nn.Module):
    """Equal results, an input that is an output, and what nobody reads."""

    def forward(self, x: Any) -> Any:
        first, second, _unread = x + 1, x + 1, x * 7
        return first, second, first, x


class InPlace(nn.Module):
    """Writes to a part of a tensor, then reads the whole."""

    def forward(self, x: Any) -> Any:
        y = x * 2
        y[1:, 0].add_(1)
        return y.exp()


class Buffer(nn.Module):
    """Counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(8))

    def forward(self, x: Any) -> Any:
        self.calls.add_(1)
        return x + self.calls


FUNCTIONAL = {
    "parts": Parts(),
    "twice": Twice(),
    "layers": nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8), nn.Softmax(-1)),
    "convolution": nn.Sequential(nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 4, 3), nn.GELU()),
}
OTHERS = {
    "in place": InPlace(),
    "buffer": Buffer(),
    "normalized": nn.Sequential(nn.BatchNorm1d(8), nn.LayerNorm(8)),
    "dropout": nn.Sequential(nn.Dropout(0.5), nn.Flatten()),
}


def exported(module: Any, training: bool = False) -> Any:
    return torch.export.export(module.train(training), (torch.linspace(-1, 1, 64).reshape(8, 8),))


@pytest.mark.parametrize("name", [*FUNCTIONAL, *OTHERS])
def test_same_graph_and_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = (FUNCTIONAL | OTHERS)[name]
    graph = ts.from_torch(exported(module))
    x = torch.linspace(-1, 1, 64).reshape(8, 8)
    with torch.no_grad():
        wanted = module.eval()(x)
    got = list(ts.reference(graph, {graph.inputs[0]["name"]: x.numpy()} if len(graph.inputs) == 1 else None).values())
    if name != "buffer":
        for own, one in zip(wanted if isinstance(wanted, tuple) else (wanted,), got, strict=False):
            np.testing.assert_allclose(one, own.numpy(), rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(frontend, "_is_functional", lambda program: False)
    assert graph.core.to_json() == ts.from_torch(exported(module)).core.to_json()


def test_which_are_read_as_they_are() -> None:
    for name, module in FUNCTIONAL.items():
        if name != "convolution":  # whose Unflatten may be a view of one
            assert frontend._is_functional(exported(module)), name
    for name, module in OTHERS.items():
        assert not frontend._is_functional(exported(module, training=True)), name


def test_no_time_of_torch_for_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 operations without a decomposition."""

    class Long(nn.Module):
        def forward(self, x: Any) -> Any:
            for _ in range(100):
                x = torch.sigmoid(x).exp().neg() + x
            return x

    program = exported(Long())

    def refused(*_args: Any) -> Any:
        raise AssertionError("decomposed")

    monkeypatch.setattr(type(program), "run_decompositions", refused)
    assert len(list(program.graph.nodes)) > 400
    assert ts.from_torch(program).core is not None
