"""Products in parts beside communication: the same values, times by hand, taken only where they are shorter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.cluster.executing import execute_together
from tilesim.cluster.programs.decomposing import Ring, decomposed, rings
from tilesim.cluster.programs.flat import flatten, in_place
from tilesim.cluster.programs.splitting import content_key, graph_of, split

RATE, LATENCY, FLOPS = 1e9, 1e-6, 1e12
SLOWER = 0.8  # of its rate a device has beside communication: 1 - interference of configs/frameworks/xla.json


class ByWork:
    """Products at so many operations a second, everything else in no time."""

    name, version = "by work", 1

    def __init__(self, flops: float = FLOPS) -> None:
        self.flops = flops

    def seconds(self, segment: Any, device: Any) -> dict[str, Any]:
        return {"seconds": sum(float(entry["flops"]["matrix"]) for entry in segment.operations()) / self.flops}


def ring(devices: int, machine: Any = "tpu-v3", rate: float = RATE, latency: float = LATENCY) -> ts.Cluster:
    one = {"kind": "ring", "size": devices, "both_ways": False}
    return ts.Cluster(machine, [one | {"bandwidth_bytes_per_second": rate, "latency_seconds": latency}])


def product(shardings: dict[str, Any], m: int, k: int, n: int, mesh: Any = None, dtype: str = "f32") -> ts.cluster.Spmd:
    b = ts.GraphBuilder("g", dtype=dtype)
    b.output(b.matmul(b.input("x", (m, k)), b.input("w", (k, n))), "y")
    return ts.partition(b.build(), mesh=mesh or {"d": 4}, shardings=shardings)


ROWS = {"x": ("d", None), "w": (None, "d"), "y": (None, "d")}
COLUMNS = {"x": ("d", None), "w": (None, "d"), "y": ("d", None)}
SUMMED = {"x": ("d", None), "w": ("d", None), "y": ("d", None)}
SCATTERED = {"x": (None, "d"), "w": ("d", None), "y": ("d", None)}
SCATTERED_COLUMNS = {"x": (None, "d"), "w": ("d", None), "y": (None, "d")}


def in_parts(spmd: ts.cluster.Spmd, chosen: list[Ring] | None = None) -> ts.cluster.Spmd:
    core = spmd.graphs[0].core
    new = decomposed(core, rings(core, spmd.devices) if chosen is None else chosen, spmd.devices)
    new.check()
    return ts.cluster.Spmd([ts.Graph(new)], spmd.devices, mesh=spmd.mesh, inputs=spmd.inputs, outputs=spmd.outputs)


def check_values(spmd: ts.cluster.Spmd, other: ts.cluster.Spmd) -> None:
    rng = np.random.default_rng(3)
    given = {row["name"]: rng.integers(-8, 9, row["shape"]).astype("f4") for row in spmd.inputs}
    one, two = execute_together(spmd, given), execute_together(other, given)
    for name in one:  # sums of small integers are exact in any order
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(two[name]))


@pytest.mark.parametrize(("shardings", "kind"), [
    (ROWS, "all_gather"), (COLUMNS, "all_gather"), (SUMMED, "all_gather"), (SCATTERED, "reduce_scatter"),
    (SCATTERED_COLUMNS, "reduce_scatter"),
])  # fmt: skip
@pytest.mark.parametrize(("devices", "m", "k", "n"), [(4, 16, 64, 8), (3, 9, 6, 21), (2, 2, 64, 2), (8, 8, 8, 8)])
def test_parts_compute_the_same(shardings: Any, kind: str, devices: int, m: int, k: int, n: int) -> None:
    spmd = product(shardings, m, k, n, {"d": devices})
    found = rings(spmd.graphs[0].core, devices)
    if not found:  # another exchange is cheaper for this shape
        assert kind not in [row["kind"] for row in spmd.collectives()]
        return
    other = in_parts(spmd)
    check_values(spmd, other)
    kinds = [entry["kind"] for entry in other.graphs[0].core.operations()]
    assert kinds.count("contract") == devices * len(found) and not {"all_gather", "reduce_scatter"} & set(kinds)
    assert kinds.count("permute_devices") == (devices - 1) * len(found)
    before = sum(row["wire_bytes"] * row["count"] for row in spmd.collectives())
    assert sum(row["wire_bytes"] * row["count"] for row in other.collectives()) == pytest.approx(before)


def test_groups_of_one_axis_of_a_mesh() -> None:
    """Each of two groups has its own ring: devices (0, 2) and (1, 3), or (0, 1) and (2, 3)."""
    for axis, other in (("a", "b"), ("b", "a")):
        shardings = {"x": ((axis,), None), "w": (None, (axis,)), "y": (None, (axis,))}
        spmd = product(shardings, 12, 8, 20, {"a": 2, "b": 2})
        assert rings(spmd.graphs[0].core, 4), other
        check_values(spmd, in_parts(spmd))


def several() -> ts.cluster.Spmd:
    """One gather for two products, of which one is scattered; a second gather meets the first in a product."""
    b = ts.GraphBuilder("several")
    x, u = b.input("x", (16, 8)), b.input("u", (8, 24))
    first = b.matmul(x, u, name="first")
    second = b.matmul(x, b.input("v", (8, 12)), name="second")
    down = b.matmul(b.apply("relu", first), b.input("w", (24, 8)), name="down")
    b.output(down, "y")
    b.output(second, "z")
    shardings = {"x": ("d", None), "u": (None, "d"), "v": (None, "d"), "w": ("d", None), "y": ("d", None),
                 "z": (None, "d"), "first": (None, "d")}  # fmt: skip
    return ts.partition(b.build(), mesh={"d": 4}, shardings=shardings)


def test_a_gather_that_several_products_read() -> None:
    spmd = several()
    found = rings(spmd.graphs[0].core, 4)
    assert sorted(len(one.products) for one in found) == [1, 2]
    check_values(spmd, in_parts(spmd))
    for one in found:
        check_values(spmd, in_parts(spmd, [one]))


@pytest.mark.parametrize("what", ["products", "exp", "output", "square", "bias"])
def test_what_something_else_reads_stays_whole(what: str) -> None:
    """A gather is taken apart where products of two operands alone read it, each with one of them."""
    b = ts.GraphBuilder("read")
    x, w = b.input("x", (4, 16)), b.input("w", (16, 8))
    whole = b.op("all_gather", x, dim=0, groups=[0, 1, 2, 3], group_size=4, partitions=True)
    b.output(b.matmul(whole, w), "y")
    if what == "exp":
        b.output(b.apply("exp", whole), "e")
    if what == "output":
        b.output(whole, "e")
    if what == "square":
        b.output(b.matmul(whole, whole), "e")
    if what == "bias":
        b.output(b.project(whole, b.input("v", (8, 16)), b.input("bias", (8,))), "e")
    assert len(rings(b.build().core, 4)) == (what == "products")


@pytest.mark.parametrize("shardings", [ROWS, COLUMNS, SUMMED, SCATTERED])
@pytest.mark.parametrize("flops", [1e10, 3e11, 1e13])
def test_times_by_hand(shardings: Any, flops: float) -> None:
    """n products of c each and n - 1 messages of t: the first (last) product alone, beside each of the others one
    message, which slows it; whole: all messages, then all products. A sum of a scatter waits for a product that has
    begun."""
    n, (m, k, width) = 4, (2048, 256, 512) if shardings is SUMMED else (512, 1024, 512)
    spmd = product(shardings, m, k, width)
    (row,), (one,) = spmd.collectives().rows, rings(spmd.graphs[0].core, n)
    transfer = one.bytes / n / RATE + LATENCY
    compute = 2 * m * k * width / n / n / flops
    beside = max(transfer, compute + (1 - SLOWER) * transfer) if compute > SLOWER * transfer else transfer
    found: Any = ts.cluster.step(spmd, ring(n), predictor=ByWork(flops))
    ready: Any = ts.cluster.step(spmd, ring(n), predictor=ByWork(flops), overlap="ready")
    assert row["devices"] == n
    assert ready.seconds == pytest.approx((n - 1) * transfer + n * compute, rel=1e-6)
    parts = min((n - 1) * beside + compute, ready.seconds)
    late = compute if shardings is SCATTERED else 0.0
    assert parts * (1 - 1e-6) <= found.seconds <= (parts + late) * (1 + 1e-6)
    assert found.seconds >= max(n * compute, (n - 1) * transfer)
    assert any("products split" in note for note in found.notes) and "products split" in found.explain()
    assert not any("products split" in note for note in ready.notes)
    assert math.fsum(found.parts.values()) == pytest.approx(found.seconds, rel=1e-9)


def test_parts_that_are_slower_are_not_taken() -> None:
    """Latency of as many messages as whole, but products of parts that take as long as whole ones."""

    class Each(ByWork):
        def seconds(self, segment: Any, device: Any) -> dict[str, Any]:
            kinds = [entry["kind"] for entry in segment.operations()]
            return {"seconds": 1e-2 * kinds.count("contract")}

    spmd = product(ROWS, 512, 1024, 512)
    found: Any = ts.cluster.step(spmd, ring(4), predictor=Each())
    ready: Any = ts.cluster.step(spmd, ring(4), predictor=Each(), overlap="ready")
    assert found.seconds == ready.seconds and found.memory == ready.memory
    assert "if shorter: none" in found.notes[0]


def test_gpus_keep_products_whole() -> None:
    """XLA takes apart operands of 100,000 MiB there, by default."""
    spmd = product(ROWS, 512, 1024, 512)
    found: Any = ts.cluster.step(spmd, ring(4, "a100"), predictor=ByWork(3e11))
    ready: Any = ts.cluster.step(spmd, ring(4, "a100"), predictor=ByWork(3e11), overlap="ready")
    assert found.seconds == ready.seconds
    assert not any("products split" in note for note in found.notes)


@pytest.mark.parametrize("predictor", ["closed", "engine"])
def test_a_machine_runs_parts_beside_messages(predictor: str) -> None:
    """The link takes about as long as the product: parts hide most of it, and never beat compute or link alone."""
    spmd = product(ROWS, 2048, 2048, 2048, dtype="bf16")
    cluster = ring(4, rate=4e10)
    found: Any = ts.cluster.step(spmd, cluster, predictor=predictor)
    ready: Any = ts.cluster.step(spmd, cluster, predictor=predictor, overlap="ready")
    assert found.seconds < ready.seconds and "matmul in 4" in found.notes[0]
    assert found.seconds >= max(3 * (8 << 20) / 4 / 4e10, found.parts["compute"])
    assert found.peak_bytes <= ready.peak_bytes + (1 << 20) * 4


def test_updates_in_place() -> None:
    """Blocks of a result are written where it lies: the engine moves blocks, not results, and the key says so."""
    spmd = in_parts(product(ROWS, 512, 256, 512, dtype="bf16"))
    core = spmd.graphs[0].core
    assert len(in_place(flatten(core))) == 3  # the first one makes the result
    each = split(core, 4)
    tied = [part for part in each.segments if part.aliases]
    assert len(tied) == 3
    for part in tied:
        segment = graph_of(each, part)
        assert list(segment.core.aliases) and content_key(segment) == part.key
        moved = ts.simulate(ts.compile(segment, "tpu-v3")).memory_bytes
        block, result = 128 * 128 * 2, 512 * 128 * 2
        assert moved <= (128 * 256 + 256 * 128) * 2 + 3 * block + 4096 and block < result
