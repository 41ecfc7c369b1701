"""A cache in a simulation: bytes conserved, residency plans, several cores, networks, mistakes."""

from __future__ import annotations

from typing import Any

import pytest

import tilesim as ts

CACHE: dict[str, Any] = {
    "memory.cache.sets": 512, "memory.cache.ways": 16, "memory.cache.line": "128 B", "memory.cache.sector": "64 B",
    "memory.cache.hit_cycles": 20, "memory.cache.ports": 4, "memory.cache.mshrs": 256,
}  # fmt: skip
PARTS = {"simple": "edge-8", "bank": "tpu-v3"}


def machine(base: str = "tpu-v3", **changes: Any) -> ts.Machine:
    return ts.Machine.load(base).replace({**CACHE, **changes})


def product(chip: ts.Machine, m: int = 256, n: int = 1024, k: int = 512) -> ts.Program:
    return ts.compile(ts.workloads.matmul(m, n, k, dtype="bf16"), chip)


def totals(result: ts.Result) -> dict[str, int]:
    rows = result.cache_table().rows
    keys = ("hits", "misses", "read_bytes", "written_bytes", "fetched_bytes", "returned_bytes", "bypassed_bytes")
    return {key: sum(row[key] for row in rows) for key in keys}


@pytest.mark.parametrize("memory", ["simple", "bank"])
@pytest.mark.parametrize("network", ["simple", "crossbar"])
def test_bytes_are_conserved(memory: str, network: str) -> None:
    chip = machine("tpu-v3", **{"memory.cache.sets": 4, "core.scratchpad.bytes": "1 MiB"})
    program = product(chip)
    result = ts.simulate(program, memory=memory, network=network)
    plain = ts.simulate(program, program.machine.replace({"memory.cache.sets": 0}), memory=memory, network=network)
    cache, sums = result.cache, totals(result)
    assert cache is not None
    # Tensors add up to the whole, and the channels moved what left the cache.
    assert {key: cache[key] for key in ("hits", "misses")} == {key: sums[key] for key in ("hits", "misses")}
    assert cache["fetched_bytes"] == sums["fetched_bytes"]
    assert cache["returned_bytes"] == sums["returned_bytes"]
    channels = [row["bytes"] for row in result.units().rows if row["unit"].startswith("memory.channel")]
    below = cache["fetched_bytes"] + cache["returned_bytes"] + cache["bypassed_bytes"]
    assert result.memory_bytes == below
    assert sum(channels) <= below  # of banks, writes may still wait in the queue
    assert sum(channels) > 0.9 * below
    # The cores asked for what they ask for without a cache.
    assert sums["read_bytes"] == plain.data["memory_read_bytes"]
    assert sums["written_bytes"] == plain.data["memory_written_bytes"]
    assert result.data["network_bytes"] == plain.data["network_bytes"]
    for row in result.units().rows:
        assert sum(row[state] for state in ("busy", "wait_load", "wait_store", "wait_dependency", "wait_port", "idle"))
    assert result.data["fidelity"]["cache"] == "least recently used"
    assert ts.simulate(program, memory=memory, network=network).data == result.data


def test_what_fits_is_fetched_once_and_written_never() -> None:
    chip = machine("tpu-v3", **{"core.scratchpad.bytes": "1 MiB"})
    program = product(chip)
    result = ts.simulate(program)
    rows = {row["tensor"]: row for row in result.cache_table().rows}
    assert result.cache is not None
    for row in rows.values():
        if row["written_bytes"]:
            assert (row["fetched_bytes"], row["returned_bytes"]) == (0, 0)
        else:
            assert row["misses"] * 64 == row["fetched_bytes"] == row["bytes"]  # each sector once
            assert (row["hits"] + row["misses"]) * 64 == row["read_bytes"]
    assert result.cache["dirty_bytes"] == sum(row["written_bytes"] for row in rows.values())


def repeated(hit: int = 20, **changes: Any) -> tuple[ts.Result, ts.Result]:
    """A chain that reads one small tensor again and again, with and without a cache."""
    b = ts.GraphBuilder("again", dtype="f32")
    x, w = b.input("x", (64, 64)), b.input("w", (64, 64))
    for index in range(12):
        x = b.matmul(x, w, name=f"product{index}")
    b.output(x, "y")
    chip = ts.Machine.load("edge-8").replace({"memory.latency": "5 us"})
    cached = chip.replace({**CACHE, "memory.cache.hit_cycles": hit, **changes})
    programs = [ts.compile(b.build(), one, residency="none") for one in (chip, cached)]  # values pass through memory
    return ts.simulate(programs[0]), ts.simulate(programs[1])


def test_hits_spare_the_latency_of_the_memory() -> None:
    plain, cached = repeated()
    assert plain.cycles - cached.cycles > 12 * 5000 * 0.8  # a product waits for 5 us at 0.8 GHz once less
    assert cached.cache is not None
    assert cached.memory_bytes < 0.2 * plain.memory_bytes
    assert cached.cycles < repeated(220)[1].cycles < repeated(420)[1].cycles < plain.cycles


def test_more_ports_and_registers_are_never_slower_for_one_stream() -> None:
    for key, values in {"memory.cache.mshrs": (2, 16, 256), "memory.cache.ports": (1, 2, 4)}.items():
        cycles = []
        for value in values:
            program = ts.compile(ts.workloads.softmax(512, 1024), machine("edge-8", **{key: value}))
            cycles.append(ts.simulate(program, memory="simple").cycles)
        assert cycles == sorted(cycles, reverse=True)
    assert cycles[-1] > 0


def test_write_through_writes_what_the_cores_write() -> None:
    program = product(machine("tpu-v3", **{"memory.cache.write": "through"}))
    result = ts.simulate(program)
    sums = totals(result)
    assert sums["returned_bytes"] == sums["written_bytes"]
    assert result.cache is not None
    assert result.cache["dirty_bytes"] == 0
    assert result.data["memory_written_bytes"] == sums["written_bytes"]


def test_a_plan_keeps_its_tensors_and_all_else_passes_by() -> None:
    chip = machine("tpu-v3", **{"memory.cache.sets": 64, "core.scratchpad.bytes": "1 MiB"})  # 2 MiB
    program = product(chip, 2048, 1024, 512)
    names = {row["tensor"]: row for row in ts.mapping.residency(program).rows}
    kept = ts.simulate(program, resident=["b"] if "b" in names else [sorted(names)[1]])
    for row in kept.cache_table().rows:
        if row["resident"]:
            assert row["bypassed_bytes"] == 0
            assert row["fetched_bytes"] == row["bytes"]  # once, whatever the sets
        else:
            assert (row["hits"], row["misses"]) == (0, 0)
            assert row["bypassed_bytes"] == row["read_bytes"] + row["written_bytes"]
    assert kept.data["fidelity"]["cache"] == "residency plan"
    assert any("laid out" in note for note in kept.approximations)


def test_the_proposed_plan_saves_the_traffic_it_says() -> None:
    chip = machine("tpu-v3", **{"memory.cache.sets": 256, "core.scratchpad.bytes": "1 MiB"})
    program = product(chip, 2048, 1024, 512)
    plan = ts.mapping.residency(program)
    assert plan.bytes <= plan.capacity == 256 * 16 * 128 * 16
    assert plan.names and plan.saved_bytes > 0
    without = ts.simulate(program, chip.replace({"memory.cache.sets": 0}))
    result = ts.simulate(program, resident=plan)
    assert result.cache is not None
    # What is written and stays is written in the end.
    assert without.memory_bytes - result.memory_bytes - result.cache["dirty_bytes"] == plan.saved_bytes
    automatic = ts.simulate(program, resident="auto").data
    assert automatic.pop("options") == {"resident": "auto"} and result.data["options"]["resident"]
    assert automatic == {key: value for key, value in result.data.items() if key != "options"}
    assert str(plan.table()).count("\n") == len(plan.rows)


def test_software_managed_memory_without_a_plan_is_not_there() -> None:
    soft = machine("tpu-v3", **{"memory.cache.managed": "software", "core.scratchpad.bytes": "1 MiB"})
    program = product(soft, 2048, 1024, 512)
    plain = ts.simulate(program, soft.replace({"memory.cache.sets": 0}))
    result = ts.simulate(program)
    assert result.timing_hash() == plain.timing_hash()
    assert result.cache is None
    assert "without resident tensors" in result.data["fidelity"]["cache"]
    assert ts.simulate(program, resident="auto").memory_bytes < plain.memory_bytes


SHARED = [("tpu-v3-chip", "simple"), ("tpu-v3-chip", "mesh"), ("chiplet-2", "simple")]


@pytest.mark.parametrize(("base", "network"), SHARED)
def test_several_cores_share_it(base: str, network: str) -> None:
    chip = machine(base)
    result = ts.simulate(product(chip, 512), network=network)
    cache, sums = result.cache, totals(result)
    assert cache is not None
    assert cache["slices"] == chip.get("memory.channels")
    assert cache["hits"] == sums["hits"] > 0
    # What one core has fetched the other hits: nothing is fetched twice.
    for row in result.cache_table().rows:
        assert row["fetched_bytes"] <= row["bytes"]
    assert ts.simulate(product(chip, 512), network=network).data == result.data


def test_ideal_memory_has_none_and_says_so() -> None:
    result = ts.simulate(product(machine()), memory="ideal")
    assert result.data["fidelity"]["cache"] == "none: ideal memory"
    assert totals(result)["hits"] == 0


def test_a_saved_result_and_its_schema_hold_it(tmp_path: Any) -> None:
    import jsonschema

    result = ts.simulate(product(machine()))
    jsonschema.Draft202012Validator(ts.Result.schema()).validate(result.data)
    result.save(tmp_path / "r.json")
    assert ts.Result.load(tmp_path / "r.json").cache == result.cache


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory.cache.sets": -1}, ["memory.cache.sets", "0 to"]),
        ({"memory.cache.way": 4}, ["memory.cache.ways"]),
        ({"memory.cache.sector": "48 B"}, ["48 B", "power of two"]),
        ({"memory.cache.sector": "16 B"}, ["16 B", "memory.burst_bytes"]),
        ({"memory.cache.line": "32 B"}, ["sectors of 64 B"]),
        ({"memory.cache.sector": "512 B", "memory.cache.line": "512 B"}, ["512 B", "memory.interleave_bytes"]),
        ({"memory.cache.write": "around"}, ["back, through"]),
        ({"memory.cache.managed": "users"}, ["software, hardware"]),
        ({"memory.cache.mshrs": 0}, ["memory.cache.mshrs", "1 to"]),
    ],
)
def test_mistakes_of_a_machine(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ts.UserError) as caught:
        machine(**changes)
    for word in words:
        assert word in str(caught.value)


def test_mistakes_of_plans_and_files() -> None:
    plain, chip = ts.Machine.load("tpu-v3"), machine()
    program = product(chip)
    with pytest.raises(ts.UserError, match=r"memory\.cache\.sets"):
        plain.replace({"memory.cache.ways": 4})
    with pytest.raises(ts.UserError, match=r"a machine with memory\.cache"):
        ts.simulate(product(plain), resident=["a"])
    with pytest.raises(ts.UserError, match="no cache"):
        ts.mapping.residency(product(plain))
    with pytest.raises(ts.UserError, match="missing in the program"):
        ts.simulate(program, resident=["nothing"])
    with pytest.raises(ts.UserError, match="list of names"):
        ts.simulate(program, resident="a")
    small = chip.replace({"memory.cache.sets": 1})
    with pytest.raises(ts.UserError, match="exceed the cache"):
        ts.simulate(program, small, resident=[row["tensor"] for row in ts.mapping.residency(program).rows])
    content = plain.to_dict()
    del content["memory"]["cache"]["sets"]
    with pytest.raises(ts.UserError, match=r"memory\.cache\.sets is missing"):
        ts.Machine.load(content)
