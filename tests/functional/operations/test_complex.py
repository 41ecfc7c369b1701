"""Complex numbers at the border of a graph: c64 or c128 in and out, pairs of reals within, equal to the framework's."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts

RNG = np.random.default_rng(5)
X = (RNG.standard_normal((8, 16)) + 1j * RNG.standard_normal((8, 16))).astype(np.complex64)


def agree(graph: ts.Graph, x: np.ndarray, wanted: np.ndarray) -> None:
    name = {"complex64": "c64", "complex128": "c128"}[wanted.dtype.name]
    assert [row["dtype"] for row in (*graph.inputs, *graph.outputs)] == [name, name]
    got = next(iter(ts.reference(graph, (x,)).values()))
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
    program = ts.compile(graph, "tpu-v3")
    np.testing.assert_allclose(next(iter(ts.execute(program, (x,)).values())), wanted, rtol=1e-5, atol=1e-5)
    assert ts.simulate(program).cycles > 0


def test_jax():
    jax = pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    agree(ts.from_jax(lambda a: a * a + 1j, X), X, X * X + np.complex64(1j))
    agree(ts.from_jax(jax.numpy.fft.fft, X), X, np.fft.fft(X).astype(np.complex64))


def test_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    class Turn(torch.nn.Module):
        def forward(self, x):
            return x * (1 + 2j)

    class Spectrum(torch.nn.Module):
        def forward(self, x):
            return torch.fft.fft(x)

    x = torch.from_numpy(X)
    agree(ts.from_torch(Turn(), (x,)), X, X * np.complex64(1 + 2j))
    agree(ts.from_torch(Spectrum(), (x,)), X, np.fft.fft(X).astype(np.complex64))
    double = X.astype(np.complex128)
    agree(ts.from_torch(Turn(), (x.to(torch.complex128),)), double, double * (1 + 2j))
