"""Networks against what BookSim 2 and queueing theory say; `test_samples.py` has the measured rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilesim import network
from tilesim.validation import noc as validate_noc

HEADER = (
    "network,traffic,packet_flits,offered_flits_per_node_per_cycle,packet_latency_cycles,network_latency_cycles,"
    "accepted_flits_per_node_per_cycle,hops,state"
)


def report(tmp_path: Path, rows: list[str], seeds: int = 1) -> dict:
    cases = tmp_path / "rows.csv"
    cases.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return validate_noc.noc(cases, seeds)


def test_rows_that_are_wrong(tmp_path: Path) -> None:
    good = "crossbar_4,bitcomp,1,0.1,6,6,0.1,1,stable"
    bad = [
        good.replace("crossbar", "crosbar"), good.replace("bitcomp", "bitcmp"), good.replace(",1,0.1", ",0,0.1", 1),
        good.replace(",1,0.1", ",1,2.5", 1), good.replace("stable", "unstable"), good.replace(",6,6,", ",x,6,"),
    ]  # fmt: skip
    bare = "crossbar_4,neighbor,1,1.0,,,1.0,,saturated"
    assert report(tmp_path, [bare])["rows"][0]["status"] == "ok"
    result = report(tmp_path, [good, *bad])
    assert [row["status"] for row in result["rows"]] == ["ok"] + ["invalid"] * 6
    assert all(row["reason"] and row["error"] is row["measured_latency"] is None for row in result["rows"][1:])
    assert result["rows"][0]["error"] == 0
    assert result["n_unsupported"] == 6 and result["max_abs_error"] == 1


@pytest.mark.parametrize(
    ("kind", "buffer", "latency"),
    [("torus", 8, 67.6), ("torus", 7, 72.4), ("torus", 6, 79.6), ("mesh", 8, 70), ("mesh", 6, 70), ("mesh", 5, 77)],
)
def test_credit_loop(kind: str, buffer: int, latency: float) -> None:
    """Packets of 40 flits stall where the buffer is shallower than the credits' way round (BookSim 2, load 0.02)."""
    result = network.run(kind, 8, load=0.02, packet=40, buffer_flits=buffer)
    assert result.packet_latency == pytest.approx(latency, rel=0.015)


@pytest.mark.parametrize("load", [0.2, 0.6, 0.8])
def test_single_server_queue(load: float) -> None:
    """Without contention in the crossbar a packet waits only in its source's line.

    A packet comes in a cycle with probability p and is served for 5 cycles: mean wait p S (S - 1) / 2 (1 - p S) of a
    discrete-time queue with Bernoulli arrivals (Takagi, Queueing Analysis 3, 1993), and 10 cycles in the network.
    """
    result = network.run("crossbar", 16, traffic="bitcomp", load=load, packet=5, period=40_000)
    p, service = load / 5, 5
    assert result.network_latency == 10
    assert result.packet_latency == pytest.approx(10 + p * service * (service - 1) / (2 * (1 - p * service)), rel=0.02)
