"""JAX functions with inputs, by name: what a StableHLO front end must read with the values of JAX's own run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RNG = np.random.default_rng(7)
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {}


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(*shape: int, low: int = -5, high: int = 6) -> Any:
    return RNG.integers(low, high, shape).astype(np.int32)


def case(name: str, function: Any, *args: Any) -> None:
    CASES[name] = (function, args)


x, y, v, small = floats(4, 8), floats(4, 8), floats(8), np.tanh(floats(4, 8)) * np.float32(0.9)
masked = np.where(x > 0, -np.inf, x).astype(np.float32)
special = np.array([-np.inf, -1.5, -0.0, 0.0, 1.0, np.inf, np.nan, 2.0], np.float32)

for name in [
    "sin", "cos", "tan", "tanh", "exp", "expm1", "sign", "floor", "ceil", "round", "square", "cbrt", "sinh", "cosh",
    "arctan", "arcsinh", "rint", "trunc",
]:  # fmt: skip
    case(name, getattr(jnp, name), x)
for name in ["isnan", "isinf", "isfinite", "abs", "negative", "sign", "exp", "tanh"]:
    case(f"{name} of special values", getattr(jnp, name), special)
case("log1p", jnp.log1p, np.abs(x))
case("arccosh", jnp.arccosh, np.abs(x) + 1.5)
case("arctanh", jnp.arctanh, small)
for name in [
    "add", "subtract", "multiply", "divide", "arctan2", "maximum", "minimum", "fmod", "remainder", "floor_divide",
    "less", "logaddexp",
]:  # fmt: skip
    case(name, getattr(jnp, name), x, y)
case("nextafter", jnp.nextafter, x, y)
case("power", jnp.power, np.abs(x), y)
for name in [
    "add", "multiply", "floor_divide", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "gcd",
]:  # fmt: skip
    case(f"{name} of integers", getattr(jnp, name), integers(4, 8), integers(4, 8))
case("division by zero", lax.div, integers(4, 8), np.zeros((4, 8), np.int32))
case("shifts", lambda a: (a << 3, a >> 1, lax.shift_right_logical(a, 2 * jnp.ones_like(a))), integers(9))
case("bits", lambda a: (lax.clz(a), lax.population_count(a), ~a), integers(9))
for name in [
    "sum", "prod", "max", "min", "mean", "std", "var", "argmax", "argmin", "any", "all", "cumsum", "cumprod", "sort",
    "argsort", "median",
]:  # fmt: skip
    case(name, lambda a, n=name: getattr(jnp, n)(a, -1), x)
    case(f"{name} of everything", lambda a, n=name: getattr(jnp, n)(a), x)
for name in ["max", "min", "argmax", "argmin", "sort", "argsort"]:
    case(f"{name} of special values", getattr(jnp, name), special)
case("maximum of masked rows", lambda a: a.max(-1), masked)
case("softmax of masked rows", lambda a: jax.nn.softmax(a), masked)
case("log of sums of masked rows", lambda a: jax.nn.logsumexp(a, -1), masked)
case("descending sort", lambda a: jnp.argsort(a, descending=True), np.round(x))
case("lexsort", lambda a, b: jnp.lexsort((a, b)), integers(20, low=0, high=4), integers(20, low=0, high=4))
case("sort by two keys", lambda a, b: lax.sort((a, b), num_keys=2), np.round(floats(20)), np.round(floats(20)))
case("top k", lambda a: lax.top_k(a, 3), x)
case("search", jnp.searchsorted, np.sort(floats(20)), floats(7))
case("unique", lambda a: jnp.unique(a, size=8), integers(20))
case("a reduction of its own", lambda a: lax.reduce(a, jnp.float32(1), lambda p, q: p * q + p + q, (1,)), small)
case("exclusive or", lambda a: lax.reduce_xor(a, (1,)), integers(4, 8))
case("running maximum", lambda a: lax.cummax(a, 1, reverse=True), x)
case("running log of sums", lambda a: lax.cumlogsumexp(a, 1), x)
case(
    "windows of its own",
    lambda a: lax.reduce_window(a, 1.0, lambda p, q: p * q + p + q, (2, 3), (1, 2), "VALID"),
    small,
)
case("dot", jnp.dot, x, floats(8, 5))
case("einsum", lambda a, b: jnp.einsum("bhqd,bkhd->bhqk", a, b), floats(2, 3, 4, 5), floats(2, 6, 3, 5))
case(
    "matmul of bf16",
    lambda a: lax.dot(a.astype("bfloat16"), a.T.astype("bfloat16"), preferred_element_type="float32"),
    x,
)
case("matmul of i8", lambda a: lax.dot(a, a.T, preferred_element_type="int32"), integers(4, 8).astype(np.int8))
case("convolution", lambda a, w: lax.conv_general_dilated(a, w, (2, 1), "SAME"), floats(2, 3, 8, 9), floats(4, 3, 3, 3))
case(
    "convolution with labels",
    lambda a, w: lax.conv_general_dilated(
        a,
        w,
        (1, 1),
        ((1, 2), (0, 1)),
        lhs_dilation=(2, 1),
        rhs_dilation=(1, 2),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=2,
    ),
    floats(2, 8, 9, 4),
    floats(3, 3, 2, 6),
)
case(
    "gradient of a convolution",
    lambda a, w: jax.grad(lambda w: lax.conv_general_dilated(a, w, (2, 2), "SAME", feature_group_count=2).sum() ** 2)(
        w
    ),
    floats(2, 4, 8, 8),
    floats(6, 2, 3, 3),
)
case("convolve", jnp.convolve, floats(9), floats(4))
pool = (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
case("maximum pooling", lambda a: lax.reduce_window(a, -jnp.inf, lax.max, *pool), floats(1, 7, 7, 3))
case(
    "its gradient", jax.grad(lambda a: (lax.reduce_window(a, -jnp.inf, lax.max, *pool) ** 2).sum()), floats(1, 7, 7, 3)
)
case("rows", lambda t, i: t[i], floats(10, 6), integers(3, 4, low=-10, high=10))
case("columns", lambda t, i: jnp.take(t, i, axis=1), floats(10, 6), integers(3, low=0, high=9))
case("along an axis", lambda t, i: jnp.take_along_axis(t, i, axis=1), floats(4, 6), integers(4, 3, low=0, high=6))
case("fancy", lambda t, i, j: t[i, :, j], floats(5, 6, 7), integers(3, low=0, high=5), integers(3, low=0, high=7))
case("gather of a batch", jax.vmap(lambda t, i: t[i]), floats(3, 6, 2), integers(3, 4, low=0, high=6))
out = np.array([1, 4, 20], np.int32)
twice = np.array([1, 1, 3], np.int32)
case("set", lambda t, i, u: t.at[i].set(u), floats(10, 3), out, floats(3, 3))
case("add at", lambda t, i, u: t.at[i].add(u), floats(10, 3), twice, floats(3, 3))
case("multiply at", lambda t, i: t.at[i, 1].multiply(2.0), floats(10, 3), twice)
case("minimum at", lambda t, i, u: t.at[:, i].min(u), floats(4, 10), twice, floats(4, 3))
case("scatter of a batch", jax.vmap(lambda t, i: t.at[i].add(1.0)), floats(3, 6), integers(3, 4, low=0, high=6))
case("segments", lambda a, i: jax.ops.segment_sum(a, i, 4), floats(10, 3), integers(10, low=0, high=4))
case("dynamic slice", lambda t, i: lax.dynamic_slice(t, (i, 0), (2, 3)), floats(10, 3), np.int32(20))
case("dynamic update", lambda t, i: lax.dynamic_update_slice(t, t[:2] * 2, (i, 0)), floats(10, 3), np.int32(3))
case("pad", lambda a: lax.pad(a, 0.5, ((-1, 2, 1), (2, -3, 2))), x)
case("reflect", lambda a: jnp.pad(a, ((1, 2), (0, 3)), mode="reflect"), x)
case(
    "movement", lambda a: (jnp.roll(a, 3, 1), jnp.tile(a, (2, 3)), jnp.repeat(a, 3, 1), jnp.flip(a), a[::2, 1:-1:3]), x
)
case("fori", lambda a: lax.fori_loop(0, 5, lambda i, c: c * 0.5 + a[0, i], a), x)
case(
    "while",
    lambda a: lax.while_loop(lambda s: s[0] < 50.0, lambda s: (s[0] * 2 + 1, s[1] + s[0]), (a[0, 0] ** 2, a)),
    x,
)
case("scan", lambda a: lax.scan(lambda c, t: (c * 0.9 + t, c.sum()), a[0], a), x)
case("cond", lambda a: lax.cond(a.sum() > 0, lambda a: a * 2, lambda a: a - 1, a), x)
case("switch", lambda a, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], a), x, np.int32(7))
case("associative scan", lambda a: lax.associative_scan(jnp.add, a, axis=1), x)
for name in [
    "relu", "gelu", "silu", "softplus", "sigmoid", "softmax", "log_softmax", "elu", "hard_swish", "selu", "mish",
    "glu", "standardize",
]:  # fmt: skip
    case(f"nn.{name}", getattr(jax.nn, name), x)
case("exact gelu", lambda a: jax.nn.gelu(a, approximate=False), x)
case(
    "attention", lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True), floats(2, 5, 4, 8),
    floats(2, 5, 2, 8), floats(2, 5, 2, 8),
)  # fmt: skip
case("erfinv", jax.scipy.special.erfinv, small)
case("gammaln", jax.scipy.special.gammaln, np.abs(x) + 0.1)
case("digamma", jax.scipy.special.digamma, np.abs(x) + 0.1)
case("i0e", jax.scipy.special.i0e, x)
case("cholesky", lambda a: jnp.linalg.cholesky(a @ a.T + 4 * jnp.eye(4)), x)
case(
    "triangular solve",
    lambda a, b: jax.scipy.linalg.solve_triangular(a @ a.T + 4 * jnp.eye(4), b, lower=True),
    x,
    floats(4, 3),
)
case("fft", lambda a: jnp.abs(jnp.fft.fft(a)), x)
case("rfft", lambda a: jnp.fft.rfft(a).real, x)
case("irfft", lambda a: jnp.fft.irfft(jnp.fft.rfft(a) * 2), x)
case("irfft of odd extent", lambda a: jnp.fft.irfft(jnp.fft.rfft(a), 9), floats(3, 9))
case("complex in and out", lambda a: a * a + 1j, (x + 1j * y).astype(np.complex64))
case("complex product", lambda a: a @ a.T, (x + 1j * y).astype(np.complex64))
case("random numbers", lambda: jax.random.normal(jax.random.key(3), (4, 5)))
case("permutation", lambda: jax.random.permutation(jax.random.key(3), 10))
case(
    "narrow floats", lambda a: (a.astype("bfloat16").astype("float32"), a.astype("float8_e4m3fn").astype("float32")), x
)
case("to integers", lambda a: ((a * 1e10).astype("int32"), (a * 40).astype("uint8")), x)
case("bitcasts", lambda a: (lax.bitcast_convert_type(a, "int32"), lax.bitcast_convert_type(a, "uint8")), x)
case("wider bitcast", lambda a: lax.bitcast_convert_type(a, "int32"), integers(3, 4, low=0, high=255).astype(np.uint8))
case("less precision", lambda a: lax.reduce_precision(a, 5, 10), x)
case("ragged product", lax.ragged_dot, floats(6, 4), floats(3, 4, 5), np.array([2, 1, 3], np.int32))
case("interpolation", lambda a: jnp.interp(a, jnp.linspace(-1, 1, 5), jnp.arange(5.0)), x)
case("resize", lambda a: jax.image.resize(a, (6, 5), "bilinear"), x)
case("trees", lambda p, a: {"o": p["w"] @ a, "s": p["b"].sum()}, {"w": floats(3, 4), "b": floats(3)}, x)
case("gradients", jax.grad(lambda a: (jnp.sort(a) * jnp.arange(8.0)).sum() + jax.nn.log_softmax(a)[:, 0].sum()), x)
