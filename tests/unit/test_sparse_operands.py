"""Operands with zeros: formats there and back, the workload, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from tilesim.graph.sparse import Compressed, compress, expand
from tilesim.graph.zeros import operand

FORMATS = ("dense", "bitmap", "csr", "csc", "block:3", "block:32", "2:4", "zero_tiles")


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("shape", [(1, 1), (4, 8), (5, 7), (130, 257), (3, 0), (0, 4)])
@pytest.mark.parametrize("along", [0, 1])
def test_there_and_back(format: str, shape: tuple[int, int], along: int) -> None:
    for density in (0.0, 0.2, 0.5, 1.0):
        if format == "2:4" and density > 0.5:
            continue
        matrix = operand("b", shape, density, format, along, 5, "f32")
        stored = compress(matrix, format, along)
        assert stored.format == format
        assert np.array_equal(expand(stored, along), matrix)
        if density in (0.0, 1.0) and format != "2:4":
            assert (matrix != 0).sum() == density * matrix.size


def test_bytes_by_hand() -> None:
    matrix = np.zeros((8, 64), np.float32)
    matrix[2, [1, 5, 40]] = 1
    sizes = {
        "dense": 4 * 8 * 64,
        "bitmap": 8 * 64 // 8 + 4 * 3,
        "csr": 4 * 9 + 4 * 3 + 4 * 3,
        "csc": 4 * 65 + 4 * 3 + 4 * 3,
        "block:32": 4 * 2 + 4 * 2 + 2 * 4 * 32 * 32,
        "2:4": 4 * 8 * 32 + 8 * 32 // 4,
        "zero_tiles": 1 + 4 * 128 * 128,
    }
    for format, size in sizes.items():
        assert compress(matrix, format, 1).bytes == size, format


@pytest.mark.parametrize("format", ["bitmap", "csr", "block:32", "2:4", "zero_tiles"])
@pytest.mark.parametrize("dtype", ["f32", "i8"])
@pytest.mark.parametrize("densities", [(1.0, 0.1), (0.4, 0.5), (0.0, 0.3), (1.0, 0.0)])
def test_the_product_is_numpys(format: str, dtype: str, densities: tuple[float, float]) -> None:
    m, n, k = 9, 140, 70
    graph = ts.workloads.sparse_matmul(m, n, k, *densities, format=format, seed=3, dtype=dtype)
    b = graph.weight("b")
    a = np.arange(m * k).reshape(m, k) % 11 - 5 if densities[0] == 1 else graph.weight("a")
    inputs = {"a": a.astype(b.dtype)} if densities[0] == 1 else {}
    expected = a.astype(np.int64) @ b.astype(np.int64)
    program = ts.compile(graph, "tpu-v3")
    for found in (ts.reference(graph, inputs)["y"], ts.execute(program, inputs)["y"]):
        assert np.array_equal(np.asarray(found, np.int64), expected)
    compress(b, format, 0)  # and the format holds it


def test_the_same_as_the_dense_product() -> None:
    """Time too: nothing skips zeros in a simulation yet, and nothing is faster for the name of a format."""
    sparse = ts.workloads.sparse_matmul(64, 96, 128, seed=1)
    builder = ts.GraphBuilder("dense", dtype="f32")
    b = builder.weight("b", data=sparse.weight("b"))
    builder.output(builder.matmul(builder.input("a", (64, 128)), b, name="sparse_matmul"), "y")
    programs = [ts.compile(graph, "tpu-v3") for graph in (sparse, builder.build())]
    assert ts.simulate(programs[0]).cycles == ts.simulate(programs[1]).cycles
    assert ts.verify(programs[0]).ok


def test_formats_are_recorded_and_kept(tmp_path: Any) -> None:
    graph = ts.workloads.sparse_matmul(8, 8, 8, 0.5, format="csr")
    graph.save(tmp_path / "graph.json")
    for one in (graph, ts.Graph.load(tmp_path / "graph.json")):
        (operation,) = (op for op in one.operations() if op["kind"] == "contract")
        assert operation["attributes"]["a_format"] == operation["attributes"]["b_format"] == "csr"
    (operation,) = (op for op in ts.workloads.sparse_matmul(8, 8, 8).operations() if op["kind"] == "contract")
    assert "a_format" not in operation["attributes"]


def test_a_seed_is_a_matrix() -> None:
    first, same, other = (ts.workloads.sparse_matmul(20, 30, 40, 0.5, 0.5, seed=s) for s in (1, 1, 2))
    for name in "ab":
        assert np.array_equal(first.weight(name), same.weight(name))
        assert not np.array_equal(first.weight(name), other.weight(name))
    assert not np.array_equal(first.weight("a")[:, :30] != 0, first.weight("b")[:20] != 0)


def test_densities_and_places() -> None:
    b = operand("b", (512, 640), 0.3, "bitmap", 0, 0, "f32") != 0
    assert b.mean() == pytest.approx(0.3, abs=0.01)
    groups = (operand("b", (512, 640), 0.4, "2:4", 0, 0, "f32") != 0).reshape(128, 4, 640).sum(axis=1)
    assert groups.max() == 2 and groups.mean() == pytest.approx(1.6, abs=0.02)
    blocks = (operand("b", (512, 640), 0.3, "block:32", 0, 0, "f32") != 0).reshape(16, 32, 20, 32).mean(axis=(1, 3))
    assert set(np.unique(blocks)) == {0.0, 1.0}


def refused(*words: str) -> Any:
    """All words are in the message."""
    return pytest.raises(ts.UserError, match="(?s)" + "".join(f"(?=.*{word})" for word in words))


def test_bad_formats_and_densities() -> None:
    with refused("csrr", "Did you mean 'csr'"):
        ts.workloads.sparse_matmul(4, 4, 4, format="csrr")
    with refused("block", "Did you mean 'block:32'"):
        ts.workloads.sparse_matmul(4, 4, 4, format="block")
    with refused("block:0"):
        compress(np.ones((2, 2)), "block:0")
    for density in (-0.1, 1.1, float("nan")):
        with refused("b_density", "0 to 1"):
            ts.workloads.sparse_matmul(4, 4, 4, b_density=density)
        with refused("a_density", "0 to 1"):
            ts.workloads.sparse_matmul(4, 4, 4, a_density=density)
    with refused("b_density", "0 to 0.5"):
        ts.workloads.sparse_matmul(4, 4, 4, b_density=0.6, format="2:4")
    graph = ts.GraphBuilder("g", dtype="f32")
    axes = {"a_batch": [], "a_contract": [1], "b_batch": [], "b_contract": [0]}
    with refused("b_format", "bitmaps"):
        graph.op("contract", graph.input("a", (2, 2)), graph.input("b", (2, 2)), b_format="bitmaps", **axes)


def test_three_values_in_a_group() -> None:
    matrix = np.zeros((3, 10), np.float32)
    matrix[1, [4, 6, 7]] = 1
    with refused("vector 1, elements 4 to 7", "3 values"):
        compress(matrix, "2:4", along=1)
    assert np.array_equal(expand(compress(matrix, "2:4", along=0)), matrix)  # one in each group of a column


def test_damaged_rows() -> None:
    matrix = np.eye(4, 5, dtype=np.float32)
    stored = compress(matrix, "csr")

    def with_part(name: str, values: list[int]) -> Compressed:
        return stored._replace(parts={**stored.parts, name: np.array(values, np.int32)})

    with refused(r"pointers\[3\]", "1 after 2", "decrease"):
        expand(with_part("pointers", [0, 1, 2, 1, 4]))
    with refused("one more than the rows", "allowed: 5"):
        expand(with_part("pointers", [0, 4]))
    with refused("do not fit"):
        expand(with_part("pointers", [0, 1, 2, 3, 5]))
    for index in (5, -1):
        with refused(r"indices\[2\]", "0 to 4"):
            expand(with_part("indices", [0, 1, index, 3]))
    with refused("missing part", "values"):
        expand(stored._replace(parts={}))
