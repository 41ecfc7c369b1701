"""Batch normalization of StableHLO, which JAX does not emit: values by the specification's formulas in numpy."""

from __future__ import annotations

import numpy as np
import pytest

import tilesim as ts

pytest.importorskip("jax", reason="needs jax: pip install 'tilesim[jax]'")

#: shape, axis of the features; extents of 1 and a batch of one position among them
SHAPES = [((4, 3), 1), ((2, 5, 6), 0), ((3, 4, 2, 5), 2), ((7, 1), 1), ((1, 6), 1), ((5,), 0), ((2, 3, 1, 4), 3)]
EPSILON = 0.125


def tensor(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join([*map(str, shape), 'f32'])}>"


def module(name: str, kinds: list[str], results: list[str], feature: int) -> str:
    """A function that is one operation."""
    takes = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(kinds))
    gives = ", ".join(results)
    outs = ", ".join(f"%r#{i}" for i in range(len(results))) if len(results) > 1 else "%r"
    count = f":{len(results)}" if len(results) > 1 else ""
    operands = ", ".join(f"%a{i}" for i in range(len(kinds)))
    return f"""
module @one {{
  func.func public @main({takes}) -> ({gives}) {{
    %r{count} = "stablehlo.{name}"({operands}) <{{
      epsilon = {EPSILON} : f32, feature_index = {feature} : i64}}> : ({", ".join(kinds)}) -> ({gives})
    return {outs} : {gives}
  }}
}}
"""


def arrays(shape: tuple[int, ...], feature: int, count: int) -> tuple[np.ndarray, list[np.ndarray]]:
    random = np.random.default_rng([*shape, feature])
    x = random.normal(2, 3, shape).astype(np.float32)
    return x, [random.uniform(0.5, 3, shape[feature]).astype(np.float32) for _ in range(count)]


def wide(part: np.ndarray, x: np.ndarray, feature: int) -> np.ndarray:
    return part.astype(np.float64).reshape([-1 if axis == feature else 1 for axis in range(x.ndim)])


def run(text: str, given: list[np.ndarray]) -> list[np.ndarray]:
    return list(ts.reference(ts.from_stablehlo(text), given).values())


def close(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4 * max(1, np.abs(theirs).max()))


@pytest.mark.parametrize(("shape", "feature"), SHAPES)
def test_inference(shape, feature):
    x, parts = arrays(shape, feature, 4)
    scale, offset, mean, variance = (wide(part, x, feature) for part in parts)
    text = module(
        "batch_norm_inference", [tensor(shape), *[tensor(shape[feature : feature + 1])] * 4], [tensor(shape)], feature
    )
    close(run(text, [x, *parts]), [(x - mean) / np.sqrt(variance + EPSILON) * scale + offset])


@pytest.mark.parametrize(("shape", "feature"), SHAPES)
def test_training(shape, feature):
    x, parts = arrays(shape, feature, 2)
    others = tuple(axis for axis in range(x.ndim) if axis != feature)
    mean, variance = x.astype(np.float64).mean(others), x.astype(np.float64).var(others)
    scale, offset, m, v = (wide(part, x, feature) for part in (*parts, mean, variance))
    one = tensor(shape[feature : feature + 1])
    text = module("batch_norm_training", [tensor(shape), one, one], [tensor(shape), one, one], feature)
    close(run(text, [x, *parts]), [(x - m) / np.sqrt(v + EPSILON) * scale + offset, mean, variance])


@pytest.mark.parametrize(("shape", "feature"), SHAPES)
def test_gradient_is_the_slope(shape, feature):
    """With the statistics of the batch: differences of the training form in double precision."""
    x, (scale, weight) = arrays(shape, feature, 2)
    others = tuple(axis for axis in range(x.ndim) if axis != feature)
    gradient = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    mean, variance = x.astype(np.float64).mean(others), x.astype(np.float64).var(others)

    def loss(x: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> float:
        m, v = x.mean(others, keepdims=True), x.var(others, keepdims=True)
        y = (x - m) / np.sqrt(v + EPSILON) * wide(scale, x, feature) + wide(offset, x, feature)
        return float((y * gradient).sum())

    given = [x.astype(np.float64), scale.astype(np.float64), weight.astype(np.float64)]
    slopes = []
    for index, values in enumerate(given):
        slope = np.zeros_like(values)
        for at in np.ndindex(values.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = [part.copy() for part in given]
                moved[index][at] += step
                ends.append(loss(*moved))
            slope[at] = (ends[0] - ends[1]) / 2e-5
        slopes.append(slope)
    one = tensor(shape[feature : feature + 1])
    text = module("batch_norm_grad", [tensor(shape), one, one, one, tensor(shape)], [tensor(shape), one, one], feature)
    close(run(text, [x, scale, mean.astype(np.float32), variance.astype(np.float32), gradient]), slopes)
