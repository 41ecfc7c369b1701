"""What the tests of reference kernels share: one operation, bounds, random operands."""

from __future__ import annotations

import hypothesis
import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from tilesim import _core


def cases(*strategies):
    """hypothesis.given with a number of examples that keeps the whole file within half a minute."""
    limits = hypothesis.settings(deadline=None, max_examples=25)
    return lambda test: limits(hypothesis.given(*strategies)(test))


NUMPY = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32,
    "i8": np.int8, "u8": np.uint8, "i64": np.int64, "bool": np.bool_,
}  # fmt: skip
ROUNDOFF = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
TINY = {"f64": 1e-300, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}


def run(kind, *operands, results=1, numerics=None, **attributes):
    outputs = _core.evaluate_op(kind, list(operands), attributes, results, numerics or {})
    return outputs[0] if results == 1 else outputs


def gamma(n, u):
    return n * u / (1 - n * u)


def check(result, reference, dtype, slack=0.0):
    """result == reference up to one rounding to f32 (or f64), one to dtype, and `slack` (absolute)."""
    reference = np.asarray(reference, np.float64)
    assert result.shape == reference.shape
    assert result.dtype == NUMPY[dtype]
    wide = result.astype(np.float64)
    rounding = ROUNDOFF[dtype] + (ROUNDOFF["f32"] if dtype in ("f16", "bf16") else 0)
    bound = slack + 1.0001 * rounding * np.abs(reference) + TINY[dtype]
    same = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
    assert np.all(same | (np.abs(wide - reference) <= bound)), np.max(np.abs(wide - reference) - bound)


def random(rng, shape, dtype, low=-1.0, high=1.0):
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith("f") or dtype == "bf16":
        return rng.uniform(low, high, shape).astype(NUMPY[dtype])
    limits = np.iinfo(NUMPY[dtype])
    return rng.integers(max(limits.min, -100), min(limits.max, 100), shape, dtype=NUMPY[dtype])


seeds = st.integers(0, 2**32 - 1)
shapes = st.lists(st.integers(1, 6), min_size=0, max_size=4)
floats = st.sampled_from(["f64", "f32", "f16", "bf16"])


# ---- products
