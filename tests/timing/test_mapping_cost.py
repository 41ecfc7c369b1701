"""Closed-form bytes and time of mappings against the engine; optimal traffic; distance from the best."""

from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

import tilesim as ts
from support.random_layers import describe, layer, machine
from tilesim import _core
from tilesim.mapping import least_traffic, products

# Exhaustive minimum of off-chip words with one buffer of S words for one tile of each operand: columns are S, rows
# M, N, K; first "perfect" (tiles divide the sizes; Timeloop v3.0.3, metric last-level accesses, finds the same), then
# "any" (ragged tiles).
BUFFERS = (64, 256, 1024, 4096, 16384)
OPTIMA = {
    (16, 16, 16): ((1792, 1536), (1024, 1024), (768, 768), (768, 768), (768, 768)),
    (32, 32, 32): ((13312, 11264), (7168, 6144), (4096, 4096), (3072, 3072), (3072, 3072)),
    (64, 64, 64): ((102400, 81920), (53248, 40960), (28672, 24576), (16384, 16384), (12288, 12288)),
    (128, 128, 128): ((802816, 638976), (409600, 311296), (212992, 163840), (114688, 98304), (65536, 65536)),
    (100, 100, 100): ((360000, 310000), (160000, 150000), (90000, 80000), (50000, 50000), (30000, 30000)),
    (128, 64, 256): ((794624, 630784), (401408, 303104), (204800, 155648), (106496, 90112), (57344, 57344)),
    (1, 1024, 1024): ((1115136, 1084416), (1065984, 1058816), (1053696, 1052672), (1050624,) * 2, (1050624,) * 2),
    (96, 160, 224): ((1018880, 1011712), (517120, 481280), (244736, 244736), (130048, 130048), (72704, 72704)),
}


@pytest.mark.parametrize("sizes", OPTIMA)
def test_least_traffic(sizes: tuple[int, int, int]) -> None:
    for words, (perfect, any_tile) in zip(BUFFERS, OPTIMA[sizes], strict=True):
        assert least_traffic(*sizes, words, "divisors")["words"] == perfect
        found = least_traffic(*sizes, words)
        assert found["words"] == any_tile
        tm, tn, tk = found["tiles"]
        assert tm * tk + tk * tn + tm * tn <= words


def test_a_buffer_that_holds_no_tile() -> None:
    assert least_traffic(4, 4, 4, 3)["tiles"] == [1, 1, 1]
    with pytest.raises(ts.UserError, match="no tile"):
        least_traffic(4, 4, 4, 2)


def random_graph(rng: random.Random, dtype: str) -> ts.Graph:
    def size(most: int) -> int:
        return rng.randint(1, most)

    kind = rng.choice(["product", "product", "batched", "convolution"])
    if kind == "product":
        return ts.workloads.matmul(size(300), size(300), size(300), dtype=dtype)
    if kind == "batched":
        return ts.workloads.matmul(size(80), size(80), size(80), dtype=dtype, batch=1 + size(4))
    return ts.workloads.conv2d(
        size(3), size(24), 4 + size(16), 4 + size(16), size(40), rng.choice([1, 3, 5]),
        stride=size(2), padding=size(3) - 1, dtype=dtype,
    )  # fmt: skip


@pytest.mark.parametrize("many", [300, pytest.param(1000, marks=pytest.mark.slow)])
def test_bytes_and_bounds_of_random_mappings(many: int) -> None:
    """Bytes equal the engine's, the lower bound is one, and walking the tiles comes close to simulating them."""
    rng = random.Random(20)
    machines = {"edge-8": ("i8", "bf16", "f32"), "gemmini-16": ("i8",), "tpu-v3": ("f32", "bf16")}
    ratios: list[float] = []
    while len(ratios) < many:
        name = rng.choice(list(machines))
        machine = ts.Machine.load(name)
        graph = random_graph(rng, rng.choice(machines[name]))
        (product,) = products(graph, machine)
        space = product.problem.space(rng.choice(["aligned", "all", "divisors"]))
        for _ in range(8):
            nest = space.sample(rng.getrandbits(60))
            trips = math.prod(-(-e // t) for e, t in zip(product.info["extents"], nest["tiles"], strict=True))
            if trips > 1000 or not product.legal(nest)[0]:
                continue
            cost = product.cost(nest)
            program = _core.compile(graph.core, machine.core, "all", {product.operation: nest})
            result = json.loads(_core.simulate(program, machine.core).to_json())
            (row,) = (row for row in result["operations"] if row["operation"] == [product.operation])
            what = f"{name} {product.info['extents']} {nest}"
            assert [row["load_bytes"], row["store_bytes"]] == [sum(cost["bytes"][:2]), cost["bytes"][2]], what
            assert cost["bound_cycles"] <= row["cycles"] + 1, what
            ratios.append(cost["cycles"] / row["cycles"])
    ratios.sort()
    at = {percent: round(ratios[len(ratios) * percent // 100], 3) for percent in (0, 1, 5, 25, 50, 75, 95, 99)}
    print(f"modelled / simulated cycles: {at}")
    assert 0.99 < at[50] < 1.01 and at[5] > 0.9 and at[95] < 1.1


def check_walk(name: str, cores: int, seeds: range, least_alike: float, furthest: float) -> None:
    """The walk of the chosen nest against the engine's cycles, where cores share memory, its channels and links."""
    target = ts.Machine.load(name).replace({"core.count": cores})
    dtype = "bf16" if name == "mesh-16" else "f32"
    ratios = []
    for seed in seeds:
        graph = layer(random.Random(seed), dtype)
        (product,) = products(graph, target, mapping="cost")
        program = ts.compile(graph, target, mapping={product.operation: product.nest})
        ratios.append((product.cost(product.nest)["cycles"] / ts.simulate(program).cycles, seed))
    ratios.sort()
    alike = sum(abs(ratio - 1) <= 0.15 for ratio, _ in ratios) / len(ratios)
    print(f"{name}, {cores} cores: {alike:.0%} within 15 %, {ratios[0]} to {ratios[-1]}")
    assert alike >= least_alike, (name, cores, ratios[:4], ratios[-4:])
    assert 1 / furthest <= ratios[0][0] and ratios[-1][0] <= furthest, (name, cores, ratios[0], ratios[-1])


def test_rows_over_the_sublanes_are_the_second_minor_axis() -> None:
    """Images of 40 rows and columns as they come (N, C, H, W) on registers of 8 sublanes: 8 image rows of a tile fill
    them, so 20 columns of it need no padding. Each tile passes 8 x 20 rows for each of 3 x 3 kernel positions."""
    target = ts.Machine.load("tpu-v4").replace({"core.array.count": 1})
    graph = ts.workloads.conv2d(2, 2, 40, 40, 7, 3, padding=1, dtype="bf16")
    nest = {"tiles": [1, 7, 8, 20, 2, 3, 3], "order": [0, 2, 3, 1, 5, 6, 4], "depths": [2, 2, 2], "unit": "array"}
    (product,) = products(graph, target, mapping="cost")
    if product.info["layouts"][0]:
        pytest.skip("the images have another layout")
    result = ts.simulate(ts.compile(graph, target, mapping={product.operation: nest}))
    (busy,) = (unit["busy"] for unit in result.units().rows if ".array" in unit["unit"])
    passes = 8 * 20 * 9 * (2 * 5 * 2)
    assert product.cost(nest)["compute_cycles"] == passes
    assert passes <= busy <= passes + 128 * 20


def test_parts_begin_where_rows_of_lanes_do() -> None:
    """Rows over the lanes, 128 of them: halves of 1223 rows that begin within a row of lanes would move it twice."""
    target = ts.Machine.load("chiplet-2")
    graph = ts.workloads.matmul(1223, 292, 157, dtype="f32")
    result = ts.simulate(ts.compile(graph, target, mapping="cost"))
    loads = {unit["unit"]: unit["bytes"] for unit in result.data["units"] if ".load" in unit["unit"]}
    assert max(loads.values()) <= 1.25 * min(loads.values()), loads


SHARED = [("chiplet-2", 2), ("mesh-16", 2), ("mesh-16", 4), ("mesh-16", 16), ("tpu-v3", 4)]


@pytest.mark.parametrize(("name", "cores"), SHARED)
def test_walk_of_cores_that_share_a_memory(name: str, cores: int) -> None:
    check_walk(name, cores, range(16), 0.85, 1.5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "cores"), SHARED)
def test_walk_of_cores_that_share_a_memory_for_many_layers(name: str, cores: int) -> None:
    check_walk(name, cores, range(3000, 3100), 0.9, 1.6)


def against_heuristic(name: str, seed: int) -> tuple[float, int]:
    target = ts.Machine.load(name)
    graph = layer(random.Random(seed), "bf16" if name == "mesh-16" else "f32")
    # Values between the parts of a divided contraction that stay on chip are chosen later.
    options = {"lowering": "best", "residency": "none"} if name == "mesh-16" else {}
    times = [ts.simulate(ts.compile(graph, target, mapping=how, **options)).cycles for how in ("cost", "heuristic")]
    return times[0] / times[1], seed


def check_against_heuristic(name: str, seeds: range, most: float = 0.02) -> None:
    """Nests and divisions over cores together: small transfers of many cores meet on few channels."""
    ratios = sorted((against_heuristic(name, seed) for seed in seeds), reverse=True)
    mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
    slower = sum(ratio > 1.05 for ratio, _ in ratios) / len(ratios)
    print(f"{name}: mean {mean:.3f}, {slower:.1%} slower by over 5 %, worst {ratios[:3]}")
    assert mean <= 1 and slower <= most and ratios[0][0] <= 1.2, ratios[:5]


@pytest.mark.parametrize("name", ["mesh-16", "chiplet-2"])
def test_many_cores_are_not_slower_than_by_the_heuristic(name: str) -> None:
    # one of 24 on mesh-16: 121 x 687 x 12 is priced at 1,202 cycles on 8 cores and takes 1,335; on 16: 1,260 and 1,185
    check_against_heuristic(name, range(200, 224), most=0.05 if name == "mesh-16" else 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mesh-16", "chiplet-2"])
def test_many_cores_are_not_slower_than_by_the_heuristic_for_many_layers(name: str) -> None:
    check_against_heuristic(name, range(20_000, 20_400))


def test_a_multicast_has_its_price_only_where_tiles_are_sent() -> None:
    """785 rows over 16 cores leave 35 to the last one: tiles of 32 or 40 rows are two for the others, one or two there.
    Priced as a multicast that does not come about, such a nest took 1.56 times as long."""
    graph = ts.workloads.matmul(785, 42, 1425, dtype="bf16")
    times = [ts.simulate(ts.compile(graph, "mesh-16", mapping=how)).cycles for how in ("cost", "heuristic")]
    assert times[0] <= 1.02 * times[1]


@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
def test_search_proves_its_bound(machine: str) -> None:
    """A nest drawn at random is never faster, by the model, than the bound that the search states."""
    (product,) = products(ts.workloads.matmul(200, 300, 150, dtype="bf16"), machine)
    found = product.problem.search()
    assert found["lower_bound"] <= found["best"][0][1]["cycles"]
    space = product.problem.space()
    for seed in range(400):
        nest = space.sample(seed)
        if product.legal(nest)[0]:
            cost = product.cost(nest)
            assert cost["bound_cycles"] <= cost["cycles"] * (1 + 1e-9)
            assert cost["cycles"] >= found["lower_bound"] * (1 - 1e-9)


def test_space() -> None:
    (product,) = products(ts.workloads.matmul(24, 40, 16, dtype="bf16"), "edge-8")
    space = product.problem.space("divisors")
    assert [len(sizes) for sizes in space.tiles] == [8, 8, 5]
    whole = 8 * 8 * 5 * len(space.orders) * len(space.depths)
    assert space.count() == whole * len(space.pieces) and set(space.pieces[0]) == {1}
    every = {json.dumps(space.at(index)) for index in range(int(space.count()))}
    assert len({text for text in every if "sub" not in text}) == whole  # pieces of tiny tiles are whole tiles
    nest = space.at(100)
    for other in space.neighbours(nest):
        assert json.dumps(other) in every
        assert sum(other.get(key) != nest.get(key) for key in {*nest, *other}) == 1
    assert space.sample(5) == space.sample(5)
    assert product.problem.space("all").tiles[0] == [1, 2, 3, 4, 5, 6, 8, 12, 24]
    with pytest.raises(ts.UserError, match="aligned"):
        product.problem.space("aligne")
    legal, reason = product.legal({"tiles": [24, 40, 16], "order": [0, 1, 2], "depths": [500, 2, 2]})
    assert not legal and "scratchpad" in reason


# Tiles of gemmini's tiled_matmul_auto, weight stationary, in blocks of 16 for its default configuration (16x16, 4 banks
# of 4096 rows, 1024 accumulator rows), worked out by its published rules: M, N, K, then blocks of m, n, k.
GEMMINI = [
    (64, 64, 64, 4, 4, 4), (128, 128, 128, 5, 6, 8), (256, 256, 256, 5, 6, 16), (512, 512, 512, 5, 6, 32),
    (1024, 1024, 1024, 5, 5, 51), (2048, 2048, 2048, 5, 5, 51), (512, 2304, 768, 5, 5, 48), (512, 64, 512, 8, 4, 32),
    (512, 768, 3072, 5, 5, 51), (3136, 64, 576, 8, 4, 36), (1, 1000, 512, 1, 15, 32), (100, 200, 300, 5, 6, 19),
]  # fmt: skip


@pytest.mark.parametrize("case", GEMMINI)
def test_gemmini_rule(case: tuple[int, ...]) -> None:
    """The scratchpad of the rule has no room for 64-byte slots beside: shrunk ones are at most as large."""
    m, n, k, *blocks = case
    machine = ts.Machine.load("gemmini-16").replace({"core.scratchpad.bytes": "1 MiB"})
    small = ts.Machine.load("gemmini-16")
    graph = ts.workloads.matmul(m, n, k, dtype="i8")
    (product,) = products(graph, small, mapping="gemmini")
    wanted = [min(16 * count, extent) for count, extent in zip(blocks, (m, n, k), strict=True)]
    nest = {"tiles": wanted, "order": [0, 1, 2], "depths": [2, 2, 2], "unit": "array"}
    legal, _ = product.legal(nest)
    assert (
        product.nest["tiles"] == wanted
        if legal
        else all(own <= most for own, most in zip(product.nest["tiles"], wanted, strict=True))
    )
    assert ts.simulate(ts.compile(graph, machine, mapping="gemmini")).cycles > 0


def test_pytorchsim_rule() -> None:
    """Whole products where they fit half the scratchpad; else the fullest multiple of the lanes that divides."""
    (product,) = products(ts.workloads.matmul(512, 512, 512), "tpu-v3", mapping="pytorchsim")
    assert product.nest["tiles"] == [512, 512, 512]
    (product,) = products(ts.workloads.matmul(4096, 4096, 4096), "tpu-v3", mapping="pytorchsim")
    tiles = product.nest["tiles"]
    assert all(4096 % tile == 0 and tile % 128 == 0 for tile in tiles)
    used = 4 * (tiles[0] * tiles[2] + tiles[2] * tiles[1] + tiles[0] * tiles[1])
    assert used < 8 << 20
    bigger = [
        4 * (a * c + c * b + a * b) for a in (512, 1024, 2048) for b in (512, 1024, 2048) for c in (512, 1024, 2048)
    ]
    assert used >= max(size for size in bigger if size < 8 << 20)


def simulated(graph: ts.Graph, machine: ts.Machine, product: Any, nest: dict[str, Any]) -> float:
    """Cycles by the engine; infinite for a nest that is not legal or has very many tiles."""
    trips = math.prod(-(-e // t) for e, t in zip(product.info["extents"], nest["tiles"], strict=True))
    if trips > 2000 or not product.legal(nest)[0]:
        return math.inf
    program = _core.compile(graph.core, machine.core, "all", {product.operation: nest})
    return float(_core.simulate(program, machine.core).cycles)


def sample_graph(rng: random.Random, dtype: str, convolution: bool) -> ts.Graph:
    if not convolution:
        return ts.workloads.matmul(*(rng.choice([1, 8, 50, 100, 128, 197, 256]) for _ in range(3)), dtype=dtype)
    images, channels, size, filters, kernel, stride = (
        rng.choice(values) for values in ([1, 2], [3, 16, 40], [7, 14, 20], [16, 40, 64], [1, 3], [1, 2])
    )
    padding = kernel // 2
    return ts.workloads.conv2d(
        images, channels, size, size, filters, kernel, stride=stride, padding=padding, dtype=dtype
    )


@pytest.mark.singly
@pytest.mark.parametrize("convolution", [False, True], ids=["products", "convolutions"])
@pytest.mark.parametrize("name", ["tpu-v3", "edge-8", "gemmini-16"])
def test_close_to_the_best_that_the_engine_finds(name: str, convolution: bool) -> None:
    """Steps to neighbours and random nests, over every tile size and judged by the engine alone, hardly help."""
    rng = random.Random(11)
    machine = ts.Machine.load(name)
    ratios: dict[str, list[float]] = {"heuristic": [], "cost": []}
    for _ in range(4 if convolution else 6):
        graph = sample_graph(rng, "f32" if name == "tpu-v3" else "i8", convolution)
        (product,) = products(graph, machine, mapping="heuristic")
        space = product.problem.space("all")
        chosen = {"heuristic": product.nest, "cost": product.problem.search()["best"][0][0]}
        times = {how: simulated(graph, machine, product, nest) for how, nest in chosen.items()}
        best, here = min((times[how], nest) for how, nest in chosen.items() if how == "cost")
        for _ in range(2):
            near = [
                (simulated(graph, machine, product, nest), i, nest) for i, nest in enumerate(space.neighbours(here))
            ]
            if not near or min(near)[0] >= best:
                break
            best, _, here = min(near)
        for _ in range(20):
            best = min(best, simulated(graph, machine, product, space.sample(rng.getrandbits(60))))
        for how in ratios:
            ratios[how].append(times[how] / min(best, times["heuristic"]))
    means = {how: math.exp(sum(map(math.log, values)) / len(values)) for how, values in ratios.items()}
    print(name, means, {how: max(values) for how, values in ratios.items()})
    assert means["cost"] <= 1.02 and max(ratios["cost"]) <= 1.15
    assert means["heuristic"] <= 1.10 and max(ratios["heuristic"]) <= 1.5


def regret(seed: int) -> tuple[float, str]:
    """Cycles of the nest of "cost" over those of the best known: of the search's best, random nests, and neighbours."""
    rng = random.Random(seed)
    target, dtype = machine(rng)
    graph = layer(rng, dtype, most=600)
    (product,) = products(graph, target, mapping="cost")
    here, least = product.nest, simulated(graph, target, product, product.nest)
    chosen = least
    space = product.problem.space("all")
    tried = [nest for nest, _ in product.problem.search(keep=12)["best"]]
    tried += [space.sample(rng.getrandbits(60)) for _ in range(12)]
    for nest in tried:
        if product.legal(nest)[0] and product.problem.bound(nest) < least:
            time = simulated(graph, target, product, nest)
            if time < least:
                here, least = nest, time
    for nest in space.neighbours(here):
        if product.legal(nest)[0] and product.problem.bound(nest) < least:
            least = min(least, simulated(graph, target, product, nest))
    return chosen / least, describe(graph, target, seed)


def check_regret(seeds: range) -> None:
    found = [regret(seed) for seed in seeds]
    mean = math.exp(sum(math.log(ratio) for ratio, _ in found) / len(found))
    print(f"{len(found)} layers: mean {mean:.3f}, worst {max(found)}")
    assert mean <= 1.02 and max(found)[0] <= 1.15, max(found)


@pytest.mark.parametrize(
    "seeds", [range(300, 306), pytest.param([*range(306, 316), *range(10_000, 10_200)], marks=pytest.mark.slow)]
)
def test_regret_of_random_layers(seeds: list[int] | range) -> None:
    check_regret(seeds)


@pytest.mark.singly
@pytest.mark.parametrize("machine", ["tpu-v3", "chiplet-2", "tpu-v4", "mesh-16"])
@pytest.mark.parametrize("sizes", [(128, 256, 256), (32, 256, 64), (192, 128, 256), (127, 264, 192)])
def test_the_default_of_ragged_products_is_near_the_search(machine: str, sizes: tuple[int, int, int]) -> None:
    """No profile says how a chip's own compiler maps them; mapped as dense products they were 1,500 times slower."""
    graph = ts.workloads.experts(*sizes)
    default = ts.simulate(ts.compile(graph, machine)).cycles
    searched = ts.simulate(ts.compile(graph, machine, mapping="cost")).cycles
    assert default <= 1.5 * searched
