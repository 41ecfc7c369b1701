"""Coverage and profile: every operation has a row, shares add up, names of lowering lead back to the graph."""

import json

import numpy as np
import pytest

import tilesim as ts
from support.unlowered import by_size
from tilesim import _core
from tilesim.study.coverage import Attribution


def spectrum() -> ts.Graph:
    b = ts.GraphBuilder("spectrum")
    h = b.apply("relu", b.linear(b.input("x", (32, 32)), 32, name="first"))
    re, im = by_size(b, h, "order", 1)
    b.output(b.linear(b.concat([re, im], axis=1, name="concat"), 8, name="last"), "y")
    return b.build()


def transformed() -> ts.Graph:
    b = ts.GraphBuilder("transformed")
    h = b.apply("relu", b.linear(b.input("x", (32, 32)), 32, name="first"))
    re, im = b.op("fft", h, name="fft", results=2, dim=1)
    factor = b.op("linear_solve", b.matmul(re, im, name="gram"), name="factor", mode="cholesky")
    b.output(b.linear(factor, 8, name="last"), "y")
    return b.build()


CASES = {
    "mlp": lambda: ts.models.mlp(batch=4),
    "bert": lambda: ts.models.build("bert-base", sequence=16),
    "llama": lambda: ts.models.build("llama-3-8b", context=64, phase="decode"),
    "transformed": transformed,
}


@pytest.mark.parametrize("name", CASES)
def test_everything_is_covered(name: str) -> None:
    graph = CASES[name]()
    found = ts.coverage(graph)
    total = found.result.cycles
    rows = found.table().rows
    assert sum(row["cycles"] for row in rows) == total
    for key in ("flops_share", "bytes_share", "time_share"):
        assert sum(row[key] for row in rows) == pytest.approx(1)
        assert sum(row[key] for row in found.summary().rows) == pytest.approx(1)
    assert sum(row["flops"] for row in rows) == pytest.approx(sum(graph.flops().values()))
    names = {(f, op["name"]) for f in graph.functions for op in graph.operations(f) if op["kind"] != "call"}
    assert {(row["function"], row["operation"]) for row in rows if row["on"] != "link"} == names
    # what a product takes is counted at the product
    products = [row for row in rows if row["kind"] == "contract"]
    assert all(row["on"] in ("array", "host") and row["cycles"] > 0 for row in products)
    assert not any(row["on"] == "view" and row["cycles"] for row in rows)


def test_what_the_machine_lacks_is_named() -> None:
    found = ts.coverage(spectrum())
    assert found.unsupported == ["order (sort): sort: the vector unit sorts by keys, not by a custom comparator"]
    where = {row["operation"]: row["on"] for row in found.table().rows}
    assert where["order"] == "host" and {"link", "array", "weight"} <= set(where.values())
    assert "unsupported: order" in repr(found)
    assert not ts.coverage(ts.models.mlp()).unsupported


def test_times_of_a_repeated_layer_count_every_run() -> None:
    graph = ts.models.build("bert-base", sequence=16)
    rows = {(row["function"], row["operation"]): row for row in ts.coverage(graph).table().rows}
    assert rows["layer", "attention.self.query"]["runs"] == 12 and rows["main", "pooler.dense"]["runs"] == 1
    flat = graph.copy()
    flat.inline_calls()
    once = {row["operation"]: row for row in ts.coverage(flat).table().rows}
    queries = [row for name, row in once.items() if name.endswith("attention.self.query")]
    assert len(queries) == 12
    assert sum(row["flops"] for row in queries) == rows["layer", "attention.self.query"]["flops"]


def test_attribution_counts_every_cycle_once() -> None:
    graph = ts.models.build("vit-b-16", batch=1)
    program = ts.compile(graph)
    result = ts.simulate(program)
    found = Attribution.of(graph, program, result)
    assert not found.others
    assert sum(found.cycles.values()) == result.cycles
    by_name: dict[str, int] = {}
    for row in result.data["operations"]:
        if row["multiply_adds"] > 0:
            by_name[row["name"]] = by_name.get(row["name"], 0) + row["exclusive"]
    assert found.cycles["main", "conv_proj"] >= by_name["conv_proj"] > 0


# --- profile ---


def test_profile_of_a_graph() -> None:
    graph = spectrum()
    found = ts.study.profile(graph, runs=1)
    rows = {row["operation"]: row for row in found.table().rows}
    assert {"first", "relu", "order", "concat", "last"} <= rows.keys()
    assert all(row["reference_ms"] > 0 for name, row in rows.items() if row["kind"] != "transfer")
    assert found.totals()["simulated_ms"] == pytest.approx(found.result.milliseconds)
    assert "torch_ms" not in found.totals()
    pytest.importorskip("pandas")
    assert len(found.to_pandas()) == len(rows)
    with pytest.raises(ts.UserError, match="number of runs"):
        ts.study.profile(graph, runs=0)
    with pytest.raises(ts.UserError, match="unknown model"):
        ts.study.profile("graph")
    with pytest.raises(ts.UserError, match="wrong number of inputs"):
        ts.study.profile(graph, [])


def test_profile_runs_every_call_of_a_layer() -> None:
    graph = ts.models.build("bert-base", sequence=4)
    rows = {(row["function"], row["operation"]): row for row in ts.study.profile(graph, runs=1).table().rows}
    assert rows["layer", "output.dense"]["calls"] == 12 and rows["layer", "output.dense"]["reference_ms"] > 0


def test_profile_of_a_torch_module() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    nn = torch.nn
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4), nn.Softmax(-1)).eval()
    found = ts.study.profile(model, (torch.randn(8, 16),), runs=1)
    rows = {row["operation"]: row for row in found.table().rows}
    assert rows.keys() == {"0", "1", "2", "3", "4"}
    assert all(row["torch_ms"] > 0 and row["reference_ms"] > 0 for row in rows.values())
    assert found.totals()["simulated_ms"] == pytest.approx(found.result.milliseconds)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True).eval()
    times = ts.study.profile(layer, (torch.randn(2, 5, 32),), runs=1)
    rows = {row["operation"]: row for row in times.table().rows}
    assert all(rows[name]["torch_ms"] > 0 for name in ("linear1", "linear2", "norm1", "norm2"))
    assert times.totals()["simulated_ms"] == pytest.approx(times.result.milliseconds)


def test_timed_kernels_give_the_same_graph() -> None:
    """The timing hook sees each operation once per run, and only what runs."""
    from tilesim import _core

    graph = ts.models.mlp(batch=2)
    rows = _core.time_operations(graph.core, _core.random_inputs(graph.core, 0), 2)
    assert [row["operation"] for row in rows] == [op["name"] for op in graph.operations()]
    assert all(row["calls"] == 1 and np.isfinite(row["seconds"]) for row in rows)
    json.dumps(rows)


def test_kinds_by_rooms() -> None:
    """An empty cell is legal only through the expansion."""
    between = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute_devices", "broadcast_devices"}
    between.add("device_index")
    assert not any(_core.has_lowering(name) for name in between)
    for kind in _core.kinds():
        name = kind["name"] if isinstance(kind, dict) else kind
        lowered = _core.has_lowering(name)
        assert _core.has_kernel(name), name
        assert lowered or name in between or name == "fused", name
