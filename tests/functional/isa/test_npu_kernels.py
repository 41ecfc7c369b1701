"""Kernels of products as programs: they run, take no less than their rows, and refuse what they cannot."""

from __future__ import annotations

import math

import pytest

import tilesim as ts
import tilesim.isa as isa

KERNELS = [
    ("edge-8", "mma i8 i8 b1 m20 n16 k24 ko1", 4.0),
    ("edge-8", "mma bf16 bf16 b2 m33 n9 k17 ko1", 1.0),
    ("edge-8", "mma f32 f32 b1 m64 n8 k8 ko3", 0.5),
    ("mesh-16", "mma i8 i8 b1 m100 n64 k130 ko1", 2.0),
    ("tpu-v3", "mma bf16 bf16 b1 m256 n128 k128 ko1", 1.0),
]


@pytest.mark.parametrize(("machine", "compute", "rate"), KERNELS)
def test_kernels_run_and_take_no_less_than_their_rows(machine: str, compute: str, rate: float) -> None:
    program = isa.kernel(compute, machine)
    result = isa.run(program, machine=machine, timed=True)
    assert result.trap is None and result.exit_status == 0
    sizes = {word.rstrip("0123456789"): int(word.lstrip("bmnko")) for word in compute.split()[3:]}
    side = ts.Machine.load(machine).to_dict()["core"]["array"]["rows"]  # all of these arrays are square
    tiles = sizes["b"] * sizes["ko"] * -(-sizes["k"] // side) * -(-sizes["n"] // side)
    rows = math.ceil(tiles * sizes["m"] / rate)
    # a set of weights first, then the rows; the last one passes the array
    assert result.cycles is not None and result.cycles >= side + rows + 2 * side - 2
    listing = isa.kernel_text(compute, machine)
    assert all(name in listing for name in ("mx.weights", "mx.push", "mx.pop", "jalr")) and ".word" not in listing
    assert "kernel" in {row["function"] for row in result.functions}


@pytest.mark.parametrize(
    "compute",
    [
        "",
        "mma",
        "mma i8 i8 b1 m20 n16 k24 ko",
        "mma i8 i9 b1 m2 n2 k2 ko1",
        "nma i8 i8 b1 m2 n2 k2 ko1",
        "mma i8 i8 b1 m-1 n2 k2 ko1",
        "mma i8 i8 b1 m2 n2 k2 ko1 twice",
    ],
)
def test_texts_that_are_no_compute(compute: str) -> None:
    for build in (isa.kernel, isa.kernel_text):
        with pytest.raises(ts.UserError):
            build(compute, "edge-8")


def test_computes_without_kernel() -> None:
    b = ts.GraphBuilder("net", dtype="f32")
    b.output(b.op("softmax", b.input("x", (16, 24)), dim=1), "y")
    store = ts.TileLatencies()
    ts.simulate(ts.compile(b.build(), "edge-8"), latencies=store)
    texts = [row["compute"] for row in store.table("edge-8")]
    vectors = [text for text in texts if text.startswith("vector")]
    assert vectors
    for text in [*vectors, "mma i4 i4 b1 m8 n8 k8 ko1"]:
        with pytest.raises(ts.Unsupported, match="kernel"):
            isa.kernel(text, "edge-8")
    sums_stay = ts.Machine.load("edge-8").replace({"core.array.dataflow": "output_stationary"})
    with pytest.raises(ts.Unsupported):
        isa.kernel("mma i8 i8 b1 m8 n8 k8 ko1", sums_stay)
    with pytest.raises(ts.UserError, match="power of two"):
        isa.kernel("mma i8 i8 b1 m8 n8 k8 ko1", ts.Machine.load("edge-8").replace({"core.vector.lanes": 6}))
