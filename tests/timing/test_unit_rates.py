"""No unit is free: each rate of a machine at a hundredth slows some kind of operation down, and none gets faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts
from tilesim import _core


def graph(kind: str, *shapes: list[int], dtype: str = "f32", **attributes: Any) -> ts.Graph:
    b = ts.GraphBuilder(kind, dtype=dtype)
    b.output(b.op(kind, *(b.input(f"x{i}", shape) for i, shape in enumerate(shapes)), **attributes), "y")
    return b.build()


def apply(function: str, operands: int = 1) -> ts.Graph:
    b = ts.GraphBuilder(function, dtype="f32")
    b.output(b.apply(function, *(b.input(f"x{i}", [512, 512]) for i in range(operands))), "y")
    return b.build()


def chain(length: int) -> ts.Graph:
    """One kernel that computes more than it moves."""
    b = ts.GraphBuilder("chain", dtype="f32")
    x = b.input("x", [512, 512])
    for _ in range(length):
        x = b.apply("tanh", x) * x + x
    b.output(x, "y")
    return b.build()


def embedding() -> ts.Graph:
    b = ts.GraphBuilder("embedding", dtype="f32")
    b.output(b.op("embedding", b.weight("table", [1000, 256]), b.input("ids", [512], "i32")), "y")
    return b.build()


KINDS: dict[str, Callable[[], ts.Graph]] = {
    "add": lambda: apply("add", 2),
    "multiply": lambda: apply("multiply", 2),
    "divide": lambda: apply("divide", 2),
    "exp": lambda: apply("exp"),
    "chain": lambda: chain(24),
    "transpose": lambda: graph("transpose", [512, 512], permutation=[1, 0]),
    "narrow transpose": lambda: graph("transpose", [64, 64], dtype="i8", permutation=[1, 0]),
    "reverse": lambda: graph("reverse", [512, 512], dims=[1]),
    "running sum": lambda: graph("cumulative", [512, 512], dim=1, combiner="add"),
    "row sums": lambda: graph("reduce", [4096, 16], dims=[1], combiner="add"),
    "one sum": lambda: graph("reduce", [4096], dims=[0], combiner="add"),  # no axis but the reduced one for the lanes
    "embedding": embedding,
    "copy": lambda: graph("copy", [512, 512], layout=True),
}

#: a rate at a hundredth, a time at a hundred times
RATES: dict[str, float] = {
    "core.clock": 0.01, "core.array.rates": 0.01, "core.array.weight_rows_per_cycle": 0.01,
    "core.vector.issue": 0.01, "core.vector.simple": 100, "core.vector.multiply": 100, "core.vector.divide": 100,
    "core.vector.transcendental": 100, "core.vector.latency": 100, "core.vector.reduce_latency": 100,
    "core.cross_lane.bytes_per_cycle": 0.01, "core.cross_lane.latency": 100, "core.dma.bytes_per_cycle": 0.01,
    "core.dma.outstanding_bytes": 0.01, "network.clock": 0.01, "network.latency_cycles": 100,
    "network.port_bytes_per_cycle": 0.01, "memory.bandwidth": 0.01, "memory.efficiency": 0.01, "memory.latency": 100,
}  # fmt: skip


def scaled(machine: ts.Machine, path: str, factor: float) -> ts.Machine | None:
    """None where the machine has as little already."""
    value = machine.get(path)
    if isinstance(value, dict):
        return machine.replace({path: {name: rate * factor for name, rate in value.items()}})
    number, _, unit = value.partition(" ") if isinstance(value, str) else (str(value), "", "")
    if unit.endswith("iB"):
        return machine.replace({path: f"{max(64, int(_core.parse_bytes(value) * factor))} B"})
    if unit:
        return machine.replace({path: f"{float(number) * factor:.6f} {unit}"})
    if isinstance(value, int):
        whole = max(1, int(value * factor))
        return None if whole == value else machine.replace({path: whole})
    return machine.replace({path: value * factor})


def cycles(program: ts.Program, machine: ts.Machine, **options: Any) -> float:
    return ts.simulate(program, machine, **options).seconds


@pytest.mark.few(2)
@pytest.mark.parametrize("preset", ["edge-8", "tpu-v3", "gemmini-16", "mesh-16", "chiplet-2"])
def test_each_rate_at_a_hundredth(preset: str) -> None:
    machine = ts.Machine.load(preset)
    dtype = "i8" if preset == "gemmini-16" else "f32"
    products = {
        "product": ts.workloads.matmul(256, 256, 256, dtype=dtype),
        "few rows": ts.workloads.matmul(8, 512, 512, dtype=dtype),
    }
    graphs = products | {name: build() for name, build in KINDS.items()}
    programs = {name: ts.compile(graph, machine) for name, graph in graphs.items()}
    usual = {name: cycles(program, machine) for name, program in programs.items()}
    for path, factor in RATES.items():
        slow = scaled(machine, path, factor)
        # where a lane and cycle have a byte of the cross-lane unit, narrow elements pass the ports as fast
        if slow is None or (preset == "gemmini-16" and path.startswith("core.cross_lane")):
            continue
        ratio = {name: cycles(program, slow) / usual[name] for name, program in programs.items()}
        # what is pipelined shows at the ends alone
        least = 1.001 if path.endswith("latency") else 1.2
        assert max(ratio.values()) > least, (path, ratio)
        assert min(ratio.values()) > 0.95, (path, ratio)  # transfers may meet on channels less often


def test_ports_between_cores_and_routers() -> None:
    machine = ts.Machine.load("mesh-16")
    program = ts.compile(ts.workloads.matmul(256, 256, 256), machine)
    for network in ("mesh", "crossbar"):
        usual = cycles(program, machine, network=network)
        for path in ("network.flit_bytes", "network.clock"):
            slow = scaled(machine, path, 0.01)
            assert slow is not None
            assert cycles(program, slow, network=network) > 1.2 * usual, (network, path)


def test_links_between_regions() -> None:
    machine = ts.Machine.load("chiplet-2")
    program = ts.compile(ts.workloads.matmul(1024, 1024, 1024), machine)
    slow = machine.replace({"network.region_bytes_per_cycle": 1})
    assert cycles(program, slow) > 1.2 * cycles(program, machine)


def test_the_link_to_the_host() -> None:
    """gemmini-16 multiplies no floats: the host does."""
    machine = ts.Machine.load("gemmini-16")
    b = ts.GraphBuilder("host", dtype="f32")
    x = b.input("x", [256, 256])
    b.output(b.apply("relu", x @ b.weight("w", [256, 256])), "y")
    graph = b.build()
    usual = ts.simulate(ts.compile(graph, machine, fallback="host"))
    slow = ts.simulate(ts.compile(graph, machine.replace({"host.bandwidth": "144 MB/s"}), fallback="host"))
    assert slow.seconds > 1.2 * usual.seconds


@pytest.mark.parametrize("preset", ["edge-8", "tpu-v3", "mesh-16"])
def test_ideal_memory_keeps_the_port(preset: str) -> None:
    """Without latency and queues a core still takes in as many bytes a cycle as its DMA engine moves."""
    machine = ts.Machine.load(preset)
    rows, width = 4096, 1024
    b = ts.GraphBuilder("embedding", dtype="f32")
    b.output(b.op("embedding", b.weight("table", [rows, width]), b.input("ids", [rows], "i32")), "y")
    result = ts.simulate(ts.compile(b.build(), machine), memory="ideal")
    each = rows * width * 4 / machine.get("core.dma.bytes_per_cycle") / machine.get("core.count")
    queues = max(1, machine.get("core.dma.load_queues"))
    assert result.cycles >= each / queues


PRESETS = [
    "chiplet-2", "edge-8", "gemmini-16", "mesh-16", *(f"tpu-v{n}{chip}" for n in (2, 3, 4) for chip in ("", "-chip")),
]  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_permuting_is_faster_than_fetching_single_elements(preset: str) -> None:
    """Why a tile whose elements change lanes is loaded whole and permuted: a burst for each element takes 3.7 to 9
    times as long for f32, 7.5 to 18 times for two bytes, by the rates that the machine's file states."""
    machine = ts.Machine.load(preset)
    number, unit = machine.get("memory.bandwidth").split()
    rate = float(number) * {"MB/s": 1e6, "GB/s": 1e9}[unit] / machine.hertz / machine.get("core.count")
    burst = int(machine.get("memory.burst_bytes").removesuffix(" B"))
    for size, least, most in ((4, 3.7, 9.2), (2, 7.5, 18.4)):
        permuted = size / rate + size / machine.get("core.cross_lane.bytes_per_cycle")
        assert least <= burst / rate / permuted <= most, size


@pytest.mark.parametrize("dims", [(96, 128, 64), (64, 256, 512)])
def test_sums_over_several_computes_move_their_totals(dims: tuple[int, int, int]) -> None:
    """A product on the vector unit, two functions per point: on tpu-v3 i8 has no array. Between computes totals of 32
    bits pass the ports: none is faster than its functions, or than the ports for what it moves."""
    m, n, k = dims
    graph, machine = ts.workloads.matmul(m, n, k, dtype="i8"), ts.Machine.load("tpu-v3")
    lanes = machine.get("core.vector.lanes") * machine.get("core.vector.sublanes")
    arithmetic = 2 * m * n * k / lanes / machine.get("core.vector.issue")
    for depth in (1, 8, k):
        nest = {"tiles": [m, n, depth], "order": [0, 1, 2], "depths": [2, 2, 1], "unit": "vector"}
        result = ts.simulate(ts.compile(graph, machine, mapping={"matmul": nest}))
        (row,) = result.data["operations"]
        stores = k / depth * m * n / lanes  # a register a cycle
        assert row["vector_busy"] >= max(arithmetic, stores), (depth, arithmetic, stores)
