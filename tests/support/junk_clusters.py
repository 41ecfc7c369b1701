"""Valid arguments of calls about many chips."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import tilesim as ts

RING = [{"kind": "ring", "size": 4, "bandwidth_bytes_per_second": 1e9, "latency_seconds": 1e-6}]


def a_cluster() -> ts.Cluster:
    return ts.Cluster(network=RING)


def a_layered() -> Any:
    return ts.workloads.transformer_step(2, 64, 4, 100, 32, 8)


@lru_cache(maxsize=1)
def a_sharded() -> ts.Graph:
    b = ts.GraphBuilder("sharded", dtype="f32")
    b.output(b.input("x", (8, 4)) @ b.input("w", (4, 4)), "y")
    return b.build()


def a_partitioned() -> ts.cluster.Spmd:
    return ts.partition(a_sharded(), mesh={"d": 4}, shardings={"x": ["d", None]})


def a_trace() -> Any:
    return ts.cluster.fsdp_trace(4, 2, layer_bytes=4096, forward_ps=1000, backward_ps=2000)


def the_graph_of_all() -> ts.Graph:
    return a_partitioned().graph


def prepare() -> None:
    """Files of the working directory that calls read."""
    a_cluster().save("cluster.json")
    ts.Plan(tensor=2).save("plan.json")
    a_layered().save("layered.json")
    a_partitioned().save("spmd.json")
    ts.cluster.to_chakra(a_trace(), a_cluster(), "chakra")


RECEIVERS: dict[str, Callable[[], Any]] = {
    "ts.Cluster": a_cluster,
    "ts.Plan": lambda: ts.Plan(tensor=2),
    "ts.cluster.Spmd": a_partitioned,
}

CALLS: dict[str, dict[str, Callable[[], Any]]] = {
    "ts.Cluster": {"network": lambda: RING, "others": dict},
    "ts.Cluster.dimension_of": {"axis": lambda: 0},
    "ts.Cluster.groups": {"axis": lambda: 0},
    "ts.Cluster.load": {"source": lambda: "cluster.json"},
    "ts.Plan.check": {"workload": a_layered},
    "ts.Plan.filled": {"workload": a_layered},
    "ts.workloads.layered": {"source": lambda: "layered.json"},
    "ts.Plan.from_dict": {"value": lambda: ts.Plan(tensor=2).to_dict()},
    "ts.Plan.load": {"source": lambda: "tensor=2"},
    "ts.Plan.reasons": {"workload": a_layered},
    "ts.Plan.replace": {"changes": lambda: {"data": 2}},
    "ts.cluster.Spmd": {"graphs": lambda: [the_graph_of_all()], "devices": lambda: 4},
    "ts.cluster.Spmd.from_dict": {"value": lambda: a_partitioned().to_dict()},
    "ts.cluster.Spmd.from_partitioned": {"graph": the_graph_of_all},
    "ts.cluster.Spmd.load": {"path": lambda: "spmd.json"},
    "ts.partition": {
        "graph": a_sharded,
        "mesh": lambda: {"d": 4},
        "shardings": lambda: {"x": ["d", None]},
    },
    "ts.workloads.transformer_step": {
        "layers": lambda: 2,
        "hidden": lambda: 64,
        "heads": lambda: 4,
        "vocab": lambda: 100,
        "sequence": lambda: 32,
        "global_batch": lambda: 8,
    },
    "ts.cluster.algorithm": {
        "source": lambda: {
            "schema": "tilesim.algorithm",
            "version": 1,
            "name": "own",
            "operation": "all_gather",
            "devices": 2,
            "chunks": 2,
            "transfers": [[0, 0, 1, 0, "copy"], [0, 1, 0, 1, "copy"]],
        }
    },
    "ts.cluster.collective": {"op": lambda: "all_reduce", "bytes": lambda: 4096, "cluster": a_cluster},
    "ts.cluster.collectives": {"requests": lambda: [("all_reduce", 4096)], "cluster": a_cluster},
    "ts.cluster.from_chakra": {"folder": lambda: "chakra"},
    "ts.cluster.fsdp_trace": {
        "devices": lambda: 4,
        "layers": lambda: 2,
        "layer_bytes": lambda: 4096,
        "forward_ps": lambda: 1000,
        "backward_ps": lambda: 2000,
    },
    "ts.cluster.pipeline": {
        "schedule": lambda: "1f1b",
        "stages": lambda: 2,
        "microbatches": lambda: 4,
        "forward": lambda: 1.0,
        "backward_input": lambda: 1.0,
    },
    "ts.cluster.replay": {
        "folder": a_trace,
        "cluster": a_cluster,
    },
    "ts.cluster.scaling": {
        "workload": a_layered,
        "cluster": lambda: "dgx-h100",
        "devices": lambda: [2, 4],
        "plan": lambda: ts.Plan(data=2),
    },
    "ts.cluster.search": {"workload": a_layered, "cluster": lambda: "dgx-h100:8", "budget": lambda: 20},
    "ts.cluster.step": {"workload": a_layered, "cluster": lambda: "dgx-h100:8", "plan": lambda: ts.Plan(data=8)},
    "ts.cluster.to_chakra": {
        "workload": a_trace,
        "cluster": a_cluster,
        "folder": lambda: "written",
    },
}
