"""Random modules of torch: equal within rounding, or a clear named error; never a wrong number."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from hypothesis import HealthCheck, given, settings  # noqa: E402

import tilesim as ts  # noqa: E402
from support.torch_equal import difference, leaves  # noqa: E402
from support.torch_random import modules  # noqa: E402

QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
BOUNDS = {torch.float64: 1e-11, torch.float32: 2e-5, torch.bfloat16: 6e-2}


def check(module: Any, inputs: Any) -> None:
    try:
        graph = ts.from_torch(module, inputs)
    except ts.Unsupported as error:
        assert "aten." in str(error) or "torch.export" in str(error)
        return
    with torch.no_grad():
        wanted = leaves(module(*inputs))
    got = list(ts.reference(graph, inputs).values())
    for mine, theirs in zip(got, wanted, strict=True):
        assert difference(mine, theirs) <= BOUNDS.get(theirs.dtype, 0), [str(step) for step in module.steps]


@settings(max_examples=15, derandomize=True, **QUIET)
@given(modules())
def test_random_modules(drawn: Any) -> None:
    check(*drawn)


@pytest.mark.slow
@settings(max_examples=500, **QUIET)
@given(modules())
def test_500_random_modules(drawn: Any) -> None:
    check(*drawn)
