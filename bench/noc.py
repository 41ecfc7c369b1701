"""Flit-hops per second (one flit winning one switch) and cycles per second of the flit-level network.

Goal: at least 20 M flit-hops/s and 0.5 M cycles/s on an 8 x 8 mesh at load 0.1, with packets of 1 and of 5 flits, on
one core of about 2.6 GHz; processor time, best of several runs, warm-up, measured periods and drain of the whole run.

Then whole chips: a product of 2048^3 in f32, a softmax and ResNet-50 on tpu-v3 with 16 channels of HBM2, every memory
with every network, and the product on the two regions of chiplet-2. Goals: 10 M bursts per second with banks and the
simple network, 4 M with banks and routers; 0.3 s and 0.8 s.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

CASES = [
    ("mesh_8x8", 1, 0.02),
    ("mesh_8x8", 1, 0.1),
    ("mesh_8x8", 1, 0.4),
    ("mesh_8x8", 5, 0.1),
    ("mesh_8x8", 5, 0.4),
    ("torus_8x8", 5, 0.1),
    ("mesh_16x16", 5, 0.1),
    ("crossbar_16", 5, 0.4),
]


def measure(name: str, packet: int, load: float, repeats: int) -> dict[str, float]:
    """Best of several runs.

    Args:
        name: of the network.
        packet: flits.
        load: flits per node and cycle.
        repeats: runs.

    Returns:
        Rates per second.
    """
    from tilesim import network

    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        result = network.run(name, load=load, packet=packet)
        best = min(best, time.process_time() - begin)
    return {"flit_hops_per_second": result.flit_hops / best, "cycles_per_second": result.cycles / best}


def chips(rows: list[dict[str, Any]], fast: bool) -> None:
    """Bursts per second of simulated programs, one line per workload, memory and network.

    Args:
        rows: where figures are added.
        fast: only smaller workloads, once.
    """
    import tilesim as ts

    size = 512 if fast else 2048
    work = {
        f"gemm {size}^3": ts.workloads.matmul(size, size, size),
        f"softmax {size}^2": ts.workloads.softmax(size, size),
    }
    if not fast:
        work["resnet50"] = ts.models.build("resnet50")
    machine = ts.Machine.load("tpu-v3")
    programs = {label: ts.compile(graph, machine) for label, graph in work.items()}
    programs["same, chiplet-2"] = ts.compile(work[f"gemm {size}^3"], "chiplet-2")
    for label, program in programs.items():
        for memory in ("simple", "bank"):
            for network in ("simple", "crossbar", "mesh"):
                best = float("inf")
                for _ in range(1 if fast else 3):
                    begin = time.process_time()
                    result = ts.simulate(program, memory=memory, network=network)
                    best = min(best, time.process_time() - begin)
                bursts = result.memory_bytes / 32
                rows.append(
                    {
                        "workload": label,
                        "memory": memory,
                        "network": network,
                        "seconds": best,
                        "bursts_per_second": bursts / best,
                        "cycles": result.cycles,
                    }
                )
                print(
                    f"{label:<16} {memory:<7} {network:<9} {best:7.3f} s  {bursts / best / 1e6:8.1f} M bursts/s  "
                    f"{result.cycles:>9,} cycles",
                    flush=True,
                )


def main() -> None:
    """Prints a line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="the two cases of the goal, once")
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, packet, load in [case for case in CASES if not options.fast or case[::2] == ("mesh_8x8", 0.1)]:
        rates = measure(name, packet, load, 1 if options.fast else 5)
        rows.append({"network": name, "packet": packet, "load": load, **rates})
        print(
            f"{name:<12} {packet} flits, load {load:<4}  {rates['flit_hops_per_second'] / 1e6:6.1f} M flit-hops/s  "
            f"{rates['cycles_per_second'] / 1e6:6.3f} M cycles/s",
            flush=True,
        )
    chips(rows, options.fast)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "tilesim.bench", "version": 1, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
