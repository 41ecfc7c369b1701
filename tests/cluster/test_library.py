"""Communication libraries: closed forms by hand, bounds, monotony, errors, and the measured table."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import tilesim as ts
from support.reference import table
from tilesim import UserError
from tilesim.cli.main import app
from tilesim.cluster import library
from tilesim.cluster.libraries import model as library_model
from tilesim.cluster.library import OPERATIONS, load
from tilesim.validation.collective import ROW_COLUMNS, cases_of, collective

NCCL = load("nccl")
LINKS = {"nvlink3": 300e9, "nvlink4": 450e9, "nvlink5": 900e9, "pcie": 32e9}
ROW = dict(
    zip(
        ROW_COLUMNS,
        ("own", "nccl-tests", "H100-SXM-80GB", "NCCL 2.29", "all_reduce", "f16", "8", "1", "1048576", "0.025"),
        strict=True,
    )
)


def sent(op: str, size: float, devices: int, in_switch: bool) -> float:
    """Bytes that a device must send, by definition of the operation; half of a sum where the switch adds."""
    others = (devices - 1) / devices
    if op == "all_reduce":
        return size * (1 + 1 / devices) if in_switch else 2 * others * size
    return size if op in ("permute_devices", "broadcast_devices") else others * size


def test_plain_by_hand() -> None:
    plain = load("plain")
    b, size = 100e9, 8e9

    def time(op: str, devices: int, per_node: int, node_link: float | None = None) -> float:
        return plain.seconds(op, size, "f32", devices, per_node, link=b, node_link=node_link, generation="any")

    assert time("all_reduce", 4, 4) == pytest.approx(2 * 0.75 * 0.08)
    assert time("all_gather", 4, 4) == time("reduce_scatter", 4, 4) == pytest.approx(0.75 * 0.08)
    assert time("all_to_all", 8, 8) == pytest.approx(7 / 8 * 0.08)
    assert time("permute_devices", 8, 8) == time("broadcast_devices", 8, 8) == pytest.approx(0.08)
    assert time("all_reduce", 1, 1) == 0.0
    # two nodes of four devices, 10 GB/s each: four rings carry 40 GB/s; an exchange sends half of the bytes out
    assert time("all_gather", 8, 4, 10e9) == pytest.approx(7 / 8 * 8e9 / 40e9)
    assert time("all_to_all", 8, 4, 10e9) == pytest.approx(0.5 * 8e9 / 10e9)
    assert time("all_reduce", 2, 1, 10e9) == pytest.approx(8e9 / 10e9)


def test_ring_latency_by_hand() -> None:
    """A call of no bytes to speak of is its cost and one step of LL per device on the way, twice for a sum."""
    c = NCCL.generations["nvlink4"]["constants"]
    for devices in (2, 3, 8):
        for op, steps in (("all_gather", devices - 1), ("all_reduce", 2 * (devices - 1))):
            found = NCCL.seconds(op, 1, "f16", devices, 8, link=450e9, generation="nvlink4")
            assert found == pytest.approx(c["call_seconds"] + steps * c["ll_step_seconds"], rel=1e-3)


def test_large_sums_in_the_switch_by_hand() -> None:
    c, size = NCCL.generations["nvlink4"]["constants"], 1 << 40
    by_switch = {"f16": True, "f32": True, "i8": False}
    for dtype, inside in by_switch.items():
        told = NCCL.explain("all_reduce", size, dtype, 8, 8, link=450e9, generation="nvlink4")
        assert told.algorithm == ("nvls" if inside else "ring")
        share = 9 / 8 / c["nvls_share"] if inside else (7 / 4 + 7 / 8 * c["sum_cost_one_byte"]) / c["simple_share"]
        copied = 0 if inside else 1 / 8 / c["copy_share"]
        assert told.seconds == pytest.approx(size / 450e9 * (share + copied), rel=1e-3)
    assert NCCL.explain("all_reduce", size, "f16", 4, 8, link=450e9, generation="nvlink4").algorithm == "ring"
    assert NCCL.explain("all_reduce", size, "f16", 8, 8, link=300e9, generation="nvlink3").algorithm == "ring"


def test_trees_between_nodes_by_hand() -> None:
    """A sum of no bytes to speak of over many nodes is twice a chain in a node and the levels of a binary tree."""
    c, own = {**NCCL.generations["nvlink4"]["constants"], **NCCL.nodes["constants"]}, {"generation": "nvlink4"}
    for nodes, levels in ((8, 3), (9, 4), (64, 6), (1024, 10)):
        told = NCCL.explain("all_reduce", 1, "f16", 8 * nodes, 8, link=450e9, node_link=50e9, **own)
        chain, hop = 14 * c["ll_step_seconds"], 5.0 / 2.7 * c["node_ll_step_seconds"]
        assert told.algorithm == "tree" and told.protocol == "LL"
        assert told.seconds == pytest.approx(c["call_seconds"] + chain + 2 * levels * hop, rel=1e-3)
    # gathers go round the ring, and so do sums of many bytes over few nodes; nothing takes longer than its ring
    settings: dict[str, Any] = {"link": 450e9, "node_link": 50e9, **own}
    assert NCCL.explain("all_gather", 1, "f16", 512, 8, **settings).algorithm == "ring"
    assert NCCL.explain("all_reduce", 1 << 34, "f16", 16, 8, **settings).algorithm == "ring"
    for size in (1 << 10, 1 << 20, 1 << 26, 1 << 32):
        nodes = np.array([2, 3, 4, 5, 8, 13, 16, 17, 32, 64, 128])
        sums, parts = (NCCL.seconds_many(op, size, "f16", 8 * nodes, 8, **settings)
                       for op in ("all_reduce", "reduce_scatter"))  # fmt: skip
        assert (np.diff(sums) > -1e-15).all() and (sums <= 2 * parts * (1 + 1e-9)).all()
        for count, one in zip(nodes, sums, strict=True):
            told = NCCL.explain("all_reduce", size, "f16", 8 * int(count), 8, **settings)
            assert told.seconds == pytest.approx(one, rel=1e-12) == pytest.approx(sum(told.terms.values()), rel=1e-9)
            assert one >= 2 * (1 - 1 / count) * size / 400e9  # across the adapters of a node


@pytest.mark.parametrize("generation", LINKS)
@pytest.mark.parametrize("op", OPERATIONS)
def test_never_faster_for_more_bytes_and_never_above_the_links(generation: str, op: str) -> None:
    draw = np.random.default_rng(5)
    sizes = np.unique(np.concatenate([2.0 ** np.arange(0, 41, 0.125), draw.uniform(1, 1 << 27, 200)]))
    for devices, per_node, dtype in (
        (2, 8, "f16"),
        (3, 8, "i8"),
        (8, 8, "f16"),
        (8, 8, "i8"),
        (16, 8, "bf16"),
        (64, 8, "f16"),
    ):
        rates: dict[str, Any] = {"link": LINKS[generation], "node_link": 50e9, "generation": generation}
        times = NCCL.seconds_many(op, sizes, dtype, devices, per_node, **rates)
        assert (np.diff(times) >= -1e-15).all(), (devices, dtype, sizes[1:][np.diff(times) < 0][:3])
        inside = generation in ("nvlink4", "nvlink5") and op == "all_reduce" and devices == 8 and dtype != "i8"
        for size, time in zip(sizes, times, strict=True):
            rate = rates["link"] if devices <= per_node else rates["link"] + 8 * 50e9
            assert time >= sent(op, size, devices, inside) / rate
        assert (times > 0).all() and np.isfinite(times).all()


def test_latency_grows_with_devices_and_falls_with_the_rate() -> None:
    devices = np.arange(2, 73)
    for generation, link in LINKS.items():
        for op in OPERATIONS:
            times = NCCL.seconds_many(op, 8, "f16", devices, 72, link=link, generation=generation)
            assert (np.diff(times) >= 0).all(), (generation, op)
        for size in (1e3, 1e6, 1e9):
            slow, fast = (
                NCCL.seconds("all_gather", size, "f16", 4, 4, link=rate, generation=generation)
                for rate in (link, 1.5 * link)
            )
            assert fast <= slow


def test_many_are_each() -> None:
    draw = np.random.default_rng(3)
    sizes, devices = draw.integers(1, 1 << 30, 40), draw.integers(1, 9, 40)
    together = NCCL.seconds_many("all_reduce", sizes, "f16", devices, 8, link=450e9, generation="nvlink4")
    for size, count, time in zip(sizes, devices, together, strict=True):
        one = NCCL.explain("all_reduce", int(size), "f16", int(count), 8, link=450e9, generation="nvlink4")
        assert one.seconds == time
        assert sum(one.terms.values()) == pytest.approx(time, abs=2e-12)


def test_rates_as_arrays() -> None:
    rates = np.array([[25e9], [50e9]])
    sizes = np.array([1e5, 1e7, 1e9])
    found = NCCL.seconds_many("all_reduce", sizes, "f16", 16, 8, link=450e9, node_link=rates, generation="nvlink4")
    assert found.shape == (2, 3)
    for row, rate in zip(found, (25e9, 50e9), strict=True):
        for size, time in zip(sizes, row, strict=True):
            alone = NCCL.seconds("all_reduce", size, "f16", 16, 8, link=450e9, node_link=rate, generation="nvlink4")
            assert time == alone


def test_what_is_assumed_is_said() -> None:
    def said(op: str = "all_gather", size: float = 1e6, devices: int = 8, generation: str = "nvlink4") -> str:
        told = NCCL.explain(op, size, "f16", devices, 72, link=450e9, generation=generation)
        return " ".join(told.approximations)

    assert said() == ""
    assert "nvlink4" in said(generation="xgmi3")
    assert "permute" in said("permute_devices")
    assert "bytes" in said(size=1e13)
    assert "72 devices" in said(devices=72)
    assert "not fitted" in load("xla-tpu").provenance["ici"]
    assert "fitted on" in NCCL.provenance["nvlink5"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"op": "all_redcue"}, "all_reduce"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": math.nan}, "bytes"),
        ({"bytes": "many"}, "bytes"),
        ({"devices": 0}, "devices"),
        ({"devices": 2.5}, "devices"),
        ({"devices": True}, "devices"),
        ({"per_node": 0}, "per_node"),
        ({"link": 0}, "link"),
        ({"dtype": "f17"}, "f17"),
        ({"protocol": "gloo"}, "nccl-tests"),
        ({"per_node": 4}, "node_link"),
        ({"generation": 4}, "generation"),
    ],
)
def test_bad_calls(change: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {"op": "all_reduce", "bytes": 1e6, "dtype": "f16", "devices": 8, "per_node": 8}
    given |= {"link": 450e9, "generation": "nvlink4"} | change
    with pytest.raises(UserError, match=words):
        NCCL.seconds(**given)


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nccl"):
        load("ncll")
    text = (Path(library.configs_dir()) / "libraries" / "plain.json").read_text(encoding="utf-8")
    for old, new, words in (
        ('"share": 1', '"share": -1', "share"),
        ('"steps"', '"stairs"', "steps"),
        ('"name": "plain",', "", "name"),
        ('"share": 1', '"part": 1', "share"),
        ("tilesim.library", "tilesim.machine", "tilesim.library"),
    ):
        assert old in text
        path = tmp_path / "own.json"
        path.write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(UserError, match=words):
            load(path)
    (tmp_path / "own.json").write_text(text, encoding="utf-8")
    assert load(tmp_path / "own.json").seconds("permute_devices", 1e9, "f32", 2, 2, link=1e9, generation="x") == 1.0


def written(path: Path, rows: list[dict[str, str]]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ROW_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_rows_that_say_nothing(tmp_path: Path) -> None:
    rows = [ROW]
    changes = [("device", name, "unsupported") for name in ("TX-9000", "MI300X", "A100-PCIE-40GB", "H100-PCIE")]
    changes += [("library", "Gloo", "unsupported")]
    changes += [(column, "0", "invalid") for column in ("devices", "nodes", "bytes", "measured_ms")]
    changes += [("op", "all_redcue", "invalid"), ("bytes", "nan", "invalid"), ("nodes", "3", "invalid")]
    changes += [("dtype", "f17", "invalid"), ("protocol", "mpi", "invalid"), ("devices", "1", "invalid")]
    rows += [{**ROW, column: value} for column, value, _ in changes]
    report = collective(written(tmp_path / "rows.csv", rows))
    assert [row["status"] for row in report["rows"]] == ["ok", *(status for *_, status in changes)]
    assert all(row["reason"] and row["error"] is None for row in report["rows"][1:])
    assert report["rows"][0]["predicted_ms"] > 0 and not report["rows"][0]["fitted"]
    assert next(iter(report["groups"])) == "own|H100-SXM-80GB|NCCL 2.29|all_reduce"


def test_one_domain_of_many_boards(tmp_path: Path) -> None:
    rows = [{**ROW, "device": name, "devices": "16", "nodes": "4"} for name in ("GB200-NVL", "B200-SXM")]
    one, several = cases_of(written(tmp_path / "rows.csv", rows))
    assert (one.generation, one.nodes, several.nodes) == ("nvlink5", 1, 4)


def test_the_sample_by_the_command(tmp_path: Path) -> None:
    outcome = CliRunner().invoke(app, ["validate", "collective", "--json", str(tmp_path / "report.json")])
    assert outcome.exit_code == 0, outcome.output
    assert "B200" in outcome.output


def test_the_visible_rows() -> None:
    report = collective(table("collective_latency.csv"))
    assert report["n"] >= 1000 and report["n_unsupported"] == 0
    assert all(row["fitted"] for row in report["rows"])
    limits = {"A100-SXM4-80GB": 0.06, "H100-SXM-80GB": 0.065, "B200-SXM": 0.045, "L40S": 0.12}
    for device, limit in limits.items():
        errors = [abs(r["error"]) for r in report["rows"] if r["device"] == device and r["nodes"] == "1"]
        assert len(errors) >= 240 and sum(errors) / len(errors) <= limit, device
    across = [abs(row["error"]) for row in report["rows"] if row["nodes"] != "1"]
    assert len(across) == 60 and sum(across) / len(across) <= 0.27


def test_constants_fitted_on_half_of_the_sizes() -> None:
    """Robust fits with every other size left out (bench/fit_collectives.py keeps them in the file of the library)."""
    cases = [
        c for c in cases_of(table("collective_latency.csv")) if c.nodes == 1 and c.device in ("a100", "h100", "b200")
    ]
    places = {
        size: number for number, size in enumerate(sorted({case.bytes for case in cases if case.bytes < 1 << 29}))
    }
    errors = []
    for case in cases:
        if case.bytes not in places:
            continue
        own = NCCL.generations[case.generation]["halves"][1 - places[case.bytes] % 2]
        constants = {**library.beliefs(NCCL.generations[case.generation]), **NCCL.nodes["constants"], **own}
        arrays = (np.array([float(x)]) for x in (case.bytes, case.devices, case.nodes, case.link, case.node_link))
        query = library_model.Query(case.op, *arrays, one_byte=case.dtype == "i8")
        errors.append(abs(library_model.seconds(constants, query)[0] / (case.measured_ms * 1e-3) - 1))
    assert len(errors) == 720
    assert sum(errors) / 720 <= 0.08


@pytest.mark.parametrize("more", [{"network_model": "flows"}, {"algorithm": "ring"}])
def test_what_a_library_would_not_look_at(more):
    with pytest.raises(ts.UserError, match=f"{next(iter(more))}.*no library"):
        ts.cluster.collective("all_reduce", 1 << 20, "dgx-h100:8", library="nccl", **more)


def test_a_replay_takes_a_library_which_has_a_form_of_its_own():
    trace = ts.cluster.fsdp_trace(8, 2, layer_bytes=1 << 20, forward_ps=10**6, backward_ps=10**6)
    found = ts.cluster.replay(trace, "dgx-h100:8", "nccl")
    assert found.network == "closed" and found.seconds > ts.cluster.replay(trace, "dgx-h100:8").seconds
    for network in ("flows", "chunks"):
        with pytest.raises(
            ts.UserError, match=f"network_model: a library has its own network model.*{network}.*remove library"
        ):
            ts.cluster.replay(trace, "dgx-h100:8", "nccl", network_model=network)
