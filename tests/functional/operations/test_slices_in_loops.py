"""Slices whose start follows from a loop's counter are views: no kernel moves them."""

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import few_cores
from tilesim.frontends.factors import counted

TRIPS = 5
#: the start that a trip takes, by (builder, counter), and the same in Python
STARTS = {
    "counter": (lambda b, i: i, lambda i: i),
    "backwards": (lambda b, i: b.scalar(TRIPS - 1, "i32") - i, lambda i: TRIPS - 1 - i),
    "every second": (lambda b, i: i * 2, lambda i: 2 * i),
    "past the end": (lambda b, i: i + 3, lambda i: i + 3),
    "before the start": (lambda b, i: i - 2, lambda i: i - 2),
    "as numpy indexes": (
        lambda b, i: b.apply("select", b.apply("less", i, b.scalar(0, "i32")), i + 7, i),
        lambda i: i,
    ),
}


def summed(start, axis, order, extent):
    """A graph that sums `extent` rows of x from a start that every trip takes anew, weighted by the trip."""
    b = ts.GraphBuilder("sums")
    x = b.input("x", (6, 7, 8))
    seen = x if order is None else b.op("transpose", x, permutation=list(order))
    sizes = list(seen.shape)
    sizes[axis] = extent
    zeros = b.broadcast(b.scalar(0, "f32"), sizes)

    def body(inner, step, total, rows):
        zero, at = inner.scalar(0, "i32"), start(inner, step)
        part = inner.op("dynamic_slice", rows, *[at if i == axis else zero for i in range(3)], sizes=sizes)
        return [total * 0.5 + part, rows]

    b.output(counted(b, "loop", TRIPS, [zeros, seen], body)[0], "y")
    return b.build(), sizes


MACHINES = ["edge-8", "tpu-v3", "mesh-16", "gemmini-16"]


@pytest.mark.singly
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", STARTS)
def test_starts(name, machine):
    of_graph, of_python = STARTS[name]
    x = np.random.default_rng(0).standard_normal((6, 7, 8)).astype(np.float32)
    cases = ((0, None, 1), (1, None, 2), (0, (1, 2, 0), 1), (1, (2, 0, 1), 1), (2, None, 2))
    for axis, order, extent in cases[MACHINES.index(machine) % 2 :: 2]:
        graph, sizes = summed(of_graph, axis, order, extent)
        program = ts.compile(graph, few_cores(machine), fuse="none")
        seen, total = x if order is None else x.transpose(order), np.zeros(sizes, np.float32)
        for trip in range(TRIPS):
            at = int(np.clip(of_python(trip), 0, seen.shape[axis] - extent))
            total = total * np.float32(0.5) + np.take(seen, range(at, at + extent), axis)
        np.testing.assert_array_equal(ts.execute(program, {"x": x})["y"], total)
        moves = [kernel for _, _, operations in program.kernels for kernel in operations if "dynamic_slice" in kernel]
        assert bool(moves) == (axis == 2)  # lanes lie along the last axis
