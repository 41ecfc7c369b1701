"""Long calls that read, write, build or search: each with what must hold after it was interrupted."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tilesim as ts
from tilesim import _core
from tilesim.analytic.gemm import gemm_seconds


class Case(NamedTuple):
    """A long call, and whether all is as it was afterwards."""

    call: Callable[[], Any]
    intact: Callable[[], Any] = lambda: True
    scale: float = 1.0  # of the moments at which it is interrupted
    #: of a call that has no threads but those that free what it leaves, for which nobody waits: its own time alone
    clock: Callable[[], float] = time.process_time


def weighty(name: str, elements: int, **weight: Any) -> ts.Graph:
    b = ts.GraphBuilder(name)
    b.output(b.apply("negate", b.weight("w", (elements,), **weight)), "y")
    return b.build()


def spelled(count: int) -> ts.Graph:
    """Sigmoids, tanhs and softmaxes that are spelled out, and what looks like them."""
    b = ts.GraphBuilder("spelled")
    x = b.input("x", (8, 8))
    for i in range(count):
        e = b.apply("exp", x)
        high = b.op("reduce", e, combiner="add", dims=[1], keep_dims=True)
        x = b.apply("divide", e, high) if i % 2 else b.scalar(1.0) / (b.scalar(1.0 + i * 1e-6) + b.apply("exp", -x))
    b.output(x, "y")
    return b.build()


def saving(folder: Path, ending: str, size: int, elements: int) -> Case:
    """A file that replaces an old one: weights of `size` elements lie in a file with holes, `elements` in memory."""
    raw = folder / "weights.bin"
    with raw.open("wb") as file:
        file.truncate(4 * size)
    graph = weighty("saved", size)
    graph.core.set_weight_file("w", str(raw))
    if elements:
        graph = weighty("saved", elements, data=np.zeros(elements, np.float32))
    path = folder / f"graph{ending}"
    path.write_text("old")
    before = sorted(os.listdir(folder))

    def intact() -> bool:
        return sorted(os.listdir(folder)) == before and path.read_text() == "old" and bool(graph.weights())

    return Case(lambda: graph.save(path), intact)


def loading(folder: Path) -> Case:
    path = folder / "graph.json"
    weighty("text", 1 << 25, data=np.zeros(1 << 25, np.float32)).save(path)
    return Case(lambda: ts.Graph.load(path), lambda: os.listdir(folder) == ["graph.json"])


def building(folder: Path) -> Case:
    text = spelled(60_000).core.to_json()
    return Case(lambda: [ts.Graph.from_dict(text) for _ in range(20)])


def reading(folder: Path) -> Case:
    """300,000 operations, in one call."""
    path = folder / "graph.json"
    path.write_text(spelled(60_000).core.to_json(), encoding="utf-8")
    return Case(lambda: ts.Graph.load(path), lambda: os.listdir(folder) == ["graph.json"], 5, time.thread_time)


def writing(folder: Path) -> Case:
    """300,000 operations over an old file."""
    graph = spelled(60_000)
    path = folder / "graph.tsim"
    path.write_text("old", encoding="utf-8")
    return Case(
        lambda: graph.save(path),
        lambda: os.listdir(folder) == ["graph.tsim"] and path.read_text() == "old",
        3,
        time.thread_time,
    )


def recognising(folder: Path) -> Case:
    graph = spelled(4000)
    before = graph.core.to_json()
    return Case(lambda: ts.optimize(graph), lambda: graph.core.to_json() == before and not graph.changes)


def dividing(folder: Path) -> Case:
    """300,000 operations over two devices."""
    graph = spelled(60_000)
    before = graph.shardings, graph.devices
    return Case(
        lambda: ts.partition(graph, {"d": 2}, {"x": ("d",)}), lambda: (graph.shardings, graph.devices) == before
    )


def drawing(folder: Path) -> Case:
    graph = weighty("drawn", 1 << 30)
    return Case(lambda: graph.weight("w"), lambda: graph.weights()["w"]["shape"] == (1 << 30,))


def evaluating(folder: Path) -> Case:
    graph = weighty("drawn", 1 << 29)
    return Case(lambda: ts.reference(graph))


def tuning(folder: Path) -> Case:
    store = folder / "store.db"
    found: list[Any] = []

    def call() -> None:
        found.append(ts.tune("matmul:1000,1000,1000", "edge-8", budget=100_000, store=store))
        assert found[0].interrupted
        raise KeyboardInterrupt

    # interrupted before there was a study, as where modules are compiled first: nothing was found
    return Case(call, lambda: all(one.rows is not None for one in found) and len(ts.Store(store)) >= 0)


def sweeping(folder: Path) -> Case:
    graph, bandwidths = ts.workloads.matmul(2048, 2048, 2048), [f"{i} GB/s" for i in range(10, 500)]
    changes = {"memory.bandwidth": bandwidths}
    return Case(
        lambda: ts.sweep(graph, "edge-8", changes, store=folder / "store.db"),
        lambda: ts.Store(folder / "store.db").get(["none"]) == {},
    )


def searching(folder: Path) -> Case:
    product = ts.mapping.products(ts.workloads.matmul(4096, 4096, 4096), "tpu-v3")[0]
    return Case(lambda: [product.problem.search(1, 10**9, 10**6) for _ in range(100_000)])


def least(folder: Path) -> Case:
    return Case(lambda: [ts.mapping.least_traffic(509, 521, 523, 1 << 16) for _ in range(100_000)])


def network(folder: Path) -> Case:
    net = _core.flit_network(_core.NetworkTopology.mesh([16, 16]), _core.NetworkRouter())
    packets = np.random.default_rng(1).integers(0, 256, (200_000, 2))

    def call() -> None:
        for source, destination in packets.tolist():
            net.inject(source, destination, 4, net.now)
        net.advance(10**9)

    return Case(call, lambda: net.now < 10**9 and net.advance(net.now + 10) is None)


def networks(folder: Path) -> Case:
    row = "mesh_16x16,uniform,4,0.3,1,1,stable"
    path = folder / "noc.csv"
    path.write_text(
        "network,traffic,packet_flits,offered_flits_per_node_per_cycle,packet_latency_cycles,"
        "accepted_flits_per_node_per_cycle,state\n" + f"{row}\n" * 50
    )
    from tilesim.validation.noc import noc

    return Case(lambda: noc(path))


def traces(folder: Path) -> Case:
    return Case(lambda: ts.memory.Trace.generate("random_read", 200_000_000))


def far_trace(folder: Path) -> Case:
    path = folder / "trace.txt"
    path.write_text("".join(f"R 0x{64 * i:x} {100_000 * i}\n" for i in range(300_000)))
    return Case(lambda: ts.memory.run("DDR4-3200", ts.memory.Trace.read(path)))


def table(folder: Path) -> Case:
    from tilesim.analytic.measured.tables import read

    path = folder / "gemm.csv"
    path.write_text("m,n,k,dtype,latency_ms\n" + "".join(f"{i + 1},128,128,bf16,0.1\n" for i in range(1_000_000)))
    return Case(lambda: read("gemm", path, None))


def closed_forms(folder: Path) -> Case:
    m = np.arange(1, 5_000_001)
    return Case(lambda: gemm_seconds("h100-sxm", m, 4096, 4096))


def estimates(folder: Path) -> Case:
    graph = spelled(3000)
    return Case(lambda: [ts.estimate(graph, "tpu-v3") for _ in range(100)])


def covering(folder: Path) -> Case:
    graph = spelled(3000)
    return Case(lambda: ts.coverage(graph, "edge-8"))


def result_page(folder: Path) -> Case:
    result = ts.simulate(ts.compile(ts.workloads.matmul(2048, 2048, 2048), "edge-8"), timeline=True)
    before = sorted(os.listdir(folder))

    def call() -> None:
        for _ in range(10_000):
            result.to_html(folder / "page.html")
            result.timeline(folder / "trace.pftrace")
            result.save(folder / "result.json")

    def intact() -> bool:
        left = set(os.listdir(folder)) - set(before)
        return left <= {"page.html", "trace.pftrace", "result.json"} and bool(result.summary())

    return Case(call, intact)


def onnx_model(folder: Path) -> Case:
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Sigmoid" if i % 2 else "Exp", [f"v{i}"], [f"v{i + 1}"]) for i in range(30_000)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]) for name in ("v0", "v30000")]
    made = helper.make_model(helper.make_graph(nodes, "long", ends[:1], ends[1:]))
    return Case(lambda: ts.from_onnx(made))


def stablehlo_text(folder: Path) -> Case:
    kind = "tensor<8x8xf32>"
    lines = [f"    %{i + 1} = stablehlo.tanh %{i} : {kind}" for i in range(20_000)]
    head = f"module @long {{\n  func.func public @main(%0: {kind}) -> {kind} {{\n"
    text = head + "\n".join(lines) + f"\n    return %20000 : {kind}\n  }}\n}}\n"
    return Case(lambda: ts.from_stablehlo(text))


def fused(folder: Path) -> Case:
    """One group of very many operations."""
    graph = spelled(2000)
    return Case(lambda: ts.compile(graph, "edge-8"), lambda: graph == spelled(2000))


def header(folder: Path) -> Case:
    """A compiled program of many operations, written and read."""
    b = ts.GraphBuilder("long")
    x = b.input("x", (8, 8))
    for _ in range(200):
        x = x.softmax() @ x
    b.output(x, "y")
    program = ts.compile(b.build(), "edge-8")
    path = folder / "program.tsim"

    def call() -> None:
        for _ in range(1000):
            program.save(path)
            ts.Program.load(path)

    return Case(call, lambda: set(os.listdir(folder)) <= {"program.tsim"})


def pickled(folder: Path) -> Case:
    import pickle

    graph = weighty("pickled", 1 << 27, data=np.zeros(1 << 27, np.float32))
    return Case(lambda: pickle.dumps(graph), lambda: graph.weights()["w"]["source"] == "data")


def base64_text(folder: Path) -> Case:
    text = json.dumps(base64.b64encode(bytes(300_000_000)).decode())
    return Case(lambda: _core.parse_json(text))


MORE: dict[str, Callable[[Path], Case]] = {
    "save .tsim": lambda folder: saving(folder, ".tsim", 3 << 28, 0),
    "save .tsim from memory": lambda folder: saving(folder, ".tsim", 1, 3 << 26),
    "save .json": lambda folder: saving(folder, ".json", 1, 1 << 27),
    "load .json": loading,
    "read operations": building,
    "read 300,000 operations": reading,
    "write 300,000 operations": writing,
    "optimize": recognising,
    "partition 300,000 operations": dividing,
    "random weights": drawing,
    "evaluate random weights": evaluating,
    "tune": tuning,
    "sweep": sweeping,
    "search of mappings": searching,
    "least traffic": least,
    "network, packet by packet": network,
    "validation of networks": networks,
    "make a trace": traces,
    "a far trace": far_trace,
    "a table of a million rows": table,
    "closed forms": closed_forms,
    "estimate": estimates,
    "coverage": covering,
    "page, timeline, JSON": result_page,
    "ONNX": onnx_model,
    "StableHLO": stablehlo_text,
    "compile one group": fused,
    "compiled programs in files": header,
    "pickle": pickled,
    "parse JSON": base64_text,
}
