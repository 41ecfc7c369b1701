"""Steps of programs of several devices: times by hand, segments that compute what the whole does, bad input."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.cluster.programs.flat import FREE
from tilesim.cluster.programs.measured import signature
from tilesim.cluster.programs.scheduling import order_of
from tilesim.cluster.programs.splitting import content_key, graph_of, split

RATE, LATENCY = 1e9, 1e-3
SLOWER = 0.8  # of its rate a device has beside communication: 1 - interference of configs/frameworks/xla.json
PRODUCT, OTHER = 7e-3, 1e-3  # seconds that the fixed predictor says


class Fixed:
    """A product takes 7 ms, any other operation that takes time 1 ms."""

    name = "fixed"

    def __init__(self) -> None:
        self.asked = 0

    def seconds(self, segment: Any, device: Any) -> dict[str, Any]:
        self.asked += 1
        kinds = [entry["kind"] for entry in segment.operations() if entry["kind"] not in FREE]
        return {"seconds": sum(PRODUCT if kind == "contract" else OTHER for kind in kinds)}


def two(devices: int = 2, **more: Any) -> ts.Cluster:
    ring = {"kind": "ring", "size": devices, "both_ways": False}
    ring |= {"bandwidth_bytes_per_second": RATE, "latency_seconds": LATENCY}
    return ts.Cluster(device="a100", network=[ring], **more)


def beside(computing: float, talking: float) -> float:
    """Until both are done that begin together: computing goes on at SLOWER of its rate until the other is done."""
    return max(talking, computing + (1 - SLOWER) * talking) if computing > SLOWER * talking else talking


def fsdp(rows: int = 1 << 20, layers: int = 2) -> ts.cluster.Spmd:
    """Products of a divided batch with divided weights [rows, 2], [2, rows], ...: 8 MB each, gathered before use."""
    b = ts.GraphBuilder("fsdp")
    x = b.input("x", (4, rows))
    shardings = {"x": ("d", None)}
    for layer in range(layers):
        shape = (rows, 2) if layer % 2 == 0 else (2, rows)
        weight = b.input(f"w{layer}", shape)
        shardings[f"w{layer}"] = ("d", None)
        x = b.matmul(x, weight, name=f"product{layer}")
        shardings[f"product{layer}" if layer + 1 < layers else "y"] = ("d", None)
    b.output(x, "y")
    return ts.partition(b.build(), mesh={"d": 2}, shardings=shardings)


def seconds(spmd: Any, overlap: str, cluster: Any = None, **more: Any) -> float:
    found = ts.cluster.step(spmd, cluster or two(), predictor=Fixed(), overlap=overlap, **more)
    assert math.isclose(math.fsum(found.parts.values()), found.seconds, rel_tol=1e-9)
    assert found.exposed_seconds <= found.seconds
    return float(found.seconds)


def test_two_products_whose_weights_are_gathered() -> None:
    """Each gather of 8 MiB among two brings half of it: 4 MiB over the link, and one latency."""
    spmd = fsdp()
    assert [row["kind"] for row in spmd.collectives()] == ["all_gather", "all_gather"]
    gather = (4 << 20) / RATE + LATENCY
    together = 2 * (4 << 20) / RATE + LATENCY
    assert seconds(spmd, "none") == pytest.approx(2 * gather + 2 * PRODUCT, rel=1e-9)
    assert seconds(spmd, "ready") == pytest.approx(gather + beside(PRODUCT, gather) + PRODUCT, rel=1e-9)
    assert seconds(spmd, "library") == pytest.approx(together + 2 * PRODUCT, rel=1e-9)


def test_large_collectives_stay_apart() -> None:
    """32 MiB each: more than XLA combines, so library is as ready."""
    spmd = fsdp(4 << 20)
    gather = (16 << 20) / RATE + LATENCY
    by_hand = gather + beside(PRODUCT, gather) + PRODUCT
    assert seconds(spmd, "library") == pytest.approx(by_hand, rel=1e-9)
    assert seconds(spmd, "ready") == pytest.approx(by_hand, rel=1e-9)


def test_equal_segments_are_predicted_once() -> None:
    fixed = Fixed()
    found = ts.cluster.step(fsdp(layers=6), two(), predictor=fixed, overlap="ready")
    assert (found.segments_count, found.segments_distinct, fixed.asked) == (6, 2, 2)
    assert sorted(row["count"] for row in found.segments) == [3, 3]
    assert "2 distinct of 6" in found.explain()


def summed(extent: int = 1 << 20) -> ts.cluster.Spmd:
    """A product that is divided along what it sums: an all-reduce behind it, then one more operation."""
    b = ts.GraphBuilder("summed")
    y = b.matmul(b.input("x", (1, 4)), b.input("w", (4, extent)), name="y")
    b.output(b.apply("exp", y), "z")
    return ts.partition(b.build(), mesh={"d": 2}, shardings={"x": (None, "d"), "w": ("d", None), "y": (None, None)})


def test_a_straggler_moves_the_step_by_its_critical_path() -> None:
    """Both wait for the slower one's product; behind the sum it is slower again, and the other one done."""
    spmd = summed()
    (row,) = spmd.collectives()
    assert row["kind"] == "all_reduce"
    reduce = 2 * ((2 << 20) / RATE + LATENCY)
    assert seconds(spmd, "ready") == pytest.approx(PRODUCT + reduce + OTHER, rel=1e-9)
    slower = seconds(spmd, "ready", slow={1: 1.1})
    assert slower == pytest.approx(1.1 * PRODUCT + reduce + 1.1 * OTHER, rel=1e-9)
    found = ts.cluster.step(spmd, two(), predictor=Fixed(), slow={1: 1.1})
    assert sorted((row["devices"], row["seconds"]) for row in found.classes) == [
        (1, pytest.approx(1.1 * PRODUCT + reduce + OTHER)),
        (1, pytest.approx(slower)),
    ]


@pytest.mark.parametrize("overlap", ["none", "ready", "library"])
def test_symmetry_changes_nothing(overlap: str) -> None:
    for spmd in (fsdp(), summed()):
        assert seconds(spmd, overlap, symmetry=False) == seconds(spmd, overlap)


def running(b: Any, kind: str, operands: list[Any], functions: list[str], **attributes: Any) -> list[Any]:
    from tilesim.graph.tensor import Tensor

    found = b.core.op(kind, [one.value for one in operands], attributes, "", results_of(kind, operands), functions)
    return [Tensor(b, value) for value in found]


def results_of(kind: str, operands: list[Any]) -> int:
    return len(operands) if kind == "while" else 1


def looped(trips: int) -> ts.cluster.Spmd:
    """x = exp(all-reduced x · w), `trips` times."""
    b = ts.GraphBuilder("loop")
    test = b.function("test")
    i, _, _ = test.input("i", (), "i32"), test.input("w", (2, 2)), test.input("x", (2, 2))
    test.output(test.apply("less", i, test.scalar(9, "i32")), "go")
    body = b.function("body")
    i, w, x = body.input("i", (), "i32"), body.input("w", (2, 2)), body.input("x", (2, 2))
    body.output(i + 1, "i2")
    body.output(body.op("copy", w), "w2")
    met = body.op("all_reduce", body.matmul(x, w), combiner="maximum", name="met")
    body.output(body.apply("exp", met), "x2")
    start = b.weight("zero", data=np.int32(0))
    state = running(b, "while", [start, b.input("w", (2, 2)), b.input("x", (2, 2))], ["test", "body"], trips=trips)
    b.output(state[2], "y")
    graph = b.build()
    graph.annotate(devices=2)
    return ts.cluster.Spmd.from_partitioned(graph)


@pytest.mark.parametrize("trips", [1, 3, 7])
def test_loops_multiply(trips: int) -> None:
    """Serially each trip takes a product, two other operations (a copy and a count are others too), and a sum."""
    reduce = 2 * (8 / RATE + LATENCY)
    assert seconds(looped(trips), "none") == pytest.approx(trips * (PRODUCT + 3 * OTHER + reduce), rel=1e-6)


def test_a_loop_that_data_end_is_an_error() -> None:
    with pytest.raises(ts.Unsupported, match="trips that depend on data"):
        ts.cluster.step(looped(0), two(), predictor=Fixed())


def test_messages_between_neighbours() -> None:
    """Device 0 sends 4 MiB to device 1, which computes behind it; device 0 is done once it has sent."""
    b = ts.GraphBuilder("sent")
    x = b.input("x", (1 << 20,))
    b.output(b.apply("exp", b.op("permute_devices", x, pairs=[0, 1])), "y")
    graph = b.build()
    graph.annotate(devices=2)
    spmd = ts.cluster.Spmd.from_partitioned(graph)
    assert seconds(spmd, "ready") == pytest.approx((4 << 20) / RATE + LATENCY + OTHER, rel=1e-9)


def random_graph(rng: np.random.Generator, size: int) -> ts.Graph:
    """Elementwise operations, sums, products, views and communications of one device, joined at random."""
    b = ts.GraphBuilder("random")
    values = [b.input(f"x{i}", (4, 4)) for i in range(3)]
    for _ in range(size):
        x, y = (values[int(rng.integers(max(0, len(values) - 6), len(values)))] for _ in range(2))
        made = {
            0: lambda x=x, y=y: x + y,
            1: lambda x=x, y=y: b.apply("maximum", x, y),
            2: lambda x=x, y=y: x @ y,
            3: lambda x=x: b.op("all_reduce", x, combiner="add", groups=[0], group_size=1),
            4: lambda x=x: x.transpose(1, 0),
            5: lambda x=x: b.broadcast(x.max(-1, keep_dims=True), (4, 4)) - x,
            6: lambda x=x: x.reshape(2, 8).reshape(4, 4) * 0.5,
        }[int(rng.integers(7))]
        values.append(made())
    b.output(values[-1], "y")
    b.output(values[-3], "z")
    graph = b.build()
    graph.core.remove_dead_code()
    return graph


@pytest.mark.parametrize("combine", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_segments_together_compute_the_whole(seed: int, combine: bool) -> None:
    """Parts run one after the other, each on what those before it made; communication of one device changes nothing."""
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(3, 40)))
    inputs = {row["name"]: rng.integers(-1, 2, row["shape"]).astype(np.float32) for row in graph.inputs}
    found = split(graph.core, 1, combine)
    flat = found.flat
    known: dict[str, Any] = dict(inputs)
    order = order_of(found)
    assert sorted(order) == list(range(len(found.parts)))
    done: set[int] = set()
    for number in order:
        part = found.parts[number]
        assert set(part.deps) <= done
        done.add(number)
        if part.op:
            for i in part.operations:
                entry = flat.operations[i].entry
                known[entry["results"][0]["name"]] = value_of(graph, known, entry["operands"][0]["name"])
            continue
        if not part.operations:
            continue
        segment = graph_of(found, part)
        assert content_key(segment) == part.key
        own = {row["name"]: value_of(graph, known, row["name"]) for row in segment.inputs}
        known.update(ts.reference(segment, own))
    whole = ts.reference(graph, inputs)
    for name, wanted in whole.items():
        np.testing.assert_array_equal(value_of(graph, known, name), wanted)


def value_of(graph: ts.Graph, known: dict[str, Any], name: str) -> Any:
    """A value, through the views that belong to no part."""
    if name not in known:
        entry = next(one for one in graph.operations() if any(r["name"] == name for r in one["results"]))
        assert entry["kind"] in FREE
        names = [one["name"] for one in entry["operands"]]
        part = ts.Graph(graph.core.extract([entry["name"]], names, [name]))
        given = {row["name"]: value_of(graph, known, row["name"]) for row in part.inputs}
        known[name] = ts.reference(part, given)[name]
    return known[name]


def test_an_operation_waits_only_for_what_it_reads() -> None:
    """Of two products behind one sum each, none waits for the other's."""
    b = ts.GraphBuilder("apart")
    for name in ("a", "b"):
        x = b.op("all_reduce", b.input(f"x{name}", (1 << 20, 1)), combiner="add")
        b.output(b.matmul(x, b.input(f"w{name}", (1, 1))), f"y{name}")
    graph = b.build()
    graph.annotate(devices=2)
    spmd = ts.cluster.Spmd.from_partitioned(graph)
    reduce = 2 * ((2 << 20) / RATE + LATENCY)
    assert seconds(spmd, "ready") == pytest.approx(reduce + beside(PRODUCT, reduce) + PRODUCT, rel=1e-9)


# --- predictors ---


def table(tmp_path: Path, rows: list[str]) -> str:
    path = tmp_path / "measured.csv"
    path.write_text("what,seconds,device,attributes\n" + "\n".join(rows) + "\n")
    return f"table:{path}"


def test_measured_operations(tmp_path: Path) -> None:
    spmd = fsdp(1 << 10)
    first, second = '"contract f32[2,1024] f32[1024,2] -> f32[2,2]"', '"contract f32[2,2] f32[2,1024] -> f32[2,1024]"'
    rows = [f"{first},0.002,a100,", f"{second},0.005,,", f"{first},9,h100,"]
    found = ts.cluster.step(spmd, two(), predictor=table(tmp_path, rows), overlap="none")
    assert found.parts["compute"] == pytest.approx(0.007)
    with pytest.raises(ts.UserError, match=r"missing row for an operation.*contract f32\[2,2\]"):
        ts.cluster.step(spmd, two(), predictor=table(tmp_path, rows[:1]))


def test_measured_segments_go_first(tmp_path: Path) -> None:
    spmd = fsdp(1 << 10)
    known = ts.cluster.step(spmd, two(), predictor=Fixed(), overlap="none").segments
    rows = [f"segment {row['segment']},0.25,," for row in known]
    found = ts.cluster.step(spmd, two(), predictor=table(tmp_path, rows), overlap="none")
    assert found.parts["compute"] == pytest.approx(0.25 * found.segments_count)


def test_interpolation_is_asked_for_and_named(tmp_path: Path) -> None:
    """exp of 4 MiB lies in the middle between 1 and 16 MiB on a line of logarithms."""
    b = ts.GraphBuilder("one")
    b.output(b.apply("exp", b.input("x", (1 << 20,))), "y")
    rows = [f"exp f32[{n}] -> f32[{n}],{t},," for n, t in ((1 << 18, 1e-3), (1 << 22, 4e-3))]
    name = table(tmp_path, rows)
    with pytest.raises(ts.UserError, match="missing row"):
        ts.cluster.step(b.build(), two(), predictor=name)
    found = ts.cluster.step(b.build(), two(), predictor=f"{name}:interpolate")
    assert found.seconds == pytest.approx(2e-3)
    assert any(note.startswith("interpolated") and "exp f32[1048576]" in note for note in found.notes)


def test_signatures_name_functions_and_shapes() -> None:
    b = ts.GraphBuilder("one")
    b.output(b.input("x", (3,)) * b.input("y", (3,)), "z")
    (entry,) = b.build().operations()
    assert signature(entry) == "multiply f32[3] f32[3] -> f32[3]"


def test_the_engine_times_a_segment_as_it_times_a_graph() -> None:
    graph = ts.workloads.matmul(256, 256, 256, dtype="bf16")
    network = [{"kind": "ring", "size": 2, "bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6}]
    found = ts.cluster.step(graph, ts.Cluster(device="tpu-v3", network=network), predictor="engine")
    alone = ts.simulate(graph, "tpu-v3")
    assert found.seconds == pytest.approx(alone.seconds, rel=1e-9)


def test_closed_forms_are_those_of_an_estimate() -> None:
    """One segment, whose host's wait is no part of it."""
    graph = ts.workloads.matmul(4096, 4096, 4096, dtype="bf16")
    found = ts.cluster.step(graph, two())
    alone = ts.estimate(graph, "a100", compiler="xla")
    host = sum(2e-6 * kernel["launches"] for kernel in alone.kernels())
    assert found.seconds == pytest.approx(alone.seconds - host, rel=1e-6)
    assert found.kernels == 1 and found.kernel_bytes == 3 * 2 * 4096**2


# --- results ---


def test_what_a_result_says(tmp_path: Path) -> None:
    found = ts.cluster.step(fsdp(), two(), overlap="ready")
    assert isinstance(found, ts.cluster.StepResult)
    found.save(tmp_path / "step.json")
    data = json.loads((tmp_path / "step.json").read_text())
    assert data["schema"] == "tilesim.cluster_result" and data["seconds"] == found.seconds
    found.timeline(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert names == {"compute", "network 0"}
    assert [row["part"] for row in found.table()] == sorted(found.parts, key=lambda p: -found.parts[p])[
        : len(found.table())
    ]
    assert found.peak_bytes == found.memory["inputs"] + found.memory["activations"]
    assert "overlap none" in found.explain()


def test_memory_is_inputs_and_what_lives_at_once() -> None:
    """Both weights are gathered, 8 MiB each, while the first is needed; inputs: half of x and of each weight."""
    found = ts.cluster.step(fsdp(), two(), predictor=Fixed(), overlap="none")
    assert found.memory["inputs"] == (8 + 4 + 4) << 20
    assert found.memory["activations"] >= 8 << 20


def test_traces_of_programs(tmp_path: Path) -> None:
    spmd = fsdp()
    ts.cluster.to_chakra(spmd, two(), tmp_path / "a")
    again = ts.cluster.replay(tmp_path / "a", two())
    direct = ts.cluster.step(spmd, two(), overlap="ready")
    assert again.seconds == pytest.approx(direct.seconds, rel=1e-3)


# --- bad input ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"predictor": "closd"}, "unknown predictor.*closed"),
        ({"predictor": "table:nowhere.csv"}, "nowhere.csv"),
        ({"overlap": "all"}, "unknown overlap"),
        ({"network_model": "waves"}, "unknown network"),
        ({"plan": ts.Plan(data=2)}, "does not apply to a program"),
        ({"slow": {7: 2.0}}, "not a slow device"),
        ({"library": "ncl"}, "nccl"),
    ],
)
def test_unknown_names(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ts.UserError, match=message):
        ts.cluster.step(fsdp(), two(), **arguments)


@pytest.mark.parametrize(
    "said", [None, 3, "soon", [], {}, *({"seconds": one} for one in (math.nan, math.inf, -1, "1", None, True)),
             {"seconds": 1.0, "terms": 3}, {"seconds": 1.0, "terms": {"memory": "x"}}],
)  # fmt: skip
def test_predictions_that_are_no_times(said: Any) -> None:
    class Wrong:
        name = "of mine"

        def seconds(self, segment: Any, device: Any) -> Any:
            return said

    with pytest.raises(ts.UserError, match="predictor of mine: the predictor"):
        ts.cluster.step(fsdp(), two(), predictor=Wrong())


def test_predictors_may_say_numbers_of_numpy_and_need_a_name() -> None:
    class Plain:
        name = "plain"

        def seconds(self, segment: Any, device: Any) -> Any:
            return {"seconds": np.float32(0.5), "terms": None}

    assert ts.cluster.step(fsdp(layers=1), two(), predictor=Plain()).seconds >= 0.5
    del Plain.name
    with pytest.raises(ts.UserError, match=r"not a predictor.*name"):
        ts.cluster.step(fsdp(), two(), predictor=Plain())


def test_clusters_that_are_too_small_or_cannot_compute() -> None:
    with pytest.raises(ts.UserError, match=r"more devices than the cluster has.*4 or more"):
        b = ts.GraphBuilder("four")
        b.output(b.op("all_reduce", b.input("x", (4,)), combiner="add"), "y")
        graph = b.build()
        graph.annotate(devices=4)
        ts.cluster.step(graph, two())
    network = [{"kind": "ring", "size": 2, "bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6}]
    with pytest.raises(ts.UserError, match="no compute devices"):
        ts.cluster.step(fsdp(), ts.Cluster(network=network))


def test_the_engine_says_what_it_needs() -> None:
    """On shipped clusters it runs, or the error names those on which it does."""
    spmd, clusters = fsdp(), {name: ts.Cluster.load(name) for name in ts.Cluster.names()}
    good = [name for name, one in clusters.items() if one.device in ts.Machine.names()]
    device = ts.Device.load({**ts.Device.load("h100").to_dict(), "name": "mine"})
    clusters["custom"] = ts.Cluster(device, two().network)
    for name, cluster in clusters.items():
        if name in good:
            continue
        with pytest.raises(ts.UserError, match="predictor 'engine' needs a cluster") as error:
            ts.cluster.step(spmd, cluster, predictor="engine")
        said = str(error.value)
        assert f"{name}, with device {getattr(cluster.device, 'name', cluster.device)};" in said
        assert all(machine in said for machine in ts.Machine.names())
        assert f"shipped clusters {', '.join(good) or 'none'})" in said


def test_devices_that_are_not_used_are_told(tmp_path: Path) -> None:
    for count in (2, 4, 7):
        found = ts.cluster.step(fsdp(), two(count), predictor=Fixed())
        found.save(tmp_path / "step.json")
        saved = ts.cluster.StepResult.load(tmp_path / "step.json")
        first = found.explain().splitlines()[0]
        for told in (first, repr(found), repr(saved)):
            assert (f"2 of {count} devices of" in told) == (count > 2)
        assert any(f"2 of {count} devices" in note for note in found.notes) == (count > 2)
        assert found.cluster_devices == saved.cluster_devices == count and found.devices == 2


@pytest.mark.parametrize("network", ["closed", "flows", "chunks"])
def test_network_models_agree_where_nothing_is_shared(network: str) -> None:
    assert seconds(summed(), "ready", network_model=network) == pytest.approx(seconds(summed(), "ready"), rel=1e-6)


def test_files_and_names_on_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from tilesim.cli.main import app

    fsdp().save(tmp_path / "fsdp.spmd.json")
    words = ["cluster", "step", str(tmp_path / "fsdp.spmd.json"), "--cluster", "dgx-a100:2", "--json", "-"]
    made = CliRunner().invoke(app, words)
    assert made.exit_code == 0, made.output
    found = json.loads(made.output)
    assert found["workload"] == {"name": fsdp().name, "devices": 2} and found["segments_count"] == 1
    made = CliRunner().invoke(app, ["cluster", "step", "llama3-100m", "--cluster", "tpu-v3-8", "--library", "xla-tpu"])
    assert made.exit_code == 0 and "8 × tpu-v3-core" in made.output, made.output
    made = CliRunner().invoke(app, ["cluster", "step", "llama3-100", "--cluster", "tpu-v3-8"])
    assert made.exit_code == 1


def test_what_does_not_fit_is_said() -> None:
    b = ts.GraphBuilder("large", dtype="bf16")
    b.output(b.apply("exp", b.input("x", (1 << 20, 1 << 15))), "y")
    with pytest.raises(ts.UserError, match=f"does not fit into memory .*{2 * 2 << 35:,} bytes"):
        ts.cluster.step(b.build(), two(), predictor=Fixed())
    found = ts.cluster.step(b.build(), two(), predictor=Fixed(), check_memory=False)
    assert found.peak_bytes == 2 * 2 << 35 and not found.fits
    assert "exceed the memory" in found.explain()
