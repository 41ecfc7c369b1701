"""Nests written for Timeloop and ZigZag: tiles, order and bytes worked out by hand; mistakes with their place."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts
from support.command import tilesim
from tilesim.mapping import products
from tilesim.mapping.foreign import from_timeloop, from_zigzag

M, N, K = 256, 96, 128
TIMELOOP = """
mapping:
  - target: DRAM
    type: temporal
    factors: M=4 N=3 K=2
    permutation: KNM      # inner to outer: m is the outermost loop
  - target: GlobalBuffer
    type: temporal
    factors: M8 N4 K64
    permutation: MNK
  - target: GlobalBuffer
    type: spatial
    factors: [M=8, N=8, K=1]
    permutation: [M, N, K]
  - target: GlobalBuffer
    type: bypass
    keep: [Inputs, Outputs]
    bypass: [Weights]
"""
ZIGZAG = """
- name: default
  spatial_mapping:
    D1:
      - K, 8
    D2:
      - C, 8
  temporal_ordering:
    - [C, 16]   # innermost
    - [B, 64]
    - [K, 2]
    - [K, '*']
    - ['*', '*']  # what is left of B
  memory_operand_links: {O: O, W: I2, I: I1}
"""


@pytest.fixture(scope="module")
def graph() -> ts.Graph:
    return ts.workloads.matmul(M, N, K, dtype="bf16")


def write(path: Path, text: str) -> Path:
    pytest.importorskip("yaml", reason="pyyaml is not installed: pip install 'tilesim[mapping]'")
    path.write_text(text, encoding="utf-8")
    return path


def test_timeloop(graph: ts.Graph, tmp_path: Path) -> None:
    chosen = products(graph, "edge-8")
    table = from_timeloop(write(tmp_path / "map.yaml", TIMELOOP), chosen)
    assert table.entries["matmul"] == {"tiles": [64, 32, 64], "order": [0, 1, 2]}
    program = ts.compile(graph, "edge-8", mapping=table)
    assert table.hits == ["matmul"] and "note     GlobalBuffer: bypass has no effect" in table.report()
    # Both operands depend on the innermost loop: a moves once per column of tiles, b once per row of tiles.
    assert chosen[0].cost(table.nests(chosen)["matmul"])["bytes"] == [2 * M * K * 3, 2 * K * N * 4, 2 * M * N]
    moved = ts.simulate(program).data
    assert moved["memory_read_bytes"] == 2 * M * K * 3 + 2 * K * N * 4
    assert moved["memory_written_bytes"] == 2 * M * N
    assert ts.verify(program).ok


def test_timeloop_convolution() -> None:
    graph = ts.workloads.conv2d(1, 16, 12, 12, 24, 3, padding=1, dtype="bf16")
    chosen = products(graph, "edge-8")
    items: list[dict[str, Any]] = [
        {"target": "MainMemory", "type": "temporal", "factors": {"M": 3, "P": 2}, "permutation": "NCRSQPM"},
        {"target": "Buffer", "factors": "C=16 M=8 P=6 Q=12 R=3 S=3 N=1"},
    ]
    table = from_timeloop({"mapping": items}, chosen)
    names = chosen[0].names
    entry = table.entries["conv2d"]
    assert dict(zip(names, entry["tiles"], strict=True)) == {
        "n": 1, "oc": 8, "oh": 6, "ow": 12, "ic": 16, "kh": 3, "kw": 3
    }  # fmt: skip
    assert [names[loop] for loop in entry["order"][:2]] == ["oc", "oh"]
    assert ts.verify(ts.compile(graph, "edge-8", mapping=table)).ok
    swapped = from_timeloop({"mapping": items}, chosen, dims={"P": "ow", "Q": "oh"}, depths=[1, 1, 1])
    assert swapped.entries["conv2d"]["tiles"][names.index("ow")] == 6
    assert swapped.entries["conv2d"]["depths"] == [1, 1, 1]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"factors": "M=4 N=3 K=3"}, "do not multiply to the extent.*matmul: k|k.*do not multiply"),
        ({"factors": "M=4 N=3 K=2 Q=2"}, "unknown loop.*'Q'"),
        ({"factors": "M=4,2 N=3"}, "imperfect"),
        ({"factors": "M=4 N=three"}, "invalid factor"),
        ({"factors": "M=0 N=3"}, "at least 1"),
        ({"permutation": "KM"}, "lacks a loop.*N"),
        ({"permutation": "KMM"}, "twice"),
        ({"type": "spooky"}, "unknown type"),
    ],
)
def test_wrong_timeloop(graph: ts.Graph, change: dict[str, Any], says: str) -> None:
    first = {"target": "DRAM", "type": "temporal", "factors": "M=4 N=3 K=2", "permutation": "KNM"}
    items = [{**first, **change}, {"target": "Buffer", "type": "temporal", "factors": "M=64 N=32 K=64"}]
    with pytest.raises((ts.UserError, ts.Unsupported), match=says):
        from_timeloop(items, products(graph, "edge-8"))


def test_zigzag(graph: ts.Graph, tmp_path: Path) -> None:
    """Inner loops are on chip as far as they fit, as ZigZag's own memories are filled."""
    chosen = products(graph, "edge-8")
    table = from_zigzag(write(tmp_path / "map.yaml", ZIGZAG), chosen)
    # a of 64 KiB, b of 24 and sums of 96 do not fit 256 KiB twice; a quarter of the rows does.
    assert table.entries["matmul"]["tiles"] == [64, 96, 128]
    small = ts.Machine.load("edge-8").replace({"core.scratchpad.bytes": "64 KiB"})
    (product,) = products(graph, small)
    entry = from_zigzag(tmp_path / "map.yaml", [product]).entries["matmul"]
    # Inside: C 8*16, B 64, K 8*2; doubled 2 * (64*128*2 + 128*16*2 + sums and result) fits, all of K does not.
    assert entry["tiles"] == [64, 16, 128] and entry["order"][:2] == [0, 1]
    program = ts.compile(graph, small, mapping={"matmul": entry})
    assert ts.verify(program).ok
    # k is whole: a stays while columns pass by, b comes again for each of four rows of tiles; its runs of 16 columns
    # are 32 bytes, bursts are 64.
    assert ts.simulate(program).data["memory_read_bytes"] == 2 * M * K + 2 * (2 * K * N * 4)


def test_zigzag_names_and_notes(graph: ts.Graph) -> None:
    ordering = [["C", 128], ["B", 256], ["K", 96]]
    table = from_zigzag(
        [{"name": "matmul", "temporal_ordering": ordering}, {"name": "conv1", "temporal_ordering": ordering}],
        products(graph, "edge-8"),
    )
    assert list(table.entries) == ["matmul"] and table.notes == ["conv1: no product of this name"]
    table = from_zigzag([{"name": "conv1", "temporal_ordering": ordering}], products(graph, "edge-8"))
    assert not table.entries and len(table.notes) == 2


@pytest.mark.parametrize(
    ("ordering", "says"),
    [
        ([["C", 128], ["B", 256]], "do not cover the product.*n"),
        ([], "lacks an order of loops"),
        ([["C", 128, 3]], "not a pair of name and size"),
        ([["C", 0]], "at least 1"),
        ([["OX", 4], ["*", "*"]], "unknown loop"),
    ],
)
def test_wrong_zigzag(graph: ts.Graph, ordering: list[Any], says: str) -> None:
    with pytest.raises(ts.UserError, match=says):
        from_zigzag([{"name": "default", "temporal_ordering": ordering}], products(graph, "edge-8"))


def test_zigzag_loop_in_two_places() -> None:
    """c outside, b between, c again: no nest with each loop once."""
    (product,) = products(ts.workloads.matmul(4096, 4096, 4096, dtype="bf16"), "edge-8")
    ordering = [["C", 64], ["K", 64], ["B", 64], ["C", 4], ["K", 64], ["C", 16], ["B", 64]]
    with pytest.raises(ts.Unsupported, match="with each outer loop once"):
        from_zigzag([{"name": "default", "temporal_ordering": ordering}], [product])


def test_wrong_files(graph: ts.Graph, tmp_path: Path) -> None:
    chosen = products(graph, "edge-8")
    for name, text in (("a.json", "{"), ("b.json", '{"mapping": 3}'), ("c.yaml", "mapping: [")):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        if name.endswith("yaml"):
            pytest.importorskip("yaml")
        with pytest.raises(ts.UserError, match=name):
            from_timeloop(path, chosen)
        with pytest.raises(ts.UserError, match=name):
            from_zigzag(path, chosen)
    with pytest.raises(ts.UserError, match="no such file"):
        from_zigzag(tmp_path / "none.yaml", chosen)


def test_without_pyyaml(graph: ts.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    path = tmp_path / "map.yaml"
    path.write_text(TIMELOOP, encoding="utf-8")
    with pytest.raises(ts.UserError, match=r"pip install 'tilesim\[mapping\]'"):
        from_timeloop(path, products(graph, "edge-8"))


def test_command(tmp_path: Path) -> None:
    path = tmp_path / "map.json"
    path.write_text(
        json.dumps({"mapping": [
            {"target": "DRAM", "factors": "M=4 N=3 K=2", "permutation": "KNM"},
            {"target": "Buffer", "factors": "M=64 N=32 K=64"},
        ]}), encoding="utf-8",
    )  # fmt: skip
    workload = f"matmul:{M},{N},{K},bf16"
    done = tilesim("map", workload, "--machine", "edge-8", "--format", "timeloop", "--table", str(path))
    assert done.returncode == 0 and "1 hits" in done.stdout, done.stdout + done.stderr
