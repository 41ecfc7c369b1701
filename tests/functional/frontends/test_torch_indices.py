"""Places in sorted rows, and indices as torch takes them: negative ones count from the end where torch wraps them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import tilesim as ts  # noqa: E402
from support.torch_equal import equal  # noqa: E402


class One(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


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
    graph = equal(One(function), args)
    tensors = [arg.numpy() for arg in args]
    (tiled,) = ts.execute(ts.compile(graph, "edge-8"), tensors).values()
    np.testing.assert_array_equal(tiled, function(*args).numpy())


X, UPDATES = torch.arange(960.0).reshape(40, 24), torch.full((2, 24), -1.0)
BY_INDEX: dict[str, Callable[..., Any]] = {
    "index": lambda x, i: x[i],
    "index two": lambda x, i: x[i, i % 24],
    "index_put": lambda x, i: x.index_put((i,), UPDATES),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.0),
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: x.index_add(0, i, UPDATES),
    "index_copy": lambda x, i: x.index_copy(0, i, UPDATES),
    "gather": lambda x, i: x.gather(0, i.reshape(-1, 1)),
    "gather along rows": lambda x, i: x.gather(1, i.reshape(1, -1)),
    "scatter": lambda x, i: x.scatter(0, i.reshape(-1, 1), 1.0),
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding_bag": lambda x, i: F.embedding_bag(i.reshape(1, -1), x),
}
INDICES = ([1, 3], [-1, 0], [1, 40], [-41, 1])
WRAPPED = ("index", "index two", "index_put", "index_fill")


@pytest.mark.parametrize("name", BY_INDEX)
def test_indices_are_taken_or_refused_as_torch_does(name: str) -> None:
    """The error names the operation, the element of the indices, and its value where indices are not combined."""
    function = BY_INDEX[name]
    graph = ts.from_torch(One(function), (X, torch.tensor(INDICES[0])))
    program, refused = ts.compile(graph, "edge-8"), 0
    for indices in INDICES:
        given = torch.tensor(indices)
        tensors = [X.numpy(), given.numpy()]
        try:
            wanted = function(X, given).numpy()
        except (IndexError, RuntimeError):
            refused += 1
            for run, what in ((ts.execute, program), (ts.reference, graph)):
                with pytest.raises(ts.UserError, match="index is out of range") as error:
                    run(what, tensors)  # type: ignore[operator]
                assert name.split()[0] in str(error.value) and "transfer" not in str(error.value)
        else:
            (tiled,) = ts.execute(program, tensors).values()
            np.testing.assert_allclose(tiled, wanted)
    assert refused == (2 if name in WRAPPED else 3)


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
    graph = equal(One(function), args)
    (tiled,) = ts.execute(ts.compile(graph, "edge-8"), [arg.numpy() for arg in args]).values()
    assert tiled.shape == tuple(function(*args).shape) and tiled.size == 0


@pytest.mark.parametrize("places", [torch.tensor(0), torch.tensor([0])])
@pytest.mark.parametrize("kind", ["gather", "index_select"])
def test_a_number_is_indexed_as_a_vector_of_one(kind: str, places: Any) -> None:
    args = (torch.tensor(2.5), places)
    graph = equal(One(lambda x, i: getattr(x, kind)(0, i)), args)
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

    with pytest.raises(ts.Unsupported, match=r"custom object.*ConvTranspose2d up: .*Conv2dPackedParams.*ts\.quantize"):
        ts.from_torch(Quantized(), (torch.zeros(1, 3, 8, 8),))
