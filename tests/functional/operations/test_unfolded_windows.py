"""Windows that the cross-lane unit unfolds over the array's rows: values, bytes, passes by hand, what is refused."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import pytest

import tilesim as ts
from support import nests_of_windows
from support.nests_of_windows import equal_to_the_reference, product_of
from support.program_checks import unnoticed_mutants
from tilesim.mapping import products

convolution = functools.partial(nests_of_windows.convolution, dtype="bf16")


def without_profile(machine: str) -> ts.Machine:
    data = dict(ts.Machine.load(machine).to_dict())
    data.pop("lowering", None)
    return ts.Machine.load(data).replace({"core.array.rates": {"bf16": 1.0}})


MACHINES = ["gemmini-16", "tpu-v3", "mesh-16", "chiplet-2"]


def random_case(rng: random.Random) -> ts.Graph:
    rank = rng.choice([1, 2, 2, 2, 3])
    groups = rng.choice([1, 1, 1, 2, 3])
    return convolution(
        [rng.randint(5, 14 if rank < 3 else 7) for _ in range(rank)],
        [rng.randint(1, 5 if rank < 3 else 3) for _ in range(rank)], images=rng.randint(1, 2),
        channels=groups * rng.randint(1, 5), filters=groups * rng.randint(1, 9), stride=rng.randint(1, 3),
        padding=rng.randint(0, 2), dilation=rng.choice([1, 1, 2]), groups=groups, last=rng.random() < 0.5,
        relu=rng.random() < 0.3,
    )  # fmt: skip


@pytest.mark.parametrize("machine", MACHINES)
def test_values_and_bytes_of_random_nests(machine: str) -> None:
    """Windows of every depth unfolded, random shapes, groups, strides, dilations, paddings and tiles: the numbers stay
    the reference's, the bytes those of the same tiles apart."""
    rng = random.Random(5)
    target = without_profile(machine)
    ratios: list[float] = []
    found = 0
    while found < 25:
        try:
            graph = random_case(rng)
        except ts.UserError:
            continue
        if 0 in graph.outputs[0]["shape"]:  # a window that does not fit
            continue
        product = product_of(graph, target)
        space, count = product.problem.space("all"), len(product.info["k_dims"])
        for _ in range(60):
            nest = space.sample(rng.getrandbits(60)) | {"unfold": rng.randint(2, count) if count > 2 else 2}
            nest.pop("pack", None)
            nest["unit"] = "array"
            trips = math.prod(-(-e // t) for e, t in zip(product.info["extents"], nest["tiles"], strict=True))
            if trips > 300 or not product.legal(nest)[0]:
                continue
            program = ts.compile(graph, target, mapping={"conv": nest})
            equal_to_the_reference(graph, program)
            found += 1
            if product.info["unit"] == "array":  # else the problem's price is the vector unit's
                apart = {key: value for key, value in nest.items() if key != "unfold"}
                cost, before = product.cost(nest), product.cost(apart)
                assert cost["bytes"] == before["bytes"] and cost["compute_cycles"] <= before["compute_cycles"]
                ratios.append(cost["cycles"] / ts.simulate(program).cycles)
            break
    if target.get("core.count") == 1:
        assert 0.9 < sorted(ratios)[len(ratios) // 2] < 1.1


def test_passes_by_hand() -> None:
    """7 x 7 positions of 3 channels on 16 rows: 49 passes become ceil(147 / 16) = 10, or 7 lines of ceil(21 / 16) = 2.

    One tile of 12 x 12 results and 16 filters; each pass streams 144 rows. 147 elements are moved per result, or 21 per
    result column and input line, none beside its neighbour in memory: one for each of 16 lanes and cycle. 29 input
    lines fill the lanes; of 12 x 12 x 7 x 7 x 3 no dim does (12 lanes of 16 would take 12 * 7 * 7 * 3 = 1764 cycles),
    so that distances come from a table, whose first read comes before. Memory costs nothing: weights do not
    wait for it behind the shorter of the two.
    """
    machine = without_profile("gemmini-16").replace({"core.scratchpad.bytes": "4 MiB", "memory.kind": "ideal"})
    graph = convolution([29, 29], [7, 7], stride=2, filters=16)
    product = product_of(graph, machine)
    extents = product.info["extents"]
    apart = {"tiles": extents, "order": list(range(len(extents))), "depths": [1, 1, 1], "unit": "array"}
    assert product.cost(apart)["compute_cycles"] == 49 * 144
    passes, elements = {2: 7 * 2, 3: 10}, {2: 29 * 12 * 21, 3: 12 * 12 * 147}
    lanes, table = machine.get("core.vector.lanes"), 1
    moving = {2: math.ceil(elements[2] / lanes), 3: math.ceil(elements[3] / lanes) + table}
    assert moving == {2: 457, 3: 1324}
    cycles = {}
    for unfold in (2, 3):
        nest = {**apart, "unfold": unfold}
        assert product.cost(nest)["compute_cycles"] == passes[unfold] * 144
        cycles[unfold] = ts.simulate(ts.compile(graph, machine, mapping={"conv": nest})).cycles
    wanted = (passes[3] - passes[2]) * 144 + moving[3] - moving[2]
    assert abs(cycles[3] - cycles[2] - wanted) <= 2  # starts of clocks


@pytest.mark.parametrize("machine", ["tpu-v3", "mesh-16"])
@pytest.mark.parametrize("mapping", ["heuristic", "cost"])
def test_first_convolution_of_resnet(machine: str, mapping: str) -> None:
    """Whole windows lie over the rows: the arrays are busy for ceil(147 / rows) passes over all pixels, not for 49."""
    rate = {"tpu-v3": 1.0, "mesh-16": 0.25}[machine]  # rows per cycle, so that memory is not the limit
    target = without_profile(machine).replace({"core.array.rates": {"bf16": rate}})
    graph = convolution([224, 224], [7, 7], filters=64, stride=2, padding=3)
    nest = product_of(graph, target, mapping).nest
    assert nest["unfold"] == 3
    rows, cores, arrays = (target.get(f"core.{name}") for name in ("array.rows", "count", "array.count"))
    least = math.ceil(147 / rows) * 112 * 112 / cores / arrays / rate
    got = ts.simulate(ts.compile(graph, target, mapping=mapping)).cycles
    assert least < got < 2 * least


def test_the_compiler_of_a_chip_does_as_its_profile_says() -> None:
    graph = convolution([224, 224], [7, 7], filters=64, stride=2, padding=3)
    (product,) = products(graph, "tpu-v3", mapping="cost")
    assert "unfold" not in product.nest


def test_many_channels_gain_nothing() -> None:
    for mapping in ("heuristic", "cost"):
        nest = product_of(convolution([12, 12], [3, 3], channels=128), without_profile("tpu-v3"), mapping).nest
        assert "unfold" not in nest


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"unfold": 1}, "2 to 3 are possible"),
    ({}, {"unfold": 4}, "2 to 3 are possible"),
    ({}, {"unfold": 2, "unit": "vector"}, "no rows to unfold"),
    ({}, {"unfold": 2, "pack": 6}, "cannot be packed while"),
    ({}, {"unfold": 2, "tiles": [1, 8, 10, 10, 2, 3, 3]}, "needs the full extent of ic"),
    ({}, {"unfold": 3, "tiles": [1, 8, 10, 10, 3, 3, 2]}, "needs the full extent of kw"),
    ({}, {"unfold": 2, "sub": [1, 4, 10, 10, 3, 3, 3]}, "cannot have sub-tiles"),
]


@pytest.mark.parametrize(("shape", "change", "says"), REFUSED)
def test_refused(shape: dict[str, Any], change: dict[str, Any], says: str) -> None:
    graph = convolution([12, 12], [3, 3], **shape)
    product = product_of(graph, without_profile("gemmini-16"))
    extents = product.info["extents"]
    nest = {"tiles": extents, "order": list(range(len(extents))), "depths": [1, 1, 1], "unit": "array"} | change
    legal, reason = product.legal(nest)
    assert not legal and says in reason
    with pytest.raises(ts.UserError, match=says):
        ts.compile(graph, without_profile("gemmini-16"), mapping={"conv": nest})


def test_output_stationary_arrays_have_nothing_to_unfold() -> None:
    machine = without_profile("gemmini-16").replace({"core.array.dataflow": "output_stationary"})
    product = product_of(convolution([12, 12], [3, 3]), machine)
    assert "unfold" not in product.nest
    assert "output-stationary" in product.legal({**product.nest, "unfold": 2})[1]


def test_no_synchronization_can_be_left_out() -> None:
    graph = convolution([9, 9], [3, 3], filters=4, relu=True)
    product = product_of(graph, without_profile("gemmini-16"))
    tiles = [3 if name == "oh" else e for name, e in zip(product.names, product.info["extents"], strict=True)]
    nest = {**product.nest, "tiles": tiles, "depths": [2, 1, 2], "unfold": 2}
    nest.pop("pack", None)
    assert unnoticed_mutants(ts.compile(graph, without_profile("gemmini-16"), mapping={"conv": nest})) == []


def test_depthwise_epilogues_lie_over_the_lanes_of_their_products() -> None:
    """A column dim of extent 1 is no reason to finish one element per row of lanes. By hand, on two pipes over whole
    registers: each of nine taps is widened, multiplied and added; sums are rounded, clamped, rounded and narrowed in
    six instructions that wait for each other, at the end of each tile. With those waits 1.6 times as long (10,290
    cycles); kernels take 2.0 times (12,979), and no less than 12,088 with larger tiles."""
    target = without_profile("tpu-v3")
    graph = convolution([56, 56], [3, 3], channels=128, filters=128, groups=128, padding=1, relu=True)
    product = product_of(graph, target, "cost")
    registers = 56 * 56 * 128 / (128 * 8)
    assert product.info["unit"] == "vector"
    cost = product.cost()
    assert cost["epilogue_cycles"] < 4 * registers
    result = ts.simulate(ts.compile(graph, target))
    assert result.cycles < 1.7 * max((3 * 9 + 6) * registers / 2, cost["memory_cycles"])


def test_products_on_the_vector_unit_are_priced_as_they_are_timed() -> None:
    """Of one price: loads, widened operands, sums and stores count in the mapping too. What is stored as it was summed
    has no epilogue."""
    target = without_profile("tpu-v3")
    for side, channels in ((28, 32), (14, 128)):
        graph = ts.workloads.conv2d(1, channels, side, side, channels, 3, padding=1, groups=channels, dtype="f32")
        product = product_of(graph, target, "cost")
        assert product.info["unit"] == "vector"
        busy = sum(
            float(row["busy"])
            for row in ts.simulate(ts.compile(graph, target)).units().rows
            if ".vector" in row["unit"]
        )
        assert busy == pytest.approx(product.cost()["compute_cycles"], rel=0.02)
