"""Verification on exact values: what a bound on rounding is too wide to show, bits show."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import arrays_of, few_cores
from tilesim import _core

Mutant = tuple[str, dict[str, Any]]


def conv(dtype: str, channels: int) -> ts.Graph:
    b = ts.GraphBuilder("conv", dtype=dtype)
    x, w, bias = b.input("x", [2, channels, 10, 10]), b.weight("w", [24, channels, 3, 3]), b.weight("bias", [24])
    y = b.conv2d(x, w, bias, padding=1, name="conv")
    b.output(b.apply("relu", y), "y")
    return b.build()


def linear(dtype: str, m: int, k: int, n: int) -> ts.Graph:
    b = ts.GraphBuilder("linear", dtype=dtype)
    b.output(b.apply("relu", b.linear(b.input("x", [m, k]), n, name="up")), "y")
    return b.build()


def reduction(combiner: str, rows: int, length: int, dtype: str) -> ts.Graph:
    b = ts.GraphBuilder(combiner, dtype=dtype)
    b.output(b.op("reduce", b.input("x", [rows, length]), dims=[1], combiner=combiner), "y")
    return b.build()


PROGRAMS: dict[str, tuple[Callable[[], ts.Graph], str]] = {
    "product, bf16, long": (lambda: ts.workloads.matmul(16, 16, 65536, dtype="bf16"), "tpu-v3"),
    "product, f32, long": (lambda: ts.workloads.matmul(16, 24, 16384, dtype="f32"), "edge-8"),
    "product, i8": (lambda: ts.workloads.matmul(96, 80, 512, dtype="i8"), "gemmini-16"),
    "linear": (lambda: linear("bf16", 40, 4096, 48), "tpu-v3"),
    "linear on a small array": (lambda: linear("f32", 24, 2048, 40), "edge-8"),
    "convolution": (lambda: conv("f32", 128), "tpu-v3"),
    "convolution, bf16": (lambda: conv("bf16", 64), "edge-8"),
    "attention": (lambda: ts.workloads.attention(1, 2, 128, 16, dtype="bf16"), "tpu-v3"),
    "attention on a small array": (lambda: ts.workloads.attention(1, 2, 96, 16), "edge-8"),
    "sum": (lambda: reduction("add", 16, 32768, "f32"), "tpu-v3"),
    "mean, bf16": (lambda: reduction("mean", 24, 16384, "bf16"), "edge-8"),
    "softmax": (lambda: ts.workloads.softmax(48, 4096), "tpu-v3"),
    "layer normalization": (lambda: ts.workloads.layer_norm(40, 640), "edge-8"),
}


def nodes(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        yield document
    for value in document.values() if isinstance(document, dict) else document if isinstance(document, list) else []:
        yield from nodes(value)


def cut_mma(mma: dict[str, Any]) -> bool:
    """Leaves out the last 32, or the last, of the contracted dimension."""
    batch, m, _, _ = mma["dims"]
    a, b = mma["a"]["dims"][batch + m], mma["b"]["dims"][batch]
    if not isinstance(a[0], int) or a[0] < 2 or a[0] != b[0]:
        return False
    less = 32 if a[0] > 64 else 1
    a[0] -= less
    b[0] -= less
    return True


def drop_first(mma: dict[str, Any]) -> bool:
    text = str(mma.get("accumulate", ""))
    mma["accumulate"] = re.sub(r"\(0 < ", "(1 < ", text)
    return mma["accumulate"] != text


def other_piece(mma: dict[str, Any]) -> bool:
    return any(isinstance(mma[side].get("offset"), int) and mma[side].pop("offset") for side in ("a", "b"))


def cut_reduction(vector: dict[str, Any]) -> bool:
    for axis in {axis for output in vector["outputs"] for axis in output.get("reduce", [])}:
        extent = vector["extents"][axis]
        if not isinstance(extent, int) or extent < 2:
            continue
        less = max(1, extent // 256)
        vector["extents"][axis] -= less
        for view in [*vector["inputs"], *(output["view"] for output in vector["outputs"])]:
            if view["dims"][axis][0] == extent:
                view["dims"][axis][0] -= less
        return True
    return False


def drop_addition(vector: dict[str, Any]) -> bool:
    """What was added (a bias, a residual, an earlier part) is left out."""
    for i, node in enumerate(vector["nodes"]):
        if node.get("function") == "add":
            kept = node["arguments"][0]
            for other in vector["nodes"]:
                if "arguments" in other:
                    other["arguments"] = [kept if j == i else j for j in other["arguments"]]
            for output in vector["outputs"]:
                output["node"] = kept if output["node"] == i else output["node"]
            return True
    return False


def shifted_load(load: dict[str, Any], shapes: dict[str, list[int]]) -> bool:
    """One element further along an axis, where that still lies in the tensor."""
    shape = shapes[load["tensor"]]
    for axis, start in enumerate(load["at"]):
        reach = sum(d["extent"] - 1 for d in load["dims"] if d.get("axis") == axis and isinstance(d["extent"], int))
        if isinstance(start, int) and start + reach + 1 < shape[axis]:
            load["at"][axis] = start + 1
            return True
    return False


def mutants(document: dict[str, Any]) -> Iterator[Mutant]:
    """Programs with one fault of the kinds that a lowering may have."""
    shapes = {tensor["name"]: tensor["shape"] for tensor in document["tensors"]}
    loops = {node["for"]: node["extent"] for node in nodes(document) if "for" in node}

    def swapped(load: dict[str, Any]) -> bool:
        """Pieces of one operand in the other order."""
        for axis, start in enumerate(load["at"]):
            for index, extent in loops.items():
                if isinstance(start, str) and isinstance(extent, int) and extent > 1:
                    turned = re.sub(rf"\b{index}\b", f"({extent - 1} - {index})", start)
                    if turned != start:
                        load["at"][axis] = turned
                        return True
        return False

    def fewer(loop: dict[str, Any]) -> bool:
        if not isinstance(loop["extent"], int) or loop["extent"] < 2:
            return False
        loop["extent"] -= 1
        return True

    changes: list[tuple[str, str | None, Callable[[Any], bool]]] = [
        ("part of K", "mma", cut_mma),
        ("first tile", "mma", drop_first),
        ("other piece", "mma", other_piece),
        ("part of a reduction", "vector", cut_reduction),
        ("no addition", "vector", drop_addition),
        ("offset", "load", lambda load: shifted_load(load, shapes)),
        ("swapped pieces", "load", swapped),
        ("tile", "for", fewer),
    ]
    count = len(list(nodes(document)))
    for i in range(count):
        for label, key, change in changes:
            if key not in list(nodes(document))[i]:
                continue
            mutant = copy.deepcopy(document)
            node = list(nodes(mutant))[i]
            if change(node if key == "for" else node[key]):
                yield label, mutant


def differs(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """By more than another order of the same sums makes on random inputs."""
    for name, value in a.items():
        x, y = np.asarray(value, np.float64), np.asarray(b[name], np.float64)
        if not (np.abs(x - y).max() <= 2e-4 * np.abs(x).max()):
            return True
    return False


def check_faults(name: str, most: int) -> int:
    """How many of the faults (evenly chosen, at most so many) verification finds: all that matter."""
    build, machine = PROGRAMS[name]
    program = ts.compile(build(), machine)
    assert ts.verify(program).ok
    arrays = arrays_of(program)
    right = _core.execute(program.core, arrays)
    found, missed = 0, []
    every = list(mutants(json.loads(program.core.to_json())))
    for label, document in every[:: max(1, len(every) // most)]:
        core = _core.Program.from_json(json.dumps(document))
        try:
            if not differs(right, _core.execute(core, arrays)):
                continue
            mutant = ts.Program(core, program.graph, program.machine)
            outcome = ts.verify(mutant)
        except ts.UserError:
            continue  # a deadlock, an element that nobody wrote: reported before values are compared
        found += not outcome.ok
        if outcome.ok:
            missed.append(label)
    assert missed == []
    return found


SMALLER = [name for name in PROGRAMS if "long" not in name and name != "attention"]


@pytest.mark.parametrize("name", SMALLER)
def test_faults_are_found(name: str) -> None:
    """Part of a contraction cut off, a tile lost, a wrong offset, swapped pieces, no bias: each is refused, or the
    results on random inputs are the right ones all the same."""
    assert check_faults(name, most=4) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_faults_are_found(name: str) -> None:
    assert check_faults(name, most=1000) >= 2


def test_a_bound_alone_is_blind() -> None:
    """32 of 65,536 terms in bf16: within the bound on random inputs, but not bit by bit."""
    program = ts.compile(ts.workloads.matmul(16, 16, 65536, dtype="bf16"), "tpu-v3")
    document = json.loads(program.core.to_json())
    last = [node["mma"] for node in nodes(document) if "mma" in node][-1]
    assert cut_mma(last)
    mutant = ts.Program(_core.Program.from_json(json.dumps(document)), program.graph, program.machine)
    assert ts.verify(mutant, exact=False).ok
    (row,) = ts.verify(mutant).rows
    assert not row["ok"] and row["exact"] and row["integer_error"] >= 1


def test_an_operand_computed_again() -> None:
    """What two products compute from their operands is held to those in each, and a fault in one is found there."""
    b = ts.GraphBuilder("again")
    x = b.input("x", (64, 64)) - 2.0
    b.output(b.matmul(x, b.weight("w", (64, 64)), name="left"), "y")
    b.output(b.matmul(x, b.weight("v", (64, 8)), name="right"), "z")
    program = ts.compile(b.build(), "edge-8", residency="none")
    assert ts.verify(program).ok
    document = json.loads(program.core.to_json())
    kernels = [node for node in nodes(document) if "subtract" in node.get("operation", ())]
    assert [kernel["operation"] for kernel in kernels] == [["subtract", "left"], ["subtract", "right"]]
    kernels[1]["do"] = json.loads(json.dumps(kernels[1]["do"]).replace('"function": "subtract"', '"function": "add"'))
    mutant = ts.Program(_core.Program.from_json(json.dumps(document)), program.graph, program.machine)
    assert mutant.core.to_json() != program.core.to_json()
    assert [row["tensor"] for row in ts.verify(mutant).rows if not row["ok"]] == ["z"]


DTYPES = ("f32", "bf16", "f16", "i8", "f8e4m3fn", "f8e5m2")
SMALL: dict[str, Callable[[str], ts.Graph]] = {
    "product": lambda t: ts.workloads.matmul(20, 24, 300, dtype=t),
    "linear": lambda t: linear(t, 12, 70, 20),
    "convolution": lambda t: conv(t, 5),
    "attention": lambda t: ts.workloads.attention(1, 2, 20, 8, causal=True, dtype=t),
    "sum": lambda t: reduction("add", 9, 300, t),
    "softmax": lambda t: ts.workloads.softmax(9, 70, dtype=t),
    "layer normalization": lambda t: ts.workloads.layer_norm(9, 40, dtype=t),
}


@pytest.mark.parametrize("apart", [2, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", ts.Machine.names())
def test_right_programs_pass(machine: str, apart: int) -> None:
    """Every dtype that a machine takes, by turns; products and sums are asked for their bits."""
    target, compiled = few_cores(machine), 0
    for turn, (name, build) in enumerate(SMALL.items()):
        for dtype in DTYPES[turn % apart :: apart]:
            try:
                program = ts.compile(build(dtype), target)
            except ts.UserError:
                continue  # not on this machine, or not a kind of this dtype
            outcome = ts.verify(program)
            assert outcome.ok, (name, dtype, outcome)
            compiled += 1
            if name in ("product", "linear", "convolution", "sum"):
                assert outcome.inexact == {}, (name, dtype, outcome)
            for row in outcome.rows:
                assert row["exact"] == (not row["rounds"]) and row["integer_ratio"] <= 1
    assert compiled >= 3


@pytest.mark.parametrize("function", ["exp", "tanh", "sigmoid", "sqrt", "erf", "reciprocal"])
@pytest.mark.parametrize("combiner", ["maximum", "add", "mean"])
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_an_output_by_the_name_of_an_operation(function: str, combiner: str, machine: str) -> None:
    """It lies in another tensor, whose values the second run draws anew: nothing is computed for it again."""
    b = ts.GraphBuilder("named")
    x = b.input("x", [5, 7])
    rows = b.op("reduce", b.apply(function, x), dims=[1], combiner=combiner)
    column = b.op("slice", x, start=[0, 0], limit=[5, 1]).reshape(5)
    b.output(b.op("elementwise", rows, column, function="add", name="add"), "add")
    outcome = ts.verify(ts.compile(b.build(), machine))
    assert outcome.ok, outcome


@pytest.mark.parametrize("mapping", ["heuristic", "cost"])
def test_the_bound_is_that_of_the_kernels_which_the_mapping_chose(mapping: str, tmp_path: Path) -> None:
    """One attention kernel rounds its weights; three kernels do not. Also for a program from a file."""
    b = ts.GraphBuilder("attention", dtype="bf16")
    q, k, v = b.input("q", (1, 4, 64, 33)), b.input("k", (1, 4, 3, 33)), b.input("v", (1, 4, 3, 33))
    b.output(b.op("attention", q, k, v), "y")
    program = ts.compile(b.build(), "sigma-256", mapping=mapping)
    assert len(program.kernels) == (1 if mapping == "heuristic" else 3)
    program.save(tmp_path / "p.tsim")
    for one in (program, ts.Program.load(tmp_path / "p.tsim")):
        assert [row["operation"] for row in ts.verify(one).rows] == [
            row["operation"] for row in ts.verify(program).rows
        ]
        assert ts.verify(one).ok


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_sums_that_overflow_in_one_order_may_be_finite_in_another(machine: str) -> None:
    """Solutions of random triangles grow twofold per row, and numbers next to the largest cancel or do not."""
    b = ts.GraphBuilder("solve")
    a, x = b.input("a", [300, 300]), b.input("x", [300, 4])
    y = b.op("linear_solve", a, x, mode="triangular", lower=False, transpose_a=True)
    b.output(b.op("reduce", y, dims=[1], combiner="add"), "y")
    program = ts.compile(b.build(), machine)
    assert all(ts.verify(program, seed=seed).ok for seed in range(3))
    b = ts.GraphBuilder("sums")
    z = b.input("z", [2, 4])
    b.output(b.op("reduce", z, dims=[1], combiner="add"), "sum")
    b.output(b.op("reduce", z, dims=[1], combiner="mean"), "mean")
    b.output(b.op("cumulative", z, dim=1, combiner="add"), "running")
    large = np.array([[3e38, 3e38, -3e38, 1], [1, 2, 3, 4]], np.float32)
    assert ts.verify(ts.compile(b.build(), machine), [large]).ok
    b = ts.GraphBuilder("cancelling")
    product = b.op(
        "contract", b.input("a", [4, 200]), b.input("b", [200, 3]), a_contract=[1], b_contract=[0], precision="exact"
    )
    b.output(b.apply("tanh", product - b.input("c", [4, 3])), "y")
    signs = np.random.default_rng(0).choice([-3e38, 3e38], (4, 200)).astype(np.float32)
    program = ts.compile(b.build(), machine)
    assert ts.verify(program, [signs, np.ones((200, 3), np.float32), np.ones((4, 3), np.float32)]).ok
