"""Random operations that read a divided axis at shifted places."""

import numpy as np

import tilesim as ts

KINDS = ("convolution", "gradient", "pooling", "slice", "pad")


def random_window(seed):
    """A graph of one operation, the axis of its input x that windows slide over, and that of w (or None)."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    extent = int(rng.integers(4, 40))
    b = ts.GraphBuilder(kind)
    stride, hole = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    if kind in ("convolution", "gradient"):
        # a gradient's window is longer than its result
        inner = int(rng.integers(1, 3))
        reach = (extent - 1) * inner + 1
        taps = int(rng.integers(max(1, reach - 6), reach + 1)) if kind == "gradient" else int(rng.integers(1, 6))
        hole = 1 if kind == "gradient" else hole
        pads = [int(n) for n in rng.integers(-1, 4, 2)]
        while sum(pads) + reach < (taps - 1) * hole + 1:
            pads[1] += 1
        x, w = b.input("x", (2, 3, extent)), b.input("w", (4, 3, taps))
        y = b.op("convolution", x, w, x_labels="NCW", w_labels="OIW", y_labels="NCW", strides=[stride], pads=pads,
                 window_dilation=[hole], input_dilation=[inner])  # fmt: skip
        weight_axis = 2
    else:
        weight_axis = None
        x = b.input("x", (3, extent), "i32" if kind == "pooling" and rng.integers(2) else "f32")
        if kind == "pooling":
            taps = int(rng.integers(2, 5))
            pads = [int(n) for n in rng.integers(0, taps, 2)]
            if extent + sum(pads) < (taps - 1) * hole + 1:
                hole = 1
            combiner = ("maximum", "minimum", "add", "multiply")[int(rng.integers(4))]
            y = b.op("window_reduce", x, window=[1, taps], strides=[1, stride], pads=[0, 0, *pads],
                     window_dilation=[1, hole], combiner=combiner)  # fmt: skip
        elif kind == "slice":
            start = int(rng.integers(0, extent // 2))
            limit = int(rng.integers(start + 1, extent + 1))
            y = b.op("slice", x, start=[0, start], limit=[3, limit], stride=[1, stride])
        else:
            low, high = (int(n) for n in rng.integers(-1, 6, 2))
            value = [b.input("value", ())] if rng.integers(2) else []
            y = b.op("pad", x, *value, low=[0, low], high=[0, high], interior=[0, int(rng.integers(0, 3))])
    b.output(y, "y")
    return b.build(), len(x.shape) - 1, weight_axis
