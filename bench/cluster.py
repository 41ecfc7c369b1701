"""Many chips: what collectives, replays, steps, plans, partitions and runs of several devices cost this processor.

Goals: all_reduce of 1 GiB on a ring of 1,024: closed 1 ms, chunks with one device per class 5 ms, with all 0.3 s;
a replay of an FSDP trace of 1,024 devices 50 ms; a step of a 405B model on 65,536 devices 0.5 s and 500 MB, its search
20,000 plans per second; two Llama layers with gradients partitioned for 64 devices in 0.2 s, for 4,096 in 0.3 s; a
program run on 8 devices 10 times as long as on one. `--fast` is a smoke run; `--json FILE` writes the figures. Times
are the least processor seconds of some calls.

Usage: python bench/cluster.py [--fast] [--json F]
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np

import tilesim as ts

STEPS = (("llama-3-8b", 64, "data=64,shard=zero2"), ("llama-3-70b", 4096, "tensor=8,pipeline=4,data=128,shard=zero1"))
LARGE = ("llama-3-405b", 65536, "tensor=8,pipeline=16,data=512,shard=zero1,sequence=true")
#: the first have few plans; of the others some carry out many orders, or have stages that are not alike
SEARCHES = (
    ("llama-3-8b", "gb200-nvl72:72"), ("llama-3-8b", "dgx-h100:8"), ("gpt3-175b", "dgx-a100:64"),
    ("llama-3-70b", "dgx-h100:64"), ("llama-3-70b", "dgx-h100:512"), ("llama-3-70b", "tpu-v5p:128"),
    ("llama-3-70b", "tpu-v5p:512"),
    ("turing-530b", "dgx-a100:280"), ("llama-3-70b", "dgx-h100:4096"), ("llama-3-405b", "dgx-h100:65536"),
)  # fmt: skip
#: what is stepped in a process of its own: start, step and result, to its end
ALONE = """
import resource, time
import tilesim as ts
start = time.process_time()
result = ts.cluster.step({0!r}, "dgx-h100:{1}", ts.Plan.load({2!r}), check_memory=False)
result.breakdown
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def timed(call, repeats=3):
    """The result, and the least processor seconds of some calls."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        found = call()
        best = min(best, time.process_time() - start)
    return found, best


def row(what, seconds, goal=None, **more):
    """One figure: what, milliseconds, the goal in milliseconds."""
    return {"what": what, "milliseconds": seconds * 1e3, "goal_milliseconds": goal and goal * 1e3, **more}


def collectives(fast):
    """Prices by size of the ring and of the message, and by model."""
    repeats = 1 if fast else 3
    rows = []
    for n in (64, 256) if fast else (64, 256, 1024):
        ring = {"kind": "ring", "size": n, "bandwidth_bytes_per_second": 50e9, "latency_seconds": 5e-7}
        cluster = ts.Cluster(network=[ring])
        for model, symmetry in (("closed", True), ("chunks", True), ("chunks", False), ("flows", True)):
            asked = {
                "op": "all_reduce",
                "bytes": 1 << 30,
                "cluster": cluster,
                "network_model": model,
                "symmetry": symmetry,
            }
            found, seconds = timed(lambda asked=asked: ts.cluster.collective(**asked), repeats)
            goal = {("closed", True): 1e-3, ("chunks", True): 5e-3, ("chunks", False): 0.3}.get((model, symmetry))
            rate = found.messages / seconds if found.messages else None
            what = f"all_reduce 1 GiB, ring {n}, {model}, {found.classes} classes"
            rows.append(row(what, seconds, goal if n == 1024 else None, messages_per_second=rate))
    for name in ("dgx-h100:1024", "tpu-v4:512"):
        for size in (1 << 10, 1 << 20, 1 << 30):
            asked = {"op": "all_reduce", "bytes": size, "cluster": name}
            found, seconds = timed(lambda asked=asked: ts.cluster.collective(**asked), repeats)
            rows.append(row(f"all_reduce {size:,} B, {name}, {found.model}", seconds))
    many = [("all_reduce", 1 << (10 + i % 20)) for i in range(100 if fast else 1000)]
    _, seconds = timed(lambda: ts.cluster.collectives(many, "dgx-h100:1024", network_model="closed"), repeats)
    rows.append(row(f"{len(many):,} collectives, closed", seconds, collectives_per_second=len(many) / seconds))
    _, seconds = timed(lambda: ts.cluster.collectives(many[10:14], "dgx-h100:64"), repeats)
    rows.append(row("4 collectives that share links, dgx-h100:64, flows", seconds))
    return rows


def replays(fast):
    """A step of sharded weights, 48 layers, all devices alike."""
    devices = 64 if fast else 1024
    trace = ts.cluster.fsdp_trace(devices, 48, layer_bytes=1 << 28, forward_ps=5 * 10**9, backward_ps=10**10)
    _, seconds = timed(lambda: ts.cluster.replay(trace, f"dgx-h100:{devices}"))
    return [row(f"replay, FSDP trace of {devices:,} devices", seconds, 0.05 if devices == 1024 else None)]


def steps(fast):
    """Steps by devices, one in a separate process; advice."""
    rows = []
    for name, devices, plan in STEPS:
        asked = (name, f"dgx-h100:{devices}", ts.Plan.load(plan))
        found, seconds = timed(lambda asked=asked: ts.cluster.step(*asked, check_memory=False))
        rows.append(row(f"step, {name} on {devices:,} devices", seconds))
    _, seconds = timed(found.advice, 1)
    rows.append(row(f"advice on it, {len(found.advice())} changes gain", seconds))
    said = subprocess.run([sys.executable, "-c", ALONE.format(*LARGE)], check=True, capture_output=True, text=True)
    seconds, peak = map(float, said.stdout.split())
    rows.append(row(f"step, {LARGE[0]} on {LARGE[1]:,} devices, from the start", seconds, 0.5, peak_bytes=peak))
    return rows


def searches(fast):
    """Whole searches, those with many orders among them; the last row is the slowest."""
    rows = []
    for name, cluster in SEARCHES[: 2 if fast else None]:
        study, seconds = timed(lambda name=name, cluster=cluster: ts.cluster.search(name, cluster, confirm=0), 1)
        rows.append(row(f"search, {name} on {cluster}, {study.evaluated:,} plans", seconds,
                        study.evaluated / 20e3, plans_per_second=study.evaluated / seconds))  # fmt: skip
    worst = min(rows, key=lambda one: one["plans_per_second"])
    return [*rows, {**worst, "what": worst["what"].replace("search", "slowest search", 1)}]


def llama(batch, sequence, width, hidden, heads):
    """Gradients of two layers by all weights, and how the weights are divided over axes data and tensor."""
    b = ts.GraphBuilder("two llama layers", dtype="f32")
    x = b.input("x", (batch, sequence, width))
    divided = {"x": ("data",)}

    def weight(name, shape, sharding):
        divided[name] = sharding
        return b.input(name, shape)

    def split(t):
        return t.reshape(batch, sequence, heads, width // heads).transpose(0, 2, 1, 3)

    columns, rows = (None, "tensor"), ("tensor",)
    for i in range(2):
        scale = weight(f"{i}.attention_norm", (width,), ())
        normal = b.op("normalize", x, scale, mode="rms", dims=[2], epsilon=1e-5)
        q, k, v = (split(normal @ weight(f"{i}.{name}", (width, width), columns)) for name in "qkv")
        mixed = b.attention(q, k, v, causal=True).transpose(0, 2, 1, 3).reshape(batch, sequence, width)
        x = x + mixed @ weight(f"{i}.o", (width, width), rows)
        scale = weight(f"{i}.feed_norm", (width,), ())
        normal = b.op("normalize", x, scale, mode="rms", dims=[2], epsilon=1e-5)
        gate, up = (normal @ weight(f"{i}.{name}", (width, hidden), columns) for name in ("gate", "up"))
        x = x + (b.apply("silu", gate) * up) @ weight(f"{i}.down", (hidden, width), rows)
    b.output(x, "y")
    return ts.gradient(b.build(), "y", [name for name in divided if name != "x"]), divided


def partitions(fast):
    """From shardings to programs of 64 and of 4,096 devices; a program of 8 devices, run."""
    rows = []
    for mesh, goal in (({"data": 8, "tensor": 8}, 0.2), ({"data": 256, "tensor": 16}, 0.3)):
        graph, divided = llama(2 * mesh["data"], 512, 4096, 14336, 32)
        asked = (graph, mesh, divided)
        spmd, seconds = timed(lambda asked=asked: ts.partition(*asked))
        rows.append(row(f"partition, two Llama layers with gradients, {spmd.devices:,} devices", seconds, goal,
                        collectives=len(spmd.collectives())))  # fmt: skip
    graph, divided = llama(4, 64 if fast else 256, 256, 512, 8)
    random = np.random.default_rng(0)
    inputs = {one["name"]: random.standard_normal(one["shape"], dtype="f4") for one in graph.inputs}
    spmd = ts.partition(graph, {"data": 2, "tensor": 4}, divided)
    _, alone = timed(lambda: ts.reference(graph, inputs))
    _, together = timed(lambda: ts.execute(spmd, inputs))
    rows.append(row("reference of the whole on one device", alone))
    rows.append(row(f"run on 8 devices, {together / alone:.1f} times as long", together, 10 * alone))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = [one for part in (collectives, replays, steps, searches, partitions) for one in part(args.fast)]
    for one in rows:
        goal = one["goal_milliseconds"]
        text = f"{one['what']:<66} {one['milliseconds']:10.3f} ms"
        text += f", goal {goal:,.3g}{'' if one['milliseconds'] <= goal else ' MISSED'}" if goal else ""
        for key in ("messages_per_second", "collectives_per_second", "plans_per_second"):
            text += f", {one[key]:,.0f} {key.replace('_', ' ')}" if one.get(key) else ""
        text += f", {one['peak_bytes'] / 1e6:.0f} MB at the peak" if "peak_bytes" in one else ""
        print(text)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
