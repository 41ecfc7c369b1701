"""Random numbers of StableHLO: bit for bit those of XLA where an algorithm is named, of a stated seed where none is."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts

jax = pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")

U64 = [0x0123456789ABCDEF, 0xFFFFFFFFFFFFFFFD, 0xFFFFFFFFFFFFFFFF]
OTHER = [0xFFFFFFFF12345678, 0x00000000FFFFFFFE, 5]


def module(algorithm: str, words: int, shape: tuple[int, ...], dtype: str) -> str:
    """One rng_bit_generator."""
    state, result = f"tensor<{words}xui64>", "tensor<" + "".join(f"{n}x" for n in shape) + f"{dtype}>"
    return f"""
func.func public @main(%state: {state}) -> ({state}, {result}) {{
  %next, %bits = stablehlo.rng_bit_generator %state, algorithm = {algorithm} : ({state}) -> ({state}, {result})
  return %next, %bits : {state}, {result}
}}
"""


def of_xla(text: str, argument: np.ndarray) -> list[np.ndarray]:
    """What XLA's processor gives for a module."""
    from jaxlib import xla_client

    devices = jax.devices("cpu")[:1]
    wrapped = f"module {{ {text} }}"
    with jax.enable_x64(True):
        loaded = devices[0].client.compile_and_load(
            wrapped, xla_client.DeviceList(tuple(devices)), xla_client.CompileOptions()
        )
        results = loaded.execute_sharded([jax.device_put(argument, devices[0])])
        return [np.asarray(one[0]) for one in results.disassemble_into_single_device_arrays()]


CASES = [
    ("THREE_FRY", 2, (4, 3), "ui32", U64),
    ("THREE_FRY", 2, (5, 1, 7), "i32", OTHER),
    ("PHILOX", 2, (5,), "ui8", U64),
    ("PHILOX", 3, (7, 9), "ui64", U64),
    ("DEFAULT", 2, (7, 9), "ui32", OTHER),
]
MORE = [
    pytest.param(algorithm, words, shape, dtype, start, marks=pytest.mark.slow)
    for algorithm, words in [("THREE_FRY", 2), ("PHILOX", 2), ("PHILOX", 3), ("DEFAULT", 3)]
    for shape, dtype in [((), "ui32"), ((9, 7), "ui16"), ((2, 6), "ui32"), ((3, 3), "ui32"), ((5, 1, 7), "i64")]
    for start in (U64, OTHER)
]


@pytest.mark.parametrize("algorithm, words, shape, dtype, start", CASES + MORE)
def test_bits_are_those_of_xla(algorithm, words, shape, dtype, start):
    text, state = module(algorithm, words, shape, dtype), np.array(start[:words], np.uint64)
    graph = ts.from_stablehlo(text)
    for ours, theirs in zip(ts.reference(graph, [state]).values(), of_xla(text, state), strict=True):
        np.testing.assert_array_equal(ours.view(theirs.dtype), theirs)
    assert any("DEFAULT" in line for line in graph.assumptions) == (algorithm == "DEFAULT")


def test_the_tiled_program_draws_the_same_bits():
    lax, key = jax.lax, np.array([1, 2, 3, 4], np.uint32)

    def draw(key):
        return lax.rng_bit_generator(key, (24, 50), dtype=np.uint32, algorithm=lax.RandomAlgorithm.RNG_THREE_FRY)

    program = ts.compile(ts.from_jax(draw, key), "tpu-v3")
    for ours, theirs in zip(ts.execute(program, (key,)).values(), draw(key), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    result = ts.simulate(program)
    assert max(row["cycles"]["busy"] for row in result.data["units"] if row["kind"] == "vector") > 0


def drawn(distribution: str, dtype: str, low: float, high: float, seed: list[int] | None = None):
    """Numbers of an rng of 100,000 elements."""
    text = f"""
func.func @main(%a: tensor<{dtype}>, %b: tensor<{dtype}>) -> tensor<400x250x{dtype}> {{
  %s = stablehlo.constant dense<[400, 250]> : tensor<2xi64>
  %0 = "stablehlo.rng"(%a, %b, %s) <{{rng_distribution = #stablehlo<rng_distribution {distribution}>}}> :
    (tensor<{dtype}>, tensor<{dtype}>, tensor<2xi64>) -> tensor<400x250x{dtype}>
  return %0 : tensor<400x250x{dtype}>
}}
"""
    graph = ts.from_stablehlo(text)
    kind = np.int32 if dtype == "i32" else np.float32
    given = {"arg0": kind(low), "arg1": kind(high), "a": kind(low), "b": kind(high)}
    inputs = {row["name"]: given[row["name"]] for row in graph.inputs if row["name"] in given}
    if seed:
        inputs["rng_seed"] = np.array(seed, np.uint32)
    return graph, inputs, ts.reference(graph, inputs)["output0"]


def test_distributions_by_a_stated_seed():
    graph, inputs, numbers = drawn("UNIFORM", "f32", 2, 5)
    assert 2 <= numbers.min() < 2.01 and 4.99 < numbers.max() < 5
    assert abs(numbers.mean() - 3.5) < 0.01 and abs(numbers.var() - 0.75) < 0.01
    assert any("rng_seed" in line and "other numbers" in line for line in ts.run(graph).approximations)
    np.testing.assert_array_equal(numbers, drawn("UNIFORM", "f32", 2, 5)[2])
    assert (numbers != drawn("UNIFORM", "f32", 2, 5, [7, 0])[2]).mean() > 0.99
    assert ts.verify(ts.compile(graph), inputs).ok

    numbers = drawn("UNIFORM", "i32", -3, 4)[2]
    assert sorted(set(numbers.reshape(-1).tolist())) == list(range(-3, 4))
    assert np.abs(np.bincount(numbers.reshape(-1) + 3) / 1e5 - 1 / 7).max() < 0.005

    numbers = (drawn("NORMAL", "f32", 1, 2)[2] - 1) / 2
    for power, wanted in ((1, 0), (2, 1), (3, 0), (4, 3)):  # moments of the standard normal distribution
        assert abs((numbers.astype(np.float64) ** power).mean() - wanted) < 0.1


def test_two_draws_differ_and_places_without_a_seed_are_named():
    lax = jax.lax
    both = ts.from_jax(lambda a, b: (lax.rng_uniform(a, b, (1000,)), lax.rng_uniform(a, b, (1000,))), 0.0, 1.0)
    first, second = ts.reference(both, {"a": np.float32(0), "b": np.float32(1)}).values()
    assert (first != second).mean() > 0.99
    with pytest.raises(ts.Unsupported, match="inside a loop"):
        ts.from_jax(lambda a: lax.fori_loop(0, 4, lambda i, c: c + lax.rng_uniform(0.0, 1.0, (8,)), a), np.ones(8))
