"""Sums begin at 0, so that products which are all -0 sum to 0: as IEEE 754 adds, and as numpy's matmul does."""

import numpy as np
import pytest

import tilesim as ts


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
@pytest.mark.parametrize("channels", [1, 2, 3, 16])
def test_sums_of_negative_zeros(machine: str, channels: int) -> None:
    x = -np.ones((1, channels, 4, 4), np.float32)
    w = np.zeros((2, channels, 1, 1), np.float32)
    b = ts.GraphBuilder("zeros")
    b.output(b.conv2d(b.input("x", x.shape), b.input("w", w.shape)), "y")
    b.output(b.input("l", (5, channels)) @ b.input("r", (channels, 3)), "z")
    values = {"x": x, "w": w, "l": -np.ones((5, channels), np.float32), "r": np.zeros((channels, 3), np.float32)}
    program = ts.compile(b.build(), machine)
    for level in ("tile", "instruction"):
        found = ts.execute(program, values, level=level)
        assert not any(np.signbit(found[name]).any() for name in "yz"), level


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
def test_what_divides_by_such_a_sum_is_right(machine: str) -> None:
    b = ts.GraphBuilder("divided")
    x, w = -np.ones((1, 1, 4, 4), np.float32), np.zeros((2, 1, 1, 1), np.float32)
    b.output(b.apply("reciprocal", b.conv2d(b.input("x", x.shape), b.input("w", w.shape))), "y")
    program = ts.compile(b.build(), machine)
    assert (ts.execute(program, [x, w])["y"] == np.inf).all()
    assert ts.verify(program, [x, w]).ok
