"""Operations of graphs priced by the core in one call: against the same shapes one by one, sums, figures by hand."""

import json
import math
import random
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.analytic.attention import attention_seconds
from tilesim.analytic.gemm import gemm_seconds
from tilesim.analytic.operations import Cost, Costs, rows_of
from tilesim.lowering.costs import Estimator


def priced(graph: ts.Graph, device: str, scheme: str | None = None) -> dict[str, Cost]:
    found, _ = Costs(ts.Device.load(device), scheme, "", None).price(graph.core)
    return {cost.name: cost for cost in rows_of(found)}


@pytest.mark.parametrize("device", ["a100", "tpu-v5e", "xeon-8480", "mi300x"])
def test_a_graph_costs_what_its_shapes_cost(device: str) -> None:
    """Products and attention of any extents, 1 among them, priced together and each alone: equal to the last bit."""
    pick = random.Random(device)
    b = ts.GraphBuilder("many")
    wanted: dict[str, float] = {}
    for i in range(40):
        m, n, k, batch = (pick.choice((1, 2, pick.randint(3, 300), pick.randint(300, 9000))) for _ in range(4))
        batch = 1 if i % 2 else min(batch, 64)
        lead = (batch,) if batch > 1 else ()
        x, w = b.input(f"x{i}", (*lead, m, k), "bf16"), b.input(f"w{i}", (*lead, k, n), "bf16")
        b.output(b.matmul(x, w, name=f"product{i}"), f"y{i}")
        wanted[f"product{i}"] = float(gemm_seconds(device, m, n, k, "bf16", batch))
    for i in range(20):
        heads, depth, queries = 2 ** pick.randint(0, 4), pick.choice((32, 64, 80, 128)), pick.choice((1, 7, 512))
        keys, key_heads = queries + pick.randint(0, 3000), max(1, heads // pick.choice((1, 2, 4)))
        q = b.input(f"q{i}", (2, heads, queries, depth), "bf16")
        k, v = (b.input(f"{key}{i}", (2, key_heads, keys, depth), "bf16") for key in "kv")
        b.output(b.op("attention", q, k, v, name=f"attention{i}"), f"z{i}")
        shape = {"batch": 2, "queries": queries, "keys": keys, "heads": heads, "key_heads": key_heads, "depth": depth}
        wanted[f"attention{i}"] = float(attention_seconds(device, **shape, causal=False))
    found = priced(b.build(), device)
    assert {name: found[name].seconds for name in wanted} == wanted


def test_a_stream_by_hand() -> None:
    """One launch and the longer of bytes and arithmetic, smoothly; what is read by one kernel alone joins that."""
    b = ts.GraphBuilder("streams")
    x, y = b.input("x", (512, 1024)), b.input("y", (512, 1024))
    first = b.apply("add", x, y, name="first")
    second = b.apply("multiply", first, y, name="second")
    b.output(b.op("reshape", second, shape=[1024, 512]), "z")
    found = priced(b.build(), "a100")
    device, c = ts.Device.load("a100"), Costs(ts.Device.load("a100"), None, "", None)._stream("copy")
    elements = 512 * 1024

    def core(tensors: int) -> float:
        memory = tensors * 4 * elements / (device.memory.bytes_per_second * c["memory_share"])
        compute = elements / (device.vector_rate("f32") * c["lanes_share"])
        p = c["overlap"]
        return float((memory**p + compute**p) ** (1 / p))

    assert found["first"].seconds == pytest.approx(c["launch"] + core(3), rel=1e-12)
    assert found["first"].model == "copy" and found["second"].model == "fused"
    assert found["second"].seconds == pytest.approx(core(1), rel=1e-12)  # y alone: neither first nor z moves
    (view,) = [cost for cost in found.values() if cost.kind == "reshape"]
    assert view.seconds == 0 and view.bound == "none"


def looped(trips: int | None) -> ts.Graph:
    b = ts.GraphBuilder("loops")
    more, step = b.function("more"), b.function("step")
    more.output(more.apply("less", more.input("i", (), "i32"), more.scalar(trips or 3, "i32")), "on")
    more.input("x", (256, 256))
    i, state = step.input("i", (), "i32"), step.input("x", (256, 256))
    step.output(i + 1, "i.next")
    step.output(step.matmul(state, state, name="square"), "x.next")
    attributes: dict[str, Any] = {} if trips is None else {"trips": trips}
    first = [b.scalar(0, "i32").value, b.input("x", (256, 256)).value]
    found = b.core.op("while", first, attributes, "loop", 2, ["more", "step"])
    b.output(ts.graph.Tensor(b, found[1]), "y")
    return b.build()


def test_a_loop_is_its_body_so_many_times() -> None:
    once, often = (priced(looped(trips), "h100")["loop"] for trips in (1, 37))
    assert often.seconds == pytest.approx(37 * once.seconds, rel=1e-12)
    assert often.terms == pytest.approx({key: 37 * value for key, value in once.terms.items()}, rel=1e-12)
    # the host counts: no kernel for the counter and its test
    assert once.seconds == pytest.approx(float(gemm_seconds("h100", 256, 256, 256, "fp32")), rel=1e-12)
    with pytest.raises(ts.Unsupported, match=r"operation loop \(while\): a loop whose length"):
        priced(looped(None), "h100")


def test_what_a_device_lacks_is_a_value_that_names_the_operation() -> None:
    b = ts.GraphBuilder("lacking")
    x, w = b.input("x", (8, 8), "i64"), b.input("w", (8, 8), "i64")
    b.output(b.matmul(x, w, name="wide+odd"), "y")
    graph = b.build()
    found, _ = Costs(ts.Device.load("a100"), None, "", None).price(graph.core)
    assert found.refused[:2] == ("wide+odd", "contract") and "i64" in found.refused[2]
    with pytest.raises(ts.Unsupported, match=r"operation wide\+odd \(contract\): no scheme multiplies i64") as refused:
        ts.estimate(graph, "a100")
    assert refused.value.operation == "wide+odd"
    host = Estimator(graph, ts.Device.load("xeon-8480"))  # there it is a stream
    assert host.seconds({"name": "wide+odd"}) > 0 and "contract: without" in str(host.notes)


def test_empty_operations_take_no_time() -> None:
    b = ts.GraphBuilder("empty")
    x, w = b.input("x", (0, 8)), b.input("w", (8, 4))
    b.output(b.matmul(x, w, name="nothing"), "y")
    assert priced(b.build(), "a100")["nothing"].seconds == 0


def test_a_result_is_the_sum_of_its_operations() -> None:
    result = ts.estimate("resnet50", "t4")
    hertz = result.data["hertz"]
    rows = {row["name"]: row for row in result.data["operations"]}
    timed = [cost for cost in result.costs if cost.seconds > 0]
    assert result.cycles == sum(row["cycles"] for row in rows.values()) and len(timed) == len(rows)
    for cost in timed:
        row = rows[cost.name]
        assert row["cycles"] == round(cost.seconds * hertz) and row["load_bytes"] == round(cost.bytes)
        assert row["multiply_adds"] + row["vector_operations"] in (cost.flops, cost.flops / 2)
        assert row["bound_share"] == min(1.0, cost.terms[cost.bound] / cost.seconds)
    starts = np.cumsum([0, *(row["cycles"] for row in result.data["operations"])])
    assert [row["start"] for row in result.data["operations"]] == starts[:-1].tolist()


def test_host_times_respect_peak_rates() -> None:
    """Never less than bytes at the memory's rate or arithmetic at the peaks; calls are the sum of their operations."""
    graph = ts.models.build("bert-base", sequence=16)
    device = ts.Device.load("xeon-8480")
    found = Estimator(graph, device)
    fastest = max(rate.flops_per_second for rate in device.matrix.values())
    for op in graph.operations():
        if op["kind"] in ("reshape", "bitcast", "constant", "call"):
            continue
        least = max(op["bytes"] / device.memory.bytes_per_second, op["flops"]["matrix"] / fastest)
        assert found.seconds(op) >= least and found.picoseconds(op) == math.ceil(found.seconds(op) * 1e12)


def test_a_result_as_data_is_its_json() -> None:
    text = json.dumps(ts.run(ts.models.mlp(batch=4), timeline=True).data)
    core = _core.Result.from_json(text)
    assert core.data() == json.loads(core.to_json()) == json.loads(text)


@pytest.mark.parametrize(("name", "edge"), [("edge-8", 8), ("gemmini-16", 16), ("mesh-16", 64), ("tpu-v3", 128)])
def test_arrays_of_a_machine_have_their_own_edge(name: str, edge: int) -> None:
    """1,024 rows through whole arrays of the machine's own edge take about as long as the rows or the bytes do."""
    from tilesim.analytic.gemm import array_edge

    machine = ts.Machine.load(name)
    assert array_edge(ts.Device.from_machine(machine)) == edge
    array = machine.to_dict()["core"]["array"]
    rows, columns = 16384, edge * int(array["count"]) * int(machine.to_dict()["core"]["count"])
    dtype = "i8" if name in ("edge-8", "gemmini-16") else "bf16"
    rate = float(array["rates"].get(dtype, 1))
    by_hand = rows / rate  # one pass per array
    result = ts.estimate(ts.workloads.matmul(rows, columns, edge, dtype=dtype), machine)
    memory = result.memory_bytes / ts.Device.from_machine(machine).memory.bytes_per_second * machine.hertz
    assert result.cycles <= 3 * max(by_hand, memory) + 2000
