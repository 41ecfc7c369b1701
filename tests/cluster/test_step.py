"""Steps of layered workloads: forms by hand, bounds, what never gets worse, measured steps."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
from support.reference import table
from tilesim.analytic.gemm import gemm_seconds
from tilesim.base.paths import sample
from tilesim.cli.main import app
from tilesim.cluster.closed import StepTimes, times
from tilesim.cluster.columns import columns
from tilesim.cluster.exchange import AxisGroup, all_reduce, gather, to_all
from tilesim.cluster.fabric import Fabric, fabric_of
from tilesim.cluster.frameworks import CONSTANTS, Framework, names
from tilesim.cluster.stepping import pricer
from tilesim.validation.step import step as compared

WORK = ts.workloads.transformer_step(24, 2048, 16, 50257, 1024, 32, dtype="f16", attention="unfused")
NODE = Fabric(ts.Device.load("a100"), 8, 300e9, 200e9)
FREE = {"host_pass": 0.0, "host_straggler": 0.0, "host_microbatch": 0.0, "host_step": 0.0}
IDEAL = {**Framework.load("unfitted").constants, **FREE, "host_blend": 100.0}


def found(plan: ts.Plan, work: Any = WORK, fabric: Fabric = NODE, **constants: float) -> StepTimes:
    return times(columns([(work, plan)]), pricer(fabric.device, work.dtype), fabric, {**IDEAL, **constants})


def parts(result: Any) -> float:
    return math.fsum(result.parts.values())


@pytest.mark.parametrize(
    "plan", ["data=8", "tensor=8", "pipeline=8", "tensor=2,pipeline=2,data=2", "tensor=2,pipeline=2,virtual=2,data=2"]
)
@pytest.mark.parametrize("framework", names())
def test_parts_are_the_whole(plan: str, framework: str) -> None:
    result = ts.cluster.step(WORK, "dgx-a100:8", ts.Plan.load(plan), framework=framework, check_memory=False)
    assert parts(result) == pytest.approx(result.seconds, rel=1e-12)
    assert result.exposed_seconds <= result.seconds
    assert all(value >= -1e-12 * result.seconds for value in result.parts.values()), result.parts


def test_one_device_computes_its_products() -> None:
    """Products of a step as the product model prices them alone, shapes written down here."""
    h, tokens, vocabulary = 2048, 4 * 1024, 50257
    total = 0.0
    for n, k in ((3 * h, h), (h, h), (4 * h, h), (h, 4 * h)):
        shapes = ((tokens, n, k), (tokens, k, n), (k, n, tokens))
        total += 24 * sum(float(gemm_seconds("a100", *shape, "fp16")) for shape in shapes)
    for shape in ((tokens, vocabulary, h), (tokens, h, vocabulary), (h, vocabulary, tokens)):
        total += float(gemm_seconds("a100", *shape, "fp16"))
    scores = 4 * 16
    for shape, count in (((1024, 1024, 128), 1), ((1024, 128, 1024), 1)):
        total += 24 * count * float(gemm_seconds("a100", *shape, "fp16", batch=scores))
    for shape in ((1024, 1024, 128), (1024, 128, 1024), (1024, 128, 1024), (128, 1024, 1024)):
        total += 24 * float(gemm_seconds("a100", *shape, "fp16", batch=scores))
    one = dataclasses.replace(WORK, global_batch=4)
    times_ = found(ts.Plan(micro_batch=4), one)
    w = times_.work
    vector = 24 * (w.forward.vector + w.backward.vector)[0]
    logits = tokens * vocabulary * IDEAL["loss_bytes"] / (2.039e12 * IDEAL["memory_share"])
    assert times_.compute[0] == pytest.approx(total + vector + logits + w.embedding[0], rel=1e-9)
    assert times_.seconds[0] == pytest.approx(times_.compute[0] + times_.optimizer[0], rel=1e-12)


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_sums_of_a_tensor_group(tensor: int) -> None:
    """Two sums forward and two backward per layer, each 2 (n − 1) / n of the bytes over the links."""
    result = found(ts.Plan(tensor=tensor), call=0.0, link_step=0.0, link_share=1.0)
    size = 1024 * 2048 * 2
    one = 2 * (tensor - 1) / tensor * size / 300e9 + 2 * (tensor - 1) * NODE.latency
    assert result.tensor[0] == pytest.approx(32 * 24 * 4 * one, rel=1e-9)
    again = found(ts.Plan(tensor=tensor, recompute="full"), call=0.0, link_step=0.0, link_share=1.0)
    assert again.tensor[0] == pytest.approx(32 * 24 * 6 * one, rel=1e-9)


@pytest.mark.parametrize(("data", "nodes"), [(2, 1), (8, 1), (32, 4)])
def test_gradients_of_replicas(data: int, nodes: int) -> None:
    result = found(ts.Plan(data=data), call=0.0, link_step=0.0, link_share=1.0, node_share=1.0, node_step=0.0)
    size = 2 * (WORK.layers * WORK.layer_parameters + WORK.vocab * WORK.hidden)
    rate = 300e9 if nodes == 1 else 200e9  # one group has all adapters of its node
    latency = 2 * ((min(data, 8) - 1) * NODE.latency + 2 * math.log2(nodes) * NODE.node_latency)
    assert result.data[0] == pytest.approx(2 * (data - 1) / data * size / rate + latency, rel=1e-9)


def test_groups_of_a_node_share_its_adapters() -> None:
    # eight groups, a member of each in every node
    of = AxisGroup(np.array([4.0]), np.array([1.0]), np.array([8.0]), np.array([8.0]))
    free = {**IDEAL, "call": 0.0, "link_step": 0.0, "node_step": 0.0, "node_share": 1.0, "link_share": 1.0}
    fabric = dataclasses.replace(NODE, latency=0.0, node_latency=0.0)
    data = np.array([8e9])
    assert gather(data, of, fabric, free)[0] == pytest.approx(3 / 4 * 8e9 / 25e9)
    assert all_reduce(data, of, fabric, free)[0] == pytest.approx(2 * 3 / 4 * 8e9 / 25e9)
    assert to_all(data, of, fabric, free)[0] == pytest.approx(3 / 4 * 8e9 / 25e9)
    alone = AxisGroup(np.array([1.0]), np.array([1.0]), np.array([8.0]), np.array([8.0]))
    assert gather(data, alone, fabric, free)[0] == all_reduce(data, alone, fabric, free)[0] == 0


@pytest.mark.parametrize(("stages", "batch"), [(1, 8), (2, 1), (4, 4), (4, 16), (8, 32)])
@pytest.mark.parametrize("gpipe", [False, True])
def test_pipeline_of_equal_stages(stages: int, batch: int, gpipe: bool) -> None:
    """(m + p − 1) (F + B): the closed form, and the order of passes carried out one by one."""
    forward, backward = 3.0, 5.0
    schedule = "gpipe" if gpipe else "1f1b"
    drawn = ts.cluster.pipeline(schedule=schedule, stages=stages, microbatches=batch, forward=forward,
                                backward_input=backward, backward_weight=0.0)  # fmt: skip
    assert drawn.seconds == (batch + stages - 1) * (forward + backward)
    small = dataclasses.replace(WORK, vocab=1, global_batch=batch)  # next to no head: stages are equal
    result = found(ts.Plan(pipeline=stages, schedule=schedule), small, call=0.0, gradient_bytes=0.0)
    slowest = (result.stage_forward + result.stage_backward)[0]
    through = (result.seconds - result.optimizer)[0]
    assert through == pytest.approx((batch + stages - 1) * slowest, rel=0.01)


@pytest.mark.parametrize("virtual", [2, 3, 6])
def test_interleaved_pipeline(virtual: int) -> None:
    small = dataclasses.replace(WORK, vocab=1)
    result = found(ts.Plan(pipeline=4, virtual=virtual), small)
    slowest = (result.stage_forward + result.stage_backward)[0]
    assert (result.seconds - result.optimizer)[0] == pytest.approx(32 * slowest + 3 * slowest / virtual, rel=0.01)


def test_a_pass_waits_for_its_host() -> None:
    """Launches far slower than kernels: the step is theirs, whatever is computed."""
    slow = found(ts.Plan(), host_pass=1.0, host_microbatch=0.0)
    assert slow.seconds[0] == pytest.approx(32 * 24 * 2 * 1.0, rel=0.01)
    full = found(ts.Plan(recompute="full"), host_pass=1.0)
    assert full.seconds[0] == pytest.approx(32 * 24 * 3 * 1.0, rel=0.01)
    group = found(ts.Plan(tensor=4), host_pass=1.0, host_straggler=0.5)
    assert group.seconds[0] == pytest.approx(32 * 24 * 2 * 2.5, rel=0.01)


def test_gathered_parameters_hide_behind_products() -> None:
    work = dataclasses.replace(WORK, attention="flash", dtype="bf16")
    plan = ts.Plan(data=8, shard="zero3", micro_batch=4)
    hidden, half, bare = (found(plan, work, interference=share) for share in (0.0, 0.5, 1.0))
    weights = 2 * WORK.layer_parameters * 7 / 8
    first, table = (
        size / 300e9 / IDEAL["link_share"] + IDEAL["call"] + 7 * (NODE.latency + IDEAL["link_step"])
        for size in (weights, 2 * WORK.vocab * WORK.hidden * 7 / 8)
    )
    first += 2 * table  # the first micro-batch's is gathered, the last one's gradient scattered, beside nothing
    assert hidden.data[0] == pytest.approx(first)  # long passes hide all of it, but for the first layer's
    least = 24 * 3 * weights / 300e9  # gathered twice, summed once
    assert bare.data[0] >= least
    assert half.data[0] == pytest.approx(first)
    assert half.interference[0] + first / 2 == pytest.approx(bare.data[0] / 2)
    assert hidden.interference[0] == bare.interference[0] == 0
    short = found(dataclasses.replace(plan, micro_batch=1), dataclasses.replace(work, sequence=16), interference=0.0)
    assert short.data[0] > 2 * first  # short ones cannot
    exposed = [
        ts.cluster.step(work, "dgx-a100:8", plan, overlap=overlap).exposed_seconds for overlap in ("library", "none")
    ]
    assert exposed[0] < exposed[1]


PLANS = [
    "data=8", "tensor=8", "pipeline=8,micro_batch=2", "tensor=2,pipeline=2,data=2", "data=8,shard=zero3",
    "tensor=4,data=2,sequence=true,recompute=full", "tensor=2,context=4",
]  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
def test_bounds_and_what_never_gets_worse(plan: str) -> None:
    given = ts.Plan.load(plan)
    for framework in ("megatron", "fsdp", "xla", "unfitted"):
        k = Framework.load(framework).constants
        table_ = columns([(WORK, given)])
        price = pricer(NODE.device, WORK.dtype)

        def seconds(fabric: Fabric, k: Any = k, table_: Any = table_, price: Any = price) -> float:
            return float(times(table_, price, fabric, k).seconds[0])

        base = seconds(NODE)
        assert base >= WORK.flops / 8 / 312e12 / k["product_share"]
        for change in ({"link": 600e9}, {"node_link": 400e9}, {"latency": 0.0}, {"node_latency": 0.0}):
            assert seconds(dataclasses.replace(NODE, **change)) <= base
        for name in ("memory_share", "link_share", "node_share"):
            assert times(table_, price, NODE, {**k, name: 1.0}).seconds[0] <= base
        for name in ("host_pass", "loss_bytes", "optimizer_bytes", "call", "interference"):
            assert times(table_, price, NODE, {**k, name: CONSTANTS[name][1]}).seconds[0] <= base


def test_a_head_of_keys_on_each_device() -> None:
    """A tensor axis longer than there are heads of keys stores copies: as if there were a head for each."""
    few, many = (dataclasses.replace(WORK, attention="flash", kv_heads=heads) for heads in (2, 8))
    plan = ts.Plan(tensor=8, context=2)
    one, other = found(plan, few), found(plan, many)
    for name in ("compute", "tensor", "context"):
        assert getattr(one, name)[0] == getattr(other, name)[0]
    fewer = found(ts.Plan(tensor=2, context=8), few)
    assert fewer.compute[0] < found(ts.Plan(tensor=2, context=8), many).compute[0]


def test_keys_round_a_ring() -> None:
    """Context 8, tensor 1: seven sends of a part's keys and values forward, twice that back, behind attention."""
    work = dataclasses.replace(WORK, attention="flash", sequence=8192)
    bare = found(ts.Plan(context=8), work, interference=1.0, call=0.0, link_step=0.0, link_share=1.0)
    part = 2 * 1024 * 16 * 128 * 2  # keys and values of 1,024 tokens
    ring = 7 * (part / 300e9 + NODE.latency)
    assert bare.context[0] == pytest.approx(32 * 24 * 3 * ring, rel=1e-9)
    assert found(ts.Plan(context=8), work, interference=0.0).context[0] < bare.context[0]


def test_more_replicas_never_compute_more_each() -> None:
    one = [found(ts.Plan(data=data, micro_batch=1)) for data in (1, 2, 4, 8, 16, 32)]
    compute = [result.compute[0] for result in one]
    assert compute == sorted(compute, reverse=True)
    assert compute[0] == pytest.approx(32 * compute[-1])


def test_many_at_once_equal_one_by_one() -> None:
    plans = [ts.Plan.load(text) for text in PLANS]
    whole = times(columns([(WORK, plan) for plan in plans]), pricer(NODE.device, "f16"), NODE, IDEAL)
    for number, plan in enumerate(plans):
        alone = found(plan)
        for name in ("seconds", "compute", "tensor", "data", "bubble", "pipeline", "context"):
            assert getattr(whole, name)[number] == pytest.approx(getattr(alone, name)[0], rel=1e-12, abs=1e-15)


def test_experts_are_sent_to() -> None:
    mixture = ts.workloads.transformer_step(8, 1024, 16, 32000, 1024, 64, experts=(8, 2))
    apart, beside = (found(ts.Plan(data=8, expert=expert), mixture) for expert in (8, 1))
    assert beside.expert[0] == 0
    sent = 1024 * 1024 * 2 * 2  # a micro-batch's tokens, twice
    assert apart.expert[0] >= 8 * 8 * 6 * 7 / 8 * sent / 300e9
    assert apart.optimizer[0] < beside.optimizer[0]


class Fixed:
    """A library whose every call takes as long as its bytes at 1 GB/s."""

    def system(self, device: str) -> None:
        return None

    def seconds_many(self, op: str, data: Any, dtype: str, devices: Any, per_node: Any, **links: Any) -> Any:
        assert np.all(devices > 1)
        return np.asarray(data) / 1e9


def test_a_library_prices_what_passes() -> None:
    result = ts.cluster.step(WORK, "dgx-a100:8", ts.Plan(tensor=8), library=Fixed(), framework="unfitted")
    assert result.parts["tensor"] == pytest.approx(32 * 24 * 4 * 1024 * 2048 * 2 / 1e9)


def _cluster(inner: dict[str, Any], rails: int = 0) -> ts.Cluster:
    outer = {"kind": "fat_tree", "size": 8, "bandwidth_bytes_per_second": 25e9, "latency_seconds": 1e-6, "rails": rails}
    return ts.Cluster("a100", [{"latency_seconds": 1e-6, **inner}, outer])


def test_a_cluster_as_it_is_described() -> None:
    node = {"kind": "switch", "size": 8, "bandwidth_bytes_per_second": 300e9}
    of = fabric_of(_cluster(node))
    assert (of.link, of.node_link, of.devices, of.per_node, of.built) == (300e9, 200e9, 64, 8, None)
    assert fabric_of(_cluster(node, 4)).node_link == 100e9
    torus = fabric_of(_cluster({"kind": "torus", "sizes": [4, 2], "bandwidth_bytes_per_second": 50e9}))
    assert torus.link == 200e9 and torus.slices and torus.built  # two axes, both ways
    full = fabric_of(_cluster({"kind": "full", "size": 8, "bandwidth_bytes_per_second": 64e9}))
    assert full.link == 7 * 64e9 and full.built
    plan = ts.Plan(tensor=8, data=8)
    named = dataclasses.replace(NODE, devices=64, node_latency=1e-6)
    work = dataclasses.replace(WORK, global_batch=64)
    given = ts.cluster.step(work, _cluster(node), plan).seconds
    assert given == pytest.approx(ts.cluster.step(work, named, plan).seconds, rel=1e-12)


def test_fabrics() -> None:
    assert fabric_of("dgx-a100:64").devices == 64
    pod = fabric_of("v5p-128")
    assert (pod.per_node, pod.slices) == (64, True)
    for text, told in (("dgx-a10", "Did you mean 'dgx-a100'"), ("dgx-a100:x", "devices"), ("dgx-a100:0", "devices")):
        with pytest.raises(ts.UserError, match=told):
            fabric_of(text)
    with pytest.raises(ts.UserError, match="cluster"):
        fabric_of(7)
    with pytest.raises(ts.UserError, match=r"tpu-v5p.*Did you mean"):
        fabric_of("tpu-v5:64")


def test_a_cluster_from_a_file(tmp_path: Path) -> None:
    ts.Cluster.load("dgx-h200:16").save(tmp_path / "c.json")
    of = fabric_of(str(tmp_path / "c.json"))
    assert (of.devices, of.per_node, of.device.name) == (16, 8, "h200")


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"predictor": "close"}, "closed"),
        ({"network_model": "flow"}, "closed"),
        ({"overlap": "all"}, "library"),
        ({"framework": "megatrom"}, "Did you mean 'megatron'"),
        ({"plan": "tensor"}, "not a pair .*name=value"),
    ],
)
def test_options_that_are_none(values: dict[str, Any], told: str) -> None:
    with pytest.raises(ts.UserError, match=told):
        ts.cluster.step(WORK, "dgx-a100:8", **values)


def test_result_files(tmp_path: Path) -> None:
    result = ts.cluster.step(WORK, "dgx-a100:8", ts.Plan(pipeline=4, data=2, recompute="full"))
    result.save(tmp_path / "r.json")
    value = json.loads((tmp_path / "r.json").read_text())
    assert value["schema"] == "tilesim.cluster_result"
    assert math.fsum(value["parts"].values()) == pytest.approx(value["seconds"])
    assert sum(row["devices"] for row in value["classes"]) == 8
    assert "recompute=selective" in result.explain()
    assert next(iter(result.table()))["part"] == "compute"


def test_command_line(tmp_path: Path) -> None:
    WORK.save(tmp_path / "w.json")
    runner = CliRunner()
    words = ["cluster", "step", str(tmp_path / "w.json"), "--cluster", "dgx-a100:8", "--plan", "tensor=2,data=4"]
    told = runner.invoke(app, [*words, "--json", "-"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["devices"] == 8
    whole, head = (runner.invoke(app, [*words, *more]).output for more in ([], ["--quiet"]))
    assert "of peak" in head and whole.startswith(head) and len(head) < len(whole)


#: means that were asked for: system, at most
LIMITS = {
    "vtrain|A100-node": 0.08, "vtrain|A100-cluster-800G": 0.12, "llm-foundry|A100-40GB-cluster-1600G": 0.08,
    "llm-foundry|A100-80GB-cluster-1600G": 0.08, "llm-foundry|H100-cluster-3200G": 0.08,
    "megatron-2205.05198|DGX-A100-80GB": 0.10, "maxtext|v5e-256": 0.15, "maxtext|v5p-128": 0.15,
    "maxtext|v5p-1024": 0.15,
}  # fmt: skip


def test_measured_steps() -> None:
    report = compared(table("train_step_ms.csv"))
    assert report["n_unsupported"] == 0
    for group, limit in LIMITS.items():
        assert report["groups"][group]["mean_abs_error"] <= limit, group
    bare = compared(table("train_step_ms.csv"), "unfitted")
    assert bare["mean_abs_error"] <= 0.25
    assert bare["n_unsupported"] == 0


def test_sample_of_steps() -> None:
    report = compared(sample("step"))
    assert report["n"] >= 50
    assert report["n_unsupported"] == 0
    assert report["mean_abs_error"] <= 0.10


def test_rows_that_are_none(tmp_path: Path) -> None:
    header, first, *_ = sample("step").read_text(encoding="utf-8").splitlines()
    names_, cells = header.split(","), first.split(",")

    def row(**changes: str) -> str:
        return ",".join(changes.get(name, cell) for name, cell in zip(names_, cells, strict=True))

    bad = [row(system="A100-nod"), row(tensor="3"), row(measured_ms="-1"), row(devices="5"), row(dtype="f17")]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([header, first, *bad]) + "\n", encoding="utf-8")
    report = compared(path)
    assert [one["status"] for one in report["rows"]] == ["ok", *["invalid"] * len(bad)]
    assert "A100-node" in report["rows"][1]["reason"]
    path.write_text(header.replace("tensor", "tensors") + "\n" + first + "\n", encoding="utf-8")
    with pytest.raises(ts.UserError, match="tensor"):
        compared(path)
