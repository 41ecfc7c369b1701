"""Transforms, factors, substitutions and gradients of pooling: tiled, on every machine, within derived bounds."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import few_cores

MACHINES = ["edge-8", "gemmini-16", "mesh-16", "tpu-v3"]
F32 = 2.0**-24


def graph_of(kind: str, arrays: dict[str, np.ndarray], results: int = 1, **attributes) -> ts.Graph:
    b = ts.GraphBuilder(kind)
    names = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64", "int32": "i32", "int8": "i8"}
    operands = [b.input(name, array.shape, names[array.dtype.name]) for name, array in arrays.items()]
    found = b.op(kind, *operands, name=kind, results=results, **attributes)
    for number, value in enumerate(found if isinstance(found, tuple) else (found,)):
        b.output(value, f"y{number}")
    return b.build()


def tiled(graph: ts.Graph, machine: str, arrays: dict[str, np.ndarray], timed: bool = True) -> list[np.ndarray]:
    """Values of the tiled program, which verifies, races with nothing and takes time."""
    program = ts.compile(graph, few_cores(machine))
    check = ts.verify(program, arrays)
    assert check.ok, (machine, [row for row in check.rows if not row["ok"]])
    if timed:
        result = ts.simulate(program)
        assert result.cycles > 0
    return list(ts.execute(program, arrays, order="random", seed=3).values())


# --- gradients of pooling ---


def pooling_gradient(x, source, window, strides, pads, largest):
    """By the definition: the first extreme element of each window, in the window's order."""
    y = np.zeros(x.shape, np.float64)
    for position in np.ndindex(*source.shape):
        start = [p * s - low for p, s, low in zip(position, strides, pads[::2], strict=True)]
        best = None
        for tap in np.ndindex(*window):
            place = tuple(a + b for a, b in zip(start, tap, strict=True))
            if any(not 0 <= i < n for i, n in zip(place, x.shape, strict=True)):
                continue
            if best is None or (x[place] > x[best] if largest else x[place] < x[best]):
                best = place
        if best is not None:
            y[best] += float(source[position])
    return y


def pooling_case(random: np.random.Generator, dtype) -> tuple:
    """Ties, windows longer and shorter than their steps, pads of a window and more, axes of one element."""
    rank = int(random.integers(1, 5))
    shape = [int(random.integers(1, 12 if rank < 3 else 7)) for _ in range(rank)]
    window = [int(random.integers(1, 5)) for _ in range(rank)]
    strides = [int(random.integers(1, 5)) for _ in range(rank)]
    pads = [int(random.integers(0, 3)) for _ in range(2 * rank)]
    out = []
    for axis in range(rank):
        reach = shape[axis] + pads[2 * axis] + pads[2 * axis + 1]
        window[axis] = min(window[axis], reach)
        out.append((reach - window[axis]) // strides[axis] + 1)
    x = random.integers(-2, 3, shape).astype(dtype)
    source = random.integers(-3, 4, out).astype(dtype)
    if random.random() < 0.3 and np.dtype(dtype).kind == "f":
        x[tuple(random.integers(0, n) for n in shape)] = random.choice([np.inf, -np.inf])
    return x, source, window, strides, pads, str(random.choice(["maximum", "minimum"]))


@pytest.mark.parametrize("machine", MACHINES)
def test_gradients_of_pooling(machine):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    random = np.random.default_rng(MACHINES.index(machine))
    for number in range(10):
        dtype = [np.float32, ml_dtypes.bfloat16, np.float16, np.int32, np.int8][number % 5]
        x, source, window, strides, pads, select = pooling_case(random, dtype)
        arrays = {"x": x, "source": source}
        graph = graph_of("window_scatter", arrays, window=window, strides=strides, pads=pads, select=select)
        (got,) = tiled(graph, machine, arrays)
        wanted = pooling_gradient(x, source, window, strides, pads, select == "maximum")
        np.testing.assert_array_equal(got.astype(np.float64), wanted, err_msg=f"{x.shape} {window} {strides} {pads}")


@pytest.mark.parametrize("machine", ["edge-8", "mesh-16"])
def test_a_gradient_of_pooling_in_several_tiles(machine):
    """Windows over the border of tiles: each element gets what all of them give."""
    random = np.random.default_rng(9)
    x = random.integers(-20, 20, (1, 9, 61, 67)).astype(np.float32)
    source = random.integers(-5, 6, (1, 9, 31, 34)).astype(np.float32)
    arrays = {"x": x, "source": source}
    window, strides, pads = [1, 1, 3, 3], [1, 1, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1]
    graph = graph_of("window_scatter", arrays, window=window, strides=strides, pads=pads, select="maximum")
    (got,) = tiled(graph, machine, arrays)
    np.testing.assert_array_equal(got, pooling_gradient(x, source, window, strides, pads, True))


# --- Fourier transforms ---

EXTENTS = [1, 2, 3, 5, 12, 49, 97, 128, 243, 1000, 1031]


def transform_bound(extent: int, size: float) -> float:
    """Of the error's 2-norm. A stage of radix r sums 2 r products whose factors are rounded: gamma(2 r + 2) of the norm
    of absolute values, at most sqrt(2 r) times the stage's gain; a circular convolution takes three transforms of at
    most four times the elements, whose chirps have modulus 1."""
    radix = min(extent, 1024)
    stages = max(1.0, np.log2(4 * extent))
    gamma = (2 * radix + 2) * F32 / (1 - (2 * radix + 2) * F32)
    return 3 * 2 * stages * gamma * np.sqrt(2 * radix) * np.sqrt(extent) * size


@pytest.mark.parametrize("machine", MACHINES)
def test_transforms(machine):
    random = np.random.default_rng(4)
    for number, extent in enumerate(EXTENTS):
        if extent > 100 and (number + MACHINES.index(machine)) % 4:
            continue  # the long ones on one of the machines each
        shape = [(extent,), (3, extent), (extent, 5), (2, extent, 3)][number % 4]
        dim = shape.index(extent)
        arrays = {"re": random.standard_normal(shape).astype(np.float32)}
        if number % 3:
            arrays["im"] = random.standard_normal(shape).astype(np.float32)
        inverse = bool(number % 2)
        graph = graph_of("fft", arrays, results=2, dim=dim, inverse=inverse)
        re, im = tiled(graph, machine, arrays, timed=number % 4 == 0)
        x = arrays["re"].astype(np.float64) + 1j * arrays.get("im", np.zeros(())).astype(np.float64)
        wanted = (np.fft.ifft if inverse else np.fft.fft)(x, axis=dim)
        error = np.abs(re + 1j * im.astype(np.float64) - wanted)
        bound = transform_bound(extent, float(np.linalg.norm(x))) / (extent if inverse else 1)
        assert np.linalg.norm(error) <= bound, (extent, np.linalg.norm(error), bound)
        assert np.linalg.norm(error) <= 2e-6 * np.linalg.norm(wanted), extent  # far below: f32, not the array's bf16


@pytest.mark.parametrize("part", [0, 1])
def test_half_of_a_transform_costs_less(part):
    """Where only one part is read, the last product makes only that one."""

    def cycles(wanted: list[int]) -> int:
        b = ts.GraphBuilder("half")
        found = b.op("fft", b.input("re", (16, 128)), b.input("im", (16, 128)), results=2, dim=1)
        for number in wanted:
            b.output(found[number], f"y{number}")
        return ts.simulate(ts.compile(b.build(), "edge-8")).cycles

    assert cycles([part]) < cycles([0, 1])


def least_cycles(extent: int, rows: int, machine: str) -> float:
    """By products with matrices of primes, which have fewer multiplications than those of any other factors, on all
    cells of all arrays and all lanes at once, at the highest rate that the machine has for any type."""
    factors, rest = 0, extent
    for prime in range(2, extent + 1):
        while rest % prime == 0:
            factors, rest = factors + prime, rest // prime
    core = ts.Machine.load(machine).to_dict()["core"]
    array, vector = core["array"], core["vector"]
    rate = array["count"] * array["rows"] * array["columns"] * max(array["rates"].values())
    rate += vector["lanes"] * vector["sublanes"] * vector["issue"]
    return float(4 * rows * extent * factors / (rate * core["count"]))


@pytest.mark.parametrize("machine", MACHINES)
def test_transforms_take_their_time(machine):
    """Not less than their multiplications on all units, nor fewer bytes than their operands and results."""
    for extent, rows in ((64, 32), (1024, 16), *([(4096, 8)] if machine == "tpu-v3" else [])):
        arrays = {"re": np.ones((rows, extent), np.float32), "im": np.ones((rows, extent), np.float32)}
        result = ts.simulate(ts.compile(graph_of("fft", arrays, results=2, dim=1), machine))
        assert result.cycles >= least_cycles(extent, rows, machine)
        assert result.memory_bytes >= 4 * rows * extent * 4


# --- factors and substitutions ---


def positive(random: np.random.Generator, batch: tuple[int, ...], n: int) -> np.ndarray:
    a = random.standard_normal((*batch, n, n))
    return (a @ np.swapaxes(a, -1, -2) + n * np.eye(n)).astype(np.float32)


@pytest.mark.parametrize("machine", MACHINES)
def test_factors(machine):
    random = np.random.default_rng(1)
    for number, (batch, n) in enumerate([((), 1), ((), 2), ((3,), 7), ((2, 2), 9), ((), 65), ((2,), 40), ((), 150)]):
        spd, lower = positive(random, batch, n), bool(number % 2)
        given = np.tril(spd) + np.triu(np.full_like(spd, 77.0), 1) if lower else spd  # the other triangle is not read
        graph = graph_of("linear_solve", {"a": given}, mode="cholesky", lower=lower)
        (got,) = tiled(graph, machine, {"a": given}, timed=number % 3 == 0)
        wanted = np.linalg.cholesky(spd.astype(np.float64))
        wanted = wanted if lower else np.swapaxes(wanted, -1, -2)
        np.testing.assert_allclose(got, wanted, rtol=0, atol=20 * (n + 1) * F32 * np.abs(wanted).max())
        assert not np.any(np.triu(got, 1) if lower else np.tril(got, -1))


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_not_positive_definite_is_nan(machine):
    """From the pivot that fails, as the reference kernel and LAPACK leave it; rows before it are numbers."""
    a = np.diag([4.0, 9.0, -1.0, 16.0]).astype(np.float32)
    (got,) = tiled(graph_of("linear_solve", {"a": a}, mode="cholesky"), machine, {"a": a})
    np.testing.assert_array_equal(np.diag(got)[:2], [2, 3])
    assert np.isnan(got[2, 2]) and np.isnan(got[3, 2:]).all() and not np.isnan(got[:2]).any()


@pytest.mark.parametrize("machine", MACHINES)
def test_substitutions(machine):
    random = np.random.default_rng(2)
    cases = [((), 1, 1), ((), 3, 4), ((2,), 9, 1), ((2, 2), 5, 3), ((), 33, 7), ((), 70, 5), ((), 130, 9)]
    for number, (batch, n, m) in enumerate(cases * 2):
        lower, left, unit, transpose = (bool((number * 7 + 3 * (number // 7)) >> bit & 1) for bit in range(4))
        a = random.standard_normal((*batch, n, n)).astype(np.float32) / np.float32(n)
        a += (np.eye(n) * (1 + random.random(n))).astype(np.float32)
        b = random.standard_normal((*batch, n, m) if left else (*batch, m, n)).astype(np.float32)
        attributes = {"lower": lower, "left_side": left, "unit_diagonal": unit, "transpose_a": transpose}
        arrays = {"a": a, "b": b}
        graph = graph_of("linear_solve", arrays, mode="triangular", **attributes)
        (got,) = tiled(graph, machine, arrays, timed=number % 4 == 0)
        t = (np.tril(a) if lower else np.triu(a)).astype(np.float64)
        if unit:
            t = np.where(np.eye(n, dtype=bool), 1.0, t)
        t = np.swapaxes(t, -1, -2) if transpose else t
        wide = b.astype(np.float64)
        wanted = np.linalg.solve(t, wide) if left else np.linalg.solve(t.swapaxes(-1, -2), wide.swapaxes(-1, -2))
        wanted = wanted if left else wanted.swapaxes(-1, -2)
        scale = np.abs(np.linalg.inv(t)).sum(-1).max() * np.abs(t).sum(-1).max()
        np.testing.assert_allclose(
            got, wanted, rtol=0, atol=4 * n * F32 * scale * np.abs(wanted).max(), err_msg=f"{n} {m} {attributes}"
        )


def test_a_long_factor_takes_the_time_of_its_products():
    """Twice the rows take at least four times as long on few units, and never less than their multiplications."""
    cycles = []
    for n in (128, 256, 512):
        b = ts.GraphBuilder("factor")
        b.output(b.op("linear_solve", b.input("a", (n, n)), mode="cholesky", name="factor"), "l")
        cycles.append(ts.simulate(ts.compile(b.build(), "edge-8")).cycles)
        assert cycles[-1] >= n**3 / 6 / 64  # an 8 x 8 array, one product per cell and cycle at most
    assert cycles[1] > 3 * cycles[0] and cycles[2] > 3 * cycles[1]


@pytest.mark.parametrize("mode", ["cholesky", "triangular"])
@pytest.mark.parametrize("smallest", [0.2, 0.01, 1e-5])
def test_what_verify_allows_follows_the_matrix(mode, smallest):
    """Not far above what f32 gives, so that a wrong element is seen, and above it near to singular too."""
    random, n = np.random.default_rng(8), 24
    q, _ = np.linalg.qr(random.standard_normal((n, n)))
    a = (q * np.geomspace(smallest, 1.0, n)) @ q.T
    a = (a + a.T) / 2
    arrays = {"a": (a if mode == "cholesky" else np.linalg.cholesky(a)).astype(np.float32)}
    if mode == "triangular":
        arrays["b"] = random.standard_normal((n, 3)).astype(np.float32)
    (row,) = ts.verify(ts.compile(graph_of("linear_solve", arrays, mode=mode), "edge-8"), arrays).rows
    assert row["ok"]
    if smallest > 1e-3:
        assert row["ratio"] > 0.005 and 0 < row["bound"] < 1e-4 * row["scale"]
