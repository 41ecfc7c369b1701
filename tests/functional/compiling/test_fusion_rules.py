"""Rules of fusion: each fires, says why it does not, and changes no bit of a result."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.command import tilesim
from support.random_groups import random_groups, small_integers

BEST = ("edge-8", "mesh-16")
COLUMNS = ["candidate", "rule", "operations", "bytes_saved", "cycles_saved", "recomputed_flops", "decision", "reason"]
Build = Callable[[ts.GraphBuilder], Any]


def built(build: Build) -> ts.Graph:
    b = ts.GraphBuilder("groups")
    b.output(build(b), "y")
    return b.build()


def rows(graph: ts.Graph, machine: str = "edge-8", rule: str = "", decision: str = "", **options: Any) -> list[Any]:
    found = ts.compile(graph, machine, lowering="best", residency="none", **options).fusion.table().rows
    return [row for row in found if rule in ("", row["rule"]) and decision in ("", row["decision"])]


def x(b: ts.GraphBuilder, *shape: int) -> Any:
    return b.input("x", list(shape) or [64, 64])


def product(b: ts.GraphBuilder, n: int = 64) -> Any:
    return b.matmul(x(b), b.input("w", [64, n]), name="product")


def swish(b: ts.GraphBuilder) -> Any:
    y = product(b)
    return y * b.apply("sigmoid", y)


def two_branches(b: ts.GraphBuilder) -> Any:
    left = right = None
    value = x(b, 128, 256)
    left = b.apply("tanh", b.apply("relu", b.apply("exp", value, name="l1"), name="l2"), name="l3")
    right = b.apply("abs", b.apply("negate", b.input("z", [128, 256]), name="r1"), name="r2")
    return b.apply("relu", b.apply("add", left, right, name="both"), name="last")


def dequantized(b: ts.GraphBuilder) -> Any:
    w = b.input("w", [256, 256], "i8").convert("f32") * b.input("scale", [256, 1])
    return b.matmul(b.input("x", [32, 256]), w, name="product")


def softmax(b: ts.GraphBuilder) -> Any:
    value = x(b, 128, 256)
    e = b.apply("exp", value - b.op("reduce", value, combiner="maximum", dims=[1], keep_dims=True))
    return e / b.op("reduce", e, combiner="add", dims=[1], keep_dims=True)


def padded(b: ts.GraphBuilder) -> Any:
    image = b.apply("relu", b.input("x", [1, 8, 8, 16]))
    return b.op(
        "convolution", image, b.input("w", [3, 3, 16, 16]), x_labels="N01C", w_labels="01IO", y_labels="N01C",
        strides=[1, 1], pads=[1, 1, 1, 1],
    )  # fmt: skip


def two_reductions(b: ts.GraphBuilder) -> Any:
    value = x(b, 128, 256)
    top = b.op("reduce", value, combiner="maximum", dims=[1], keep_dims=True)
    b.output(b.op("reduce", value, combiner="add", dims=[1], keep_dims=True), "sum")
    return top


def normalized(b: ts.GraphBuilder) -> Any:
    value = x(b, 64, 512)
    centered = value - b.op("reduce", value, combiner="mean", dims=[1], keep_dims=True)
    spread = b.op("reduce", centered * centered, combiner="mean", dims=[1], keep_dims=True)
    return b.matmul(centered * b.apply("rsqrt", spread) * b.input("scale", [512]), b.input("w", [512, 64]))


def viewed(b: ts.GraphBuilder) -> Any:
    turned = b.op("reshape", product(b), shape=[8, 8, 64])
    return b.apply("relu", turned + b.input("bias", [64]))


FIRES: dict[str, tuple[str, Build, int]] = {
    "a chain": ("epilogue", lambda b: b.apply("relu", product(b) + b.input("bias", [64])), 1),
    "several readers": ("epilogue", swish, 1),
    "a chain of one": ("elementwise", lambda b: b.apply("relu", b.apply("exp", x(b, 128, 256))), 1),
    "two branches": ("branches", two_branches, 1),
    "weights": ("prologue", dequantized, 1),
    "softmax": ("rows", softmax, 1),
    "activation before a padded window": ("prologue", padded, 1),
    "normalization": ("prologue", normalized, 2),
    "two reductions": ("siblings", two_reductions, 1),
}


@pytest.mark.parametrize("name", FIRES)
def test_a_rule_fires_and_saves_what_it_says(name: str) -> None:
    rule, build, kernels = FIRES[name]
    graph = built(build)
    program = ts.compile(graph, "edge-8", lowering="best", residency="none")
    taken = [row for row in program.fusion.table().rows if row["rule"] == rule and row["decision"] == "taken"]
    assert len(taken) == 1 and taken[0]["bytes_saved"] > 0 and taken[0]["cycles_saved"] > 0
    fewer = ts.compile(
        graph, "edge-8", lowering="best", residency="none",
        fuse=[one for one in ts.mapping.fusion_rules() if one != rule],
    )  # fmt: skip
    with_rule, without = ts.simulate(program), ts.simulate(fewer)
    assert len(program.kernels) == kernels and len(fewer.kernels) >= kernels
    assert with_rule.memory_bytes < without.memory_bytes
    assert with_rule.cycles < without.cycles
    assert ts.verify(program).ok and ts.verify(fewer).ok


def test_bytes_of_eight_operations_in_two_branches() -> None:
    """By hand: both inputs are read, the result is written, nothing else moves."""
    result = ts.simulate(ts.compile(built(two_branches), "tpu-v3", lowering="best", residency="none"))
    assert result.memory_bytes == 3 * 128 * 256 * 4


def test_bytes_saved_by_hand() -> None:
    (row,) = rows(built(lambda b: b.apply("relu", b.apply("exp", x(b, 128, 256)))), decision="taken")
    assert row["bytes_saved"] == 2 * 128 * 256 * 4  # written by the one, read by the other
    (row,) = rows(built(swish), rule="epilogue", decision="taken")
    assert row["bytes_saved"] == 5 * 64 * 64 * 4  # y: written once, read twice; its sigmoid: written, read


def dropped_axes(b: ts.GraphBuilder) -> Any:
    """As JAX spells it: reductions drop their axis, broadcasts bring it back."""
    value = x(b, 128, 256)

    def spread(row: Any) -> Any:
        row = b.op("broadcast", row, shape=[128, 1], dims=[0])
        return b.op("broadcast", row, shape=[128, 256], dims=[0, 1])

    mean = b.op("reduce", value, combiner="add", dims=[1], keep_dims=False) * b.scalar(1 / 256)
    centered = value - spread(mean)
    top = b.op("reduce", centered, combiner="maximum", dims=[1], keep_dims=False)
    least = b.op("reduce", centered, combiner="minimum", dims=[1], keep_dims=False)
    return centered / spread(b.scalar(1.0) + top - least)


VIEWS: dict[str, tuple[Build, int]] = {
    "a reshape behind a product": (viewed, 1),
    "rows that dropped their axis": (dropped_axes, 1),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("machine", ["edge-8", "tpu-v3", "mesh-16"])
def test_views_part_no_group(name: str, machine: str) -> None:
    build, kernels = VIEWS[name]
    graph = built(build)
    program = ts.compile(graph, machine, lowering="best", residency="none")
    apart = ts.compile(
        graph, machine, lowering="best", residency="none",
        fuse=[rule for rule in ts.mapping.fusion_rules() if rule != "views"],
    )  # fmt: skip
    assert len(program.kernels) == kernels < len(apart.kernels)
    together, parted = ts.simulate(program), ts.simulate(apart)
    assert together.memory_bytes < parted.memory_bytes and together.cycles < parted.cycles
    assert ts.verify(program).ok and ts.verify(apart).ok
    taken = [row for row in program.fusion.table().rows if row["rule"] == "views" and row["decision"] == "taken"]
    assert taken and all(row["bytes_saved"] == 0 for row in taken)


def test_bytes_of_rows_that_dropped_their_axis() -> None:
    """By hand: the matrix is read once and written once."""
    result = ts.simulate(ts.compile(built(dropped_axes), "tpu-v3", lowering="best", residency="none"))
    assert result.memory_bytes == 2 * 128 * 256 * 4


def second_reader(b: ts.GraphBuilder) -> Any:
    w = b.input("w", [256, 256], "i8").convert("f32")
    b.output(b.op("transpose", w, permutation=[1, 0]), "other")
    return b.matmul(b.input("x", [32, 256]), w, name="product")


def comes_back(b: ts.GraphBuilder) -> Any:
    value = b.apply("exp", x(b, 64, 64))
    return b.apply("abs", b.op("cumulative", value, combiner="add", dim=1)) + value


def maximum_in_front(b: ts.GraphBuilder) -> Any:
    top = b.op("reduce", x(b, 8, 64, 64), combiner="maximum", dims=[1], keep_dims=False)
    return b.matmul(top, b.input("w", [64, 8]))


def softmax_of(b: ts.GraphBuilder, columns: int) -> Any:
    value = b.apply("exp", b.input("x", [4, columns]))
    return value / b.op("reduce", value, combiner="add", dims=[1], keep_dims=True)


REFUSED: dict[str, tuple[str, Build, str]] = {
    "operand read elsewhere": ("prologue", second_reader, "other operations than products read it"),
    "another shape": ("epilogue", lambda b: product(b, 1) + b.input("wide", [64, 64]), "another shape"),
    "comes back": ("branches", comes_back, "third kernel"),
    "a reduction": ("prologue", maximum_in_front, "a reduction makes it"),
    "no tile": ("rows", lambda b: softmax_of(b, 1 << 20), "no longer fit"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_legal_says_why(name: str) -> None:
    rule, build, reason = REFUSED[name]
    found = rows(built(build), rule=rule)
    assert any(reason in row["reason"] and row["decision"] == "not legal" for row in found), found


def test_rules_that_are_off_look_at_nothing() -> None:
    """Each rule on both machines, and each graph on both: one of them for every second pair."""
    for i, rule in enumerate(ts.mapping.fusion_rules()):
        for j, (_, build, _) in enumerate(FIRES.values()):
            if (i + j) // 2 % 2 == 0:
                machine = ("edge-8", "tpu-v3")[(i + j) % 2]
                assert {row["rule"] for row in rows(built(build), machine, fuse=[rule])} <= {rule}
    assert rows(built(swish), fuse="none") == [] == rows(built(swish), fuse=[])


@pytest.mark.parametrize("seed", range(12))
def test_every_choice_of_rules_gives_the_same_bits(seed: int) -> None:
    check_seed(seed)


@pytest.mark.slow
def test_every_choice_of_rules_gives_the_same_bits_at_length() -> None:
    for seed in range(100, 600):
        check_seed(seed)


def check_seed(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph = random_groups(seed)
    inputs = small_integers(graph, seed)
    machine = ts.Machine.load(str(random.choice([*BEST, "tpu-v3"])))
    lowering = str(random.choice(["best", "best", "native"])) if machine.name == "tpu-v3" else "best"
    rules = ts.mapping.fusion_rules()
    some = [rule for rule in rules if random.integers(2)]
    wanted = None
    for fuse in ("none", "all", some, [str(random.choice(rules))]):
        program = ts.compile(graph, machine, lowering=lowering, fuse=fuse)
        found = ts.execute(program, inputs, poison=True)
        wanted = wanted or found
        for name, value in wanted.items():
            np.testing.assert_array_equal(found[name], value, err_msg=f"{seed} {name} {fuse}")
    assert ts.verify(ts.compile(graph, machine, lowering=lowering)).ok


def test_an_unknown_rule_has_a_suggestion() -> None:
    for wrong in ("epilog", ["epilog"], ["elementwise", "epilog"]):
        with pytest.raises(ts.UserError, match=r"epilog.*epilogue"):
            ts.compile(built(swish), "edge-8", fuse=wrong)
    told = tilesim("run", "mlp", "--fuse", "epilog")
    assert told.returncode == 2 and "epilogue" in told.stderr


def test_names_and_columns() -> None:
    rules = ts.mapping.fusion_rules()
    assert {"epilogue", "prologue", "elementwise", "branches", "rows", "attention"} <= set(rules)
    for row in rules.table().rows:
        assert row["rule"] in rules and all(row[key] for key in ("matches", "legal", "saves", "rounding"))
    assert list(rows(built(swish))[0]) == COLUMNS


def test_the_table_of_files(tmp_path: Path) -> None:
    program = ts.compile(built(swish), "edge-8")
    program.save(tmp_path / "p.tsim")
    program.save(tmp_path / "p.json")
    wanted = program.fusion.table().rows
    assert ts.Program.load(tmp_path / "p.tsim").fusion.table().rows == wanted
    assert pickle.loads(pickle.dumps(program)).fusion.table().rows == wanted
    with pytest.raises(ts.UserError, match="tsim"):
        ts.Program.load(tmp_path / "p.json").fusion.table()


def test_explained_on_the_command_line() -> None:
    text = tilesim("run", "mlp", "--machine", "edge-8", "--explain", "fusion").stdout
    assert "epilogue" in text and "candidate groups fused" in text
