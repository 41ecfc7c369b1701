"""Estimates of machines: what is read and written once is counted, and no estimate is below its graph's bound."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tilesim as ts
from support.random_graphs import random_case
from tilesim import _core

MACHINES = ["tpu-v2", "tpu-v3", "tpu-v4-chip", "mesh-16", "edge-8", "chiplet-2", "gemmini-16"]


def bytes_of(rows: list[dict[str, object]]) -> float:
    return sum(math.prod(row["shape"]) * _core.dtype_bits(row["dtype"]) / 8 for row in rows)  # type: ignore[arg-type]


def bandwidth(machine: str) -> float:
    """Peak of the memory in bytes per second, from the machine's own file."""
    return float(_core.parse_bandwidth(str(ts.Machine.load(machine).get("memory.bandwidth"))))


@pytest.mark.parametrize("machine", MACHINES[:-1])
@pytest.mark.parametrize("network", ["mlp", "resnet18", "resnet50", "mobilenet-v2", "vit-b-16"])
def test_networks_read_their_weights_once_a_run(network: str, machine: str) -> None:
    """Bound by hand: inputs, every weight and outputs over the memory's peak; multiply-adds over that of the arrays."""
    graph = ts.models.build(network)
    moved = bytes_of(list(graph.core.inputs)) + bytes_of(list(graph.core.outputs))
    moved += bytes_of(list(graph.weights().values()))
    found = ts.estimate(graph, machine)
    rounding = 0.5 / found.data["hertz"]
    assert found.seconds + rounding >= 0.999 * moved / bandwidth(machine)  # counters of batch norms are read by nobody
    assert found.seconds >= ts.roofline(graph, machine).seconds


@pytest.mark.singly
@pytest.mark.parametrize("count", [1, pytest.param(len(MACHINES), marks=pytest.mark.slow)])
@pytest.mark.parametrize("network", ts.models.names())
def test_no_estimate_of_the_zoo_is_below_the_roofline(network: str, count: int) -> None:
    """On one machine, another one for each network, in a normal run; on all of them in a long one."""
    graph = ts.models.build(network, context=64) if "llama" in network or "deepseek" in network else network
    first = ts.models.names().index(network)
    for machine in [MACHINES[(first + 3 * i) % len(MACHINES)] for i in range(count)]:
        try:
            found = ts.estimate(graph, machine)
        except ts.Unsupported:
            continue
        assert found.seconds >= ts.roofline(graph, machine).seconds, machine
        assert found.cycles == sum(row["exclusive"] for row in found.data["operations"])


@pytest.mark.parametrize("seed", range(60))
def test_no_estimate_of_random_graphs_is_below_the_roofline(seed: int) -> None:
    graph = random_case(np.random.default_rng(seed)).graph
    for machine in ("tpu-v3", "mesh-16", "edge-8"):
        try:
            found = ts.estimate(graph, machine)
        except ts.Unsupported:
            continue
        assert found.seconds >= ts.roofline(graph, machine).seconds, machine


def test_an_operation_pays_for_the_weight_that_it_is_the_first_to_read() -> None:
    b = ts.GraphBuilder("shared")
    x, w = b.input("x", (1, 256)), b.weight("w", (256, 256))
    x = b.matmul(x, w, name="first")
    b.output(b.matmul(x, w, name="again"), "y")
    rows = {row["operation"]: row for row in ts.estimate(b.build(), "tpu-v3").table()}
    seconds = 4 * 256 * 256 / bandwidth("tpu-v3")
    first = rows["first"]["cycles"] / ts.Machine.load("tpu-v3").hertz
    assert first >= seconds > 0.9 * (rows["again"]["cycles"] / ts.Machine.load("tpu-v3").hertz)


def test_devices_that_keep_weights_in_a_cache_stay_as_they_were() -> None:
    found = ts.estimate("mlp", "a100")
    assert not any("each run moves inputs" in line for line in found.approximations)
    assert any("each run moves inputs" in line for line in ts.estimate("mlp", "tpu-v3").approximations)


def test_a_graph_without_operations_takes_no_time() -> None:
    b = ts.GraphBuilder("nothing")
    b.output(b.input("x", (4,)), "x")
    assert ts.estimate(b.build(), "tpu-v3").cycles == 0


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2"])
def test_products_of_eight_bit_floats_take_the_rate_of_the_device(dtype: str) -> None:
    size = 8192
    found = ts.estimate(ts.workloads.matmul(size, size, size, dtype=dtype), "h100")
    peak = ts.Device.load("h100").rate(dtype).flops_per_second
    wide = ts.estimate(ts.workloads.matmul(size, size, size, dtype="bf16"), "h100")
    assert 2 * size**3 / peak <= found.seconds < 0.7 * wide.seconds
    assert any("need no cast" in line for line in found.approximations)
    assert ts.estimate(ts.quantize("bert-base", "fp8"), "h100").seconds < ts.estimate("bert-base", "h100").seconds


@pytest.mark.parametrize(
    ("dtype", "device"), [("f8e4m3fn", "a100"), ("f8e4m3fnuz", "h100"), ("i4", "h100"), ("i64", "tpu-v3")]
)
def test_what_cannot_be_multiplied_is_named_with_a_remedy(dtype: str, device: str) -> None:
    with pytest.raises(ts.Unsupported, match=rf"operation matmul .*{device} multiplies .*: convert the graph"):
        ts.estimate(ts.workloads.matmul(64, 64, 64, dtype=dtype), device)
