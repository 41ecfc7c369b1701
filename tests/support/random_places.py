"""Random operations that name places of their operands' axes, with inputs of whole numbers."""

import numpy as np

import tilesim as ts

KINDS = ("slice", "dynamic_slice", "dynamic_update", "gather", "gather_batched", "scatter", "scatter_batched",
         "gather_windows", "scatter_windows", "reverse", "window_scatter", "attention")  # fmt: skip


def whole(random, shape, dtype=np.float32):
    return random.integers(-3, 4, shape).astype(dtype)


def random_place(random):
    """A graph of one operation, named by its kind, and inputs."""
    kind = KINDS[random.integers(len(KINDS))]
    b = ts.GraphBuilder(kind)
    inputs = globals()["_" + kind](b, random)
    return b.build(), inputs


def _shape(random):
    return [int(random.integers(4, 14)) for _ in range(2)] + [int(random.integers(2, 5))]


def _slice(b, random):
    shape = _shape(random)
    start = [int(random.integers(extent)) for extent in shape]
    limit = [int(random.integers(first + 1, extent + 1)) for first, extent in zip(start, shape, strict=True)]
    b.output(b.op("slice", b.input("x", shape), start=start, limit=limit), "y")
    return [whole(random, shape)]


def _starts(b, random, shape):
    names = [b.input(f"s{i}", (), "i32") for i in range(len(shape))]
    return names, [np.int32(random.integers(-3, extent + 3)) for extent in shape]


def _dynamic_slice(b, random):
    shape = _shape(random)
    x = b.input("x", shape)
    names, starts = _starts(b, random, shape)
    sizes = [int(random.integers(1, extent + 1)) for extent in shape]
    b.output(b.op("dynamic_slice", x, *names, sizes=sizes), "y")
    return [whole(random, shape), *starts]


def _dynamic_update(b, random):
    shape = _shape(random)
    sizes = [int(random.integers(1, extent + 1)) for extent in shape]
    x, update = b.input("x", shape), b.input("u", sizes)
    names, starts = _starts(b, random, shape)
    b.output(b.op("dynamic_update", x, update, *names), "y")
    return [whole(random, shape), whole(random, sizes), *starts]


def _gather(b, random):
    """Index vectors of one or two components, in any place of the indices."""
    shape, count = _shape(random), int(random.integers(4, 9))
    components = int(random.integers(1, 3))
    vector = int(random.integers(2))
    indices = [count, components] if vector else [components, count]
    sizes = [1] * components + shape[components:]
    order = [int(i) for i in random.permutation(components)]
    b.output(b.op("gather", b.input("x", shape), b.input("i", indices, "i32"), mode="clip", slice_sizes=sizes,
                  offset_dims=list(range(1, 4 - components)), collapsed_slice_dims=list(range(components)),
                  start_index_map=order, index_vector_dim=vector), "y")  # fmt: skip
    return [whole(random, shape), random.integers(-2, 15, indices).astype(np.int32)]


def _batched(b, random):
    """Index vectors whose second component numbers the first axis of x."""
    shape = [int(random.integers(2, 9)) for _ in range(3)]
    count = int(random.integers(1, 6))
    x = b.input("x", shape)
    columns = b.input("i", (shape[0], count, 1), "i32")
    rows = b.op("iota", shape=[shape[0], count, 1], dtype="i32", dim=0)
    index = random.integers(-2, shape[1] + 2, (shape[0], count, 1)).astype(np.int32)
    return shape, count, x, b.op("concat", columns, rows, dim=2), index


def _gather_batched(b, random):
    shape, _, x, vectors, index = _batched(b, random)
    b.output(b.op("gather", x, vectors, mode="clip", slice_sizes=[1, 1, shape[2]], offset_dims=[2],
                  collapsed_slice_dims=[0, 1], start_index_map=[1, 0], index_vector_dim=2), "y")  # fmt: skip
    return [whole(random, shape), index]


COMBINERS = ("add", "maximum", "minimum", "set")


def _scatter(b, random):
    shape, count = _shape(random), int(random.integers(4, 12))
    combiner = COMBINERS[random.integers(len(COMBINERS))]
    x, indices, updates = b.input("x", shape), b.input("i", (count, 1), "i32"), b.input("u", (count, *shape[1:]))
    b.output(b.op("scatter", x, indices, updates, update_window_dims=[1, 2], inserted_window_dims=[0],
                  scatter_dims_to_operand_dims=[0], index_vector_dim=1, combiner=combiner), "y")  # fmt: skip
    index = random.integers(-2, shape[0] + 2, (count, 1)).astype(np.int32)
    return [whole(random, shape), index, whole(random, (count, *shape[1:]))]


def _scatter_batched(b, random):
    shape, count, x, vectors, index = _batched(b, random)
    updates = b.input("u", (shape[0], count, shape[2]))
    b.output(b.op("scatter", x, vectors, updates, update_window_dims=[2], inserted_window_dims=[0, 1],
                  scatter_dims_to_operand_dims=[1, 0], index_vector_dim=2,
                  combiner=COMBINERS[random.integers(len(COMBINERS))]), "y")  # fmt: skip
    return [whole(random, shape), index, whole(random, (shape[0], count, shape[2]))]


def _windows(b, random):
    """Windows of any size at index vectors in any order and place; axis 0 of x may be numbered by a batch axis."""
    shape = [int(random.integers(4, 11)) for _ in range(int(random.integers(2, 4)))]
    batch = [int(random.integers(1, 5)) for _ in range(int(random.integers(1, 3)))]
    numbered = bool(random.integers(2))
    named = [axis for axis in range(numbered, len(shape)) if random.random() < 0.7] or [len(shape) - 1]
    named = [int(axis) for axis in random.permutation(named)]
    # of an axis that no index names, windows are whole
    sizes = [int(random.choice([1, random.integers(1, extent), extent])) if axis in named else extent
             for axis, extent in enumerate(shape)]  # fmt: skip
    single = [axis for axis in named if sizes[axis] == 1 and random.random() < 0.5]
    if numbered:
        place = int(random.integers(len(batch)))
        batch[place], sizes[0] = shape[0], 1
        single.append(0)
    vector = int(random.integers(len(batch) + 1))
    vectors = [*batch[:vector], len(named), *batch[vector:]]
    kept = len(shape) - len(single)
    window = sorted(int(i) for i in random.permutation(len(batch) + kept)[:kept])
    starts = random.integers(-1, 9, vectors).astype(np.int32)
    indices = b.input("i", vectors, "i32")
    if numbered:
        vectors[vector] = 1
        dim = place + (place >= vector)
        indices = b.op("concat", indices, b.op("iota", shape=vectors, dtype="i32", dim=dim), dim=vector)
        named = [*named, 0]
    return shape, batch, sizes, sorted(single), named, vector, window, indices, starts


def _gather_windows(b, random):
    shape, _, sizes, single, named, vector, window, indices, starts = _windows(b, random)
    b.output(b.op("gather", b.input("x", shape), indices, mode="clip", slice_sizes=sizes, offset_dims=window,
                  collapsed_slice_dims=single, start_index_map=named, index_vector_dim=vector), "y")  # fmt: skip
    return [starts, whole(random, shape)]


def _scatter_windows(b, random):
    """Windows may meet: the last one stays, where they are set."""
    shape, batch, sizes, single, named, vector, window, indices, starts = _windows(b, random)
    updates, rest = [], iter(batch)
    kept = iter(size for axis, size in enumerate(sizes) if axis not in single)
    for axis in range(len(batch) + len(window)):
        updates.append(next(kept) if axis in window else next(rest))
    combiner = COMBINERS[random.integers(len(COMBINERS))]
    b.output(b.op("scatter", b.input("x", shape), indices, b.input("u", updates), update_window_dims=window,
                  inserted_window_dims=single, scatter_dims_to_operand_dims=named, index_vector_dim=vector,
                  combiner=combiner), "y")  # fmt: skip
    return [starts, whole(random, shape), whole(random, updates)]


def _reverse(b, random):
    shape = _shape(random)
    dims = [axis for axis in range(3) if random.random() < 0.5] or [0]
    b.output(b.op("reverse", b.input("x", shape), dims=dims), "y")
    return [whole(random, shape)]


def _window_scatter(b, random):
    windows = [int(random.integers(2, 7)) for _ in range(3)]
    window = [int(random.integers(1, 4)) for _ in range(3)]
    shape = [count * extent for count, extent in zip(windows, window, strict=True)]
    select = ("maximum", "minimum")[random.integers(2)]
    b.output(b.op("window_scatter", b.input("x", shape), b.input("s", windows), window=window, strides=window,
                  select=select), "y")  # fmt: skip
    return [whole(random, shape), whole(random, windows)]


def _attention(b, random):
    queries, keys = int(random.integers(4, 12)), int(random.integers(4, 12))
    options = {"causal": bool(random.integers(2)), "window": int(random.integers(3)) * 2}
    if random.integers(2):
        options["causal_offset"] = int(random.integers(-2, 4))
    q, k, v = b.input("q", (2, 4, queries, 4)), b.input("k", (2, 2, keys, 4)), b.input("v", (2, 2, keys, 3))
    mask = [b.input("m", (queries, keys), ("bool", "f32")[random.integers(2)])] if random.integers(2) else []
    b.output(b.op("attention", q, k, v, *mask, **options), "y")
    inputs = [whole(random, shape) for shape in ((2, 4, queries, 4), (2, 2, keys, 4), (2, 2, keys, 3))]
    return inputs + [whole(random, (queries, keys)).astype(bool if m.dtype == "bool" else np.float32) for m in mask]
