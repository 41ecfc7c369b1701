"""What `why` and `explain` propose is the run's own options with one change: followed by hand, it takes as long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.mapping import MappingTable, products

ZEROS = np.kron(np.random.default_rng(1).integers(0, 2, (3, 4)), np.ones((128, 128)))


def graph() -> ts.Graph:
    """A product whose weight has tiles of zeros, and a softmax."""
    rng = np.random.default_rng(2)
    b = ts.GraphBuilder("zeros", dtype="f32")
    x = b.input("x", (64, 384))
    w = b.weight("w", data=(rng.normal(size=(384, 512)) * ZEROS).astype(np.float32))
    b.output(b.op("softmax", b.matmul(x, w, name="up"), dim=1, name="soft"))
    return b.build()


@pytest.mark.parametrize(
    ("machine", "options", "simulating"),
    [
        ("tpu-v3", {"zero_tiles": "skip"}, {}),
        ("tpu-v3", {"zero_tiles": "skip", "lowering": "best"}, {"memory": "bank"}),
        ("edge-8", {"zero_tiles": "test"}, {}),
        ("tpu-v4-chip", {"cores": 1, "residency": "auto"}, {}),
        ("tpu-v3", {"layout": "given", "fuse": "none"}, {}),
        ("mesh-16", {"mapping": "gemmini", "cores": 2}, {"network": "simple"}),
        ("edge-8", {"mapping": "heuristic", "integer_products": False}, {"replay": False}),
    ],
)
def test_alternatives_keep_each_option(machine: str, options: dict[str, Any], simulating: dict[str, Any]) -> None:
    result = ts.simulate(ts.compile(graph(), machine, **options), **simulating)
    rows = result.why("up").alternatives.rows
    assert rows
    for row in rows:
        other = ts.simulate(ts.compile(graph(), machine, **{**options, **row["change"]}), **simulating)
        assert other.cycles == row["cycles"], row["what"]
    for item in result.explain():
        change = dict(item.change)
        if item.kind == "machine":
            continue
        given = ts.quantize(graph(), change.pop("quantize")) if "quantize" in change else graph()
        other = ts.simulate(ts.compile(given, machine, **{**options, **change}), **simulating)
        assert other.cycles == item.cycles, item


def test_a_product_that_skips_tiles_of_zeros_is_not_given_a_mapping() -> None:
    """A mapping that is given ends the skipping: the product would take as long as with all of its tiles."""
    skipped, all_of_them = (
        ts.simulate(ts.compile(graph(), "edge-8", zero_tiles=how)).why("up") for how in ("skip", "off")
    )
    assert skipped.cycles < 0.8 * all_of_them.cycles
    for row in skipped.alternatives.rows:
        assert "up" not in row["change"].get("mapping", {}) and row["own_cycles"] < 0.8 * all_of_them.cycles


def test_a_table_of_mappings_stays(tmp_path: Path) -> None:
    """The nests of a file that were not tuned are those of the alternative."""
    network = ts.models.build("mlp")
    nests = {one.operation: dict(one.nest) for one in products(network, "edge-8", mapping="gemmini")}
    nests = {name: {key: nest[key] for key in ("tiles", "order", "depths", "unit")} for name, nest in nests.items()}
    path = str(tmp_path / "table.json")
    MappingTable(nests).save(path)
    result = ts.simulate(ts.compile(network, "edge-8", mapping=path))
    for row in result.why("layers.1").alternatives.rows:
        other = ts.simulate(ts.compile(network, "edge-8", **{"mapping": path, **row["change"]}))
        assert other.cycles == row["cycles"]
        if "tuned" in row["what"]:
            assert set(row["change"]["mapping"]) >= set(nests)
