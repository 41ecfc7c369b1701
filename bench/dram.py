"""Bursts per second through DRAM channels, by part and pattern; processor time of one thread.

Goals on HBM2 and DDR4 at about 2.6 GHz: 30 M sequential, 20 M tiles, 5 M random. `--channels N` spreads the trace.
"""

from __future__ import annotations

import argparse
import json
import time

from tilesim import memory

PATTERNS = {
    "sequential": "sequential_read",
    "tiles": "tile_256B_pitch_4096B",
    "random": "random_read",
    "mixed": "mixed_rand",
}


def measure(part: memory.Part, pattern: str, requests: int, channels: int, repeats: int) -> float:
    """Best rate of several runs.

    Args:
        part: what to run.
        pattern: generator's name.
        requests: bursts in all.
        channels: how many.
        repeats: runs.

    Returns:
        Bursts per second of processor time.
    """
    trace = memory.Trace.generate(PATTERNS[pattern], requests, part.burst_bytes)
    best = float("inf")
    for _ in range(repeats):
        begin = time.process_time()
        memory.run(part, trace, channels=channels, wrap=True)
        best = min(best, time.process_time() - begin)
    return requests / best


def whole_chip() -> list[dict[str, object]]:
    """Programs on tpu-v3 with bank DRAM and the simple network.

    Returns:
        One row per program: name, goal, seconds of processor time, bursts per second.
    """
    import dataclasses

    import tilesim as ts
    from tilesim.models.decoder import LLAMA_3_8B, decoder

    tpu = ts.Machine.load("tpu-v3")
    many = tpu.replace({"core.count": 64, "memory.channels": 64, "memory.interleave_bytes": "64 B"})
    # A vocabulary of 256 leaves the layer alone: the head of the real one reads 2.4 times as much.
    layer = decoder(dataclasses.replace(LLAMA_3_8B, layers=1, vocabulary=256), 1, 512, "decode", "bf16")
    cases = [
        ("gemm 2048^3 f32", "<= 0.3 s", ts.workloads.matmul(2048, 2048, 2048), tpu),
        ("resnet50", "<= 0.5 s", ts.models.build("resnet50"), tpu),
        ("llama-3-8b decode layer, 512 cached", "<= 1.5 s", layer, tpu),
        ("gemm 4096^3 f32, 64 cores, 64 channels", "< 500 MB", ts.workloads.matmul(4096, 4096, 4096), many),
    ]
    rows: list[dict[str, object]] = []
    for name, goal, graph, machine in cases:
        program = ts.compile(graph, machine)
        begin = time.process_time()
        result = ts.simulate(program, memory="bank")
        seconds = time.process_time() - begin
        rate = result.memory_bytes / 32 / seconds
        rows.append({"name": name, "goal": goal, "seconds": seconds, "bursts_per_second": rate})
        print(f"{name:<44} {seconds:7.3f} s {rate / 1e6:7.2f} M bursts/s   ({goal})", flush=True)
    return rows


def main() -> None:
    """Prints a table; `--json FILE` writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="few requests")
    parser.add_argument("--channels", type=int, nargs="*", default=[1, 32])
    parser.add_argument("--parts", nargs="*", default=["HBM2-2000", "DDR4-3200", "HBM3-6400", "DDR5-4800"])
    parser.add_argument("--json", metavar="FILE", help="write the figures")
    options = parser.parse_args()
    requests, repeats = (50_000, 2) if options.fast else (1_000_000, 5)
    rows = []
    print(f"{'part':<14} channels " + " ".join(f"{pattern:>12}" for pattern in PATTERNS) + "   M bursts/s")
    for name in options.parts:
        part = memory.Part.load(name)
        for channels in options.channels:
            rates = {pattern: measure(part, pattern, requests, channels, repeats) for pattern in PATTERNS}
            rows.append({"part": name, "channels": channels, **rates})
            print(
                f"{name:<14} {channels:>8} " + " ".join(f"{rate / 1e6:>12.2f}" for rate in rates.values()), flush=True
            )
    chips = [] if options.fast else whole_chip()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"schema": "tilesim.bench", "version": 1, "rows": rows, "whole_chip": chips}, file, indent=1)


if __name__ == "__main__":
    main()
