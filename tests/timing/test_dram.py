"""DRAM by closed forms: unloaded latency, stream bandwidth, refresh loss, turn-round, conservation."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilesim as ts
from tilesim.memory import Part, Trace, run

PARTS = Part.names()


def limit(part: dict, after: str, before: str, levels: tuple[str, ...]) -> int:
    """Longest delay from one command to another on the given levels, siblings and windows left out."""
    return max(
        (
            constraint["cycles"]
            for constraint in part["constraints"]
            if after in constraint["after"] and before in constraint["before"] and constraint["level"] in levels
            if "window" not in constraint and not constraint.get("sibling")
        ),
        default=0,
    )


def above(part: dict) -> tuple[str, ...]:
    """Levels above the bank."""
    return tuple(level for level in part["levels"] if level not in ("bank", "row", "column"))


def quiet(name: str) -> Part:
    return Part.load(name).replace({"refresh": "none"})


@pytest.mark.parametrize("name", PARTS)
def test_unloaded_latency(name: str) -> None:
    part = quiet(name)
    data = part.to_dict()
    sync = 1 if "clock_sync" in data["features"] else 0
    gap = 4000
    # The first read finds the bank closed; the second, long after, its row open.
    result = run(part, Trace([0, 0], cycles=[0, gap]))
    activate = limit(data, "ACT", "RD", ("bank", *above(data)))
    assert (result.hits, result.misses, result.conflicts) == (1, 1, 0)
    # ACT at tick 1, RD as soon as it may, data a read latency later; latency counts from cycle 0.
    edges = data["features"]["edges"] == "both"
    read = 1 + activate + (1 if sync else 0)
    read += 1 if edges and read % 2 == 0 else 0
    hit = data["read_latency"] + sync + (1 if edges and (gap + 1) % 2 == 0 else 0)
    assert result.max_latency == read + data["read_latency"] - 1
    assert result.mean_latency * 2 == result.max_latency + hit


@pytest.mark.parametrize("name", PARTS)
def test_a_stream_within_one_row_runs_at_the_pace_of_its_bank_group(name: str) -> None:
    part = quiet(name)
    data = part.to_dict()
    pace = max(limit(data, "RD", "RD", above(data)), 1)
    row = data["levels"]["column"] // data["prefetch"]
    addresses = np.tile(np.arange(row) * part.burst_bytes, 20)
    result = run(part, Trace(addresses))
    lead = result.cycles - pace * (len(addresses) - 1)
    # What is not the pace is one activation, one read latency and, perhaps, a synchronisation and an edge.
    activate = limit(data, "ACT", "RD", ("bank",)) + data["read_latency"]
    assert activate < lead <= activate + 4
    assert result.hits == len(addresses) - 1


@pytest.mark.parametrize("name", PARTS)
def test_streams_in_two_groups_reach_the_data_bus(name: str) -> None:
    part = quiet(name)
    data = part.to_dict()
    outer = tuple(level for level in above(data) if level != "bank_group")
    pace = max(limit(data, "RD", "RD", outer), 1)
    group = limit(data, "RD", "RD", ("bank_group",))
    # The bank group lowest, so that neighbours lie in different groups; the pseudo-channel on top, so that one is used.
    fields = [field for field in data["mapping"].split() if field not in ("bank_group", "offset", "pseudo_channel")]
    top = [field for field in data["mapping"].split() if field == "pseudo_channel"]
    result = run(part, "sequential_read", requests=2000, mapping=" ".join([*top, *fields, "bank_group", "offset"]))
    groups = data["levels"].get("bank_group", 1)
    expected = max(pace, -(-group // groups))
    assert expected * 1999 <= result.cycles <= expected * 2000 * 1.12 + 1500


@pytest.mark.parametrize("name", PARTS)
def test_refresh_takes_its_share(name: str) -> None:
    part = Part.load(name)
    data = part.to_dict()
    # One row again and again: what a refresh costs is not hidden behind other banks.
    row = data["levels"]["column"] // data["prefetch"]
    trace = Trace(np.tile(np.arange(row) * part.burst_bytes, 20000 // row))
    with_refresh, without = run(part, trace), run(quiet(name), trace)
    scopes = data["levels"].get(data["features"]["all_bank_scope"], 1)
    assert abs(with_refresh.refreshes - scopes * (with_refresh.cycles // data["refresh_interval"])) <= scopes
    rounds = with_refresh.cycles // data["refresh_interval"]
    levels = ("bank", *above(data))
    around = limit(data, "RD", "PREab", levels) + limit(data, "PREab", "REFab", levels)
    around += limit(data, "ACT", "RD", levels) - limit(data, "RD", "RD", above(data))
    each = around + limit(data, "REFab", "ACT", levels)
    # Edges, synchronisation and waiting for a burst's turn: a few ticks.
    assert rounds >= 8
    assert each * rounds <= with_refresh.cycles - without.cycles <= (each + 12) * rounds


@pytest.mark.parametrize("name", PARTS)
def test_turn_round(name: str) -> None:
    part = quiet(name)
    data = part.to_dict()
    burst = part.burst_bytes
    alone = run(part, Trace([0]))
    # A write of the open row at tick 1001, and a read offered right behind it.
    result = run(part, Trace([0, burst, 2 * burst], writes=[False, True, False], cycles=[0, 1000, 1001]))
    turn = limit(data, "WR", "RD", ("bank", *above(data)))
    if data["features"]["edges"] == "both":
        turn += turn % 2  # from one rising edge to another
    # A synchronisation ahead of the write and one ahead of the read.
    turn += 2 if "clock_sync" in data["features"] else 0
    latency = result.mean_latency * 2 - alone.max_latency
    assert latency == turn + data["read_latency"] - 1


@pytest.mark.parametrize("name", PARTS)
def test_every_request_is_served_once(name: str) -> None:
    part = Part.load(name)
    result = run(part, "mixed_rand", requests=5000)
    assert result.reads + result.writes == 5000
    # Column commands are what was neither forwarded, merged nor still waiting.
    waiting = result.writes - result.merged - result.commands["WR"]
    assert result.commands["RD"] == result.reads - result.forwarded
    assert 0 <= waiting <= 32 + part.core.banks
    assert result.commands["RD"] + result.commands["WR"] <= result.hits + result.misses + result.conflicts
    lows, counts = result.histogram()
    assert counts.sum() == result.reads
    assert lows[-1] <= result.max_latency
    assert result.bank_activates().sum() == result.commands["ACT"]


def test_more_channels_are_not_slower_and_share_the_work() -> None:
    cycles = []
    for channels in (1, 2, 3, 8):
        result = run("HBM2-2000", requests=24000, channels=channels)
        assert sum(row["reads"] for row in result.table().rows) == 24000
        cycles.append(result.cycles)
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[-1] * 6 < cycles[0]


def test_hashes_spread_strides_over_banks() -> None:
    # Every request in another row of one bank: a hash over the row turns conflicts into bank parallelism.
    size = 1 << 20
    plain = run("DDR4-3200", f"stride_{size >> 10}KiB", requests=2000, span=1 << 30)
    for kind in ("xor", "ipoly"):
        hashes = [{"field": "bank", "kind": kind}, {"field": "bank_group", "kind": kind}]
        hashed = run("DDR4-3200", f"stride_{size >> 10}KiB", requests=2000, span=1 << 30, hashes=hashes)
        assert np.count_nonzero(hashed.bank_activates()) > np.count_nonzero(plain.bank_activates())
        assert hashed.cycles < plain.cycles


def test_any_number_of_channels_is_one_to_one() -> None:
    for hashed in (False, True):
        result = run("HBM2-2000", Trace(np.arange(3000) * 256), channels=3, interleave_bytes=256, channel_hash=hashed)
        assert [row["reads"] for row in result.table().rows] == [1000, 1000, 1000]


def test_a_closed_page_saves_the_precharge_of_random_reads() -> None:
    part = Part.load("DDR4-3200")
    slow = run(part, "random_read", requests=3000, inject_every=200)
    fast = run(part, "random_read", requests=3000, inject_every=200, controller={"page": "closed"})
    assert slow.conflicts > 2000 and fast.conflicts < 50
    precharge = limit(part.to_dict(), "PREpb", "ACT", ("bank",))
    saved = precharge * (slow.conflicts - fast.conflicts) / 3000
    assert abs(slow.mean_latency - fast.mean_latency - saved) < 1.5


def test_runs_are_deterministic() -> None:
    first, second = (run("HBM3-6400", "mixed_rand", requests=3000) for _ in range(2))
    assert first.data == second.data


def test_trace_files_and_arrays_are_the_same(tmp_path) -> None:
    trace = Trace.generate("mixed_rand", 500, 32)
    path = tmp_path / "trace.txt"
    lines = [
        f"{'W' if w else 'R'} {a:#x}  # burst" for a, w in zip(trace.addresses.tolist(), trace.writes, strict=True)
    ]
    path.write_text("# made by hand\n\n" + "\n".join(lines) + "\n")
    assert run("HBM2-2000", path).data == run("HBM2-2000", trace).data
    assert run("HBM2-2000", trace).data == run("HBM2-2000", "mixed_rand", requests=500).data
    assert ts.memory.run(trace=path).reads == 500 - int(trace.writes.sum())


def test_generators_by_hand() -> None:
    def addresses(name: str, **options: int) -> list[int]:
        return Trace.generate(name, 6, 32, **options).addresses.tolist()

    assert addresses("sequential_write") == [0, 32, 64, 96, 128, 160]
    assert addresses("tile_64B_pitch_4KiB") == [0, 32, 4096, 4128, 8192, 8224]
    assert addresses("copy_blocks_64B") == [0, 32, 1 << 27, (1 << 27) + 32, 64, 96]
    assert addresses("stride_3KiB", span=8192) == [0, 3072, 6144, 1024, 4096, 7168]
    assert addresses("two_streams_far") == [0, 1 << 26, 32, (1 << 26) + 32, 64, (1 << 26) + 64]
    assert addresses("two_streams_1MiB") == [0, 1 << 20, 32, (1 << 20) + 32, 64, (1 << 20) + 64]
    mixed = Trace.generate("mixed_seq", 4, 32)
    assert mixed.addresses.tolist() == [0, 1 << 27, 32, (1 << 27) + 32]
    assert mixed.writes.tolist() == [0, 1, 0, 1]
    # First values of xorshift64 with this seed, by exact arithmetic.
    state, mask = 88172645463325252, (1 << 64) - 1
    expected = []
    for _ in range(6):
        state ^= state << 13 & mask
        state ^= state >> 7
        state ^= state << 17 & mask
        expected.append(state % ((1 << 28) // 32) * 32)
    assert addresses("random_read") == expected


def test_energy_is_counts_times_stated_figures() -> None:
    result = run("HBM2-TPUv3", "mixed_rand", requests=3000, channels=2)
    assert result.energy is not None
    assert "O'Connor" in result.part.sources["energy"]
    commands = result.commands
    assert result.energy["activate"] == pytest.approx(909e-12 * commands["ACT"])
    # 3.48 pJ/bit of every burst of 32 bytes.
    moved = result.energy["read"] + result.energy["write"]
    assert moved == pytest.approx(3.48e-12 * 256 * (commands["RD"] + commands["WR"]))
    assert result.energy["total"] == pytest.approx(sum(v for k, v in result.energy.items() if k != "total"))
    # Streams open a row per 32 bursts: 909 pJ / 8192 bit more, the paper's 3.92 pJ/bit holds for about 2 KB per row.
    stream = run("HBM2-2000", "sequential_read", requests=20000)
    assert stream.energy is not None
    assert 3.48e-12 < stream.energy["total"] / (20000 * 256) < 3.92e-12


def test_energy_of_ddr4_follows_from_the_currents_that_its_source_states() -> None:
    """IDD0 less standby over tRC, IDD4 less IDD3N over a burst, IDD5B less IDD3N over tRFC; 1.2 V, eight devices."""
    for speed in (2133, 2400, 2666, 2933, 3200):
        part = ts.memory.Part.load(f"DDR4-{speed}")
        text, data = part.sources["energy"], part.to_dict()
        idd = {k: int(v) for k, v in re.findall(r"IDD(0|2N|3N|4R|4W|5B) (\d+)", text)}
        cycles = {name: data["timing"][name] * data["clock_ps"] for name in ("nRC", "nRAS", "nBL", "nRFC")}
        standby = idd["3N"] * cycles["nRAS"] + idd["2N"] * (cycles["nRC"] - cycles["nRAS"])
        joules = {
            "activate": idd["0"] * cycles["nRC"] - standby,
            "read": (idd["4R"] - idd["3N"]) * cycles["nBL"],
            "write": (idd["4W"] - idd["3N"]) * cycles["nBL"],
            "refresh_all": (idd["5B"] - idd["3N"]) * cycles["nRFC"],
        }
        for key, amount in joules.items():  # mA * ps * V = fJ
            assert float(data["energy"][key].split()[0]) == pytest.approx(amount * 1.2 * 8, rel=1e-3), (speed, key)
    result = run("DDR4-3200", "mixed_rand", requests=3000)
    assert result.energy is not None
    assert result.energy["refresh"] == pytest.approx(684.288e-9 * result.commands["REFab"], rel=1e-3)


def test_parts_without_figures_say_so() -> None:
    for name in ts.memory.Part.names():
        part = ts.memory.Part.load(name)
        if part.to_dict().get("energy") is None:
            assert part.sources["energy"].startswith("none: "), name
            assert run(name, requests=100).energy is None


def test_a_sequential_stream_is_monotone() -> None:
    """More requests take longer; deeper queues, faster bins of a part and more channels do not."""
    cycles = [run("HBM2-2000", "sequential_read", requests=n).cycles for n in (100, 500, 501, 2000, 2001, 5000)]
    assert cycles == sorted(cycles)
    part = Part.load("DDR4-3200")
    depths = [run(part.replace({"read_queue": n}), "sequential_read", requests=3000).cycles for n in (1, 2, 4, 8, 32)]
    assert depths == sorted(depths, reverse=True)
    for bins in (
        ["DDR4-1600", "DDR4-2133", "DDR4-2400", "DDR4-2666", "DDR4-2933", "DDR4-3200"],
        ["HBM2-1600", "HBM2-2000", "HBM2-2400", "HBM2E-3200", "HBM2E-3600"],
        ["DDR5-3200", "DDR5-4800", "DDR5-5600", "DDR5-6400"],
        ["HBM3-5200", "HBM3-5600", "HBM3-6400"],
        ["GDDR6-14000", "GDDR6-16000", "GDDR6-18000"],
    ):
        seconds = [run(name, "sequential_read", requests=4000).seconds for name in bins]
        assert seconds == sorted(seconds, reverse=True), bins
