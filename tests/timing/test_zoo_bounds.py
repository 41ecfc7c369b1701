"""Networks of the zoo on the machines: never below a bound, within a stated factor of a closed form.

Both come from the graph and the machine's figures alone. The bound: all FLOPs at the arrays' peak, or compulsory bytes
at the memory's peak. The closed form: operations one after the other, each the longer of its FLOPs at peak and its
operands and results once through memory; the scores of an attention go through memory three times, rows that are
normalized twice.
"""

import math
from typing import Any

import pytest

import tilesim as ts
from tilesim import models

FACTOR = 8.0
"""Of the closed form. The worst are first convolutions, which fill 3 of 128 rows of an array with 49 taps one by one,
and two chips whose memories are apart."""

FREE = {"constant", "reshape", "transpose", "broadcast", "slice", "copy", "iota", "bitcast"}
QUICK = ["resnet18", "vit-b-16", "bert-base", "dlrm", "mlp"]
TENSOR_CORES = ["tpu-v2", "tpu-v3", "tpu-v4"]
MACHINES = [*TENSOR_CORES, "chiplet-2", "edge-8", "mesh-16"]


def size(tensor: dict[str, Any]) -> float:
    wide = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i16": 2}
    return math.prod(tensor["shape"]) * wide.get(tensor["dtype"], 1)


def flops(op: dict[str, Any]) -> float:
    """Of the kinds that arrays run."""
    shapes = [operand["shape"] for operand in op["operands"] if operand]
    result = math.prod(op["results"][0]["shape"]) if op["results"] else 0
    if op["kind"] == "contract":
        return 2 * result * math.prod(shapes[0][axis] for axis in op["attributes"].get("a_contract", []))
    if op["kind"] == "convolution":
        return 2 * result * math.prod(shapes[1]) / shapes[1][op["attributes"]["w_labels"].index("O")]
    if op["kind"] == "attention":
        query, key, value = shapes[:3]
        return 2 * math.prod(query[:3]) * key[2] * (query[3] + value[3])
    if op["kind"] == "ragged_contract":
        return 2 * shapes[0][0] * shapes[1][1] * shapes[1][2]
    return 0


def moved(op: dict[str, Any]) -> float:
    results = sum(size(result) for result in op["results"])
    operands = [operand for operand in op["operands"] if operand]
    if op["kind"] in FREE:
        return 0
    if op["kind"] in ("embedding", "gather", "dynamic_slice"):
        return 2 * results
    if op["kind"] == "dynamic_update":
        return 2 * size(operands[1])
    total = results + sum(size(operand) for operand in operands)
    if op["kind"] == "attention":
        total += 3 * 4 * math.prod(operands[0]["shape"][:3]) * operands[1]["shape"][2]
    return 2 * total if op["kind"] in ("softmax", "log_softmax", "normalize") else total


def closed_form(graph: ts.Graph, peak: float, rate: float, function: str = "") -> float:
    cycles = 0.0
    for op in graph.operations(function):
        if op["kind"] == "while":
            cycles += max(1, op["attributes"].get("trips", 1)) * closed_form(graph, peak, rate, op["functions"][1])
        elif op["kind"] == "call":
            cycles += closed_form(graph, peak, rate, op["functions"][0])
        else:
            cycles += max(flops(op) / peak, moved(op) / rate)
    return cycles


def check(name: str, machine: str) -> None:
    graph, chip = models.build(name), ts.Machine.load(machine)
    number, unit = chip.get("memory.bandwidth").split()
    rate = float(number) * {"GB/s": 1e9, "MB/s": 1e6}[unit] / chip.hertz
    arrays = chip.get("core.count") * chip.get("core.array.count")
    peak = 2 * arrays * chip.get("core.array.rows") * chip.get("core.array.columns")
    rates = chip.get("core.array.rates")
    cycles = ts.simulate(ts.compile(graph, chip)).cycles
    assert cycles >= sum(flops(op) for op in graph.operations()) / (peak * max(rates.values()))
    assert cycles >= graph.compulsory_bytes() / rate * 0.999
    assert cycles <= FACTOR * closed_form(graph, peak * rates["f32"], rate)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("name", "machine"),
    [
        pytest.param(name, machine, marks=[pytest.mark.slow] * ((i + j) % 2))
        for i, name in enumerate(QUICK)
        for j, machine in enumerate(MACHINES)
    ],
)
def test_networks_stay_near_their_closed_form(name: str, machine: str) -> None:
    check(name, machine)


def test_a_network_of_convolutions_and_attention() -> None:
    check("stable-diffusion-1.5-unet", "tpu-v3")


@pytest.mark.slow
@pytest.mark.parametrize("machine", [*TENSOR_CORES, *(f"{name}-chip" for name in TENSOR_CORES), "mesh-16"])
@pytest.mark.parametrize("name", [name for name in models.names() if name not in QUICK])
def test_every_other_network_too(name: str, machine: str) -> None:
    check(name, machine)
