"""Operations on the host: the cheapest placement, equal tensors, and a time for everything."""

import dataclasses
import itertools
import random
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.unlowered import by_size
from tilesim.program import placement
from tilesim.program.mixed import MixedProgram
from tilesim.program.placement import Item, Link


def random_items(seed: int) -> tuple[list[Item], dict[str, int], list[str], Link]:
    """Up to 12 operations that read earlier values; some run on one side only."""
    pick = random.Random(seed)
    count = pick.randint(1, 12)
    values = [f"in{i}" for i in range(pick.randint(1, 3))]
    items = []
    for i in range(count):
        read = tuple(pick.sample(values, min(len(values), pick.randint(0, 3))))
        made = tuple(f"v{i}.{r}" for r in range(pick.choice((1, 1, 1, 2))))
        only = pick.choice(("", "", "", "machine", "host", "host"))
        # small times beside large transfers, and the other way round
        most = pick.choice((0, 50, 5_000, 500_000))
        machine = None if only == "host" else pick.randint(0, most)
        host = None if only == "machine" else pick.randint(0, 3 * most)
        items.append(Item(f"op{i}", read, made, machine, host))
        values += made
    sizes = {value: pick.choice((1, 4, 1000, 1_000_000)) for value in values}
    outputs = [value for value in values if pick.random() < 0.3 or value == values[-1]]
    return items, sizes, outputs, Link(pick.choice((10**9, 10**12)), pick.choice((0, 10, 10_000)))


def by_hand(items: list[Item], sizes: dict[str, int], outputs: list[str], link: Link, host: set[str]) -> Any:
    """Time, transfers and bytes of one placement, from its definition."""
    side = {value: item.name in host for item in items for value in item.results}
    time, crossings, moved = 0, 0, 0
    for item in items:
        each = item.host if item.name in host else item.machine
        if each is None:
            return None
        time += each
    for value, size in sizes.items():
        here = side.get(value, False)
        read = {item.name in host for item in items if value in item.operands} | (
            {False} if value in outputs else set()
        )
        if (not here) in read:
            crossings += 1
            moved += size
            time += link.latency + -(-size * 10**12 // link.bytes_per_second)
    return time, crossings, moved


@pytest.mark.parametrize("seed", range(60))
def test_no_placement_is_cheaper(seed: int) -> None:
    items, sizes, outputs, link = random_items(seed)
    chosen = placement.cheapest(items, sizes, outputs, link)
    found = by_hand(items, sizes, outputs, link, chosen)
    assert found[0] == placement.cost(items, sizes, outputs, link, chosen)
    moved = placement.transfers(items, sizes, outputs, chosen)
    assert found[1:] == (len(moved), sum(t.bytes for t in moved))
    names = [item.name for item in items]
    everything = [
        by_hand(items, sizes, outputs, link, {name for name, there in zip(names, sides, strict=True) if there})
        for sides in itertools.product((False, True), repeat=len(names))
    ]
    # the least time, and of all placements of that time the fewest crossings
    assert found[:2] == min(way for way in everything if way is not None)[:2]


@pytest.mark.parametrize("seed", range(60, 100))
def test_where_operations_cost_nothing_crossings_and_bytes_are_least(seed: int) -> None:
    items, sizes, outputs, _ = random_items(seed)
    free = [dataclasses.replace(i, machine=i.machine and 0, host=i.host and 0) for i in items]
    names = [item.name for item in free]
    sides = [
        {name for name, there in zip(names, way, strict=True) if there}
        for way in itertools.product((False, True), repeat=len(names))
    ]
    latency, bandwidth = Link(10**18, 1), Link(10**12, 0)  # a picosecond per transfer; one per byte
    ways = [by_hand(free, sizes, outputs, latency, way) for way in sides]
    crossings = by_hand(free, sizes, outputs, latency, placement.cheapest(free, sizes, outputs, latency))[1]
    moved = by_hand(free, sizes, outputs, bandwidth, placement.cheapest(free, sizes, outputs, bandwidth))[2]
    assert crossings == min(way[1] for way in ways if way is not None)
    assert moved == min(way[2] for way in ways if way is not None)


def fewest_turns(items: list[Item], host: set[str]) -> int:
    """Over all orders of the operations."""
    best = len(items) + 1
    made = {value: item.name for item in items for value in item.results}

    def walk(done: frozenset[str], side: bool | None, turns: int) -> None:
        nonlocal best
        if turns >= best:
            return
        if len(done) == len(items):
            best = turns
            return
        for item in items:
            ready = all(made.get(value, "") in done or value not in made for value in item.operands)
            if item.name not in done and ready:
                there = item.name in host
                walk(done | {item.name}, there, turns + (there is not side))

    walk(frozenset(), None, 0)
    return best


@pytest.mark.parametrize("seed", range(30))
def test_turns_are_as_few_as_any_order_has(seed: int) -> None:
    items = random_items(seed)[0][:7]
    host = {item.name for item in items if random.Random(seed + hash(item.name) % 7).random() < 0.5}
    turns = placement.phases(items, host)
    order = [name for _, names in turns for name in names]
    assert sorted(order) == sorted(item.name for item in items)
    known = {value for item in items for value in item.operands} - {value for item in items for value in item.results}
    for name in order:
        item = next(item for item in items if item.name == name)
        assert known.issuperset(item.operands)
        known.update(item.results)
    assert len(turns) == fewest_turns(items, host)


# --- whole programs ---


def spectra(size: int = 32) -> ts.Graph:
    """Two products with an order by size and a softmax between them."""
    b = ts.GraphBuilder("spectra")
    x = b.input("x", (size, size))
    h = b.apply("relu", b.linear(x, size, name="first"))
    re, im = by_size(b, h, "spectrum", 1)
    power = b.apply("add", b.apply("multiply", re, re), b.apply("multiply", im, im))
    b.output(b.linear(b.op("softmax", power, name="softmax", dim=1), 8, name="last"), "y")
    return b.build()


def solver() -> ts.Graph:
    """An order by size, a factorization, a triangular solve, and products that the machine is good at."""
    b = ts.GraphBuilder("solver")
    a, r = b.input("a", (48, 48)), b.input("r", (48, 16))
    eye = b.weight("eye", data=(60 * np.eye(48)).astype(np.float32))
    spd = b.apply("add", b.matmul(a, b.op("transpose", a, permutation=[1, 0]), name="gram"), eye)
    factor = b.op("linear_solve", spd, name="factor", mode="cholesky", lower=True)
    r, _ = by_size(b, r, "order", 1)
    z = b.op("linear_solve", factor, r, name="solve", mode="triangular", lower=True, left_side=True)
    b.output(b.matmul(factor, z, name="back"), "r2")
    return b.build()


def layers() -> ts.Graph:
    """A repeated function with something in it that the machine cannot run."""
    b = ts.GraphBuilder("layers")
    layer = b.function("layer")
    x = layer.input("x", (16, 16))
    re, im = by_size(layer, layer.linear(x, 16, name="mix"), "order", 0)
    layer.output(layer.apply("add", re, im), "y")
    x = b.input("x", (16, 16))
    for i in range(3):
        x = b.call(layer, x, name=f"layer{i}")
    b.output(x, "y")
    return b.build()


GRAPHS = {"spectra": spectra, "solver": solver, "layers": layers}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("machine", ["tpu-v3", "edge-8"])
def test_the_mixed_program_equals_the_reference(name: str, machine: str) -> None:
    graph = GRAPHS[name]()
    # the host multiplies f32 as it is: so does this machine
    target = ts.Machine.load(machine).replace({"core.array.multiply": "as stored"})
    program = ts.compile(graph, target, fallback="host")
    assert isinstance(program, MixedProgram)
    found, wanted = ts.execute(program, seed=3), ts.reference(graph, seed=3)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4 * np.abs(value).max())
    check = ts.verify(program, seed=3)
    assert check.ok and (len(check.rows) > 0 or machine == "edge-8")


@pytest.mark.parametrize("name", GRAPHS)
def test_everything_has_a_time_and_the_parts_add_up(name: str) -> None:
    program = ts.compile(GRAPHS[name](), "tpu-v3", fallback="host")
    result = ts.simulate(program, timeline=True)
    data = result.data
    for unit in data["units"]:
        assert sum(unit["cycles"].values()) == result.cycles and min(unit["cycles"].values()) >= 0
    assert sum(row["exclusive"] for row in data["operations"]) == result.cycles
    units = {row["unit"]: row for row in data["units"]}
    there = {row["operation"] for row in program.placement.rows if row["where"] == "host"}
    rows = {row["name"]: row for row in data["operations"]}
    assert there <= rows.keys() and all(rows[key]["bound"] == "host" and rows[key]["cycles"] > 0 for key in there)
    moved = sum(row["bytes"] for row in program.transfers.rows)
    assert units["link"]["bytes"] == moved > 0
    # per transfer the latency, then bytes at the link's rate
    machine = ts.Machine.load("tpu-v3")
    seconds = 10e-6 * len(program.transfers) + moved / 14.4e9
    busy = units["link"]["cycles"]["busy"] / machine.hertz
    assert seconds <= busy <= seconds + len(program.transfers) / machine.hertz * 1.01
    assert result.host_share == pytest.approx(
        (units["link"]["cycles"]["busy"] + units["host"]["cycles"]["busy"]) / result.cycles
    )
    # no instant belongs to two of machine, link and host
    spans = sorted((i[2], i[3], data["units"][i[0]]["kind"]) for i in data["intervals"])
    outside = [(a, b) for a, b, kind in spans if kind in ("host", "link")]
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(outside))
    assert not any(a < d and c < b for a, b in outside for c, d, kind in spans if kind not in ("host", "link"))
    text = "\n".join(result.approximations)
    assert "xeon-8480" in text and "14.4 GB/s" in text and data["fidelity"]["host"] == "closed form (xeon-8480)"


def test_a_result_with_a_host_is_saved_and_shown(tmp_path: Any) -> None:
    result = ts.run(spectra(), fallback="host", timeline=True)
    assert "of the time on the host" in result.summary()
    result.save(tmp_path / "r.json")
    again = ts.Result.load(tmp_path / "r.json")
    assert again.data == result.data and again.host_share == result.host_share > 0
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(result.data, ts.Result.schema())
    result.timeline(tmp_path / "r.trace")
    trace = (tmp_path / "r.trace").read_bytes()
    assert b"host" in trace and b"to host: " in trace
    assert any("host.latency" in advice.change for advice in result.explain())


def test_a_faster_link_and_host_take_less_time() -> None:
    times = [
        ts.run(spectra(), machine=ts.Machine.load("tpu-v3").replace(change), fallback="host").cycles
        for change in ({}, {"host.latency": "1 us"}, {"host.latency": "1 us", "host.bandwidth": "64 GB/s"})
    ]
    assert times[0] > times[1] > times[2]
    slow = ts.run(spectra(), machine=ts.Machine.load("tpu-v3").replace({"host.device": "phone-neon"}), fallback="host")
    assert slow.cycles > times[0]


def test_what_the_machine_can_run_stays_there() -> None:
    graph = ts.models.mlp(batch=4)
    assert not isinstance(ts.compile(graph, fallback="host"), MixedProgram)
    assert ts.run(graph, fallback="host").timing_hash() == ts.run(graph).timing_hash()
    # the first product is faster here and its operands lie here; the last one's result is 128 times less to transfer
    program = ts.compile(spectra(1024), fallback="host")
    where = {row["operation"]: row["where"] for row in program.placement.rows}
    assert (where["first"], where["spectrum"], where["last"]) == ("machine", "host", "host")


def test_placement_by_name() -> None:
    graph = ts.models.mlp(batch=4)
    names = [op["name"] for op in graph.operations() if op["kind"] == "contract"]
    program = ts.compile(graph, place={names[1]: "host"})
    where = {row["operation"]: (row["where"], row["reason"]) for row in program.placement.rows}
    assert where[names[1]] == ("host", "asked for") and where[names[0]][0] == "machine"
    found, wanted = ts.execute(program), ts.reference(graph)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=2e-2, atol=2e-2)
    kept = ts.compile(spectra(), fallback="host", place={"softmax": "machine"})
    assert {row["operation"]: row["where"] for row in kept.placement.rows}["softmax"] == "machine"
    with pytest.raises(ts.UserError, match=r"unknown operation.*Did you mean 'softmax'"):
        ts.compile(spectra(), fallback="host", place={"softmaks": "host"})
    with pytest.raises(ts.UserError, match="unknown place"):
        ts.compile(spectra(), place={"softmax": "gpu"})
    with pytest.raises(ts.Unsupported, match="sort"):
        ts.compile(spectra(), fallback="host", place={"spectrum": "machine"})
    with pytest.raises(ts.Unsupported, match="sort"):
        ts.compile(spectra(), place={"softmax": "host"})


def test_the_default_is_an_error_with_the_remedy() -> None:
    with pytest.raises(ts.Unsupported, match=r"spectrum: sort.*fallback='host'"):
        ts.run(spectra())
    with pytest.raises(ts.UserError, match="unknown fallback"):
        ts.run(spectra(), fallback="hots")


def test_state_is_updated_beside_the_host() -> None:
    """A cache that only the machine reads is still updated in place: less time than a copy of it."""
    b = ts.GraphBuilder("state")
    cache, new = b.input("cache", (4096, 256)), b.input("new", (1, 256))
    start = b.weight("start", data=np.array(5, dtype=np.int32))
    zero = b.weight("zero", data=np.array(0, dtype=np.int32))
    out = b.op("dynamic_update", cache, new, start, zero, name="update")
    re, _ = by_size(b, new, "order", 1)
    b.output(out, "cache2")
    b.output(re, "re")
    b.alias(0, 0)
    graph = b.build()
    program = ts.compile(graph, fallback="host", place={"update": "machine"})
    assert ts.simulate(program).memory_bytes < 4096 * 256 * 4 / 8
    found, wanted = ts.execute(program), ts.reference(graph)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-4)


def test_bytes_of_regions_are_those_of_the_parts() -> None:
    """Memory of two regions, with a host beside it: every byte is local or remote, as in each of the parts alone."""
    program = ts.compile(spectra(), "chiplet-2", fallback="host")
    result = ts.simulate(program)
    assert result.local_bytes + result.remote_bytes == result.memory_bytes > 0
    parts = [ts.simulate(turn.program, "chiplet-2") for turn in program.turns if turn.program]
    assert len(parts) > 1 and result.remote_bytes == sum(part.remote_bytes for part in parts)
