"""Random operations that put axes together, find places of extremes, or accumulate, with whole numbers."""

import numpy as np

import tilesim as ts

KINDS = ("rotated", "joined", "shifted", "place", "running")
TYPES = {"f32": np.float32, "i32": np.int32}


def random_join(random):
    """A graph of one kind, named by it, and inputs; axis 0 is the one that matters."""
    kind = KINDS[random.integers(len(KINDS))]
    b = ts.GraphBuilder(kind)
    dtype = "f32" if random.random() < 0.6 else "i32"
    shapes = globals()["_" + kind](b, random, dtype)
    inputs = [random.integers(-2, 3, shape).astype(TYPES[dtype]) for shape in shapes]
    if dtype == "f32" and kind == "place" and random.random() < 0.3:
        inputs[0].flat[random.integers(inputs[0].size, size=2)] = np.nan
    return b.build(), inputs


def _shape(random):
    return [int(random.integers(1, 20)), int(random.integers(1, 5))]


def _cut(b, x, first, last, width):
    return b.op("slice", x, start=[first, 0], limit=[last, width])


def _rotated(b, random, dtype):
    """Stretches of one tensor in any order, some of them twice."""
    extent, width = shape = [int(random.integers(2, 20)), int(random.integers(1, 5))]
    x = b.input("x", shape, dtype)
    by = int(random.integers(1, extent))
    stretches = [(by, extent), (0, by)]
    if random.random() < 0.4:
        low = int(random.integers(extent))
        stretches.append((low, int(random.integers(low + 1, extent + 1))))
        random.shuffle(stretches)
    b.output(b.op("concat", *[_cut(b, x, *ends, width) for ends in stretches], dim=0), "y")
    return [shape]


def _joined(b, random, dtype):
    width = int(random.integers(1, 5))
    shapes = [[int(random.integers(1, 14)), width] for _ in range(random.integers(2, 5))]
    names = [b.input(f"x{i}", shape, dtype) for i, shape in enumerate(shapes)]
    operands = [*names, names[0]] if random.random() < 0.3 else names
    b.output(b.op("concat", *operands, dim=0), "y")
    return shapes


def _shifted(b, random, dtype):
    """A tensor moved by some elements, others in the gap; less itself."""
    extent, width = shape = [int(random.integers(2, 20)), int(random.integers(1, 5))]
    by = int(random.integers(1, extent))
    x, fill = b.input("x", shape, dtype), b.input("fill", [by, width], dtype)
    if random.random() < 0.5:
        moved = b.op("concat", fill, _cut(b, x, 0, extent - by, width), dim=0)
    else:
        moved = b.op("concat", _cut(b, x, by, extent, width), fill, dim=0)
    b.output(b.apply("subtract", x, moved), "y")
    b.output(b.apply("subtract", _cut(b, x, by, extent, width), _cut(b, x, 0, extent - by, width)), "gap")
    return [shape, [by, width]]


def _place(b, random, dtype):
    shape = _shape(random)
    combiner, kept = ["argmax", "argmin"][random.integers(2)], bool(random.integers(2))
    index = ["i32", "i64", "i8"][random.integers(3)]
    b.output(b.op("reduce", b.input("x", shape, dtype), dims=[0], combiner=combiner, keep_dims=kept, dtype=index), "y")
    return [shape]


def _running(b, random, dtype):
    shape = _shape(random)
    combiner = ["add", "multiply", "maximum", "minimum"][random.integers(4)]
    reverse, exclusive = bool(random.integers(2)), bool(random.integers(2))
    x = b.input("x", shape, dtype)
    b.output(b.op("cumulative", x, dim=0, combiner=combiner, reverse=reverse, exclusive=exclusive), "y")
    return [shape]
