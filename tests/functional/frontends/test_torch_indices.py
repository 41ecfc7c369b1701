"""Places in sorted rows, and indices of nothing, as torch has them; `test_torch_values.py` has those out of range."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import tilesim as ts  # noqa: E402
from support.torch_equal import Applied, equal  # noqa: E402

FLOATS = torch.tensor([-1.0, 0.0, 0.0, 2.5, torch.inf])
VALUES = torch.tensor([[-2.0, -1.0, 0.0], [2.5, torch.inf, torch.nan]])
ROWS = torch.tensor([[1, 3, 3, 5], [2, 4, 6, 8]], dtype=torch.int32)
QUESTIONS = torch.tensor([[3, 6, 0], [2, 9, 8]], dtype=torch.int32)
MIXED = torch.tensor([3, 1, 2], dtype=torch.int32)

PLACES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "left": (torch.searchsorted, (FLOATS, VALUES)),
    "right": (lambda s, v: torch.searchsorted(s, v, right=True), (FLOATS, VALUES)),
    "side, 32 bits": (lambda s, v: torch.searchsorted(s, v, side="right", out_int32=True), (FLOATS, VALUES)),
    "a row for each": (torch.searchsorted, (ROWS, QUESTIONS)),
    "sorted by places": (lambda s, v: torch.searchsorted(s, v, sorter=torch.argsort(s)), (MIXED, QUESTIONS)),
    "a number": (lambda s: torch.searchsorted(s, 3), (ROWS[0].clone(),)),
    "buckets": (lambda v, s: torch.bucketize(v, s, right=True), (VALUES, FLOATS)),
    "a number's bucket": (lambda s: torch.bucketize(2.5, s), (FLOATS,)),
}


@pytest.mark.parametrize("name", PLACES)
def test_places_in_sorted_rows(name: str) -> None:
    function, args = PLACES[name]
    graph = equal(Applied(function), args)
    tensors = [arg.numpy() for arg in args]
    (tiled,) = ts.execute(ts.compile(graph, "edge-8"), tensors).values()
    np.testing.assert_array_equal(tiled, function(*args).numpy())


EMPTY: dict[str, tuple[Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "gather beside an empty axis": (lambda x, i: x.gather(3, i), (16, 8, 0, 17), (16, 8, 0, 3)),
    "gather along an empty axis": (lambda x, i: x.gather(0, i), (0, 3), (0, 3)),
    "gather of nothing": (lambda x, i: x.gather(0, i), (4, 3), (0, 3)),
    "index": (lambda x, i: x[i], (0, 3), (0,)),
    "index_select": (lambda x, i: x.index_select(1, i), (4, 0), (0,)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_is_taken(name: str) -> None:
    function, extents, places = EMPTY[name]
    args = (torch.randn(extents), torch.zeros(places, dtype=torch.int64))
    graph = equal(Applied(function), args)
    (tiled,) = ts.execute(ts.compile(graph, "edge-8"), [arg.numpy() for arg in args]).values()
    assert tiled.shape == tuple(function(*args).shape) and tiled.size == 0


@pytest.mark.parametrize("places", [torch.tensor(0), torch.tensor([0])])
@pytest.mark.parametrize("kind", ["gather", "index_select"])
def test_a_number_is_indexed_as_a_vector_of_one(kind: str, places: Any) -> None:
    args = (torch.tensor(2.5), places)
    graph = equal(Applied(lambda x, i: getattr(x, kind)(0, i)), args)
    (tiled,) = ts.execute(ts.compile(graph, "edge-8"), [arg.numpy() for arg in args]).values()
    np.testing.assert_array_equal(tiled, getattr(args[0], kind)(0, places).numpy())


def test_a_module_with_packed_weights_is_named() -> None:
    class Quantized(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch's, about its accuracy
                self.up = torch.ao.nn.quantized.dynamic.ConvTranspose2d(3, 4, 3)

        def forward(self, x: Any) -> Any:
            return self.up(x)

    with pytest.raises(ts.Unsupported, match=r"C\+\+ object.*ConvTranspose2d up: .*Conv2dPackedParams.*ts\.quantize"):
        ts.from_torch(Quantized(), (torch.zeros(1, 3, 8, 8),))
