"""Operations may have any name: kernels keep lists of names, and nothing searches in joined texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim import _core

NAMES = ["fft+x", "a,b", "a b", "+", "a++b", "x+mm+y", "read(x)", "é中", 'say "x"']


def graph_of(name: str) -> ts.Graph:
    """A product, with operations behind it and a kernel of the vector unit whose names hold the product's."""
    b = ts.GraphBuilder("odd")
    x = b.input("x", (40, 24))
    soft = b.apply("abs", x, name=name).softmax()
    y = b.apply("relu", b.matmul(soft, b.input("w", (24, 56)), name="mm"), name=f"{name}.behind")
    b.output(y, "y")
    return b.build()


def names_in(document: dict[str, Any]) -> set[str]:
    """Names of operations of all kernels of a program's JSON form."""
    found: set[str] = set()

    def walk(block: list[dict[str, Any]]) -> None:
        for statement in block:
            assert isinstance(statement.get("operation", []), list)
            found.update(statement.get("operation", []))
            for key in ("do", "then", "else"):
                walk(statement.get(key, []))

    for body in [document["do"], *(function["do"] for function in document.get("functions", []))]:
        walk(body)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_kernels_list_the_names_of_their_operations(name: str, tmp_path: Path) -> None:
    program = ts.compile(graph_of(name), "tpu-v3")
    assert {name, "mm", f"{name}.behind"} <= names_in(json.loads(program.core.to_json()))
    assert {name, "mm", f"{name}.behind"} <= {one for _, _, own in program.kernels for one in own}
    assert ts.verify(program).ok  # bf16 products beside the exact vector unit: told apart by whole names
    assert any(row["operation"].endswith(f"+mm+{name}.behind") for row in ts.verify(program).rows)
    result = ts.simulate(program)
    assert {name, "mm"} <= {one for row in result.data["operations"] for one in row["operation"]}
    assert "mm" in str(result.table())
    rows = ts.coverage(graph_of(name)).table().rows
    assert {row["operation"] for row in rows} >= {name, "mm", f"{name}.behind"}
    assert next(row for row in rows if row["operation"] == "mm")["on"] == "array"
    program.save(tmp_path / "odd.tsim")
    again = ts.Program.load(tmp_path / "odd.tsim")
    assert again.kernels == program.kernels and ts.verify(again).ok
    result.save(tmp_path / "odd.json")
    assert ts.Result.load(tmp_path / "odd.json").data["operations"] == result.data["operations"]


def test_a_kernel_of_the_vector_unit_named_around_a_product() -> None:
    """The product rounds its operands to bf16 although "x+mm+y" is a kernel without a product."""
    rng = np.random.default_rng(1)

    def given(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    program = ts.compile(graph_of("x+mm+y"), "tpu-v3")
    outcome = ts.verify(program, {"x": given(40, 24), "w": given(24, 56)})
    assert outcome.ok, outcome


def test_files_of_version_1_join_names_with_a_plus() -> None:
    document = {
        "schema": "tilesim.program",
        "version": 1,
        "name": "old",
        "tensors": [],
        "do": [{"scope": "k", "operation": "up+relu", "slots": [], "do": []}, {"scope": "", "slots": [], "do": []}],
    }
    program = _core.Program.from_json(json.dumps(document))
    assert program.contents()[2] == [("", "k", ("up", "relu")), ("", "", ())]
    written = json.loads(program.to_json())
    assert written["version"] == 2 and written["do"][0]["operation"] == ["up", "relu"]
    with pytest.raises(ts.UserError, match="newer"):
        _core.Program.from_json(json.dumps(document | {"version": 3}))


def test_results_of_version_1_are_read(tmp_path: Path) -> None:
    result = ts.run(graph_of("up"), machine="tpu-v3")
    old = json.loads(json.dumps(result.data)) | {"version": 1}
    for row in old["operations"]:
        row["operation"] = "+".join(row["operation"])
    (tmp_path / "old.json").write_text(json.dumps(old), encoding="utf-8")
    read = ts.Result.load(tmp_path / "old.json")
    assert read.data["operations"] == result.data["operations"]
    assert read.timing_hash() == result.timing_hash()


def test_only_what_expressions_read_is_read() -> None:
    """A label or a kernel's name is no expression, whatever it says."""
    unit = {"opaque": {"target": "one", "cycles": "read(n, 0)", "reads": [], "writes": []}, "queue": "one"}
    tensors = [{"name": name, "dtype": "i32", "shape": [4], "role": "input"} for name in ("x", "t", "u")]
    document = {
        "schema": "tilesim.program",
        "version": 2,
        "name": "reads",
        "tensors": tensors,
        "functions": [{"name": "f", "tensors": ["n"], "do": [unit]}],
        "do": [{"scope": "read(x, 0)", "do": [{"call": "f", "tensors": {"n": "t"}, "label": "read(u, 0)"}]}],
    }
    assert [read[0] for read in _core.Program.from_json(json.dumps(document)).data_reads()] == ["n", "t"]
