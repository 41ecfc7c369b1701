"""Time over sparsity: the feed-forward products of a decoder block whose weights have tiles of zeros, each skipped.

PyTorchSim's experiment (doi 10.1145/3725843.3756045) leaves out loads and products of tiles that are all zero, on an
array of 128 by 128; here on any machine, against a dense product of as many tiles as are left and the lower bound."""

from __future__ import annotations

import argparse

import numpy as np

import tilesim as ts
from tilesim.graph.sparse import TILE
from tilesim.graph.zeros import operand


def product(m: int, n: int, k: int, left: float, dtype: str) -> ts.Graph:
    """A product with a weight of which so large a share of tiles is left.

    Args:
        m: rows.
        n: columns.
        k: contracted extent.
        left: share of tiles.
        dtype: of all operands.

    Returns:
        Its graph.
    """
    values = operand("b", (k, n), 1.0, "zero_tiles", 0, 0, dtype)
    down, across = -(-k // TILE), -(-n // TILE)
    kept = np.zeros(down * across, bool)
    kept[np.random.default_rng(0).permutation(kept.size)[: round(left * kept.size)]] = True
    mask = np.kron(kept.reshape(down, across), np.ones((TILE, TILE), bool))[:k, :n]
    b = ts.GraphBuilder("zero_tiles", dtype=dtype)
    weight = b.weight("w", data=np.where(mask, values, 0).astype(values.dtype))
    b.output(b.matmul(b.input("x", (m, k)), weight, name="product"), "y")
    return b.build()


def main() -> None:
    """Prints a row per product and share."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machine", default="tpu-v3")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--zeros", type=float, nargs="*", default=[0.0, 0.25, 0.5, 0.75, 0.9])
    args = parser.parse_args()
    for n, k in ((4 * args.width, args.width), (args.width, 4 * args.width)):
        for zeros in args.zeros:
            graph = product(args.tokens, n, k, 1 - zeros, args.dtype)
            result = ts.simulate(ts.compile(graph, args.machine, lowering="best", zero_tiles="skip"))
            depth = max(TILE, round(k // TILE * (1 - zeros)) * TILE)
            rest = ts.workloads.matmul(args.tokens, n, depth, dtype=args.dtype)
            dense = ts.simulate(ts.compile(rest, args.machine, lowering="best"))
            assert result.bounds is not None
            print(
                f"{args.tokens} x {n} x {k}, {zeros:4.0%} zeros: {result.cycles:10,} cycles, "
                f"{result.cycles / dense.cycles:5.2f} of the dense rest, "
                f"{result.seconds / result.bounds.seconds:5.2f} of the bound ({result.bounds.part})",
                flush=True,
            )


if __name__ == "__main__":
    main()
