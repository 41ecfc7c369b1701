"""Collectives: cost of a price by model and size, simulated messages per second.

Goals: all_reduce of 1 GiB on a ring of 1,024: closed 1 ms, chunks with one device per class 5 ms, with all 0.3 s.

Usage: python bench/cluster.py [--fast] [--json F]
"""

import argparse
import json
import time

import tilesim as ts


def timed(repeats, **asked):
    """The result, and the least processor seconds of some calls."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        found = ts.cluster.collective(**asked)
        best = min(best, time.process_time() - start)
    return found, best


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    sizes = (64, 256) if args.fast else (64, 256, 1024)
    rows = []
    for n in sizes:
        ring = {"kind": "ring", "size": n, "bandwidth_bytes_per_second": 50e9, "latency_seconds": 5e-7}
        cluster = ts.Cluster(network=[ring])
        for model, symmetry in (("closed", True), ("chunks", True), ("chunks", False), ("flows", True)):
            asked = {"op": "all_reduce", "bytes": 1 << 30, "cluster": cluster, "model": model, "symmetry": symmetry}
            found, seconds = timed(1 if args.fast else 3, **asked)
            row = {"network": f"ring {n}", "model": model, "classes": found.classes, "milliseconds": seconds * 1e3}
            row["messages_per_second"] = found.messages / seconds if found.messages else None
            rows.append(row)
    for name in ("dgx-h100:1024", "tpu-v4:512"):
        found, seconds = timed(3, op="all_reduce", bytes=1 << 30, cluster=name)
        rows.append({"network": name, "model": found.model, "classes": 1, "milliseconds": seconds * 1e3})
    for row in rows:
        rate = row.get("messages_per_second")
        text = f"{row['network']:<14} {row['model']:<7} {row['classes']:>5} classes {row['milliseconds']:10.3f} ms"
        print(text + (f" {rate / 1e6:8.2f} M messages/s" if rate else ""))
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
