"""Chips of many cores: speed of the simulation and speed-up of the program, 1 to 64 cores on 64 channels.

Goals: 64 cores x 64 channels runs in less than 500 MB; ResNet-50 on 16 cores within a second. `--fast` is a smoke run;
`--json FILE` writes the figures; `--memory bank` takes DRAM channels with banks (fewer sizes).
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from typing import Any

import tilesim as ts


def chip(cores: int) -> ts.Machine:
    """mesh-16 with so many cores and 64 channels."""
    change = {"core.count": cores, "memory.channels": 64, "memory.bandwidth": "2048 GB/s"}
    return ts.Machine.load("mesh-16").replace(change)


def measure(name: str, graph: ts.Graph, cores: int, memory: str | None, alone: int) -> dict[str, Any]:
    """Compiles and simulates once; `alone`: cycles on one core, 0 if this is that run."""
    machine = chip(cores)
    begin = time.perf_counter()
    program = ts.compile(graph, machine)
    compiled = time.perf_counter()
    result = ts.simulate(program, memory=memory)
    end = time.perf_counter()
    busy = [row["array"] for row in result.cores().rows]
    return {
        "name": name,
        "cores": cores,
        "cycles": result.cycles,
        "speed_up": (alone or result.cycles) / result.cycles,
        "array_busy": sum(busy) / max(1, len(busy)),
        "compile_s": compiled - begin,
        "simulate_s": end - compiled,
        "events_per_s": result.data["events"] / (end - compiled),
        "bursts_per_s": result.memory_bytes / machine_burst(machine) / (end - compiled),
        "memory_mib": result.memory_bytes / 2**20,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def machine_burst(machine: ts.Machine) -> int:
    """Bytes of the smallest transfer."""
    return int(str(machine.get("memory.burst_bytes")).split()[0])


def main() -> None:
    """Prints one line per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--memory", choices=["simple", "bank", "ideal"])
    parser.add_argument("--json")
    options = parser.parse_args()
    size = 512 if options.fast else 2048
    counts = [1, 4, 16, 64] if options.fast or options.memory == "bank" else [1, 2, 4, 8, 16, 32, 64]
    graphs = {f"gemm {size}^3 bf16": ts.workloads.matmul(size, size, size, dtype="bf16")}
    if not options.fast:
        graphs["resnet50"] = ts.models.build("resnet50")
    rows = []
    for name, graph in graphs.items():
        alone = 0
        for cores in counts:
            row = measure(name, graph, cores, options.memory, alone)
            alone = alone or row["cycles"]
            rows.append(row)
            print(
                f"{name:<18} {cores:>3} cores {row['cycles']:>12,} cycles  x{row['speed_up']:<6.2f} arrays "
                f"{row['array_busy']:6.1%}  compile {row['compile_s']:6.3f} s  simulate {row['simulate_s']:7.3f} s  "
                f"{row['events_per_s'] / 1e6:5.2f} M events/s  {row['bursts_per_s'] / 1e6:7.1f} M bursts/s  "
                f"{row['memory_mib']:7.0f} MiB moved  peak {row['peak_mb']:.0f} MB",
                flush=True,
            )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
