"""What cores and arrays take of a convolution: groups go to different cores whole, few columns stream past rows."""

from __future__ import annotations

import json
import math
import random

import pytest

import tilesim as ts
from support.program_checks import unnoticed_mutants
from tilesim.mapping import products


def convolution(
    channels: int, size: int, filters: int, kernel: int = 3, groups: int = 1, dtype: str = "f32", images: int = 1
) -> ts.Graph:
    b = ts.GraphBuilder("case", dtype=dtype)
    x, w = (
        b.input("x", [images, channels, size, size], dtype),
        b.input("w", [filters, channels // groups, kernel, kernel], dtype),
    )
    y = b.op(
        "convolution", x, w, name="conv", strides=[1, 1], window_dilation=[1, 1], pads=[kernel // 2] * 4,
        input_dilation=[1, 1], groups=groups, x_labels="NCHW", w_labels="OIHW", y_labels="NCHW",
    )  # fmt: skip
    b.output(b.apply("relu", y), "y")
    return b.build()


@pytest.mark.parametrize(("channels", "size"), [(960, 7), (576, 14), (390, 9)])
def test_depthwise_channels_are_cut_over_cores(channels: int, size: int) -> None:
    """Lines of 7 or 14 give so many cores their halo and move operands and result thrice; channels have none: not twice
    what operands and result take, though lines of seven elements are no whole bursts."""
    graph = convolution(channels, size, channels, groups=channels)
    result = ts.simulate(ts.compile(graph, "mesh-16"))
    once = 4 * (2 * channels * size * size + 9 * channels)
    assert result.memory_bytes < 1.8 * once
    rate = 512e9 * 0.9 / 1e9
    assert result.cycles < 2 * once / rate + 1500  # a few round trips


def test_values_of_groups_on_several_cores() -> None:
    rng = random.Random(6)
    for _ in range(6):
        groups, each, out = rng.choice([2, 3, 5, 8]), rng.randint(1, 3), rng.randint(1, 3)
        graph = convolution(groups * each, rng.randint(4, 9), groups * out, groups=groups, images=rng.randint(1, 2))
        for cores in (2, 3, 4):
            machine = ts.Machine.load("mesh-16").replace({"core.count": cores})
            assert ts.verify(ts.compile(graph, machine, cores=cores)).ok, (groups, each, out, cores)


def stationary(program: ts.Program) -> list[bool]:
    found: list[bool] = []

    def visit(value: object) -> None:
        if isinstance(value, dict):
            if "mma" in value:
                found.append(value["mma"].get("stationary_a", False))
            value = list(value.values())
        if isinstance(value, list):
            for part in value:
                visit(part)

    visit(json.loads(program.core.to_json()))
    return found


@pytest.mark.parametrize("columns", [8, 16, 24, 64, 150])
def test_few_columns_stream_past_rows_that_lie_still(columns: int) -> None:
    """An array of 64 x 64 that takes a row of f32 every four cycles: 640 rows past 64 columns take 2,560 cycles, 8 to
    16 columns past 64 rows the 64 cycles in which the next rows are loaded, ten times."""
    machine = ts.Machine.load("mesh-16").replace({"core.count": 1})
    b = ts.GraphBuilder("product")
    b.output(b.matmul(b.input("x", [640, 64]), b.input("w", [64, columns])), "y")
    graph = b.build()
    (product,) = products(graph, machine, mapping="cost")
    extents = product.info["extents"]
    nest = {"tiles": extents, "order": list(range(len(extents))), "depths": [1, 1, 1], "unit": "array"}
    past_columns = math.ceil(columns / 64) * max(4 * 640, 64)
    past_rows = math.ceil(640 / 64) * max(4 * columns, 64)
    assert product.cost(nest)["compute_cycles"] == min(past_columns, past_rows)
    name = product.operation
    program = ts.compile(graph, machine, mapping={name: nest})
    assert stationary(program) == [past_rows < past_columns]
    assert ts.verify(program).ok and unnoticed_mutants(program) == []


def test_lanes_of_the_memory_keep_columns_still() -> None:
    """Where memory is tiled for the lanes, rows that lie still would end with rows over the lanes."""
    program = ts.compile(convolution(64, 30, 8, kernel=1), "tpu-v3", lowering="best")
    assert stationary(program) and not any(stationary(program))
