"""Reference kernels against PyTorch, where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

from support.kernel_checks import ROUNDOFF, check, gamma, random, run

CASES = [
    {"x": (2, 4, 9, 8), "w": (6, 4, 3, 3), "stride": 2, "padding": 1},
    {"x": (1, 6, 10, 10), "w": (6, 2, 3, 3), "groups": 3, "dilation": 2},
    {"x": (2, 8, 7, 7), "w": (8, 1, 5, 5), "groups": 8, "padding": 2},
    {"x": (2, 3, 20), "w": (5, 3, 4), "stride": 3, "padding": 2},
    {"x": (1, 2, 6, 5, 7), "w": (4, 2, 2, 3, 3), "stride": 2, "padding": 1},
]
LABELS = {1: ("NCW", "OIW"), 2: ("NCHW", "OIHW"), 3: ("NCDHW", "OIDHW")}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['x']}x{case['w']}")
def test_convolution_as_torch(case):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    options = dict(case)
    x, w = random(rng, options.pop("x"), "f64"), random(rng, options.pop("w"), "f64")
    bias = random(rng, w.shape[:1], "f64")
    rank = x.ndim - 2
    reference = getattr(torch.nn.functional, f"conv{rank}d")(*map(torch.from_numpy, (x, w, bias)), **options).numpy()
    labels, w_labels = LABELS[rank]
    y = run(
        "convolution",
        x,
        w,
        bias,
        x_labels=labels,
        w_labels=w_labels,
        y_labels=labels,
        strides=[options.get("stride", 1)] * rank,
        pads=[options.get("padding", 0)] * (2 * rank),
        window_dilation=[options.get("dilation", 1)] * rank,
        groups=options.get("groups", 1),
        dtype="f64",
    )
    check(y, reference, "f64", gamma(4 * w[0].size, ROUNDOFF["f64"]) * w[0].size)


def test_transposed_convolution_as_torch():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    x, w = random(rng, (2, 3, 5, 6), "f64"), random(rng, (3, 4, 3, 3), "f64")
    transposed = torch.nn.functional.conv_transpose2d
    reference = transposed(torch.from_numpy(x), torch.from_numpy(w), stride=2, padding=1).numpy()
    flipped = np.ascontiguousarray(w[:, :, ::-1, ::-1])
    y = run(
        "convolution",
        x,
        flipped,
        x_labels="NCHW",
        w_labels="IOHW",
        y_labels="NCHW",
        strides=[1, 1],
        pads=[1, 1, 1, 1],
        input_dilation=[2, 2],
        dtype="f64",
    )
    check(y, reference, "f64", gamma(60, ROUNDOFF["f64"]) * 30)


def test_pooling_and_attention_as_torch():
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    rng = np.random.default_rng(2)
    x = random(rng, (2, 3, 9, 9), "f32")
    common = {"window": [1, 1, 3, 3], "strides": [1, 1, 2, 2], "pads": [0, 0, 0, 0, 1, 1, 1, 1]}
    y = run("window_reduce", x, combiner="maximum", **common)
    assert np.array_equal(y, functional.max_pool2d(torch.from_numpy(x), 3, 2, 1).numpy())
    q, k, v = (random(rng, (2, 4, 6, 8), "f64") for _ in range(3))
    reference = functional.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)), is_causal=True).numpy()
    check(run("attention", q, k, v, causal=True), reference, "f64", 1e-14)


def test_softmax_rows_without_a_maximum_as_torch():
    torch = pytest.importorskip("torch")
    x = np.array([[-np.inf, -np.inf], [np.inf, 0], [np.nan, 1], [-np.inf, 2]], np.float32)
    for kind in ("softmax", "log_softmax"):
        reference = getattr(torch, kind)(torch.from_numpy(x), 1).numpy()
        assert np.array_equal(run(kind, x, dim=1), reference, equal_nan=True)


# ---- errors and empty shapes
