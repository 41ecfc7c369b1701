"""Tile operations per second through the engine: a stream of small loads, waits, computes and stores."""

from __future__ import annotations

import json
import resource
import time


def program(iterations: int) -> dict[str, object]:
    """A loop of ten tile operations: load a row, add one, store it.

    Args:
        iterations: trips of the loop.

    Returns:
        JSON form of the program.
    """
    view = [[16, 1]]
    body = [
        {"acquire": "x", "queues": ["load0"]},
        {
            "load": {"tensor": "X", "at": ["i % 4", 0], "dims": [{"extent": 16, "axis": 1, "stride": 1}], "slot": "x"},
            "queue": "load0",
        },
        {"commit": "x", "queue": "load0"},
        {"wait": "x", "queue": "vector"},
        {"acquire": "y", "queues": ["vector"]},
        {
            "vector": {
                "extents": [16],
                "inputs": [{"slot": "x", "dims": view}],
                "nodes": [
                    {"op": "input", "index": 0},
                    {"op": "constant", "value": 1.0},
                    {"op": "function", "function": "add", "arguments": [0, 1]},
                ],
                "outputs": [{"node": 2, "view": {"slot": "y", "dims": view}}],
            },
            "queue": "vector",
        },
        {"commit": "y", "queue": "vector"},
        {"release": "x", "queue": "vector"},
        {"wait": "y", "queue": "store0"},
        {
            "store": {"tensor": "Y", "at": ["i % 4", 0], "dims": [{"extent": 16, "axis": 1, "stride": 1}], "slot": "y"},
            "queue": "store0",
        },
        {"release": "y", "queue": "store0"},
    ]
    slot = {"dtype": "f32", "elements": 16, "depth": 2}
    return {
        "schema": "tilesim.program",
        "version": 1,
        "name": "stream",
        "tensors": [
            {"name": "X", "dtype": "f32", "shape": [4, 16], "role": "input"},
            {"name": "Y", "dtype": "f32", "shape": [4, 16], "role": "output"},
        ],
        "slots": [
            {"name": "x", "address": 0, "consumers": ["vector"], **slot},
            {"name": "y", "address": 4096, "consumers": ["store0"], **slot},
        ],
        "do": [{"for": "i", "extent": iterations, "do": body}],
    }


def measure(count: int) -> tuple[float, int, float]:
    """Simulates about `count` tile operations on tpu-v3.

    Args:
        count: tile operations.

    Returns:
        Seconds, tile operations, and the process's peak memory in megabytes.
    """
    from tilesim import Machine, _core

    compiled = _core.Program.from_json(json.dumps(program(max(1, count // 11))), "stream")
    machine = Machine.load("tpu-v3")
    begin = time.perf_counter()
    result = json.loads(_core.simulate(compiled, machine.core).to_json())
    seconds = time.perf_counter() - begin
    return seconds, result["tile_operations"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    elapsed, operations, megabytes = measure(10_000_000)
    print(f"{operations / elapsed / 1e6:.2f} M tile operations/s, peak {megabytes:.0f} MB")
