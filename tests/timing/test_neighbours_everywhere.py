"""Convolutions on every preset: no order of bytes and no unused end of an axis makes a shape cost much more than the
next one.

Oracles: the densest whole layout tiles by hand; a window that leaves the end of an axis unused computes what the same
convolution without that end does.
"""

import functools
import itertools
import math
import random

import pytest

import tilesim as ts
from tilesim import workloads

TILED = ("tpu-v2", "tpu-v3", "tpu-v4", "chiplet-2")
DENSE = ("edge-8", "gemmini-16", "mesh-16")
FIXED = 1500
"""Cycles of a kernel that no size explains: latency of the first load and the last store, fill and drain."""

SIDES = {"edge-8": 8, "gemmini-16": 16, "mesh-16": 64}
"""Rows and columns of an array."""

Shape = tuple[int, int, int, int, int, int]  # batch, channels, size, filters, kernel, stride
BYTES = {"f32": 4, "bf16": 2, "i8": 1}


@functools.cache
def measured(machine: str, dtype: str, shape: Shape) -> tuple[int, int]:
    """Cycles and bytes."""
    batch, channels, size, filters, kernel, stride = shape
    graph = workloads.conv2d(batch, channels, size, size, filters, kernel, stride=stride, dtype=dtype)
    result = ts.simulate(ts.compile(graph, machine))
    return result.cycles, result.memory_bytes


def up(number: int, unit: int) -> int:
    return -(-number // unit) * unit


def densest(*extents: int) -> int:
    """Elements of whole tiles of 8 by 128 with the best two axes minor."""
    count = math.prod(extents)
    return min(
        count // (a * b) * up(a, 128) * up(b, 8)
        for (i, a), (j, b) in itertools.product(enumerate(extents), repeat=2)
        if i != j
    )


def out_of(size: int, kernel: int, stride: int) -> int:
    return (size - kernel) // stride + 1


def copied(machine: str, shape: Shape) -> bool:
    """The compiler of those chips copies few images that come in torch's order."""
    batch, _, size, *_ = shape
    return machine != "chiplet-2" and batch < 8 and up(size, 128) * up(size, 8) < 1.25 * size * size


def parts(machine: str, dtype: str, shape: Shape) -> list[float]:
    """Bytes of input, output and weights, and cycles of the array: each in units of its own, as low as it can be."""
    batch, channels, size, filters, kernel, stride = shape
    out = out_of(size, kernel, stride)
    side = SIDES.get(machine, 128)
    array = kernel * kernel * math.ceil(channels / side) * math.ceil(filters / side) * max(side, batch * out * out)
    if machine in TILED:
        moved = [densest(batch, channels, size, size), densest(batch, filters, out, out)]
        moved.append(kernel * kernel * up(channels, 8) * up(filters, 128))
        if copied(machine, shape):
            moved[0] += 2 * size * min(up(batch, 8) * size, batch * up(size, 8)) * up(channels, 128)
    else:
        moved = [batch * channels * size * size, batch * filters * out * out, channels * filters * kernel * kernel]
    return [*(m * BYTES[dtype] for m in moved), array]


def shapes(seed: int, count: int) -> list[Shape]:
    rng = random.Random(seed)
    found: list[Shape] = []
    while len(found) < count:
        kernel, stride = rng.choice([(1, 1), (1, 2), (3, 1), (3, 2), (2, 2), (1, 4)])
        batch, channels = rng.choice([1, 3, 7, 15, 31, 32, 63]), rng.choice([1, 3, 4, 15, 16, 31, 63, 64, 127])
        size, filters = rng.choice([7, 13, 14, 27, 28, 55, 56, 64, 79, 103, 111]), rng.choice([1, 8, 16, 63, 127, 128])
        if batch * channels * size * size < 2**22 and batch * filters * size * size < 2**22:
            found.append((batch, channels, size, filters, kernel, stride))
    return found


def dtype_of(machine: str, shape: Shape) -> str:
    return (
        "i8"
        if machine in ("edge-8", "gemmini-16")
        else "bf16"
        if machine == "mesh-16"
        else ("f32", "bf16")[shape[1] % 2]
    )


def check_neighbours(machine: str, seed: int, count: int) -> None:
    """Half as much again is left for what two windows that no longer fit lose of their overlap."""
    for shape in shapes(seed, count):
        dtype = dtype_of(machine, shape)
        for axis in range(4):
            larger = (*shape[:axis], shape[axis] + 1, *shape[axis + 1 :])
            for one, other in ((shape, larger), (larger, shape)):
                pairs = zip(parts(machine, dtype, one), parts(machine, dtype, other), strict=True)
                grown = max(1, *(b / a for a, b in pairs))
                cycles = measured(machine, dtype, one)[0], measured(machine, dtype, other)[0]
                assert cycles[1] - FIXED <= 1.5 * grown * cycles[0], (dtype, one, other, cycles)


@pytest.mark.few(2)
@pytest.mark.parametrize("machine", TILED + DENSE)
def test_neighbours_differ_by_their_padding(machine: str) -> None:
    check_neighbours(machine, 3, 2 if machine in DENSE else 5)


@pytest.mark.slow
@pytest.mark.parametrize("machine", TILED + DENSE)
def test_many_neighbours_differ_by_their_padding(machine: str) -> None:
    check_neighbours(machine, 4, 100)


@pytest.mark.few(2)
@pytest.mark.parametrize("machine", TILED)
@pytest.mark.parametrize("seed", range(3))
def test_bytes_are_near_the_densest_order(machine: str, seed: int) -> None:
    """A pass through the cross-lane unit, at 512 bytes a cycle, keeps channels minor where it would cost more than the
    bytes that it saves: at the memory's rate per cycle. Torch's order pads a quarter at most; kernels of one element
    read nothing twice.

    Where the array works eight times as long as all bytes take, they are free: one channel of 7 images on chiplet-2
    goes in tiles of 16 lanes of 128, five times the bytes, in 12,172 cycles, and in whole rows in 12,824 (kernels:
    12,235 and 12,893)."""
    memory = {"tpu-v2": 350e9 / 700e6, "tpu-v3": 450e9 / 940e6, "tpu-v4": 600e9 / 1050e6, "chiplet-2": 900e9 / 940e6}
    for batch, channels, size, filters, _, _ in shapes(seed, 10):
        shape = (batch, channels, size, filters, 1, 1)
        dtype = dtype_of(machine, shape)
        least = sum(parts(machine, dtype, shape)[:3])
        cycles, moved = measured(machine, dtype, shape)
        free = moved / memory[machine] < cycles / 8
        assert free or moved <= 1.25 * (1 + memory[machine] / 512) * least + 8192, shape


@pytest.mark.few(2)
@pytest.mark.parametrize("machine", DENSE)
def test_an_unused_end_costs_its_bytes(machine: str) -> None:
    """Without it the convolution is the same one, of which whole planes are read."""
    rng = random.Random(machine)
    for _ in range(4 if machine == "mesh-16" else 12):
        stride = rng.choice([2, 3, 4])
        kernel, unused = rng.randint(1, stride), rng.randint(1, stride - 1)
        used = kernel + stride * rng.randint(3, 12)
        shape = (rng.choice([1, 7, 63]), rng.choice([16, 64, 127]), used, 8, kernel, stride)
        dtype, longer = dtype_of(machine, shape), (*shape[:2], used + unused, *shape[3:])
        without, there = measured(machine, dtype, shape), measured(machine, dtype, longer)
        grown = ((used + unused) / used) ** 2
        assert there[0] - FIXED <= 1.5 * grown * without[0], (dtype, shape, longer, without, there)
