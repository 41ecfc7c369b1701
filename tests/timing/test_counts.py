"""Counts of what takes energy: they add up, by operation and in all, and energy is counts times the machine's table."""

import pytest

import tilesim as ts
from tilesim import _core

TABLE = {"mac": ("multiply-adds", 3), "vector_op": ("vector operations", 5), "memory_byte": ("memory bytes", 7)}
TABLE |= {"network_byte": ("network bytes", 11), "scratchpad_byte": ("scratchpad bytes (DMA side)", 13)}


@pytest.mark.parametrize("machine", ["tpu-v3", "mesh-16", "edge-8"])
def test_energy_is_counts_times_the_table(machine: str) -> None:
    target = ts.Machine.load(machine)
    stated = {f"energy.{key}": f"{each} pJ" for key, (_, each) in TABLE.items()}
    target = target.replace({**stated, "energy.static_microwatts": 1_234_567})
    program = ts.compile(ts.models.mlp(batch=4), target)
    result = _core.simulate(program.core, target.core)
    data, total = result.data(), {}
    for _, item, _, _, number in result.counts():
        total[item] = total.get(item, 0) + number
    found = {row["part"]: row for row in data["energy"]}
    assert set(found) == set(total)
    for item, each in TABLE.values():
        assert found[item]["count"] == total[item] and found[item]["femtojoules"] == 1000 * each * total[item]
    assert total["multiply-adds"] == data["multiply_adds"] and total["memory bytes"] > 0
    picoseconds = data["cycles"] / data["hertz"] * 1e12
    static = found["static (ps)"]
    assert abs(static["count"] - picoseconds) <= 1 and abs(static["femtojoules"] - picoseconds * 1234.567) <= 1


@pytest.mark.parametrize("network", ["mlp", "resnet18"])
def test_operations_cause_what_their_rows_say(network: str) -> None:
    program = ts.compile(ts.models.build(network), "tpu-v3")
    result = _core.simulate(program.core, ts.Machine.load("tpu-v3").core)
    rows = {row["name"]: row for row in result.data()["operations"]}
    by: dict[tuple[str, str], float] = {}
    for _, item, _, operation, number in result.counts():
        by[item, operation] = by.get((item, operation), 0) + number
    for name, row in rows.items():
        assert by.get(("multiply-adds", name), 0) == row["multiply_adds"]
        assert by.get(("vector operations", name), 0) == row["vector_operations"]


def test_the_closed_form_counts_the_same_items() -> None:
    from tilesim.analytic.operations import Costs

    graph = ts.models.build("bert-base")
    found, _ = Costs(ts.Device.load("a100"), None, "", None).price(graph.core)
    result = found.result("bert-base", "a100", 10**9)
    total: dict[str, float] = {}
    for _, item, _, _, number in result.counts():
        total[item] = total.get(item, 0) + number
    data = result.data()
    assert total["multiply-adds"] == data["multiply_adds"] >= graph.flops()["matrix"] / 2
    assert total["memory bytes"] == data["memory_read_bytes"]
