"""Settings of memory, network and cache that are wrong are refused where they are given, not in a simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tilesim as ts

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"network.kind": "mush"}, r"network\.kind.*Did you mean 'mesh'"),
    ({"network.kind": "mesh_"}, "mesh_4x8"),
    ({"network.kind": "mesh_4x"}, "mesh_4x8"),
    ({"network.kind": "mesh_0x4"}, "mesh_4x8"),
    ({"network.kind": "simple_4"}, r"network\.kind"),
    ({"network.kind": "nowhere.json"}, "does not exist"),
    ({"memory.kind": "bnk"}, "Did you mean 'bank'"),
    ({"memory.part": "HBM2-200"}, "unknown DRAM part"),
    ({"memory.mapping": "row bank"}, "too few bits of bank_group"),
    ({"memory.mapping": "row bnk column"}, "Did you mean 'bank'"),
    ({"memory.bank_hash": "xo"}, "Did you mean 'xor'"),
    ({"memory.channel_hash": "ipol"}, "Did you mean 'ipoly'"),
    ({"memory.regions": 3}, r"memory\.regions"),
    ({"memory.placement": "loca"}, "Did you mean 'local'"),
    ({"memory.interleave_bytes": "48 B", "memory.kind": "bank"}, "power of two"),
    ({"memory.interleave_bytes": "100 B", "memory.channel_hash": "skew"}, "power of two"),
    ({"memory.cache.line": "100 B"}, "has no cache"),
    ({"memory.cache.sets": 16, "memory.cache.line": "100 B"}, "power of two"),
    ({"memory.cache.sets": 16, "memory.cache.sector": "256 B", "memory.cache.line": "128 B"}, "number of sectors"),
    ({"memory.cache.sets": 16, "memory.cache.write": "bak"}, "Did you mean 'back'"),
    ({"memory.channels": 0}, "1 to 1024"),
    ({"memory.buffer_bytes": "0 B"}, r"memory\.buffer_bytes"),
    ({"network.buffer_bytes": "0 B"}, r"network\.buffer_bytes"),
    ({"network.virtual_channel_flits": 0}, r"network\.virtual_channel_flits"),
    ({"network.flit_bytes": 0}, r"network\.flit_bytes"),
    ({"core.dma.outstanding_bytes": "0 B"}, r"core\.dma\.outstanding_bytes"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_replace_refuses_at_once(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ts.UserError, match=message):
        ts.Machine.load("tpu-v3").replace(changes)


@pytest.mark.parametrize(("changes", "message"), [case for case in MISTAKES if case[1] != "has no cache"])
def test_so_does_a_file(changes: dict[str, Any], message: str) -> None:
    whole = ts.Machine.load("tpu-v3").to_dict()
    for path, value in changes.items():
        at = whole
        *sections, key = path.split(".")
        for section in sections:
            at = at.setdefault(section, {})
        at[key] = value
    with pytest.raises(ts.UserError, match=message):
        ts.Machine.load(whole)


@pytest.mark.parametrize(("setting", "name"), [("memory.part", "a\0b"), ("network.kind", "../a\0b.json")])
def test_names_of_files_with_zero_bytes(setting: str, name: str, tmp_path: Path) -> None:
    whole = ts.Machine.load("tpu-v3").to_dict()
    section, key = setting.split(".")
    whole[section][key] = name
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(ts.UserError, match=rf"{setting}: not a path.*without zero bytes"):
        ts.Machine.load(path)


def test_networks_that_are_there(tmp_path: Path) -> None:
    file = tmp_path / "net.json"
    file.write_text("{}")
    for kind in ("simple", "mesh", "mesh_4x8", "cmesh_4x4x4", "tree_2x5", "crossbar_32", str(file)):
        assert ts.Machine.load("tpu-v3").replace({"network.kind": kind}).get("network.kind") == kind
    with pytest.raises(ts.UserError, match="Did you mean 'mesh'"):
        ts.simulate(ts.compile(ts.workloads.softmax(8, 8)), network="mush")


@pytest.mark.parametrize(
    ("setting", "value"), [("core.scratchpad.bytes", 8192), ("core.clock", 1.5), ("memory.bandwidth", 900)]
)
def test_numbers_without_a_unit_are_quoted_as_given(setting: str, value: float) -> None:
    machine = ts.Machine.load("tpu-v3")
    with pytest.raises(ts.UserError, match="needs a unit") as raised:
        machine.replace({setting: value})
    assert raised.value.value == str(value)
    example = raised.value.suggestion.split("'")[1]
    assert machine.replace({setting: example}).get(setting) == machine.get(setting)
