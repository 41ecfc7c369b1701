"""docs/reference/settings.md is what the declarations say of the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

import tilesim as ts
from tilesim import _core
from tilesim.machine.effects import EFFECTS, FASTER, SLOWER
from tilesim.machine.settings import all_settings, documentation, find_setting, section
from tilesim.mapping import products

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md"


def test_the_list_of_settings() -> None:
    listed, text = documentation(), PAGE.read_text(encoding="utf-8")
    if not text.endswith(listed):
        head = text[: text.index("\n### ") + 1] if "\n### " in text else text
        PAGE.with_suffix(".md.new").write_text(head + listed, encoding="utf-8")
        raise AssertionError(f"settings changed: move {PAGE}.new over {PAGE}")


def test_every_setting_is_declared_once() -> None:
    declared = {path: (unit, meaning) for path, unit, meaning in _core.machine_settings()}
    assert {path: (one.unit, one.meaning) for path, one in all_settings().items()} == declared
    assert EFFECTS.keys() == declared.keys()
    assert [one.path for one in section()] == list(declared)
    assert {one.path for one in section("core.dma")} == {path for path in declared if path.startswith("core.dma.")}


def test_units_there_and_back() -> None:
    """By hand, and every default: what a number is written as is read as that number."""
    by_hand = {
        ("core.clock", "940 MHz"): 940e6,
        ("core.scratchpad.bytes", "16 MiB"): 16 * 2**20,
        ("memory.bandwidth", "1.5 TB/s"): 1.5e12,
        ("memory.latency", "100 ns"): 100_000,  # picoseconds
        ("energy.mac", "0.5 pJ"): 500,  # femtojoules
        ("core.array.rows", 128): 128,
        ("memory.efficiency", 0.5): 0.5,
    }
    for (path, value), number in by_hand.items():
        setting = find_setting(path)
        assert setting.number(value) == number
        assert setting.number(setting.text(number)) == number
    for one in all_settings().values():
        if one.is_number:
            number = one.number(one.default)
            assert number is not None and one.number(one.text(number)) == number
            assert one.low is not None and one.high is not None and one.low < one.high
    assert find_setting("core.kernel_barrier").number(True) is None
    assert find_setting("cores.little.core.array.rows").path == "core.array.rows"


def limits() -> list[str]:
    return [path for path, one in all_settings().items() if one.is_number and path.split(".")[0] in ("core", "memory")]


@pytest.mark.parametrize("path", [path for path in limits() if not path.startswith(("core.array.sp", "memory.cache"))])
def test_ranges_are_those_of_the_parser(path: str) -> None:
    """Just beyond the upper end the core refuses, with the range that is told."""
    setting = find_setting(path)
    assert setting.high is not None
    beyond = setting.high * 2 if setting.unit == "ratio" else setting.text(setting.high + 1)
    with pytest.raises(ts.UserError, match="out of range"):
        ts.Machine.load("edge-8").replace({path: beyond})


FASTER_ONES = {
    "core.clock": 2, "core.array.rows": 2, "core.vector.lanes": 2, "core.vector.issue": 2, "memory.bandwidth": 2,
    "core.dma.bytes_per_cycle": 2, "network.port_bytes_per_cycle": 2, "core.vector.simple": 2, "memory.latency": 4,
    "core.vector.transcendental": 2, "core.vector.reduce_latency": 8, "core.kernel_launch_cycles": 1000,
    "network.latency_cycles": 8,
}  # fmt: skip
NEVER_BOUND = ("network.port_bytes_per_cycle", "core.dma.bytes_per_cycle")  # of this machine, whose memory is slower


@pytest.mark.parametrize("path", FASTER_ONES)
def test_effects_are_what_simulation_says(path: str) -> None:
    """Softmax and a product, each on a machine bound by the part in question or not: never the other way round.

    The product keeps its tiles: rules may choose others on the changed machine, by chance better ones.
    """
    machine, setting = ts.Machine.load("edge-8"), find_setting(path)
    number = setting.number(machine.get(path))
    assert number is not None
    changed = machine.replace({path: setting.text(number * FASTER_ONES[path] if number else FASTER_ONES[path])})
    times = []
    product = ts.workloads.matmul(128, 128, 128, dtype="bf16")
    tiles = {"matmul": products(product, machine, mapping="profile")[0].nest}
    for graph, mapping in ((ts.workloads.softmax(64, 256), "profile"), (product, tiles)):
        times.append([ts.simulate(ts.compile(graph, one, mapping=mapping)).seconds for one in (machine, changed)])
    text = EFFECTS[path]
    assert text.startswith((FASTER, SLOWER))
    differences = [after - before for before, after in times]
    if text.startswith(FASTER):
        assert max(differences) <= 1e-9 and (min(differences) < 0 or path in NEVER_BOUND)
    else:
        assert min(differences) >= -1e-9 and max(differences) > 0


def test_unknown_settings() -> None:
    with pytest.raises(ts.UserError, match=r"Did you mean 'core\.array\.rows'"):
        find_setting("core.array.row")
    with pytest.raises(ts.UserError, match=r"Did you mean 'core\.array'"):
        section("core.aray")
