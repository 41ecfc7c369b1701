"""DRAM: mistakes in parts, mappings and traces are named with their place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.memory import Part, Trace, run
from tilesim.validation import tables as validate


def broken(name: str, change: Any, tmp_path: Path) -> Path:
    data = Part.load(name).to_dict()
    change(data)
    path = tmp_path / "part.json"
    path.write_text(json.dumps(data, indent=1))
    return path


def without(after: str, before: str) -> Any:
    def change(data: dict) -> None:
        data["constraints"] = [
            c for c in data["constraints"] if not (after in c["after"] and before in c["before"] and "window" not in c)
        ]

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("ACT", "RD"), ["is missing a constraint", "ACT to RD"]),
        (without("RD", "WR"), ["is missing a constraint", "RD to WR"]),
        (without("REFab", "ACT"), ["is missing a constraint", "REFab to ACT"]),
        (lambda d: d["constraints"].append({**d["constraints"][0], "cycles": 99}), ["contradict"]),
        (lambda d: [c.update(cycles=1000) for c in d["constraints"] if c["after"] == ["ACT"] and "RD" in c["before"]],
         ["contradict", "ACT to RD"]),
        (lambda d: d.update(refresh_interval=10), ["contradict", "refresh"]),
        (lambda d: d["constraints"][0].update(level="bankgroup"), ["bank_group", "part.json:"]),
        (lambda d: d["constraints"][0].update(after=["ACTT"]), ["unknown command", "ACT"]),
        (lambda d: d["constraints"][0].update(cycle=3), ["unknown key", "cycles"]),
        (lambda d: d["constraints"][0].update(cycles="nRCDD + 1"), ["unknown timing", "nRCD"]),
        (lambda d: d["constraints"][0].update(cycles="2 +"), ["value is missing"]),
        (lambda d: d["constraints"][0].update(cycles="3 - 9"), ["out of range"]),
        (lambda d: d["constraints"][0].update(cycles="(" * 100_000 + "1" + ")" * 100_000), ["too many parentheses"]),
        (lambda d: d["constraints"][0].update(cycles="max(" * 100_000), ["too many parentheses"]),
        (lambda d: d["constraints"][0].update(cycles="1.2.3 ns"), ["too many points"]),
        (lambda d: d["constraints"][0].update(cycles="1073741824 * 1073741824 * 16"), ["too large"]),
        (lambda d: d["constraints"][0].update(cycles=" + ".join(["999999999999"] * 20_000)), ["too large"]),
        (lambda d: d["controller"].update(read_queue=0), ["read_queue", "1"]),
        (lambda d: d["controller"].update(write_high_watermark=0.1), ["watermarks"]),
        (lambda d: d["controller"].update(page="half"), ["open", "closed", "timeout"]),
        (lambda d: d["controller"].update(page="timeout"), ["page_timeout"]),
        (lambda d: d["levels"].update(bank=3), ["power of two"]),
        (lambda d: d["levels"].pop("row"), ["row", "missing"]),
        (lambda d: d["levels"].update(bank=4096), ["too many banks"]),
        (lambda d: d.update(mapping="row bank bank_group column"), ["covers too few bits", "offset"]),
        (lambda d: d.update(mapping="row bank:1 bank_group rank column offset"), ["covers too few bits of bank"]),
        (lambda d: d["features"].update(command_bus="tripple"), ["shared", "row_and_column"]),
        (lambda d: d["features"].update(all_bank_scope="stack"), ["all-bank"]),
        (lambda d: d["sources"].pop("energy"), ["energies without a source"]),
        (lambda d: d.update(version=2), ["newer"]),
        (lambda d: d.update(schema="tilesim.machine"), ["not a DRAM part"]),
    ],
)  # fmt: skip
def test_broken_parts(change: Any, words: list[str], tmp_path: Path) -> None:
    path = broken("DDR4-3200", change, tmp_path)
    with pytest.raises(ts.UserError) as caught:
        Part.load(path)
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_unknown_names_are_corrected() -> None:
    with pytest.raises(ts.UserError, match="HBM2-2000"):
        run("HBM2-200")
    with pytest.raises(ts.UserError, match="sequential_read"):
        run(trace="sequentail_read")
    with pytest.raises(ts.UserError, match="multiple of 32"):
        run(trace="tile_100B_pitch_4096B")
    with pytest.raises(ts.UserError, match="missing"):
        run(trace="missing.trace")


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ("row bank bank_group column offset", ["too few bits of pseudo_channel"]),
        ("row:15 bank bank_group pseudo_channel column offset", ["too few bits of row"]),
        ("row bank:3 bank_group pseudo_channel column offset", ["too many bits"]),
        ("row bnak bank_group pseudo_channel column offset", ["unknown field", "bank"]),
        ("row bank:x bank_group pseudo_channel column offset", ["width"]),
    ],
)
def test_broken_mappings(mapping: str, words: list[str]) -> None:
    with pytest.raises(ts.UserError) as caught:
        run("HBM2-2000", mapping=mapping)
    for word in words:
        assert word in str(caught.value)


def test_broken_hashes_and_channels() -> None:
    with pytest.raises(ts.UserError, match="column"):
        run("HBM2-2000", hashes=[{"field": "column", "kind": "xor"}])
    with pytest.raises(ts.UserError, match="ipoly"):
        run("HBM2-2000", hashes=[{"field": "bank", "kind": "crc"}])
    with pytest.raises(ts.UserError, match="channels"):
        run("HBM2-2000", channels=0)
    with pytest.raises(ts.UserError, match="power of two"):
        run("HBM2-2000", channels=2, interleave_bytes=100)
    with pytest.raises(ts.UserError, match="inject_every"):
        run("HBM2-2000", inject_every=0)


def test_a_request_outside_the_memory() -> None:
    capacity = Part.load("HBM2-2000").capacity_bytes
    assert run("HBM2-2000", [capacity - 32]).reads == 1
    with pytest.raises(ts.UserError, match="outside the memory") as caught:
        run("HBM2-2000", [0, capacity])
    assert "request 1" in str(caught.value)
    assert run("HBM2-2000", [0, capacity], wrap=True).reads == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("R 0\nX 32\n", 2),
        ("R 0\nR\n", 2),
        ("R 0x\n", 1),
        ("R -4\n", 1),
        ("R 0 5\nR 32 4\n", 2),
        ("R 0 5\nR 32\n", 2),
        ("R 0 1 2\n", 1),
        (f"R 0 {2**61}\nR 0 {2**61 + 1}\n", 2),
        (f"R 0 {2**63 - 1}\n", 1),
        (f"R 0 {2**63}\n", 1),
        ("# fine\n\nR 99999999999999999999999\n", 3),
    ],
)
def test_a_bad_line_of_a_trace(text: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "bad.trace"
    path.write_text(text)
    with pytest.raises(ts.UserError, match=f"bad.trace:{line}"):
        Trace.read(path)


def test_bad_arrays() -> None:
    for values in ([1.5], [[1, 2]], [-1]):
        with pytest.raises(ts.UserError, match="addresses"):
            Trace(values)
    with pytest.raises(ts.UserError, match="shape"):
        Trace([1, 2], writes=[True])
    for late in (2**61 + 1, 2**63 - 1):
        with pytest.raises(ts.UserError, match=r"request 1.*2\^61"):
            run(trace=Trace([1, 2], cycles=[3, late]))
    assert run(trace=Trace([1, 2], cycles=[3, 2**61])).reads == 2
    with pytest.raises(ts.UserError, match="not ascending"):
        Trace([1, 2], cycles=[3, 2])


def test_an_empty_trace_is_no_mistake() -> None:
    result = run("DDR4-3200", np.zeros(0, np.int64))
    assert (result.cycles, result.reads, result.bandwidth) == (0, 0, 0.0)


def test_rows_of_a_table(tmp_path: Path) -> None:
    """Latencies of rows without reads are zero; what was not measured is empty; what is no number is named."""
    path = tmp_path / "cases.csv"
    path.write_text(
        "part,pattern,inject_every_cycles,requests,cycles,avg_read_latency_cycles,row_hits\n"
        "HBM2-2000,sequential_write,1,500,1000,0.000,\n"
        "HBM2-2000,sequential_read,x,500,1000,70.5,480\n"
        "HBM2-2000,sequential_read,1,500,,70.5,480\n"
        "HBM9,sequential_read,1,500,1000,70.5,480\n",
        encoding="utf-8",
    )
    rows = validate.dram(path)["rows"]
    assert [row["status"] for row in rows] == ["ok", "invalid", "invalid", "invalid"]
    assert rows[0]["measured_mean_latency"] == 0 and rows[0]["measured_hits"] is None and rows[0]["predicted_hits"] > 0
    for row, words in zip(rows[1:], ("inject_every_cycles", "cycles is not a positive", "HBM9"), strict=True):
        assert words in row["reason"] and row["predicted_cycles"] is None and row["error"] is None


PARTS = ("DDR4-3200", "HBM2-2000", "LPDDR5-6400", "GDDR6-16000", "HBM3-5200")


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("refresh", ["all_bank", "per_bank", "none"])
@pytest.mark.parametrize("page", ["open", "closed"])
def test_a_far_cycle_is_reached_at_once(name: str, refresh: str, page: str) -> None:
    """Centuries of idle refreshes between two reads: as many as intervals fit, and the second read is as slow as one
    that comes at the same distance from a refresh after a stretch that is simulated tick by tick."""
    data = Part.load(name).to_dict()
    data["controller"].update(refresh=refresh, page=page)
    try:
        part = Part.load(data)
    except ts.UserError:
        pytest.skip("the part has no refresh of single banks")

    def two_reads(second: int) -> Any:
        return run(part, Trace(np.array([0, 0]), np.array([0, 0], bool), np.array([0, second])))

    def refreshes(result: Any) -> int:
        return result.commands["REFab"] + result.commands["REFpb"]

    interval = data["refresh_bank_interval"] if refresh == "per_bank" else data["refresh_interval"]
    turns = 2 * data["levels"]["bank"] * data["levels"].get("bank_group", 1) * interval
    near = 40 * turns + 12_345
    scopes = round(refreshes(two_reads(near)) * interval / near)
    assert (scopes == 0) == (refresh == "none")
    for far in (near + 10**7 * turns, near + (1 << 60) // turns * turns):
        found = two_reads(far)
        assert found.cycles - far == two_reads(near).cycles - near
        assert found.max_latency == two_reads(near).max_latency
        assert abs(refreshes(found) - found.cycles // interval * scopes) <= scopes
