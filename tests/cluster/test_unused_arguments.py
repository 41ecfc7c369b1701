"""Arguments that mean nothing for what they are given with are refused by name; each works elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.command import commands

WORK = ts.workloads.transformer_step(8, 1024, 8, 1000, 512, 8)
CLUSTER = "dgx-h100:4"


def program() -> Any:
    b = ts.GraphBuilder("product", dtype="bf16")
    b.output(b.matmul(b.input("x", (64, 64)), b.input("w", (64, 64))), "y")
    return ts.partition(b.build(), mesh={"d": 4}, shardings={"x": (None, "d")})


def refused(call: Any, *args: Any, **one: Any) -> None:
    """With the argument the call fails and names it; without, it works."""
    call(*args)
    (name,) = one
    with pytest.raises(ts.UserError, match=rf"(^|: ){name}: .*\(got .*; allowed: "):
        call(*args, **one)


GIVEN = {"numerics": "exact", "find_races": True, "order": "random", "poison": True, "level": "instruction"}


@pytest.mark.parametrize("name", GIVEN)
def test_programs_of_several_devices_are_executed_with_inputs_and_seed_alone(name: str) -> None:
    refused(ts.execute, program(), **{name: GIVEN[name]})


def test_steps_of_programs_and_of_layers(tmp_path: Path) -> None:
    spmd = program()
    refused(ts.cluster.step, spmd, CLUSTER, framework="xla")
    refused(ts.cluster.step, spmd, CLUSTER, plan=ts.Plan(data=4))
    refused(lambda *a, **k: ts.cluster.step(*a, library="nccl", **k), spmd, CLUSTER, network_model="flows")
    refused(ts.cluster.step, WORK, CLUSTER, store=tmp_path / "s.db")
    refused(ts.cluster.step, WORK, CLUSTER, predictor="engine")
    refused(ts.cluster.scaling, spmd, "dgx-h100", [4], framework="xla")
    refused(ts.cluster.scaling, spmd, "dgx-h100", [4], grow_batch=True)
    refused(ts.cluster.scaling, WORK, "dgx-h100", [4], axis="d")
    with pytest.raises(ts.UserError, match="axis: a training graph by name has one axis"):
        ts.cluster.scaling("resnet18", "dgx-h100", [4], axis="d")


def _said(command: str, option: str) -> tuple[set[str], set[str]]:
    """Words of an option's help that layered workloads take, and those that modules take beside them."""
    found = dict(commands())["cluster", command]
    (text,) = (one.help for one in found.params if one.name == option)
    layered, _, modules = re.sub("^[A-Z][^:;]*: ", "", text).partition("for modules also ")
    lists = (part.split(";")[0].replace(" or ", ", ") for part in (layered, modules))
    of_layered, of_modules = (set(re.findall(r"(?:^|, )([a-z]+)", one)) for one in lists)
    return of_layered, of_modules


@pytest.mark.parametrize(("option", "every"), [
    ("network_model", {"closed", "flows", "chunks"}), ("overlap", {"none", "ready", "library"}),
    ("predictor", {"closed", "engine", "table"}), ("framework", {"megatron", "fsdp", "xla", "serving", "unfitted"}),
])  # fmt: skip
def test_help_names_what_is_taken(option: str, every: set[str]) -> None:
    """What help says of layered workloads and of modules is what steps of either take, and nothing else is."""
    layered, modules = _said("step", option)
    assert layered | modules == every
    if option != "predictor":  # there as of step
        assert _said("search" if option == "framework" else "compare", option) == (layered, modules)
    for word in every:
        taken = True
        try:
            ts.cluster.step(WORK, CLUSTER, **{option: word})
        except ts.UserError as error:
            taken = f"{option}: " not in str(error)
        assert taken == (word in layered), word
        if option in ("network", "overlap"):
            ts.cluster.step(program(), CLUSTER, **{option: word})


def test_overlap_of_scaling_holds_where_a_search_finds_the_plan() -> None:
    none, usual = (ts.cluster.scaling(WORK, "dgx-h100", [4], overlap=one).results[0] for one in ("none", "library"))
    again = ts.cluster.step(WORK, CLUSTER, usual.plan, overlap="none")
    assert none.plan == usual.plan and none.seconds == again.seconds > usual.seconds


def test_searches() -> None:
    for wrong in ({"keep": 0}, {"keep": -1}, {"confirm": -1}):
        with pytest.raises(ts.UserError, match=f"{next(iter(wrong))}: out of range"):
            ts.cluster.search(WORK, CLUSTER, **wrong)
    assert ts.cluster.search(WORK, CLUSTER, confirm=0).confirmed == []


def test_replays_with_a_price_have_no_cluster() -> None:
    trace = ts.cluster.fsdp_trace(4, 1, layer_bytes=8, forward_ps=1, backward_ps=1)

    def replay(trace: Any, **more: Any) -> Any:
        return ts.cluster.replay(trace, price=lambda *_: 1e-6, **more)

    for one in ({"cluster": CLUSTER}, {"library": "nccl"}, {"algorithm": "ring"}, {"network_model": "flows"}):
        refused(replay, trace, **one)


SUMS = ("all_reduce", "all_gather", "reduce_scatter")
USED = {  # argument: operations and algorithms that have a use for it; every other pair has none
    "root": {("broadcast_devices", one) for one in ("auto", "ring", "tree", "direct")},
    "pairs": {("permute_devices", one) for one in ("auto", "direct")},
    "rings": {(op, one) for op in SUMS for one in ("auto", "ring")},
    "pieces": {("all_reduce", "tree"), ("broadcast_devices", "tree"), ("broadcast_devices", "ring"),
               *((op, one) for op in SUMS for one in ("auto", "hierarchical")),
               ("broadcast_devices", "auto")},
}  # fmt: skip
WORKS = {"all_reduce": ("auto", "ring", "tree", "direct", "hierarchical"),
         "all_gather": ("auto", "ring", "direct", "hierarchical"), "reduce_scatter": ("auto", "ring", "direct"),
         "all_to_all": ("auto", "direct"), "permute_devices": ("auto", "direct"),
         "broadcast_devices": ("auto", "ring", "tree", "direct")}  # fmt: skip


@pytest.mark.parametrize("op", WORKS)
def test_collectives(op: str) -> None:
    """Each of root, pairs, rings, pieces works where it says something, and is refused elsewhere."""
    for algorithm in WORKS[op]:
        for name, value in {"root": 1, "pairs": [(0, 1)], "rings": 1, "pieces": 4}.items():

            def call(*args: Any, algorithm: str = algorithm, **more: Any) -> Any:
                return ts.cluster.collective(*args, algorithm=algorithm, **more)

            if (op, algorithm) in USED[name]:
                call(op, 1 << 20, "dgx-h100:16", **{name: value})
            else:
                refused(call, op, 1 << 20, "dgx-h100:16", **{name: value})


def test_libraries_and_switches_choose_themselves() -> None:
    for name in ("rings", "pieces"):
        with pytest.raises(ts.UserError, match=f"{name}: a library selects"):
            ts.cluster.collective("all_reduce", 1 << 20, CLUSTER, library="nccl", **{name: 2})
        with pytest.raises(ts.UserError, match=f"{name}: {name} belong to"):
            ts.cluster.collective("all_reduce", 1 << 20, CLUSTER, algorithm="in-network", **{name: 2})


def test_a_graph_without_shardings_has_no_partitioner() -> None:
    b = ts.GraphBuilder("product", dtype="bf16")
    b.output(b.matmul(b.input("x", (64, 64)), b.input("w", (64, 64))), "y")
    with pytest.raises(ts.UserError, match="by: the graph is partitioned already"):
        ts.partition(b.build(), by="shardy")


def test_a_cluster_without_devices_takes_no_step() -> None:
    link = {"bandwidth_bytes_per_second": 1e11, "latency_seconds": 1e-6}
    with pytest.raises(ts.UserError, match="the cluster has no device"):
        ts.cluster.step(WORK, ts.Cluster(None, [{"kind": "switch", "size": 4, **link}]))
