"""Reference kernels of softmax, normalizations and attention against numpy."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from support.kernel_checks import NUMPY, ROUNDOFF, cases, check, floats, random, run, seeds, shapes


def softmax(x, axis=-1):
    with np.errstate(invalid="ignore"):
        e = np.exp(x - np.max(x, axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


@cases(seeds, shapes.filter(bool), floats, st.data())
def test_softmax(seed, shape, dtype, data):
    rng = np.random.default_rng(seed)
    x = random(rng, shape, dtype, -20, 20)
    axis = data.draw(st.integers(0, len(shape) - 1))
    wide = x.astype(np.float64)
    u = 40 * ROUNDOFF["f64"] * x.size
    reference = softmax(wide, axis)
    check(run("softmax", x, dim=axis), reference, dtype, u * reference)
    logs = wide - np.max(wide, axis, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(axis, keepdims=True))
    check(run("log_softmax", x, dim=axis), logs, dtype, 100 * ROUNDOFF["f64"] * (1 + np.abs(logs)))


@cases(seeds, floats, st.sampled_from(["layer", "rms", "group", "instance"]), st.booleans())
def test_normalize(seed, dtype, mode, affine):
    rng = np.random.default_rng(seed)
    x = random(rng, (2, 6, 3, 4), dtype, -2, 3)
    wide = x.astype(np.float64)
    if mode in ("layer", "rms"):
        dims, parameters = [2, 3], (3, 4)
        rows = wide.reshape(12, 12)
        extra = {"dims": dims}
    else:
        groups = 3 if mode == "group" else 6
        parameters = (6,)
        rows = wide.reshape(2 * groups, -1)
        extra = {"groups": groups} if mode == "group" else {}
    mean = rows.mean(1) if mode != "rms" else np.zeros(len(rows))
    rstd = 1 / np.sqrt(((rows - mean[:, None]) ** 2).mean(1) + 1e-3)
    reference = ((rows - mean[:, None]) * rstd[:, None]).reshape(x.shape)
    operands = [x]
    if affine:
        scale, bias = random(rng, parameters, dtype), random(rng, parameters, dtype)
        operands += [scale, bias]
        shape = parameters if mode in ("layer", "rms") else (6, 1, 1)
        reference = reference * scale.astype(np.float64).reshape(shape) + bias.astype(np.float64).reshape(shape)
    y, got_mean, got_rstd = run("normalize", *operands, results=3, mode=mode, epsilon=1e-3, **extra)
    check(y, reference, dtype, 1000 * ROUNDOFF["f64"])
    stored = {np.dtype(NUMPY[d]): d for d in ROUNDOFF}[got_mean.dtype]
    check(got_mean.reshape(-1), mean, stored, 100 * ROUNDOFF["f64"])
    check(got_rstd.reshape(-1), rstd, stored, 100 * ROUNDOFF["f64"])


@cases(seeds, floats, st.integers(0, 2))
def test_batch_norm(seed, dtype, feature):
    rng = np.random.default_rng(seed)
    x = random(rng, (3, 4, 5), dtype)
    n = x.shape[feature]
    scale, bias, mean = (random(rng, (n,), dtype) for _ in range(3))
    variance = random(rng, (n,), dtype, 0.5, 2)
    shape = [-1 if i == feature else 1 for i in range(3)]
    s, b, m, v, wide = (a.astype(np.float64) for a in (scale, bias, mean, variance, x))
    reference = (wide - m.reshape(shape)) / np.sqrt(v.reshape(shape) + 1e-5) * s.reshape(shape) + b.reshape(shape)
    y = run("batch_norm", x, scale, bias, mean, variance, feature_dim=feature, epsilon=1e-5)
    check(y, reference, dtype, 100 * ROUNDOFF["f64"])


def attention(q, k, v, mask=None, scale=None, causal=False, offset=None, window=0, cap=0.0, masked_row="zero"):
    """The definition, head by head, in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    repeat = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeat, 1), np.repeat(v, repeat, 1)
    s, t = q.shape[2], k.shape[2]
    scores = np.einsum("bhsd,bhtd->bhst", q, k) * (scale or 1 / math.sqrt(q.shape[3]))
    if cap:
        scores = cap * np.tanh(scores / cap)
    offset = t - s if offset is None else offset
    rows, columns = np.arange(s)[:, None], np.arange(t)[None, :]
    hidden = np.zeros((s, t), bool)
    if causal:
        hidden |= columns > rows + offset
    if window:
        hidden |= columns <= rows + offset - window
    scores = np.where(hidden, -np.inf, scores)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask.astype(np.float64)
    p = softmax(scores)
    dead = np.all(np.isneginf(scores), -1)
    p[dead] = 0 if masked_row == "zero" else np.nan
    return np.einsum("bhst,bhte->bhse", p, v)


@cases(seeds, floats, st.data())
def test_attention(seed, dtype, data):
    rng = np.random.default_rng(seed)
    b, g, repeat, s, t, d, e = (int(n) for n in rng.integers(1, 5, 7))
    s, t = s + 3, t + 4
    q, k, v = (random(rng, shape, dtype) for shape in ((b, g * repeat, s, d), (b, g, t, d), (b, g, t, e)))
    options = {}
    if data.draw(st.booleans()):
        options["causal"] = True
        if data.draw(st.booleans()):
            options["causal_offset"] = int(rng.integers(-2, 4))
        if data.draw(st.booleans()):
            options["window"] = int(rng.integers(1, 5))
    if data.draw(st.booleans()):
        options["soft_cap"] = 2.0
    if data.draw(st.booleans()):
        options["scale"] = 0.7
    options["masked_row"] = data.draw(st.sampled_from(["zero", "nan"]))
    operands = [q, k, v]
    kind = data.draw(st.sampled_from(["none", "bool", "float"]))
    mask = None
    if kind == "bool":
        mask = rng.random((b, 1, s, t)) < 0.6
    elif kind == "float":
        mask = random(rng, (s, t), dtype)
    if mask is not None:
        operands.append(mask)
    names = {"causal_offset": "offset", "soft_cap": "cap"}
    reference = attention(q, k, v, mask, **{names.get(key, key): value for key, value in options.items()})
    # scores err by gamma(d) each, which the exponential turns into a relative error of the weights
    slack = 20 * (d + t + 10) * ROUNDOFF["f64" if dtype == "f64" else "f32"]
    check(run("attention", *operands, **options), reference, dtype, slack)


# ---- against torch
