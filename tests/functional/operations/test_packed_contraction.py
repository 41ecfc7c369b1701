"""Kernel positions packed with few channels over the array's rows: values, bytes, passes by hand, what is refused."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

import tilesim as ts
from support.nests_of_windows import convolution, equal_to_the_reference, product_of
from tilesim import _core


@pytest.mark.parametrize("machine", ["edge-8", "gemmini-16"])
def test_values_and_bytes_of_random_nests(machine: str) -> None:
    """Every kernel loop packed, random shapes, strides, paddings, layouts and tiles: the numbers stay the reference's,
    the bytes those of the closed form, and neither depends on the packing."""
    rng = random.Random(11)
    ratios: list[float] = []
    while len(ratios) < 60:
        rank = rng.choice([1, 2, 2, 2, 3])
        kernel = [rng.randint(1, 5 if rank < 3 else 3) for _ in range(rank)]
        graph = convolution(
            [rng.randint(5, 14 if rank < 3 else 7) for _ in range(rank)], kernel, images=rng.randint(1, 2),
            channels=rng.randint(1, 6), filters=rng.randint(1, 20), stride=rng.randint(1, 3), padding=rng.randint(0, 2),
            last=rng.random() < 0.5,
        )  # fmt: skip
        product = product_of(graph, machine)
        space = product.problem.space("all")
        wanted = {product.names[dim] for dim in space.packs[1:]}
        assert wanted == {"k" + "dhw"[3 - rank + i] for i in range(rank) if kernel[i] > 1}
        for _ in range(100):
            nest = space.sample(rng.getrandbits(60))
            trips = math.prod(-(-e // t) for e, t in zip(product.info["extents"], nest["tiles"], strict=True))
            if "pack" not in nest or trips > 500 or not product.legal(nest)[0]:
                continue
            program = ts.compile(graph, machine, mapping={"conv": nest})
            equal_to_the_reference(graph, program)
            cost, result = product.cost(nest), ts.simulate(program)
            (row,) = (row for row in result.data["operations"] if row["operation"] == ["conv"])
            assert [row["load_bytes"], row["store_bytes"]] == [sum(cost["bytes"][:2]), cost["bytes"][2]], nest
            apart = product.cost({key: value for key, value in nest.items() if key != "pack"})
            assert apart["bytes"] == cost["bytes"] and cost["compute_cycles"] <= apart["compute_cycles"]
            assert cost["bound_cycles"] <= row["cycles"] + 1
            ratios.append(cost["cycles"] / row["cycles"])
            break
    assert 0.98 < sorted(ratios)[len(ratios) // 2] < 1.02


@pytest.mark.parametrize(("machine", "side"), [("edge-8", 8), ("gemmini-16", 16)])
def test_passes_by_hand(machine: str, side: int) -> None:
    """7 x 7 positions of 3 channels: 49 passes of 3 rows each become 7 of 21 rows, cut into what the array has.

    One tile of 12 x 12 results and 16 filters; each pass streams 144 rows while the next weights load. gemmini-16 adds
    sums in the array's memory: a pass takes its rows. edge-8 adds them in the vector unit, and its one load port of a
    register's width takes, for each line of 12 results, their rows and, but in the first pass, the sums that are added
    to; once a pass the next weights too.
    """
    graph = convolution([29, 29], [7, 7], stride=2, filters=16)
    product = product_of(graph, machine)
    names, extents = product.names, product.info["extents"]
    nest = {"tiles": extents, "order": list(range(len(extents))), "depths": [1, 1, 1]}
    target = ts.Machine.load(machine)
    rate = target.get("core.array.rates")["i8"]  # rows per cycle
    across, first = 16 // side, max(side, 144 // rate)
    adding = first
    if target.get("core.isa.accumulate") == "vector":
        register = 4 * target.get("core.vector.lanes") * target.get("core.vector.sublanes")  # bytes, one beat of a port
        assert register == 128
        rows, sums, weights = (math.ceil(count / register) for count in (12 * side, 12 * side * 4, side * side))
        assert (rows, sums, weights) == (1, 3, 1)
        first = max(first, 12 * sums)  # the store port, which takes no longer than the rows
        adding = max(first, 12 * (rows + sums) + weights)  # the load port: 49 cycles, the rows 36

    def compute(passes: int) -> float:
        return across * (first + (passes - 1) * adding)

    assert product.cost(nest)["compute_cycles"] == compute(49)
    for loop in ("kh", "kw"):
        passes = 7 * math.ceil(7 * 3 / side)
        assert product.cost({**nest, "pack": names.index(loop)})["compute_cycles"] == compute(passes)
    narrow = {**nest, "tiles": [5 if name == "kw" else e for name, e in zip(names, extents, strict=True)]}
    passes = 7 * (math.ceil(5 * 3 / side) + math.ceil(2 * 3 / side))
    assert product.cost({**narrow, "pack": names.index("kw")})["compute_cycles"] == compute(passes)
    apart, packed = (
        ts.simulate(ts.compile(graph, machine, mapping={"conv": given})).cycles
        for given in (nest, {**nest, "pack": names.index("kw")})
    )
    saved = compute(49) - compute(7 * math.ceil(21 / side))
    # the first weights, which nothing hides, are all rows of the array for both: those without a channel are zeros
    assert abs(apart - packed - saved) <= 2  # starts of clocks


def passes_of_edge8(nest: dict[str, Any], names: list[str], passes: int, lines: bool) -> int:
    """Cycles of all tiles of the first convolution of ResNet-18, so many passes over each for each of eight blocks of
    filters. Rows are 8 bytes, sums 32, registers 128: 16 rows at a time, or fewer at a line's end where windows are
    read where they lie (`lines`). The load port takes rows, sums that are added to, and one beat of weights."""
    side = 112
    tiles = dict(zip(names, nest["tiles"], strict=True))
    inner, outer = ("oh", "ow") if tiles["oh"] > tiles["ow"] else ("ow", "oh")  # the longer lies innermost
    cycles = 0
    for x in range(0, side, tiles[inner]):
        for y in range(0, side, tiles[outer]):
            run, count = min(tiles[inner], side - x), min(tiles[outer], side - y)
            if not lines:
                run, count = run * count, 1
            groups = [min(16, run - at) for at in range(0, run, 16)] * count
            rows, sums = len(groups), sum(math.ceil(group * 32 / 128) for group in groups)
            array = count * run // 4  # i8: four rows a cycle
            cycles += 8 * (max(array, sums) + (passes - 1) * max(array, rows + sums + 1))
    return cycles


@pytest.mark.parametrize(("machine", "packed", "unfolded"), [("edge-8", 21, 19), ("gemmini-16", 14, 10)])
@pytest.mark.parametrize("mapping", ["heuristic", "cost", "gemmini"])
def test_first_convolution_of_resnet18(machine: str, packed: int, unfolded: int, mapping: str) -> None:
    """The named rules pack it, or unfold it where that takes fewer passes, and the engine takes less by the share of
    the 49 passes that is left; on edge-8, whose load port takes the rows and the sums, by what these passes take."""
    graph = convolution([224, 224], [7, 7], filters=64, stride=2, padding=3)
    product = product_of(graph, machine, mapping)
    packs = mapping == "gemmini"
    if packs:
        assert product.names[product.nest["pack"]] == "kw" and "rows hold kw x ic" in product.text()
    else:
        assert product.nest["unfold"] == 3 and "unfolded kh x kw x ic" in product.text()
    apart = {key: value for key, value in product.nest.items() if key not in ("pack", "unfold")}
    before, after = (
        ts.simulate(ts.compile(graph, machine, mapping={"conv": nest})).cycles for nest in (apart, product.nest)
    )
    left = packed if packs else unfolded
    wanted = left / 49
    if machine == "edge-8":
        least = [passes_of_edge8(product.nest, product.names, *case) for case in ((49, True), (left, packs))]
        assert [product.cost(nest)["compute_cycles"] for nest in (apart, product.nest)] == least
        wanted = least[1] / least[0]
    assert after / before == pytest.approx(wanted, rel=0.02 if packs else 0.05)


def test_pytorchsim_packs_below_an_eighth_of_the_lanes() -> None:
    machine = ts.Machine.load("edge-8").replace({"core.array.rows": 64, "core.array.columns": 64})
    for channels, packs in ((3, True), (7, True), (8, False), (20, False)):
        nest = product_of(convolution([20, 20], [3, 3], channels=channels), machine, "pytorchsim").nest
        assert ("pack" in nest) == packs, channels


def test_many_channels_gain_nothing() -> None:
    """16 channels fill the array of 8 rows: no rule packs."""
    for mapping in ("heuristic", "cost", "gemmini", "pytorchsim"):
        assert "pack" not in product_of(convolution([12, 12], [3, 3], channels=16), mapping=mapping).nest


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    ({"dilation": 2}, {"pack": 6}, "edge-8", "dilation along kw"),
    ({"channels": 6, "groups": 2}, {"pack": 5}, "edge-8", "as channels in groups"),
    ({"dtype": "bf16"}, {"pack": 6}, "tpu-v3", "shuffle lanes"),
    ({}, {"pack": 6, "unit": "vector"}, "edge-8", "no rows to pack"),
    ({}, {"pack": 4}, "edge-8", "outside the innermost one"),
    ({}, {"pack": 2}, "edge-8", "only a contracted loop"),
    ({}, {"pack": 6, "tiles": [1, 8, 10, 10, 2, 3, 3]}, "edge-8", "equal tiles of ic"),
]


@pytest.mark.parametrize(("shape", "change", "machine", "says"), REFUSED)
def test_refused(shape: dict[str, Any], change: dict[str, Any], machine: str, says: str) -> None:
    graph = convolution([12, 12], [3, 3], **shape)
    product = product_of(graph, machine)
    extents = product.info["extents"]
    nest = {"tiles": extents, "order": list(range(len(extents))), "depths": [1, 1, 1], "unit": "array"} | change
    legal, reason = product.legal(nest)
    assert not legal and says in reason
    with pytest.raises(ts.UserError, match=says):
        ts.compile(graph, machine, mapping={"conv": nest})
    assert (
        product.problem.space().packs == [-1] or says in ("no rows to pack", "equal tiles of ic") or change["pack"] < 5
    )


def test_output_stationary_arrays_have_nothing_to_pack() -> None:
    machine = ts.Machine.load("edge-8").replace({"core.array.dataflow": "output_stationary"})
    product = product_of(convolution([12, 12], [3, 3]), machine)
    assert "pack" not in product.nest and product.problem.space().packs == [-1]
    assert "output-stationary" in product.legal({**product.nest, "pack": 6})[1]


def test_table_by_name() -> None:
    graph = convolution([12, 12], [3, 3])
    names = product_of(graph).names
    table = ts.mapping.MappingTable({"conv": {"tiles": {"oh": 5}, "pack": "kw"}})
    program = ts.compile(graph, "edge-8", mapping=table)
    assert table.hits == ["conv"]
    equal_to_the_reference(graph, program)
    nest = {"tiles": [1, 8, 5, 10, 3, 3, 3], "order": product_of(graph).nest["order"], "depths": [2, 2, 2]}
    same = ts.compile(graph, "edge-8", mapping={"conv": {**nest, "pack": names.index("kw")}})
    assert ts.simulate(program).cycles == ts.simulate(same).cycles
    wrong = ts.mapping.MappingTable({"conv": {"tiles": {"oh": 5}, "pack": "kx"}})
    ts.compile(graph, "edge-8", mapping=wrong)
    assert "unknown loop" in wrong.illegal["conv"]
    with pytest.raises(ts.UserError, match="pack"):
        ts.mapping.MappingTable({"conv": {"tiles": {"oh": 5}, "pack": -2}})


def test_a_program_whose_packed_elements_have_gaps() -> None:
    """Executor and engine both refuse it: the array could not take them as one row."""
    graph = convolution([12, 12], [3, 3])
    nest = {**product_of(graph, mapping="gemmini").nest}
    assert "pack" in nest
    text = ts.compile(graph, "edge-8", mapping={"conv": nest}).core.to_json()
    data = json.loads(text)
    found = []

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            if "mma" in value:
                found.append(value["mma"])
            value = list(value.values())
        if isinstance(value, list):
            for part in value:
                visit(part)

    visit(data)
    assert found and all(mma["packed"] == 2 for mma in found)
    for mma in found:
        del mma["packed"]
    apart = ts.Program(_core.Program.from_json(json.dumps(data)))
    equal_to_the_reference(graph, apart)
    for mma in found:
        mma["packed"] = 3  # kernel rows lie a whole line apart
    gaps = ts.Program(_core.Program.from_json(json.dumps(data)))
    with pytest.raises(ts.UserError, match="not adjacent"):
        equal_to_the_reference(graph, gaps)
    with pytest.raises(ts.UserError, match="not adjacent"):
        ts.simulate(gaps, "edge-8")
