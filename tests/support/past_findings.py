"""Damaged files that once did something else than be refused: read, and used in every way, in each run of the tests."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any


def _json(*values: Any) -> list[bytes]:
    return [json.dumps(value).encode() for value in values]


def _device(**parts: Any) -> dict[str, Any]:
    level = {"name": "DRAM", "bytes": 1e9, "bytes_per_second": 1e11}
    whole = {
        "schema": "tilesim.device", "version": 1, "name": "x", "levels": [level], "matrix": {"f32": 1e12}, "units": 4,
    }  # fmt: skip
    return {**whole, **parts}


def _profile(**parts: Any) -> dict[str, Any]:
    return {"schema": "tilesim.profile", "version": 1, "name": "x", "entries": [], **parts}


def _network(**parts: Any) -> dict[str, Any]:
    network = {"schema": "tilesim.network", "version": 1, "name": "x", "routers": 2}
    return {**network, "links": [{"between": [0, 1]}], "nodes": [0, 1], **parts}


def _safetensors(shape: str) -> bytes:
    text = f'{{"a": {{"dtype": "F32", "shape": {shape}, "data_offsets": [0, 24]}}}}'.encode()
    return struct.pack("<Q", len(text)) + text + bytes(24)


def _npz(header: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(24))
    return out.getvalue()


def _program(attributes: Any) -> dict[str, Any]:
    x = {"name": "x", "shape": [4, 8], "dtype": "float32"}
    node = {"op_type": "aten.cat.default", "inputs": [x], "outputs": [{"name": "y"}], "attrs": attributes}
    return {"graph_inputs": [x], "graph_outputs": [{"name": "y"}], "weights": [], "nodes": [node]}


ENTRY = {"operation": "gemm", "scheme": "fp16"}
CONV = "device,dtype,batch,in_channels,out_channels,size,kernel,stride,padding,latency_ms\n{},fp32,1,8,8,8,3,1,1,1\n"
PAST: dict[str, list[bytes]] = {
    "device": _json(
        _device(levels=0.5),
        _device(sources=["x"]),
        _device(labels=3),
        _device(family="x" * 5000),
        _device(family="../machines/edge-8"),
        _device(units=[3]),
        _device(clock_hz=10**400),
    ),
    "profile": _json(
        _profile(held_out=3),
        _profile(held_out=["x"]),
        _profile(refused=7),
        _profile(entries=[None]),
        _profile(entries=3),
        _profile(entries=[{**ENTRY, "constants": 0.5}]),
        _profile(entries=[{**ENTRY, "provenance": 7}]),
        _profile(entries=[{"scheme": "fp16"}]),
        _profile(fitted_rows=[1]),
    ),
    "network": _json(_network(nodes=[1] * 5000), _network(nodes=[0] * 1200 + [1] * 1200)),
    "parts of a table": _json({"mine": {"timing_cycles": {}, "constraints": [[]], "controller": {"impl": "HBM12"}}}),
    "mapping table": _json({"matmul": {"tiles": [64, 32, 64], "order": [0, 1, 2], "depths": [(1 << 61) - 1, 2, 2]}}),
    "safetensors index": _json({"weight_map": {"a": "a\0b.safetensors"}}),
    "safetensors": [
        _safetensors("[9223372036854775807" + ", 9223372036854775807" * 9999 + "]"),
        _safetensors(f"[{'9' * 5000}]"),
    ],
    "npz": [_npz(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3"), _npz(b"(" * 9000)],
    "Timeloop": [
        b"mapping: [{target: DRAM, type: temporal, factors: M=4, permutation: }]",
        b"mapping: [{target: DRAM, type: temporal, factors: 3, permutation: 4}]",
        b"mapping: [{target: DRAM, type: temporal, factors: {M: " + b"9" * 4000 + b"}}]",
    ],
    "ZigZag": [
        b"- {name: default, spatial_mapping: [1], temporal_ordering: [[K, 2]]}",
        b"- {name: default, temporal_ordering: 3}",
    ],
    "pytorch-ir": _json(
        _program([1]), _program({"_tensor_list_sizes": [10**18]}), _program({"_tensor_list_sizes": ["x"]})
    ),
    "table, TPU": [b"workload,measured_cycles_at_940MHz\n" + b"softmax_4x8,400\n" * 5000],
    "table, conv": [CONV.format("/etc/passwd").encode(), CONV.format("(" * 5000).encode()],
}
