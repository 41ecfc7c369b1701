"""Elementwise operations over fewer axes where layout tiles leave lanes empty, and siblings that compute the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tilesim as ts

MACHINE = "tpu-v3"  # tiles of 8 x 128


class Applied(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def waves(x: Any, count: int) -> Any:
    for _ in range(count):
        x = torch.sin(x) * 0.5 + torch.cos(x * x) * 0.25
    return x


def cycles(function: Callable[..., Any], *shapes: tuple[int, ...], **options: Any) -> int:
    graph = ts.from_torch(Applied(function), tuple(torch.rand(shape) for shape in shapes))
    return ts.simulate(ts.compile(graph, MACHINE, **options)).cycles


@pytest.mark.parametrize(
    ("shape", "lowering"), [((8, 30, 40), "native"), ((3, 50, 3, 3), "native"), ((6, 5, 7, 9), "best")]
)
def test_many_functions_take_what_they_take_over_one_axis(shape: tuple[int, ...], lowering: str) -> None:
    """In tiles of 8 x 128 the minor axis fills few lanes; copies to a dense tensor and back are all that is added."""
    rows, elements = shape[0], int(np.prod(shape))
    flat = cycles(lambda x: waves(x, 12), (rows, elements // rows), lowering=lowering)
    padded = float(np.prod(shape[:-2])) * -(-shape[-2] // 8) * 8 * -(-shape[-1] // 128) * 128
    copies = 2 * 4 * (padded + elements) / 399 + 400  # 450 GB/s at 940 MHz, of which 83.5 % are reached; two latencies
    assert cycles(lambda x: waves(x, 12), shape, lowering=lowering) <= 1.1 * flat + copies


def test_few_functions_are_not_worth_the_copies() -> None:
    graph = ts.from_torch(Applied(lambda x: x * 2 + 1), (torch.rand(8, 30, 40),))
    assert ".collapsed" not in ts.compile(graph, MACHINE).prepared.to_json()


@pytest.mark.parametrize(("count", "least"), [(3, 1), pytest.param(8, 2, marks=pytest.mark.slow)])
def test_values_stay_whatever_is_collapsed(count: int, least: int) -> None:
    """Random regions: operands that repeat along any axes, integers, masks, results that others read in any way."""
    draw = random.Random(3)
    fewer = 0
    for seed in range(count):
        shape = tuple(draw.choice([1, 2, 3, 5, 8, 9, 14]) for _ in range(draw.randint(2, 5)))
        narrow = tuple(extent if draw.random() < 0.6 else 1 for extent in shape)
        last = shape[draw.randint(0, len(shape) - 1) :]
        ends, waved = draw.sample(range(6), draw.randint(1, 3)), draw.randint(2, 9)

        def function(x: Any, y: Any, z: Any, ends: list[int] = ends, waved: int = waved) -> Any:
            a = waves(x + y, waved)
            b = torch.where(a > z, waves(a * z, waved), a - y)
            rows = (b * 3).to(torch.int64).clamp(0, 4)
            made = [
                b,
                a.reshape(-1) + 1,
                b.unsqueeze(1).expand(-1, 3, *b.shape[1:]) * 2,
                b.transpose(0, 1).exp(),
                b.sum(-1),
                torch.arange(20.0).view(5, 4)[rows],
            ]
            return tuple(made[end] for end in ends)

        args = tuple(torch.randn(own, generator=torch.manual_seed(seed)) for own in (shape, narrow, last))
        graph = ts.from_torch(Applied(function), args)
        for lowering in ("native", "best"):
            program = ts.compile(graph, MACHINE, lowering=lowering)
            found = list(ts.execute(program, args).values())
            for mine, theirs in zip(found, function(*args), strict=True):
                np.testing.assert_allclose(np.asarray(mine), theirs.numpy(), rtol=1e-4, atol=1e-4)
            fewer += ".collapsed" in str(program.prepared.to_json())
    assert fewer >= least  # the draws reach what they are for


def test_siblings_that_compute_the_same_are_one_kernel() -> None:
    """The chip's compiler fuses them with several results: what they share is read and computed once."""

    def function(x: Any, y: Any) -> Any:
        shared = torch.sin(x) * y
        return shared.exp() + 1, shared.tanh() - 1, shared.sigmoid()

    args = (torch.randn(64, 300), torch.randn(64, 300))
    graph = ts.from_torch(Applied(function), args)
    program = ts.compile(graph, MACHINE)
    assert len(program.kernels) == 1
    for mine, theirs in zip(ts.execute(program, args).values(), function(*args), strict=True):
        np.testing.assert_allclose(np.asarray(mine), theirs.numpy(), rtol=1e-5, atol=1e-5)
    assert ts.simulate(program).memory_bytes == 5 * 4 * 64 * 384  # two operands, three results, in whole tiles


def test_siblings_that_wait_for_each_other_stay_apart() -> None:
    """The second result needs a sum over the first one: no one kernel has both."""

    def function(x: Any) -> Any:
        shared = torch.sin(x) * 2
        first = shared.exp()
        return first, shared.tanh() * first.sum(0, keepdim=True)

    args = (torch.randn(30, 50),)
    program = ts.compile(ts.from_torch(Applied(function), args), MACHINE)
    for mine, theirs in zip(ts.execute(program, args).values(), function(*args), strict=True):
        np.testing.assert_allclose(np.asarray(mine), theirs.numpy(), rtol=1e-4, atol=1e-4)
