"""Paddings that are views: what reads one reads its operand, with the value where it reaches outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilesim as ts
from support.program_checks import few_cores

Random = np.random.Generator


def views(b: ts.GraphBuilder, x: Any, known: np.ndarray, rng: Random, value: float) -> tuple[Any, np.ndarray]:
    """Views of x, a padding among them, in any order."""
    for kind in rng.permutation(["pad", "transpose", "part", "split"]):
        if kind == "pad":
            low, high = ([int(n) for n in rng.integers(0 if 1 in known.shape else -1, 3, known.ndim)] for _ in range(2))
            number = [b.weight("value", [], data=np.float32(value), trainable=False)] if value else []
            x = b.op("pad", x, *number, low=low, high=high)
            around = [(max(a, 0), max(c, 0)) for a, c in zip(low, high, strict=True)]
            known = np.pad(known, around, constant_values=value)
            kept = [slice(max(-a, 0), n - max(-c, 0)) for a, c, n in zip(low, high, known.shape, strict=True)]
            known = known[tuple(kept)]
        elif kind == "transpose":
            order = [int(axis) for axis in rng.permutation(known.ndim)]
            x, known = b.op("transpose", x, permutation=order), known.transpose(order)
        elif kind == "part":
            start = [int(rng.random() < 0.3) for _ in known.shape]
            x = b.op("slice", x, start=start, limit=list(known.shape), stride=[1] * known.ndim)
            known = known[tuple(slice(a, None) for a in start)]
        elif known.shape[-1] % 2 == 0:
            shape = [*known.shape[:-1], known.shape[-1] // 2, 2]
            x, known = b.op("reshape", x, shape=shape), known.reshape(shape)
    return x, known


def case(seed: int) -> tuple[ts.Graph, list[np.ndarray], dict[str, np.ndarray]]:
    """Elementwise operations, a reduction and a concat of shifted parts that read the views."""
    rng = np.random.default_rng(seed)
    b = ts.GraphBuilder("padded")
    data = rng.standard_normal([int(n) for n in rng.integers(3, 7, int(rng.integers(1, 4)))]).astype(np.float32)
    x, known = b.input("x", list(data.shape)), data
    if rng.random() < 0.5:  # what the program computes, besides what it is given
        x, known = b.apply("negate", x), -known
    v, known = views(b, x, known, rng, float(rng.choice([0, 0, 2.5])))
    w = rng.standard_normal(known.shape).astype(np.float32)
    axis = int(rng.integers(known.ndim))
    shifts = [np.s_[(slice(None),) * axis + (slice(i, known.shape[axis] - 1 + i),)] for i in range(2)]
    b.output(v * 2 + b.input("w", list(w.shape)), "sum")
    b.output(b.op("reduce", v, dims=[axis], combiner="maximum"), "most")
    b.output(b.op("concat", *(v[shift] for shift in shifts), dim=axis), "parts")
    wanted = {"sum": known * 2 + w, "most": known.max(axis), "parts": np.concatenate([known[s] for s in shifts], axis)}
    return b.build(), [data, w], wanted


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 60), marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", ["edge-8", "mesh-16", "tpu-v3"])
def test_values_of_padded_views(machine: str, seeds: range) -> None:
    for seed in seeds:
        graph, given, wanted = case(seed)
        for lowering in ("native", "best") if machine == "tpu-v3" else ("best",):
            program = ts.compile(graph, few_cores(machine), lowering=lowering)
            for name, found in ts.execute(program, given).items():
                np.testing.assert_allclose(np.asarray(found), wanted[name], 1e-5, 1e-5, err_msg=str((seed, name)))
            assert ts.verify(program).ok, (seed, lowering)


def test_what_may_read_a_padding_needs_no_kernel_for_it() -> None:
    """A sum of paddings is one kernel; where elements lie between those of the operand, or a sort reads, it is not."""
    for interior, reader, kernels in ((0, "add", 1), (1, "add", 2), (0, "sort", 2)):
        b = ts.GraphBuilder("padded")
        x = b.input("x", [6, 6])
        v = b.op("pad", x, low=[1, 2], high=[2, 1], interior=[interior, 0])
        b.output(v + b.input("w", v.shape) if reader == "add" else b.op("sort", v, dim=1), "y")
        assert len(ts.compile(b.build(), "edge-8").kernels) == kernels
