"""One graph per lowering: every kind with the attributes that take a path of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilesim as ts

Build = Callable[[], ts.Graph]


def graph_of(make: Callable[[ts.GraphBuilder], Any], name: str = "case") -> ts.Graph:
    b = ts.GraphBuilder(name)
    result = make(b)
    for i, tensor in enumerate(result if isinstance(result, tuple) else (result,)):
        b.output(tensor, f"y{i}")
    return b.build()


def single(kind: str, shapes: list[Any], **attributes: Any) -> Build:
    """One operation; a shape may carry a dtype: ([2, 3], "i32")."""

    def make(b: ts.GraphBuilder) -> Any:
        operands = []
        for i, given in enumerate(shapes):
            shape, dtype = given if isinstance(given, tuple) else (given, "f32")
            operands.append(None if shape is None else b.input(f"x{i}", shape, dtype))
        return b.op(kind, *operands, name="op", **attributes)

    return lambda: graph_of(make, kind)


def convolution(x: list[int], w: list[int], **attributes: Any) -> Build:
    return single("convolution", [x, w], x_labels="NCHW", w_labels="OIHW", y_labels="NCHW", **attributes)


def gather(x: list[int], indices: list[int], mode: str = "clip", dtype: str = "i32", **attributes: Any) -> Build:
    return single("gather", [x, (indices, dtype)], mode=mode, **attributes)


def reshaped_view(first: Callable[[ts.GraphBuilder, Any], Any], shape: list[int], to: list[int]) -> Build:
    return lambda: graph_of(lambda b: b.op("reshape", first(b, b.input("x", shape)), shape=to))


ROWS = {"offset_dims": [1], "collapsed_slice_dims": [0], "start_index_map": [0], "slice_sizes": [1, 20]}
BOXES = {"offset_dims": [1, 2], "collapsed_slice_dims": [], "start_index_map": [0, 1], "slice_sizes": [3, 5]}
POINTS = {"offset_dims": [], "collapsed_slice_dims": [0, 1], "start_index_map": [0, 1], "slice_sizes": [1, 1]}
COLUMNS = {"offset_dims": [0], "collapsed_slice_dims": [1], "start_index_map": [1], "slice_sizes": [50, 1]}

CASES: dict[str, Build] = {
    # gather
    "gather rows": gather([50, 20], [37, 1], index_vector_dim=1, **ROWS),
    "gather rows, implicit vector": gather([50, 20], [7, 9], index_vector_dim=2, **(ROWS | {"offset_dims": [2]})),
    "gather rows, fill": gather([50, 20], [37, 1], "fill", index_vector_dim=1, **ROWS),
    "gather rows, error": gather([50, 20], [37, 1], "error", index_vector_dim=1, **ROWS),
    "gather boxes": gather([50, 20], [13, 2], index_vector_dim=1, **BOXES),
    "gather boxes, vector first": gather([50, 20], [2, 4, 6], index_vector_dim=0, **(BOXES | {"offset_dims": [1, 3]})),
    "gather points": gather([50, 20], [60, 2], index_vector_dim=1, dtype="i64", **POINTS),
    "gather columns": gather([50, 20], [11, 1], index_vector_dim=1, dtype="i8", **COLUMNS),
    "gather of a view": lambda: graph_of(
        lambda b: b.op(
            "gather",
            b.op("transpose", b.input("x", [20, 50]), permutation=[1, 0]),
            b.op("slice", b.input("i", [40, 1], "i32"), start=[3, 0], limit=[30, 1]),
            index_vector_dim=1,
            **ROWS,
        )
    ),
    "gather of computed indices": lambda: graph_of(
        lambda b: b.op(
            "gather",
            b.input("x", [50, 20]),
            b.op("reduce", b.input("z", [30, 50]), dims=[1], combiner="argmax", keep_dims=True),
            index_vector_dim=1,
            **ROWS,
        )
    ),
    # embedding
    "embedding": single("embedding", [[50, 20], ([7, 9], "i32")]),
    "embedding, padding": single("embedding", [[5, 20], ([7, 9], "i32")], padding_index=2),
    "embedding of a scalar": single("embedding", [[50, 20], ([], "i32")]),
    "embedding of a view": lambda: graph_of(
        lambda b: b.op(
            "embedding",
            b.op("transpose", b.input("x", [20, 50]), permutation=[1, 0]),
            b.op("slice", b.input("i", [40], "i32"), start=[3], limit=[30]),
            padding_index=0,
        )
    ),
    # pad
    "pad": single("pad", [[13, 21]], low=[2, 3], high=[1, 0]),
    "pad, negative": single("pad", [[13, 21]], low=[-2, 3], high=[1, -4]),
    "pad, interior": single("pad", [[13, 21]], low=[2, 0], high=[1, 0], interior=[1, 2]),
    "pad, interior and negative": single("pad", [[13, 21]], low=[-2, -1], high=[-3, 4], interior=[2, 1]),
    "pad, value of an input": single("pad", [[13, 21], []], low=[2, 3], high=[1, 5]),
    "pad, interior value of an input": single("pad", [[13, 21], []], low=[2, -3], high=[1, 5], interior=[1, 2]),
    "pad edge": single("pad", [[13, 21]], low=[2, 3], high=[1, 5], mode="edge"),
    "pad edge, one side": single("pad", [[5, 4, 9]], low=[0, 2, 0], high=[3, 0, 0], mode="edge"),
    "pad reflect": single("pad", [[13, 21]], low=[2, 3], high=[1, 5], mode="reflect"),
    "pad reflect, beyond the extent": single("pad", [[5, 3]], low=[17, 6], high=[9, 11], mode="reflect"),
    "pad reflect, extent 1": single("pad", [[1, 7]], low=[3, 2], high=[2, 2], mode="reflect"),
    # reshape of views
    "reshape of a transpose": reshaped_view(lambda b, x: b.op("transpose", x, permutation=[1, 0]), [12, 35], [14, 30]),
    "reshape of a slice": reshaped_view(lambda b, x: b.op("slice", x, start=[1, 2], limit=[11, 32]), [12, 35], [4, 75]),
    "reshape of a broadcast": reshaped_view(lambda b, x: b.op("broadcast", x, shape=[9, 10], dims=[1]), [10], [6, 15]),
    "reshape of a merged slice": reshaped_view(
        lambda b, x: b.op("slice", x, start=[0, 2, 1], limit=[4, 8, 9]), [4, 9, 10], [24, 8]
    ),
    # scans
    **{
        f"cumulative {combiner}{', reverse' * reverse}{', exclusive' * exclusive}": single(
            "cumulative", [[3, 1500]], dim=1, combiner=combiner, reverse=reverse, exclusive=exclusive
        )
        for combiner in ("add", "maximum", "minimum")
        for reverse in (False, True)
        for exclusive in (False, True)
        if combiner != "minimum" or not exclusive
    },
    "cumulative, outer axis": single("cumulative", [[1500, 3]], dim=0, combiner="add"),
    "cumulative, middle axis": single("cumulative", [[2, 900, 3]], dim=1, combiner="maximum", reverse=True),
    "cumulative of integers": single("cumulative", [([2, 3000], "i32")], dim=1, combiner="add", exclusive=True),
    "cumulative of bytes": single("cumulative", [([2, 3000], "i8")], dim=1, combiner="add"),
    "cumulative multiply": single("cumulative", [([5, 3000], "i32")], dim=1, combiner="multiply"),
    # reductions
    "argmax, long row": single("reduce", [[3, 5000]], dims=[1], combiner="argmax"),
    "argmin, long column": single("reduce", [[5000, 3]], dims=[0], combiner="argmin", keep_dims=True),
    "argmax of small integers": single("reduce", [([3, 5000], "i8")], dims=[1], combiner="argmax", dtype="i32"),
    "argmax of two axes": single("reduce", [[7, 30, 20]], dims=[1, 2], combiner="argmax"),
    "argmax of separate axes": single("reduce", [[40, 3, 50]], dims=[0, 2], combiner="argmax"),
    "argmin of short rows": single("reduce", [[40, 9]], dims=[1], combiner="argmin"),
    **{
        f"reduce {combiner}": single("reduce", [[3, 4000]], dims=[1], combiner=combiner)
        for combiner in ("add", "maximum", "minimum", "mean")
    },
    "reduce all": single("reduce", [[31, 70, 5]], dims=[0, 1, 2], combiner="add"),
    "reduce logical": single("reduce", [([9, 3000], "bool")], dims=[1], combiner="logical_and"),
    "reduce integers": single("reduce", [([9, 3000], "i32")], dims=[0], combiner="multiply"),
    # windows
    "window maximum": single("window_reduce", [[3, 40, 30]], window=[1, 3, 2], strides=[1, 2, 1], combiner="maximum"),
    "window sum, padded": single(
        "window_reduce",
        [[3, 40, 30]],
        window=[1, 3, 5],
        pads=[0, 0, 1, 1, 2, 0],
        window_dilation=[1, 2, 1],
        combiner="add",
    ),
    "window longer than the scratchpad": single("window_reduce", [[2, 6000]], window=[1, 5000], combiner="add"),
    # convolution
    "depthwise": convolution([2, 12, 14, 13], [12, 1, 3, 3], groups=12, pads=[1, 1, 1, 1]),
    "depthwise, multiplier": convolution([1, 6, 11, 9], [18, 1, 3, 2], groups=6, strides=[2, 1]),
    "grouped": convolution([2, 12, 10, 11], [8, 3, 3, 3], groups=4, window_dilation=[2, 1]),
    "grouped, fused": lambda: graph_of(
        lambda b: b.apply(
            "relu",
            b.conv2d(b.input("x", [1, 8, 12, 12]), b.input("w", [8, 2, 3, 3]), b.input("c", [8]), padding=1, groups=4),
        )
    ),
    "batch groups": convolution([6, 5, 9, 8], [12, 5, 3, 3], batch_groups=3, pads=[1, 0, 0, 1]),
    "transposed": convolution([1, 4, 7, 6], [5, 4, 3, 3], input_dilation=[2, 2], pads=[2, 2, 2, 2]),
    "transposed, grouped": convolution([1, 4, 7, 6], [6, 2, 3, 3], input_dilation=[2, 1], groups=2),
    "convolution of integers": single(
        "convolution",
        [([1, 8, 9, 9], "i8"), ([8, 1, 3, 3], "i8")],
        x_labels="NCHW",
        w_labels="OIHW",
        y_labels="NCHW",
        groups=8,
        dtype="i32",
    ),
    "convolution of one axis": single(
        "convolution", [[2, 40, 8], [3, 8, 6]], x_labels="NWC", w_labels="WIO", y_labels="NWC", strides=[3]
    ),
    "convolution of three axes": single(
        "convolution", [[1, 3, 5, 6, 7], [4, 3, 2, 3, 2]], x_labels="NCDHW", w_labels="OIDHW", y_labels="NCDHW"
    ),
    # movement
    "reverse": single("reverse", [[31, 45]], dims=[0, 1]),
    "concat": single("concat", [[5, 31], [5, 7], [5, 40]], dim=1),
    "transpose": single("transpose", [[12, 31, 17]], permutation=[2, 0, 1]),
    "slice": single("slice", [[31, 45]], start=[3, 1], limit=[30, 44], stride=[2, 5]),
    "broadcast": single("broadcast", [[31, 1]], shape=[3, 31, 45], dims=[1, 2]),
    "iota": single("iota", [], shape=[31, 45], dtype="i32", dim=1),
    "copy": single("copy", [[31, 45]]),
    "convert": single("convert", [[31, 45]], dtype="i32"),
    "bitcast": single("bitcast", [[31, 45]], dtype="i32"),
    "dynamic_slice": single("dynamic_slice", [[31, 45], ([], "i32"), ([], "i32")], sizes=[20, 45]),
    "dynamic_slice of a computed start": lambda: graph_of(
        lambda b: b.op(
            "dynamic_slice",
            b.input("x", [31, 45]),
            b.op("reduce", b.input("z", [12]), dims=[0], combiner="argmax", dtype="i32"),
            b.op("reduce", b.input("u", [60]), dims=[0], combiner="argmin", dtype="i32"),
            sizes=[20, 25],
        )
    ),
    "dynamic_update at a computed start": lambda: graph_of(
        lambda b: b.op(
            "dynamic_update",
            b.input("x", [31, 45]),
            b.input("w", [20, 25]),
            b.op("reduce", b.input("z", [12]), dims=[0], combiner="argmax", dtype="i32"),
            b.op("reduce", b.input("u", [60]), dims=[0], combiner="argmin", dtype="i32"),
        )
    ),
    "dynamic_update": single("dynamic_update", [[31, 45], [20, 9], ([], "i32"), ([], "i32")]),
    "transpose of a constant shape": single("reshape", [[12, 35]], shape=[14, 30]),
    # products
    "contract": single("contract", [[70, 50], [50, 30]], a_contract=[1], b_contract=[0]),
    "contract, batched and transposed": single(
        "contract", [[3, 50, 20], [3, 40, 50]], a_batch=[0], b_batch=[0], a_contract=[1], b_contract=[2]
    ),
    "contract two axes": single("contract", [[9, 10, 11], [11, 10, 7]], a_contract=[1, 2], b_contract=[1, 0]),
    "outer product": single("contract", [[70], [50]]),
    "inner product": single("contract", [[3000], [3000]], a_contract=[0], b_contract=[0]),
    # scatter
    **{
        f"scatter {combiner}": single(
            "scatter",
            [[12, 20], ([30, 1], "i32"), [30, 20]],
            update_window_dims=[1],
            inserted_window_dims=[0],
            scatter_dims_to_operand_dims=[0],
            index_vector_dim=1,
            combiner=combiner,
        )
        for combiner in ("set", "add", "maximum")
    },
    "scatter boxes": single(
        "scatter",
        [[9, 11], ([2, 4, 2], "i32"), [2, 3, 4, 2]],
        update_window_dims=[1, 3],
        inserted_window_dims=[],
        scatter_dims_to_operand_dims=[1, 0],
        index_vector_dim=2,
        combiner="set",
    ),
    "scatter points of half precision": single(
        "scatter",
        [([9, 11], "bf16"), ([40, 2], "i32"), ([40], "bf16")],
        update_window_dims=[],
        inserted_window_dims=[0, 1],
        scatter_dims_to_operand_dims=[0, 1],
        index_vector_dim=1,
        combiner="add",
    ),
    # orders
    "top_k": single("top_k", [[33, 70]], dim=1, k=5, results=2),
    "top_k, smallest of columns": single("top_k", [[70, 3, 9]], dim=0, k=4, largest=False, dtype="i32", results=2),
    "top_k of integers": single("top_k", [([9, 64], "i8")], dim=1, k=64, dtype="i32", results=2),
    "sort": single("sort", [[33, 70]], dim=1),
    "sort, descending columns": single("sort", [[70, 3, 9]], dim=0, descending=True),
    "sort with payload": single("sort", [[5, 70], ([5, 70], "i32"), ([5, 70], "bf16")], dim=1, results=3),
    "sort by three keys": single(
        "sort", [([50, 4], "i8"), ([50, 4], "i8"), [50, 4], ([50, 4], "i32")], dim=0, keys=3, results=4
    ),
    # composites
    "softmax": single("softmax", [[9, 700]], dim=1),
    "softmax of a long row": single("softmax", [[2, 5000]], dim=1),
    "log_softmax": single("log_softmax", [[700, 9]], dim=0),
    "layer norm": single("normalize", [[9, 2000], [2000], [2000]], mode="layer", dims=[1], epsilon=1e-5),
    "group norm": single("normalize", [[2, 12, 9, 8], [12], [12]], mode="group", groups=4, epsilon=1e-5),
}
