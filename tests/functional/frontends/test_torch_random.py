"""Random modules of torch: equal within rounding, or a clear named error; never a wrong number.

The bound of a tensor is a share of its largest element, plus some of torch's own error: how far its result is from the
one that it computes in f64 (sums that cancel have little else), and a few roundings of the largest number on the way.
"""

import copy
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
        module.largest = 0.0
        wanted = leaves(module(*inputs))
        exact = leaves(copy.deepcopy(module).double()(*(x.double() for x in inputs)))
    largest = module.largest
    got = list(ts.reference(graph, inputs).values())
    for mine, theirs, best in zip(got, wanted, exact, strict=True):
        bound = BOUNDS.get(theirs.dtype, 0)
        if bound:
            scale = float(theirs.abs().double().max()) or 1.0
            bound += 8 * float((theirs.double() - best).abs().max()) / scale
            bound += 8 * torch.finfo(theirs.dtype).eps * largest / scale
        assert difference(mine, theirs) <= bound, [str(step) for step in module.steps]
    try:
        program = ts.compile(graph, "edge-8")
    except ts.Unsupported:  # f64 products
        return
    assert ts.verify(program).ok, [str(step) for step in module.steps]
    ts.simulate(program)  # within its bound, as every run of the tests


@settings(max_examples=12, derandomize=True, **QUIET)
@given(modules())
def test_random_modules(drawn: Any) -> None:
    check(*drawn)


@pytest.mark.slow
@settings(max_examples=2000, **QUIET)
@given(modules())
def test_2000_random_modules(drawn: Any) -> None:
    check(*drawn)
