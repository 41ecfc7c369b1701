"""Views of steps: breakdown, timeline, scaling, map of plans, advice; by sums, by hand, and by running again."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.base import screen
from tilesim.cli.main import app
from tilesim.cluster.advice import LEAST
from tilesim.cluster.fabric import fabric_of
from tilesim.models.layered_presets import layered

WORK = ts.workloads.transformer_step(24, 2048, 16, 50257, 1024, 64, dtype="bf16")
CASES = [
    ("dgx-a100:8", "data=8"),
    ("dgx-a100:8", "data=8,shard=zero3,micro_batch=2"),
    ("dgx-a100:8", "tensor=2,context=4"),
    ("dgx-a100:32", "tensor=2,pipeline=4,data=4"),
    ("dgx-a100:32", "tensor=4,pipeline=8,sequence=true,recompute=full"),
    ("dgx-a100:32", "tensor=2,pipeline=4,data=4,schedule=gpipe"),
    ("dgx-a100:32", "tensor=2,pipeline=4,data=4,virtual=3,recompute=selective"),
    ("v5p-16:32", "data=32,shard=zero3"),
]


def stepped(cluster: str, plan: str, work: Any = WORK, **options: Any) -> Any:
    return ts.cluster.step(work, cluster, ts.Plan.load(plan), check_memory=False, **options)


def written(result: Any, folder: Path) -> Any:
    result.timeline(folder / "t.json")
    return json.loads((folder / "t.json").read_text(encoding="utf-8"))


def slices(value: Any, pid: int | None = None) -> list[dict[str, Any]]:
    return [one for one in value["traceEvents"] if one["ph"] == "X" and pid in (None, one["pid"])]


@pytest.mark.parametrize(("cluster", "plan"), CASES)
def test_the_slowest_stage_computes_what_the_parts_say(cluster: str, plan: str, tmp_path: Path) -> None:
    result = stepped(cluster, plan)
    value = written(result, tmp_path)
    own = [one for one in slices(value, result.plan.pipeline) if one["tid"] == 1]  # the last has the head
    apart = ("embedding", "optimizer", "slowed")
    busy = math.fsum(one["dur"] for one in own if not one["name"].startswith(apart)) / 1e6
    slowed = math.fsum(one["dur"] for one in own if one["name"].startswith("slowed")) / 1e6
    before = result.stage["alone"] - result.stage["first"]  # the first layer's parameters slow no layer
    assert slowed == pytest.approx(result.parts["interference"] + before, abs=2e-9 * len(own))
    heads = math.fsum(one["dur"] for one in own if one["name"].startswith("embedding")) / 1e6
    wanted = result.parts["compute"] + result.parts["recompute"]
    layers_host = sum(one["dur"] for one in own if one["name"].startswith("launches")) / 1e6
    within = 2e-9 * len(own)  # rounded to nanoseconds
    if result.plan.pipeline == 1:
        assert busy + heads == pytest.approx(wanted + layers_host, abs=within)
    else:  # what the head adds counts as a wait of other stages
        assert busy == pytest.approx(wanted + layers_host, abs=within)
        assert heads <= result.bubble_seconds


def test_flows_go_from_sends_to_passes(tmp_path: Path) -> None:
    result = stepped("dgx-a100:32", "tensor=2,pipeline=4,data=4")
    value = written(result, tmp_path)
    begun = {one["id"]: one for one in value["traceEvents"] if one["ph"] == "s"}
    ended = {one["id"]: one for one in value["traceEvents"] if one["ph"] == "f"}
    micros = 64 // 4
    assert len(begun) == 2 * micros * 3  # each of them down and back over three borders
    assert begun.keys() == ended.keys()
    names = {
        (one["pid"], one["tid"]): one["args"]["name"] for one in value["traceEvents"] if one["name"] == "thread_name"
    }
    for key, send in begun.items():
        received = ended[key]
        assert abs(send["pid"] - received["pid"]) == 1
        assert send["ts"] <= received["ts"]
        assert names[send["pid"], send["tid"]] == "nodes: pipeline"  # eight devices of a stage fill a node
        inside = [one for one in slices(value, send["pid"]) if one["tid"] == send["tid"]]
        assert any(one["ts"] <= send["ts"] <= one["ts"] + one["dur"] and "send" in one["name"] for one in inside)
        started = [one for one in slices(value, received["pid"]) if one["ts"] == received["ts"]]
        assert any(one["tid"] == received["tid"] for one in started)


def test_bytes_by_hand(tmp_path: Path) -> None:
    """Counters end at what the sums of a tensor group and the sends of a stage between others carry."""
    result = stepped("dgx-a100:32", "tensor=2,pipeline=4,data=4")
    value = written(result, tmp_path)
    wide, micros, layers = 1024 * 2048 * 2, 16, 6
    inside = 4 * layers * micros * 2 * 1 / 2 * wide  # two sums forward, two backward, of two devices
    gathered = 2 * micros * 1 / 2 * wide  # the next stage's two ranks gather what each was sent
    last = {}
    for one in value["traceEvents"]:
        if one["ph"] == "C":
            key = one["pid"], one["name"]
            assert one["args"]["bytes"] >= last.get(key, 0)
            last[key] = one["args"]["bytes"]
    parameters = layers * WORK.layer_parameters / 2 + 50257 * 2048 / 2
    ends = [row for row in result.communication if (row["when"], row["axis"]) == ("end", "data")]
    gradients = sum(row["wire_bytes"] for row in ends)
    assert gradients / parameters == pytest.approx(2 * 3 / 4 * round(gradients / parameters / 1.5), rel=1e-6)
    on_node = {"node": inside + gathered, "nodes": 2 * micros * wide / 2}
    for row in ends:
        on_node[row["dimension"]] += gradients
    for name, wanted in on_node.items():
        assert last[2, f"{name}: bytes sent"] == pytest.approx(wanted, rel=1e-6), name


def test_parameters_pass_three_times() -> None:
    result = stepped("dgx-a100:8", "data=8,shard=zero3,micro_batch=2")
    each = WORK.layer_parameters * 7 / 8
    passes = 24 * (64 // 8 // 2)
    sent = {(row["when"], row["operation"]): row["wire_bytes"] for row in result.communication}
    assert sent["forward", "all_gather"] == pytest.approx(2 * each * passes, rel=1e-6)
    assert sent["backward", "all_gather"] == pytest.approx(2 * each * passes, rel=1e-6)
    assert sent["backward", "reduce_scatter"] == pytest.approx(2 * each * passes, rel=1e-6)


def test_steps_without_drawn_passes_say_so(tmp_path: Path) -> None:
    work = dataclasses.replace(WORK, phase="prefill")
    value = written(stepped("dgx-a100:32", "tensor=2,pipeline=4,data=4,virtual=3", work), tmp_path)
    assert "have no order in inference" in value["otherData"]["note"]
    result = stepped("dgx-a100:32", "tensor=2,pipeline=4,data=4,virtual=3", work)
    assert max(one["ts"] + one["dur"] for one in slices(value)) == pytest.approx(result.seconds * 1e6, abs=1e-2)
    with pytest.raises(ts.UserError, match="json"):
        result.timeline(tmp_path / "t.pftrace")


def test_scaling_by_hand() -> None:
    plan = ts.Plan(tensor=2, pipeline=2)
    found = ts.cluster.scaling(WORK, "dgx-a100", [32, 4, 8, 6], plan)
    assert [row["devices"] for row in found] == [4, 6, 8, 32]
    assert "6 devices are not divisible" in found[1]["reason"] and found[1]["seconds"] is None
    first = found[0]
    for row in (found[0], found[2], found[3]):
        alone = stepped(f"dgx-a100:{row['devices']}", f"tensor=2,pipeline=2,data={row['devices'] // 4}")
        assert row["seconds"] == alone.seconds
        assert row["tokens_per_second"] == pytest.approx(64 * 1024 / alone.seconds)
        share = first["seconds"] * 4 / (row["seconds"] * row["devices"])
        assert row["efficiency"] == pytest.approx(share)
        assert row["efficiency"] <= 1 + 1e-12  # the same stages, more replicas: nothing gets faster
        assert row["exposed_seconds"] == alone.exposed_seconds and row["bubble_seconds"] == alone.bubble_seconds
    assert len(found.results) == 3
    assert found[3]["efficiency"] < found[2]["efficiency"] < 1


@pytest.mark.parametrize("network", ["closed", "flows"])
def test_scaling_takes_the_network_of_a_step(network: str) -> None:
    wide = ts.workloads.transformer_step(24, 3072, 24, 51200, 1024, 16)
    plan = ts.Plan(tensor=6, micro_batch=2)  # groups that nodes of eight cut
    for cluster in ("dgx-a100", ts.Cluster.load("dgx-a100:24")):
        found = ts.cluster.scaling(wide, cluster, [6, 24], plan, network_model=network, grow_batch=True)
        for row, result, count in zip(found, found.results, (6, 24), strict=True):
            same = f"dgx-a100:{count}" if isinstance(cluster, str) else fabric_of(cluster, count)
            alone = ts.cluster.step(result.workload, same, result.plan, network_model=network)
            assert row["seconds"] == result.seconds == alone.seconds and result.network == network
    best = ts.cluster.scaling(WORK, "dgx-a100", [16], network_model=network)
    again = ts.cluster.step(WORK, "dgx-a100:16", best.results[0].plan, network_model=network)
    assert best[0]["seconds"] == again.seconds
    torus = ts.cluster.scaling(WORK, "tpu-v4", [8], ts.Plan(tensor=2), network_model=network)
    assert (
        torus[0]["seconds"]
        == ts.cluster.step(WORK, "tpu-v4:8", ts.Plan(tensor=2, data=4), network_model=network).seconds
    )
    for more in ({"library": "nccl", "network_model": "flows"}, {"network_model": "chunks"}):
        with pytest.raises(ts.UserError, match="network"):
            ts.cluster.scaling(WORK, "dgx-a100", [8], ts.Plan(tensor=8), **more)


def test_scaling_with_a_batch_that_grows() -> None:
    grown = ts.cluster.scaling(WORK, "dgx-a100", [8, 64], ts.Plan(tensor=8), grow_batch=True)
    fixed = ts.cluster.scaling(WORK, "dgx-a100", [8, 64], ts.Plan(tensor=8))
    assert grown.results[1].workload.global_batch == 8 * 64
    assert fixed[1]["efficiency"] < grown[1]["efficiency"] <= 1


def test_scaling_searches_and_tells_what_does_not_fit() -> None:
    large = ts.workloads.transformer_step(80, 8192, 64, 128256, 8192, 64, ffn=28672, gated=True, kv_heads=8)
    found = ts.cluster.scaling(large, "dgx-h100", [2, 32])
    assert found[0]["seconds"] is None and "GiB" in found[0]["reason"]
    assert found[1]["seconds"] == ts.cluster.search(large, "dgx-h100:32", keep=1).best.seconds
    prime = ts.cluster.scaling(WORK, "A100-cluster-800G", [1009])
    assert prime[0]["reason"] == "the workload has no legal plan on these devices"
    assert "up to 8, or a multiple of 8" in ts.cluster.scaling(WORK, "dgx-a100", [1009])[0]["reason"]
    assert "1,009" in str(prime)
    with pytest.raises(ts.UserError, match="no row has a time"):
        prime.plot()
    tight = ts.cluster.scaling(large, "dgx-h100", [8], ts.Plan(tensor=8))
    assert "does not fit" in tight[0]["reason"]


@pytest.mark.parametrize("devices", [[], "8,x", [0], [2.5], 8])
def test_numbers_of_devices_that_are_none(devices: Any) -> None:
    with pytest.raises(ts.UserError, match="devices"):
        ts.cluster.scaling(WORK, "dgx-a100", devices)


def test_a_map_of_plans() -> None:
    work = dataclasses.replace(layered("gpt3-175b"), sequence=65536, global_batch=16)  # 96 heads and layers
    study = ts.cluster.search(work, "dgx-a100:64", framework="megatron")
    found = study.map()
    at = {(row["tensor"], row["pipeline"]): row for row in found}
    assert set(at) == {(t, p) for t in range(1, 97) for p in range(1, 97) if 64 % (t * p) == 0}
    assert min(row["seconds"] for row in found if row["seconds"]) == study.best.seconds
    assert {row["kind"] for row in found} == {"", "memory", "shape"}
    for (tensor, pipeline), row in at.items():
        if row["kind"] == "":
            plan = ts.Plan.load(row["plan"])
            assert (plan.tensor, plan.pipeline) == (tensor, pipeline)
            alone = ts.cluster.step(work, "dgx-a100:64", plan, framework="megatron")
            assert (alone.seconds, alone.peak_bytes) == pytest.approx((row["seconds"], row["peak_bytes"]), rel=1e-9)
        elif row["kind"] == "memory":
            for shard, recompute in itertools.product(("none", "zero1"), ("none", "full")):
                data = 64 // tensor // pipeline
                plan = ts.Plan(tensor, pipeline, data, shard=shard if data > 1 else "none", recompute=recompute)
                tried = ts.cluster.step(work, "dgx-a100:64", plan, check_memory=False)
                assert tried.peak_bytes >= row["peak_bytes"] > 80 * 2**30
        else:
            assert 96 % tensor
    for row in study.table():  # no listed plan beats its cell
        plan = ts.Plan.load(row["plan"])
        assert at[plan.tensor, plan.pipeline]["seconds"] <= row["seconds"]


def test_a_map_of_some_plans_says_what_was_not_tried() -> None:
    study = ts.cluster.search(WORK, "dgx-a100:64", budget=3)
    kinds = [row["kind"] for row in study.map()]
    assert kinds.count("not tried") >= len(kinds) - 3 - kinds.count("shape") > 0


@pytest.mark.few(2)
@pytest.mark.parametrize(("cluster", "plan"), CASES)
def test_advice_is_run(cluster: str, plan: str) -> None:
    """Every line, computed here from the cluster as it would be."""
    result = stepped(cluster, plan)
    given = fabric_of(cluster)
    changed: dict[str, Any] = {
        "bandwidth inside": {"link": 2 * given.link},
        "bandwidth between": {"node_link": 2 * given.node_link},
        "latency": {"latency": given.latency / 2, "node_latency": given.node_latency / 2},
    }
    if given.built:  # a slice, and what joins slices
        changed = {"bandwidth inside": (2, 1, 1), "bandwidth between": (1, 2, 1), "latency": (1, 1, 0.5)}
        for name, (near, far, late) in changed.items():
            data = json.loads(given.built)
            for one, rate in zip(data["network"], (near, far), strict=True):
                one["bandwidth_bytes_per_second"] *= rate
                one["latency_seconds"] *= late
            changed[name] = {"built": json.dumps(data)}
    rows = result.advice().rows
    assert [row["gain"] for row in rows] == sorted((row["gain"] for row in rows), reverse=True)
    for row in rows:
        assert row["gain"] == pytest.approx(1 - row["seconds"] / result.seconds) and row["gain"] >= LEAST
        fabric, new, more = given, result.plan, {}
        if row["kind"] == "plan":
            parts = f"{result.plan.text()},{row['change']}".split(",")
            new = ts.Plan.load(",".join({one.partition("=")[0]: one for one in parts}.values()))  # the last one counts
        elif row["kind"] == "overlap":
            more = {"overlap": row["change"].removeprefix("overlap=")}
        elif row["kind"] == "network":
            fabric = dataclasses.replace(given, **next(v for k, v in changed.items() if row["change"].startswith(k)))
        else:
            continue
        again = ts.cluster.step(WORK, fabric, new, framework=result.framework, check_memory=False, **more)
        assert again.seconds == pytest.approx(row["seconds"], rel=1e-12), row
        assert row["fits"] == (again.peak_bytes <= 80 * 2**30 if "a100" in cluster else row["fits"])
        assert row["change"] in result.explain() or row["kind"] == "plan"


def test_twice_the_arithmetic_takes_half_of_what_only_computes() -> None:
    """A step of large products: no more than half is saved, and most of it."""
    work = ts.workloads.transformer_step(4, 8192, 64, 1024, 4096, 8, dtype="bf16")
    result = ts.cluster.step(work, "dgx-h100:1", ts.Plan(), framework="unfitted", check_memory=False)
    gains = {row["change"]: row["gain"] for row in result.advice()}
    assert 0.3 < gains["arithmetic x 2"] < 0.5
    assert gains.get("memory bandwidth x 2", 0.0) < gains["arithmetic x 2"]
    assert not any("bandwidth inside" in change or "latency" in change for change in gains)


def test_overlap_is_advised_where_there_is_none() -> None:
    result = stepped("dgx-a100:8", "data=8,shard=zero3,micro_batch=2", overlap="none")
    best = stepped("dgx-a100:8", "data=8,shard=zero3,micro_batch=2").seconds
    row = next(row for row in result.advice() if row["change"] == "overlap=library")
    assert row["seconds"] == best


def test_pictures() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    result = stepped("dgx-a100:32", "tensor=2,pipeline=4,data=4")
    bars = result.plot().patches
    assert math.fsum(bar.get_width() for bar in bars) == pytest.approx(result.seconds)
    found = ts.cluster.scaling(WORK, "dgx-a100", [8, 64], ts.Plan(tensor=2))
    drawn = found.plot().lines[0]
    assert list(drawn.get_ydata()) == [row["tokens_per_second"] for row in found]
    study = ts.cluster.search(WORK, "dgx-a100:8")
    texts = [one.get_text() for one in study.plot().texts]
    assert len(texts) == sum(row["kind"] != "shape" for row in study.map())
    pyplot.close("all")


def test_bars_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilesim.base import columns
    from tilesim.cluster.views import breakdown

    table = stepped("dgx-a100:32", "tensor=2,pipeline=4,data=4").breakdown
    assert "█" not in str(table)
    monkeypatch.setattr(screen, "is_terminal", lambda: True)
    monkeypatch.setattr(
        columns.sys, "stdout", type("Out", (), {"encoding": "utf-8", "isatty": staticmethod(lambda: False)})
    )
    drawn = screen.without_styles(breakdown.lines(table.rows)).splitlines()
    lengths = [line.count("█") for line in drawn[1:]]
    assert lengths == sorted(lengths, reverse=True) and lengths[0] > lengths[1]


def told(*words: str) -> Any:
    return CliRunner().invoke(app, ["cluster", *words])


def test_command_line(tmp_path: Path) -> None:
    dataclasses.replace(WORK, layers=8, global_batch=16).save(tmp_path / "w.json")
    work = str(tmp_path / "w.json")
    scaled = told("step", work, "--cluster", "dgx-a100", "--devices", "8,16", "--plan", "tensor=2", "--json", "-")
    assert [row["devices"] for row in json.loads(scaled.output)["rows"]] == [8, 16]
    words = ("step", work, "--cluster", "dgx-a100", "--devices", "8,16")
    whole, head = told(*words).output, told(*words, "--quiet").output
    assert "efficiency" in whole and whole.startswith(head) and head.count("\n") == 1
    for more in (("--devices", "8,x"), ("--timeline", "t.json"), ("--store", "s.db"), ("--devices", "")):
        wrong = told(*words, *more)
        assert wrong.exit_code != 0 and more[0].strip("-") in str(wrong.exception), more
    mapped = told("search", work, "--cluster", "dgx-a100:8", "--map", "--best", "2")
    assert "\\ pipeline" in mapped.output and " *" in mapped.output
    one = told("step", work, "--cluster", "dgx-a100:8", "--plan", "tensor=8", "--timeline", str(tmp_path / "t.json"))
    assert "exposed on" in one.output and "each evaluated" in one.output
    assert json.loads((tmp_path / "t.json").read_text(encoding="utf-8"))["traceEvents"]


def test_no_plan_that_fits_names_the_search() -> None:
    with pytest.raises(ts.UserError, match="cluster search"):
        ts.cluster.step("llama-3-8b", "dgx-h100:64")
    with pytest.raises(ts.UserError, match="recompute=full"):
        ts.cluster.step("llama-3-8b", "dgx-h100:64", ts.Plan(data=64))


def test_steps_and_searches_print_as_a_line() -> None:
    work = ts.workloads.transformer_step(4, 1024, 8, 32000, 512, 16)
    study = ts.cluster.search(work, "dgx-a100:4")
    for found in (study, study.best, ts.cluster.step("llama3-1b", "dgx-a100:4", check_memory=False)):
        text = repr(found)
        assert text.startswith(f"<{type(found).__name__} ") and "\n" not in text and len(text) < 160
    assert study.plans[0].text() in repr(study)
