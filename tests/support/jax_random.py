"""Random JAX functions of a few inputs: a seed gives the same one again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

UNARY = [jnp.tanh, jnp.sin, jnp.cos, jax.nn.sigmoid, jax.nn.gelu, jax.nn.softplus, jnp.square, jnp.negative, jnp.abs]
BINARY = [jnp.add, jnp.subtract, jnp.multiply, jnp.maximum, jnp.minimum, jnp.arctan2, jnp.logaddexp]
REDUCE = [jnp.sum, jnp.mean, jnp.max, jnp.min, jax.nn.logsumexp]

Step = Callable[[list[Any]], Any]


def pick(rng: random.Random, values: list[Any]) -> int:
    """A value with axes, the later ones more often."""
    candidates = [i for i, value in enumerate(values) if value.ndim > 0]
    return rng.choice(candidates[-3:] + candidates)


def movement(rng: random.Random, value: Any) -> Callable[[Any], Any]:
    """Something that changes the shape."""
    axis = rng.randrange(value.ndim)
    extent = value.shape[axis]
    choice = rng.randrange(8)
    if choice == 0:
        order = rng.sample(range(value.ndim), value.ndim)
        return lambda a: jnp.transpose(a, order)
    if choice == 1:
        return lambda a: a.reshape(-1)
    if choice == 2:
        start = rng.randrange(extent)
        step = rng.choice([1, 2])
        return lambda a: lax.slice_in_dim(a, start, extent, step, axis)
    if choice == 3:
        return lambda a: jnp.concatenate([a, a], axis)
    if choice == 4:
        return lambda a: jnp.flip(a, axis)
    if choice == 5:
        pads = [(rng.choice([0, 1]), rng.choice([-1, 0, 2]), rng.choice([0, 1])) for _ in range(value.ndim)]
        pads = [pad if n > 1 else (0, 0, 0) for pad, n in zip(pads, value.shape, strict=True)]
        return lambda a: lax.pad(a, jnp.float32(0.25), pads)
    if choice == 6:
        indices = np.array([rng.randrange(-extent, extent) for _ in range(rng.randrange(1, 4))])
        return lambda a: jnp.take(a, indices, axis=axis)
    shift = rng.randrange(5)
    return lambda a: jnp.roll(a, shift, axis)


def along(rng: random.Random, value: Any) -> Callable[[Any], Any]:
    """Something along one axis that keeps or drops it."""
    axis = rng.randrange(value.ndim)
    choice = rng.randrange(7)
    if choice == 0:
        function, again, keep = rng.choice(REDUCE), rng.choice(REDUCE), rng.random() < 0.5
        if keep and rng.random() < 0.5:
            return lambda a: again(function(a, axis=axis, keepdims=True), axis=axis, keepdims=True)
        return lambda a: function(a, axis=axis, keepdims=keep)
    if choice == 1:
        return lambda a: jax.nn.softmax(a, axis)
    if choice == 2:
        return lambda a: jnp.cumsum(a, axis)
    if choice == 3:
        return lambda a: jnp.sort(a, axis)
    if choice == 4:
        return lambda a: lax.cummax(a, axis)
    if choice == 5:
        return lambda a: lax.scan(lambda c, t: (0.5 * c + t, c * t), jnp.zeros_like(a[0]), a)[1]
    window = [2 if n > 1 else 1 for n in value.shape]
    return lambda a: lax.reduce_window(a, -jnp.inf, lax.max, window, [1] * a.ndim, "SAME")


def step(rng: random.Random, values: list[Any]) -> Step:
    """One operation on what there is."""
    i = pick(rng, values)
    j = pick(rng, values)
    choice = rng.random()
    if choice < 0.2:
        function = rng.choice(UNARY)
        return lambda v: function(v[i])
    if choice < 0.4:
        binary = rng.choice(BINARY)
        fits = [k for k, value in enumerate(values) if value.shape in (values[i].shape, ())] or [i]
        k = rng.choice(fits)
        return lambda v: binary(v[i], v[k])
    if choice < 0.6:
        move = movement(rng, values[i])
        return lambda v: move(v[i])
    if choice < 0.8:
        reduce = along(rng, values[i])
        return lambda v: reduce(v[i])
    if choice < 0.9:
        return lambda v: jnp.tanh(
            jnp.tensordot(v[i].reshape(v[i].shape[0], -1), v[i].reshape(v[i].shape[0], -1), ([0], [0]))
        )
    return lambda v: jnp.where(
        v[j].reshape(-1)[0] > 0.05, v[i], lax.cond(v[j].reshape(-1)[0] > 0.05, jnp.sin, jnp.cos, v[i])
    )


def function(seed: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function and its arguments."""
    rng, numbers = random.Random(seed), np.random.default_rng(seed)
    shapes = [tuple(rng.randrange(1, 6) for _ in range(rng.randrange(1, 4))) for _ in range(rng.randrange(1, 3))]
    args = tuple(numbers.standard_normal(shape).astype(np.float32) for shape in shapes)
    steps: list[Step] = []
    values: list[Any] = list(args)
    for _ in range(rng.randrange(2, 9)):
        made = step(rng, values)
        shape = jax.eval_shape(lambda *v, made=made: made(list(v)), *values)
        if np.prod(shape.shape) > 4096 or 0 in shape.shape:
            continue
        steps.append(made)
        values.append(jax.ShapeDtypeStruct(shape.shape, shape.dtype))

    def whole(*inputs: Any) -> Any:
        found = list(inputs)
        for made in steps:
            found.append(made(found))
        return found[len(inputs) :] or found

    return whole, args
