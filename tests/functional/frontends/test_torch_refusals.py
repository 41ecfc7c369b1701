"""What the PyTorch reader does not read: refused with the reason, never read as something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import tilesim as ts  # noqa: E402
from support.torch_equal import Applied  # noqa: E402

X = torch.linspace(-1, 1, 24).reshape(4, 6)
SQUARE = X[:, :4] + 3 * torch.eye(4)
IDS, EVEN, UNEVEN = torch.arange(6) % 4, torch.tensor([0, 2, 4]), torch.tensor([0, 1, 4])


def bags(starts: Any, **more: Any) -> Callable[..., Any]:
    return lambda ids, table: F.embedding_bag(ids, table, starts, **more)


def written(x: Any, values: Any) -> Any:
    y = x.clone()
    y[x > 0] = values
    return y


#: name: (a function, its arguments, words of the refusal, and the same thing as it is read)
REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, Callable[..., Any] | None]] = {
    "histogram": (lambda x: torch.histc(x, 4), (X,), "range of the data", lambda x: torch.histc(x, 4, -1, 1)),
    "one value's histogram": (lambda x: torch.histc(x, 4, 2, 2), (X,), "range of the data", None),
    "bags of two sizes": (bags(UNEVEN, mode="sum"), (IDS, X), "different sizes", bags(EVEN, mode="sum")),
    "bags that start late": (bags(torch.tensor([0, 3]), padding_idx=1), (IDS, X), "padding index", bags(EVEN)),
    "per-sample weights": (
        lambda ids, table, w: F.embedding_bag(ids, table, EVEN, per_sample_weights=w, mode="sum"),
        (IDS, X, torch.ones(6)),
        "per-sample weights",
        lambda ids, table, w: F.embedding_bag(ids, table, EVEN, mode="sum"),
    ),
    "no exchanges": (lambda x: torch.linalg.lu_factor_ex(x, pivot=False)[0], (SQUARE,), "without row exchanges", None),
    "dropout in training": (lambda x: F.dropout(x, 0.5, training=True), (X,), "random numbers", F.relu),
    "a product over the batch": (
        lambda x: torch.addbmm(x, x.reshape(1, 4, 6), x.t().reshape(1, 6, 4) @ x),
        (X,),
        "sum over the batch",
        None,
    ),
    "erfinv of f64": (torch.erfinv, (X.double() / 2,), "double precision", None),
    "values under a mask": (lambda x: written(x, x[0, :1].expand(12)), (X,), "mask", lambda x: written(x, 2.0)),
    "a scatter of its own": (
        lambda x: x.scatter_reduce(0, torch.zeros(4, 6, dtype=torch.long), x, "amax", include_self=False),
        (X,),
        "this reduction",
        lambda x: x.scatter_reduce(0, torch.zeros(4, 6, dtype=torch.long), x, "amax"),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, args, words, read = REFUSED[name]
    with pytest.raises(ts.Unsupported, match=words):
        ts.from_torch(Applied(function).eval(), args)
    if read is not None:
        assert len(ts.from_torch(Applied(read).eval(), args).operations()) > 0
