"""A dense and a sparse core on one chip: two products at once, and one product divided between both.

The heterogeneous experiment of PyTorchSim, on `dense-sparse-2`. Goals: cores that do not share their operands slow each
other by no more than the memory says; a product whose operand has zeros takes no longer than on either core alone.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

DENSITIES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)


def together(size: int, density: float) -> dict[str, Any]:
    """Cycles of a dense product on the dense core and of a sparse one on the sparse core, alone and at once.

    Args:
        size: extents of the dense product, twice those of the sparse one.
        density: of the weight of the sparse one.

    Returns:
        Cycles.
    """
    import tilesim as ts

    machine = ts.Machine.load("dense-sparse-2")
    dense = ts.compile(ts.workloads.matmul(size, size, size), machine, sort="dense")
    half = size // 2
    sparse = ts.compile(ts.workloads.sparse_matmul(half, half, half, 1, density, "csr"), machine, sort="sparse")
    alone = [ts.simulate(program).cycles for program in (dense, sparse)]
    both = ts.simulate([ts.Job(dense), ts.Job(sparse)], machine)
    ends = [int(row["finish"]) for row in both.jobs().rows]
    return {"dense_alone": alone[0], "sparse_alone": alone[1], "dense": ends[0], "sparse": ends[1], "both": both.cycles}


def divided(size: int, density: float) -> dict[str, Any]:
    """Cycles of one product on each core alone, and divided by price.

    Args:
        size: its extents.
        density: of its weight.

    Returns:
        Cycles, and the share of the columns or rows that the dense core takes.
    """
    import tilesim as ts
    from tilesim.program.sparse_times import SparsePlan

    machine = ts.Machine.load("dense-sparse-2")
    graph = ts.workloads.sparse_matmul(size, size, size, 1, density, "bitmap")
    cycles = {sort: ts.simulate(ts.compile(graph, machine, sort=sort)).cycles for sort in ("dense", "sparse")}
    program = ts.compile(graph, machine)
    plan = next(op["attributes"]["sparse_plan"] for op in program.graph.operations() if op["kind"] == "contract")
    share = SparsePlan.of(plan).start / size
    return {"density": density, **cycles, "both": ts.simulate(program).cycles, "dense_share": share}


def main() -> None:
    """Prints the figures; `--json FILE` writes them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="extents of a product")
    parser.add_argument("--fast", action="store_true", help="a smoke run of seconds")
    parser.add_argument("--json", help="file for the figures")
    options = parser.parse_args()
    size, densities = (128, (0.02, 0.5)) if options.fast else (options.size, DENSITIES)
    rows: dict[str, Any] = {"at_once": together(size, 0.05), "divided": []}
    print("two products at once, cycles:", "  ".join(f"{key} {value:,}" for key, value in rows["at_once"].items()))
    for density in densities:
        row = divided(size, density)
        rows["divided"].append(row)
        text = "  ".join(f"{key} {row[key]:>12,}" for key in ("dense", "sparse", "both"))
        print(f"density {density:<6g} {text}   dense core's share {row['dense_share']:.3f}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
