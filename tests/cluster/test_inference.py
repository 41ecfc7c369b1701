"""Prefill and decode steps: forms by hand, bounds, what is refused, measured steps."""

from __future__ import annotations

import copy
import csv
import dataclasses
import itertools
import json
import math
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.reference import table
from tilesim.analytic.attention import attention_seconds
from tilesim.analytic.gemm import gemm_seconds
from tilesim.cluster.fabric import Fabric
from tilesim.cluster.frameworks import Framework

LAYERS, HIDDEN, HEADS, VOCAB, FFN, KV = 32, 4096, 32, 128256, 14336, 8
NODE = Fabric(ts.Device.load("h100"), 8, 450e9, 400e9, devices=8)
DENSE = HIDDEN * (HEADS + 2 * KV) * 128 + HEADS * 128 * HIDDEN + 3 * HIDDEN * FFN  # products' weights of a layer


def llama(phase: str, sequence: int, batch: int, **more: Any) -> Any:
    extents = (LAYERS, HIDDEN, HEADS, VOCAB, sequence, batch, FFN, True, KV)
    return ts.workloads.transformer_step(*extents, phase=phase, **more)


def one(phase: str, sequence: int, batch: int, plan: str = "tensor=8", **more: Any) -> Any:
    fabric = more.pop("fabric", NODE)
    return ts.cluster.step(llama(phase, sequence, batch, **more), fabric, ts.Plan.load(plan), check_memory=False)


@pytest.mark.parametrize("batch", [1, 16, 128])
def test_decode_on_one_device_is_its_kernels(batch: int) -> None:
    """Products and attention priced alone, shapes written here; passes between them by their bytes."""
    fabric = dataclasses.replace(NODE, devices=1)
    found = one("decode", 2048, batch, f"micro_batch={batch}", fabric=fabric)
    shapes = [(HIDDEN + 2 * KV * 128, HIDDEN), (HIDDEN, HIDDEN), (2 * FFN, HIDDEN), (HIDDEN, FFN)]
    layer = sum(float(gemm_seconds("h100", batch, n, k, "bf16")) for n, k in shapes)
    layer += float(attention_seconds("h100", batch=batch, queries=1, keys=2048, heads=HEADS, key_heads=KV))
    kernels = LAYERS * layer + float(gemm_seconds("h100", batch, VOCAB, HIDDEN, "bf16"))
    rest = found.seconds - kernels
    passes = batch * 2 * (10 * HIDDEN + 3 * FFN + 2 * (HEADS + KV) * 128)
    least = LAYERS * passes / (3.35e12 * Framework.load("serving").constants["memory_share"])
    assert least <= rest <= least + 35 * 4 * 6e-6 + 2 * batch * VOCAB * 8 / 3e12  # and a launch per kernel
    assert math.fsum(found.parts.values()) == pytest.approx(found.seconds, rel=1e-12)


@pytest.mark.parametrize(("tensor", "batch", "sequence"), [(1, 1, 512), (1, 64, 4096), (4, 8, 8192), (8, 128, 2048)])
def test_decode_is_bound_by_weights_and_cache(tensor: int, batch: int, sequence: int) -> None:
    fabric = dataclasses.replace(NODE, devices=tensor)
    found = one("decode", sequence, batch, f"tensor={tensor},micro_batch={batch}", fabric=fabric)
    weights = 2 * (LAYERS * DENSE + VOCAB * HIDDEN)
    cache = LAYERS * 2 * KV * 128 * 2 * sequence * batch
    bound = (weights + cache) / tensor / 3.35e12
    assert bound <= found.seconds <= 2 * bound + LAYERS * 2 * 60e-6 * (tensor > 1) + 2e-3
    assert found.memory["cache"] == cache / tensor
    assert found.memory["gradients"] == found.memory["optimizer"] == 0
    assert found.memory["weights"] == pytest.approx(weights / tensor, rel=1e-3)  # biases and norms beside


@pytest.mark.parametrize(("tensor", "sequence"), [(1, 2048), (1, 16384), (8, 8192)])
def test_prefill_is_bound_by_flops(tensor: int, sequence: int) -> None:
    fabric = dataclasses.replace(NODE, devices=tensor)
    found = one("prefill", sequence, 1, f"tensor={tensor}", fabric=fabric)
    flops = 2 * sequence * LAYERS * (DENSE + sequence * HEADS * 128) + 2 * VOCAB * HIDDEN
    assert llama("prefill", sequence, 1).flops == pytest.approx(flops)
    bound = flops / tensor / 989.4e12
    assert bound <= found.seconds - found.exposed_seconds <= 2.5 * bound
    assert found.mfu == pytest.approx(bound / found.seconds, rel=1e-3)
    assert found.memory["cache"] == LAYERS * 2 * KV * 128 * 2 * sequence / tensor


def test_tensor_sums_of_a_forward_pass() -> None:
    """Two sums of a layer's outputs per pass, over links of a rate and latency of ours."""
    k = Framework.load("serving").constants
    size = 8 * HIDDEN * 2
    sums = 2 * (7 / 8 * size / (450e9 * k["link_share"]) + 7 * (NODE.latency + k["link_step"])) + k["call"]
    assert one("decode", 1024, 8, "tensor=8,micro_batch=8").parts["tensor"] == pytest.approx(2 * LAYERS * sums)
    whole = one("prefill", 1024, 8, "tensor=8,micro_batch=1").parts["tensor"]
    size = 1024 * HIDDEN * 2
    sums = 2 * (7 / 8 * size / (450e9 * k["link_share"]) + 7 * (NODE.latency + k["link_step"])) + k["call"]
    assert whole == pytest.approx(8 * 2 * LAYERS * sums)  # eight micro-batches


def test_a_cache_has_a_head_on_each_device() -> None:
    """Tensor 8 over two heads of keys: each is stored four times."""
    work = ts.workloads.transformer_step(4, 1024, 16, 1000, 512, 4, kv_heads=2, phase="decode")
    found = ts.cluster.step(work, NODE, ts.Plan(tensor=8, micro_batch=4))
    assert found.memory["cache"] == 4 * 2 * 1 * 64 * 2 * 512 * 4
    halved = ts.cluster.step(work, NODE, ts.Plan(tensor=4, context=2, micro_batch=4))
    assert halved.memory["cache"] == found.memory["cache"] / 2  # half of each sequence
    replicas = ts.cluster.step(work, NODE, ts.Plan(tensor=2, data=4))
    assert replicas.memory["cache"] == found.memory["cache"] / 4  # a sequence each


def test_a_divided_cache_is_read_faster_and_summed() -> None:
    whole, parts = (one("decode", 65536, 1, plan) for plan in ("tensor=8", "tensor=2,context=4"))
    assert whole.parts["context"] == 0 < parts.parts["context"]
    alone = one("decode", 65536, 1, "tensor=2", fabric=dataclasses.replace(NODE, devices=2))
    attention = [
        float(attention_seconds("h100", queries=1, keys=keys, heads=16, key_heads=4)) for keys in (65536, 16384)
    ]
    gain = LAYERS * (attention[0] - attention[1])
    assert alone.seconds - parts.seconds == pytest.approx(gain - parts.parts["context"], rel=1e-6)
    prompt = one("prefill", 65536, 1, "tensor=2,context=4")
    assert (
        prompt.seconds < one("prefill", 65536, 1, "tensor=2", fabric=dataclasses.replace(NODE, devices=2)).seconds / 3
    )


@pytest.mark.parametrize("batch", [4, 8, 32])
def test_a_pipeline_without_a_way_back(batch: int) -> None:
    """(m + p − 1) times a stage where stages are equal."""
    work = dataclasses.replace(llama("decode", 1024, batch), vocab=1)
    found = ts.cluster.step(work, NODE, ts.Plan(tensor=2, pipeline=4, micro_batch=1), check_memory=False)
    stage = found.stage["forward"]
    assert found.seconds == pytest.approx((batch + 3) * stage, rel=0.02)
    assert found.stage["backward"] == 0
    assert 3 * 0.95 * stage <= found.bubble_seconds <= 3 * stage + batch * 40e-6  # the last stage has a head too


@pytest.mark.parametrize("phase", ["prefill", "decode"])
@pytest.mark.parametrize(
    ("plan", "batch", "passes"),
    [
        ("tensor=8", 8, 1), ("tensor=4,data=2", 24, 1), ("tensor=1,data=8", 64, 1), ("tensor=8", 7, 1),
        ("tensor=2,pipeline=4", 8, 4), ("tensor=2,pipeline=4", 2, 2), ("tensor=2,pipeline=4", 6, 6),
        ("tensor=4,pipeline=2,virtual=2", 6, 2), ("tensor=4,pipeline=2,virtual=2", 8, 2),
    ],
)  # fmt: skip
def test_a_replica_takes_its_sequences_in_one_pass(phase: str, plan: str, batch: int, passes: int) -> None:
    """Of a pipeline as many passes as stages, or the next number that divides the sequences; the plan says them."""
    found, replica = one(phase, 512, batch, plan), batch // ts.Plan.load(plan).data
    assert found.plan.micro_batch == replica // passes
    asked = one(phase, 512, batch, f"{plan},micro_batch={replica // passes}")
    assert found.seconds == asked.seconds and found.plan == asked.plan
    assert f"micro_batch={replica // passes}" in repr(found)
    if passes == 1 < replica:
        assert found.seconds < one(phase, 512, batch, f"{plan},micro_batch=1").seconds
    trained = ts.Plan.load(plan).filled(llama("train", 512, batch))
    assert trained == ts.Plan.load(f"{plan},micro_batch=1") and trained.text() == ts.Plan.load(plan).text()


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72:8", "l40s-8"])
def test_steps_take_the_library_of_the_cluster(name: str) -> None:
    """And neither bytes over rates nor the network alone takes longer than what was measured of the library."""
    for phase, batch in (("decode", 1), ("decode", 64), ("prefill", 1)):
        work = llama(phase, 1024, batch)
        own, asked, plain = (
            ts.cluster.step(work, name, ts.Plan(tensor=8), library=library) for library in (None, "nccl", "plain")
        )
        assert own.seconds == asked.seconds >= plain.seconds and "library nccl" in own.explain()
    for op, size in itertools.product(("all_reduce", "all_gather", "all_to_all"), (1 << 13, 1 << 20, 1 << 28)):
        alone = ts.cluster.collective(op, size, name)
        assert alone.seconds <= ts.cluster.collective(op, size, name, library="nccl").seconds
        assert "network only, without library costs" in repr(alone)
    trained = ts.cluster.step(llama("train", 1024, 8), name, ts.Plan(tensor=8), check_memory=False)
    assert "framework megatron, compared with measured steps" in trained.explain()
    study = ts.cluster.search(llama("decode", 1024, 8), name)
    assert study.best.seconds == pytest.approx(study.seconds[0]) and not study.confirmed


def test_what_was_not_said_stays_so() -> None:
    """Copies, files and pickles of a plan without a micro-batch have none either; one of 1 is written."""
    plan, said = ts.Plan(tensor=8), ts.Plan(tensor=8, micro_batch=1)
    work = llama("decode", 512, 8)
    for copied in (copy.deepcopy(plan), pickle.loads(pickle.dumps(plan)), ts.Plan.from_dict(plan.to_dict()),
                   plan.replace(tensor=8), ts.Plan.load(plan.text())):  # fmt: skip
        assert copied.filled(work).micro_batch == 8
    for copied in (pickle.loads(pickle.dumps(said)), ts.Plan.from_dict(said.to_dict()), ts.Plan.load(said.text())):
        assert copied.filled(work).micro_batch == 1


def test_more_never_takes_less() -> None:
    for phase, plan in itertools.product(("prefill", "decode"), ("tensor=8", "tensor=2,pipeline=4", "data=8")):
        times = [one(phase, sequence, 8, plan).seconds for sequence in (512, 1024, 4096)]
        assert times == sorted(times)
        base = one(phase, 1024, 8, plan).seconds
        for change in ({"link": 900e9}, {"latency": 0.0}, {"node_latency": 0.0}):
            assert one(phase, 1024, 8, plan, fabric=dataclasses.replace(NODE, **change)).seconds <= base
    assert one("decode", 1024, 8).seconds < one("prefill", 1024, 8).seconds


def test_replicas_talk_to_nobody_but_for_weights() -> None:
    assert one("decode", 1024, 8, "data=8").exposed_seconds == 0
    divided = one("decode", 1024, 8, "data=8,shard=zero3")
    layer = 2 * DENSE
    assert divided.parts["data"] >= LAYERS * (7 / 8 * layer / 450e9 - divided.seconds / LAYERS)
    assert divided.memory["weights"] < one("decode", 1024, 8, "data=8").memory["weights"] / 4


@pytest.mark.parametrize(
    ("phase", "plan", "told"),
    [
        ("prefill", "data=8,shard=zero1", "no optimizer state"),
        ("prefill", "data=8,recompute=full", "no recompute"),
        ("decode", "data=8,offload=optimizer", "no activations or state"),
        ("decode", "data=8,recompute=selective", "no recompute"),
        ("decode", "tensor=8,sequence=true", "single token"),
    ],
)
def test_what_means_nothing_without_gradients(phase: str, plan: str, told: str) -> None:
    with pytest.raises(ts.UserError, match=told):
        one(phase, 1024, 8, plan)


def test_a_cache_that_does_not_fit_says_so() -> None:
    with pytest.raises(ts.UserError, match=r"does not fit .*cache"):
        ts.cluster.step(llama("decode", 131072, 64), NODE, ts.Plan(tensor=8, micro_batch=64))


def test_results_and_search(tmp_path: Path) -> None:
    found = one("prefill", 1024, 16, "tensor=2,pipeline=4,micro_batch=1")
    assert "serving" in found.explain()
    found.save(tmp_path / "r.json")
    value = json.loads((tmp_path / "r.json").read_text())
    assert value["workload"]["phase"] == "prefill" and value["memory"]["cache"] > 0
    found.timeline(tmp_path / "t.json")
    spans = [event for event in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if event["ph"] == "X"]
    assert max(event["ts"] + event["dur"] for event in spans) == pytest.approx(found.seconds * 1e6, abs=3e-3)
    firsts = {event["name"].split(" ")[0] for event in spans}
    assert "forward" in firsts and not firsts & {"backward", "optimizer", "gradients"}
    assert sum(event["name"].startswith("forward") for event in spans) == 4 * 16  # one pass per stage and sequence
    work = llama("decode", 4096, 64)
    study = ts.cluster.search(work, NODE)
    assert study.best.plan.recompute == "none" and study.best.memory["cache"] > 0
    tried = [ts.Plan(tensor=8, micro_batch=64), ts.Plan(data=8, micro_batch=8), ts.Plan(tensor=2, pipeline=4)]
    least = min(ts.cluster.step(work, NODE, plan, check_memory=False).seconds for plan in tried)
    assert study.best.seconds <= least


def measured(device: str) -> dict[tuple[str, int, int], float]:
    """Seconds of steps from the times of their layers: (phase, sequences, tokens)."""
    folder = table(f"llm_step_times/{device}/llama-3.1-8b/tp1/dense.csv").parent

    def read(name: str) -> list[dict[str, str]]:
        return list(csv.DictReader((folder / name).read_text(encoding="utf-8").splitlines()))

    layers: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in read("dense.csv"):
        layers[row["layer"]].append((float(row["tokens"]), float(row["time_us"])))
    heads = [(float(r["sequences"]), float(r["time_us"])) for r in read("per_sequence.csv") if r["layer"] == "lm_head"]
    steps = {}
    for row in read("attention.csv"):
        prompt, cached, sequences, keys = (int(row[key]) for key in list(row)[:4])
        if cached or (prompt and sequences) or max(prompt, keys) < 64:
            continue
        tokens = prompt or sequences

        def at(points: list[tuple[float, float]], x: float) -> float:
            return float(np.interp(x, *zip(*sorted(points), strict=True)))

        layer = float(row["time_us"]) + at(layers["layernorm"], tokens)
        layer += sum(at(layers[n], tokens) for n in layers if n not in ("embedding", "final_layernorm"))
        once = at(layers["embedding"], tokens) + at(layers["final_layernorm"], tokens)
        total = once + LAYERS * layer + at(heads, max(1, sequences))
        steps["prefill" if prompt else "decode", max(1, sequences), prompt or keys] = total * 1e-6
    return steps


@pytest.mark.parametrize(
    ("folder", "device", "prefill", "decode"),
    [("rtxpro6000", "rtx-pro-6000", 0.12, 0.06), ("rtx4090", "rtx-4090", 0.22, 0.22)],
)
def test_measured_steps(folder: str, device: str, prefill: float, decode: float) -> None:
    """Llama 3.1 8B on one device, nothing fitted; the RTX 4090 is priced too slow, which is known."""
    steps = measured(folder)
    fabric = Fabric(ts.Device.load(device), 1, 32e9, 32e9, devices=1)
    for phase, most in (("prefill", prefill), ("decode", decode)):
        errors = []
        chosen = {key: value for key, value in steps.items() if key[0] == phase and key[2] <= 8192 and key[1] <= 256}
        assert len(chosen) >= 6
        for (_, batch, sequence), seconds in list(sorted(chosen.items()))[:: max(1, len(chosen) // 60)]:
            plan = ts.Plan(micro_batch=batch)
            found = ts.cluster.step(llama(phase, sequence, batch), fabric, plan, check_memory=False)
            errors.append(abs(found.seconds / seconds - 1))
        assert np.mean(errors) <= most, (phase, np.mean(errors))
