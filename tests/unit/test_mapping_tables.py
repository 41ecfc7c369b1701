"""Tables of mappings: forms, orders, reports, mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import tilesim as ts
from tilesim.mapping import products

SIZES = {"TILE_M": 64, "TILE_K": 128, "TILE_N": 32}


@pytest.fixture(scope="module")
def graph() -> ts.Graph:
    return ts.workloads.matmul(256, 96, 128, dtype="bf16")


def write(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_sizes_are_used(graph: ts.Graph, tmp_path: Path) -> None:
    table = ts.mapping.MappingTable.load(write(tmp_path / "t.json", {"256_128_96": SIZES}))
    program = ts.compile(graph, "edge-8", mapping=table)
    assert (table.hits, table.misses, table.illegal) == (["matmul"], [], {})
    slots = {slot["name"]: slot["elements"] for slot in json.loads(program.core.to_json())["do"][0]["slots"]}
    assert slots == {"a": 64 * 128, "b": 128 * 32, "c": 64 * 32, "out0": 64 * 32}
    assert ts.verify(program).ok


def test_order_of_sizes(graph: ts.Graph, tmp_path: Path) -> None:
    path = write(tmp_path / "t.json", {"256_96_128": SIZES})
    nests = products(graph, "edge-8")
    assert not ts.mapping.MappingTable.load(path).nests(nests)
    assert ts.mapping.MappingTable.load(path, order="M_N_K").nests(nests)["matmul"]["tiles"] == [64, 32, 128]


def test_convolution_by_name_and_round_trip(tmp_path: Path) -> None:
    graph = ts.workloads.conv2d(1, 16, 10, 12, 24, 3, padding=1, dtype="bf16")
    entry = {"tiles": {"oc": 8, "oh": 5}, "depths": [2, 2, 1]}
    table = ts.mapping.MappingTable({"conv2d": entry, "unknown": {"tiles": {"m": 3}}})
    table.save(tmp_path / "table.json")
    again = ts.mapping.MappingTable.load(tmp_path / "table.json")
    assert again.entries == table.entries
    program = ts.compile(graph, "edge-8", mapping=again)
    assert again.hits == ["conv2d"] and again.unused == ["unknown"]
    assert "unused   unknown" in again.report()
    assert ts.verify(program).ok


def test_sub_tiles_are_used(graph: ts.Graph) -> None:
    table = ts.mapping.MappingTable({"256_128_96": {**SIZES, "SUB_M": 8}})
    program = ts.compile(graph, "edge-8", mapping=table)
    whole = ts.compile(graph, "edge-8", mapping=ts.mapping.MappingTable({"256_128_96": SIZES}))
    assert table.hits and ts.simulate(program).cycles != ts.simulate(whole).cycles


def test_a_miss_is_reported(graph: ts.Graph) -> None:
    table = ts.mapping.MappingTable({"1_2_3": {"TILE_M": 1, "TILE_K": 1, "TILE_N": 1}})
    assert ts.simulate(ts.compile(graph, "edge-8", mapping=table)).cycles == ts.simulate(graph, "edge-8").cycles
    assert table.misses == ["matmul"] and "1 misses" in table.report()


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ({"256_128": SIZES}, "three positive integers"),
        ({"256_0_96": SIZES}, "three positive integers"),
        ({"256_128_96": {**SIZES, "TILE_K": 0}}, "at least 1"),
        ({"256_128_96": {**SIZES, "TILE_K": 2.5}}, "at least 1"),
        ({"256_128_96": {"TILE_M": 1, "TILE_N": 1}}, "'TILE_K' is missing"),
        ({"256_128_96": {**SIZES, "TILE_Q": 4}}, "unknown field"),
        ({"256_128_96": 7}, "the entry is not an object"),
        ({"matmul": {"tiles": {"m": 0}}}, "at least 1"),
        ({"matmul": {"order": ["m", "n", "k"]}}, "'tiles' is missing"),
    ],
)
def test_wrong_entries(entries: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(ts.UserError, match=says) as caught:
        ts.mapping.MappingTable.load(write(tmp_path / "t.json", entries))
    assert "t.json" in str(caught.value) and next(iter(entries)) in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({**SIZES, "TILE_M": 257}, "larger than the product"),
        ({"tiles": {"m": 300}}, "larger than the loop"),
        ({"tiles": {"q": 3}}, "unknown loop"),
        ({"tiles": [1, 2]}, "do not have one size per loop"),
        ({"tiles": [8, 8, 8], "order": ["m", "n", "n"]}, "does not name each loop once"),
        ({"tiles": [256, 96, 128], "depths": [64, 64, 64]}, "bytes of scratchpad"),
    ],
)
def test_illegal_for_this_product(graph: ts.Graph, entry: dict[str, object], says: str) -> None:
    """Reported with its reason; the heuristic's mapping is used."""
    key = "256_128_96" if "TILE_M" in entry else "matmul"
    table = ts.mapping.MappingTable({key: entry})
    program = ts.compile(graph, "edge-8", mapping=table)
    assert says in table.illegal["matmul"] and says in table.report()
    assert ts.simulate(program).cycles == ts.simulate(graph, "edge-8").cycles


@pytest.mark.parametrize("text", ["[1]", "{", '{"schema": "other"}', '{"schema": "tilesim.mapping", "version": 9}'])
def test_wrong_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ts.UserError, match=r"t\.json"):
        ts.mapping.MappingTable.load(path)


def test_unknown_strategy(graph: ts.Graph) -> None:
    with pytest.raises(ts.UserError, match="heuristic") as caught:
        ts.compile(graph, "edge-8", mapping="heuristc")
    assert caught.value.suggestion == "heuristic"  # type: ignore[attr-defined]


def test_one_declaration_of_every_field(graph: ts.Graph, tmp_path: Path) -> None:
    """Parser, schema and page agree: what the schema refuses is refused with the same field."""
    schema = ts.mapping.MappingTable.schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    good: dict[str, dict[str, object]] = {
        "256_128_96": {**SIZES, "SUB_M": 8},
        "fc": {
            "tiles": {"m": 3},
            "order": ["m", 1, "k"],
            "depths": [2, 1, 1],
            "unit": "vector",
            "sub": {"m": 2},
            "contexts": 2,
            "pack": "k",
        },
        "rows": {"tiles": [4, 5], "lane": 0, "depth": 3, "sub": [2, 5]},
    }
    ts.mapping.MappingTable(good).save(tmp_path / "table.json")
    data = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    check.validate(data)
    for key, change in (
        ("256_128_96", {"TILE_M": 0}),
        ("fc", {"tiles": {"m": 0}}),
        ("fc", {"order": [-1]}),
        ("fc", {"depths": [0, 1, 1]}),
        ("fc", {"unit": "cpu"}),
        ("fc", {"sub": {"m": 0}}),
        ("fc", {"contexts": 0}),
        ("fc", {"pack": -1}),
        ("fc", {"pack": 1.5}),
        ("rows", {"sub": [0, 1]}),
        ("rows", {"lane": -1}),
        ("rows", {"depth": 0}),
        ("rows", {"depth": True}),
        ("rows", {"dept": 2}),
    ):
        bad = {**good, key: {**good[key], **change}}
        assert not check.is_valid({**data, "entries": bad}), change
        with pytest.raises(ts.UserError, match=f"{key}.*{next(iter(change))}"):
            ts.mapping.MappingTable(bad)
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "file_formats.md").read_text(encoding="utf-8")
    assert ts.mapping.MappingTable.documentation() in page, ts.mapping.MappingTable.documentation()
    (product,) = products(graph, "edge-8")
    assert all(hasattr(product.problem.space(), name) for name in ("tiles", "orders", "depths", "pieces", "packs"))
