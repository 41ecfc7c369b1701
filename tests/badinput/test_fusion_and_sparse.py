"""Mistakes in rules, residency, indices, traces and operands with zeros: place, value, what is allowed, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.graph.sparse import Compressed, compress, expand


def chain(rows: int = 64, columns: int = 64, normalizations: int = 1) -> ts.Graph:
    """Products with softmax between them, all over rows of so many columns."""
    b = ts.GraphBuilder("chain")
    h = b.input("x", (rows, columns))
    for i in range(normalizations + 1):
        h = b.matmul(h, b.weight(f"w{i}", (columns, columns)), name=f"product{i}")
        h = b.op("softmax", h, dim=1, name=f"softmax{i}") if i < normalizations else h
    b.output(h, "y")
    return b.build()


def updated() -> ts.Graph:
    b = ts.GraphBuilder("state")
    new = b.input("state", (64, 64)) + b.input("x", (64, 64))
    b.output(new, "new")
    b.output(new @ b.weight("w", (64, 64)), "y")
    b.alias(0, 0)
    return b.build()


def lookup() -> Any:
    return ts.compile(ts.workloads.embedding(4, 10, 16), "edge-8")


TABLE = np.zeros((10, 16), np.float32)


def ids(value: int) -> Any:
    return np.array([1, 2, value, 3], np.int32)


def stays(tensors: dict[str, str], graph: ts.Graph | None = None) -> Callable[[], Any]:
    return lambda: ts.compile(graph or chain(), "edge-8", residency=tensors)


def three_of_four(turned: bool) -> ts.Graph:
    """Values at 4 to 6 of the eighth vector along the contraction."""
    w = np.zeros((16, 8), np.float32)
    w[4:7, 7] = 1
    b = ts.GraphBuilder("sparse")
    held = b.weight("w", data=w.T.copy() if turned else w)
    axes = {"a_contract": [1], "b_contract": [1 if turned else 0]}
    b.output(b.op("contract", b.input("x", (4, 16)), held, name="product", b_format="2:4", **axes), "y")
    return b.build()


def alone() -> ts.Graph:
    b = ts.GraphBuilder("alone")
    b.output(b.apply("relu", b.input("x", (8, 8))), "y")
    return b.build()


def stored(pointers: list[int], indices: list[int]) -> Compressed:
    parts = {"pointers": np.array(pointers, np.int32), "indices": np.array(indices, np.int32)}
    return Compressed("csr", (3, 4), {**parts, "values": np.ones(len(indices), np.float32)})


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "a rule": (
        lambda: ts.compile(chain(), "edge-8", fuse=["elementwise", "prolog"]),
        r"fuse: unknown rule .*got 'prolog'; allowed: .*epilogue.*Did you mean 'prologue'",
    ),
    "all beside a rule": (
        lambda: ts.compile(chain(), "edge-8", fuse=["all", "prologue"]),
        r"got 'all'; allowed: all, none, or rules: epilogue[^?]*$",
    ),
    "residency where nothing can stay": (
        stays({"nope": "scratchpad"}, alone()),
        r"unknown tensor \(got 'nope'; allowed: no tensor of this program can stay\)",
    ),
    "place of an unknown operation": (
        lambda: ts.compile(chain(), "edge-8", place={"softmax": "host"}),
        r"unknown operation \(got 'softmax'; allowed: .*softmax0.*Did you mean 'softmax0",
    ),
    "residency of an unknown tensor": (
        stays({"product00": "scratchpad"}),
        r"unknown tensor .*'product00'; allowed: .*Did you mean 'product0'",
    ),
    "residency beyond the scratchpad": (
        stays({"product0": "scratchpad"}, chain(1024, 1024)),
        r"residency of 'product0': .*does not fit .*got 4194304 bytes.*allowed: 262144 bytes.*leave it in memory",
    ),
    "residency of an input that is overwritten": (
        stays({"state": "scratchpad"}, updated()),
        r"residency of 'state': .*cannot stay in the scratchpad.*'state' is given or returned in memory",
    ),
    "residency of what overwrites an input": (
        stays({"new": "scratchpad"}, updated()),
        r"residency of 'new': .*'new' is given or returned in memory",
    ),
    "residency at an unknown level": (
        stays({"product0": "scratchpat"}),
        r"residency of 'product0': unknown level.*'scratchpat'; allowed: memory, scratchpad.*Did you mean 'scratchpad'",
    ),
    "an index beyond the table, by the reference": (
        lambda: ts.reference(ts.workloads.embedding(4, 10, 16), {"table": TABLE, "ids": ids(10)}),
        r'operation "embedding": .*element 2 of the indices.*got 10; allowed: 0 to 9',
    ),
    "an index beyond the table, in execution": (
        lambda: ts.execute(lookup(), {"table": TABLE, "ids": ids(10)}),
        r"embedding, .*element 2 of ids: An index is out of range.*got 10; allowed: 0 to 9 on axis 0 of table",
    ),
    "an index beyond the table, in timing": (
        lambda: ts.simulate(lookup(), tensors={"ids": ids(-4)}),
        r"embedding, element 2 of ids: .*got -4; allowed: 0 to 9, along axis 0 of table",
    ),
    "a distribution": (
        lambda: ts.simulate(lookup(), tensors={"ids": "ziff:1.1"}),
        r"tensors, ids: unknown distribution .*'ziff:1.1'; allowed: uniform, balanced, zipf:s.*Did you mean 'zipf'",
    ),
    "three values in a group of a weight": (
        lambda: ts.compile(three_of_four(False), "edge-8"),
        r"product, operand b \('w'\): vector 7, elements 4 to 7: .*got 3 values; allowed: at most 2 of 4",
    ),
    "three values in a group of a turned weight": (
        lambda: ts.compile(three_of_four(True), "edge-8"),
        r"product, operand b \('w'\): vector 7, elements 4 to 7: .*got 3 values",
    ),
    "three values in a group": (
        lambda: compress([[0, 1, 1, 0, 1, 1, 0, 1]], "2:4", along=1),
        r"vector 0, elements 4 to 7: .*got 3 values",
    ),
    "pointers that decrease": (
        lambda: expand(stored([0, 2, 1, 2], [0, 1])),
        r"pointers\[2\]: .*got 1 after 2",
    ),
    "an index outside its row": (
        lambda: expand(stored([0, 1, 1, 2], [0, 4])),
        r"indices\[1\]: .*got 4; allowed: 0 to 3",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_refused(mistake: str) -> None:
    call, told = REFUSED[mistake]
    with pytest.raises(ts.UserError, match=told):
        call()


def test_two_values_of_four_pass() -> None:
    graph = ts.workloads.sparse_matmul(16, 16, 32, 1.0, 0.5, "2:4", seed=1)
    program = ts.compile(graph, "edge-8")
    x = np.random.default_rng(0).integers(-4, 5, (16, 32)).astype(np.float32)
    assert np.array_equal(np.asarray(ts.execute(program, {"a": x})["y"]), x @ graph.weight("b"))


def test_a_trace_without_what_timing_reads(tmp_path: Any) -> None:
    np.savez(tmp_path / "t.npz", table=TABLE)
    with pytest.raises(ts.UserError, match=r"t.npz: the trace lacks tensors .*got ids; allowed: its arrays: table"):
        ts.simulate(lookup(), tensors=str(tmp_path / "t.npz"))
    np.savez(tmp_path / "t.npz", tables=TABLE, ids=ids(1))
    with pytest.raises(ts.UserError, match=r"unknown tensor of the program .*'tables'.*Did you mean 'table'"):
        ts.simulate(lookup(), tensors=str(tmp_path / "t.npz"))
