"""Networks against BookSim 2 (4 virtual channels of 8 flits, one-iteration iSLIP): rows measured with one seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilesim import network
from tilesim.validation import noc as validate_noc

HEADER = (
    "network,traffic,packet_flits,offered_flits_per_node_per_cycle,packet_latency_cycles,network_latency_cycles,"
    "accepted_flits_per_node_per_cycle,hops,state"
)
ROWS = """mesh_4x4,uniform,1,0.1,16.128,16.128,0.0999958,3.50886,stable
mesh_4x4,uniform,1,0.6,18.8617,18.8617,0.599581,3.495,stable
mesh_4x4,uniform,1,0.8,2039.43,90.2073,0.757791,,saturated
mesh_4x4,uniform,5,0.4,26.9019,25.5517,0.400915,3.50669,stable
mesh_4x4,uniform,5,0.8,2287.37,73.8373,0.739425,,saturated
mesh_4x4,transpose,1,0.3,17.2115,17.2115,0.299631,3.49603,stable
mesh_4x4,transpose,1,0.4,2225.74,55.2805,0.374394,,saturated
mesh_4x4,transpose,5,0.2,22.7307,22.243,0.19949,3.5161,stable
mesh_8x8,uniform,1,0.1,27.2775,27.2775,0.0996995,6.2519,stable
mesh_8x8,uniform,1,0.3,29.4268,29.4268,0.299864,6.24924,stable
mesh_8x8,uniform,1,0.6,2442.91,160.691,0.399388,,saturated
mesh_8x8,uniform,5,0.2,36.5704,36.072,0.19987,6.25762,stable
torus_4x4,uniform,1,0.02,15.9445,15.9445,0.0198833,2.98638,stable
torus_4x4,uniform,1,0.6,17.3749,17.3749,0.599608,2.99656,stable
torus_4x4,uniform,5,0.6,31.9005,28.8796,0.599165,2.99645,stable
crossbar_16,uniform,1,0.4,6.61396,6.61396,0.399271,1,stable
crossbar_16,uniform,5,0.3,13.8151,12.9254,0.299696,1,stable
crossbar_16,uniform,5,0.8,2200.65,38.8267,0.617775,,saturated
crossbar_16,bitcomp,5,0.6,12.9545,10,0.599221,1,stable
""".splitlines()


def report(tmp_path: Path, rows: list[str], seeds: int = 1) -> dict:
    cases = tmp_path / "rows.csv"
    cases.write_text("\n".join([HEADER, *rows]) + "\n", encoding="utf-8")
    return validate_noc.noc(cases, seeds)


def test_visible_rows(tmp_path: Path) -> None:
    result = report(tmp_path, ROWS)
    assert result["n"] == len(ROWS) and result["n_unsupported"] == 0
    assert [row["predicted_state"] for row in result["rows"]] == [row["state"] for row in result["rows"]]
    assert result["groups"]["stable"]["mean_abs_error"] <= 0.01
    assert result["groups"]["stable"]["max_abs_error"] <= 0.04
    assert result["groups"]["saturated"]["max_abs_error"] <= 0.015
    for row in result["rows"]:
        if row["hops"]:
            assert row["predicted_hops"] == pytest.approx(float(row["hops"]), rel=0.02)
            assert row["predicted_network_latency"] == pytest.approx(float(row["network_latency_cycles"]), rel=0.04)


def test_rows_that_are_wrong(tmp_path: Path) -> None:
    good = "crossbar_4,bitcomp,1,0.1,6,6,0.1,1,stable"
    bad = [
        good.replace("crossbar", "crosbar"),
        good.replace("bitcomp", "bitcmp"),
        good.replace(",1,0.1", ",0,0.1", 1),
        good.replace(",1,0.1", ",1,2.5", 1),
        good.replace("stable", "unstable"),
        good.replace(",6,6,", ",x,6,"),
    ]
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
