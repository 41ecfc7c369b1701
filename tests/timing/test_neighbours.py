"""Convolutions around the measured families: neighbouring shapes differ by no more than padding explains.

The oracle is padding by hand: images over 8 sublanes, channels over 128 lanes, both sides of the array, bytes at the
memory's rate.
"""

import functools
import itertools
import math

import pytest

import tilesim as ts
from tilesim import workloads

FIXED = 1500
"""Cycles of a kernel that no size explains: latency of the first load and the last store, fill and drain."""

Shape = tuple[int, int, int, int, int, int]  # batch, channels, size, filters, kernel, stride
FAMILIES: dict[str, Shape] = {
    "56": (64, 64, 56, 64, 3, 1),
    "28": (64, 128, 28, 128, 3, 1),
    "14": (64, 256, 14, 256, 3, 1),
    "7": (64, 512, 7, 512, 3, 1),
    "one image": (1, 64, 56, 64, 3, 1),
    "1 x 1": (1, 256, 28, 256, 1, 1),
    "strided": (1, 128, 56, 128, 3, 2),
    "strided 1 x 1": (1, 256, 28, 512, 1, 2),
}
VALUES = (
    (1, 3, 7, 8, 9, 63, 64, 65, 129, 257), (16, 31, 63, 64, 65, 127, 128, 129, 257),
    (7, 8, 14, 15, 28, 29, 55, 56, 57), (8, 63, 64, 65, 128, 129, 257), (1, 2, 3, 4, 5), (1, 2, 3),
)  # fmt: skip


def up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def copied(shape: Shape) -> bool:
    """Few images that torch's order pads by less than a quarter enter in it; a copy brings channels together."""
    batch, _, size, *_ = shape
    return batch < 8 and up(size, 128) * up(size, 8) < 1.25 * size * size


def parts(shape: Shape) -> tuple[float, float, float, float]:
    """Cycles of input, output, weights and array, each alone, padded by hand."""
    batch, channels, size, filters, kernel, stride = shape
    rate = 450e9 * 0.835 / 940e6
    out = (size + 2 * (kernel // 2) - kernel) // stride + 1

    def image(extent: int, features: int) -> int:
        return extent * min(up(batch, 8) * extent, batch * up(extent, 8)) * up(features, 128)

    steps = kernel * kernel * math.ceil(channels / 128) * math.ceil(filters / 128)
    array = steps * max(128, image(out, 1) // 128) / 2
    moved_in = 4 * image(size, channels) * (3 if copied(shape) else 1) / rate
    weights = 4 * kernel * kernel * up(channels, 8) * up(filters, 128) / rate
    return moved_in, 4 * image(out, filters) / rate, weights, array


@functools.cache
def cycles(shape: Shape) -> int:
    batch, channels, size, filters, kernel, stride = shape
    graph = workloads.conv2d(batch, channels, size, size, filters, kernel, stride=stride, padding=kernel // 2)
    return ts.simulate(ts.compile(graph, "tpu-v3")).cycles


def sweep(name: str) -> list[list[Shape]]:
    """Along each axis, the others as the family has them."""
    base = FAMILIES[name]
    return [[(*base[:axis], value, *base[axis + 1 :]) for value in values] for axis, values in enumerate(VALUES)]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FAMILIES)
def test_no_time_exceeds_its_padded_parts(name: str) -> None:
    """Half as much again is left for arrays that share what does not divide."""
    for shape in itertools.chain(*sweep(name)):
        batch, channels, size, filters, kernel, stride = shape
        assert cycles(shape) <= 1.5 * sum(parts(shape)) + FIXED, shape
        out = (size + 2 * (kernel // 2) - kernel) // stride + 1
        assert cycles(shape) >= batch * out * out * filters * channels * kernel * kernel / (2 * 128 * 128), shape


@pytest.mark.parametrize("name", FAMILIES)
def test_neighbours_differ_by_their_padding(name: str) -> None:
    """Beyond it a larger neighbour may lose the overlap of loads with the array, when two windows no longer fit."""
    for line in sweep(name)[:4]:
        for before, after in itertools.pairwise(line):
            grown = max(b / a for a, b in zip(parts(before), parts(after), strict=True))
            assert cycles(after) - FIXED <= 1.5 * grown * cycles(before), (before, after)
            assert cycles(after) >= 0.85 * cycles(before), (before, after)
