"""Files whose form is right and whose content is not: archives, tables, programs, stores, models."""

from __future__ import annotations

import io
import json
import random
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core
from tilesim.analytic.measured.tables import read
from tilesim.graph.weights import open_weights
from tilesim.program.mixed import from_document, to_document
from tilesim.validation.tables import dram


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def archive(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def described(descr: str = "'<f4'", shape: str = "(2,)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}}}\n"


HEADERS = {
    "pickled objects": described("'|O'"),
    "dates": described("'<M8[D]'"),
    "a structure": described("[('a', '<f4')]"),
    "more than there is": described(shape="(1000000000,)"),
    "beyond 64 bits": described(shape="(18446744073709551616, 4)"),
    "a negative extent": described(shape="(-2,)"),
    "a fraction": described(shape="(0.5,)"),
    "no header": "",
    "brackets": "(" * 9000,
    "signs": "-" * 9000 + "1",
    "a call": "__import__('os').system('true')",
    "a name without a dtype": described("'nonsense'"),
    "a number for a dtype": described("5"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_arrays_of_an_archive(name: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "w.npz", {"a.npy": npy(HEADERS[name], b"\0" * 8)})
    with pytest.raises(ts.UserError, match=r"w\.npz"):
        open_weights(path)["a"].load()


def test_damaged_archives(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.arange(64, dtype=np.float32), b=np.ones((3, 3), np.int8))
    whole, rng, path = buffer.getvalue(), random.Random(5), tmp_path / "w.npz"
    refused = 0
    for _ in range(400):
        damaged = bytearray(whole)
        for _ in range(rng.choice([1, 2, 8])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])]))
        try:
            for stored in open_weights(path).values():
                assert stored.load().nbytes < 1000
        except ts.UserError:
            refused += 1
    assert 200 < refused < 400


def model_with_external(directory: Path, **entries: str) -> Path:
    """A product whose weight lies in a file, as these entries say."""
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    directory.mkdir()
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4, 4], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        entry = weight.external_data.add()
        entry.key, entry.value = key, value
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = directory / "m.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("location", [".", "a\0b", "", "..", "/etc/hostname", "missing.bin", "sub/../../x"])
def test_external_data_of_a_model(location: str, tmp_path: Path) -> None:
    path = model_with_external(tmp_path / "model", location=location)
    with pytest.raises(ts.UserError, match=r"external|zero byte"):
        ts.from_onnx(path)


@pytest.mark.parametrize("offset", ["\uff16\uff14", " 64", "6_4", "+64", "-64", "64.0", "\u0664", "9" * 5000])
def test_places_in_external_data_are_plain_digits(offset: str, tmp_path: Path) -> None:
    path = model_with_external(tmp_path / "model", location="w.bin", offset=offset, length="64")
    (tmp_path / "model" / "w.bin").write_bytes(bytes(256))
    with pytest.raises(ts.UserError, match="external"):
        ts.from_onnx(path)
    good = model_with_external(tmp_path / "good", location="w.bin", offset="64", length="64")
    (tmp_path / "good" / "w.bin").write_bytes(bytes(256))
    assert ts.from_onnx(good).weights()


def test_rows_with_other_numbers_of_cells(tmp_path: Path) -> None:
    cases = tmp_path / "runs.csv"
    header = "part,pattern,inject_every_cycles,requests,cycles\n"
    for row, cells in (("DDR4-2400,sequential_read,1\n", 3), ("DDR4-2400,sequential_read,1,10,20,30\n", 6)):
        cases.write_text(header + row, encoding="utf-8")
        with pytest.raises(ts.UserError, match=rf"runs\.csv:2: a row has a wrong number of cells \(got {cells}"):
            dram(cases)
    table = tmp_path / "table.csv"
    table.write_text(
        "device,m,n,k,dtype,latency_ms\nh100,8,8,8\nh100,8,8,8,bf16,1,2\nh100,8,8,8,bf16,1\n", encoding="utf-8"
    )
    rows = read("gemm", table)
    assert [row.status for row in rows] == ["invalid", "invalid", "ok"]
    too_few, too_many = (row.reason for row in rows[:2])
    assert (
        too_few == "line 2: too few cells, missing: dtype, latency_ms" and too_many == "line 3: more cells than columns"
    )


def hosted() -> ts.Program:
    b = ts.GraphBuilder("hosted")
    y = b.apply("exp", b.linear(b.input("x", (16, 16)), 16, name="l"), name="e")
    b.output(b.matmul(y, y), "out")
    return ts.compile(b.build(), "edge-8", fallback="host", place={"e": "host"})


def change_inputs(document: dict[str, Any]) -> None:
    document["parts"].reverse()


def drop_last(document: dict[str, Any]) -> None:
    document["parts"].pop()


def rename_transfer(document: dict[str, Any]) -> None:
    next(part for part in document["parts"] if part["before"])["before"][0][0] = "nowhere"


def rename_operation(document: dict[str, Any]) -> None:
    document["plan"]["items"][0][0] = "nobody"


PARTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "another order": (change_inputs, "no earlier part computes"),
    "without its end": (drop_last, "no part computes an output"),
    "a transfer of nothing": (rename_transfer, "moves a missing value.*nowhere"),
    "an operation of no plan": (rename_operation, "not in the plan"),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_that_name_what_is_not_there(name: str) -> None:
    program = hosted()
    document = json.loads(json.dumps(to_document(program)))  # type: ignore[arg-type]
    change, words = PARTS[name]
    assert program.graph is not None and program.machine is not None
    assert ts.simulate(from_document(document, program.graph, program.machine, "p.tsim")).cycles > 0
    change(document)
    with pytest.raises(ts.UserError, match=rf"p\.tsim, parts.*{words}"):
        from_document(document, program.graph, program.machine, "p.tsim")


@pytest.mark.parametrize("text", ["{", '{"a": 1, "a": 2}', "[" * 5000, "NaN", "1e999", "", "\ud7ff"])
def test_values_of_a_store(text: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = ts.Store(path)
    store.put({"good": 1})
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO results VALUES ('bad', ?)", (text,))
    with pytest.raises(ts.UserError, match=r"store\.db"):
        store.get(["bad"])
    assert store.get(["good"]) == {"good": 1}
    with pytest.raises(ts.UserError, match="not JSON"):
        store.put({"a": float("nan")})


def test_bytes_that_are_no_text_in_messages() -> None:
    """File names of Linux are bytes: one that is no UTF-8 comes out of the core as an escape."""
    with pytest.raises(ts.UserError, match=r"\\xff"):
        _core.parse_dtype(b"f\xff")  # type: ignore[arg-type]
    with pytest.raises(ts.UserError, match=r"missing\\xff\.json: no such file"):
        _core.read_file(b"missing\xff.json")  # type: ignore[arg-type]


def test_values_in_messages_are_short_and_on_one_line() -> None:
    for call in (lambda: _core.parse_dtype("f\n" * 5000), lambda: ts.models.build("a\nb" * 5000)):
        with pytest.raises(ts.UserError) as caught:
            call()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 2000


def test_lack_of_memory_names_the_tensor() -> None:
    b = ts.GraphBuilder("large")
    b.output(b.apply("exp", b.input("x", (2**22, 2**22)), name="huge"), "y")
    program = ts.compile(ts.workloads.matmul(2**24, 2**24, 1), "edge-8")
    with pytest.raises(MemoryError, match=r"tensor \"y\".*f32\[16777216, 16777216\], 1125899906842624 bytes"):
        _core.execute(program.core, {"a": np.ones((2**24, 1), np.float32), "b": np.ones((1, 2**24), np.float32)})
    graph = ts.GraphBuilder("weights")
    graph.output(graph.weight("heavy", (2**24, 2**24)), "y")
    with pytest.raises(MemoryError, match=r"weight \"heavy\".*1125899906842624 bytes"):
        graph.build().weight("heavy")
