"""Tables of measured collectives and steps: every cell is taken as it stands, or refused; no row depends on another."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tilesim as ts
from tilesim.cli.main import app
from tilesim.validation.collective import collective
from tilesim.validation.step import step

STEP = {
    "source": "mine", "system": "A100-node", "devices": 8, "nodes": 1, "layers": 24, "hidden": 1024, "heads": 16,
    "vocab": 50257, "sequence": 1024, "global_batch": 16, "micro_batch": 1, "dtype": "f16", "tensor": 2, "pipeline": 1,
    "virtual": 1, "data": 4, "context": 1, "shard": "none", "recompute": "full", "attention": "unfused", "gated": 0,
    "measured_ms": 100,
}  # fmt: skip
CALL = {
    "source": "mine", "protocol": "nccl-tests", "device": "H100-SXM-80GB", "library": "NCCL 2.27", "op": "all_reduce",
    "dtype": "f16", "devices": 8, "nodes": 1, "bytes": 1 << 20, "measured_ms": 1,
}  # fmt: skip


def written(path: Path, *rows: dict[str, Any]) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def steps(tmp_path: Path, *changed: dict[str, Any]) -> list[dict[str, Any]]:
    return list(step(written(tmp_path / "steps.csv", *({**STEP, **one} for one in changed)))["rows"])


def calls(tmp_path: Path, *changed: dict[str, Any]) -> list[dict[str, Any]]:
    return list(collective(written(tmp_path / "calls.csv", *({**CALL, **one} for one in changed)))["rows"])


def test_steps_of_graphs_do_not_depend_on_rows_before(tmp_path: Path) -> None:
    row = {"system": "A100-80GB", "devices": 4, "model": "resnet18", "images_per_device": 8, "measured_seconds": 1}
    other = {**row, "system": "A100-40GB"}
    alone = [step(written(tmp_path / "one.csv", one))["rows"][0]["predicted_ms"] for one in (row, other)]
    both = [one["predicted_ms"] for one in step(written(tmp_path / "both.csv", other, row, other))["rows"]]
    assert both == [alone[1], alone[0], alone[1]] and alone[0] < alone[1]


@pytest.mark.parametrize("name", ts.Cluster.names())
def test_a_loaded_cluster_is_ones_own(name: str) -> None:
    one, told = ts.Cluster.load(name), ts.Cluster.load(name).to_dict()
    one.device, one.description = "l4", "mine"
    one.faults.append({"device": 0, "share": 0.5})
    one.sources["mine"] = "me"
    for dimension in one.network:
        dimension["latency_seconds"] = 1.0
    assert ts.Cluster.load(name).to_dict() == told != one.to_dict()


def test_flags_and_whole_numbers(tmp_path: Path) -> None:
    plain, gated = (row["predicted_ms"] for row in steps(tmp_path, {"gated": 0}, {"gated": 1}))
    assert plain < gated
    for cell, wanted in (("", plain), ("0.0", plain), ("False", plain), ("1.0", gated), ("true", gated)):
        (found,) = steps(tmp_path, {"gated": cell})
        assert found["predicted_ms"] == wanted, cell
    for column, cell in (("gated", "2"), ("gated", "x"), ("layers", "24.7"), ("micro_batch", "0.5"), ("nodes", "x"),
                         ("heads", "12")):  # fmt: skip
        (found,) = steps(tmp_path, {column: cell})
        assert found["status"] == "invalid" and column in found["reason"] and cell in found["reason"]
    (found,) = steps(tmp_path, {"layers": "24.0", "devices": "8.0"})
    assert found["predicted_ms"] == plain


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"nodes": 2}, "1 nodes of 8"),
        ({"devices": 16, "data": 8, "nodes": 2}, "up to 8"),
        ({"system": "v5e-256", "devices": 256, "data": 128, "global_batch": 256, "nodes": 4}, "1 nodes of 256"),
        ({"system": "A100-cluster-800G", "devices": 16, "data": 8, "nodes": 1}, "2 nodes of 8"),
    ],
)
def test_nodes_are_those_of_the_system(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    (found,) = steps(tmp_path, changed)
    assert found["status"] == "invalid" and said in found["reason"]
    right, empty = steps(tmp_path, {}, {"nodes": ""})
    assert right["status"] == empty["status"] == "ok" and right["predicted_ms"] == empty["predicted_ms"]


def test_selective_recompute_is_with_sequence_parallelism_on_dgx_alone(tmp_path: Path) -> None:
    work = ts.workloads.transformer_step(24, 1024, 16, 50257, 1024, 16, dtype="f16", attention="unfused")
    for system in ("A100-node", "DGX-A100-80GB"):
        (found,) = steps(tmp_path, {"system": system, "recompute": "selective"})
        plan = ts.Plan(tensor=2, data=4, recompute="selective", sequence=system.startswith("DGX"))
        same = ts.cluster.step(work, f"{system}:8", plan, check_memory=False)
        assert found["predicted_ms"] == pytest.approx(same.seconds * 1e3, rel=1e-12)


def test_devices_that_no_node_joins(tmp_path: Path) -> None:
    (found,) = calls(tmp_path, {"devices": 64})
    assert found["status"] == "invalid" and "64 devices, 1 nodes" in found["reason"] and "up to 8" in found["reason"]
    # a domain of 72 whose boards are counted as nodes or not is the same machine
    for devices, counts in ((72, (1, 2, 9, 18, 36)), (144, (1, 2, 4, 9, 18, 36))):
        rows = calls(tmp_path, *({"device": "GB200", "devices": devices, "nodes": nodes} for nodes in counts))
        assert {row["status"] for row in rows} == {"ok"} and len({row["predicted_ms"] for row in rows}) == 1


def test_labels_of_devices(tmp_path: Path) -> None:
    """A label begins with a device's name; cards that other links join are not taken for it."""
    same = (("H100-SXM-80GB", "h100_sxm"), ("B300", "b300_sxm", "B300 SXM"), ("GB200", "GB200-NVL", "gb200-nvl72"),
            ("RTX-PRO-6000", "rtx_pro_6000_server"))  # fmt: skip
    for labels in same:
        rows = calls(tmp_path, *({"device": label} for label in labels))
        assert len({row["predicted_ms"] for row in rows}) == 1 and rows[0]["predicted_ms"], labels
    for label in ("H100-NVL", "A100-PCIE-80GB", "H20", "L40", "H2000"):
        (row,) = calls(tmp_path, {"device": label})
        assert row["status"] == "unsupported" and label in row["reason"]


def test_the_terminal_names_the_line(tmp_path: Path) -> None:
    table = written(tmp_path / "calls.csv", CALL, {**CALL, "device": "H20"}, {**CALL, "device": "H20"})
    outcome = CliRunner().invoke(app, ["validate", "collective", "--cases", str(table)])
    said = " ".join(outcome.output.split())
    assert outcome.exit_code == 1 and "not predicted, line 3 and 1 more: the library" in said
