"""jnp.fft, jnp.linalg, torch.fft, torch.linalg and gradients of pooling: tiled execution equals the framework."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts

RANDOM = np.random.default_rng(3)
LOOPS = {"solve", "solve a vector", "inverse", "determinant", "logarithm of a determinant", "QR", "LU", "last power"}


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


A = floats(5, 5)
SPD = (A @ A.T + 5 * np.eye(5)).astype(np.float32)
PAIR = np.stack([SPD, SPD + np.float32(1)])


def jax_cases() -> dict[str, tuple[Any, ...]]:
    jax = pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    jnp, lax, linalg = jax.numpy, jax.lax, jax.scipy.linalg

    def pooled(x: Any, window: int, stride: int, pads: str) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, window, window, 1), (1, stride, stride, 1), pads)

    def process(x: Any, y: Any) -> Any:
        near = jnp.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1)) + 0.5 * jnp.eye(9)
        return linalg.cho_solve((jnp.linalg.cholesky(near), True), y)

    return {
        "two dims": (lambda x: jnp.abs(jnp.fft.fft2(x)), floats(2, 6, 10)),
        "real": (lambda x: jnp.fft.rfftn(x).imag, floats(3, 4, 5)),
        "back": (lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x) ** 2), floats(2, 4, 6)),
        "a prime": (lambda x: jnp.fft.ifft(x).real, floats(2, 53)),
        "convolution": (jax.scipy.signal.fftconvolve, floats(20), floats(7)),
        "cosines": (jax.scipy.fft.dct, floats(2, 12)),
        "solve": (jnp.linalg.solve, A, floats(5, 2)),
        "solve a vector": (jnp.linalg.solve, A, floats(5)),
        "inverse": (jnp.linalg.inv, PAIR),
        "determinant": (jnp.linalg.det, A),
        "logarithm of a determinant": (lambda a: jnp.linalg.slogdet(a)[1], A),
        "QR": (lambda a: jnp.linalg.qr(a)[0], floats(5, 3)),
        "LU": (lambda a: linalg.lu(a)[2], A),
        "factor": (jnp.linalg.cholesky, PAIR),
        "no factor": (jnp.linalg.cholesky, A + A.T - 9 * np.eye(5, dtype=np.float32)),
        "factor's gradient": (jax.grad(lambda a: jnp.linalg.cholesky(a @ a.T + 5 * jnp.eye(5)).sum()), A),
        "substitution": (lambda a, b: linalg.solve_triangular(a, b, lower=True, trans=1), SPD, floats(5, 3)),
        "process": (process, floats(9, 3), floats(9)),
        "pool's gradient": (jax.grad(lambda x: (pooled(x, 3, 2, "SAME") ** 2).sum()), floats(1, 7, 7, 2)),
        "pool's gradient, apart": (jax.grad(lambda x: pooled(x, 2, 3, "VALID").sum()), floats(1, 8, 8, 2)),
    }


def agree(graph: ts.Graph, machine: str | ts.Machine, given: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    program = ts.compile(graph, machine, mapping="heuristic")  # what is imported, not how it is mapped
    check = ts.verify(program, given)
    assert check.ok, [row for row in check.rows if not row["ok"]]
    for mine, theirs in zip(ts.execute(program, given).values(), wanted, strict=True):
        finite = np.abs(theirs[np.isfinite(theirs)])
        np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5 * max(1.0, finite.max(initial=0)))
    assert ts.simulate(program).cycles > 0


def test_jax():
    """On one core, and without loops on four."""
    import jax

    four = ts.Machine.load("mesh-16").replace({"core.count": 4})
    for name, (function, *given) in jax_cases().items():
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*given))]
        graph = ts.from_jax(function, *given)
        for machine in ("edge-8",) if name in LOOPS else ("edge-8", four):
            agree(graph, machine, given, wanted)


def test_jax_on_an_array_that_rounds():
    """Transforms and factors do not follow it: the same values on tpu-v3, whose array multiplies in bf16."""
    import jax

    cases = jax_cases()
    for name in ("two dims", "a prime", "factor", "substitution", "inverse", "pool's gradient"):
        function, *given = cases[name]
        wanted = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.jit(function)(*given))]
        agree(ts.from_jax(function, *given), "tpu-v3", given, wanted)


def test_torch():
    """In one module: an export costs torch a second, whatever is in it."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    linalg, fft = torch.linalg, torch.fft
    window = torch.hann_window(16)
    cases: dict[str, tuple[Any, ...]] = {
        "transform": (lambda x: fft.fft(x).abs(), floats(3, 15)),
        "two dims": (lambda x: fft.rfft2(x).real, floats(2, 6, 10)),
        "short time": (lambda x: torch.stft(x, 16, return_complex=True, window=window).abs(), floats(1, 64)),
        "factor": (linalg.cholesky, SPD),
        "upper factor": (lambda a: linalg.cholesky(a, upper=True), PAIR),
        "status": (lambda a: linalg.cholesky_ex(a)[1], A + A.T - 9 * np.eye(5, dtype=np.float32)),
        "substitution": (lambda a, b: linalg.solve_triangular(a, b, upper=True), SPD, floats(5, 3)),
        "on the right": (lambda a, b: linalg.solve_triangular(a, b, upper=False, left=False), SPD, floats(3, 5)),
        "factor's solution": (lambda b, a: torch.cholesky_solve(b, linalg.cholesky(a)), floats(5, 2), SPD),
        "factor's inverse": (lambda a: torch.cholesky_inverse(linalg.cholesky(a)), SPD),
        "solve": (linalg.solve, PAIR, floats(2, 5, 3)),
        "solve on the right": (lambda a, b: linalg.solve(a, b, left=False), A, floats(2, 5)),
        "determinant": (linalg.det, A),
        "inverse": (linalg.inv, SPD),
        "QR": (lambda a: linalg.qr(a)[1], floats(5, 3)),
    }

    class Module(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            rest = list(args)
            return [function(*[rest.pop(0) for _ in own]) for function, *own in cases.values()]

    given = [one for _, *own in cases.values() for one in own]
    tensors = tuple(map(torch.from_numpy, given))
    agree(ts.from_torch(Module(), tensors), "edge-8", given, [one.numpy() for one in Module()(*tensors)])


def test_what_has_no_meaning_is_named():
    jax = pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")
    with pytest.raises(ts.Unsupported, match="syevd"):
        ts.from_jax(jax.numpy.linalg.eigh, SPD)
    with pytest.raises(ts.Unsupported, match="gesdd"):
        ts.from_jax(jax.numpy.linalg.pinv, SPD)
