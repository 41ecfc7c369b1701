"""Values at the edges, as torch has them: conversions, indices out of range, the next number."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.nn.functional as F  # noqa: E402

import tilesim as ts  # noqa: E402
from support.torch_equal import Applied  # noqa: E402


def both(function: Callable[..., Any], *inputs: Any, machine: str = "edge-8") -> list[list[Any]]:
    """Outputs of the reference and of the tiled program."""
    graph = ts.from_torch(Applied(function), inputs)
    tiled = ts.execute(ts.compile(graph, machine), inputs)
    return [list(outputs.values()) for outputs in (ts.reference(graph, inputs), tiled)]


def wide(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.float().double() if tensor.is_floating_point() else tensor.to(torch.int64))


def check(function: Callable[..., Any], *inputs: Any) -> None:
    wanted = function(*inputs)
    for outputs in both(function, *inputs):
        for mine, theirs in zip(outputs, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            expected = wide(theirs)
            np.testing.assert_array_equal(np.asarray(mine).astype(expected.dtype), expected, err_msg=str(theirs.dtype))


FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
NARROW = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
BEYOND = [447.0, 448, 449, 463.9, 464, 464.1, 480, 512, 1e4, 57344, 61439, 61440, 240, 244, 248, 0.001, 0, 6, 7, 3e38]
BEYOND += [-x for x in BEYOND] + [float("inf"), float("-inf"), float("nan"), 2.0**-127, 2.0**-10, 1e-45]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_eight_bits_of_floats(dtype: Any) -> None:
    """f8e4m3fn saturates, infinities included; the others become infinite or NaN."""
    values = torch.tensor(BEYOND, dtype=torch.float64).to(dtype)
    check(lambda x: tuple(x.to(getattr(torch, name)) for name in NARROW), values)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32], ids=str)
def test_eight_bits_of_integers(dtype: Any) -> None:
    values = [
        v
        for v in (0, 1, -3, 100, 127, 255, 447, 449, 1000, -449, -1000)
        if torch.iinfo(dtype).min <= v <= torch.iinfo(dtype).max
    ]
    check(lambda x: x.to(torch.float8_e4m3fn), torch.tensor(values, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_integers_of_floats(dtype: Any) -> None:
    """Toward zero."""
    x = torch.tensor([0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.5, -1.7, 2.5, 99.9, -99.9, 126.5, 3.0], dtype=dtype)

    def convert(x: Any) -> Any:
        return x.to(torch.int32), x.long(), x.to(torch.int8), x.short(), x.bool(), x.abs().to(torch.uint8), x.int() + 1

    check(convert, x)
    large = torch.tensor([2.0**20 + 1, -(2.0**15), 30000.0], dtype=torch.float64).to(dtype)
    check(lambda x: (x.long(), x.clamp(-3e4, 3e4).to(torch.int16)), large.clamp(-6e4, 6e4))


def test_what_torch_leaves_open_wraps() -> None:
    """Modulo 2^width; NaN and infinities are 0. Reference and tiled agree."""
    x = torch.tensor([300.0, -1.0, 129.0, 2.0**31, float("nan"), float("inf"), -float("inf")])
    for outputs in both(lambda x: (x.to(torch.int8), x.to(torch.int32)), x):
        assert np.asarray(outputs[0]).tolist() == [44, -1, -127, 0, 0, 0, 0]
        assert np.asarray(outputs[1]).tolist() == [300, -1, 129, -(2**31), 0, 0, 0]


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i.reshape(1, 1).expand(1, 4)),
    "index": lambda x, i: x[i],
    "index, two axes": lambda x, i: x[i, i],
    "embedding": lambda x, i: F.embedding(i, x),
    "index_put": lambda x, i: x.index_put((i,), torch.ones(1, 4)),
    "scatter": lambda x, i: x.scatter(0, i.reshape(1, 1).expand(1, 4), 1.5),
    "scatter_add": lambda x, i: x.scatter_add(0, i.reshape(1, 1).expand(1, 4), torch.ones(1, 4)),
    "index_add": lambda x, i: x.index_add(0, i, torch.ones(1, 4)),
    "index_copy": lambda x, i: x.index_copy(0, i, torch.ones(1, 4)),
    "index_fill": lambda x, i: x.index_fill(0, i, 2.5),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i.reshape(1, 1).expand(1, 4) % 3, 0),
    "take": lambda x, i: x.take(i),
    "gather, rows": lambda x, i: x.gather(1, i.reshape(1, 1).expand(3, 1)),
    "embedding_bag": lambda x, i: F.embedding_bag(i.reshape(1, 1), x),
}


@pytest.mark.parametrize("name", READERS)
def test_indices(name: str) -> None:
    """Negative ones count from the end or are errors, as torch has it; errors beyond either end name them."""
    x, reader = torch.arange(12.0).reshape(3, 4), READERS[name]
    graph = ts.from_torch(Applied(reader), (x, torch.tensor([0])))
    program = ts.compile(graph, "edge-8")
    named = "index" if name == "take" else name.split(",")[0]  # as torch decomposes it
    for index in (-13, -4, -3, -1, 0, 2, 3, 12):
        i = torch.tensor([index])
        runs = (lambda i=i: ts.reference(graph, (x, i)), lambda i=i: ts.execute(program, (x, i)))
        try:
            wanted = reader(x, i)
        except (IndexError, RuntimeError):
            for run in runs:
                with pytest.raises(ts.UserError, match=f"{named}.*got .*0 to ") as caught:
                    run()
                assert str(index) in str(caught.value) or not -3 <= index < 3, caught.value
                assert "transfer" not in str(caught.value)
        else:
            for run in runs:
                np.testing.assert_array_equal(next(iter(run().values())), wanted.numpy(), err_msg=str(index))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_the_next_number(dtype: Any) -> None:
    values = [
        0.0, -0.0, 1, -1, 2, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38,
    ]  # fmt: skip
    x = torch.tensor(values, dtype=torch.float64).to(dtype)
    pairs = list(itertools.product(x, x))
    a, b = (torch.stack([pair[i] for pair in pairs]) for i in (0, 1))
    wanted = torch.nextafter(a, b).double().numpy()
    for (mine,) in both(torch.nextafter, a, b):
        got = np.asarray(mine).astype(np.float64)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(wanted)[~np.isnan(got)])
