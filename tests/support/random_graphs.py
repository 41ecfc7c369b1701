"""Random graphs, machines and mappings, and what their programs look like."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tilesim as ts

Random = np.random.Generator


@dataclass
class Case:
    """What to compile: `dims` are extents of the product's domain, for random mappings."""

    family: str
    graph: ts.Graph
    product: str = ""
    dims: tuple[int, ...] = ()
    reductions: int = 0
    scratchpad: tuple[int, int] = (512, 4096)  # range that tiles most dimensions of this family


def _size(random: Random, low: int = 1, high: int = 40) -> int:
    return int(random.integers(low, high + 1))


def _dtype(random: Random, products: bool = False) -> str:
    return str(random.choice(["f32", "bf16"] if products else ["f32", "f32", "bf16", "f16", "i32", "i8"]))


def _matmul(random: Random) -> Case:
    m, n, k = (_size(random, 2) for _ in range(3))
    graph = ts.workloads.matmul(m, n, k, dtype=_dtype(random, True))
    return Case("matmul", graph, "matmul", (m, n, k), 1, (4096, 16384))


def _batched(random: Random) -> Case:
    b, m, n, k = _size(random, 2, 4), *(_size(random, 2, 20) for _ in range(3))
    return Case("batched", ts.workloads.matmul(m, n, k, batch=b), "matmul", (b, m, n, k), 1, (4096, 16384))


def _epilogue(random: Random) -> Case:
    m, n, k = (_size(random, 2) for _ in range(3))
    b = ts.GraphBuilder("epilogue")
    y = b.linear(b.input("x", [m, k]), n, name="linear")
    y = b.apply(str(random.choice(["relu", "tanh", "silu", "sigmoid"])), y)
    if random.integers(2):
        y = y + b.input("z", [m, n] if random.integers(2) else [n])
    b.output(y, "y")
    return Case("epilogue", b.build(), "linear", (m, n, k), 1, (4096, 16384))


def _convolution(random: Random) -> Case:
    batch, channels, filters = _size(random, 1, 2), _size(random, 2, 6), _size(random, 2, 9)
    kernel, stride, padding, dilation = (_size(random, low, high) for low, high in ((1, 3), (1, 2), (0, 2), (1, 2)))
    groups = 1
    if random.integers(3) == 0:
        groups = channels
        filters = channels * _size(random, 1, 2)
    height, width = _size(random, 6, 12), _size(random, 6, 12)
    graph = ts.workloads.conv2d(
        batch, channels, height, width, filters, kernel, stride=stride, padding=padding, dilation=dilation,
        groups=groups,
    )  # fmt: skip
    y = graph.core.outputs[0]["shape"]
    group = (groups,) if groups > 1 else ()
    dims = (batch, *group, filters // groups, y[2], y[3], channels // groups, kernel, kernel)
    return Case("convolution", graph, "conv2d", dims, 3, (4096, 16384))


def _rows(random: Random) -> Case:
    kind = str(random.choice(["softmax", "layer_norm", "log_softmax"]))
    rows, columns = _size(random, 1, 12), _size(random, 60, 300)
    if kind == "softmax":
        graph = ts.workloads.softmax(rows, columns)
    elif kind == "layer_norm":
        graph = ts.workloads.layer_norm(rows, columns)
    else:
        b = ts.GraphBuilder(kind)
        b.output(b.op(kind, b.input("x", [rows, columns]), dim=int(random.integers(2))), "y")
        graph = b.build()
    return Case(kind, graph, scratchpad=(960, 1280) if kind == "layer_norm" else (576, 896))


def _attention(random: Random) -> Case:
    graph = ts.workloads.attention(1, 2, _size(random, 8, 40), _size(random, 2, 24), causal=bool(random.integers(2)))
    return Case("attention", graph, scratchpad=(1024, 3072))


def _reduction(random: Random) -> Case:
    b = ts.GraphBuilder("reduction")
    shape = [_size(random, 1, 6), _size(random, 1, 20), _size(random, 30, 120)]
    dims = sorted(random.choice(3, size=_size(random, 1, 3), replace=False).tolist())
    dtype = _dtype(random)
    allowed = ["add", "maximum", "minimum", "argmax", "argmin"] + (["mean"] if dtype[0] in "fb" else ["multiply"])
    x = b.input("x", shape, dtype)
    combiner = str(random.choice(allowed))
    b.output(b.op("reduce", x, dims=dims, combiner=combiner, keep_dims=bool(random.integers(2))), "y")
    return Case("reduction", b.build(), scratchpad=(640, 768))


def _scan(random: Random) -> Case:
    b = ts.GraphBuilder("scan")
    x = b.input("x", [_size(random, 1, 10), _size(random, 40, 200)], _dtype(random))
    flags = {"reverse": bool(random.integers(2)), "exclusive": bool(random.integers(2))}
    combiner = str(random.choice(["add", "maximum", "minimum"]))
    b.output(b.op("cumulative", x, dim=int(random.integers(2)), combiner=combiner, **flags), "y")
    return Case("scan", b.build(), scratchpad=(384, 640))


def _window(random: Random) -> Case:
    b = ts.GraphBuilder("window")
    x = b.input("x", [_size(random, 1, 4), _size(random, 4, 14), _size(random, 10, 40)])
    window = [1, _size(random, 1, 4), _size(random, 1, 4)]
    pads = [0, 0, *(int(random.integers(extent)) for extent in np.repeat(window[1:], 2))]
    strides = [1, _size(random, 1, 3), _size(random, 1, 3)]
    combiner = str(random.choice(["add", "maximum"]))
    b.output(b.op("window_reduce", x, window=window, strides=strides, pads=pads, combiner=combiner), "y")
    return Case("window", b.build(), scratchpad=(384, 640))


def _movement(random: Random) -> Case:
    b = ts.GraphBuilder("movement")
    rows, columns = _size(random, 2, 24), _size(random, 40, 100)
    x = b.input("x", [rows, columns], _dtype(random))
    for _ in range(_size(random, 1, 4)):
        x = _move(random, b, x)
    if random.integers(2):
        x = x + x
    b.output(x, "y")
    return Case("movement", b.build(), scratchpad=(448, 512))


def _move(random: Random, b: ts.GraphBuilder, x: Any) -> Any:
    """One movement of a tensor of two axes."""
    rows, columns = x.shape
    pads = {"low": [int(v) for v in random.integers(0, 3, 2)], "high": [int(v) for v in random.integers(0, 3, 2)]}
    choice = int(random.integers(9))
    if choice == 0:
        return b.op("transpose", x, permutation=[1, 0])
    if choice == 1:
        return b.op("reshape", x, shape=[columns, rows])
    if choice == 2:
        start = [int(random.integers(rows)), int(random.integers(columns))]
        stride = [_size(random, 1, 2), _size(random, 1, 3)]
        return b.op("slice", x, start=start, limit=[rows, columns], stride=stride)
    if choice == 3:
        return b.op("reverse", x, dims=[int(random.integers(2))])
    if choice == 4:
        return b.op("pad", x, **pads, mode=str(random.choice(["edge", "reflect"])))
    if choice == 5:
        interior = [int(v) for v in random.integers(0, 3, 2)]
        low = [int(v) for v in random.integers(-1, 3, 2)]
        return b.op("pad", x, low=low, high=pads["high"], interior=interior)
    if choice == 6:
        return b.op("concat", x, x, dim=int(random.integers(2)))
    indices = b.input(f"i{len(b.graph.core.inputs)}_{x.value}", [_size(random, 1, 20), choice - 6], "i32")
    if choice == 7:
        return b.op(
            "gather", x, indices, index_vector_dim=1, offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0],
            slice_sizes=[1, columns], mode=str(random.choice(["clip", "fill", "error"])),
        )  # fmt: skip
    rest = [max(1, rows // 2), max(1, columns // 3)]
    boxes = b.op(
        "gather", x, indices, index_vector_dim=1, offset_dims=[1, 2], collapsed_slice_dims=[], start_index_map=[0, 1],
        slice_sizes=rest,
    )  # fmt: skip
    return b.op("reshape", boxes, shape=[boxes.shape[0] * rest[0], rest[1]])


def _elementwise(random: Random) -> Case:
    """A small DAG of functions, reductions and broadcasts over one space."""
    b = ts.GraphBuilder("elementwise")
    shape = [_size(random, 1, 12), _size(random, 60, 200)]
    values = [b.input("x", shape), b.input("z", [shape[1]]), b.input("u", [shape[0], 1])]
    read: set[int] = set()
    for _ in range(_size(random, 2, 7)):
        i, j = (int(v) for v in random.integers(len(values), size=2))
        x, y = values[i], values[j]
        choice = int(random.integers(5))
        read.add(i)
        if choice == 0:
            values.append(b.apply(str(random.choice(["tanh", "abs", "negate", "relu", "sigmoid"])), x))
        elif choice == 1 and len(x.shape) == 2:
            dims = [int(random.integers(2))]
            combiner = str(random.choice(["add", "maximum", "mean"]))
            values.append(b.op("reduce", x, dims=dims, combiner=combiner, keep_dims=True))
        elif choice == 2 and x.shape == tuple(shape):
            values.append(b.op("transpose", b.op("transpose", x, permutation=[1, 0]), permutation=[1, 0]))
        else:
            read.add(j)
            values.append(b.apply(str(random.choice(["add", "subtract", "maximum", "multiply"])), x, y))
    for i, value in enumerate(values[:-1]):  # nothing is dead: bounds count every input
        if i not in read:
            values[-1] = values[-1] + value
    b.output(values[-1], "y")
    if random.integers(2):
        b.output(values[-2] + values[-2], "w")
    return Case("elementwise", b.build(), scratchpad=(896, 1280))


def _step(random: Random, b: ts.GraphBuilder, x: Any, name: str, function: ts.GraphBuilder | None) -> Any:
    """One operation of a network on a tensor of two axes."""
    choice = int(random.integers(10))
    if choice <= 1:
        return b.linear(x, _size(random, 2, 30), name=name)
    if choice == 2:
        return b.apply(str(random.choice(["tanh", "relu", "silu", "sigmoid"])), x)
    if choice == 3:
        return b.op("softmax", x, dim=int(random.integers(2)))
    if choice == 4:
        return b.op("normalize", x, mode="layer", dims=[1], epsilon=1e-5)
    if choice == 5:
        return b.op("cumulative", x, dim=int(random.integers(2)), combiner="maximum", reverse=bool(random.integers(2)))
    if choice == 6:
        total = b.op("reduce", x, dims=[int(random.integers(2))], combiner="mean", keep_dims=True)
        return x - b.broadcast(total, x.shape)
    if choice == 7 and function is not None and x.shape[1] == 8:
        return b.call(function, x if x.shape[0] == 6 else b.op("pad", x, low=[0, 0], high=[6 - x.shape[0], 0]))
    if choice == 8:
        return b.matmul(x, b.op("transpose", x, permutation=[1, 0]))
    return _move(random, b, x)


def _network(random: Random) -> Case:
    """Several operations in a row, some of them read twice; parts of it outputs."""
    b = ts.GraphBuilder("network")
    function = b.function("block")
    inner = function.input("v", [6, 8])
    function.output(function.apply("relu", function.linear(inner, 8, name="inner")))
    x = b.input("x", [6, 8])
    values = [x]
    for i in range(_size(random, 2, 8)):
        if element_count(x) > 4000:
            break
        x = _step(random, b, x, f"layer{i}", function)
        same = [value for value in values if value.shape == x.shape]
        if same and random.integers(3) == 0:
            x = x + same[int(random.integers(len(same)))]
        values.append(x)
        if random.integers(5) == 0:
            b.output(x, f"y{i}")
    b.output(x + x, "y")
    return Case("network", b.build(), scratchpad=(8192, 20000))


def element_count(x: Any) -> int:
    return int(np.prod(x.shape))


FAMILIES: list[tuple[Callable[[Random], Case], int]] = [
    (_matmul, 8), (_batched, 4), (_epilogue, 8), (_convolution, 8), (_rows, 3), (_attention, 1), (_reduction, 3),
    (_scan, 2), (_window, 2), (_movement, 4), (_elementwise, 3), (_network, 2),
]  # fmt: skip


def random_case(random: Random) -> Case:
    weights = np.array([weight for _, weight in FAMILIES], dtype=float)
    index = int(random.choice(len(FAMILIES), p=weights / weights.sum()))
    return FAMILIES[index][0](random)


def random_machine(random: Random, case: Case) -> ts.Machine:
    low, high = case.scratchpad
    bytes_ = int(random.integers(low // 64, high // 64 + 1)) * 64
    change: dict[str, Any] = {
        "core.scratchpad.bytes": f"{bytes_} B",
        "core.array.count": int(random.choice([1, 1, 2, 3, 4, 6])),
        "core.dma.load_queues": int(random.integers(1, 3)),
    }
    name = str(random.choice(["edge-8", "edge-8", "tpu-v3", "gemmini-16"]))
    if name == "tpu-v3":  # its layouts, its compiler's rules
        return ts.Machine.load(name).replace(change)
    change["core.array.rates"] = dict.fromkeys(("f32", "bf16", "f16", "i8"), 1.0)
    if name == "gemmini-16":
        change["core.scratchpad.accumulator_bytes"] = f"{2 * bytes_} B"
    return ts.Machine.load(name).replace(change)


def random_mapping(random: Random, case: Case) -> dict[str, Any]:
    """At least two tiles along every dim, loops in any order."""
    tiles = [max(1, int(random.integers(max(1, extent // 4), max(1, extent // 2) + 1))) for extent in case.dims]
    order = [int(v) for v in random.permutation(len(tiles))]
    depths = [int(v) for v in random.integers(1, 4, 3)]
    return {case.product: {"tiles": tiles, "order": order, "depths": depths}}


@dataclass
class Shape:
    """How a program is tiled."""

    tiled: bool = True  # two or more tiles along every dimension that a transfer spans
    ragged: bool = False


def choose_mapping(random: Random, case: Case) -> Any:
    """What to pass to compile: a random nest for most products, the default otherwise."""
    return random_mapping(random, case) if case.product and random.integers(8) else "profile"


def program_shape(program: ts.Program) -> Shape:
    """Read from the program's text: dimensions of transfers that no loop moves are not tiled."""
    shape = Shape()

    def visit(block: list[Any], loops: frozenset[str]) -> None:
        for statement in block:
            if "for" in statement:
                visit(statement["do"], loops | {statement["for"]})
            for key in ("do", "then", "else"):
                if key in statement and "for" not in statement:
                    visit(statement[key], loops)
            transfer = statement.get("load") or statement.get("store")
            if transfer:
                inspect(transfer, loops)

    def inspect(transfer: Any, loops: frozenset[str]) -> None:
        for dim in transfer["dims"]:
            extent = dim.get("extent", 1)
            shape.ragged |= isinstance(extent, str) and "min(" in extent
            if extent == 1 or dim.get("axis", -1) < 0 or dim.get("through"):
                continue
            moved = set(re.findall(r"[A-Za-z_][\w.]*", str(transfer["at"][dim["axis"]])))
            shape.tiled &= bool(moved & loops)

    visit(json.loads(program.core.to_json())["do"], frozenset())
    return shape
