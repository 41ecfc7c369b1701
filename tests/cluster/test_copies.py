"""Clusters and results of steps as copies: by pickle, to other processes, and by copy.deepcopy."""

from __future__ import annotations

import copy
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tilesim as ts
from support.own_script import printed

NOT_AGAIN = "a loaded step cannot be repeated for advice"
COPIES = (lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy)
RING = {"kind": "ring", "size": 4, "bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6}
LINK = {"bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6, "both_ways": True}
GRAPH = {"devices": 3, "switches": 0, "links": [{"source": 0, "target": 1, **LINK}, {"source": 1, "target": 2, **LINK}]}


def clusters() -> list[ts.Cluster]:
    return [
        ts.Cluster.load("dgx-h100:16"),
        ts.Cluster.load("tpu-v4:64"),
        ts.Cluster("h100", [RING], faults=[{"device": 1, "share": 0.5}, {"device": 2, "compute": 0.9}]),
        ts.Cluster(ts.Device.load("a100"), GRAPH, per_node=1),
    ]


def priced(cluster: ts.Cluster) -> float:
    return ts.cluster.collective("all_reduce", 1 << 20, cluster).seconds


@pytest.mark.parametrize("copied", COPIES)
def test_clusters(copied: Callable[[Any], Any]) -> None:
    for cluster in clusters():
        other = copied(cluster)
        assert other is not cluster and repr(other) == repr(cluster)
        assert other.to_dict() == cluster.to_dict() and other.dimensions == cluster.dimensions
        assert (other.devices, other.per_node, other.nodes) == (cluster.devices, cluster.per_node, cluster.nodes)
        assert priced(other) == priced(cluster)


SCRIPT = """
import functools, pickle, sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import tilesim as ts

if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file, ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = pool.map(functools.partial(ts.cluster.collective, "all_reduce", 1 << 20), pickle.load(file))
        print([one.seconds for one in found])
"""


def test_clusters_go_to_other_processes(tmp_path: pathlib.Path) -> None:
    given = clusters()
    assert printed(tmp_path, SCRIPT, given) == [priced(one) for one in given]


@pytest.mark.singly
@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize(
    ("cluster", "plan", "more"),
    [
        ("dgx-h100:8", ts.Plan(tensor=8), {}),
        ("dgx-h100:16", ts.Plan(tensor=2, pipeline=4, data=2), {}),
        ("dgx-h100:16", ts.Plan(tensor=2, data=8), {"network_model": "flows"}),
        ("tpu-v4:64", ts.Plan(tensor=4, pipeline=2, data=8), {}),
        ("dgx-h100:8", ts.Plan(pipeline=4, data=2), {"library": "nccl", "slow": {1: 1.5}}),
    ],
)
def test_steps_of_plans(
    copied: Callable[[Any], Any], cluster: str, plan: ts.Plan, more: dict[str, Any], tmp_path: Any
) -> None:
    work = ts.workloads.transformer_step(8, 1024, 16, 1000, 512, 64)
    found = ts.cluster.step(work, cluster, plan, **more)
    other = copied(found)
    assert other == found and other.seconds == found.seconds and other.to_dict() == found.to_dict()
    assert other.table().rows == found.table().rows
    lines, rest = other.explain().split("\n"), found.explain().split("\n")
    assert lines == rest[: len(lines)] and set(rest[len(lines) :][:1]) <= {"single changes, each evaluated:"}
    assert len(other.advice()) == 0 and NOT_AGAIN in str(other.advice())
    for name, one in (("a", found), ("b", other)):
        one.timeline(tmp_path / f"{name}.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("copied", COPIES)
def test_steps_of_programs(copied: Callable[[Any], Any], tmp_path: Any) -> None:
    b = ts.GraphBuilder("products", dtype="bf16")
    x = b.input("x", (256, 512))
    b.output(b.matmul(b.matmul(x, b.input("up", (512, 1024))), b.input("down", (1024, 512))), "y")
    spmd = ts.partition(b.build(), {"d": 4}, {"up": (None, "d"), "down": ("d", None)})
    found = ts.cluster.step(spmd, "dgx-h100:4", store=tmp_path / "store.db")
    other = copied(found)
    assert (
        other.seconds == found.seconds
        and other.to_dict() == found.to_dict()
        and other.table().rows == found.table().rows
    )
    ways = [line for line in found.explain().split("\n") if not line.startswith("  overlap ")]
    assert other.explain().split("\n") == ways
    assert len(other.advice()) == 0 and NOT_AGAIN in str(other.advice())
    assert ts.cluster.replay(other.to_trace(), "dgx-h100:4").seconds == pytest.approx(
        ts.cluster.replay(found.to_trace(), "dgx-h100:4").seconds
    )
    for name, one in (("a", found), ("b", other)):
        one.timeline(tmp_path / f"{name}.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
