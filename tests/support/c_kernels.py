"""Kernels in C as compilers make them of plain loops, and what numpy says of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SOURCE = r"""
#include <stddef.h>
#include <stdint.h>

static inline float power(float x) {            /* e^x for x <= 0: 2^n times a polynomial */
  if (x < -80.0f) x = -80.0f;
  float scaled = x * 1.44269504f;
  int32_t n = (int32_t)(scaled - 0.5f);
  float r = x - (float)n * 0.693359375f + (float)n * 2.12194440e-4f;
  float high = 0.16666667f + r * (0.041666668f + r * (0.008333334f + r * 0.0013888889f));
  float p = 1.0f + r * (1.0f + r * (0.5f + r * high));
  union { int32_t i; float f; } two = {(n + 127) << 23};
  return p * two.f;
}
void softmax(const float *x, float *y, long rows, long width) {
  for (long r = 0; r < rows; ++r, x += width, y += width) {
    float most = x[0], sum = 0;
    for (long i = 1; i < width; ++i) most = x[i] > most ? x[i] : most;
    for (long i = 0; i < width; ++i) y[i] = power(x[i] - most);
    for (long i = 0; i < width; ++i) sum += y[i];
    for (long i = 0; i < width; ++i) y[i] /= sum;
  }
}
void layer_norm(const float *x, const float *gamma, const float *beta, float *y, long rows, long width) {
  for (long r = 0; r < rows; ++r, x += width, y += width) {
    float sum = 0, squares = 0;
    for (long i = 0; i < width; ++i) sum += x[i];
    float mean = sum / (float)width;
    for (long i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    float scale = 1.0f / __builtin_sqrtf(squares / (float)width + 1e-5f);
    for (long i = 0; i < width; ++i) y[i] = (x[i] - mean) * scale * gamma[i] + beta[i];
  }
}
void gemm(const float *restrict a, const float *restrict b, float *restrict c, long m, long n, long k) {
  for (long i = 0; i < m; ++i)
    for (long p = 0; p < k; ++p)
      for (long j = 0; j < n; ++j) c[i * n + j] += a[i * k + p] * b[p * n + j];
}
void conv(const int8_t *restrict x, const int8_t *restrict w, int32_t *restrict y, long rows, long columns) {
  for (long i = 0; i + 2 < rows; ++i)
    for (long j = 0; j + 2 < columns; ++j) {
      int32_t sum = 0;
      for (long u = 0; u < 3; ++u)
        for (long v = 0; v < 3; ++v) sum += (int32_t)x[(i + u) * columns + j + v] * w[3 * u + v];
      y[i * (columns - 2) + j] = sum;
    }
}
void sort(int32_t *x, long n) {                 /* odd-even transposition: compares neighbours, vectorises */
  for (long pass = 0; pass < n; ++pass)
    for (long i = pass & 1; i + 1 < n; i += 2) {
      int32_t a = x[i], b = x[i + 1];
      x[i] = a < b ? a : b, x[i + 1] = a < b ? b : a;
    }
}
long text(const char *a, char *b, long n) {     /* length, copy in upper case, letters counted */
  long length = 0, letters = 0;
  while (a[length]) ++length;
  for (long i = 0; i < length && i + 1 < n; ++i) {
    unsigned char c = (unsigned char)a[i];
    int small = c >= 'a' && c <= 'z';
    b[i] = (char)(small ? c - 32 : c);
    letters += small || (c >= 'A' && c <= 'Z');
  }
  return 1000 * length + letters;
}
void chosen(const uint16_t *x, const uint8_t *keep, uint64_t *y, long n) {   /* masks, widening, strides */
  for (long i = 0; i < n; ++i)
    if (keep[i]) y[i] = (uint64_t)x[3 * i] * x[3 * i + 2] + (x[3 * i + 1] >> 3);
}
int64_t saturated(const int16_t *x, const int16_t *y, int16_t *z, long n) {
  int64_t sum = 0;
  for (long i = 0; i < n; ++i) {
    int32_t s = (int32_t)x[i] + y[i];
    s = s > 32767 ? 32767 : s < -32768 ? -32768 : s;
    z[i] = (int16_t)s, sum += s;
  }
  return sum;
}
"""

#: Arguments (arrays are written in place), and the check of them and of the value.
Case = tuple[str, list[Any], str | None, Callable[[list[Any], Any], None]]


def close(found: Any, wanted: Any, tolerance: float = 2e-5) -> None:
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def _softmax(a: list[Any], _: Any) -> None:
    wide = a[0].astype(np.float64)
    weights = np.exp(wide - wide.max(1, keepdims=True))
    close(a[1], weights / weights.sum(1, keepdims=True))


def _layer_norm(a: list[Any], _: Any) -> None:
    wide = a[0].astype(np.float64)
    scaled = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    close(a[3], scaled * a[1] + a[2], 1e-4)


def _conv(a: list[Any], _: Any) -> None:
    windows = np.lib.stride_tricks.sliding_window_view(a[0].astype(np.int32), (3, 3))
    np.testing.assert_array_equal(a[2], np.einsum("ijuv,uv->ij", windows, a[1].astype(np.int32)))


def cases(seed: int = 0) -> list[Case]:
    """Functions with arguments of ragged sizes, and their checks."""
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    x, shuffled = normal(3, 77), rng.integers(-(2**31), 2**31, 91).astype(np.int32)
    sentence = b"The quick brown fox jumps over the lazy dog; PACK MY BOX with 5 dozen jugs!"
    letters, upper = np.frombuffer(sentence + b"\0", np.uint8).copy(), np.zeros(100, np.uint8)
    wide, keep = rng.integers(0, 2**16, (83, 3)).astype(np.uint16), rng.integers(0, 2, 83).astype(np.uint8)
    one, other = (rng.integers(-(2**15), 2**15, 131).astype(np.int16) for _ in range(2))

    def sums(a: list[Any], value: Any) -> None:
        exact = np.clip(one.astype(np.int32) + other, -32768, 32767)
        np.testing.assert_array_equal(a[2], exact.astype(np.int16))
        assert value == int(exact.sum())

    def texts(a: list[Any], value: Any) -> None:
        assert bytes(a[1]).rstrip(b"\0") == sentence.upper()
        assert value == 1000 * len(sentence) + sum(chr(c).isalpha() for c in sentence)

    def picked(a: list[Any], _: Any) -> None:
        w = wide.astype(np.uint64)
        wanted = np.where(keep, w[:, 0] * w[:, 2] + (w[:, 1] >> np.uint64(3)), np.uint64(7))
        np.testing.assert_array_equal(a[2], wanted)

    return [
        ("softmax", [10 * x, np.zeros_like(x), 3, 77], None, _softmax),
        ("layer_norm", [x, normal(77), normal(77), np.zeros_like(x), 3, 77], None, _layer_norm),
        (
            "gemm",
            [normal(7, 19), normal(19, 37), np.zeros((7, 37), np.float32), 7, 37, 19],
            None,
            lambda a, _: close(a[2], a[0].astype(np.float64) @ a[1]),
        ),
        (
            "conv",
            [
                rng.integers(-128, 128, (13, 45)).astype(np.int8),
                rng.integers(-128, 128, (3, 3)).astype(np.int8),
                np.zeros((11, 43), np.int32),
                13,
                45,
            ],
            None,
            _conv,
        ),
        ("sort", [shuffled.copy(), 91], None, lambda a, _: np.testing.assert_array_equal(a[0], np.sort(shuffled))),
        ("text", [letters, upper, 100], "i64", texts),
        ("chosen", [wide, keep, np.full(83, 7, np.uint64), 83], None, picked),
        ("saturated", [one, other, np.zeros(131, np.int16), 131], "i64", sums),
    ]
