"""Mistakes in calls: each is refused with what is wrong, the value, what is allowed, and the nearest spelling."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.mistakes import assert_refused

ONES = np.ones((8, 8), np.float32)


def graph(dtype: str = "f32") -> ts.Graph:
    return ts.workloads.matmul(8, 8, 8, dtype=dtype)


def program() -> ts.Program:
    return ts.compile(graph(), "edge-8")


def edge(**changes: Any) -> ts.Machine:
    return ts.Machine.load("edge-8").replace({path.replace("__", "."): value for path, value in changes.items()})


def mapped(**changes: Any) -> ts.Program:
    nest = {"tiles": [8, 8, 8], "order": [0, 1, 2], "depths": [1, 1, 1], **changes}
    return ts.compile(graph(), "edge-8", mapping={"matmul": nest})


def document(kind: str) -> dict[str, Any]:
    if kind == "graph":
        made: dict[str, Any] = ts.workloads.softmax(4, 8).to_dict()
    else:
        made = ts.models.mlp(sizes=(8, 4)).to_dict()
    return made


def operations(made: dict[str, Any]) -> list[dict[str, Any]]:
    ops: list[dict[str, Any]] = made["functions"][0]["ops"]
    return ops


def changed(kind: str, change: Callable[[dict[str, Any]], Any]) -> ts.Graph:
    made = document(kind)
    change(made)
    return ts.Graph.from_dict(json.dumps(made, indent=1))


def cycle(made: dict[str, Any]) -> None:
    """The operation reads its own result."""
    operations(made)[0]["operands"] = ["y"]


def cycle_of_two(made: dict[str, Any]) -> None:
    first = operations(made)[0]
    second = json.loads(json.dumps(first))
    first["operands"], second["operands"] = ["z"], ["y"]
    second["name"], second["results"][0]["name"] = "second", "z"
    operations(made).append(second)


def drop_weight(made: dict[str, Any]) -> None:
    made["weights"].pop(next(iter(made["weights"])))


# name: (the mistake, words of the message)
MISTAKES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    # sizes
    "negative size": (lambda: ts.workloads.matmul(-1, 4, 4), ["m: out of range", "-1"]),
    "huge size": (lambda: ts.workloads.matmul(2**62, 2**62, 4), ["too many elements", "2^56"]),
    "huge result": (lambda: ts.workloads.matmul(2**40, 2**40, 1), ["matmul", "too many elements"]),
    "no batch": (lambda: ts.models.build("resnet18", batch=0), ["batch: out of range", "got 0"]),
    "long sequence": (lambda: ts.models.build("bert-base", sequence=10**9), ["sequence", "512"]),
    # names
    "unknown dtype": (lambda: graph("f33"), ["f33", "Did you mean 'f32'"]),
    "unknown machine": (lambda: ts.compile(graph(), "edge8"), ["edge8", "Did you mean 'edge-8'"]),
    "unknown model": (lambda: ts.models.build("resnet19"), ["resnet19", "Did you mean 'resnet18'"]),
    "unknown setting": (lambda: edge(core__array__cuont=1), ["core.array.cuont", "Did you mean 'core.array.count'"]),
    "unknown setting in a sweep": (
        lambda: ts.sweep(graph(), "edge-8", {"memory.bandwith": ["1 GB/s"]}),
        ["Did you mean 'memory.bandwidth'"],
    ),
    "unknown setting read": (lambda: edge().get("core.arrayz"), ["core.arrayz"]),
    "unknown memory": (lambda: ts.simulate(program(), memory="simpel"), ["simpel", "Did you mean 'simple'"]),
    "unknown network": (lambda: ts.simulate(program(), network="meshes"), ["meshes", "simple"]),
    "unknown fusion": (lambda: ts.compile(graph(), "edge-8", fuse="some"), ["some", "all, none"]),
    "unknown fallback": (
        lambda: ts.compile(graph(), "edge-8", fallback="hosts"),
        ["fallback", "hosts", "error, host", "mean 'host'"],
    ),
    "unknown weight": (lambda: program().weight("w"), ["'w'"]),
    # values of settings
    "text for a number": (lambda: edge(core__array__rows="5"), ["core.array.rows", "an integer"]),
    "number for a quantity": (lambda: edge(core__clock=5), ["core.clock", "needs a unit"]),
    "fraction": (lambda: edge(core__array__rows=1.5), ["core.array.rows", "an integer"]),
    "zero": (lambda: edge(core__array__rows=0), ["core.array.rows", "out of range", "1 to"]),
    "negative": (lambda: edge(core__dma__issue_cycles=-1), ["core.dma.issue_cycles", "out of range"]),
    "huge": (lambda: edge(core__array__rows=10**30), ["core.array.rows", "64 bit"]),
    "beyond the range": (lambda: edge(memory__efficiency=2), ["memory.efficiency", "0.001 to 1"]),
    "wrong unit": (lambda: edge(core__clock="1 GB"), ["core.clock", "GHz"]),
    "no unit": (lambda: edge(memory__bandwidth="5"), ["memory.bandwidth", "GB/s"]),
    "not finite": (lambda: edge(memory__efficiency=float("nan")), ["memory.efficiency", "nan"]),
    "rate of nothing": (lambda: edge(core__array__rates={"f32": 0}), ["core.array.rates", "above 0"]),
    "rate of an unknown dtype": (lambda: edge(core__array__rates={"f31": 1}), ["core.array.rates", "f32"]),
    # what a machine cannot do
    "dtype that the array lacks": (lambda: ts.compile(graph("f64"), "edge-8"), ["edge-8", "f64", "f32, bf16, i8"]),
    "float on an integer array": (lambda: ts.compile(graph(), "gemmini-16"), ["gemmini-16", "f32", "i8"]),
    "no array": (lambda: ts.compile(graph(), edge(core__array__count=0)), ["matmul", "edge-8"]),
    "scratchpad too small for a product": (
        lambda: ts.compile(graph(), edge(core__scratchpad__bytes="100 B")),
        ["no tile of matmul fits", "100"],
    ),
    "scratchpad too small for a row": (
        lambda: ts.compile(ts.workloads.softmax(4, 100), edge(core__scratchpad__bytes="10 B")),
        ["softmax", "scratchpad"],
    ),
    # mappings
    "unknown mapping": (lambda: ts.compile(graph(), "edge-8", mapping="best"), ["best", "heuristic"]),
    "mapping of an unknown operation": (
        lambda: ts.compile(
            graph(), "edge-8", mapping={"matmull": {"tiles": [8] * 3, "order": [0, 1, 2], "depths": [1] * 3}}
        ),
        ["matmull", "Did you mean 'matmul'"],
    ),
    "mapping without tiles": (
        lambda: ts.compile(graph(), "edge-8", mapping={"matmul": {"depths": [2, 2, 2], "order": [0, 1, 2]}}),
        ["matmul", '"tiles": {'],
    ),
    "mapping with another key": (lambda: mapped(tile=3), ["tile", "tiles, order, depths"]),
    "mapping that is no dict": (lambda: ts.compile(graph(), "edge-8", mapping={"matmul": 5}), ["matmul", "5"]),
    "tiles that are text": (lambda: mapped(tiles="x"), ["'tiles'", "'x'"]),
    "tiles that are fractions": (lambda: mapped(tiles=[8, 8, 0.5]), ["'tiles'", "0.5"]),
    "huge tiles": (lambda: mapped(tiles=[8, 8, 2**70]), ["'tiles'"]),
    "too few tiles": (lambda: mapped(tiles=[8, 8]), ["not legal", "3 tile sizes"]),
    "a tile of nothing": (lambda: mapped(tiles=[8, 8, 0]), ["not legal", "tile size of k is 0"]),
    "loop order": (lambda: mapped(order=[0, 1, 1]), ["not legal", "each dim once"]),
    "ring of nothing": (lambda: mapped(depths=[0, 1, 1]), ["not legal", "a depth of 1 to"]),
    # arrays
    "missing input": (lambda: ts.execute(program(), [ONES]), ["wrong number of inputs", "a, b"]),
    "missing named input": (lambda: ts.execute(program(), {"a": ONES}), ["wrong inputs", "a, b"]),
    "rows of different lengths": (lambda: ts.execute(program(), [[[1], [2, 3]], ONES]), ["different lengths", "list"]),
    "tensors without names": (lambda: ts.simulate(program(), tensors=[ONES]), ["tensors", "list", "a dict"]),
    "placement without names": (lambda: ts.simulate(program(), placement=5), ["placement", "int", "a dict"]),
    "exactness that is text": (lambda: ts.verify(program(), exact="no"), ["exact", "'no'", "True, False"]),
    "unknown input": (
        lambda: ts.execute(program(), {"a": ONES, "b": ONES, "c": ONES}),
        ["wrong inputs", "unknown: c", "a, b"],
    ),
    "input of another dtype": (lambda: ts.execute(program(), [ONES, ONES.astype(np.float64)]), ["b", "f64", "f32"]),
    "input of another shape": (lambda: ts.execute(program(), [ONES, ONES[:7]]), ["b", "[7, 8]", "[8, 8]"]),
    "input that is text": (lambda: ts.execute(program(), [ONES, "x"]), ["b", "dtype"]),
    "input that is nothing": (lambda: ts.execute(program(), [ONES, None]), ["b", "object"]),
    "reference of another shape": (lambda: ts.reference(graph(), [ONES, ONES[:7]]), ["b", "[7, 8]"]),
    "reference of another dtype": (lambda: ts.reference(graph(), [ONES, ONES.astype(np.int32)]), ["b", "i32"]),
    # graphs
    "shape mismatch": (
        lambda: changed("graph", lambda made: operations(made)[0]["results"][0].update(shape=[4, 9])),
        ["functions[0].ops[0]", "[4, 9]", "[4, 8]"],
    ),
    "an operation that reads its result": (lambda: changed("graph", cycle), ["functions[0].ops[0]", "cycle", "y -> y"]),
    "two operations that read each other": (lambda: changed("graph", cycle_of_two), ["cycle", "y -> z -> y"]),
    "missing weight": (lambda: changed("weights", drop_weight), ["does not exist"]),
    "unknown kind": (
        lambda: changed("graph", lambda made: operations(made)[0].update(kind="softmaxx")),
        ["softmaxx", "Did you mean 'softmax'"],
    ),
    "unknown attribute": (
        lambda: changed("graph", lambda made: operations(made)[0]["attributes"].update(dims=1)),
        ["softmax", "dims", "dim"],
    ),
    "unknown operand": (
        lambda: changed("graph", lambda made: operations(made)[0].update(operands=["xx"])),
        ['"xx"', "does not exist"],
    ),
    "unknown key": (lambda: changed("graph", lambda made: made.update(function=[])), ["function", "functions"]),
    "truncated": (lambda: ts.Graph.from_dict(graph().core.to_json()[:-20]), ["not valid JSON", "ends"]),
    "empty": (lambda: ts.Graph.from_dict(""), ["not valid JSON"]),
    # programs without what a call needs
    "verify without a graph": (lambda: ts.verify(ts.Program(program().core)), ["without its graph"]),
    "weight without a graph": (lambda: ts.Program(program().core).weight("w"), ["without its graph"]),
    "simulate without a machine": (lambda: ts.simulate(ts.Program(program().core)), ["machine="]),
    # files
    "no graph file": (lambda: ts.Graph.load("missing.json"), ["missing.json: no such file"]),
    "no program file": (lambda: ts.Program.load("missing.json"), ["missing.json: no such file"]),
    "no result file": (lambda: ts.Result.load("missing.json"), ["missing.json: no such file"]),
    "no machine file": (lambda: ts.Machine.load("missing.json"), ["missing.json: no such file"]),
    "empty machine": (lambda: ts.Machine.load({}), ["'schema' is missing"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str) -> None:
    assert_refused(*MISTAKES[name])


KINDS: dict[str, Callable[[Path], Any]] = {
    "graph.json": ts.Graph.load,
    "machine.json": ts.Machine.load,
    "program.json": ts.Program.load,
    "result.json": ts.Result.load,
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff\xfe{}", b"\x00" * 100, b'{"schema": "x"}'])
def test_files_of_something_else(name: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ts.UserError) as caught:
        KINDS[name](path)
    assert str(caught.value)


@pytest.mark.parametrize("name", KINDS)
def test_files_of_another_kind(name: str, tmp_path: Path) -> None:
    """Each kind of file read as each other kind."""
    texts = {
        "graph.json": graph().core.to_json(),
        "machine.json": json.dumps(edge().to_dict()),
        "program.json": program().core.to_json(),
        "result.json": json.dumps(ts.simulate(program()).data),
    }
    path = tmp_path / name
    for other, text in texts.items():
        path.write_text(text, encoding="utf-8")
        if other == name:
            KINDS[name](path)
            continue
        with pytest.raises(ts.UserError, match="schema"):
            KINDS[name](path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    for load in (ts.Graph.load, ts.Program.load, ts.Result.load, ts.Machine.load):
        folder = tmp_path / "folder.json"
        folder.mkdir(exist_ok=True)
        with pytest.raises(ts.UserError):
            load(folder)


EMPTY: dict[str, Callable[[], ts.Graph]] = {
    "matmul": lambda: ts.workloads.matmul(0, 4, 4), "matmul ": lambda: ts.workloads.matmul(4, 4, 0),
    "softmax": lambda: ts.workloads.softmax(0, 8), "softmax ": lambda: ts.workloads.softmax(8, 0),
    "conv2d": lambda: ts.workloads.conv2d(0, 3, 6, 6, 4, 3), "attention": lambda: ts.workloads.attention(1, 2, 0, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
def test_empty_tensors_are_no_bad_input(name: str) -> None:
    """Sums of nothing are 0; everything else here has no element."""
    program = ts.compile(EMPTY[name](), "edge-8")
    assert ts.verify(program).ok
    (output,) = ts.execute(program).values()
    assert output.shape == (4, 4) if name == "matmul " else output.size == 0
    assert not output.any()


@pytest.mark.parametrize("shape", [(2**20, 2**20, 2**20), (2**20, 1, 1), (1, 2**20, 1), (1, 1, 2**20)])
def test_large_extents_compile(shape: tuple[int, int, int]) -> None:
    made = ts.compile(ts.workloads.matmul(*shape), "edge-8")
    assert made.tensors()
