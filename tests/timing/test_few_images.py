"""Convolutions of few images by the lowering profile of tpu-v3, beside bytes and steps counted by hand."""

import random

import pytest

import tilesim as ts

RATE = 450e9 * 0.835 / 940e6  # bytes a cycle


def up(extent: int, to: int) -> int:
    return -(-extent // to) * to


def plane(extent: int, channels: int, width: int = 4) -> int:
    """Bytes of an image in tiles of 8 columns by 128 channels."""
    return extent * up(extent, 8) * up(channels, 128) * width


def kernel(channels: int, extent: int, filters: int) -> dict[str, int]:
    graph = ts.workloads.conv2d(1, channels, extent, extent, filters, 1)
    rows = ts.simulate(ts.compile(graph, "tpu-v3")).data["operations"]
    return next(row for row in rows if row["array_busy"])


@pytest.mark.parametrize("seed", range(8))
def test_rows_of_a_pointwise_convolution_stream(seed: int) -> None:
    """Its weights lie on the chip first; loads, steps of the arrays and stores then go side by side."""
    rng = random.Random(seed)
    channels, filters = rng.choice([128, 200, 256, 512]), rng.choice([64, 128, 256, 320])
    extent = rng.choice([35, 40, 56])
    weights = up(channels, 8) * up(filters, 128) * 4
    moved = plane(extent, channels) + plane(extent, filters) + weights
    steps = extent * extent * up(channels, 128) * up(filters, 128) // (2 * 128 * 128)
    took = kernel(channels, extent, filters)["cycles"]
    assert took >= moved / RATE * 0.99
    assert took <= 1.05 * max(moved / RATE, steps) + 2200, (channels, extent, filters)


def blocks(adds: bool) -> ts.Graph:
    b = ts.GraphBuilder("blocks")
    labels = {"x_labels": "NHWC", "w_labels": "HWIO", "y_labels": "NHWC"}
    x = b.input("x", (8, 12, 12, 128))
    wide, narrow = (b.weight(name, (3, 3, 128, 128)) for name in ("wide", "narrow"))
    middle = b.apply("relu", b.op("convolution", x, wide, pads=[1, 1, 1, 1], **labels, name="first"))
    y = b.op("convolution", middle, narrow, pads=[1, 1, 1, 1], **labels, name="second")
    b.output(y + middle if adds else y, "y")
    return b.build()


@pytest.mark.parametrize(("adds", "width"), [(False, 2), (True, 4)])
def test_what_only_convolutions_read_is_stored_as_they_multiply(adds: bool, width: int) -> None:
    program = ts.compile(blocks(adds), "tpu-v3")
    rows = {row["name"]: row for row in ts.simulate(program).data["operations"]}
    assert rows["first"]["store_bytes"] == 8 * 12 * 12 * 128 * width
    assert ts.verify(program).ok
